// The search language: words match anywhere; `op:`, `dtype:`, `module:`, `shape:`, `file:` and the other FIELDS one field.
// All terms must hold; `-term` must not; "quotes" keep spaces; `bytes:>1M` compares; `module:a.*.b` and `shape:[1,*]` leave open.

const FIELDS = [
  "op",
  "dtype",
  "module",
  "shape",
  "file",
  "name",
  "target",
  "device",
  "input",
  "value",
  "bytes",
  "kind",
];

function parseQuery(text) {
  const terms = [];
  const pattern = /(-?)(?:(\w+):)?(?:"([^"]*)"?|(\S+))/g;
  for (const m of text.matchAll(pattern)) {
    const field = m[2]?.toLowerCase();
    const word = (m[3] ?? m[4] ?? "").toLowerCase();
    const known = field && FIELDS.includes(field);
    if (!word) continue;
    terms.push({
      not: m[1] === "-",
      field: known ? field : null,
      word: known || !m[2] ? word : `${m[2]}:${word}`.toLowerCase(),
    });
  }
  return terms;
}

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
      for (let i = 0; i < mask.length; i++) if (mask[i] && test(i) === term.not) mask[i] = 0;
    }
    return mask;
  }

  column(name, word) {
    const hit = this.lower.map((s) => s.includes(word));
    const column = this.graph.cols[name];
    return (i) => column[i] >= 0 && hit[column[i]];
  }

  valueTest(test) {
    const hit = this.values.map(test);
    const column = this.graph.cols.value;
    return (i) => column[i] >= 0 && hit[column[i]];
  }

  /** The test of one term: a function from node to whether it matches. */
  test({ field, word }) {
    const { graph } = this;
    const columns = (...names) => names.map((name) => this.column(name, word));
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

  /** Whether the entry that a column's number names is a hit. */
  listTest(hit, column) {
    return (i) => column[i] >= 0 && hit[column[i]];
  }

  opcode(word) {
    const hit = ["placeholder", "get_attr", "call_function", "call_method", "call_module", "output"].map((o) =>
      o.includes(word),
    );
    return (i) => hit[this.graph.cols.op[i]];
  }

  fileTest(word) {
    const m = word.match(/^(.*):(\d+)(?:-(\d+))?$/);
    const file = this.column("file", m ? m[1] : word);
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

function bytesTest(word) {
  const m = word.match(/^([<>]=?)?([\d.]+)([kmgt]?)i?b?$/);
  if (!m) return () => false;
  const limit = parseFloat(m[2]) * 1024 ** " kmgt".indexOf(m[3] || " ");
  const compare = { "<": (a) => a < limit, "<=": (a) => a <= limit, ">": (a) => a > limit, ">=": (a) => a >= limit }[
    m[1] ?? ">="
  ];
  return (v) => v.bytes !== null && compare(v.bytes);
}
