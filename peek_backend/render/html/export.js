// What is in view as SVG, PNG or DOT. The SVG is made by the canvas's own drawing code on a context that writes elements.

import { h, download } from "./dom.js";

const XML = { "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;" };
// Control characters and lone surrogates are not XML.
const clean = (text) =>
  text.replace(
    /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
    "\ufffd",
  );
const xml = (text) => clean(String(text)).replace(/[<>&"]/g, (c) => XML[c]);
const num = (v) => String(Math.round(v * 100) / 100);

/** The part of CanvasRenderingContext2D that canvas.js uses, as SVG text. */
class SvgContext {
  /** `measure(text, font)` is a text's width; `left` and `right` are how far texts reach. */
  constructor(measure) {
    this.out = [];
    this.measure = measure;
    this.left = Infinity;
    this.right = -Infinity;
    this.path = "";
    this.stack = [];
    this.matrix = [1, 0, 0];
    Object.assign(this, {
      fillStyle: "#000",
      strokeStyle: "#000",
      lineWidth: 1,
      globalAlpha: 1,
      font: "12px sans-serif",
      textAlign: "left",
      dash: [],
    });
  }

  save() {
    this.stack.push([this.matrix, this.globalAlpha]);
  }
  restore() {
    [this.matrix, this.globalAlpha] = this.stack.pop();
  }
  translate(x, y) {
    const [k, a, b] = this.matrix;
    this.matrix = [k, a + k * x, b + k * y];
  }
  scale(k) {
    const [m, a, b] = this.matrix;
    this.matrix = [m * k, a, b];
  }
  setLineDash(d) {
    this.dash = d;
  }
  p(x, y) {
    const [k, a, b] = this.matrix;
    return `${num(k * x + a)} ${num(k * y + b)}`;
  }
  beginPath() {
    this.path = "";
  }
  moveTo(x, y) {
    this.path += `M${this.p(x, y)}`;
  }
  lineTo(x, y) {
    this.path += `L${this.p(x, y)}`;
  }
  bezierCurveTo(a, b, c, d, e, f) {
    this.path += `C${this.p(a, b)} ${this.p(c, d)} ${this.p(e, f)}`;
  }
  roundRect(x, y, w, h2, r) {
    const s = num(this.matrix[0] * r);
    const arc = (px, py) => `A${s} ${s} 0 0 1 ${this.p(px, py)}`;
    this.path += `M${this.p(x + r, y)}L${this.p(x + w - r, y)}${arc(x + w, y + r)}L${this.p(x + w, y + h2 - r)}${arc(x + w - r, y + h2)}L${this.p(x + r, y + h2)}${arc(x, y + h2 - r)}L${this.p(x, y + r)}${arc(x + r, y)}Z`;
  }
  alpha() {
    return this.globalAlpha < 1 ? ` opacity="${num(this.globalAlpha)}"` : "";
  }
  fill() {
    if (this.path) this.out.push(`<path d="${this.path}" fill="${xml(this.fillStyle)}"${this.alpha()}/>`);
  }
  stroke() {
    if (!this.path) return;
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.map(num).join(" ")}"` : "";
    this.out.push(
      `<path d="${this.path}" fill="none" stroke="${xml(this.strokeStyle)}" stroke-width="${num(this.lineWidth * this.matrix[0])}"${dash}${this.alpha()}/>`,
    );
  }
  fillRect(x, y, w, h2) {
    const [k] = this.matrix;
    const [px, py] = this.p(x, y).split(" ");
    this.out.push(
      `<rect x="${px}" y="${py}" width="${num(w * k)}" height="${num(h2 * k)}" fill="${xml(this.fillStyle)}"${this.alpha()}/>`,
    );
  }
  fillText(text, x, y) {
    const [, weight = "", size, family] = this.font.match(/^(?:(\d+) )?([\d.]+)px (.*)$/);
    const [px, py] = this.p(x, y).split(" ");
    const wide = this.measure(text, this.font) * this.matrix[0];
    const start = Number(px) - wide * ({ center: 0.5, right: 1 }[this.textAlign] ?? 0);
    this.left = Math.min(this.left, start);
    this.right = Math.max(this.right, start + wide);
    const anchor = { left: "", center: ' text-anchor="middle"', right: ' text-anchor="end"' }[this.textAlign] ?? "";
    this.out.push(
      `<text x="${px}" y="${py}" font-family="${xml(family)}" font-size="${num(size * this.matrix[0])}"${weight ? ` font-weight="${weight}"` : ""} fill="${xml(this.fillStyle)}"${anchor}${this.alpha()} xml:space="preserve">${xml(text)}</text>`,
    );
  }
}

export function svgText(canvas) {
  const { x0, y0, x1, y1 } = canvas.view;
  const { layout, tree } = canvas.scene;
  const box = layout.box(tree.root);
  const ruler = document.createElement("canvas").getContext("2d");
  const ctx = new SvgContext((text, font) => ((ruler.font = font), ruler.measureText(text).width));
  canvas.paint(ctx, canvas.camera.k);
  // The words of an edge may stand beside all boxes.
  const left = Math.max(x0, Math.min(-box.left, ctx.left) - 12);
  const top = Math.max(y0, -12);
  const right = Math.min(x1, Math.max(box.right, ctx.right) + 12);
  const bottom = Math.min(y1, box.height + 12);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${[left, top, right - left, bottom - top].map(num).join(" ")}" width="${num(right - left)}" height="${num(bottom - top)}"><rect x="${num(left)}" y="${num(top)}" width="100%" height="100%" fill="${xml(canvas.colours.canvas)}"/>${ctx.out.join("\n")}</svg>\n`;
}

const dot = (text) =>
  `"${clean(String(text))
    .replace(/[\\"]/g, "\\$&")
    .replace(/[\r\n\u2028\u2029]+/g, "\\n")}"`;

/** Boxes in view as DOT: open containers are clusters, edges run between what shows. */
export function dotText(canvas) {
  const { layout, tree, sizes } = canvas.scene;
  const lines = ["digraph peek {", "  rankdir=TB; compound=true; node [shape=box, style=rounded];"];
  const shown = new Set();
  const visit = (item, x, y, box, pad) => {
    if (item !== tree.root && !canvas.visible(x, y, box)) return;
    if (!box.content) {
      const group = tree.isGroup(item);
      const text = group ? sizes.groupText(item) : sizes.leafText(item);
      lines.push(
        `${pad}n${item} [label=${dot(`${text.title}${text.times ? ` ×${text.times}` : ""}\n${group ? text.meta : text.value}`)}];`,
      );
      shown.add(item);
      return;
    }
    if (item !== tree.root)
      lines.push(`${pad}subgraph cluster_${item} {`, `${pad}  label=${dot(sizes.groupText(item).title)};`);
    const { kids, boxes, x: xs, y: ys } = box.content;
    const top = y + (item === tree.root ? 0 : 26);
    kids.forEach((kid, k) => visit(kid, x + xs[k], top + ys[k], boxes[k], pad + "  "));
    if (item !== tree.root) lines.push(`${pad}}`);
  };
  visit(tree.root, 0, 0, layout.box(tree.root), "  ");
  const graph = tree.graph;
  const seen = new Set();
  const at = (node) => layout.find(node).item;
  // From the graph and not from the lines that are drawn: those of a value with many users are ports there.
  for (let u = 0; u < graph.n; u++) {
    if (tree.chip[u]) continue;
    const a = at(u);
    if (!shown.has(a)) continue;
    for (const v of graph.users(u)) {
      const b = at(v);
      const key = `${a} ${b}`;
      if (a === b || !shown.has(b) || seen.has(key)) continue;
      seen.add(key);
      lines.push(`  n${a} -> n${b} [label=${dot(graph.valueText(u))}];`);
    }
  }
  return lines.concat("}", "").join("\n");
}

function exportView(app, kind) {
  const { canvas } = app.graphView;
  const name = `${app.graph.title.replace(/[^\w.-]+/g, "_").slice(0, 60) || "graph"}.${kind}`;
  if (kind === "svg") download(name, "image/svg+xml", svgText(canvas));
  else if (kind === "dot") download(name, "text/vnd.graphviz", dotText(canvas));
  else canvas.element.toBlob((blob) => download(name, "image/png", blob), "image/png");
  app.say(`Saved ${name}`);
}

export function exportMenu(app) {
  return h(
    "details.menu",
    h("summary", { title: "Save what is in view" }, "Save"),
    h(
      "div",
      ["svg", "png", "dot"].map((kind) =>
        h(
          "button.plain",
          {
            onclick: (e) => {
              e.target.closest("details").open = false;
              exportView(app, kind);
            },
          },
          kind.toUpperCase(),
        ),
      ),
    ),
  );
}
