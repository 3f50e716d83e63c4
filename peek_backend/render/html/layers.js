// Layered layout of one container: who stands in which row, in which order, where, and how its edges run.
// Pure functions on plain arrays. Comes in: a problem; goes out: coordinates around the container's own axis, x = 0.
//
// A problem: { n, width, nin, nout, edges } has items 0..n-1, in-ports n.., out-ports n+nin.., and edges as [from, to].
// Two steps, so that opening one box moves nothing above it:
//   skeleton(problem)         rows, order and centres from the *closed* widths; the same whatever is open
//   realise(skeleton, sizes)  the real boxes, row by row downwards; a row follows only the rows above it

const GAP_X = 22;
const ROW_GAP = 24;
const PORT_GAP = 12;
const LANE = 9;
const MAX_ROW = 14;
/** Items of a row that nothing connects. */
const MAX_LOOSE = 3;

/** Rows by longest path. Edges that close a cycle are marked in `back` and do not count. */
function ranks(n, edges) {
  const out = Array.from({ length: n }, () => []);
  const degree = new Int32Array(n);
  const back = new Uint8Array(edges.length);
  edges.forEach(([a, b], e) => {
    if (a < n && b < n) {
      out[a].push([b, e]);
      degree[b]++;
    }
  });
  const rank = new Int32Array(n);
  const done = new Uint8Array(n);
  const order = [];
  let ready = [];
  let next = 0;
  for (let i = 0; i < n; i++) if (!degree[i]) ready.push(i);
  const take = (i) => {
    done[i] = 1;
    order.push(i);
    for (const [b, e] of out[i]) {
      if (done[b]) {
        back[e] = 1;
        continue;
      }
      rank[b] = Math.max(rank[b], rank[i] + 1);
      if (!--degree[b]) ready.push(b);
    }
  };
  while (order.length < n) {
    for (let k = 0; k < ready.length; k++) if (!done[ready[k]]) take(ready[k]);
    ready = [];
    while (next < n && done[next]) next++;
    if (next < n) ready.push(next); // a cycle: cut it at its first item
  }
  return { rank, back, order };
}

/**
 * An item that feeds more than it reads moves down to its nearest user, so that its edges are short. What is read by it alone,
 * and reads nothing that stays, comes along and so does not count.
 */
function tighten(n, edges, { rank, back, order }) {
  const users = Array.from({ length: n }, () => []);
  const makers = Array.from({ length: n }, () => []);
  edges.forEach(([a, b], e) => {
    if (back[e] || b >= n) return;
    makers[b].push(a);
    if (a < n) users[a].push(b);
  });
  const stays = new Int32Array(n); // producers of an item that do not move with it
  for (const i of order) for (const a of makers[i]) if (a >= n || stays[a] || users[a].length > 1) stays[i]++;
  for (let k = n - 1; k >= 0; k--) {
    const i = order[k];
    if (!users[i].length || (stays[i] && users[i].length <= stays[i])) continue;
    rank[i] = Math.max(rank[i], Math.min(...users[i].map((b) => rank[b])) - 1);
  }
}

function buildRows(problem, rank) {
  const { n, nin, nout } = problem;
  let last = -1;
  for (let i = 0; i < n; i++) last = Math.max(last, rank[i]);
  const rows = Array.from({ length: last + 3 }, () => []);
  for (let p = 0; p < nin; p++) rows[0].push(n + p);
  for (let i = 0; i < n; i++) rows[rank[i] + 1].push(i);
  for (let p = 0; p < nout; p++) rows[last + 2].push(n + nin + p);
  return rows;
}

/** Neighbours of every item, above and below, whatever their distance. */
function adjacency(total, edges, back) {
  const up = Array.from({ length: total }, () => []);
  const down = Array.from({ length: total }, () => []);
  edges.forEach(([a, b], e) => {
    if (!back[e]) {
      up[b].push(a);
      down[a].push(b);
    }
  });
  return { up, down };
}

/** Barycentre sweeps; keeps the order with the least sideways distance. Positions count items, not pixels. */
function arrange(rows, { up, down }, total) {
  const at = new Float64Array(total);
  const settle = (row) =>
    row.forEach((i, k) => {
      at[i] = k - (row.length - 1) / 2;
    });
  rows.forEach(settle);
  const cost = () => {
    let sum = 0;
    for (const row of rows) for (const i of row) for (const j of down[i]) sum += Math.abs(at[i] - at[j]);
    return sum;
  };
  const sweep = (list, near) => {
    for (const row of list) {
      if (row.length < 2) continue;
      const key = new Map(
        row.map((i) => [i, near[i].length ? near[i].reduce((s, j) => s + at[j], 0) / near[i].length : at[i]]),
      );
      row.sort((a, b) => key.get(a) - key.get(b) || at[a] - at[b]);
      settle(row);
    }
  };
  let best = cost();
  let kept = rows.map((row) => row.slice());
  const upwards = rows.slice().reverse();
  for (let t = 0; t < 4 && best > 0; t++) {
    for (const [list, near] of [
      [rows, up],
      [upwards, down],
    ]) {
      sweep(list, near);
      const now = cost();
      if (now < best) {
        best = now;
        kept = rows.map((row) => row.slice());
      }
    }
  }
  return kept;
}

/** A row too long to read becomes several: its items do not depend on one another. */
function wrap(rows, most) {
  const out = [];
  rows.forEach((row, r) => {
    const parts = r === 0 || r === rows.length - 1 ? 1 : Math.ceil(row.length / most);
    const size = Math.ceil(row.length / parts) || 1;
    if (!row.length) return void out.push(row);
    for (let k = 0; k < row.length; k += size) out.push(row.slice(k, k + size));
  });
  return out;
}

/**
 * Centres as near as possible (least squares) to what each item wants, in order and without overlap:
 * isotonic regression by pooling adjacent violators.
 */
export function place(row, want, weight, left, right, gap) {
  const blocks = [];
  const offset = [];
  let run = 0;
  row.forEach((i, k) => {
    if (k) run += right(row[k - 1]) + gap(row[k - 1], i) + left(i);
    offset.push(run);
    let block = { sum: (want(i) - run) * weight(i), weight: weight(i), count: 1 };
    while (
      blocks.length &&
      blocks[blocks.length - 1].sum / blocks[blocks.length - 1].weight >= block.sum / block.weight
    ) {
      const top = blocks.pop();
      block = { sum: top.sum + block.sum, weight: top.weight + block.weight, count: top.count + block.count };
    }
    blocks.push(block);
  });
  const x = [];
  for (const block of blocks) for (let c = 0; c < block.count; c++) x.push(block.sum / block.weight + offset[x.length]);
  return x;
}

function nominalCentres(problem, rows, rowOf, { up, down }) {
  const { n, width } = problem;
  const total = rowOf.length;
  const x = new Float64Array(total);
  const half = (i) => (i < n ? width[i] / 2 : 4);
  const gap = (a) => (a < n ? GAP_X : 6);
  const mean = (i, near) => {
    let sum = 0;
    let weight = 0;
    for (const j of near[i]) {
      const w = Math.abs(rowOf[i] - rowOf[j]) === 1 ? 6 : 1;
      sum += x[j] * w;
      weight += w;
    }
    return weight ? sum / weight : x[i];
  };
  const settle = (row, want) =>
    place(row, want, () => 1, half, half, gap).forEach((v, k) => {
      x[row[k]] = v;
    });
  rows.forEach((row) => settle(row, () => 0));
  for (let t = 0; t < 5; t++) {
    for (let r = 1; r < rows.length; r++) settle(rows[r], (i) => mean(i, up));
    for (let r = rows.length - 2; r >= 0; r--) settle(rows[r], (i) => mean(i, down));
  }
  for (let r = 1; r < rows.length; r++) settle(rows[r], (i) => mean(i, up));
  settle(rows[0], (i) => mean(i, down));
  let lo = Infinity;
  let hi = -Infinity;
  for (let i = 0; i < n; i++) {
    lo = Math.min(lo, x[i] - half(i));
    hi = Math.max(hi, x[i] + half(i));
  }
  if (n) for (let i = 0; i < total; i++) x[i] -= (lo + hi) / 2;
  return x;
}

/**
 * Rows, order and centres of a container, from the widths its items have when closed. What is not connected
 * stands side by side: `parts` are skeletons of their own, each with `items`, its items' numbers in the problem.
 */
export function skeleton(problem) {
  const parts = components(problem).map((items) => ({ ...connected(part(problem, items)), items }));
  assignShelves(parts, problem.n);
  return { problem, parts };
}

/** Parts that nothing connects stand side by side until that is too wide by their closed widths; ports keep a part at the top. */
function assignShelves(parts, n) {
  let shelf = 0;
  let used = 0;
  let limit = 0;
  parts.forEach((p, k) => {
    const width = extentOf(p);
    const ported = p.items[p.items.length - 1] >= n;
    if (k === 0) limit = Math.max(2400, 1.3 * width);
    else if (!ported && used + width > limit) {
      shelf++;
      used = 0;
    }
    p.shelf = shelf;
    p.ported = ported;
    used += width + 2 * GAP_X;
  });
}

function extentOf({ cx, problem: { n, width } }) {
  let lo = 0;
  let hi = 0;
  for (let i = 0; i < n; i++) {
    lo = Math.min(lo, cx[i] - width[i] / 2);
    hi = Math.max(hi, cx[i] + width[i] / 2);
  }
  return hi - lo;
}

/** Items and ports by connection, the largest first; single ones together last. */
function components({ n, nin, nout, edges }) {
  const total = n + nin + nout;
  const root = Int32Array.from({ length: total }, (_, i) => i);
  const find = (i) => {
    while (root[i] !== i) i = root[i] = root[root[i]];
    return i;
  };
  for (const [a, b] of edges) root[find(a)] = find(b);
  const groups = new Map();
  const alone = [];
  for (let i = 0; i < total; i++) (groups.get(find(i)) ?? groups.set(find(i), []).get(find(i))).push(i);
  const parts = [];
  for (const items of groups.values())
    if (items.length > 1) parts.push(items);
    else alone.push(items[0]);
  const ported = (items) => (items[items.length - 1] >= n ? 0 : 1); // those with ports first: these stay at the top
  parts.sort((a, b) => ported(a) - ported(b) || b.length - a.length || a[0] - b[0]);
  if (alone.length) parts.push(alone);
  return parts;
}

/** The problem of some items alone; their order, and so items before in-ports before out-ports, is kept. */
function part({ n, nin, width, edges }, items) {
  const at = new Map(items.map((i, k) => [i, k]));
  const own = items.filter((i) => i < n);
  return {
    n: own.length,
    nin: items.filter((i) => i >= n && i < n + nin).length,
    nout: items.filter((i) => i >= n + nin).length,
    width: own.map((i) => width[i]),
    edges: edges.filter(([a]) => at.has(a)).map(([a, b]) => [at.get(a), at.get(b)]),
  };
}

function connected(problem) {
  const total = problem.n + problem.nin + problem.nout;
  const ranked = ranks(problem.n, problem.edges);
  tighten(problem.n, problem.edges, ranked);
  const near = adjacency(total, problem.edges, ranked.back);
  const rows = wrap(arrange(buildRows(problem, ranked.rank), near, total), problem.edges.length ? MAX_ROW : MAX_LOOSE);
  const rowOf = new Int32Array(total);
  rows.forEach((row, r) =>
    row.forEach((i) => {
      rowOf[i] = r;
    }),
  );
  const cx = nominalCentres(problem, rows, rowOf, near);
  return { problem, rows, rowOf, cx, up: near.up, gaps: rowGaps(problem, rows, rowOf, cx), hangs: sources(problem) };
}

/** Items that read nothing and are read: they stand at the bottom of their row, near their users, however tall a neighbour is. */
function sources({ n, edges }) {
  const found = new Uint8Array(n);
  for (const [a] of edges) if (a < n) found[a] = 1;
  for (const [, b] of edges) if (b < n) found[b] = 0;
  return found;
}

/** Room under each row: more where more edges must turn. Counts only, so that opening a box changes none. */
function rowGaps(problem, rows, rowOf, cx) {
  const turns = new Int32Array(rows.length);
  for (const [a, b] of problem.edges) {
    if (Math.abs(cx[a] - cx[b]) < 3) continue;
    turns[rowOf[a]]++;
    if (rowOf[b] - rowOf[a] > 1) turns[rowOf[b] - 1]++;
  }
  return rows.map((row, r) => (r === 0 || r === rows.length - 2 ? PORT_GAP : ROW_GAP) + Math.min(40, 3 * turns[r]));
}

/**
 * Real positions. Each row starts from its closed widths, following the rows above; then what is open pushes its
 * neighbours aside and stays where it is, so that opening a box never moves the box itself or anything above it.
 */
function settleRows(skel, size) {
  const {
    problem: { n, width },
    rows,
    cx,
    up,
    gaps,
    hangs,
  } = skel;
  const x = Float64Array.from(cx);
  const y = new Float64Array(cx.length);
  const top = [];
  const bottom = [];
  const half = (i) => (i < n ? width[i] / 2 : 4);
  const gap = (a) => (a < n ? GAP_X : 6);
  const follow = (i) => {
    let sum = 0;
    for (const j of up[i]) sum += x[j] - cx[j];
    return up[i].length ? sum / up[i].length : 0;
  };
  let at = 0;
  rows.forEach((row, r) => {
    if (r)
      place(
        row,
        (i) => cx[i] + follow(i),
        () => 1,
        half,
        half,
        gap,
      ).forEach((v, k) => {
        x[row[k]] = v;
      });
    pushAside(row, x, n, size, half, gap);
    let h = 0;
    for (const i of row) if (i < n) h = Math.max(h, size.height[i]);
    for (const i of row) y[i] = i < n && hangs[i] && size.leaf[i] ? at + h - size.height[i] : at;
    top.push(at);
    bottom.push(at + h);
    at += h + (r < rows.length - 1 ? gaps[r] : 0);
  });
  return { x, y, top, bottom, height: at };
}

/**
 * An item that is wider than when closed moves all on its right to the right and all on its left to the left. Of the
 * free space between two neighbours each may use half, so that one's growth never depends on the other's.
 */
function pushAside(row, x, n, size, half, gap) {
  const right = [];
  const left = []; // by pair: how far the left one's growth pushes right, the right one's pushes left
  for (let k = 0; k + 1 < row.length; k++) {
    const a = row[k];
    const b = row[k + 1];
    const free = x[b] - x[a] - half(a) - half(b) - gap(a);
    right.push(a < n ? Math.max(0, size.right[a] - half(a) - free / 2) : 0);
    left.push(b < n ? Math.max(0, size.left[b] - half(b) - free / 2) : 0);
  }
  let shift = -left.reduce((s, v) => s + v, 0);
  row.forEach((i, k) => {
    x[i] += shift;
    shift += (right[k] ?? 0) + (left[k] ?? 0);
  });
}

/** Straight vertical lanes for the edges that pass rows: beside boxes, never under them. */
class Lanes {
  constructor(skel, size, placed) {
    Object.assign(this, { skel, size, placed, taken: [] });
    this.n = skel.problem.n;
  }

  /** No box of rows lo..hi within LANE of x, and no other source's lane beside it. */
  free(x, lo, hi, source) {
    const { rows } = this.skel;
    const { left, right } = this.size;
    const at = this.placed.x;
    for (let r = lo; r <= hi; r++) {
      for (const i of rows[r])
        if (i < this.n && x > at[i] - left[i] - LANE && x < at[i] + right[i] + LANE) return false;
    }
    return this.taken.every((t) => t.source === source || t.hi < lo || t.lo > hi || Math.abs(t.x - x) >= LANE - 1);
  }

  /** Gaps between boxes of rows lo..hi and the two outer sides; few where the span is long. */
  candidates(lo, hi, sx, tx) {
    const { rows } = this.skel;
    const { left, right } = this.size;
    const at = this.placed.x;
    const found = [tx, sx];
    let min = Infinity;
    let max = -Infinity;
    for (let r = lo; r <= hi; r++) {
      for (const i of rows[r]) {
        if (i >= this.n) continue;
        const a = at[i] - left[i] - LANE;
        const b = at[i] + right[i] + LANE;
        min = Math.min(min, a);
        max = Math.max(max, b);
        if (hi - lo < 6 && found.length < 60) found.push(a, b);
      }
    }
    return { found, min: min === Infinity ? sx : min, max: max === -Infinity ? sx : max };
  }

  find(lo, hi, sx, tx, source) {
    const { found, min, max } = this.candidates(lo, hi, sx, tx);
    const cost = (x) => Math.abs(x - sx) + Math.abs(x - tx);
    let best = null;
    for (const x of found) if ((best === null || cost(x) < cost(best) - 1e-6) && this.free(x, lo, hi, source)) best = x;
    for (const [start, step] of [
      [min, -LANE],
      [max, LANE],
    ]) {
      let x = start;
      while (!this.free(x, lo, hi, source)) x += step;
      if (best === null || cost(x) < cost(best) - 1e-6) best = x;
    }
    this.taken.push({ x: best, lo, hi, source });
    return best;
  }
}

/** Where edges enter a box: the straight one in the middle, the others beside it in the order they arrive. */
function slots(arrivals, halfWidth) {
  arrivals.sort((a, b) => a.from - b.from || a.e - b.e);
  const k = arrivals.length;
  let mid = (k - 1) / 2;
  const straight = arrivals.findIndex((a) => Math.abs(a.from) < 2);
  if (straight >= 0) mid = straight;
  const step = Math.min(14, Math.max(1, halfWidth - 8) / Math.max(1, mid, k - 1 - mid));
  arrivals.forEach((a, j) => {
    a.offset = (j - mid) * step;
  });
}

/**
 * The real layout: `size` has left, right (from the axis), height and open per item; `links` are the edges to draw,
 * each { a, b, ao, bo, source }, where ao and bo are ports on an open box (offset from its axis) or null.
 * Goes out: x (axis) and y (top) per item, the extent, and one route per link:
 * `part` tells which items are connected;
 * [sx, sy, turn, tx, ty] between neighbouring rows, [sx, sy, turn, lane, laneTop, laneBottom, tx, ty] past rows.
 */
export function realise(skel, size, links) {
  const { n, nin, nout } = skel.problem;
  const total = n + nin + nout;
  const x = new Float64Array(total);
  const y = new Float64Array(total);
  const out = { x, y, routes: new Array(links.length), left: 0, right: 0, height: 0, part: new Int32Array(total) };
  const shelf = new Shelf();
  skel.parts.forEach((p, number) => {
    for (const i of p.items) out.part[i] = number;
    placePart(p, n, size, links, shelf, out);
  });
  for (let p = n + nin; p < total; p++) y[p] = out.height; // every value that leaves does so at the bottom
  links.forEach((l, e) => {
    if (l.b >= n + nin) out.routes[e] = longer(out.routes[e], out.height);
  });
  return out;
}

/** Lays one connected part out, finds its place on the shelf, and puts it into `out`. */
function placePart(p, n, size, links, shelf, out) {
  const at = new Map(p.items.map((i, k) => [i, k]));
  const own = p.items.filter((i) => i < n);
  const pick = (list) => own.map((i) => list[i]);
  const sizes = { left: pick(size.left), right: pick(size.right), height: pick(size.height), leaf: pick(size.leaf) };
  const mine = links.map((l, e) => e).filter((e) => at.has(links[e].a));
  const local = mine.map((e) => ({ ...links[e], a: at.get(links[e].a), b: at.get(links[e].b) }));
  const made = layPart(p, sizes, local);
  const [dx, dy] = shelf.add(made, sizes, Array.from(made.x).slice(own.length), p.shelf);
  p.items.forEach((i, k) => {
    out.x[i] = made.x[k] + dx;
    out.y[i] = made.y[k] + dy;
  });
  mine.forEach((e, k) => {
    out.routes[e] = moved(made.routes[k], dx, dy);
  });
  out.left = Math.min(out.left, made.left + dx);
  out.right = Math.max(out.right, made.right + dx);
  out.height = Math.max(out.height, made.height + dy);
}

/** Puts the parts of a shelf side by side, as far left as the boxes beside them allow, and the shelves below one another. */
class Shelf {
  constructor() {
    Object.assign(this, { boxes: [], top: 0, number: 0, left: 0 });
  }

  add(made, size, ports, number) {
    if (number > this.number) this.top = Math.max(...this.boxes.map((b) => b.end)) + 2 * ROW_GAP;
    this.number = number;
    const first = this.boxes.length === 0;
    const dx = first ? 0 : this.beside(made, ports.length ? Infinity : made.height);
    if (first) this.left = made.left;
    this.keep(made, size, ports, dx, this.top);
    return [dx, this.top];
  }

  /** Remembers boxes, lanes, and the lines below ports, which go on to the bottom whatever its height. */
  keep(made, size, ports, dx, dy) {
    const add = (top, bottom, right, end = bottom) =>
      this.boxes.push({ top: top + dy, bottom: bottom + dy, end: end + dy, right: right + dx });
    for (let i = 0; i < size.left.length; i++) add(made.y[i], made.y[i] + size.height[i], made.x[i] + size.right[i]);
    for (const r of made.routes) if (r.length === 8) add(Math.min(r[4], r[5]), Math.max(r[4], r[5]), r[3] + LANE);
    for (const x of ports) add(0, Infinity, x + LANE, made.height);
  }

  beside(made, height) {
    let x = -Infinity;
    for (const b of this.boxes)
      if (b.top < this.top + height + ROW_GAP && b.bottom > this.top - ROW_GAP) x = Math.max(x, b.right);
    return (x === -Infinity ? this.left : x + 2 * GAP_X) - made.left;
  }
}

const moved = (r, dx, dy) =>
  r.length === 5
    ? [r[0] + dx, r[1] + dy, r[2] + dy, r[3] + dx, r[4] + dy]
    : [r[0] + dx, r[1] + dy, r[2] + dy, r[3] + dx, r[4] + dy, r[5] + dy, r[6] + dx, r[7] + dy];

/** A route that ends at `y`: what it lacks becomes a straight lane at its end. */
function longer(r, y) {
  const last = r.length - 1;
  if (y - r[last] < 0.5) return r;
  if (r.length === 8) return [...r.slice(0, 5), y - r[7] + r[5], r[6], y];
  return [r[0], r[1], r[2], r[3], r[4], y - PORT_GAP, r[3], y];
}

function layPart(skel, size, links) {
  const {
    rowOf,
    problem: { n },
  } = skel;
  const placed = settleRows(skel, size);
  const { x, y, top, bottom } = placed;
  const lanes = new Lanes(skel, size, placed);
  const lane = new Array(links.length).fill(null);
  const start = (l) => x[l.a] + (l.ao ?? 0);
  const goal = (l) => x[l.b] + (l.bo ?? 0);
  const span = (l) => Math.abs(rowOf[l.b] - rowOf[l.a]);
  const long = links.map((l, e) => e).filter((e) => span(links[e]) > 1 || rowOf[links[e].b] <= rowOf[links[e].a]);
  long.sort((a, b) => span(links[a]) - span(links[b]) || a - b);
  for (const e of long) {
    const l = links[e];
    const a = rowOf[l.a];
    const b = rowOf[l.b];
    lane[e] = b > a ? lanes.find(a + 1, b - 1, start(l), goal(l), l.source) : lanes.find(b, a, 1e7, 1e7, -1 - e);
  }
  const entry = entries(links, lane, size, placed, n);
  const routes = links.map((l, e) => {
    const r = rowOf[l.a];
    const q = rowOf[l.b];
    const sx = start(l);
    const sy = y[l.a] + (l.a < n ? size.height[l.a] : 0);
    const tx = entry[e];
    const ty = y[l.b];
    if (lane[e] === null) return [sx, sy, bottom[r], tx, ty];
    const down = q > r;
    return [sx, sy, bottom[r], lane[e], down ? top[r + 1] : bottom[r] + 10, down ? bottom[q - 1] : ty - 10, tx, ty];
  });
  return { ...extent(n, size, placed, lane), x, y, height: placed.height, routes };
}

/** Where each link enters: its port on an open box, its slot on a closed one. */
function entries(links, lane, size, { x }, n) {
  const arrivals = new Map();
  const entry = new Float64Array(links.length);
  links.forEach((l, e) => {
    entry[e] = x[l.b] + (l.bo ?? 0);
    if (l.bo !== null || l.b >= n) return;
    const list = arrivals.get(l.b) ?? arrivals.set(l.b, []).get(l.b);
    list.push({ e, from: (lane[e] ?? x[l.a] + (l.ao ?? 0)) - x[l.b], offset: 0 });
  });
  for (const [b, list] of arrivals) {
    slots(list, Math.min(size.left[b], size.right[b]));
    for (const a of list) entry[a.e] = x[b] + a.offset;
  }
  return entry;
}

function extent(n, size, { x }, lane) {
  let left = 0;
  let right = 0;
  for (let i = 0; i < n; i++) {
    left = Math.min(left, x[i] - size.left[i]);
    right = Math.max(right, x[i] + size.right[i]);
  }
  for (let i = n; i < x.length; i++) {
    left = Math.min(left, x[i]);
    right = Math.max(right, x[i]);
  }
  for (const v of lane)
    if (v !== null) {
      left = Math.min(left, v - 4);
      right = Math.max(right, v + 4);
    }
  return { left, right };
}
