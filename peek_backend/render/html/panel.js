// The panel: all that is known of the selected node or container, every name a link.

import { bytesText, percent, placeText } from "./data.js";
import { fill, h, icon, ICONS } from "./dom.js";
import { flopText } from "./overlays.js";

const MANY = 24;

export class Panel {
  constructor(app) {
    this.app = app;
    this.element = h("aside.panel", { "aria-label": "Details", hidden: true });
  }

  update() {
    const { selected } = this.app.state;
    this.element.hidden = selected === null || selected === undefined;
    if (this.element.hidden) return;
    fill(this.element, selected < this.app.graph.n ? this.node(selected) : this.group(selected));
    this.element.scrollTop = 0;
  }

  head(title, sub, kind) {
    return h(
      "header",
      kind ? h("i.kind", { style: { background: `var(--op-${kind})` } }) : null,
      h("div", h("h2", title), h("div.muted", sub)),
      h(
        "button.tool",
        { "aria-label": "Close the panel (Escape)", title: "Close (Escape)", onclick: () => this.app.select(null) },
        icon(ICONS.close),
      ),
    );
  }

  link(node, graph = this.app.graph, text = graph.name(node)) {
    return h("button.link", { title: graph.valueText(node), onclick: () => this.app.goTo(graph, node) }, text);
  }

  /** Links to nodes, the first few and a button for the rest. */
  links(nodes, row = (i) => h("li", this.link(i), h("span.muted.mono", this.app.graph.valueText(i)))) {
    const list = h("ul.links", nodes.slice(0, MANY).map(row));
    if (nodes.length > MANY)
      list.append(
        h(
          "li",
          h(
            "button.link",
            {
              onclick: (e) => {
                e.target.parentNode.remove();
                list.append(...nodes.slice(MANY, 2000).map(row));
              },
            },
            `${nodes.length - MANY} more`,
          ),
        ),
      );
    return list;
  }

  section(title, ...content) {
    return content.flat().some((c) => c) ? h("section", h("h3", title), content) : null;
  }
  facts(pairs) {
    return h(
      "dl",
      pairs
        .filter(([, v]) => v !== "" && v !== null && v !== undefined && v !== false)
        .map(([k, v]) => [h("dt", k), h("dd", v)]),
    );
  }

  node(i) {
    const { app } = this;
    const { graph } = app;
    const input = graph.text("input", i);
    return [
      this.head(input || graph.whole(i), `${graph.name(i)} · ${graph.op(i)} · #${i}`, app.kindName(i)),
      h(
        "div.acts",
        h("button.plain", { onclick: () => app.reach("up"), "aria-pressed": app.state.reach === "up" }, "Ancestors"),
        h(
          "button.plain",
          { onclick: () => app.reach("down"), "aria-pressed": app.state.reach === "down" },
          "Descendants",
        ),
        app.state.view !== "graph" ? h("button.plain", { onclick: () => app.go("graph", i) }, "Show in graph") : null,
      ),
      this.body(i),
      this.value(i),
      this.section("Arguments", this.argLine(i)),
      this.section(
        `Users (${graph.users(i).length})`,
        graph.users(i).length ? this.links(Array.from(graph.users(i))) : h("p.muted", "none"),
      ),
      this.metrics(i),
      this.source(i),
      this.symbols(i),
      this.guards(i),
      this.origins(i),
    ];
  }

  argLine(i) {
    const args = this.app.graph.args(i);
    return args.length
      ? h(
          "p.mono.args",
          args.map((a) => (typeof a === "number" ? this.link(a) : a)),
        )
      : h("p.muted", "none");
  }

  body(i) {
    const { graph } = this.app;
    const body = graph.cols.body[i];
    if (body < 0) return null;
    const child = this.app.capture.child(graph, body);
    return child
      ? this.section(
          "Body",
          h("p", h("button.link", { onclick: () => this.app.openGraph(child) }, `${child.title}, ${child.n} nodes`)),
        )
      : null;
  }

  value(i) {
    const v = this.app.graph.value(i);
    if (!v) return null;
    const text = v.shape === undefined ? v.full : null;
    return this.section(
      "Value",
      this.facts([
        ["value", text && h("code", text)],
        ["shape", v.shape && h("code", v.shape)],
        ["dtype", v.dtype && h("code", v.dtype)],
        ["stride", v.stride && h("code", v.stride)],
        ["device", v.device],
        [
          "bytes",
          v.bytes != null && [
            bytesText(v.bytes),
            v.bytes >= 1024 ? h("span.muted", ` ${v.bytes.toLocaleString("en")}`) : null,
          ],
        ],
        ["layout", v.layout && v.layout !== "strided" ? v.layout : ""],
        ["offset", v.offset ? String(v.offset) : ""],
        ["grad", v.grad ? "required" : ""],
        ["flags", v.flags?.join(", ")],
        ["reads", v.shape !== undefined && v.full !== v.text ? h("code", v.full) : ""],
      ]),
    );
  }

  metrics(i) {
    const { graph } = this.app;
    const { metrics } = graph;
    if (!metrics || !graph.isOp(i)) return null;
    const { flops, read, written, memory, unknown, estimated } = metrics;
    const moved = graph.moved(i);
    const known = (v, text) => (v >= 0 ? text(v) : "");
    const title = h("h3", "Cost ", estimated ? h("span.note", "worked out from shapes") : null);
    const facts = this.facts([
      ["FLOPs", flops[i] > 0 ? flopText(flops[i]) : ""],
      ["reads", known(read[i], bytesText)],
      ["writes", known(written[i], bytesText)],
      ["intensity", flops[i] > 0 && moved > 0 ? `${(flops[i] / moved).toPrecision(3)} FLOP per byte` : ""],
      ["live memory", memory?.[i] >= 0 ? `${bytesText(memory[i])} while it runs` : ""],
      ["not counted", unknown[i] ?? ""],
    ]);
    return h("section", title, facts);
  }

  /** FLOPs and bytes of all nodes of a container, with its share of the graph's. */
  sums(item, tree) {
    const { graph } = this.app;
    const all = graph.total;
    const found = graph.cost(tree.leaves(item));
    const share = (v, whole) => (whole > 0 ? `, ${percent(v / whole)} of the graph` : "");
    return [
      ["FLOPs", found.flops ? `${flopText(found.flops)}${share(found.flops, all.flops)}` : ""],
      ["moves", found.moved ? `${bytesText(found.moved)}${share(found.moved, all.moved)}` : ""],
    ];
  }

  source(i) {
    const { graph } = this.app;
    const file = graph.text("file", i);
    const module = graph.text("module", i);
    const caller = graph.cols.caller[i];
    const stack = caller >= 0 ? (graph.stacks[caller] ?? []) : [];
    return this.section(
      "Source",
      this.facts([
        ["module", module && h("button.link", { onclick: () => this.app.search(`module:${module}`) }, module)],
        ["class", module ? this.app.className(module) : ""],
        [
          "line",
          file &&
            h(
              "button.link",
              { title: file, onclick: () => this.app.goSource(file, graph.cols.line[i]) },
              graph.place(i),
            ),
        ],
        ["in", graph.text("function", i)],
        ["origin", graph.text("origin", i)],
        ["input", graph.text("input_kind", i)],
      ]),
      graph.text("code", i) ? h("pre", graph.text("code", i)) : null,
      stack.length
        ? h(
            "details",
            h("summary", "called from"),
            h(
              "ol.stack",
              stack.map((f) => h("li", h("code", placeText(f)), " ", f.code || f.function || "")),
            ),
          )
        : null,
    );
  }

  symbols(i) {
    const { graph } = this.app;
    const text = (graph.value(i)?.dims ?? []).join(" ") + " " + (graph.value(i)?.full ?? "");
    const used = graph.symbols.filter((s) =>
      new RegExp(`(^|[^\\w])${s.name.replace(/\W/g, "\\$&")}($|[^\\w])`).test(text),
    );
    return used.length
      ? this.section(
          "Symbols",
          this.facts(
            used.map((s) => [
              s.name,
              h(
                "span",
                h("button.link", { onclick: () => this.app.go("symbols") }, rangeText(s)),
                " ",
                (s.sources ?? []).join(" = "),
              ),
            ]),
          ),
        )
      : null;
  }

  guards(i) {
    const { graph } = this.app;
    const input = graph.text("input", i);
    const file = graph.text("file", i);
    const line = graph.cols.line[i];
    const found = graph.guards.filter(
      (g) =>
        (input &&
          g.source &&
          (g.source === input || g.source.startsWith(input + ".") || g.source.startsWith(input + "["))) ||
        (g.user && g.user.line === line && g.user.file === file),
    );
    return found.length
      ? this.section(
          "Guards",
          h(
            "ul",
            found.slice(0, MANY).map((g) => h("li", h("code", g.text), " ", h("span.muted", g.type))),
          ),
        )
      : null;
  }

  origins(i) {
    const { app } = this;
    const { graph } = app;
    const show = ([g, j]) => {
      const other = app.capture.graphs[g];
      return h("li", this.link(j, other, other.name(j)), h("span.muted", other.part || other.stage));
    };
    const list = (pairs) => pairs && h("ul.links", pairs.slice(0, MANY).map(show));
    const why = graph.text("no_origin", i);
    return [
      this.section("Came from", list(graph.up.get(i)), why && h("p.muted", why)),
      this.section("Became", list(graph.down.get(i))),
    ];
  }

  group(item) {
    const { graph, graphView } = this.app;
    const { tree, sizes, layout } = graphView.scene();
    const g = item - tree.N;
    const text = sizes.groupText(item);
    const path = graph.groupText("path", g);
    const { ops, bytes, params } = this.contents(item, tree);
    const toggle = () => {
      graphView.toggle(item);
      this.update();
    };
    const search = () => this.app.search(`module:${path}`);
    return [
      this.head(text.title, [text.type, path].filter(Boolean).join(" · ")),
      h(
        "div.acts",
        h("button.plain", { onclick: toggle }, layout.open.has(item) ? "Collapse" : "Expand"),
        path && h("button.plain", { onclick: search }, "Search inside"),
      ),
      this.section(
        "Holds",
        this.facts([
          ["ops", tree.count[g].toLocaleString("en")],
          ["parameters", params || ""],
          ["produces", bytesText(bytes)],
          ["repeats", text.times ? `${text.times} times` : ""],
          ...this.sums(item, tree),
        ]),
      ),
      this.section(
        "What differs",
        text.note &&
          h(
            "ul",
            [...text.note.split("\n")].map((line) => h("li", line)),
          ),
      ),
      this.section("Ops", this.opList(ops, path)),
    ];
  }

  /** Ops of a container by label, the bytes that they produce, and how many parameters it holds. */
  contents(item, tree) {
    const { graph } = this.app;
    const found = { ops: new Map(), bytes: 0, params: 0 };
    for (const i of tree.leaves(item)) {
      if (tree.chip[i]) {
        found.params++;
        continue;
      }
      found.ops.set(graph.label(i), (found.ops.get(graph.label(i)) ?? 0) + 1);
      found.bytes += graph.value(i)?.bytes ?? 0;
    }
    return found;
  }

  /** The most frequent ops; each is a search inside the container. */
  opList(ops, path) {
    const inside = path ? ` module:"${path}"` : "";
    const row = ([name, count]) => {
      const search = () => this.app.search(`op:"${name}"${inside}`);
      return h("li", h("button.link", { onclick: search }, name), h("span.muted", `×${count}`));
    };
    const top = [...ops].sort((a, b) => b[1] - a[1]).slice(0, 12);
    return h("ul.links", top.map(row));
  }
}

function rangeText({ replaced_by: other, texts: { lower, upper, hint } }) {
  if (other != null) return `= ${other}`;
  const range = lower || upper ? `in [${lower ?? "-∞"}, ${upper ?? "∞"}]` : "any value";
  return hint ? `${range}, ${hint} while tracing` : range;
}
