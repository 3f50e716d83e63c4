// The overview: the verdict, the numbers behind it, what to mend first, every graph. Facts come ready from Python.

import { bytesText, percent, placeText, plural } from "./data.js";
import { fades, fill, h } from "./dom.js";

const KEPT = 15;
const CAPTURED = ["dynamo", "fx"];
const NUMBERS = new Set(["ops", "bytes"]);
const MILD = new Set(["recompile", "graph break"]);

export class OverviewView {
  constructor(app) {
    this.app = app;
    this.element = h("section.overview.page");
  }

  update() {
    if (this.done) return;
    this.done = true;
    const { capture } = this.app;
    const { overview } = capture;
    fill(
      this.element,
      h("p.verdict", { class: overview.tone }, h("i.mark", { "aria-hidden": "true" }), h("span", overview.headline)),
      h(
        "div.numbers",
        { style: { "--tiles": overview.numbers.length, "--half": Math.ceil(overview.numbers.length / 2) } },
        overview.numbers.map((n) => this.number(n)),
      ),
      overview.mend.length
        ? h(
            "section",
            h("h2", "What to mend first"),
            h(
              "ol.mend",
              overview.mend.map((m) => this.mend(m)),
            ),
          )
        : null,
      (this.unread = problemSection(allProblems(capture))),
      overview.empty ? h("p.empty", overview.empty) : null,
      capture.graphs.length ? h("section.graphs", h("h2", "Graphs"), this.graphs()) : null,
      this.cost(overview.cost),
      this.kinds(),
      capture.autograd.map((view) => this.kept(view)),
      this.phases(),
      capture.notes.length
        ? h(
            "section",
            h("h2", "Notes"),
            h(
              "ul.dashed",
              capture.notes.map((n) => h("li", n)),
            ),
          )
        : null,
      this.environment(),
    );
  }

  number({ label, value, tone, view, note }) {
    const open = () =>
      view === "problems" ? this.unread?.scrollIntoView({ block: "start", behavior: "instant" }) : this.app.go(view);
    return h(
      "button.number",
      { class: tone, onclick: open },
      h("b", value === null ? "–" : value.toLocaleString("en")),
      h("span", label),
      h("small", note),
    );
  }

  mend(m) {
    return h(
      "li",
      h(
        "div.what",
        h("span", { class: `tag ${MILD.has(m.kind) ? "warn" : "bad"}` }, m.kind),
        h("b", m.title),
        m.times > 1 ? h("span.times", `×${m.times}`) : null,
        m.id ? h("span.muted.mono", m.id) : null,
      ),
      m.code || m.place ? h("div.where", m.code ? h("code", m.code) : null, h("span.muted", m.place)) : null,
      m.why ? h("p", m.why) : null,
      m.fix.length
        ? h(
            "ul.fix",
            m.fix.map((f) => h("li", f)),
          )
        : null,
      m.note ? h("p.muted", m.note) : null,
    );
  }

  graphs() {
    const { app } = this;
    const row = (g) =>
      h(
        "tr",
        h("td", g.parent !== null ? "↳ " : "", h("button.link", { onclick: () => app.openGraph(g) }, g.title)),
        h("td", g.part ? `${g.stage} ${g.part}` : g.stage),
        h("td.right", this.ops(g).toLocaleString("en")),
        h("td.mono", this.inputs(g)),
        h("td.mono", this.output(g)),
        h("td", placeText(g)),
        h("td.muted", this.notes(g).join("; ")),
      );
    const titles = ["graph", "stage", "ops", "inputs", "outputs", "source", ""];
    const rows = compiles(app.capture.graphs).map(({ captured, later }) => [captured.map(row), this.later(later)]);
    return table(titles, rows);
  }

  /** What a compile's graphs became: a link for each later stage, and what is to be said of them, each thing once. */
  later(graphs) {
    if (!graphs.length) return null;
    const roots = graphs.filter((g) => g.parent === null);
    const stage = (g) => (g.part ? `${g.stage} ${g.part}` : g.stage);
    const twice = new Set(roots.map(stage)).size < roots.length;
    const link = (g) =>
      h(
        "span",
        h("button.link", { onclick: () => this.app.openGraph(g) }, g.parent !== null || twice ? g.title : stage(g)),
        h("span.muted", ` ${plural(this.ops(g), "op")}`),
      );
    const notes = roots.flatMap((g) => this.notes(g).map((text) => ({ text, of: stage(g) })));
    const whose = (same) => (same.length < roots.length ? `${same.map((note) => note.of).join(", ")}: ` : "");
    const lines = Map.groupBy(
      Map.groupBy(notes, ({ text }) => text),
      ([, same]) => whose(same),
    );
    return h(
      "tr.later",
      h("td"),
      h(
        "td",
        { colSpan: 6 },
        h("div.links", graphs.map(link)),
        [...lines].map(([who, texts]) => h("p.muted", who + texts.map(([text]) => text).join("; "))),
      ),
    );
  }

  /** How a graph ended or came about. */
  notes({ never_ran: never, ended_by: end, lowering, problems, notes }) {
    const caches = (lowering?.caches ?? []).map(
      (c) => `${c.cache} cache: ${c.outcome}${c.reason ? `, ${c.reason}` : ""}`,
    );
    return [
      never ? `never ran: ${never}` : "",
      end ? `ended by a break: ${end.reason}` : "",
      lowering?.by ?? "",
      lowering?.compiled === false ? "compiles when it first runs" : "",
      ...caches,
      ...(lowering?.cudagraphs ?? []).map((c) => `no CUDA graph: ${c.reason}`),
      ...(problems ?? []).map((p) => [p.what, p.why].filter(Boolean).join(": ")),
      ...(notes ?? []),
    ].filter(Boolean);
  }

  /** What a forward keeps for its backward, the largest first: where it was made and what reads it. */
  kept({ forward, backward, bytes, new_bytes: fresh, recomputed, saved, gradients }) {
    const { app } = this;
    const [from, to] = [forward, backward].map((at) => app.capture.graphs[at]);
    const link = (graph, i, text = graph.name(i)) =>
      h("button.link", { onclick: () => app.goTo(graph, i, "graph") }, text);
    const most = Math.max(1, ...saved.map((s) => s.bytes ?? 0));
    const row = (s) =>
      h(
        "tr",
        h("td", link(from, s.node, s.name), s.input ? h("span.muted", " input") : null),
        h("td.mono", s.value),
        h("td.right", bytesText(s.bytes)),
        h("td", h("div.bars.thin", h("i.p0", { style: { width: `${(100 * (s.bytes ?? 0)) / most}%` } }))),
        h("td", s.code ? h("code", s.code) : null, " ", h("span.muted", s.place)),
        h(
          "td",
          s.readers.slice(0, 3).map((i) => [link(to, i), " "]),
        ),
      );
    const none = gradients.filter(([, node]) => node === null).map(([input]) => input);
    const words = [
      `${bytesText(bytes)} in ${plural(saved.length, "value")}, ${bytesText(fresh)} of it not inputs`,
      recomputed.length ? `${plural(recomputed.length, "op")} computed again instead` : "",
      none.length ? `no gradient for ${none.slice(0, 6).join(", ")}` : "",
    ];
    return h(
      "section",
      h("h2", `Kept for the backward of ${from.title}`),
      h("p", words.filter(Boolean).join("; ")),
      table(["value", "", "bytes", "", "made by", "read by"], saved.slice(0, KEPT).map(row)),
      saved.length > KEPT ? h("p.muted", `${saved.length - KEPT} smaller ones`) : null,
    );
  }

  /** FLOPs, bytes, parameters and memory, and the modules that cost most. */
  cost(cost) {
    if (!cost) return null;
    const { app } = this;
    const most = Math.max(...cost.modules.map((m) => m.share ?? 0), 1e-9);
    const name = (m) =>
      m.module ? h("button.link", { onclick: () => app.search(`module:${m.module}`) }, m.path) : m.path;
    const row = (m) =>
      h(
        "tr",
        h("td", name(m)),
        h("td.muted", m.kind),
        h("td.right", m.flops),
        h("td", m.share ? h("div.bars.thin", h("i.p0", { style: { width: `${(100 * m.share) / most}%` } })) : null),
        h("td.right", m.share ? percent(m.share) : ""),
        h("td.right", m.moved),
        h("td.right", m.parameters),
      );
    const titles = ["module", "", "FLOPs", "", "share", "bytes moved", "parameters"];
    return h(
      "section.cost",
      h("h2", "Cost ", cost.estimated ? h("span.note", "worked out from shapes; each graph once") : null),
      h(
        "dl.env",
        cost.rows.map((r) => [h("dt", r.label), h("dd", h("b", r.value), " ", h("span.muted", r.note))]),
        cost.unknown.map((text) => [h("dt", "not counted"), h("dd", text)]),
      ),
      cost.modules.length ? table(titles, cost.modules.map(row), new Set(titles.slice(2))) : null,
    );
  }

  /** What the captured graphs are made of: ops by kind, the largest graph's nodes a click away. */
  kinds() {
    const { capture, kindNames, kindTitles } = this.app;
    const counts = new Map();
    for (const g of capture.graphs.filter((g) => CAPTURED.includes(g.stage) && !g.side)) {
      for (let i = 0; i < g.n; i++) if (g.isOp(i)) counts.set(g.cols.kind[i], (counts.get(g.cols.kind[i]) ?? 0) + 1);
    }
    const rows = [...counts].sort((a, b) => b[1] - a[1]);
    const total = rows.reduce((sum, [, n]) => sum + n, 0);
    if (!total) return null;
    const colour = (k) => `var(--op-${kindNames[k]})`;
    const part = ([k, n]) =>
      h("i", { title: `${kindTitles[k]}: ${n}`, style: { background: colour(k), width: `${(100 * n) / total}%` } });
    const link = ([k, n]) =>
      h(
        "button.kind",
        { onclick: () => this.app.search(`kind:${kindNames[k]}`) },
        h("i.dot", { style: { background: colour(k) } }),
        kindTitles[k],
        h("span.muted", n.toLocaleString("en")),
      );
    return h(
      "section",
      h("h2", "Ops by kind"),
      h("div.bars.tall", { "aria-hidden": "true" }, rows.map(part)),
      h("div.kinds", rows.map(link)),
    );
  }

  ops(g) {
    let n = 0;
    for (let i = 0; i < g.n; i++) if (g.isOp(i)) n++;
    return n;
  }

  inputs(g) {
    const found = [];
    let params = 0;
    let bytes = 0;
    for (let i = 0; i < g.n; i++) {
      if (g.cols.op[i] !== 0) continue;
      if (g.inline[i]) {
        params++;
        bytes += g.value(i)?.bytes ?? 0;
      } else found.push([g.text("input", i) || g.name(i), g.valueText(i)].filter(Boolean).join(": "));
    }
    const shown = found.slice(0, 3).join(", ") + (found.length > 3 ? `, ${found.length - 3} more` : "");
    return [
      shown,
      params
        ? h("span.muted", `${shown ? " + " : ""}${params} parameters${bytes ? `, ${bytesText(bytes)}` : ""}`)
        : null,
    ];
  }

  output(g) {
    const last = g.n - 1;
    const refs = last >= 0 ? Array.from(new Set(g.refs(last))) : [];
    return (
      refs
        .slice(0, 3)
        .map((r) => g.valueText(r) || g.name(r))
        .join(", ") + (refs.length > 3 ? `, ${refs.length - 3} more` : "")
    );
  }

  /** Seconds per compile and phase, the longest first. */
  phases() {
    const rows = this.app.capture.frames.flatMap((f) => phaseRows(f, f.name));
    rows.sort((a, b) => b.total - a.total);
    const most = rows[0]?.total;
    return most
      ? h(
          "section",
          h("h2", "Where the compile time went"),
          h(
            "div.phases",
            rows.slice(0, 12).map((r) => phaseRow(r, most)),
          ),
        )
      : null;
  }

  environment() {
    const e = this.app.capture.environment;
    const pairs = [
      ["torch", e.torch],
      ["python", e.python],
      ["platform", e.platform],
      ["peek", e.peek],
      ["command", (e.argv ?? []).join(" ")],
      ["rank", e.rank != null ? `${e.rank} of ${e.world_size}` : ""],
      ...Object.entries(e.settings ?? {}),
    ];
    return h(
      "section",
      h("h2", "Environment"),
      h(
        "dl.env",
        pairs.filter(([, v]) => v).map(([k, v]) => [h("dt", k), h("dd", v)]),
      ),
    );
  }
}

/** Graphs by compile: those that Dynamo captured and, apart from them, what each became later. */
function compiles(graphs) {
  const groups = new Map();
  for (const g of graphs.filter((one) => !one.side)) {
    const root = g.parent === null ? g : graphs[g.parent];
    const key = root.compile_id === null ? root.at : `${root.rank} ${root.compile_id}`;
    const group = groups.get(key) ?? groups.set(key, { captured: [], later: [] }).get(key);
    (CAPTURED.includes(root.stage) ? group.captured : group.later).push(g);
  }
  return [...groups.values()].map((group) => (group.captured.length ? group : { captured: group.later, later: [] }));
}

/** What peek could not read, of the capture and of each graph. */
export const allProblems = (capture) => [
  ...capture.problems,
  ...capture.graphs.filter((g) => !g.side).flatMap((g) => g.problems ?? []),
];

/** A section that lists problems with their reasons and remedies; null where there are none. */
export function problemSection(problems) {
  const row = (p) =>
    h(
      "li",
      h("div.what", h("span.tag.warn", "not read"), h("b", p.where), h("span", p.what)),
      p.why ? h("p", p.why) : null,
      p.fix ? h("p.fix", p.fix) : null,
    );
  return problems.length
    ? h("section.problems", h("h2", "What peek could not read"), h("ol.mend", problems.map(row)))
    : null;
}

/** A table that scrolls sideways where it must, by keys too, and fades where it goes on. */
function table(titles, rows, right = NUMBERS) {
  const head = h(
    "thead",
    h(
      "tr",
      titles.map((t) => h("th", { class: t && right.has(t) ? "right" : "" }, t)),
    ),
  );
  const name = `Table of ${titles.filter(Boolean).join(", ")}`;
  const wide = h(
    "div.wide.fades",
    { tabIndex: 0, role: "region", "aria-label": name },
    h("table.list", head, h("tbody", rows)),
  );
  fades(wide);
  return wide;
}

// Part of other phases: bars without them add up to the whole.
const PARTS = new Set(["total", "codegen"]);

/** The compiles of a frame with their seconds by phase. */
export function phaseRows(frame, name) {
  return Object.entries(frame.phases ?? {}).map(([id, all]) => {
    const phases = all.filter((p) => !PARTS.has(p.name));
    const sum = phases.reduce((s, p) => s + p.seconds, 0);
    return { id, name, phases, total: Math.max(sum, all.find((p) => p.name === "total")?.seconds ?? 0) };
  });
}

export function phaseRow({ id, name, phases, total }, most) {
  return h(
    "div.phase",
    h("span", h("code", id), " ", name),
    h(
      "span.bars",
      { role: "img", "aria-label": phases.map((p) => `${p.name} ${p.seconds.toFixed(2)} s`).join(", ") },
      phases.map((p, k) =>
        h("i", {
          title: `${p.name} ${p.seconds.toFixed(2)} s`,
          class: `p${k % 4}`,
          style: { width: `${(100 * p.seconds) / most}%` },
        }),
      ),
    ),
    h("span.right", `${total.toFixed(2)} s`),
    h("small.muted", phases.map((p) => `${p.name} ${p.seconds.toFixed(2)}`).join(" · ")),
  );
}
