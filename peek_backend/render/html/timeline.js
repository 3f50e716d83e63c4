// Frames in the order Dynamo met them: compiles, breaks, resume frames, recompiles, and why each happened.

import { placeText } from "./data.js";
import { fill, h } from "./dom.js";
import { allProblems, phaseRow, phaseRows, problemSection } from "./overview.js";

const OUTCOMES = {
  compiled: ["good", "compiled"],
  broken: ["warn", "broken by a graph break"],
  skipped: ["bad", "left in eager"],
  limit: ["bad", "given up at the recompile limit"],
  failed: ["bad", "failed"],
  empty: ["", "nothing to compile"],
};

/** A line of code and where it stands. */
const placeRow = (f) => h("div.where", f.code ? h("code", f.code) : null, h("span.muted", placeText(f)));

/** A link that leaves the page, only ever on a click and only to the web; any other text stays text. */
const outside = (url) =>
  /^https:\/\/[\w.-]+\//.test(url)
    ? h("a.link.mono", { href: url, target: "_blank", rel: "noopener noreferrer" }, url)
    : h("span.muted.mono", url);

/** Failed guards, each told once with all the variants that have it. */
function failures(failed) {
  const groups = new Map();
  for (const guard of failed) {
    const key = JSON.stringify([guard.source, guard.expected, guard.expected == null ? guard.text : guard.got]);
    const group = groups.get(key) ?? groups.set(key, { guard, variants: [] }).get(key);
    if (guard.variant) group.variants.push(guard.variant);
  }
  return [...groups.values()];
}

/** In place of a timeline: that nobody looked, and who would. */
const notRecorded = (graphs) =>
  graphs.length
    ? [
        h("p.empty", "Not recorded: this capture was taken from graphs alone. Breaks and recompiles are seen by"),
        h("pre", "peek run train.py"),
      ]
    : h("p.empty", "Nothing was captured.");

export class TimelineView {
  constructor(app) {
    this.app = app;
    this.element = h("section.timeline.page");
  }

  update() {
    if (this.done) return;
    this.done = true;
    const { capture } = this.app;
    const { frames, breaks, recompiles } = capture;
    const tops = frames.map((f, k) => [f, k]).filter(([f]) => f.resume_of == null);
    const loose = breaks.filter((b) => b.frame == null || !frames[b.frame]);
    const again = recompiles.filter((r) => r.frame == null || !frames[r.frame]);
    fill(
      this.element,
      h("h2", "Breaks and recompiles"),
      !frames.length && !breaks.length && !recompiles.length ? notRecorded(capture.graphs) : null,
      tops.map(([, k]) => this.frame(k)),
      this.breaks(loose),
      again.map((r) => this.again(r)),
      problemSection(allProblems(capture)),
    );
  }

  /** A frame, its events, and under it the frames that resume it. */
  frame(k, depth = 0) {
    const { capture } = this.app;
    const f = capture.frames[k];
    const [tone, words] = OUTCOMES[f.outcome ?? "compiled"] ?? ["", f.outcome];
    const phases = phaseRows(f, "");
    const most = Math.max(0.001, ...phases.map((p) => p.total));
    const broken = capture.breaks.filter((b) => b.frame === k);
    const resumed = depth < 40 ? capture.frames.map((g, i) => [g, i]).filter(([g]) => g.resume_of === k) : [];
    return h(
      "article",
      { class: `frame ${tone}` },
      h(
        "header",
        h("i.mark", { "aria-hidden": "true" }),
        h("b", f.name),
        h("span", { class: `tag ${tone}` }, words),
        h("span.muted", placeText(f)),
      ),
      // what a break says of its frame stands at the break
      f.reason && !broken.some((b) => b.reason === f.reason) ? h("p", f.reason) : null,
      f.user && !broken.length ? placeRow(f.user) : null,
      f.fix && !broken.length ? h("p.fix.code", f.fix.trim()) : null,
      (f.compile_ids ?? []).length
        ? h(
            "p",
            "compiles ",
            f.compile_ids.map((id) => this.graphLink(id)),
          )
        : null,
      this.breaks(broken),
      this.story(k),
      phases.length
        ? h(
            "div.phases",
            phases.map((p) => phaseRow(p, most)),
          )
        : null,
      Object.keys(f.calls ?? {}).length
        ? h(
            "p.muted",
            `calls: ${Object.entries(f.calls)
              .map(([id, n]) => `${id} ×${n}`)
              .join(", ")}`,
          )
        : null,
      resumed.map(([, i]) => this.frame(i, depth + 1)),
    );
  }

  graphLink(id) {
    const graph = this.app.capture.graphs.find((g) => g.compile_id === id && g.parent === null);
    return graph ? h("button.link.mono", { onclick: () => this.app.openGraph(graph) }, id) : h("code.id", id);
  }

  /** Breaks with one reason at one line, told once. */
  breaks(list) {
    const groups = Map.groupBy(list, (b) => {
      const { file, line } = b.stack?.at(-1) ?? {};
      return JSON.stringify([b.reason, file, line, b.split]);
    });
    return [...groups.values()].map((same) => this.broke(same));
  }

  broke(same) {
    const [b] = same;
    const last = b.stack?.at(-1);
    const ended = [...new Set(same.map((other) => other.compile_id).filter(Boolean))];
    const kind = b.intent === "user" ? "break asked for" : b.split === false ? "frame skipped" : "graph break";
    const step = (f) => h("li", h("code", placeText(f)), " ", f.code || f.function || "");
    return h(
      "div.event.broke",
      h(
        "div.what",
        h("span.tag.warn", kind),
        h("b", b.reason),
        same.length > 1 ? h("span.times", `×${same.length}`) : null,
        b.id ? h("span.muted.mono", b.id) : null,
        ended.length
          ? h(
              "span",
              "ends ",
              ended.map((id) => [this.graphLink(id), " "]),
            )
          : null,
      ),
      last ? placeRow(last) : null,
      b.explanation ? h("p", b.explanation) : null,
      b.fix.length
        ? h(
            "ul.fix",
            b.fix.map((text) => h("li", text)),
          )
        : null,
      b.stack?.length > 1 ? h("details", h("summary", "stack"), h("ol.stack", b.stack.map(step))) : null,
      b.link ? h("p.small", outside(b.link)) : null,
    );
  }

  /** Recompiles of a frame as variants 1, 2, 3…, each with the guard that failed. */
  story(k) {
    const list = this.app.capture.recompiles.filter((r) => r.frame === k);
    return list.length
      ? h(
          "ol.story",
          list.map((r) => h("li", this.again(r))),
        )
      : null;
  }

  again(r) {
    return h(
      "div.event.again",
      h(
        "div",
        h(
          "span",
          { class: `tag ${r.refused ? "bad" : "warn"}` },
          r.refused ? "refused" : r.variant ? `variant ${r.variant}` : "recompile",
        ),
        " ",
        this.graphLink(r.compile_id),
      ),
      failures(r.failed ?? []).map(({ guard: g, variants }) =>
        h(
          "div.guard",
          g.source && g.expected != null
            ? [
                h("code", g.source),
                " expected ",
                h("b.mono", g.expected),
                g.got == null ? null : [", got ", h("b.mono", g.got)],
              ]
            : h("code", g.text),
          g.user ? h("span.muted", ` ${placeText(g.user)}`) : null,
          variants.length ? h("span.muted", ` of ${variants.join(", ")}`) : null,
        ),
      ),
      r.changed?.length ? h("p.muted", "changed in the graph: ", r.changed.join(", ")) : null,
      r.advice ? h("p.fix", r.advice) : null,
    );
  }
}
