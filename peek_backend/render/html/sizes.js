// How large each box is, and the texts in it. Needs only a `measure(text, font)`, so that tests run without a canvas.

import { plural } from "./data.js";
import { CHIP_H, MAX_CHIPS } from "./layout.js";

const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const MONO = 'ui-monospace, "SF Mono", "JetBrains Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace';
export const FONT = {
  title: `600 12px ${SANS}`,
  small: `11px ${SANS}`,
  value: `10.5px ${MONO}`,
  chip: `10px ${MONO}`,
  badge: `600 10.5px ${SANS}`,
};
const MIN_W = 74;
const MAX_W = 470;
/** Characters of a name that a box makes room for: all of `aten._scaled_dot_product_flash_attention_for_cpu_backward`. */
const NAME = 60;
const CLASS = 40;

/** `text` in at most `limit` characters; what is too long loses its middle. */
function shorten(text, limit) {
  if (text.length <= limit) return text;
  const tail = Math.floor((limit - 1) / 3);
  return text.slice(0, limit - 1 - tail) + "…" + text.slice(text.length - tail);
}

const roughMeasure = (text, font) => text.length * (parseFloat(font.replace("600 ", "")) * 0.6);

export class Sizes {
  constructor(tree, measure = roughMeasure) {
    Object.assign(this, {
      tree,
      graph: tree.graph,
      measure,
      texts: new Map(),
      widths: new Map(),
      leafSizes: new Map(),
      closedSizes: new Map(),
    });
  }

  width(text, font) {
    const key = font + text;
    let w = this.widths.get(key);
    if (w === undefined) this.widths.set(key, (w = this.measure(text, font)));
    return w;
  }

  chipRows(node) {
    const { graph, tree } = this;
    const chips = tree.chips(node);
    const rows = chips
      .slice(0, MAX_CHIPS)
      .map((c) => ({ node: c, port: !!tree.port[c], text: this.chipName(c), value: shorten(graph.valueText(c), 20) }));
    if (chips.length > MAX_CHIPS)
      rows[MAX_CHIPS - 1] = { node: -1, port: false, text: `+${chips.length - MAX_CHIPS + 1} more`, value: "" };
    return rows;
  }

  chipName(c) {
    const input = this.graph.text("input", c);
    return shorten(this.tree.port[c] ? this.graph.name(c) : input.split(".").pop() || this.graph.name(c), 18);
  }

  leafText(node) {
    let text = this.texts.get(node);
    if (!text) {
      const { graph } = this;
      text = {
        title: shorten(graph.short(node), NAME),
        value: shorten(graph.valueText(node), 34),
        chips: this.chipRows(node),
        uses: this.tree.port[node] ? graph.users(node).length : 0,
      };
      this.texts.set(node, text);
    }
    return text;
  }

  leaf(node) {
    let size = this.leafSizes.get(node);
    if (!size) {
      const text = this.leafText(node);
      const chip = (c) => this.width(`${c.text} ${c.value}`, FONT.chip) + 12;
      const uses = text.uses ? this.width(`→ ${text.uses}`, FONT.badge) + 12 : 0;
      const w = Math.max(
        this.width(text.title, FONT.title) + uses,
        this.width(text.value, FONT.value),
        ...text.chips.map(chip),
      );
      size = {
        w: Math.round(Math.min(MAX_W, Math.max(MIN_W, w + 24))),
        h: (text.value ? 37 : 26) + CHIP_H * text.chips.length + (text.chips.length ? 3 : 0),
      };
      this.leafSizes.set(node, size);
    }
    return size;
  }

  groupText(item) {
    let text = this.texts.get(item);
    if (!text) {
      const g = item - this.tree.N;
      const { groups, graph } = { groups: this.tree.groups, graph: this.graph };
      const fold = groups.kind[g] === "fold";
      const ops = this.tree.count[g];
      text = {
        title: shorten(graph.groupText("label", g), NAME),
        type: shorten(graph.groupText("class", g), CLASS),
        times: fold ? this.tree.children[g].length : 0,
        ops,
        value: this.groupValue(item),
        note: graph.groupText("note", g),
      };
      text.count = plural(ops, "op");
      const what = ops === 1 ? graph.short(this.onlyOp(g)) : text.count;
      text.meta = `${what}${text.value ? " · " + text.value : ""}`;
      this.texts.set(item, text);
    }
    return text;
  }

  /** The node of a container of one op. */
  onlyOp(g) {
    const { lo, hi } = this.tree.groups;
    for (let k = lo[g]; k < hi[g]; k++) if (!this.tree.chip[this.graph.seq[k]]) return this.graph.seq[k];
    return this.graph.seq[lo[g]];
  }

  /** The value that leaves a container: its last node that is used outside. */
  groupValue(item) {
    const { graph, tree } = this;
    const g = item - tree.N;
    const lo = tree.groups.lo[g];
    const hi = tree.groups.hi[g];
    for (let k = hi - 1; k >= lo; k--) {
      const i = graph.seq[k];
      if (!tree.chip[i] && graph.valueText(i)) return shorten(graph.valueText(i), 26);
    }
    return "";
  }

  closed(item) {
    let size = this.closedSizes.get(item);
    if (!size) {
      const text = this.groupText(item);
      const badge = text.times ? this.width(`×${text.times}`, FONT.badge) + 18 : 0;
      const w = Math.max(
        this.width(text.title, FONT.title) + 8 + this.width(text.type, FONT.small) + badge,
        this.width(text.meta, FONT.value),
      );
      size = { w: Math.round(Math.max(110, w + 40)) + (text.times ? 8 : 0), h: 42 + (text.times ? 8 : 0) };
      this.closedSizes.set(item, size);
    }
    return size;
  }

  title(item) {
    const text = this.groupText(item);
    return (
      this.width(text.title, FONT.title) + this.width(text.type, FONT.small) + this.width(text.count, FONT.small) + 66
    );
  }
}
