// Every node as a row: virtualised, sortable, filtered by the page's search, copied as Markdown or CSV.

import { bytesText, count } from "./data.js";
import { copyText, fill, h } from "./dom.js";

const ROW = 26;
const COLUMNS = [
  { key: "index", title: "#", number: (g, i) => i, text: (g, i) => String(i), right: true },
  { key: "name", title: "name", ends: true, text: (g, i) => g.name(i) },
  { key: "target", title: "op", ends: true, text: (g, i) => g.label(i), kind: true },
  { key: "value", title: "value", text: (g, i) => g.valueText(i), mono: true },
  { key: "args", title: "args", text: (g, i) => g.argsText(i), mono: true },
  { key: "module", title: "module", ends: true, text: (g, i) => g.text("module", i) },
  {
    key: "bytes",
    title: "bytes",
    number: (g, i) => g.value(i)?.bytes ?? -1,
    text: (g, i) => bytesText(g.value(i)?.bytes),
    right: true,
  },
  {
    key: "flops",
    title: "FLOPs",
    number: (g, i) => g.metrics.flops[i],
    text: (g, i) => (g.metrics.flops[i] > 0 ? count(g.metrics.flops[i]) : ""),
    right: true,
    when: (g) => g.total.flops > 0,
  },
  {
    key: "users",
    title: "users",
    number: (g, i) => g.users(i).length,
    text: (g, i) => String(g.users(i).length),
    right: true,
  },
  { key: "line", title: "source", ends: true, number: null, text: (g, i) => g.place(i) },
];
/** Rows whose texts decide how wide the columns are, and the share of them that fits. */
const SAMPLE = 300;
const FITS = 0.92;
/** Columns of which all texts fit: they tell rows apart. */
const WHOLE = new Set(["name", "target"]);
/** px of a character of a value and of a number; of a cell's sides, of a row's, and of the dot before an op. */
const WIDE = { mono: 6.7, right: 7.2 };
const EDGES = 28;
/** px of the longest text that a column makes room for. */
const LONGEST = 400;
const SIDES = 16;
const DOT = 14;
/** Characters at the end of a name that always show. */
const TAIL = 10;
/** px that a column keeps where room is short; a value and a line number are worth most. */
const LEAST = { value: 150, line: 168, args: 96, name: 104 };
/** The part of a row that a column keeps if it needs that. */
const SHARE = { target: 1 / 4, name: 1 / 8 };
/** Columns that get what their texts need, first to last, before the arguments get what is left: most of those say a name again. */
const FIRST = ["target", "value", "line", "name", "module"];
const SCROLLBAR = 16;
/** Rows that paper gets. */
const PRINTED = 500;
/** Columns that are left out where there is no room for all, first to last; name, op and value always show. */
const GIVE_WAY = ["users", "args", "module", "line", "flops", "bytes", "index"];

export class TableView {
  constructor(app) {
    this.app = app;
    this.body = h("div.rows", { role: "rowgroup" });
    this.head = h("div.row.head", { role: "row" });
    this.scroll = h(
      "div.scroll",
      { tabIndex: 0, onscroll: () => this.paint(), onkeydown: (e) => this.key(e) },
      this.body,
    );
    this.count = h("span.muted", { role: "status" });
    this.table = h(
      "div.grid",
      { role: "table", "aria-label": "Nodes of the graph" },
      h("div", { role: "rowgroup" }, this.head),
      this.scroll,
    );
    this.element = h(
      "section.table",
      h(
        "div.bar",
        this.count,
        h("span.space"),
        h("button.plain", { onclick: () => this.copy("markdown") }, "Copy as Markdown"),
        h("button.plain", { onclick: () => this.copy("csv") }, "Copy as CSV"),
      ),
      this.table,
    );
    this.sort = { key: "index", down: false };
    new ResizeObserver(() => {
      if (!this.rows || !this.element.isConnected) return;
      this.header();
      this.paint();
    }).observe(this.scroll);
  }

  /** The columns that there is room for, and what each takes at least; the least needed ones give way first. */
  columns() {
    const columns = this.known();
    const room = this.room();
    const least = () => columns.reduce((sum, c) => sum + this.least(c, room), 0);
    for (const key of GIVE_WAY) {
      if (least() <= room) break;
      const at = columns.findIndex((c) => c.key === key);
      if (at >= 0) columns.splice(at, 1);
    }
    return columns;
  }

  /** px that the columns of a row share. */
  room() {
    return (this.scroll.clientWidth || innerWidth - SCROLLBAR) - EDGES;
  }

  /** The columns that this graph has. */
  known() {
    const { graph } = this.app;
    return COLUMNS.filter((c) => !c.when || c.when(graph));
  }

  /** What a column takes in px: as much as most of its texts need (`px`), and what it keeps where room is short (`least`). */
  wants(c) {
    const { graph } = this.app;
    graph.wants ??= {};
    if (graph.wants[c.key]) return graph.wants[c.key];
    const step = c.right ? 1 : Math.max(1, Math.floor(graph.n / SAMPLE));
    const pxOf = this.measure(c);
    const lengths = [];
    for (let i = 0; i < graph.n; i += step) lengths.push(pxOf(c.text(graph, i)));
    lengths.sort((a, b) => a - b);
    const fits = c.right || WHOLE.has(c.key) ? 1 : FITS; // a number that is cut is wrong
    const most = Math.max(lengths[Math.floor((lengths.length - 1) * fits)] ?? 0, (c.title.length + 3) * WIDE.right);
    const px = Math.ceil(Math.min(most, LONGEST)) + SIDES + (c.kind ? DOT : 0);
    return (graph.wants[c.key] = { px, least: c.right ? px : Math.min(px, LEAST[c.key] ?? 120) });
  }

  /** A function from a cell's text to its px: counted where all characters are alike, else measured. */
  measure(c) {
    const each = c.mono ? WIDE.mono : c.right ? WIDE.right : 0;
    if (each) return (text) => text.length * each;
    this.pen ??= document.createElement("canvas").getContext("2d");
    this.pen.font = getComputedStyle(this.scroll).font;
    return (text) => this.pen.measureText(text.slice(0, 100)).width;
  }

  /** px that a column keeps in a row of `room` px. */
  least(c, room) {
    const { px, least } = this.wants(c);
    return Math.max(least, Math.min(px, room * (SHARE[c.key] ?? 0)));
  }

  /** The columns as tracks of the grid: each its least, the FIRST ones up to what they want, the arguments or else the name the rest. Paper is shared alike. */
  tracks(columns) {
    const room = this.room();
    const px = new Map(columns.map((c) => [c.key, this.least(c, room)]));
    let spare = room - [...px.values()].reduce((sum, w) => sum + w, 0);
    for (const key of FIRST.filter((k) => px.has(k))) {
      const wanted = this.wants(columns.find((c) => c.key === key)).px - px.get(key);
      const more = Math.max(0, Math.min(wanted, spare));
      px.set(key, px.get(key) + more);
      spare -= more;
    }
    if (this.app.printing) return [...px.values()].map((w) => `minmax(0, ${w}fr)`).join(" ");
    const rest = px.has("args") ? "args" : "name";
    return [...px].map(([key, w]) => (key === rest ? `minmax(${w}px, 1fr)` : `${w}px`)).join(" ");
  }

  /** Rows in order: of the search if there is one, sorted by the chosen column. */
  update() {
    const { graph, hits } = this.app;
    const column = this.known().find((c) => c.key === this.sort.key) ?? COLUMNS[0];
    const rows = [];
    for (let i = 0; i < graph.n; i++) if (!hits || hits[i]) rows.push(i);
    if (column.key !== "index") {
      const keys = new Map(rows.map((i) => [i, column.number ? column.number(graph, i) : column.text(graph, i)]));
      const order = column.number ? (a, b) => keys.get(a) - keys.get(b) : compareTexts(keys);
      rows.sort((a, b) => order(a, b) || a - b);
    }
    if (this.sort.down) rows.reverse();
    this.rows = rows;
    this.count.textContent = hits
      ? `${rows.length.toLocaleString("en")} of ${graph.n.toLocaleString("en")} nodes`
      : `${graph.n.toLocaleString("en")} nodes`;
    this.body.style.height = `${rows.length * ROW}px`;
    this.header();
    this.paint();
    const { selected } = this.app.state;
    if (this.seen !== selected) this.show(selected);
    this.seen = selected;
  }

  header() {
    const columns = this.columns();
    this.shown = columns;
    this.table.style.setProperty("--columns", this.tracks(columns));
    this.table.setAttribute("aria-rowcount", this.rows.length + 1);
    this.table.setAttribute("aria-colcount", columns.length);
    fill(
      this.head,
      columns.map((c) => {
        const on = this.sort.key === c.key;
        return h(
          "button.cell",
          {
            role: "columnheader",
            "aria-sort": on ? (this.sort.down ? "descending" : "ascending") : "none",
            class: c.right ? "right" : "",
            onclick: () => this.sortBy(c.key),
          },
          c.title,
          on ? h("span.sort", this.sort.down ? " ↓" : " ↑") : null,
        );
      }),
    );
  }

  sortBy(key) {
    this.sort = { key, down: this.sort.key === key && !this.sort.down };
    this.app.set({ sort: `${key}${this.sort.down ? "-" : ""}` });
    this.update();
  }

  paint() {
    if (!this.rows || !this.element.isConnected) return;
    const { printing } = this.app;
    const from = printing ? 0 : Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - 8);
    const seen = printing ? PRINTED : Math.ceil(this.scroll.clientHeight / ROW) + 16;
    const to = Math.min(this.rows.length, from + seen);
    fill(
      this.body,
      this.rows.slice(from, to).map((i, k) => this.row(i, from + k)),
    );
  }

  row(i, at) {
    const { graph } = this.app;
    const selected = this.app.state.selected === i;
    return h(
      "div.row",
      {
        role: "row",
        "aria-rowindex": at + 2,
        "aria-selected": String(selected),
        style: { top: `${at * ROW}px` },
        "data-node": i,
        class: selected ? "on" : "",
        onclick: () => this.app.select(i),
        ondblclick: () => this.app.go("graph", i),
      },
      this.shown.map((c) =>
        h(
          "span.cell",
          { role: "cell", class: `${c.mono ? "mono" : ""} ${c.right ? "right" : ""}`, title: c.text(graph, i) },
          c.kind ? h("i.dot", { style: { background: `var(--op-${this.app.kindName(i)})` } }) : null,
          c.ends ? ends(c.text(graph, i)) : c.text(graph, i),
        ),
      ),
    );
  }

  key(e) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity }[e.key];
    if (step === undefined || !this.rows.length) return;
    e.preventDefault();
    const now = this.rows.indexOf(this.app.state.selected);
    const at = Math.max(0, Math.min(this.rows.length - 1, (now < 0 ? -1 : now) + step));
    this.app.select(this.rows[at]);
    this.reveal(at);
  }

  reveal(at) {
    const y = at * ROW;
    const { scrollTop, clientHeight } = this.scroll;
    if (y < scrollTop) this.scroll.scrollTop = y;
    else if (y + ROW > scrollTop + clientHeight) this.scroll.scrollTop = y + ROW - clientHeight;
    this.paint();
  }

  show(node) {
    const at = this.rows?.indexOf(node) ?? -1;
    if (at >= 0) this.reveal(at);
    this.paint();
  }

  async copy(format) {
    const done = await copyText(this.text(format));
    this.app.say(done ? `Copied ${this.rows.length.toLocaleString("en")} rows` : "The browser did not allow copying");
  }

  text(format) {
    const { graph } = this.app;
    const columns = this.known();
    const cells = this.rows.map((i) => columns.map((c) => c.text(graph, i)));
    const titles = columns.map((c) => c.title);
    if (format === "csv") return [titles, ...cells].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
    const line = (row) => `| ${row.map(markdownCell).join(" | ")} |`;
    return (
      [line(titles), `|${columns.map((c) => (c.right ? " ---: |" : " --- |")).join("")}`, ...cells.map(line)].join(
        "\n",
      ) + "\n"
    );
  }
}

/** A text that loses its middle where room is short: names of one model differ at their ends. */
const ends = (text) =>
  text.length > TAIL + 6 ? [h("span.start", text.slice(0, -TAIL)), h("span.tail", text.slice(-TAIL))] : text;

function compareTexts(keys) {
  const collator = new Intl.Collator("en", { numeric: true });
  return (a, b) => collator.compare(keys.get(a), keys.get(b));
}

/** A cell that a spreadsheet reads as text: quoted where needed, never a formula. */
function csvCell(text) {
  const safe = /^[=+\-@\t]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

const markdownCell = (text) => text.replace(/[\\`*_<>|[\]]/g, "\\$&").replace(/[\r\n\u2028\u2029]+/g, " ");
