// Properties of the layout on random graphs; the last expression's value is a list of what did not hold.

import { Graph } from "./data.js";
import { HEADER, Layout } from "./layout.js";
import { Sizes } from "./sizes.js";
import { Tree } from "./tree.js";

/** A small generator of numbers, the same for the same seed (mulberry32). */
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A random DAG of n nodes in random nested containers; `tangled` lets containers depend on one another in a cycle. */
function randomGraph(seed, tangled) {
  const next = random(seed);
  const pick = (k) => Math.floor(next() * k);
  const n = 1 + pick(60);
  const refs = [];
  const count = [];
  const seq = Array.from({ length: n }, (_, i) => i);
  if (tangled)
    for (let k = n - 1; k > 0; k--) {
      const j = pick(k + 1);
      [seq[k], seq[j]] = [seq[j], seq[k]];
    }
  for (let i = 0; i < n; i++) {
    const reads = i === 0 ? 0 : pick(4);
    count.push(reads);
    for (let r = 0; r < reads; r++) refs.push(next() < 0.7 ? 1 + pick(Math.min(i, 4)) : 1 + pick(i));
  }
  const groups = {
    parent: [-1],
    lo: [0],
    hi: [n],
    label: [0],
    class: [0],
    path: [0],
    kind: ["root"],
    hash: [-1],
    note: [-1],
  };
  const split = (parent, lo, hi, depth) => {
    let at = lo;
    while (at < hi) {
      const size = 1 + pick(hi - lo);
      const end = Math.min(hi, at + size);
      if (next() < 0.6 && end - at > 1 && depth < 4) {
        const g = groups.parent.length;
        for (const [k, v] of Object.entries({
          parent,
          lo: at,
          hi: end,
          label: 0,
          class: 0,
          path: 0,
          kind: next() < 0.1 ? "fold" : "module",
          hash: -1,
          note: -1,
        }))
          groups[k].push(v);
        split(g, at, end, depth + 1);
      }
      at = end;
    }
  };
  split(0, 0, n, 0);
  const zeros = Array(n).fill(0);
  const nodes = {
    kind: zeros,
    label: Array.from({ length: n }, () => pick(3)),
    value: Array(n).fill(-1),
    inline: seq.map(() => (next() < 0.15 ? 1 : 0)),
    ref_count: count,
    refs,
    origins: [],
    body: Array(n).fill(-1),
    input: Array(n).fill(-1),
    input_kind: Array(n).fill(-1),
    name: zeros,
    op: zeros,
  };
  const steps = seq.map((v, k) => v - (k ? seq[k - 1] : 0));
  return new Graph({ n, nodes, seq: steps, groups, name: "g", title: "g", guards: [], symbols: [] }, 0, {
    strings: ["a", "a longer name", "x".repeat(40)],
    values: [],
  });
}

const make = (graph, open) => {
  const tree = new Tree(graph);
  return new Layout(tree, new Sizes(tree), new Set([tree.root, ...open]));
};

function randomOpen(graph, next) {
  const open = [];
  for (let g = 1; g < graph.groups.parent.length; g++) if (next() < 0.5) open.push(graph.n + g);
  return open;
}

function coordinates(layout) {
  const at = new Map();
  layout.walk((item, x, y, box) => {
    at.set(item, {
      x,
      y,
      left: x - box.left,
      right: x + box.right,
      bottom: y + box.height,
      open: box.content !== null,
    });
    return true;
  });
  return at;
}

const show = (at) => JSON.stringify([...at].map(([item, b]) => [item, b.x, b.y, b.right, b.bottom]));
const apart = (a, b) => a.x1 <= b.x0 + 1e-6 || b.x1 <= a.x0 + 1e-6 || a.y1 <= b.y0 + 1e-6 || b.y1 <= a.y0 + 1e-6;

/** Boxes of one container do not overlap and stay inside it; edges go down; none passes under a box; what only feeds is near. */
function checkContainers(layout, tangled, fail) {
  layout.walk((item, x, y, box) => {
    if (!box.content) return true;
    const { kids, boxes, x: xs, y: ys, links, routes } = box.content;
    const n = kids.length;
    const rect = boxes.map((b, k) => ({ x0: xs[k] - b.left, x1: xs[k] + b.right, y0: ys[k], y1: ys[k] + b.height }));
    for (let a = 0; a < n; a++) {
      for (let b = 0; b < a; b++) if (!apart(rect[a], rect[b])) fail(`boxes ${kids[a]} and ${kids[b]} overlap`);
      if (
        rect[a].x0 < -box.left - 1e-6 ||
        rect[a].x1 > box.right + 1e-6 ||
        rect[a].y1 + (item === layout.tree.root ? 0 : HEADER) > box.height + 1e-6
      )
        fail(`box ${kids[a]} leaves its container`);
    }
    const read = new Set(links.map((l) => l.b));
    links.forEach((l, e) => {
      const r = routes[e];
      const [sx, sy, turn] = r;
      if (l.a < n && !layout.tree.isGroup(kids[l.a]) && !read.has(l.a) && turn - sy > 1e-6)
        fail(`edge ${l.a} to ${l.b} runs beside its row: ${kids[l.a]} reads nothing and could stand lower`);
      const tx = r[r.length - 2];
      const ty = r[r.length - 1];
      if (r.some((v) => !Number.isFinite(v))) fail(`route ${e} has no coordinates`);
      if (!tangled && !(sy <= turn + 1e-6 && turn <= ty + 1e-6)) fail(`edge ${l.a} to ${l.b} does not go down`);
      const vertical = [
        [sx, sy, turn],
        ...(r.length === 8 ? [[r[3], Math.min(r[4], r[5]), Math.max(r[4], r[5])]] : []),
      ];
      for (const [vx, y0, y1] of vertical)
        for (let k = 0; k < n; k++) {
          if (
            k !== l.a &&
            k !== l.b &&
            vx > rect[k].x0 + 1e-6 &&
            vx < rect[k].x1 - 1e-6 &&
            y0 < rect[k].y1 - 1e-6 &&
            y1 > rect[k].y0 + 1e-6
          )
            fail(`edge ${l.a} to ${l.b} passes under box ${kids[k]}`);
        }
      if (l.a < n && (sx < rect[l.a].x0 - 1e-6 || sx > rect[l.a].x1 + 1e-6 || Math.abs(sy - rect[l.a].y1) > 1e-6))
        fail(`edge ${e} does not start at its box`);
      if (l.b < n && (tx < rect[l.b].x0 - 1e-6 || tx > rect[l.b].x1 + 1e-6 || Math.abs(ty - rect[l.b].y0) > 1e-6))
        fail(`edge ${e} does not end at its box`);
    });
    return true;
  });
}

/**
 * Opening or closing a container moves only boxes in its row and below, in its own and in every outer container. What
 * is not connected stands beside, further right, and may be pushed aside as a whole.
 */
function checkExpand(layout, group, fail) {
  const before = coordinates(layout);
  const { tree } = layout;
  if (!before.has(group)) return;
  const shape = show(before);
  const chain = [group, ...tree.path(group)];
  const still = [];
  let sideways = false; // beside the first connected part, a part may shift as a whole
  chain.slice(1).forEach((parent, k) => {
    const { kids, part } = layout.box(parent).content;
    const grown = chain[k];
    const top = before.get(grown).y;
    const mine = part[kids.indexOf(grown)];
    kids.forEach((kid, j) => {
      if (kid !== grown && (part[j] < mine || (part[j] === mine && before.get(kid).bottom <= top))) still.push(kid);
    });
    still.push(grown);
    sideways ||= mine > 0;
  });
  layout.toggle(group);
  const after = coordinates(layout);
  const inside = (item) =>
    still.find((s) => s === item || (tree.isGroup(s) && !chain.includes(s) && tree.path(item).includes(s)));
  for (const [item, b] of before) {
    const a = after.get(item);
    const moved = !a || (!sideways && Math.abs(a.x - b.x) > 1e-6) || Math.abs(a.y - b.y) > 1e-6;
    if (moved && inside(item) !== undefined) fail(`toggling ${group} moved ${item}, which is above it`);
  }
  layout.toggle(group);
  if (show(coordinates(layout)) !== shape) fail(`toggling ${group} twice does not come back`);
}

export function run(seeds) {
  const failures = [];
  for (let seed = 0; seed < seeds; seed++) {
    const tangled = seed % 5 === 4;
    const graph = randomGraph(seed, tangled);
    const next = random(seed + 1000);
    const open = randomOpen(graph, next);
    const fail = (text) => {
      if (failures.length < 20) failures.push(`seed ${seed}: ${text}`);
    };
    const layout = make(graph, open);
    checkContainers(layout, tangled, fail);
    const other = make(randomGraph(seed, tangled), []);
    for (const g of open.slice().reverse()) {
      other.box(other.tree.root);
      other.toggle(g, true);
    }
    if (show(coordinates(layout)) !== show(coordinates(other)))
      fail("the same graph and open set gave other coordinates");
    for (let g = 1; g < graph.groups.parent.length; g++)
      if (layout.tree.count[g]) checkExpand(layout, graph.n + g, fail);
  }
  return failures;
}

globalThis.layoutFailures = run(Number(globalThis.layoutSeeds ?? 400));
if (typeof process !== "undefined" && process.stdout) process.stdout.write(JSON.stringify(globalThis.layoutFailures));
