// The search language: words match anywhere; `op:`, `dtype:`, `module:`, `shape:`, `file:` and the other FIELDS one field.
// All terms must hold; `-term` must not; "quotes" keep spaces; `bytes:>1M` compares; `module:a.*.b` and `shape:[1,*]` leave open.

import { OPS } from "./data.js";

/** What can stand after a field, as the search box tells while a field stands alone. */
const EXAMPLES = {
  op: "op:linear",
  dtype: "dtype:f32",
  module: "module:layers.*.mlp",
  shape: "shape:[1,*,512]",
  file: "file:model.py:12",
  name: "name:mul_3",
  target: "target:torch.add",
  device: "device:cuda",
  input: "input:weight",
  value: "value:s0",
  bytes: "bytes:>1M",
  flops: "flops:>1G",
  kind: "kind:matmul",
};

const AMOUNTS = ["bytes", "flops"];

/** How to go on with a query that ends in a field without a value, or whose amount is no number; empty for any other. */
export function hint(query) {
  const alone = /(?:^|[\s-])(\w+):$/.exec(query)?.[1].toLowerCase();
  const odd = (t) => AMOUNTS.includes(t.field) && t.word && !amountTest(amountOf(t.field, t.word), 1);
  const field = alone ?? parseQuery(query).find(odd)?.field;
  return EXAMPLES[field] ? `for example ${EXAMPLES[field]}` : "";
}

export const FIELDS = Object.keys(EXAMPLES);

/** The terms of a query: `{ not, field, word }`; of a field that is not one, `unknown` is the name and the whole term a word. */
function parseQuery(text) {
  const terms = [];
  const pattern = /(-?)(?:(\w+):)?(?:"([^"]*)"?|(\S+))/g;
  for (const m of text.matchAll(pattern)) {
    const alone = /^(\w+):$/.exec(m[4] ?? ""); // a field whose value is still to be typed
    const name = m[2] ?? alone?.[1];
    const word = alone ? "" : (m[3] ?? m[4] ?? "").toLowerCase();
    const known = name && FIELDS.includes(name.toLowerCase());
    if (!word && !alone) continue;
    terms.push({
      not: m[1] === "-",
      field: known ? name.toLowerCase() : null,
      word: known || !name ? word : `${name}:${word}`.toLowerCase(),
      unknown: name && !known ? name : null,
    });
  }
  return terms;
}

/** The first field of a query that is none, null where there is no such; one that `found` anything as plain text is text. */
export const unknownField = (query, found) =>
  parseQuery(query).find((term) => term.unknown && (term.not || !found))?.unknown ?? null;

const lowered = (v) => ({
  text: v.full.toLowerCase(),
  dtype: (v.dtype ?? "").toLowerCase(),
  shape: (v.shape ?? "").replace(/\s/g, "").toLowerCase(),
  device: (v.device ?? "").toLowerCase(),
  bytes: v.bytes ?? null,
});

/** The searchable texts of a graph: every string and value lowered once, each node then compares numbers. */
export class Index {
  constructor(graph, kindNames) {
    Object.assign(this, { graph, kindNames });
    const { capture } = graph;
    this.lower = capture.lower ??= capture.strings.map((text) => text.toLowerCase());
    this.values = capture.lowerValues ??= capture.values.map(lowered);
  }

  /** A mask of the nodes that match, null for an empty query. */
  find(text) {
    const terms = parseQuery(text);
    if (!terms.length) return null;
    const mask = new Uint8Array(this.graph.n).fill(1);
    for (const term of terms) {
      const test = this.test(term);
      for (let i = 0; i < mask.length; i++) if (mask[i] && !!test(i) === term.not) mask[i] = 0;
    }
    return mask;
  }

  /** Which strings hold a word, by number; each string is asked once, whatever the columns. */
  strings(word) {
    const hit = new Uint8Array(this.lower.length);
    for (let k = 0; k < hit.length; k++) if (this.lower[k].includes(word)) hit[k] = 1;
    return hit;
  }

  /** Whether any of these columns of a node has a string that is a hit. */
  columns(names, hit) {
    const columns = names.map((name) => this.graph.cols[name]);
    if (columns.length === 1) return this.listTest(hit, columns[0]);
    return (i) => {
      for (const column of columns) if (column[i] >= 0 && hit[column[i]]) return true;
      return false;
    };
  }

  valueTest(test) {
    const hit = this.values.map(test);
    const column = this.graph.cols.value;
    return (i) => column[i] >= 0 && hit[column[i]];
  }

  /** The test of one term: a function from node to whether it matches. A field without a word: whether a node has it. */
  test({ field, word }) {
    const { graph } = this;
    if (field && !word) return this.has(field);
    const columns = (...names) => [this.columns(names, this.strings(word))];
    const value = (hit) => [this.valueTest(hit)];
    const makers = {
      op: () => [...columns("target", "label"), this.opcode(word)],
      target: () => columns("target", "label"),
      name: () => columns("name"),
      input: () => columns("input", "input_kind"),
      dtype: () => value((v) => v.dtype === word || v.text.includes(`${word}[`) || longName(v.dtype) === word),
      shape: () => value((v) => shapeMatches(v.shape, word.replace(/\s/g, ""))),
      device: () => value((v) => v.device.includes(word)),
      bytes: () => value(bytesTest(word)),
      flops: () => [this.metricTest("flops", word)],
      value: () => value((v) => v.text.includes(word)),
      module: () => [this.listTest(this.lower.map(globTest(word)), graph.cols.module)],
      kind: () => [
        this.listTest(
          this.kindNames.map((k) => k.toLowerCase().includes(word)),
          graph.cols.kind,
        ),
      ],
      file: () => [this.fileTest(word)],
    };
    const anywhere = () => [
      ...columns("name", "label", "target", "module", "input", "code"),
      ...value((v) => v.text.includes(word)),
    ];
    const tests = (makers[field] ?? anywhere)();
    return tests.length === 1 ? tests[0] : (i) => tests.some((t) => t(i));
  }

  /** Whether a node's number of a metric passes; of nothing known none does. */
  metricTest(name, word) {
    const column = this.graph.metrics?.[name];
    const passes = column && amountTest(word, 1000);
    return (i) => !!passes && passes(column[i]);
  }

  /** Whether the entry that a column's number names is a hit. */
  listTest(hit, column) {
    return (i) => column[i] >= 0 && hit[column[i]];
  }

  /** Whether a node has anything in a field. */
  has(field) {
    const filled = (...names) => {
      const cols = names.map((name) => this.graph.cols[name]);
      return (i) => cols.some((col) => col[i] >= 0 && this.lower[col[i]] !== "");
    };
    if (["dtype", "shape", "device"].includes(field)) return this.valueTest((v) => v[field] !== "");
    if (field === "bytes") return this.valueTest((v) => v.bytes !== null);
    if (field === "flops") return this.metricTest("flops", ">0");
    if (field === "value") return this.valueTest(() => true);
    return (
      { module: filled("module"), file: filled("file"), input: filled("input", "input_kind") }[field] ?? (() => true)
    );
  }

  opcode(word) {
    const hit = OPS.map((op) => op.includes(word));
    return (i) => hit[this.graph.cols.op[i]];
  }

  fileTest(word) {
    const m = word.match(/^(.*):(\d+)(?:-(\d+))?$/);
    const file = this.columns(["file"], this.strings(m ? m[1] : word));
    const line = this.graph.cols.line;
    return m ? (i) => file(i) && line[i] >= +m[2] && line[i] <= +(m[3] ?? m[2]) : file;
  }
}

const LONG = {
  float32: "f32",
  float64: "f64",
  float16: "f16",
  bfloat16: "bf16",
  int64: "i64",
  int32: "i32",
  int16: "i16",
  int8: "i8",
  uint8: "u8",
  bool: "b8",
};
const longName = (short) => Object.keys(LONG).find((k) => LONG[k] === short);

/** `*` stands for anything; a number at the end is whole: `layers.1` is not in `layers.10`. */
function globTest(word) {
  const parts = word.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  const pattern = new RegExp(parts.join(".*") + (/\d$/.test(word) ? "(?!\\d)" : ""));
  return (text) => pattern.test(text);
}

/** `[1,16,*]` and `16,512` match in place; `*` stands for one size. */
function shapeMatches(shape, word) {
  if (!shape) return false;
  if (!word.includes("*"))
    return word.startsWith("[")
      ? shape.startsWith(word)
      : `,${shape.slice(1, -1)},`.includes(`,${word.replace(/\]$/, "")},`) || shape.includes(word);
  const want = word.replace(/[[\]]/g, "").split(",");
  const have = shape.slice(1, -1).split(",");
  return want.length === have.length && want.every((w, k) => w === "*" || w === have[k]);
}

/** An amount without the unit that bytes may have. */
const amountOf = (field, word) => (field === "bytes" ? word.replace(/i?b$/, "") : word);

function bytesTest(word) {
  const passes = amountTest(amountOf("bytes", word), 1024);
  return (v) => !!passes && v.bytes !== null && passes(v.bytes);
}

/** `>1M`, `<=20k`, or `5`, which is at least 5; a prefix is a power of `step`. Null for what is no amount. */
function amountTest(word, step) {
  const m = word.match(/^([<>]=?)?([\d.]+)([kmgt]?)(?:flops?)?$/);
  if (!m) return null;
  const limit = parseFloat(m[2]) * step ** " kmgt".indexOf(m[3] || " ");
  return { "<": (a) => a < limit, "<=": (a) => a <= limit, ">": (a) => a > limit, ">=": (a) => a >= limit }[
    m[1] ?? ">="
  ];
}
