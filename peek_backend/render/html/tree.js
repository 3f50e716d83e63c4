// The containers of one graph and the edges between what stands in them.
// Items are numbers: a node is its index, container g is N + g (N nodes), so the root is N.

const PORT_USERS = 4;
const PORT_PLACES = 6;

export class Tree {
  constructor(graph) {
    this.graph = graph;
    this.N = graph.n;
    this.groups = graph.groups;
    this.G = graph.groups.parent.length;
    this.root = this.N;
    this.slot = new Int32Array(this.N).fill(-1);
    this.lifted = new Map();
    this.place();
    this.hide();
    this.link();
  }

  isGroup(item) {
    return item >= this.N;
  }
  parent(item) {
    return item >= this.N ? this.parentOf[item - this.N] : this.groupOf[item] + this.N;
  }
  path(item) {
    const up = [];
    for (let i = this.parent(item); i !== -1; i = this.parent(i)) up.push(i);
    return up;
  }
  leaves(item) {
    return item < this.N
      ? [item]
      : this.graph.seq.subarray(this.groups.lo[item - this.N], this.groups.hi[item - this.N]);
  }

  /** The innermost container of every node: groups come parents first, so the last range to cover it wins. */
  place() {
    const { lo, hi, parent } = this.groups;
    const { seq } = this.graph;
    this.groupOf = new Int32Array(this.N);
    for (let g = 1; g < this.G; g++) for (let k = lo[g]; k < hi[g]; k++) this.groupOf[seq[k]] = g;
    this.parentOf = parent.map((p) => (p < 0 ? -1 : p + this.N));
  }

  /** Parameters, constants and bodies are chips in their users; a value read all over the graph is a named port. */
  hide() {
    const { graph, N } = this;
    this.depth = new Int32Array(this.G);
    for (let g = 1; g < this.G; g++) this.depth[g] = this.depth[this.groups.parent[g]] + 1;
    this.chip = new Uint8Array(N);
    this.port = new Uint8Array(N);
    for (let i = 0; i < N; i++) {
      const users = graph.users(i);
      const body = graph.cols.body[i] >= 0 && graph.op(i) === "get_attr";
      const unusedSize = !users.length && graph.inline[i] && graph.text("input_kind", i) === "size";
      if (unusedSize || (users.length && (graph.inline[i] || body))) this.chip[i] = 1;
      else if (users.length >= PORT_USERS && this.scattered(users)) this.port[i] = 1;
    }
  }

  /** Whether the users stand in several instances of one repeated container, or simply in many. */
  scattered(users) {
    const { parent, hash } = this.groups;
    const { depth } = this;
    let common = this.groupOf[users[0]];
    for (const u of users) {
      let g = this.groupOf[u];
      while (g !== common) {
        if (depth[g] >= depth[common]) g = parent[g];
        else common = parent[common];
      }
    }
    const places = new Set();
    for (const u of users) {
      let g = this.groupOf[u];
      while (g !== common && parent[g] !== common) g = parent[g];
      if (g !== common) places.add(g);
    }
    const kinds = new Set(Array.from(places, (g) => hash[g]));
    return places.size >= PORT_PLACES || (kinds.size < places.size && !kinds.has(-1));
  }

  /** Children of every container in topological order, without chips and without containers that hold only chips. */
  link() {
    const { N, G } = this;
    const { seq } = this.graph;
    const { lo, hi } = this.groups;
    this.count = new Int32Array(G);
    for (let i = 0; i < N; i++)
      if (!this.chip[i]) for (let g = this.groupOf[i]; g >= 0; g = this.groups.parent[g]) this.count[g]++;
    this.children = Array.from({ length: G }, () => []);
    const starts = new Map();
    for (let g = 1; g < G; g++) if (this.count[g]) (starts.get(lo[g]) ?? starts.set(lo[g], []).get(lo[g])).push(g);
    for (let k = 0; k < seq.length; k++) {
      for (const g of starts.get(k) ?? []) this.children[this.groups.parent[g]].push(g + N);
      if (!this.chip[seq[k]]) this.children[this.groupOf[seq[k]]].push(seq[k]);
    }
    this.hi = hi;
  }

  chips(node) {
    const seen = [];
    for (const r of this.graph.refs(node)) if ((this.chip[r] || this.port[r]) && !seen.includes(r)) seen.push(r);
    return seen;
  }

  /**
   * The edges of one container: `inner` [value, from child, to child], `ins` [value, child], `outs` [value, child],
   * children by position. `value` is the node that made it. Worked out once; does not depend on what is open.
   */
  edges(group) {
    let found = this.lifted.get(group);
    if (!found) this.lifted.set(group, (found = this.lift(group)));
    return found;
  }

  lift(group) {
    const { slot, graph, N } = this;
    const kids = this.children[group - N];
    const inside = this.leaves(group);
    kids.forEach((kid, k) => {
      for (const i of this.leaves(kid)) slot[i] = k;
    });
    const inner = [];
    const ins = [];
    const outs = [];
    const seen = new Set();
    const W = kids.length + 1;
    const once = (kind, value, child) => {
      const key = (value * 3 + kind) * W + child;
      return !seen.has(key) && seen.add(key);
    };
    for (const v of inside) {
      if (slot[v] < 0 || this.chip[v]) continue;
      for (const u of graph.refs(v)) {
        if (this.chip[u] || this.port[u] || u === v) continue;
        if (slot[u] < 0) {
          if (once(0, u, slot[v])) ins.push([u, slot[v]]);
        } else if (slot[u] !== slot[v] && once(1, u, slot[v])) inner.push([u, slot[u], slot[v]]);
      }
      if (group !== this.root && !this.port[v]) {
        for (const w of graph.users(v))
          if (slot[w] < 0 && once(2, v, slot[v])) {
            outs.push([v, slot[v]]);
            break;
          }
      }
    }
    for (const i of inside) slot[i] = -1;
    const number = (pairs) => {
      const index = new Map();
      for (const [value] of pairs) if (!index.has(value)) index.set(value, index.size);
      return index;
    };
    return { kids, inner, ins, outs, inPorts: number(ins), outPorts: number(outs) };
  }

  /** What stands open at first: containers from the outside in, one of each kind, until `budget` boxes show. */
  defaultOpen(budget = 70) {
    const open = new Set([this.root]);
    const seen = new Set();
    const helpers = this.count[0] <= budget || !this.groups.kind.includes("module"); // functions open where there is nothing better
    let shown = this.children[0].length;
    let level = [this.root];
    while (level.length) {
      const next = [];
      const inside = level.flatMap((parent) => this.children[parent - this.N].filter((i) => i >= this.N));
      inside.sort((a, b) => this.count[b - this.N] - this.count[a - this.N] || a - b); // where most happens
      for (const item of inside) {
        const g = item - this.N;
        const hash = this.groups.hash[g];
        const kind = this.groups.kind[g];
        const more = this.children[g].length;
        const plain = this.count[g] === 1 || kind === "fold" || (kind === "function" && !helpers);
        if (plain || seen.has(hash) || shown + more > budget) continue;
        if (hash >= 0) seen.add(hash);
        open.add(item);
        next.push(item);
        shown += more;
      }
      level = next;
    }
    return open;
  }
}
