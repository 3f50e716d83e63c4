// The user's code with the nodes that each line made; from a node to its line and back.

import { baseName, plural } from "./data.js";
import { fill, h } from "./dom.js";

const MAX_LINES = 4000;
const MAX_CHIPS = 7;
/** Lines around one that made nodes, and the fewest that are folded. */
const CONTEXT = 2;
const FOLD = 4;

export class SourceView {
  constructor(app) {
    this.app = app;
    this.files = h("nav.files", { "aria-label": "Files" });
    this.code = h("div.code", { tabIndex: 0 });
    this.element = h("section.source", this.files, this.code);
  }

  /** Nodes by file and line, once a graph. */
  index(graph) {
    if (graph.lines) return graph.lines;
    const files = new Map();
    for (let i = 0; i < graph.n; i++) {
      const name = graph.text("file", i);
      const line = graph.cols.line[i];
      if (!name) continue;
      const lines = files.get(name) ?? files.set(name, new Map()).get(name);
      const entry =
        lines.get(line) ??
        lines.set(line, { code: graph.text("code", i), function: graph.text("function", i), nodes: [] }).get(line);
      entry.nodes.push(i);
    }
    return (graph.lines = files);
  }

  update() {
    const { graph, state } = this.app;
    const files = this.index(graph);
    const selected = state.selected;
    const node = selected !== null && selected < graph.n ? selected : null;
    const names = [...files.keys()].sort((a, b) => total(files.get(b)) - total(files.get(a)));
    const wanted = (node !== null && graph.text("file", node)) || null;
    this.file =
      (this.app.sourceFile && files.has(this.app.sourceFile) && this.app.sourceFile) ||
      wanted ||
      (files.has(this.file) ? this.file : names[0]);
    this.line = this.app.sourceLine ?? (wanted === this.file ? graph.cols.line[node] : null);
    this.app.sourceFile = this.app.sourceLine = null;
    fill(
      this.files,
      names.map((name) =>
        h(
          "button",
          {
            class: name === this.file ? "on" : "",
            title: name,
            onclick: () => {
              this.app.sourceFile = name;
              this.update();
            },
          },
          h("b", baseName(name)),
          h("small.muted", `${plural(total(files.get(name)), "node")} · ${plural(files.get(name).size, "line")}`),
        ),
      ),
    );
    if (!names.length) return void fill(this.code, h("p.empty", "No node of this graph says where it comes from."));
    this.render(files.get(this.file), node);
  }

  render(lines, node) {
    const whole = this.app.capture.sources[this.file];
    const rows = whole ? this.wholeFile(whole, lines, node) : this.madeLines(lines, node);
    fill(this.code, h("header", h("code", this.file), this.state(whole)), rows);
    const on = this.code.querySelector(".on") ?? this.code.querySelector(".made");
    if (on) on.scrollIntoView({ block: "center" });
    else this.code.scrollTop = 0;
  }

  /** Why only the recorded lines show, where that is so. */
  state(whole) {
    if (whole) return null;
    const why = this.app.capture.changed.includes(this.file)
      ? "The file has changed since the capture"
      : "The file was not there when this page was written";
    return h("p.muted", `${why}: only the lines that made nodes show, as they were recorded.`);
  }

  /** The lines that made nodes, under the names of their functions. */
  madeLines(lines, node) {
    const rows = [];
    let before = null;
    let func = "";
    for (const n of [...lines.keys()].sort((a, b) => a - b).slice(0, MAX_LINES)) {
      const entry = lines.get(n);
      if (entry.function && entry.function !== func) {
        rows.push(h("div.gap", h("span.no"), h("code.muted", `def ${(func = entry.function)}`)));
        before = null;
      } else if (before !== null && n > before + 1) rows.push(h("div.gap", h("span.no", "⋮")));
      rows.push(this.row(n, entry.code, entry, node));
      before = n;
    }
    return rows;
  }

  /** The file; far from the lines that made nodes its lines are folded, the definitions around those lines are not. */
  wholeFile(whole, lines, node) {
    const shown = new Set(this.line ? around(this.line, whole.length) : []);
    for (const n of lines.keys()) for (const k of [...around(n, whole.length), ...definitions(whole, n)]) shown.add(k);
    const rows = [];
    for (let n = 1; n <= whole.length && rows.length < MAX_LINES; n++) {
      if (shown.has(n)) {
        rows.push(this.row(n, whole[n - 1], lines.get(n), node));
        continue;
      }
      const from = n;
      while (n < whole.length && !shown.has(n + 1)) n++;
      rows.push(...(n - from < FOLD ? this.between(whole, from, n) : [this.folded(whole, from, n)]));
    }
    return rows;
  }

  between(whole, from, to) {
    return whole.slice(from - 1, to).map((code, k) => this.row(from + k, code, undefined, null));
  }

  /** A run of lines that made nothing, in one; a click shows them. */
  folded(whole, from, to) {
    const open = (e) => {
      const rows = this.between(whole, from, to);
      e.currentTarget.parentNode.replaceWith(...rows);
      rows[0].scrollIntoView({ block: "nearest" });
    };
    return h("div.gap", h("span.no", "⋮"), h("button.link", { onclick: open }, `${to - from + 1} lines`));
  }

  row(n, code, entry, node) {
    const { graph, hits } = this.app;
    const on = n === this.line || (entry && node !== null && entry.nodes.includes(node));
    const hit = hits && entry?.nodes.some((i) => hits[i]);
    const row = h(
      "div",
      { class: `line${on ? " on" : ""}${hit ? " hit" : ""}${entry ? " made" : ""}`, "data-line": n },
      h("span.no", String(n)),
      h("code", hanging(code), code || " "),
    );
    if (entry) row.append(h("span.made", this.chips(entry.nodes, n, graph, node)));
    return row;
  }

  /** What stands for the chips that have no room: a search for all nodes of the line. */
  rest(count, line) {
    const search = () => this.app.search(`file:"${baseName(this.file)}:${line}"`);
    return h("button.chip", { title: "All nodes of this line", onclick: search }, `+${count}`);
  }

  /** Nodes of a line: single ones link to themselves, many of a kind to a search. */
  chips(nodes, line, graph, node) {
    const groups = Map.groupBy(nodes, (i) => graph.short(i));
    const chips = [...groups].map(([label, list]) =>
      h(
        "button.chip",
        {
          class: list.includes(node) ? "on" : "",
          title:
            list.length === 1 ? `${graph.name(list[0])}: ${graph.valueText(list[0])}` : plural(list.length, "node"),
          onclick: () =>
            list.length === 1
              ? this.app.select(list[0])
              : this.app.search(`file:"${baseName(this.file)}:${line}" op:"${label}"`),
        },
        h("i.dot", { style: { background: `var(--op-${this.app.kindName(list[0])})` } }),
        label,
        list.length > 1 ? h("small", `×${list.length}`) : null,
      ),
    );
    return chips.length > MAX_CHIPS ? [...chips.slice(0, MAX_CHIPS), this.rest(chips.length - MAX_CHIPS, line)] : chips;
  }
}

const total = (lines) => {
  let n = 0;
  for (const e of lines.values()) n += e.nodes.length;
  return n;
};

/** What does not fit goes on under the line's own start, a little further in. */
function hanging(code) {
  const depth = (/^\s*/.exec(code ?? "")?.[0].length ?? 0) + 4;
  return { style: { "padding-left": `${depth}ch`, "text-indent": `-${depth}ch` } };
}

/** Line numbers near `n`. */
function around(n, last) {
  const found = [];
  for (let k = Math.max(1, n - CONTEXT); k <= Math.min(last, n + CONTEXT); k++) found.push(k);
  return found;
}

const indent = (line) => (line.trim() ? line.length - line.trimStart().length : Infinity);

/** The lines of the `def` and `class` that line `n` stands in. */
function definitions(lines, n) {
  const found = [];
  let depth = indent(lines[n - 1] ?? "");
  for (let k = n - 1; k >= 1 && depth > 0; k--) {
    const line = lines[k - 1];
    if (indent(line) >= depth || !/^\s*(async\s+)?(def|class)\s/.test(line)) continue;
    found.push(k);
    depth = indent(line);
  }
  return found;
}
