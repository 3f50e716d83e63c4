// Symbols of the graph with their ranges, sources and the chain of facts that made them what they are; then the guards.

import { placeText } from "./data.js";
import { fill, h } from "./dom.js";

const MANY = 5;

export class SymbolsView {
  constructor(app) {
    this.app = app;
    this.element = h("section.symbols.page");
  }

  update() {
    const { graph } = this.app;
    const { symbols, guards, relations } = graph;
    const plain = guards.filter((g) => !g.ambient);
    const ambient = guards.filter((g) => g.ambient);
    fill(
      this.element,
      h("h2", "Symbols"),
      symbols.length
        ? h(
            "div.cards",
            symbols.map((s) => this.symbol(s)),
          )
        : h("p.empty", "This graph has no symbols: every size in it is static."),
      relations?.length
        ? h(
            "section",
            h("h3", "Relations"),
            h(
              "ul.plain",
              relations.map((r) => h("li", h("code", r))),
            ),
          )
        : null,
      h("h2", "Guards"),
      plain.length ? this.guards(plain) : h("p.empty", "The capture lists no guards for this graph."),
      ambient.length
        ? h(
            "details.ambient",
            h("summary", `${ambient.length} on the state of the process`),
            h(
              "ul",
              ambient.map((g) => h("li", h("code", g.text), " ", h("span.muted", g.type))),
            ),
          )
        : null,
      Object.keys(graph.state ?? {}).length
        ? h(
            "section",
            h("h2", "Traced under"),
            h(
              "dl.env",
              Object.entries(graph.state).map(([k, v]) => [h("dt", k), h("dd", v)]),
            ),
          )
        : null,
    );
  }

  symbol(s) {
    const state = s.why.static
      ? ["warn", `static: ${s.replaced_by ?? s.texts.lower}`]
      : s.replaced_by != null
        ? ["", `is ${s.replaced_by}`]
        : s.unbacked
          ? ["", "unbacked"]
          : ["good", "dynamic"];
    return h(
      "article.card",
      h(
        "header",
        h("b.mono", s.name),
        h("span", { class: `tag ${state[0]}` }, state[1]),
        s.type && s.type !== "int" ? h("span.muted", s.type) : null,
        h("button.link", { onclick: () => this.app.search(`${s.size ? "shape" : "value"}:${s.name}`) }, "find nodes"),
      ),
      this.range(s),
      h(
        "dl",
        (s.sources ?? []).length ? [h("dt", "from"), h("dd.mono", s.sources.join(" = "))] : null,
        s.texts.hint ? [h("dt", "while tracing"), h("dd.mono", s.texts.hint)] : null,
      ),
      (s.sources ?? []).length > 1
        ? h("p.muted", `These ${s.size ? "sizes" : "values"} were equal while tracing, so they share one symbol.`)
        : null,
      this.chain(s),
    );
  }

  range(s) {
    const { lower, upper } = s.texts;
    if (s.why.static || s.replaced_by != null || (!lower && !upper)) return null;
    const lo = s.lower ?? -Infinity;
    const hi = s.upper ?? Infinity;
    const text = `${lower ?? "-∞"} … ${upper ?? "∞"}`;
    const at = (v) => (v <= 0 ? 0 : Math.min(100, (Math.log2(v + 1) / 24) * 100));
    const a = at(lo);
    const b = hi === Infinity ? 100 : at(hi);
    return h(
      "div.range",
      { role: "img", "aria-label": `from ${text}` },
      h("span.mono", text),
      h(
        "div.track",
        h("i", { style: { left: `${a}%`, width: `${Math.max(1, b - a)}%` } }),
        typeof s.hint === "number" ? h("b", { style: { left: `${at(s.hint)}%` } }) : null,
      ),
    );
  }

  /** Why the symbol is what it is: every fact with the user's line that caused it, in order, and what would change it. */
  chain({ why }) {
    const row = (f) =>
      h(
        "li",
        h("span", f.text),
        f.user
          ? h(
              "div.where",
              f.user.code ? h("code", f.user.code) : null,
              h("button.link", { onclick: () => this.app.goSource(f.user.file, f.user.line) }, placeText(f.user)),
            )
          : null,
      );
    const rest = why.chain.slice(MANY, 200);
    return h(
      "div",
      h(
        "ol.why",
        why.chain.slice(0, MANY).map(row),
        rest.length
          ? h("li", h("details", h("summary", `${why.chain.length - MANY} more`), h("ol.why", rest.map(row))))
          : null,
        h("li.end", why.verdict),
      ),
      why.change ? h("p.fix", why.change) : null,
    );
  }

  guards(list) {
    const groups = Map.groupBy(list, (g) => g.source || "");
    return h(
      "div.wide",
      h(
        "table.list.conditions",
        h(
          "thead",
          h(
            "tr",
            ["source", "condition", "kind", "user line"].map((t) => h("th", t)),
          ),
        ),
        h(
          "tbody",
          [...groups]
            .slice(0, 2000)
            .flatMap(([source, all]) =>
              all.map((g, k) =>
                h(
                  "tr",
                  h("td.mono", k ? "" : source),
                  h("td.mono", g.text),
                  h("td.muted", g.type),
                  h("td.muted", placeText(g.user)),
                ),
              ),
            ),
        ),
      ),
    );
  }
}
