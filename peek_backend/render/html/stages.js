// Two stages of a compile side by side as lists, joined by provenance: hover a node to see what it came from and became.

import { colourOf, fill, h, perFrame } from "./dom.js";
import { problemSection } from "./overview.js";

const ROW = 24;

class Column {
  constructor(view, side) {
    Object.assign(this, { view, side, graph: null, rows: [] });
    this.pick = h("select", {
      "aria-label": side === "left" ? "Left graph" : "Compare with",
      onchange: (e) => view.choose(side, Number(e.target.value)),
    });
    this.body = h("div.rows");
    this.scroll = h(
      "div.scroll",
      {
        tabIndex: 0,
        role: "listbox",
        "aria-label": side === "left" ? "Nodes of the left graph" : "Nodes of the right graph",
        onkeydown: (e) => this.key(e),
        onscroll: () => {
          this.paint();
          view.wires();
        },
      },
      this.body,
    );
    this.why = h("div.why-empty", { hidden: true });
    this.element = h("div.column", h("header", this.pick), this.why, this.scroll);
  }

  /** Lists `graph`; without one, or where it has no nodes, `why` says the reason. */
  show(graph, options, why) {
    fill(
      this.pick,
      graph ? null : h("option", { value: -1, selected: true }, "compare with …"),
      options.map((g) => h("option", { value: g.at, selected: g === graph }, stageTitle(g))),
    );
    const reason = graph?.n
      ? null
      : (why ?? problemSection(graph.problems) ?? h("p.empty", "This stage has no nodes."));
    this.why.hidden = !reason;
    this.scroll.hidden = !!reason;
    fill(this.why, reason);
    if (!graph) {
      this.graph = null;
      this.rows = [];
      return;
    }
    if (this.graph !== graph) {
      this.graph = graph;
      this.rows = Array.from(graph.seq).filter((i) => !(graph.inline[i] && graph.users(i).length));
      this.at = new Map(this.rows.map((i, k) => [i, k]));
      this.body.style.height = `${this.rows.length * ROW}px`;
    }
    this.paint();
  }

  paint() {
    if (!this.graph) return;
    const from = Math.max(0, Math.floor(this.scroll.scrollTop / ROW) - 4);
    const to = Math.min(this.rows.length, from + Math.ceil(this.scroll.clientHeight / ROW) + 8);
    this.from = from;
    this.to = to;
    const { graph, view } = this;
    const { app } = view;
    const lit = view.lit?.[this.side];
    fill(
      this.body,
      this.rows.slice(from, to).map((i, k) =>
        h(
          "div",
          {
            class: `row${lit?.has(i) ? " lit" : ""}${this.isOn(i) ? " on" : ""}`,
            role: "option",
            "aria-selected": String(this.isOn(i)),
            "data-node": i,
            style: { top: `${(from + k) * ROW}px` },
            onmouseenter: () => view.hover(this.side, i),
            onclick: () => view.click(this.side, i),
          },
          h("i.dot", { style: { background: `var(--op-${app.kindName(i, graph)})` } }),
          h("span.name", graph.text("input", i) || graph.short(i)),
          h("span.mono.muted", graph.valueText(i)),
          h("small.muted", graph.text("module", i).split(".").slice(-2).join(".")),
        ),
      ),
    );
  }

  /** Whether a row is the selection, or on the other side where the keys stand. */
  isOn(i) {
    const { app } = this.view;
    return this.side === "left" ? app.state.selected === i : this.cursor === i;
  }

  /** Up and down move within the list, left and right to what a node came from or became; Enter opens a node of the right. */
  key(e) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity }[e.key];
    const across = e.key === (this.side === "left" ? "ArrowRight" : "ArrowLeft");
    if (!this.rows.length || (step === undefined && !across && e.key !== "Enter")) return;
    e.preventDefault();
    e.stopPropagation();
    const now = this.side === "left" ? this.view.app.state.selected : this.cursor;
    if (e.key === "Enter") return void (now != null && this.view.click(this.side, now));
    if (across) return this.view.cross(this.side, now);
    const at = this.at.get(now) ?? -1;
    this.moveTo(this.rows[Math.max(0, Math.min(this.rows.length - 1, at + step))]);
  }

  moveTo(i) {
    this.cursor = i;
    this.reveal(i);
    if (this.side === "left") this.view.click("left", i);
    else this.view.mark("right", i, true);
    this.view.app.say(`${this.graph.name(i)}, ${this.graph.label(i)}, ${this.graph.valueText(i)}`, true);
  }

  y(i) {
    const k = this.at?.get(i);
    return k === undefined ? null : k * ROW + ROW / 2 - this.scroll.scrollTop;
  }
  reveal(i) {
    const k = this.graph ? this.at.get(i) : undefined;
    if (k === undefined) return;
    const y = k * ROW;
    const s = this.scroll;
    if (y < s.scrollTop || y > s.scrollTop + s.clientHeight - ROW) s.scrollTop = y - s.clientHeight / 2;
  }
}

/** `forward · 0/0 f`: the stage, then the graph by its compile and its name. */
function stageTitle(g) {
  const stage = g.part ? `${g.stage} ${g.part}` : g.stage;
  return `${stage} · ${g.title.replace(` ${stage}`, "")}`;
}

/** What to do where a graph is the only stage of its compile. */
function alone(graph) {
  return [
    h("h2", `Only the ${graph.stage} stage was recorded`),
    h("p", "Later stages show which line became which ATen op, and what is saved for the backward. Record them with"),
    h("pre", 'torch.compile(f, backend="peek", options={"stages": "all"})'),
    h("p", "or, around any program,"),
    h("pre", "peek run --stages all train.py"),
  ];
}

export class StagesView {
  constructor(app) {
    this.app = app;
    this.left = new Column(this, "left");
    this.right = new Column(this, "right");
    this.gutter = h("canvas.gutter", { "aria-hidden": "true" });
    this.note = h("p.muted.note", { role: "status" });
    this.element = h("section.stages", this.left.element, this.gutter, this.right.element, this.note);
    this.wires = perFrame(() => this.drawWires());
    new ResizeObserver(() => {
      this.left.paint();
      this.right.paint();
      this.wires();
    }).observe(this.element);
  }

  /** The other graph: as chosen, else one linked to this by provenance, else another stage of the same compile; or none. */
  other() {
    const { graph, capture, state } = this.app;
    const all = capture.graphs;
    if (all[state.other] && state.other !== graph.at) return all[state.other];
    const stage = (g) =>
      g !== graph && g.compile_id === graph.compile_id && g.rank === graph.rank && g.stage !== graph.stage;
    const found = all.filter((g) => g !== graph && this.related(graph, g));
    return found[0] ?? all.find((g) => stage(g) && g.parent === null && g.side === graph.side) ?? null;
  }

  update() {
    const { app } = this;
    const { graph, capture } = app;
    const other = this.other();
    this.left.show(graph, capture.graphs);
    this.right.show(
      other,
      capture.graphs.filter((g) => g !== graph),
      other ? null : alone(graph),
    );
    this.element.classList.toggle("alone", !other);
    this.note.textContent = !other
      ? "Another graph can be chosen above; graphs of different compiles have no nodes in common."
      : this.related(graph, other)
        ? "Hover a node to see what it came from and what it became; a click keeps it."
        : "These two graphs are not linked: none of their nodes came from the other.";
    this.note.hidden = !other && capture.graphs.length < 2;
    const selected = app.state.selected;
    if (selected !== null && selected < graph.n) {
      this.left.reveal(selected);
      this.mark("left", selected, true);
    }
    this.wires();
  }

  related(a, b) {
    for (const [from, to] of [
      [a, b],
      [b, a],
    ])
      for (const pairs of from.up.values()) if (pairs.some(([g]) => g === to.at)) return true;
    return false;
  }
  choose(side, at) {
    if (side === "left") this.app.openGraph(this.app.capture.graphs[at], "stages");
    else {
      this.app.set({ other: at });
      this.update();
    }
  }

  /** Nodes of `b` that `i` of `a` came from or became. */
  partners(a, i, b) {
    return [...(a.up.get(i) ?? []), ...(a.down.get(i) ?? [])].filter(([g]) => g === b.at).map(([, j]) => j);
  }

  mark(side, i, scroll = false) {
    const [a, b] = side === "left" ? [this.left, this.right] : [this.right, this.left];
    if (!a.graph || !b.graph) return;
    const found = this.partners(a.graph, i, b.graph);
    const siblings = new Set(found.flatMap((j) => this.partners(b.graph, j, a.graph)).concat(i));
    this.lit = { [side]: siblings, [side === "left" ? "right" : "left"]: new Set(found) };
    if (scroll && found.length) b.reveal(found[0]);
    this.left.paint();
    this.right.paint();
    this.wires();
  }

  /** The keys go over to the other side, to the first node that `i` came from or became. */
  cross(side, i) {
    const [a, b] = side === "left" ? [this.left, this.right] : [this.right, this.left];
    if (i === null || i === undefined || !b.graph) return;
    const [found] = this.partners(a.graph, i, b.graph);
    b.scroll.focus();
    if (found !== undefined) b.moveTo(found);
  }

  hover(side, i) {
    if (!this.lit?.[side]?.has(i) || this.lit.anchor !== i) {
      this.mark(side, i);
      this.lit.anchor = i;
    }
  }
  click(side, i) {
    this.mark(side, i, true);
    const graph = this[side].graph;
    if (graph === this.app.graph) this.app.select(i);
    else this.app.goTo(graph, i, "stages");
  }

  /** Curves between related rows in view, the lit ones strong. */
  drawWires() {
    const el = this.gutter;
    const { width, height } = el.getBoundingClientRect();
    const dpr = window.devicePixelRatio || 1;
    el.width = width * dpr;
    el.height = height * dpr;
    if (!width || !this.left.graph || !this.right.graph) return;
    const ctx = el.getContext("2d");
    const [faint, strong] = ["--line2", "--accent"].map((name) => colourOf(el, name));
    const top = this.left.scroll.offsetTop - el.offsetTop;
    ctx.scale(dpr, dpr);
    ctx.beginPath();
    ctx.rect(0, top, width, height);
    ctx.clip();
    const line = (i, j, lit) => {
      const a = this.left.y(i);
      const b = this.right.y(j);
      const hidden = (v) => v === null || (!lit && (v < 0 || v > height));
      if (hidden(a) || hidden(b)) return;
      ctx.strokeStyle = lit ? strong : faint;
      ctx.lineWidth = lit ? 1.8 : 1;
      ctx.beginPath();
      ctx.moveTo(0, a + top);
      ctx.bezierCurveTo(width / 2, a + top, width / 2, b + top, width, b + top);
      ctx.stroke();
    };
    for (const i of this.left.rows.slice(this.left.from, this.left.to))
      for (const j of this.partners(this.left.graph, i, this.right.graph)) line(i, j, false);
    for (const i of this.lit?.left ?? [])
      for (const j of this.partners(this.left.graph, i, this.right.graph)) if (this.lit.right?.has(j)) line(i, j, true);
  }
}
