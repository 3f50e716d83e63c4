// Draws the graph on a 2D canvas: only what is in view, in as much detail as can be read at this zoom.

import { colourOf } from "./dom.js";
import { CHIP_H, HEADER } from "./layout.js";
import { FONT } from "./sizes.js";

const MIN_ZOOM = 0.0008;
const MAX_ZOOM = 2.5;
/** px at the top that stay free: a title that is pinned there hides nothing. */
const TOP = 24;
const READABLE = 0.85;
const MAX_RINGS = 300;
/** px of the graph that stay in view however far it is moved. */
const MARGIN = 60;
const TEXT_ZOOM = 0.42;
const DETAIL_ZOOM = 0.55;
const SHAPE_ZOOM = 0.6;

/** The page's colours as canvas texts, read from its CSS variables whenever the theme changes. */
function readColours(element) {
  const names = [
    "bg",
    "canvas",
    "card",
    "group",
    "group2",
    "line",
    "line2",
    "edge",
    "ink",
    "ink2",
    "ink3",
    "accent",
    "accent-soft",
    "hit",
    "added",
    "removed",
    "changed",
    "param",
    "port",
  ];
  const colours = Object.fromEntries(names.map((n) => [n, colourOf(element, `--${n}`)]));
  colours.kind = (name) => colourOf(element, `--op-${name}`);
  return colours;
}

export class Canvas {
  constructor(element, mini) {
    Object.assign(this, {
      element,
      mini,
      ctx: element.getContext("2d"),
      camera: { x: 0, y: 0, k: 1 },
      scene: null,
      paints: 0,
    });
    this.kinds = [];
    this.resize();
  }

  /** `scene`: { layout, sizes, tree, graph, kindOf, fill, mask, hits, selected, hover, mark } */
  show(scene) {
    this.scene = scene;
  }

  recolour() {
    this.colours = readColours(this.element);
    this.kinds = [];
  }

  resize() {
    const box = this.element.getBoundingClientRect();
    this.dpr = Math.min(2, window.devicePixelRatio || 1);
    this.w = Math.max(1, box.width);
    this.h = Math.max(1, box.height);
    this.element.width = Math.round(this.w * this.dpr);
    this.element.height = Math.round(this.h * this.dpr);
  }

  toWorld(px, py) {
    const { x, y, k } = this.camera;
    return [(px - x) / k, (py - y) / k];
  }

  fit(box = this.scene.layout.box(this.scene.tree.root), x = 0, y = 0, { max = 1, pad = 28, readable = false } = {}) {
    const bw = box.left + box.right;
    const room = this.h - pad - TOP;
    const k = Math.min(max, (this.w - 2 * pad) / bw, room / box.height);
    const kk = readable ? Math.max(k, Math.min(max, Math.max(READABLE, (this.w - 2 * pad) / bw))) : k;
    // too wide to read at once: the main column in the middle, as long as nothing to its left is cut off for it
    const cx =
      bw * kk > this.w
        ? Math.min(this.w / 2, box.left * kk + pad) - x * kk
        : this.w / 2 - (x + (box.right - box.left) / 2) * kk;
    this.camera = { k: kk, x: cx, y: kk > k ? TOP - y * kk : TOP + (room - box.height * kk) / 2 - y * kk };
  }

  zoom(factor, px = this.w / 2, py = this.h / 2) {
    const c = this.camera;
    const k = Math.min(MAX_ZOOM, Math.max(MIN_ZOOM, c.k * factor));
    const f = k / c.k;
    this.camera = { k, x: px - (px - c.x) * f, y: py - (py - c.y) * f };
  }

  /** Something of the graph always stays in view. */
  keepInView() {
    const { camera, w, h, scene } = this;
    const box = scene.layout.box(scene.tree.root);
    const clamp = (v, low, high) => Math.min(Math.max(v, Math.min(low, high)), Math.max(low, high));
    camera.x = clamp(camera.x, MARGIN - box.right * camera.k, w - MARGIN + box.left * camera.k);
    camera.y = clamp(camera.y, MARGIN - box.height * camera.k, h - MARGIN);
  }

  /** Paints one frame. */
  draw() {
    const { ctx, dpr } = this;
    if (!this.colours) this.recolour();
    if (this.scene) this.keepInView();
    const { x, y, k } = this.camera;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.fillStyle = this.colours.canvas;
    ctx.fillRect(0, 0, this.element.width, this.element.height);
    if (!this.scene) return;
    ctx.setTransform(k * dpr, 0, 0, k * dpr, x * dpr, y * dpr);
    const [x0, y0] = this.toWorld(0, 0);
    const [x1, y1] = this.toWorld(this.w, this.h);
    this.view = { x0: x0 - 4, y0: y0 - 4, x1: x1 + 4, y1: y1 + 4 };
    this.paint(ctx, k);
    this.drawMini();
    this.paints++;
  }

  paint(ctx, k) {
    const { scene } = this;
    const { layout, tree } = scene;
    ctx.textBaseline = "alphabetic";
    this.headers = [];
    this.pinned = [];
    this.container(ctx, k, tree.root, 0, 0, layout.box(tree.root), 0);
    for (const h of this.headers) this.header(ctx, k, ...h);
    this.rings(ctx, k, scene);
  }

  visible(x, y, box) {
    const v = this.view;
    return x + box.right >= v.x0 && x - box.left <= v.x1 && y + box.height >= v.y0 && y <= v.y1;
  }

  container(ctx, k, item, x, y, box, depth) {
    const { scene } = this;
    const root = item === scene.tree.root;
    const content = box.content;
    const top = y + (root ? 0 : HEADER);
    if (!root) {
      this.frame(ctx, k, item, x, y, box, depth);
      if (box.height * k < 9 || (box.left + box.right) * k < 5) return;
    }
    if (k > 0.02) this.edges(ctx, k, content, x, top, box, root, y, depth);
    const { kids, boxes, x: xs, y: ys } = content;
    for (let i = 0; i < kids.length; i++) {
      const kx = x + xs[i];
      const ky = top + ys[i];
      const kb = boxes[i];
      if (!this.visible(kx, ky, kb)) continue;
      if (kb.content) this.container(ctx, k, kids[i], kx, ky, kb, depth + 1);
      else if (scene.tree.isGroup(kids[i])) this.closed(ctx, k, kids[i], kx, ky, kb);
      else this.leaf(ctx, k, kids[i], kx, ky, kb);
    }
    if (!root) this.headers.push([item, x, y, box, depth]);
  }

  dim(item) {
    const { mask, groupMask, tree } = this.scene;
    if (!mask) return 1;
    return (tree.isGroup(item) ? groupMask[item - tree.N] : mask[item]) ? 1 : 0.2;
  }

  frame(ctx, k, item, x, y, box, depth) {
    const c = this.colours;
    const w = box.left + box.right;
    ctx.globalAlpha = Math.max(0.5, this.dim(item));
    ctx.beginPath();
    rounded(ctx, x - box.left, y, w, box.height, Math.min(9, 4 / k + 5));
    ctx.fillStyle = this.ground(depth);
    ctx.fill();
    ctx.lineWidth = Math.min(1.2, 1 / k);
    ctx.strokeStyle = this.markColour(item) ?? c.line2;
    ctx.stroke();
    ctx.globalAlpha = 1;
  }

  /**
   * Title of an open container. It stays in view while any of the container is (titles of outer containers above those
   * of inner ones), and legible when zoomed out as long as there is room for it.
   */
  header(ctx, k, item, x, y, box, depth) {
    const { sizes } = this.scene;
    const text = sizes.groupText(item);
    const c = this.colours;
    const v = this.view;
    if ((box.left + box.right) * k < 56 || box.height * k < 26) return;
    const f = k >= 0.8 ? 1 : Math.min(0.86 / k, 3.2 + 1 / k);
    if (k * f * 12 < 8) return;
    const left = Math.max(x - box.left, Math.min(v.x0 + 4, x + box.right - 150 * f));
    const bar = HEADER * f;
    const top = Math.max(y, Math.min(v.y0 + 4 + (depth - 1) * bar, y + box.height - bar));
    const room = (x + box.right - left) / f - 14;
    if (room < 40) return;
    const title = clip(sizes, text.title, FONT.title, room - 16);
    const tw = sizes.width(title, FONT.title);
    const rest = firstFit(sizes, [[text.type, text.count].filter(Boolean).join(" · "), text.type], room - tw - 30);
    ctx.save();
    ctx.translate(left, top);
    ctx.scale(f, f);
    ctx.fillStyle = this.ground(depth); // edges and boxes pass behind the words
    if (top > y + 1) ctx.fillRect(0.5 / f, 0, Math.min(room + 13, (x + box.right - left) / f - 1), HEADER);
    else ctx.fillRect(4, 5, 22 + tw + (rest ? 8 + sizes.width(rest, FONT.small) : 0), 17);
    ctx.globalAlpha = Math.max(0.45, this.dim(item));
    chevron(ctx, 10, 13, true, c.ink2);
    ctx.font = FONT.title;
    ctx.fillStyle = c.ink;
    ctx.textAlign = "left";
    ctx.fillText(title, 20, 17);
    ctx.font = FONT.small;
    ctx.fillStyle = c.ink3;
    if (rest) ctx.fillText(rest, 28 + tw, 17);
    ctx.restore();
    this.pinned.push({ item, x0: left, x1: x + box.right, y0: top, y1: top + bar, toggle: left + 24 * f });
  }

  edges(ctx, k, content, x, top, box, root, y, depth) {
    const { routes, links } = content;
    const v = this.view;
    const c = this.colours;
    const lit = [];
    ctx.lineWidth = Math.max(1.1, Math.min(1.5, 0.55 / k));
    ctx.strokeStyle = c.edge;
    ctx.globalAlpha = this.scene.mask ? 0.35 : 1;
    ctx.beginPath();
    for (let e = 0; e < routes.length; e++) {
      const r = routes[e];
      const last = r.length;
      if (top + r[last - 1] < v.y0 || top + r[1] > v.y1) continue;
      if (this.isLit(links[e], content)) lit.push(e);
      trace(ctx, r, x, top);
    }
    if (!root) this.stubs(ctx, content, x, y, box);
    ctx.stroke();
    ctx.globalAlpha = 1;
    if (k > 0.35) this.arrows(ctx, content, x, top, c.edge);
    if (lit.length) {
      ctx.strokeStyle = c.accent;
      ctx.lineWidth = Math.max(1.8, 1.2 / k);
      ctx.beginPath();
      for (const e of lit) trace(ctx, routes[e], x, top);
      ctx.stroke();
    }
    if (k >= SHAPE_ZOOM) this.edgeLabels(ctx, content, x, top, root ? null : box, this.ground(depth));
  }

  /** The last pixels of an edge from a container's border to its first inner row, and out again. */
  stubs(ctx, content, x, y, box) {
    for (const px of content.inX) {
      ctx.moveTo(x + px, y);
      ctx.lineTo(x + px, y + HEADER);
    }
    const end = y + box.height;
    for (const px of content.outX) {
      ctx.moveTo(x + px, end - 8);
      ctx.lineTo(x + px, end);
    }
  }

  /** Heads where an edge meets a box; none where it goes on through a container's border. */
  arrows(ctx, { routes, links, boxes }, x, top, colour) {
    const v = this.view;
    ctx.fillStyle = colour;
    ctx.globalAlpha = this.scene.mask ? 0.35 : 1;
    ctx.beginPath();
    for (let e = 0; e < routes.length; e++) {
      const r = routes[e];
      const to = boxes[links[e].b];
      if (!to || to.content) continue;
      const ax = x + r[r.length - 2];
      const ay = top + r[r.length - 1];
      if (ay < v.y0 || ay > v.y1 || ax < v.x0 || ax > v.x1) continue;
      ctx.moveTo(ax - 3, ay - 5.5);
      ctx.lineTo(ax + 3, ay - 5.5);
      ctx.lineTo(ax, ay);
    }
    ctx.fill();
    ctx.globalAlpha = 1;
  }

  /** What flows along an edge, where the box above does not already say it: out of closed and open containers and along lanes. */
  edgeLabels(ctx, content, x, top, box, ground) {
    const { scene, view: v, colours: c } = this;
    const { graph, tree } = scene;
    const done = new Set();
    const placed = [];
    ctx.font = FONT.chip;
    ctx.textAlign = "left";
    content.links.forEach((l, e) => {
      const r = content.routes[e];
      const from = content.kids[l.a];
      const lane = r.length === 8;
      if (!lane && (from === undefined || !tree.isGroup(from))) return;
      if (!lane && content.kids[l.b] === undefined) return; // what leaves the container is told below it
      const ex = x + (lane ? r[3] : r[0]);
      const straight = r[2] - r[1] >= 14; // beside the part that goes straight down, else where the edge turns
      const ly = top + (lane ? r[4] + 12 : (straight ? r[1] : r[2]) + 11);
      if (ex < v.x0 - 90 || ex > v.x1 + 90 || ly < v.y0 || ly > v.y1 || (lane && r[5] - r[4] < 30)) return;
      const text = l.values.length > 1 ? `${l.values.length} values` : graph.valueText(l.values[0]);
      const key = `${Math.round(ex)} ${Math.round(ly)}`;
      if (!text || done.has(key)) return;
      done.add(key);
      const short = text.length > 24 ? text.slice(0, 23) + "…" : text;
      const w = scene.sizes.width(short, FONT.chip);
      const lx = x + this.besideEdge(content, ex - x, w, ly - top, box, placed);
      if (Number.isNaN(lx)) return;
      placed.push([lx - x, lx - x + w, ly - top]);
      ctx.fillStyle = ground;
      ctx.globalAlpha = 0.8;
      ctx.fillRect(lx - 1, ly - 9, w + 2, 11);
      ctx.globalAlpha = 1;
      ctx.fillStyle = c.ink3;
      ctx.fillText(short, lx, ly);
    });
  }

  /**
   * Where the text of an edge at `ex` starts: right of it, else left of it, else NaN: no box, border, lane or other text may
   * cross it. The side where no edge curves through it comes first.
   */
  besideEdge(content, ex, width, y, box, placed) {
    const lanes = (content.lanes ??= content.routes.filter((r) => r.length === 8));
    const upper = (r) => Math.min(r[4], r[5]);
    const lower = (r) => Math.max(r[4], r[5]);
    const free = (from) =>
      !placed.some(([x0, x1, other]) => Math.abs(other - y) < 12 && x0 < from + width + 3 && x1 > from - 3) &&
      (!box || (from > 3 - box.left && from + width < box.right - 3)) &&
      !this.covered(content, from - 1, from + width + 1, y - 10, y + 3) &&
      !lanes.some((r) => r[3] > from - 2 && r[3] < from + width + 2 && upper(r) < y + 3 && lower(r) > y - 10);
    const clear = (from) => !content.routes.some((r) => curves(r, from, from + width, y - 8, y + 2));
    const sides = [ex + 4, ex - 4 - width].filter(free);
    return sides.find(clear) ?? sides[0] ?? NaN;
  }

  covered(content, x0, x1, y0, y1) {
    return content.boxes.some(
      (b, i) =>
        content.x[i] - b.left < x1 && content.x[i] + b.right > x0 && content.y[i] < y1 && content.y[i] + b.height > y0,
    );
  }

  isLit(link, content) {
    const { scene } = this;
    const { lit } = scene;
    if (!lit) return false;
    if (lit.mask) {
      const to = content.kids[link.b];
      return (
        link.values.some((u) => lit.mask[u]) &&
        (to === undefined || (scene.tree.isGroup(to) ? lit.groups[to - scene.tree.N] : lit.mask[to]))
      );
    }
    if (link.values.some((u) => lit.from.has(u))) return true;
    const to = content.kids[link.b];
    return to !== undefined && lit.path.has(to) && link.values.some((u) => lit.refs.has(u));
  }

  kindColour(kind) {
    return (this.kinds[kind] ??= this.colours.kind(this.scene.kindNames[kind]));
  }

  /** What a container of this depth is painted with; the whole graph is 0. */
  ground(depth) {
    const { canvas, group, group2 } = this.colours;
    return depth === 0 ? canvas : depth % 2 ? group : group2;
  }

  markColour(item) {
    const mark = this.scene.mark?.(item);
    return mark ? this.colours[mark] : undefined;
  }

  leaf(ctx, k, node, x, y, box) {
    const c = this.colours;
    const { scene } = this;
    const w = box.left + box.right;
    const left = x - box.left;
    const tint = scene.fill?.(node);
    const kind = this.kindColour(scene.kindOf(node));
    ctx.globalAlpha = this.dim(node);
    if (w * k < 14) {
      ctx.fillStyle = tint ?? kind;
      ctx.fillRect(left, y, w, box.height);
      if (scene.hits?.[node]) {
        ctx.fillStyle = c.hit;
        ctx.fillRect(left - 1 / k, y - 1 / k, w + 2 / k, box.height + 2 / k);
      }
      ctx.globalAlpha = 1;
      return;
    }
    const mark = this.markColour(node);
    ctx.beginPath();
    rounded(ctx, left, y, w, box.height, 5);
    ctx.fillStyle = tint ?? c.card;
    ctx.fill();
    ctx.lineWidth = mark ? 2 : 1;
    ctx.strokeStyle = mark ?? c.line;
    ctx.stroke();
    ctx.fillStyle = kind;
    ctx.beginPath();
    rounded(ctx, left + 3, y + 4, 3.5, box.height - 8, 1.75);
    ctx.fill();
    if (k >= TEXT_ZOOM) this.leafText(ctx, k, node, left, y, w, tint);
    ctx.globalAlpha = 1;
    if (scene.hits?.[node]) outline(ctx, left, y, w, box.height, c.hit, Math.max(2, 1.5 / k), 6);
  }

  leafText(ctx, k, node, left, y, w, tint) {
    const c = this.colours;
    const { sizes } = this.scene;
    const text = sizes.leafText(node);
    ctx.font = FONT.title;
    ctx.fillStyle = tint ? contrast(tint) : c.ink;
    ctx.textAlign = "left";
    ctx.fillText(clip(sizes, text.title, FONT.title, w - 18), left + 13, y + 16);
    if (text.uses) {
      ctx.font = FONT.badge;
      ctx.fillStyle = tint ? contrast(tint) : c.port;
      ctx.textAlign = "right";
      ctx.fillText(`→ ${text.uses}`, left + w - 8, y + 16);
      ctx.textAlign = "left";
    }
    if (k < DETAIL_ZOOM) return;
    ctx.font = FONT.value;
    ctx.fillStyle = tint ? contrast(tint) : c.ink2;
    if (text.value) ctx.fillText(clip(sizes, text.value, FONT.value, w - 18), left + 13, y + 30);
    let cy = y + (text.value ? 37 : 26);
    ctx.font = FONT.chip;
    for (const chip of text.chips) {
      ctx.fillStyle = tint ? contrast(tint) : chip.port ? c.port : c.param;
      if (chip.port) {
        ctx.beginPath();
        ctx.moveTo(left + 14, cy + 3);
        ctx.lineTo(left + 19, cy + 6);
        ctx.lineTo(left + 14, cy + 9);
        ctx.fill();
      } else {
        ctx.beginPath();
        rounded(ctx, left + 13, cy + 3, 6, 6, 1.5);
        ctx.fill();
      }
      ctx.fillStyle = tint ? contrast(tint) : c.ink2;
      ctx.fillText(chip.text, left + 23, cy + 9.5);
      ctx.fillStyle = tint ? contrast(tint) : c.ink3;
      ctx.fillText(chip.value, left + 23 + sizes.width(`${chip.text} `, FONT.chip), cy + 9.5);
      cy += CHIP_H;
    }
  }

  closed(ctx, k, item, x, y, box) {
    const c = this.colours;
    const { scene } = this;
    const text = scene.sizes.groupText(item);
    const stack = text.times ? 8 : 0;
    const tint = scene.fill?.(item);
    const w = box.left + box.right - stack;
    const h = box.height - stack;
    const left = x - box.left;
    ctx.globalAlpha = this.dim(item);
    ctx.lineWidth = 1;
    ctx.strokeStyle = this.markColour(item) ?? c.line2;
    for (const d of stack ? [8, 4, 0] : [0]) {
      ctx.beginPath();
      rounded(ctx, left + d, y + d, w, h, 6);
      ctx.fillStyle = d ? c.group2 : (tint ?? c.group);
      ctx.fill();
      ctx.stroke();
    }
    if (k >= TEXT_ZOOM) this.closedText(ctx, text, left, y, w, tint);
    else if (w * k > 40 && h * k > 9) this.farTitle(ctx, k, text, left, y, w, h, tint);
    ctx.globalAlpha = 1;
    const hits = scene.groupHits?.[item - scene.tree.N];
    if (hits) outline(ctx, left, y, w, h, c.hit, Math.max(2, 1.5 / k), 7);
  }

  farTitle(ctx, k, text, left, y, w, h, tint) {
    const f = Math.min(0.8 / k, (h - 4) / 14);
    ctx.save();
    ctx.translate(left + 8, y + h / 2 + 4 * f);
    ctx.scale(f, f);
    ctx.font = FONT.title;
    ctx.fillStyle = tint ? contrast(tint) : this.colours.ink;
    ctx.fillText(
      clip(this.scene.sizes, text.times ? `${text.title} ×${text.times}` : text.title, FONT.title, (w - 14) / f),
      0,
      0,
    );
    ctx.restore();
  }

  closedText(ctx, text, left, y, w, tint) {
    const c = this.colours;
    const { sizes } = this.scene;
    const ink = tint ? contrast(tint) : c.ink;
    chevron(ctx, left + 12, y + 15, false, tint ? ink : c.ink2);
    ctx.textAlign = "left";
    ctx.font = FONT.title;
    ctx.fillStyle = ink;
    const badge = text.times ? sizes.width(`×${text.times}`, FONT.badge) + 14 : 0;
    const title = clip(sizes, text.title, FONT.title, w - 34 - badge);
    ctx.fillText(title, left + 22, y + 18);
    ctx.font = FONT.small;
    ctx.fillStyle = tint ? ink : c.ink3;
    ctx.fillText(text.type, left + 28 + sizes.width(title, FONT.title), y + 18);
    ctx.font = FONT.value;
    ctx.fillStyle = tint ? ink : c.ink2;
    ctx.fillText(clip(sizes, text.meta, FONT.value, w - 30), left + 22, y + 32.5);
    if (!badge) return;
    ctx.fillStyle = c.accent;
    ctx.beginPath();
    rounded(ctx, left + w - badge - 5, y + 6, badge, 16, 8);
    ctx.fill();
    ctx.fillStyle = c.canvas;
    ctx.font = FONT.badge;
    ctx.textAlign = "center";
    ctx.fillText(`×${text.times}`, left + w - badge / 2 - 5, y + 17.7);
    ctx.textAlign = "left";
  }

  /** The selection; of a parameter or a value that is read all over, its readers too. */
  rings(ctx, k, { selected, tree, graph }) {
    if (selected === null) return;
    this.ring(ctx, k, selected, this.colours.accent, 2);
    if (tree.isGroup(selected) || !(tree.chip[selected] || tree.port[selected])) return;
    for (const user of graph.users(selected).slice(0, MAX_RINGS)) this.ring(ctx, k, user, this.colours.port, 1.5);
  }

  ring(ctx, k, item, colour, width) {
    const { scene } = this;
    const at = scene.layout.find(item);
    if (at.item === scene.tree.root) return;
    const stack = !at.box.content && scene.tree.isGroup(at.item) && scene.sizes.groupText(at.item).times ? 8 : 0;
    const b = at.box;
    outline(
      ctx,
      at.x - b.left,
      at.y,
      b.left + b.right - stack,
      b.height - stack,
      colour,
      Math.max(width, width / k),
      b.content ? 10 : 7,
      at.item !== item,
    );
  }

  drawMini() {
    const { mini, scene } = this;
    if (!mini) return;
    const ctx = mini.getContext("2d");
    const box = scene.layout.box(scene.tree.root);
    const W = 168;
    const H = 120;
    const v = this.view;
    const all = v.x0 <= -box.left && v.x1 >= box.right && v.y0 <= 0 && v.y1 >= box.height;
    mini.hidden = all;
    if (all) return;
    if (mini.width !== W * this.dpr) {
      mini.width = W * this.dpr;
      mini.height = H * this.dpr;
    }
    const k = Math.min((W - 12) / (box.left + box.right), (H - 12) / box.height);
    const ox = W / 2 - ((box.right - box.left) / 2) * k;
    const oy = (H - box.height * k) / 2;
    this.miniMap = { k, ox, oy };
    ctx.setTransform(this.dpr, 0, 0, this.dpr, 0, 0);
    ctx.fillStyle = this.colours.card;
    ctx.fillRect(0, 0, W, H);
    ctx.setTransform(k * this.dpr, 0, 0, k * this.dpr, ox * this.dpr, oy * this.dpr);
    this.miniBoxes(ctx, k);
    ctx.setTransform(this.dpr, 0, 0, this.dpr, 0, 0);
    const c = this.camera;
    const x = ox - (c.x / c.k) * k;
    const y = oy - (c.y / c.k) * k;
    ctx.lineWidth = 1.5;
    ctx.strokeStyle = this.colours.accent;
    ctx.fillStyle = this.colours["accent-soft"];
    const rw = Math.max(3, (this.w / c.k) * k);
    const rh = Math.max(3, (this.h / c.k) * k);
    ctx.fillRect(x, y, rw, rh);
    ctx.strokeRect(x, y, rw, rh);
  }

  miniBoxes(ctx, k) {
    const { scene } = this;
    const c = this.colours;
    scene.layout.walk((item, x, y, box) => {
      if (item === scene.tree.root) return true;
      const w = box.left + box.right;
      const min = 1.2 / k;
      ctx.fillStyle =
        scene.hits && !scene.tree.isGroup(item) && scene.hits[item]
          ? c.hit
          : box.content
            ? c.group2
            : scene.tree.isGroup(item)
              ? c.line2
              : this.kindColour(scene.kindOf(item));
      ctx.fillRect(x - box.left, y, Math.max(w, min), Math.max(box.height, min));
      return box.height * k > 2.5;
    });
  }

  /** What is at a point of the canvas: { item, part } with part "box", "toggle" or a chip's node; null on empty ground. */
  hit(px, py) {
    const [wx, wy] = this.toWorld(px, py);
    const { scene } = this;
    const { tree } = scene;
    const title = this.pinned.findLast((p) => wx >= p.x0 && wx <= p.x1 && wy >= p.y0 && wy <= p.y1);
    if (title) return { ...scene.layout.find(title.item), part: wx < title.toggle ? "toggle" : "box" };
    let found = null;
    scene.layout.walk((item, x, y, box) => {
      if (wx < x - box.left || wx > x + box.right || wy < y || wy > y + box.height) return false;
      if (item !== tree.root) found = { item, x, y, box, part: "box" };
      return true;
    });
    if (!found) return null;
    const dx = wx - (found.x - found.box.left);
    const dy = wy - found.y;
    if (tree.isGroup(found.item)) {
      if (dx < 24 && dy < 26) found.part = "toggle";
    } else {
      const text = scene.sizes.leafText(found.item);
      const row = Math.floor((dy - (text.value ? 37 : 26)) / CHIP_H);
      if (row >= 0 && text.chips[row] && text.chips[row].node >= 0) found.part = text.chips[row].node;
    }
    return found;
  }
}

function trace(ctx, r, x, y) {
  const [sx, sy, turn] = r;
  ctx.moveTo(x + sx, y + sy);
  if (turn > sy) ctx.lineTo(x + sx, y + turn);
  if (r.length === 5) return curve(ctx, x + sx, y + turn, x + r[3], y + r[4]);
  curve(ctx, x + sx, y + turn, x + r[3], y + r[4]);
  ctx.lineTo(x + r[3], y + r[5]);
  curve(ctx, x + r[3], y + r[5], x + r[6], y + r[7]);
}

function curve(ctx, x0, y0, x1, y1) {
  if (Math.abs(x1 - x0) < 0.5) return void ctx.lineTo(x1, y1);
  const m = (y0 + y1) / 2;
  ctx.bezierCurveTo(x0, m, x1, m, x1, y1);
}

/** Whether a route runs through a rectangle where it turns; the test is of its curves' chords. */
function curves(r, x0, x1, y0, y1) {
  const last = r.length;
  if (r[1] > y1 || r[last - 1] < y0) return false;
  const turns =
    last === 5
      ? [[r[0], r[2], r[3], r[4]]]
      : [
          [r[0], r[2], r[3], r[4]],
          [r[3], ...r.slice(5)],
        ];
  return turns.some(([ax, ay, bx, by]) => {
    if (Math.min(ax, bx) > x1 || Math.max(ax, bx) < x0 || ay > y1 || by < y0) return false;
    const at = (t) => [ax + (bx - ax) * t * t * (3 - 2 * t), ay + (by - ay) * t * (1.5 - 1.5 * t + t * t)];
    for (let k = 0; k < 8; k++) {
      const [px, py] = at(k / 8);
      const [qx, qy] = at((k + 1) / 8);
      if (Math.min(px, qx) < x1 && Math.max(px, qx) > x0 && py < y1 && qy > y0) return true;
    }
    return false;
  });
}

export function rounded(ctx, x, y, w, h, r) {
  r = Math.max(0, Math.min(r, w / 2, h / 2));
  ctx.roundRect(x, y, w, h, r);
}

function outline(ctx, x, y, w, h, colour, width, radius, dashed = false) {
  const g = width;
  ctx.beginPath();
  rounded(ctx, x - g, y - g, w + 2 * g, h + 2 * g, radius);
  if (dashed) ctx.setLineDash([width * 3, width * 2]);
  ctx.lineWidth = width;
  ctx.strokeStyle = colour;
  ctx.stroke();
  ctx.setLineDash([]);
}

function chevron(ctx, x, y, open, colour) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.6;
  ctx.lineCap = ctx.lineJoin = "round";
  ctx.beginPath();
  if (open) {
    ctx.moveTo(x - 3.5, y - 1.5);
    ctx.lineTo(x, y + 2);
    ctx.lineTo(x + 3.5, y - 1.5);
  } else {
    ctx.moveTo(x - 1.5, y - 3.5);
    ctx.lineTo(x + 2, y);
    ctx.lineTo(x - 1.5, y + 3.5);
  }
  ctx.stroke();
  ctx.lineCap = ctx.lineJoin = "miter";
}

function clip(sizes, text, font, room) {
  if (sizes.width(text, font) <= room) return text;
  let n = Math.max(1, Math.floor((text.length * room) / sizes.width(text, font)));
  while (n > 1 && sizes.width(text.slice(0, n) + "…", font) > room) n--;
  return text.slice(0, n) + "…";
}

/** The first of `texts` that fits as it is, else the start of the last; nothing where that would be a letter or two. */
function firstFit(sizes, texts, room) {
  const whole = texts.find((text) => sizes.width(text, FONT.small) <= room);
  return whole ?? (room > 30 ? clip(sizes, texts[texts.length - 1], FONT.small, room) : "");
}

/** Black or white, whichever reads better on an `rgb()` or `#rrggbb` colour. */
function contrast(colour) {
  const m = colour.match(/[\d.]+/g);
  const hex =
    colour[0] === "#" ? [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16)) : m.slice(0, 3).map(Number);
  return 0.299 * hex[0] + 0.587 * hex[1] + 0.114 * hex[2] > 140 ? "#14171c" : "#ffffff";
}
