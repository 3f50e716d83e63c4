// The graph view: canvas, pointer, keyboard, highlights, overlays and legend.

import { Canvas } from "./canvas.js";
import { bytesText } from "./data.js";
import { fades, h, fill, icon, ICONS, perFrame } from "./dom.js";
import { exportMenu } from "./export.js";
import { Layout } from "./layout.js";
import { overlay, OVERLAYS } from "./overlays.js";
import { Pointer } from "./pointer.js";
import { Sizes } from "./sizes.js";
import { packNumbers, unpackNumbers } from "./state.js";
import { Tree } from "./tree.js";

/** What a diff does to a node; drawn as the border of its box. */
const EDITS = ["added", "removed", "changed"];
/** Boxes that expanding a level may bring into the picture. */
const MAX_SHOWN = 400_000;

export class GraphView {
  constructor(app) {
    this.app = app;
    this.canvasEl = h("canvas", {
      tabIndex: 0,
      role: "application",
      "aria-label": "Graph. Arrow keys walk along edges, Enter opens a container, the table view lists every node.",
    });
    this.miniEl = h("canvas.mini", { "aria-hidden": "true" });
    this.tip = h("div.tip", { hidden: true });
    this.legend = h("div.legend.fades", { role: "list", "aria-label": "What the colours mean" });
    fades(this.legend);
    this.board = h("div.board", this.canvasEl, this.miniEl, this.tip);
    this.element = h("section.graph", this.tools(), this.board);
    this.scenes = new Map();
    this.draw = perFrame(() => this.paint());
    new ResizeObserver(() => this.resized()).observe(this.board);
    this.listen();
  }

  /** The panel came or went, or the window changed: what is selected stays in view. */
  resized() {
    if (!this.canvas || !this.element.isConnected) return;
    this.canvas.resize();
    if (!this.fitted) this.fitOnce();
    else this.follow();
    this.draw();
  }

  tools() {
    const button = (name, label, act) =>
      h("button.tool", { title: label, "aria-label": label, onclick: act }, icon(ICONS[name]));
    this.overlaySelect = h("select", {
      "aria-label": "Colour nodes by",
      onchange: (e) => {
        this.app.set({ overlay: e.target.value });
        this.update();
      },
    });
    const buttons = [
      button("expand", "Expand one level (e)", () => this.level(1)),
      button("collapse", "Collapse one level (c)", () => this.level(-1)),
      button("plus", "Zoom in (+)", () => this.zoom(1.3)),
      button("minus", "Zoom out (-)", () => this.zoom(1 / 1.3)),
      button("fit", "Fit all (0)", () => this.fitAll()),
    ];
    const by = h("label.muted.by", h("span", "Colour by"), this.overlaySelect);
    return h("div.bar.tools", by, this.legend, h("div.buttons", buttons, exportMenu(this.app)));
  }

  /** The scene of a graph, made once: its tree, layout and what is open. */
  scene(graph = this.app.graph) {
    let scene = this.scenes.get(graph.at);
    if (!scene) {
      const tree = new Tree(graph);
      const sizes = new Sizes(tree, (this.measure ??= measurer()));
      const kind = graph.cols.kind;
      const open = tree.defaultOpen();
      scene = {
        graph,
        tree,
        sizes,
        layout: new Layout(tree, sizes, open),
        initial: new Set(open),
        kindOf: (i) => kind[i],
        kindNames: this.app.kindNames,
        selected: null,
        camera: null,
      };
      this.scenes.set(graph.at, scene);
    }
    return scene;
  }

  get current() {
    return this.scene();
  }

  update() {
    this.canvas ??= new Canvas(this.canvasEl, this.miniEl);
    const scene = this.current;
    const { state } = this.app;
    if (this.canvas.scene !== scene) {
      this.canvas.show(scene);
      this.canvas.resize();
      this.fitted = false;
    }
    this.applyOpen(scene, state.open);
    scene.selected = state.selected;
    scene.hits = this.app.hits;
    scene.groupHits = this.app.hits ? groupMask(scene.tree, this.app.hits) : null;
    scene.mark = this.app.diffMarks?.(scene);
    this.highlight(scene, state);
    this.overlays(scene, state);
    this.fitOnce();
    this.draw();
  }

  /** Opens and closes what the hash names: containers whose state differs from the first view. */
  applyOpen(scene, packed) {
    if ((packed ?? "") === (scene.packed ?? "")) return;
    const open = new Set(scene.initial);
    const { N, G } = scene.tree;
    for (const g of unpackNumbers(packed, G)) {
      const item = g + N;
      if (open.has(item)) open.delete(item);
      else if (item !== scene.tree.root) open.add(item);
    }
    scene.layout.setOpen(open);
    scene.packed = packed ?? "";
  }

  remember(scene) {
    const {
      initial,
      layout: { open },
      tree: { N },
    } = scene;
    const changed = [];
    for (const i of open) if (!initial.has(i)) changed.push(i - N);
    for (const i of initial) if (!open.has(i)) changed.push(i - N);
    const packed = packNumbers(changed);
    scene.packed = packed;
    this.app.set({ open: packed });
  }

  fitOnce() {
    if (this.fitted || !this.element.isConnected || this.canvas.w < 20) return;
    this.fitted = true;
    const scene = this.current;
    const saved = scene.camera ?? this.parseCamera(this.app.state.camera);
    if (saved) this.canvas.camera = { ...saved };
    else if (this.app.state.selected !== null) {
      this.canvas.fit(undefined, 0, 0, { readable: true });
      this.centre(this.app.state.selected);
    } else this.canvas.fit(undefined, 0, 0, { readable: true });
  }

  parseCamera(text) {
    const [x, y, k] = (text || "").split(",").map(Number);
    return k > 0 && Number.isFinite(x + y + k)
      ? { k, x: this.canvas.w / 2 - x * k, y: this.canvas.h / 2 - y * k }
      : null;
  }

  paint() {
    if (!this.canvas?.scene || !this.element.isConnected) return;
    const start = performance.now();
    this.canvas.draw();
    this.lastPaint = performance.now() - start;
    this.current.camera = this.canvas.camera;
    clearTimeout(this.saving);
    this.saving = setTimeout(() => {
      const { x, y, k } = this.canvas.camera;
      const round = (v) => Math.round(v * 10) / 10;
      this.app.set(
        { camera: `${round((this.canvas.w / 2 - x) / k)},${round((this.canvas.h / 2 - y) / k)},${k.toPrecision(3)}` },
        true,
      );
    }, 250);
  }

  recolour() {
    this.canvas?.recolour();
    this.update();
  }

  /** What is lit: the edges of the selection, or all that it depends on or feeds. */
  highlight(scene, { selected, reach }) {
    scene.mask = scene.groupMask = scene.lit = null;
    if (selected === null || selected === undefined) return;
    const { tree, graph } = scene;
    if (reach && !tree.isGroup(selected)) {
      scene.mask = graph.reach(selected, reach);
      for (const r of graph.refs(selected)) if (tree.chip[r]) scene.mask[r] = 1;
      scene.groupMask = groupMask(tree, scene.mask);
      scene.lit = { mask: scene.mask, groups: scene.groupMask };
      return;
    }
    const inside = tree.leaves(selected);
    const refs = new Set();
    const from = new Set(inside);
    if (inside.length < 5000) for (const i of inside) for (const r of graph.refs(i)) if (!from.has(r)) refs.add(r);
    scene.lit = {
      from: inside.length < 5000 ? from : new Set(),
      refs,
      path: new Set([selected, ...tree.path(selected)]),
    };
  }

  overlays(scene, { overlay: name }) {
    const found = overlay(name, scene, this.app);
    scene.fill = found?.fill ?? null;
    const names = OVERLAYS.filter((o) => o.when(scene.graph, this.app));
    fill(
      this.overlaySelect,
      names.map((o) => h("option", { value: o.name, selected: o.name === (name ?? "") }, o.title)),
    );
    scene.overlay = found;
    fill(
      this.legend,
      found?.scale ? scaleBar(found.scale) : null,
      scene.mark ? EDITS.map((kind) => h("span", { role: "listitem" }, h(`i.ring.${kind}`), kind)) : null,
      (found?.legend ?? this.kindLegend(scene)).map(([colour, text]) =>
        h("span", { role: "listitem" }, h("i", { style: { background: colour } }), text),
      ),
    );
  }

  kindLegend(scene) {
    scene.usedKinds ??= [...new Set(Array.from({ length: scene.graph.n }, (_, i) => scene.kindOf(i)))].sort(
      (a, b) => a - b,
    );
    return scene.usedKinds.map((k) => [`var(--op-${this.app.kindNames[k]})`, this.app.kindTitles[k]]);
  }

  // ---- acting on the graph

  toggle(item, on) {
    const scene = this.current;
    const start = performance.now();
    scene.layout.toggle(item, on);
    scene.layout.box(scene.tree.root);
    this.lastToggle = performance.now() - start;
    this.remember(scene);
    this.draw();
    this.app.say(`${scene.sizes.groupText(item).title} ${scene.layout.open.has(item) ? "open" : "closed"}`);
  }

  /** Opens every closed container that shows, or closes the innermost open ones. */
  level(direction) {
    const { layout, tree } = this.current;
    const open = new Set(layout.open);
    let shown = 0;
    layout.walk((item, x, y, { content }) => {
      shown++;
      if (!tree.isGroup(item) || item === tree.root) return true;
      const innermost = content !== null && content.boxes.every((b) => b.content === null);
      if (direction < 0 && innermost) open.delete(item);
      if (direction > 0 && content === null && shown < MAX_SHOWN) {
        open.add(item);
        shown += tree.children[item - tree.N].length;
      }
      return true;
    });
    layout.setOpen(open);
    this.remember(this.current);
    this.draw();
  }

  zoom(factor, px, py) {
    this.canvas.zoom(factor, px, py);
    this.hideTip();
    this.draw();
  }
  fitAll() {
    this.canvas.fit();
    this.draw();
  }

  centre(item) {
    const { layout } = this.current;
    const at = layout.find(item);
    const c = this.canvas;
    const k = Math.max(c.camera.k, 0.75);
    const h2 = at.box.content ? Math.min(at.box.height, (c.h / k) * 0.8) : at.box.height;
    c.camera = { k, x: c.w / 2 - (at.x + (at.box.right - at.box.left) / 2) * k, y: c.h / 2 - (at.y + h2 / 2) * k };
  }

  /** Opens what hides a node and brings it to the middle. */
  reveal(item) {
    const scene = this.current;
    const { tree, layout } = scene;
    const target = !tree.isGroup(item) && tree.chip[item] ? (this.app.graph.users(item)[0] ?? item) : item;
    for (const g of tree.path(target).reverse()) if (!layout.open.has(g)) layout.toggle(g, true);
    this.remember(scene);
    if (this.canvas) this.centre(target);
    this.draw();
  }

  /** Moves the selection: along edges up and down, within a row left and right. */
  walk(direction) {
    const scene = this.current;
    const { layout, tree } = scene;
    if (scene.selected === null) return this.app.select(layout.box(tree.root).content.kids[0]);
    const at = layout.find(scene.selected);
    const parent = layout.box(tree.parent(at.item));
    const { kids, links, x, y } = parent.content;
    const me = kids.indexOf(at.item);
    const near = {
      up: () => links.filter((l) => l.b === me).map((l) => l.a),
      down: () => links.filter((l) => l.a === me).map((l) => l.b),
    }[direction];
    let next;
    if (near)
      next = near()
        .filter((k) => k < kids.length)
        .sort((a, b) => Math.abs(x[a] - x[me]) - Math.abs(x[b] - x[me]))[0];
    else {
      const row = kids
        .map((_, k) => k)
        .filter((k) => y[k] === y[me])
        .sort((a, b) => x[a] - x[b]);
      next = row[row.indexOf(me) + (direction === "right" ? 1 : -1)];
    }
    if (next !== undefined) this.app.select(kids[next]);
    else if (near && at.item !== tree.root && tree.parent(at.item) !== tree.root) this.app.select(tree.parent(at.item));
    this.follow();
  }

  into() {
    const { layout, tree, selected } = this.current;
    if (selected === null || !tree.isGroup(selected)) return;
    if (!layout.open.has(selected)) this.toggle(selected, true);
    this.app.select(layout.box(selected).content.kids[0]);
    this.follow();
  }

  /** Scrolls just enough to keep the selection in view. */
  follow() {
    const { selected, layout } = this.current;
    if (selected === null) return;
    const at = layout.find(selected);
    const c = this.canvas.camera;
    const m = 40;
    const x0 = (at.x - at.box.left) * c.k + c.x;
    const x1 = (at.x + at.box.right) * c.k + c.x;
    const y0 = at.y * c.k + c.y;
    const y1 = (at.y + Math.min(at.box.height, 200)) * c.k + c.y;
    if (x1 > this.canvas.w - m) c.x -= x1 - this.canvas.w + m;
    if (x0 < m) c.x += m - x0;
    if (y1 > this.canvas.h - m) c.y -= y1 - this.canvas.h + m;
    if (y0 < m) c.y += m - y0;
    this.draw();
  }

  key(e) {
    const acts = {
      ArrowUp: () => this.walk("up"),
      ArrowDown: () => this.walk("down"),
      ArrowLeft: () => this.walk("left"),
      ArrowRight: () => this.walk("right"),
      Enter: () => {
        const { selected, tree } = this.current;
        if (selected !== null && tree.isGroup(selected)) this.toggle(selected);
      },
      " ": () => acts.Enter(),
      i: () => this.into(),
      e: () => this.level(1),
      c: () => this.level(-1),
      "+": () => this.zoom(1.3),
      "=": () => this.zoom(1.3),
      "-": () => this.zoom(1 / 1.3),
      0: () => this.fitAll(),
      f: () => {
        if (this.current.selected !== null) {
          this.centre(this.current.selected);
          this.draw();
        } else this.fitAll();
      },
      u: () => this.app.reach("up"),
      d: () => this.app.reach("down"),
    };
    const act = acts[e.key];
    if (!act || e.ctrlKey || e.metaKey || e.altKey) return false;
    e.preventDefault();
    act();
    return true;
  }

  // ---- pointer

  listen() {
    this.pointer = new Pointer(this.canvasEl, {
      pan: (dx, dy) => this.pan(dx, dy),
      zoom: (factor, x, y) => this.zoom(factor, x, y),
      click: (x, y) => this.click(x, y),
      double: (x, y) => this.double(x, y),
      hover: (x, y) => this.hover(x, y),
      leave: () => this.hideTip(),
    });
    this.miniEl.addEventListener("pointerdown", (e) => {
      this.miniEl.setPointerCapture(e.pointerId);
      this.miniGo(e);
    });
    this.miniEl.addEventListener("pointermove", (e) => {
      if (e.buttons) this.miniGo(e);
    });
  }

  pan(dx, dy) {
    this.canvas.camera.x += dx;
    this.canvas.camera.y += dy;
    this.hideTip();
    this.draw();
  }

  double(px, py) {
    const found = this.canvas.hit(px, py);
    if (found && this.current.tree.isGroup(found.item) && found.part !== "toggle") this.toggle(found.item);
  }

  miniGo(e) {
    const r = this.miniEl.getBoundingClientRect();
    const { k, ox, oy } = this.canvas.miniMap;
    const c = this.canvas.camera;
    c.x = this.canvas.w / 2 - ((e.clientX - r.left - ox) / k) * c.k;
    c.y = this.canvas.h / 2 - ((e.clientY - r.top - oy) / k) * c.k;
    this.draw();
  }

  click(px, py) {
    const found = this.canvas.hit(px, py);
    if (!found) return this.app.select(null);
    if (found.part === "toggle") return this.toggle(found.item);
    this.app.select(typeof found.part === "number" ? found.part : found.item);
  }

  hover(px, py) {
    const found = this.canvas.hit(px, py);
    this.canvasEl.style.cursor = found ? "pointer" : "grab";
    if (!found) return this.hideTip();
    const { tree, sizes } = this.current;
    const { graph } = this.app;
    const item = typeof found.part === "number" ? found.part : found.item;
    if (found.box.content && found.part === "box") return this.hideTip();
    if (tree.isGroup(item)) {
      const text = sizes.groupText(item);
      const g = item - tree.N;
      fill(
        this.tip,
        h("b", graph.groupText("path", g) || text.title),
        h("div.muted", [text.type, text.meta, this.amount(item)].filter(Boolean).join(" · ")),
        text.note ? h("div", text.note) : null,
      );
    } else {
      const value = graph.value(item);
      fill(
        this.tip,
        h("b", graph.text("input", item) || graph.name(item)),
        " ",
        h("span.muted", graph.whole(item)),
        h("div.mono", value?.full ?? ""),
        h(
          "div.muted",
          [value?.bytes != null ? bytesText(value.bytes) : "", this.amount(item), graph.place(item)]
            .filter(Boolean)
            .join(" · "),
        ),
        graph.text("code", item) ? h("code", graph.text("code", item)) : null,
      );
    }
    this.tip.hidden = false;
    const w = this.tip.offsetWidth;
    const hh = this.tip.offsetHeight;
    this.tip.style.left = `${Math.max(8, Math.min(px + 16, this.canvas.w - w - 8))}px`;
    this.tip.style.top = `${py + 20 + hh > this.canvas.h ? Math.max(4, py - hh - 12) : py + 20}px`;
  }

  /** What the overlay counts of an item, in words. */
  amount(item) {
    const { overlay: name } = this.app.state;
    return name && name !== "bytes" ? (this.current.overlay?.text?.(item) ?? "") : "";
  }

  hideTip() {
    this.tip.hidden = true;
  }
}

/** The colours of a scale side by side between its ends. */
function scaleBar({ colours, lo, hi }) {
  const bar = h(
    "i.scale",
    colours.map((c) => h("i", { style: { background: c } })),
  );
  return h("span", { role: "listitem" }, lo, bar, hi);
}

export function groupMask(tree, mask) {
  const counts = new Int32Array(tree.G);
  for (let i = 0; i < mask.length; i++) if (mask[i]) counts[tree.groupOf[i]]++;
  for (let g = tree.G - 1; g > 0; g--) counts[tree.groups.parent[g]] += counts[g];
  return counts;
}

function measurer() {
  const ctx = document.createElement("canvas").getContext("2d");
  let font = "";
  return (text, wanted) => {
    if (wanted !== font) ctx.font = font = wanted;
    return ctx.measureText(text).width;
  };
}
