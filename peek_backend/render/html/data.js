// The capture that the page carries: base64 of deflated JSON in a <script type="application/json">-like tag.
// Goes out: a Capture with Graphs whose columns are typed arrays; users and searchable texts are made when asked for.

export const OPS = ["placeholder", "get_attr", "call_function", "call_method", "call_module", "output"];
const FIRST_CALL = OPS.indexOf("call_function");
const LAST_CALL = OPS.indexOf("call_module");
const MARK = "\u0001";

export async function inflate(base64) {
  const text = atob(base64.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

export class Capture {
  constructor(payload) {
    Object.assign(this, payload);
    this.graphs = payload.graphs.map((g, k) => new Graph(g, k, this));
    for (const graph of this.graphs) {
      for (const [i, g, j] of graph.cols.origins) {
        if (j >= this.graphs[g].n) continue;
        graph.link(graph.up, i, [g, j]);
        this.graphs[g].link(this.graphs[g].down, j, [graph.at, i]);
      }
    }
  }

  /** The body that a node's number names; undefined for one that the record lacks. */
  child(graph, body) {
    const root = graph.parent ?? graph.at;
    const found = this.graphs[root + 1 + body];
    return found?.parent === root ? found : undefined;
  }
}

export class Graph {
  constructor(raw, at, capture) {
    const { nodes, seq, groups, name, ...rest } = raw;
    Object.assign(this, rest, { codeName: name, at, capture, cols: nodes, groups, up: new Map(), down: new Map() });
    this.strings = capture.strings;
    this.seq = Int32Array.from(seq);
    for (let k = 1; k < this.seq.length; k++) this.seq[k] += this.seq[k - 1];
    this.inline = Uint8Array.from(nodes.inline);
    this.first = new Int32Array(this.n + 1);
    for (let i = 0; i < this.n; i++) this.first[i + 1] = this.first[i] + nodes.ref_count[i];
    this.ref = Int32Array.from(nodes.refs);
    for (let i = 0; i < this.n; i++) {
      for (let k = this.first[i]; k < this.first[i + 1]; k++) {
        const r = i - this.ref[k];
        this.ref[k] = r >= 0 && r < this.n ? r : i; // a damaged record: no edge
      }
    }
    this.countUsers();
  }

  link(map, i, pair) {
    (map.get(i) ?? map.set(i, []).get(i)).push(pair);
  }

  countUsers() {
    const { n, ref, first } = this;
    const start = new Int32Array(n + 1);
    const last = new Int32Array(n).fill(-1);
    const each = (visit) => {
      last.fill(-1);
      for (let i = 0; i < n; i++) {
        for (let k = first[i]; k < first[i + 1]; k++) {
          const r = ref[k];
          if (r === i || last[r] === i) continue;
          last[r] = i;
          visit(r, i);
        }
      }
    };
    each((r) => start[r + 1]++);
    for (let i = 0; i < n; i++) start[i + 1] += start[i];
    const fill = start.slice();
    const user = new Int32Array(start[n]);
    each((r, i) => {
      user[fill[r]++] = i;
    });
    Object.assign(this, { userStart: start, user });
  }

  refs(i) {
    return this.ref.subarray(this.first[i], this.first[i + 1]);
  }
  users(i) {
    return this.user.subarray(this.userStart[i], this.userStart[i + 1]);
  }
  text(column, i) {
    const s = this.cols[column][i];
    return s < 0 ? "" : this.strings[s];
  }
  name(i) {
    return this.text("name", i);
  }
  label(i) {
    return this.text("label", i);
  }
  /** The label of a node, or its target where that is too long for a label. */
  whole(i) {
    const label = this.label(i);
    return label.includes("…") ? this.text("target", i) : label;
  }
  short(i) {
    return this.label(i).replace(/^operator\./, "");
  }
  op(i) {
    return OPS[this.cols.op[i]];
  }
  /** Whether the node computes something. */
  isOp(i) {
    return this.cols.op[i] >= FIRST_CALL && this.cols.op[i] <= LAST_CALL;
  }
  value(i) {
    const v = this.cols.value[i];
    return v < 0 ? null : this.capture.values[v];
  }
  valueText(i) {
    return this.value(i)?.text ?? "";
  }
  /** Bytes that a node reads and writes; -1 where they are not known. */
  moved(i) {
    const { read, written } = this.metrics;
    return read[i] < 0 || written[i] < 0 ? -1 : read[i] + written[i];
  }
  /** FLOPs and moved bytes of nodes together; none where nothing has a price. */
  cost(nodes) {
    const sum = { flops: 0, moved: 0 };
    if (this.metrics)
      for (const i of nodes) {
        sum.flops += Math.max(0, this.metrics.flops[i]);
        sum.moved += Math.max(0, this.moved(i));
      }
    return sum;
  }
  /** The cost of all nodes. */
  get total() {
    return (this.sum ??= this.cost(this.seq));
  }
  place(i) {
    return placeText({ file: this.text("file", i), line: this.cols.line[i] });
  }
  groupText(column, g) {
    const s = this.groups[column][g];
    return s < 0 ? "" : this.strings[s];
  }

  /** Arguments as pieces: texts, and node indices where a node stands. */
  args(i) {
    const text = this.text("args", i);
    const refs = this.refs(i);
    const parts = text.split(MARK);
    const out = [];
    parts.forEach((part, k) => {
      if (part) out.push(part);
      if (k < parts.length - 1) out.push(refs[k]);
    });
    return out;
  }
  argsText(i) {
    return this.args(i)
      .map((a) => (typeof a === "number" ? this.name(a) : a))
      .join("");
  }

  /** All nodes that `i` depends on (up) or that depend on it (down), itself included, as a mask. */
  reach(i, direction) {
    const mask = new Uint8Array(this.n);
    const stack = [i];
    const next = direction === "up" ? (k) => this.refs(k) : (k) => this.users(k);
    mask[i] = 1;
    while (stack.length)
      for (const j of next(stack.pop()))
        if (!mask[j]) {
          mask[j] = 1;
          stack.push(j);
        }
    return mask;
  }
}

const WINDOWS = /^(?:[a-z]:)?\\|^[a-z]:/i;
/** The last part of a path; elsewhere than on Windows a backslash is a letter of a name, and spells what cannot be seen. */
export const baseName = (path) =>
  path.slice(Math.max(path.lastIndexOf("/"), WINDOWS.test(path) ? path.lastIndexOf("\\") : -1) + 1);

/** `model.py:12` of what has a file and a line; empty where it has none. */
export const placeText = (at) => (at?.file ? `${baseName(at.file)}:${at.line}` : "");

/** `1 node`, `10,000 nodes`. */
export const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

export function bytesText(count) {
  if (count === null || count === undefined) return "";
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (Math.abs(count) < 1023.5 || unit === "TiB")
      return `${unit === "B" || count >= 99.95 ? count.toFixed(0) : count.toFixed(1)} ${unit}`;
    count /= 1024;
  }
}

/** A part of a whole, from 0 to 1: `12.5 %`. */
export const percent = (share) => (share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);

/** `812 FLOP`, `3.2 GFLOP`: decimal prefixes. */
export function count(value, unit = "") {
  for (const prefix of ["", "k", "M", "G", "T", "P"]) {
    if (value < 1000 || prefix === "P")
      return `${value < 10 && prefix ? value.toFixed(1) : Math.round(value)} ${prefix}${unit}`.trim();
    value /= 1000;
  }
}
