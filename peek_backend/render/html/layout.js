// The layout of the whole tree: each open container once, bottom-up, remembered by its structure.
// Opening or closing a container works out that one and its ancestors again; all others stay as they are.

import { realise, skeleton } from "./layers.js";

export const HEADER = 26;
const PAD = 14;
export const CHIP_H = 15;
export const MAX_CHIPS = 4;

export class Layout {
  /** `sizes.leaf(node)` and `sizes.closed(group)` give { w, h } in px; `open` is the set of open containers. */
  constructor(tree, sizes, open) {
    Object.assign(this, { tree, sizes, open, boxes: new Map(), skeletons: new Map(), made: new Map(), built: 0 });
  }

  toggle(group, on = !this.open.has(group)) {
    if (on === this.open.has(group)) return;
    if (on) this.open.add(group);
    else this.open.delete(group);
    for (let g = group; g !== -1; g = this.tree.parent(g)) this.boxes.delete(g);
  }

  setOpen(open) {
    for (const g of new Set([...open, ...this.open])) if (open.has(g) !== this.open.has(g)) this.toggle(g);
  }

  isOpen(item) {
    return this.tree.isGroup(item) && this.open.has(item);
  }

  /** Extent of an item around its axis: { left, right, height, content }, content set for an open container. */
  box(item) {
    if (this.isOpen(item)) {
      let box = this.boxes.get(item);
      if (!box) this.boxes.set(item, (box = this.container(item)));
      return box;
    }
    const { w, h } = this.tree.isGroup(item) ? this.sizes.closed(item) : this.sizes.leaf(item);
    return { left: w / 2, right: w / 2, height: h, content: null };
  }

  container(group) {
    const content = this.content(group);
    const root = group === this.tree.root;
    const pad = root ? 0 : PAD;
    const title = root ? 0 : this.sizes.title(group);
    const left = pad - content.left;
    let right = content.right + pad;
    const missing = title - left - right;
    if (missing > 0) right += missing;
    return { left, right, height: content.height + (root ? 0 : HEADER + 8), content };
  }

  content(group) {
    const edges = this.tree.edges(group);
    const { kids, inPorts, outPorts } = edges;
    const n = kids.length;
    const boxes = kids.map((kid) => this.box(kid));
    const skel = this.skeleton(edges);
    const links = this.links(edges, boxes, n);
    const key = this.key(skel.id, kids, boxes, links);
    let made = this.made.get(key);
    if (!made) {
      const size = {
        left: boxes.map((b) => b.left),
        right: boxes.map((b) => b.right),
        height: boxes.map((b) => b.height),
        leaf: kids.map((kid) => !this.tree.isGroup(kid)),
      };
      const plain = links.map((l) => ({ a: l.a, b: l.b, ao: l.ao, bo: l.bo, source: l.source }));
      this.made.set(key, (made = realise(skel, size, plain)));
      this.built++;
    }
    const inX = Float64Array.from({ length: inPorts.size }, (_, p) => made.x[n + p]);
    const outX = Float64Array.from({ length: outPorts.size }, (_, p) => made.x[n + inPorts.size + p]);
    return { ...made, kids, boxes, links, edges, inX, outX };
  }

  skeleton({ kids, inner, ins, outs, inPorts, outPorts }) {
    const n = kids.length;
    const pairs = new Map();
    const T = n + inPorts.size + outPorts.size;
    const add = (a, b) => pairs.set(a * T + b, [a, b]);
    for (const [, a, b] of inner) add(a, b);
    for (const [u, b] of ins) add(n + inPorts.get(u), b);
    for (const [v, a] of outs) add(a, n + inPorts.size + outPorts.get(v));
    const width = kids.map((k) => (this.tree.isGroup(k) ? this.sizes.closed(k) : this.sizes.leaf(k)).w);
    const edges = [...pairs.values()];
    const key = `${n},${inPorts.size},${outPorts.size}|${width}|${[...pairs.keys()]}`;
    let skel = this.skeletons.get(key);
    if (!skel) {
      skel = skeleton({ n, width, nin: inPorts.size, nout: outPorts.size, edges });
      skel.id = this.skeletons.size;
      this.skeletons.set(key, skel);
    }
    return skel;
  }

  /** Edges as drawn: one per value where an end is open, else one per pair of boxes, with all its values. */
  links({ inner, ins, outs, inPorts, outPorts }, boxes, n) {
    const found = new Map();
    const links = [];
    const sources = new Map();
    const add = (a, b, ao, bo, value) => {
      const key = ao === null && bo === null ? `${a} ${b}` : `${a} ${b} ${value}`;
      let link = found.get(key);
      if (!link) {
        const from = ao === null ? a : `${a} ${value}`;
        if (!sources.has(from)) sources.set(from, sources.size);
        found.set(key, (link = { a, b, ao, bo, source: sources.get(from), values: [] }));
        links.push(link);
      }
      link.values.push(value);
    };
    const exit = (a, u) =>
      boxes[a].content ? (boxes[a].content.outX[boxes[a].content.edges.outPorts.get(u)] ?? null) : null;
    const entry = (b, u) =>
      boxes[b].content ? (boxes[b].content.inX[boxes[b].content.edges.inPorts.get(u)] ?? null) : null;
    for (const [u, a, b] of inner) add(a, b, exit(a, u), entry(b, u), u);
    for (const [u, b] of ins) add(n + inPorts.get(u), b, null, entry(b, u), u);
    for (const [u, a] of outs) add(a, n + inPorts.size + outPorts.get(u), exit(a, u), null, u);
    return links;
  }

  key(id, kids, boxes, links) {
    const parts = [id];
    boxes.forEach((b, k) =>
      parts.push(this.tree.isGroup(kids[k]) ? 1 : 0, b.left.toFixed(1), b.right.toFixed(1), b.height.toFixed(1)),
    );
    for (const l of links) parts.push(l.a, l.b, l.source, l.ao?.toFixed(1) ?? "", l.bo?.toFixed(1) ?? "");
    return parts.join(",");
  }

  /** Calls `visit(item, x, y, box)` for everything that shows, parents first; x is the axis, y the top. */
  walk(visit) {
    const step = (item, x, y, box) => {
      if (visit(item, x, y, box) === false || !box.content) return;
      const { kids, boxes, x: xs, y: ys } = box.content;
      const top = y + (item === this.tree.root ? 0 : HEADER);
      for (let k = 0; k < kids.length; k++) step(kids[k], x + xs[k], top + ys[k], boxes[k]);
    };
    step(this.tree.root, 0, 0, this.box(this.tree.root));
  }

  /** Where an item shows, { item, x, y, box } in px; for a hidden one, the closed container around it. */
  find(item) {
    const chain = [item, ...this.tree.path(item)].reverse();
    let x = 0;
    let y = 0;
    let at = this.tree.root;
    let box = this.box(at);
    for (const next of chain.slice(1)) {
      if (!box.content) break;
      const k = box.content.kids.indexOf(next);
      if (k < 0) break;
      x += box.content.x[k];
      y += box.content.y[k] + (at === this.tree.root ? 0 : HEADER);
      at = next;
      box = box.content.boxes[k];
    }
    return { item: at, x, y, box };
  }
}
