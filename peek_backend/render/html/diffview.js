// What changed between two captures: a list of edits, worst first; each opens its node, and the graph marks them.

import { fill, h } from "./dom.js";

const TONES = { fail: "bad", warn: "warn", info: "" };
const LEVELS = { fail: "fails", warn: "warning", info: "passes" };
const MARKS = { added: "added", removed: "removed", changed: "changed" };

export class DiffView {
  constructor(app) {
    this.app = app;
    this.element = h("section.diff.page");
  }

  update() {
    if (this.done) return;
    this.done = true;
    const { diff } = this.app.capture;
    const count = (kind) => diff.edits.filter((e) => e.kind === kind).reduce((n, e) => n + e.count, 0);
    fill(
      this.element,
      h("p.verdict", { class: diff.tone }, h("i.mark", { "aria-hidden": "true" }), h("span", diff.headline)),
      diff.files ? h("p.muted.sides", `${diff.files[0]} → ${diff.files[1]}`) : null,
      h(
        "div.numbers",
        ["added", "removed", "changed"].map((k) =>
          h(
            "div.number",
            { class: count(k) ? k : "" },
            h("b", count(k).toLocaleString("en")),
            h("span", k),
            h("small"),
          ),
        ),
      ),
      diff.edits.length
        ? h(
            "ol.edits",
            diff.edits.map((e) => this.edit(e)),
          )
        : h("p.empty", "The two captures hold the same graphs."),
    );
  }

  edit(e) {
    const open =
      e.node != null
        ? () => this.app.goTo(this.app.capture.graphs[e.graph], e.node, "graph")
        : e.before_node != null
          ? () => this.app.goTo(this.app.capture.graphs[e.before_graph], e.before_node, "graph")
          : null;
    return h(
      "li",
      { class: `edit ${e.kind} ${e.level}` },
      h("span.sign", { "aria-label": e.kind }, { added: "+", removed: "−", changed: "~" }[e.kind] ?? "·"),
      h(
        "div",
        h(
          "div.what",
          open ? h("button.link", { onclick: open }, e.text) : h("span", e.text),
          h("span", { class: `tag ${TONES[e.level]}` }, LEVELS[e.level]),
        ),
        e.before || e.after ? h("div.mono.ba", h("del", e.before), " → ", h("ins", e.after)) : null,
        e.place ? h("div.muted.place", e.place) : null,
      ),
    );
  }
}

/** For one scene a function from item to the colour name of its mark; a container is marked when something in it is. */
export function diffMarks(diff, scene) {
  if (!diff) return null;
  if (scene.marks === undefined) {
    const { tree, graph } = scene;
    const marks = new Map();
    for (const e of diff.edits) {
      for (const [g, i] of [[e.graph, e.node], [e.before_graph, e.before_node], ...(e.more ?? [])]) {
        if (g !== graph.at || i === null || i === undefined || i >= graph.n || !MARKS[e.kind]) continue;
        const shown = tree.chip[i] ? (graph.users(i)[0] ?? i) : i;
        marks.set(shown, MARKS[e.kind]);
        for (const up of tree.path(shown))
          marks.set(up, marks.has(up) && marks.get(up) !== MARKS[e.kind] ? "changed" : MARKS[e.kind]);
      }
    }
    scene.marks = marks.size ? (item) => marks.get(item) : null;
  }
  return scene.marks;
}
