// Joins the views: one state, kept in the hash; one selection, shared by all views.

import { Capture, inflate } from "./data.js";
import { DiffView, diffMarks } from "./diffview.js";
import { $, fades, fill, h, icon, ICONS } from "./dom.js";
import { dotText, svgText } from "./export.js";
import { GraphView } from "./graphview.js";
import { OverviewView, problemSection } from "./overview.js";
import { Panel } from "./panel.js";
import { FIELDS, hint, Index, unknownField } from "./search.js";
import { SourceView } from "./source.js";
import { StagesView } from "./stages.js";
import { readHash, writeHash } from "./state.js";
import { SymbolsView } from "./symbols.js";
import { TableView } from "./table.js";
import { TimelineView } from "./timeline.js";

const VIEWS = [
  ["overview", "Overview"],
  ["graph", "Graph"],
  ["table", "Table"],
  ["source", "Source"],
  ["stages", "Stages"],
  ["breaks", "Breaks"],
  ["symbols", "Symbols"],
  ["diff", "Diff"],
];
const KEYS = [
  ["/", "search; Enter and Shift+Enter walk the hits"],
  ["↑ ↓", "along edges, up and down"],
  ["← →", "within a row"],
  ["Enter", "open or close a container"],
  ["i", "step into a container"],
  ["← →", "in Stages: to the other side"],
  ["e, c", "expand, collapse one level"],
  ["u, d", "ancestors, descendants"],
  ["f, 0", "show the selection, show all"],
  ["+ −", "zoom"],
  ["[ ]", "previous, next graph"],
  ["t", "light or dark"],
  ["Esc", "close, clear"],
  ["?", "this list"],
];

/** Views of the whole capture; the others show one graph. */
const WHOLE = new Set(["overview", "breaks", "diff"]);
const SAVE_AFTER = 120; // ms
/** Characters of open containers that an address keeps; of more, it opens the first view. */
const MAX_OPEN_TEXT = 8000;

class App {
  constructor(payload) {
    this.capture = new Capture(payload);
    this.kindNames = payload.kinds.map((k) => k.name);
    this.kindTitles = payload.kinds.map((k) => k.title);
    this.state = {
      view: "overview",
      graph: 0,
      selected: null,
      query: "",
      open: "",
      overlay: "",
      reach: "",
      other: null,
      sort: "",
      theme: "",
    };
    this.indexes = new Map();
    this.hits = null;
    this.build();
    this.load(readHash(location.hash));
    addEventListener("hashchange", () => {
      if (location.hash !== this.hash) this.load(readHash(location.hash));
    });
    addEventListener("keydown", (e) => this.key(e));
    addEventListener("beforeprint", () => this.onPaper(true));
    addEventListener("afterprint", () => this.onPaper(false));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.graphView.recolour());
  }

  get graph() {
    return this.capture.graphs[this.state.graph];
  }
  narrow() {
    return innerWidth < 900;
  }
  kindName(i, graph = this.graph) {
    return this.kindNames[graph.cols.kind[i]];
  }
  className(module) {
    const { groups } = this.graph;
    for (let g = 0; g < groups.path.length; g++)
      if (this.graph.groupText("path", g) === module) return this.graph.groupText("class", g);
    return "";
  }
  get diffMarks() {
    const { diff } = this.capture;
    return diff ? (scene) => diffMarks(diff, scene) : null;
  }

  build() {
    this.views = {
      overview: new OverviewView(this),
      graph: (this.graphView = new GraphView(this)),
      table: new TableView(this),
      source: new SourceView(this),
      stages: new StagesView(this),
      breaks: new TimelineView(this),
      symbols: new SymbolsView(this),
    };
    if (this.capture.diff) this.views.diff = new DiffView(this);
    this.panel = new Panel(this);
    this.main = h("main");
    this.live = h("div.sr", { role: "status", "aria-live": "polite" });
    this.toast = h("div.toast", { hidden: true });
    fill($("#app"), this.header(), h("div.body", this.main, this.panel.element), this.help(), this.toast, this.live);
  }

  header() {
    this.tabs = this.tabBar();
    this.pick = this.graphPicker();
    const tool = (spec, name, title, onclick) => h(spec, { title, "aria-label": title, onclick }, icon(ICONS[name]));
    return h(
      "header.top",
      h("div.brand", h("b", "peek"), h("span.title", this.capture.title)),
      this.tabs,
      this.pick,
      this.searchBox(tool),
      tool("button.tool", "theme", "Light or dark (t)", () => this.switchTheme()),
      tool("button.tool.keys", "help", "Keys (?)", () => this.dialog.showModal()),
    );
  }

  tabBar() {
    const tabs = this.shownViews().map(([v, title], k) =>
      h(
        "button",
        { role: "tab", "data-view": v, "data-title": title, title: `${title} (${k + 1})`, onclick: () => this.go(v) },
        title,
      ),
    );
    const bar = h("nav.tabs.fades", { role: "tablist", "aria-label": "Views" }, tabs);
    fades(bar);
    return bar;
  }

  graphPicker() {
    const choose = (e) => {
      const { view } = this.state;
      this.openGraph(this.capture.graphs[Number(e.target.value)], view === "overview" ? "graph" : view);
    };
    const name = (g) => `${g.parent !== null ? "  ↳ " : ""}${g.side ? g.side + ": " : ""}${g.title.slice(0, 80)}`;
    const options = this.capture.graphs.map((g) => h("option", { value: g.at }, name(g)));
    return h("select.pick", { "aria-label": "Graph", onchange: choose }, options);
  }

  searchBox(tool) {
    this.input = h("input", {
      type: "search",
      placeholder: this.narrow() ? "Search" : "Search, or op: shape: module: …",
      "aria-label": `Search nodes. Fields: ${FIELDS.join(", ")}`,
      spellcheck: false,
      autocomplete: "off",
      oninput: () => this.search(this.input.value, true),
      onkeydown: (e) => this.searchKey(e),
    });
    this.found = h("span.found", { role: "status" });
    this.noField = h("p.nofield", { role: "status", hidden: true });
    const up = tool("button.tool.small", "up", "Previous hit (Shift+Enter)", () => this.step(-1));
    const down = tool("button.tool.small", "down", "Next hit (Enter)", () => this.step(1));
    return h("div.search", icon(ICONS.search), this.input, this.found, up, down, this.noField);
  }

  /** The views of this capture: the diff only where there is one. */
  shownViews() {
    return VIEWS.filter(([v]) => this.views[v]);
  }

  help() {
    return (this.dialog = h(
      "dialog",
      { "aria-label": "Keys" },
      h("h2", "Keys"),
      h(
        "dl",
        [[`1 … ${this.shownViews().length}`, "views"], ...KEYS].map(([k, what]) => [h("dt", h("kbd", k)), h("dd", what)]),
      ),
      h("h2", "Search"),
      h(
        "p",
        "Words match names, ops, modules, code and values. ",
        h("code", "op:linear dtype:f32 module:layers.*.mlp shape:[1,*,512] file:model.py:12 bytes:>1M -op:view"),
      ),
      h("form", { method: "dialog" }, h("button.plain", "Close")),
    ));
  }

  // ---- state

  load({ state, broken }) {
    const { graphs } = this.capture;
    const graph = state.graph < graphs.length ? state.graph : this.firstGraph();
    const view = this.views[state.view] ? state.view : this.capture.diff ? "diff" : "overview";
    if (state.graph >= graphs.length) broken.push(`graph ${state.graph}`);
    if (state.view && view !== state.view) broken.push(`view ${state.view}`);
    if (state.selected && this.readItem(state.selected, graphs[graph]) === null) broken.push(`node ${state.selected}`);
    Object.assign(this.state, { open: "", overlay: "", reach: "", other: null, query: "", camera: "" }, state, {
      view,
      graph,
      selected: this.readItem(state.selected, graphs[graph]),
    });
    if (state.sort) {
      const [, key, down] = state.sort.match(/^(\w+?)(-?)$/) ?? [];
      if (key) this.views.table.sort = { key, down: !!down };
    }
    if (this.state.theme) document.documentElement.dataset.theme = this.state.theme === "dark" ? "dark" : "light";
    this.input.value = this.state.query;
    if (this.graphView.canvas) {
      this.graphView.fitted = false;
      if (graph !== undefined) this.graphView.scene().camera = null;
    }
    this.runSearch();
    this.update();
    if (broken.length) this.say(this.brokenLink(broken));
  }

  /** What of a link this page does not have; of a view, which there are. */
  brokenLink(broken) {
    const views = this.shownViews().map(([v]) => v);
    const tail = broken.some((part) => part.startsWith("view ")) ? `; its views are ${views.join(", ")}` : "";
    return `This page has no ${broken.map((part) => part.slice(0, 40)).join(", ")}${tail}`;
  }

  firstGraph() {
    const roots = this.capture.graphs.filter((g) => g.parent === null && !g.side);
    return (
      roots.reduce(
        (best, g) =>
          best === null || (g.n > this.capture.graphs[best].n && g.stage === this.capture.graphs[best].stage)
            ? g.at
            : best,
        null,
      ) ?? 0
    );
  }

  readItem(text, graph) {
    const m = /^(g?)(\d+)$/.exec(text ?? "");
    if (!m || !graph) return null;
    const limit = m[1] ? graph.groups.parent.length : graph.n;
    return Number(m[2]) < limit ? Number(m[2]) + (m[1] ? graph.n : 0) : null;
  }

  /** Changes the state; the address follows a moment later, since browsers count its changes. */
  set(change) {
    Object.assign(this.state, change);
    clearTimeout(this.saving);
    this.saving = setTimeout(() => this.save(), SAVE_AFTER);
  }

  save() {
    const { selected, graph, open } = this.state;
    const n = this.graph?.n ?? 0;
    this.hash = writeHash({
      ...this.state,
      graph: graph === 0 ? null : graph,
      selected: selected === null ? null : selected < n ? String(selected) : `g${selected - n}`,
      open: open.length > MAX_OPEN_TEXT ? "" : open,
    });
    try {
      history.replaceState(null, "", this.hash);
    } catch {
      /* inside a sandboxed frame there is no address to keep */
    }
  }

  update() {
    const { view } = this.state;
    for (const tab of this.tabs.children) tab.setAttribute("aria-selected", String(tab.dataset.view === view));
    const shown = this.views[view];
    document.body.dataset.view = view;
    this.pick.value = String(this.state.graph);
    this.pick.hidden = this.capture.graphs.length < 2;
    if (this.graph) this.panel.update(); // before the view, which takes what width is left
    const whole = WHOLE.has(view);
    if (whole || this.graph?.n) {
      if (this.main.firstChild !== shown.element) fill(this.main, shown.element);
      shown.update();
    } else fill(this.main, this.nothing());
    this.tabs.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.set({});
  }

  /** In place of a graph that has no nodes: why. */
  nothing() {
    const { graph } = this;
    if (!graph)
      return h(
        "section.page",
        h("p.verdict.bad", h("i.mark"), "Nothing was captured"),
        this.capture.overview.empty ? h("p.empty", this.capture.overview.empty) : null,
        problemSection(this.capture.problems),
      );
    return h(
      "section.page",
      h("p.verdict", { class: graph.problems.length ? "warn" : "" }, h("i.mark"), `${graph.title} has no nodes`),
      problemSection(graph.problems),
      graph.notes.map((note) => h("p", note)),
    );
  }

  go(view, node) {
    if (!this.views[view]) return;
    this.state.view = view;
    if (node !== undefined) this.state.selected = node;
    this.update();
    if (view === "graph" && node !== undefined) {
      this.graphView.reveal(node);
      this.graphView.canvasEl.focus({ preventScroll: true });
    }
    if (view === "table" && this.state.selected !== null) this.views.table.show(this.state.selected);
  }

  openGraph(graph, view = "graph") {
    Object.assign(this.state, {
      graph: graph.at,
      selected: null,
      reach: "",
      open: this.graphView.scenes.get(graph.at)?.packed ?? "",
      camera: "",
    });
    this.runSearch();
    this.state.view = view;
    this.update();
  }

  goTo(graph, node, view) {
    if (graph !== this.graph) {
      this.openGraph(graph, view ?? this.state.view);
    }
    const to = view ?? (WHOLE.has(this.state.view) || this.state.view === "symbols" ? "graph" : this.state.view);
    this.state.view = to;
    this.select(node);
    if (to === "graph") this.graphView.reveal(node);
    if (to === "table") this.views.table.show(node);
  }

  goSource(file, line) {
    this.sourceFile = file;
    this.sourceLine = line;
    this.state.view = "source";
    this.update();
  }

  select(item) {
    this.state.selected = item ?? null;
    if (item === null || item === undefined || item >= this.graph.n) this.state.reach = "";
    this.update();
    if (item !== null && item !== undefined)
      this.say(
        item < this.graph.n
          ? `${this.graph.name(item)}, ${this.graph.label(item)}, ${this.graph.valueText(item)}`
          : this.graphView.scene().sizes.groupText(item).title,
        true,
      );
  }

  reach(direction) {
    if (this.state.selected === null || this.state.selected >= this.graph.n) return;
    this.state.reach = this.state.reach === direction ? "" : direction;
    this.update();
  }

  // ---- search

  search(query, typing = false) {
    this.state.query = query;
    if (!typing) this.input.value = query;
    this.runSearch();
    if (!typing && this.state.view !== "table") this.state.view = "graph";
    this.update();
  }

  /** The searchable texts of the graph that is shown, made once: when the page has time, at the latest by the first query. */
  index() {
    const { graph } = this;
    if (!this.indexes.has(graph.at)) this.indexes.set(graph.at, new Index(graph, this.kindNames));
    return this.indexes.get(graph.at);
  }

  runSearch() {
    const { graph } = this;
    const start = performance.now();
    this.hits = graph && this.state.query.trim() ? this.index().find(this.state.query) : null;
    this.hitList = [];
    if (this.hits) for (const i of graph.seq) if (this.hits[i]) this.hitList.push(i);
    this.lastSearch = performance.now() - start;
    const found = this.hitList.length ? `${this.hitList.length.toLocaleString("en")} found` : "nothing found";
    this.found.textContent = hint(this.state.query) || (this.hits ? found : "");
    this.tellUnknown(unknownField(this.state.query, this.hitList.length > 0));
    this.hitAt = -1;
  }

  /** Below the search: that there is no such field, and which there are. */
  tellUnknown(field) {
    this.noField.hidden = field === null;
    fill(
      this.noField,
      field === null ? null : ["There is no field ", h("code", field.slice(0, 40)), `. Fields: ${FIELDS.join(", ")}`],
    );
  }

  step(by) {
    if (!this.hitList.length) return;
    this.hitAt = (this.hitAt + by + this.hitList.length) % this.hitList.length;
    this.found.textContent = `${this.hitAt + 1} of ${this.hitList.length.toLocaleString("en")}`;
    const node = this.hitList[this.hitAt];
    const { view } = this.state;
    this.goTo(this.graph, node, view === "table" || view === "source" || view === "stages" ? view : "graph");
  }

  searchKey(e) {
    if (e.key === "Enter") {
      e.preventDefault();
      this.step(e.shiftKey ? -1 : 1);
    }
    if (e.key === "Escape") {
      e.stopPropagation();
      if (this.input.value) {
        this.search("", true);
        this.input.value = "";
      } else this.input.blur();
    }
  }

  // ---- the rest

  key(e) {
    const typing = e.target.closest?.("input, textarea, select, dialog");
    if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
    const act = this.keys()[e.key];
    if (act) {
      e.preventDefault();
      return act();
    }
    const pressed = e.target.closest?.("button, a, summary") && (e.key === "Enter" || e.key === " ");
    if (this.state.view === "graph" && !pressed) this.graphView.key(e);
  }

  /** What each key does in every view; the graph has more of its own. */
  keys() {
    const views = Object.fromEntries(this.shownViews().map(([v], k) => [k + 1, () => this.go(v)]));
    const graphs = this.capture.graphs;
    const turn = (by) => () =>
      graphs.length && this.openGraph(graphs[(this.state.graph + by + graphs.length) % graphs.length], this.state.view);
    return {
      ...views,
      "/": () => this.input.select(),
      "?": () => this.dialog.showModal(),
      t: () => this.switchTheme(),
      n: () => this.step(1),
      N: () => this.step(-1),
      "[": turn(-1),
      "]": turn(1),
      Escape: () => (this.state.reach ? this.reach(this.state.reach) : this.select(null)),
    };
  }

  dark() {
    const { theme } = document.documentElement.dataset;
    return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  /** Paper is light, whatever the screen is. */
  onPaper(printing) {
    const { dataset } = document.documentElement;
    if (printing) {
      this.screenTheme = dataset.theme ?? "";
      dataset.theme = "light";
    } else if (this.screenTheme) dataset.theme = this.screenTheme;
    else delete dataset.theme;
    this.printing = printing;
    if (this.state.view === "table" && this.graph?.n) this.views.table.update();
    if (this.state.view !== "graph" || !this.graph?.n) return;
    this.graphView.recolour();
    this.graphView.paint(); // the printer does not wait for a frame
  }

  switchTheme() {
    const root = document.documentElement;
    root.dataset.theme = this.dark() ? "light" : "dark";
    this.set({ theme: root.dataset.theme });
    this.graphView.recolour();
    if (this.state.view === "stages") this.views.stages.wires();
  }

  /** Tells screen readers, and with a short note everyone. */
  say(text, quiet = false) {
    this.live.textContent = text;
    if (quiet) return;
    this.toast.textContent = text;
    this.toast.hidden = false;
    clearTimeout(this.toasting);
    this.toasting = setTimeout(() => {
      this.toast.hidden = true;
    }, 1800);
  }
}

async function start() {
  if (!CSS.supports("color", "light-dark(#000, #fff)")) throw new Error("it needs a browser of 2024 or later");
  const payload = await inflate($("#capture").textContent);
  document.documentElement.classList.add("live");
  const app = new App(payload);
  window.peek = { app, svg: () => svgText(app.graphView.canvas), dot: () => dotText(app.graphView.canvas) };
  document.documentElement.dataset.ready = "true";
  (window.requestIdleCallback ?? setTimeout)(() => app.graph && app.index());
}

start().catch((error) => {
  const note = $("#broken");
  document.documentElement.classList.remove("js", "live"); // what was there without the script is better than nothing
  note.hidden = false;
  note.textContent = `The page could not read its capture: ${error.message}`;
  throw error;
});
