"""The words in a DOT picture: HTML-like labels of boxes, clusters, edges and the title.

Comes in: a Picture and a Theme. Goes out: strings for the ``graphviz`` package: HTML-like labels (``<…>``), whose text is
escaped here, and tooltips, which are plain text. What a tensor or an argument reads is decided in ``labels.py``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import graphviz
from msgspec.structs import replace

from ..model import (
    Arg,
    Leaf,
    NodeRecord,
    TensorMeta,
    TupleInfo,
    ValueInfo,
    iter_refs,
)
from ..passes.kinds import KINDS, node_kind
from ..passes.picture import Box, Cluster, Edge, Picture
from ..passes.repeats import Difference, Repeat
from .escape import html_text, visible
from .heat import HeatMap
from .labels import (
    Style,
    arg_text,
    call_text,
    code_text,
    input_text,
    node_target_text,
    place_text,
    plural,
    shorten,
    value_text,
)
from .theme import Theme
from .view import GraphView, SymbolRow

FONT = "Arial"
"""Known to both engines: Graphviz takes the system's twin of it, graphviz-pure has one built in."""
TITLE, SMALL = 11, 9

_LINE = 46
"""Characters of one line in a box."""
_LONGEST = 200
"""Characters of any text, tooltips included: a module path of 100,000 would be longer than dot reads."""
_CHIPS = 4
_DIFFERENCES = 4
_SYMBOLS = 6
_DEFAULTS = {"torch.nn.functional.embedding": (0, 0, None, None, 2.0, False, False)}
"""Positional defaults that Dynamo writes out; the first two are tensors."""
_TYPE = Style(layout=False, grad=False, items=3)


class LabelWriter:
    """Words for the parts of one picture. Remembers which kinds of op it named, for the legend; of ``heat`` that is the scale."""

    def __init__(self, picture: Picture, theme: Theme, heat: HeatMap | None = None):
        self.picture, self.theme, self.heat = picture, theme, heat
        self.kinds: set[str] = set()
        self.views: dict[int, GraphView] = {}

    # --- boxes ---

    def box(self, box: Box) -> str:
        """The label of a box."""
        if box.tag:
            return _table([[self._small(f"◄ {self._node(box).name}", color=self.theme.text)]])
        with self._on_ground_of(box):
            rows = self._container(box) if box.closed else self._op(box)
            rows[1:1] = self._heat_row(self.heat.words(box) if self.heat is not None else "")
            return _table(rows)

    @contextmanager
    def _on_ground_of(self, box: Box) -> Iterator[None]:
        """Words in the colour that is read on the heat of ``box``."""
        plain, level = self.theme, self.heat.level(box) if self.heat is not None else None
        if level is not None:
            self.theme = plain.on(level)
        try:
            yield
        finally:
            self.theme = plain

    def _heat_row(self, words: str) -> list[list[str]]:
        return [[_font(words, SMALL, self.theme.text, bold=True)]] if words else []

    def _op(self, box: Box) -> list[list[str]]:
        node = self._node(box)
        if not box.loose:
            self.kinds.add(node_kind(node))
        targets = Counter(_short_target(self._nodes(box)[i]) for i in box.nodes)
        if len(targets) > 1:
            return self._several(targets)
        if node.op in ("placeholder", "output"):
            return self._end(box, node)
        title = _bold(_short_target(node))
        if len(box.nodes) > 1:
            title += self._small(f"  ×{len(box.nodes):,}")
        if box.module is not None:
            op = _short_target(node)
            title = _bold(box.module.name) + ("" if op == box.module.name else self._small(f"  {op}"))
        rows = [[title + self._times(box.repeat)]]
        constants = "" if len(box.nodes) > 1 else self._constants(box.view, node)
        if constants:
            rows.append([self._small(constants)])
        return rows + self._chips(box) + self._marks(box)

    def _several(self, targets: Counter[str]) -> list[list[str]]:
        """Calls that no value joins to the rest."""
        rows = [[_bold("calls without values")]]
        for target, count in targets.most_common(_CHIPS):
            rows.append([self._small(target + (f" ×{count}" if count > 1 else ""))])
        if len(targets) > _CHIPS:
            rows.append([self._small(f"and {len(targets) - _CHIPS} others")])
        return rows

    def _end(self, box: Box, node: NodeRecord) -> list[list[str]]:
        """An input with its type, or the output."""
        name = _bold(input_text(node) if node.op == "placeholder" else "output")
        rows = [[name]]
        if node.op == "placeholder" and node.value is not None:
            rows[0][0] += self._small(f"  {value_text(node.value, _TYPE)}")
        return rows + self._chips(box) + self._marks(box)

    def _container(self, box: Box) -> list[list[str]]:
        module, graph = box.module, self.picture.graph_of(box.view)
        assert module is not None
        name = module.name or graph.name or "graph"
        title = _bold(name)
        if module.class_name:
            title += self._small(f"  {shorten(module.class_name, _LINE)}")
        kinds = Counter(node_kind(graph.nodes[i]) for i in box.nodes)
        rows = [[title + self._times(box.repeat)], [self._mix(kinds)]]
        return rows + self._weights(box) + self._odd(box.view, module.path) + self._marks(box)

    def _mix(self, kinds: Counter[str]) -> str:
        """How many ops of each kind, each count on its colour; where colours tell heat, how many in all."""
        cells = []
        if self.heat is not None:
            return self._small(plural(sum(n for kind, n in kinds.items() if kind != "input"), "op"))
        for kind in KINDS:
            if kind != "input" and kinds[kind]:
                self.kinds.add(kind)
                ink = self.theme.inks[kind]
                text = _font(str(kinds[kind]), SMALL, self.theme.text)
                cells.append(f'<td border="1" color="{ink.border}" bgcolor="{ink.fill}"> {text} </td>')
        total = sum(n for kind, n in kinds.items() if kind != "input")
        cells.append(f"<td>{self._small(plural(total, 'op'))}</td>")
        return f'<table border="0" cellborder="0" cellspacing="2" cellpadding="1"><tr>{"".join(cells)}</tr></table>'

    def container_kind(self, box: Box) -> str | None:
        """The kind that a closed container as a whole is, where its name says so."""
        name = f"{box.module.name} {box.module.class_name}".lower() if box.module is not None else ""
        if "norm" not in name:
            return None
        self.kinds.add("norm")
        return "norm"

    def _chips(self, box: Box) -> list[list[str]]:
        """The inputs that are written inside the box, one a line."""
        graph = self.picture.graph_of(box.view)
        source = self._node(box).source
        paths = [box.module.module if box.module else "", source.module if source else ""]
        chips = []
        for index in self._inlets(box):
            node = graph.nodes[index]
            name = _below(input_text(node), paths)
            kind = f" {value_text(node.value, _TYPE)}" if node.value is not None else ""
            chips.append([self._chip(f"{shorten(name, _LINE)}{kind}")])
        if len(chips) > _CHIPS:
            more = len(chips) - _CHIPS + 1
            chips[_CHIPS - 1 :] = [[self._small(f"and {more} more inputs")]]
        return chips

    def _inlets(self, box: Box) -> list[int]:
        nodes = self.picture.graph_of(box.view).nodes
        return [
            i
            for i in self.picture.inlets.get(box.key, ())
            if isinstance(nodes[i].value, (TensorMeta, type(None)))
        ]

    def _chip(self, text: str) -> str:
        return self._small(f"▪ {text}")

    def _weights(self, box: Box) -> list[list[str]]:
        """How many inputs a closed container has of its own, and their elements."""
        graph = self.picture.graph_of(box.view)
        inlets = self._inlets(box)
        if not inlets:
            return []
        sizes = [v.shape for v in (graph.nodes[i].value for i in inlets) if isinstance(v, TensorMeta)]
        total = sum(math.prod(s) for s in sizes if all(isinstance(d, int) for d in s))
        word = "parameter" if all(_is_parameter(graph.nodes[i]) for i in inlets) else "input"
        return [[self._chip(f"{plural(len(inlets), word)}, {_count(total)} elements")]]

    def _marks(self, box: Box) -> list[list[str]]:
        """What else is to be known: the value is drawn as a tag elsewhere, or is changed later."""
        rows = []
        nodes = self.picture.graph_of(box.view).nodes
        tagged = [nodes[i].name for i in box.nodes if (box.view, i) in self.picture.tagged]
        if tagged:
            rows.append([self._small(f"► {shorten(', '.join(tagged), _LINE)}", color=self.theme.tag.border)])
        returned = self.picture.returned.get(box.key, 0)
        if returned:
            text = "► returned" + (f" ×{returned:,}" if returned > 1 else "")
            rows.append([self._small(text, color=self.theme.inks["norm"].border)])
        value = nodes[box.nodes[0]].value if len(box.nodes) == 1 else None
        if isinstance(value, TensorMeta) and ("mutated" in value.flags or value.became is not None):
            rows.append([self._small("changed in place later", color=self.theme.inks["attention"].border)])
        return rows

    def _odd(self, view: int, path: str) -> list[list[str]]:
        """In what a container differs from its siblings."""
        unlike = self.picture.unlike.get((view, path))
        if unlike is None:
            return []
        words = [f"+{n} {_last(target)}" for target, n in unlike.more]
        words += [f"−{n} {_last(target)}" for target, n in unlike.fewer]
        text = f"unlike {_last_path(unlike.like)}: {', '.join(words) or 'wired otherwise'}"
        return [[self._small(shorten(text, 2 * _LINE), color=self.theme.accent)]]

    def _times(self, repeat: Repeat | None) -> str:
        return (
            "" if repeat is None else _font(f"  ×{len(repeat.paths):,}", TITLE, self.theme.accent, bold=True)
        )

    def _constants(self, view: int, node: NodeRecord) -> str:
        """The arguments that no edge shows."""
        names, nodes = self._names(view), self.picture.graph_of(view).nodes
        args = [arg_text(a, names) for a in _without_defaults(node) if _is_constant(a) or _is_size(a, nodes)]
        args += [f"{k}={arg_text(v, names)}" for k, v in node.kwargs.items() if _is_constant(v)]
        return shorten(", ".join(args), _LINE)

    # --- clusters, edges, title ---

    def cluster(self, cluster: Cluster) -> str:
        """The label of an open container: name, class, how often, and what differs."""
        module, graph = cluster.module, self.picture.graph_of(cluster.view)
        name = (graph.name or "body") if cluster.body else module.name
        rows = []
        if cluster.repeat is None:
            title = _bold(name)
        else:
            last = cluster.repeat.paths[-1].rpartition(".")[2]
            title = _bold(f"{shorten(name, _LINE)} … {last}")
        if module.class_name:
            title += self._small(f"  {shorten(module.class_name, _LINE)}")
        rows.append([title + self._times(cluster.repeat)])
        rows += self._heat_row(self.heat.cluster_words(cluster) if self.heat is not None else "")
        if cluster.repeat is not None:
            rows += self._repeat(cluster.view, cluster.repeat)
        return _table(rows + self._odd(cluster.view, module.path))

    def _repeat(self, view: int, repeat: Repeat) -> list[list[str]]:
        rows = []
        if repeat.chained:
            rows.append([self._small("the first is drawn; each feeds the next")])
        for difference in repeat.differences[:_DIFFERENCES]:
            rows.append([self._small(self._difference(view, difference), color=self.theme.accent)])
        if len(repeat.differences) > _DIFFERENCES:
            more = len(repeat.differences) - _DIFFERENCES
            rows.append([self._small(f"and {plural(more, 'more difference')}", color=self.theme.accent)])
        return rows

    def _difference(self, view: int, difference: Difference) -> str:
        """``mul_3 scale: 0.5 in layers.0 … 30, 0.25 in layers.31``."""
        names = self._names(view)
        parts = []
        for value, paths in difference.values[:3]:
            where = (
                _last_path(paths[0])
                if len(paths) == 1
                else f"{_last_path(paths[0])} and {len(paths) - 1} more"
            )
            parts.append(f"{self._variant(difference.what, value, names)} in {where}")
        if len(difference.values) > 3:
            parts.append(f"{len(difference.values) - 3} more")
        what = {"args": "", "value": " type"}.get(difference.what, f" {difference.what}")
        return shorten(f"{names[difference.node]}{what}: {'; '.join(parts)}", 3 * _LINE)

    def _variant(self, what: str, value: object, names: Sequence[str]) -> str:
        if what == "reads":
            return names[value]  # type: ignore[index]
        if what == "value":
            return value_text(value, _TYPE)  # type: ignore[arg-type]
        if what == "args":
            args: Sequence[Arg] = value  # type: ignore[assignment]
            return shorten(", ".join(arg_text(a, names) for a in args if _is_constant(a)), _LINE)
        return shorten(arg_text(value, names), _LINE)  # type: ignore[arg-type]

    def edge(self, edge: Edge) -> str:
        """The type of what the edge carries and how often; empty where torch recorded none."""
        nodes = self.picture.graph_of(edge.view).nodes
        count = len(edge.values) if self.picture.boxes[edge.target].closed else edge.uses
        texts = _distinct(_item_text(nodes[i], items) for i, items in edge.values)
        if len(texts) > 2:
            texts = _distinct(_item_text(nodes[i], items, mark=False) for i, items in edge.values)
        if len(texts) > 2:
            texts, count = [plural(count, "value")], 1
        if not texts:
            return ""
        text = ", ".join(shorten(t, _LINE) for t in texts)
        return f"<&#160;{self._small(text + (f' ×{count:,}' if count > 1 else ''))}>"

    def title(self, *, legend: bool) -> str:
        """The head of the picture: which graph, how large, its symbols, what was folded, and what colours mean."""
        graph, view = self.picture.graph, self._view(-1)
        ending = "" if view.ending == "returns" else view.ending
        facts = [*view.counts, ending, place_text(graph.file, graph.line)]
        name = " ".join(dict.fromkeys((graph.key, code_text(graph.name))))
        rows = [[_font(shorten(name, 2 * _LINE), TITLE + 4, self.theme.text, bold=True)]]
        rows.append([self._small(" · ".join(filter(None, facts)))])
        kinds = {symbol.name: symbol.type for symbol in graph.symbols}
        symbols = sorted(view.symbols, key=lambda row: kinds.get(row.name) != "int")
        rows += [[self._small(_symbol_text(symbol))] for symbol in symbols[:_SYMBOLS]]
        if len(symbols) > _SYMBOLS:
            rows.append([self._small(f"and {plural(len(symbols) - _SYMBOLS, 'more symbol')}")])
        rows += [[self._small(note)] for note in self.picture.notes]
        if legend:
            rows += [[self._legend()]] if self.heat is None else self._heat_legend(self.heat)
        return _table(rows)

    def _heat_legend(self, heat: HeatMap) -> list[list[str]]:
        """What is measured, the scale with the figures at its ends, and what is not in it."""
        rows = [[_font(heat.head(), SMALL, self.theme.text, bold=True)]]
        least, most = heat.ends()
        if most:
            scale = self.theme.heat
            levels = range(len(scale.scale)) if least else [scale.level(1)]
            cells = [f'<td bgcolor="{scale.scale[level]}" width="22" height="12"></td>' for level in levels]
            cells = [
                f"<td>{self._small(least)}</td>" if least else "",
                *cells,
                f"<td>{self._small(most)}</td>",
            ]
            table = '<table border="0" cellborder="0" cellspacing="0" cellpadding="2"><tr>{}</tr></table>'
            rows.append([table.format("".join(cells))])
        return rows + [[self._small(remark)] for remark in heat.remarks()]

    def _legend(self) -> str:
        """The kinds that the picture shows, each on its colour."""
        cells = []
        for kind, words in KINDS.items():
            if kind in self.kinds:
                ink = self.theme.inks[kind]
                text = _font(words, SMALL, self.theme.text)
                cells.append(f'<td border="1" color="{ink.border}" bgcolor="{ink.fill}"> {text} </td>')
        half = -(-len(cells) // 2) if len(cells) > 6 else len(cells)
        lines = [cells[i : i + half] for i in range(0, len(cells), half or 1)]
        body = "".join(f"<tr>{''.join(line)}</tr>" for line in lines) or "<tr><td></td></tr>"
        return f'<table border="0" cellborder="0" cellspacing="3" cellpadding="2">{body}</table>'

    # --- tooltips ---

    def box_tooltip(self, box: Box) -> str:
        """The whole call and its source line."""
        if box.closed:
            return _plain(box.module.path or "graph") if box.module else ""
        node = self._node(box)
        lines = [f"{node.name} = {call_text(node, self.picture.graph_of(box.view), self._names(box.view))}"]
        if node.value is not None:
            lines.append(value_text(node.value))
        if node.source is not None and node.source.file:
            lines.append(
                f"{place_text(node.source.file, node.source.line)}  {node.source.code or ''}".rstrip()
            )
        return _plain("\n".join(visible(line) for line in lines))

    def cluster_tooltip(self, cluster: Cluster) -> str:
        """The container's whole path."""
        return _plain(cluster.module.path or self.picture.graph_of(cluster.view).name or "graph")

    def edge_tooltip(self, edge: Edge) -> str:
        """The names of the values."""
        nodes = self.picture.graph_of(edge.view).nodes
        names = [shorten(nodes[i].name, _LINE) for i, _ in edge.values[:8]]
        more = len(edge.values) - len(names)
        return _plain(", ".join(names) + (f" and {more} more" if more else ""))

    # --- small things ---

    def _node(self, box: Box) -> NodeRecord:
        return self._nodes(box)[box.nodes[0]]

    def _nodes(self, box: Box) -> tuple[NodeRecord, ...]:
        return self.picture.graph_of(box.view).nodes

    def _view(self, view: int) -> GraphView:
        if view not in self.views:
            self.views[view] = GraphView(self.picture.graph_of(view), self.picture.graph.children)
        return self.views[view]

    def _names(self, view: int) -> list[str]:
        return self._view(view).names

    def _small(self, text: str, color: str | None = None) -> str:
        return _font(text, SMALL, color or self.theme.muted)


def _table(rows: list[list[str]]) -> str:
    """An HTML-like label: a table without lines, one cell a row."""
    body = "".join(f'<tr><td align="left">{cell}</td></tr>' for row in rows for cell in row)
    return f'<<table border="0" cellborder="0" cellspacing="0" cellpadding="1">{body}</table>>'


def _font(text: str, size: int, color: str, *, bold: bool = False) -> str:
    """Escaped text; a space where there is none, as Graphviz refuses an empty element.

    Spaces in front are made such that an SVG keeps them.
    """
    words = text.lstrip(" ")
    inner = "&#160;" * (len(text) - len(words)) + html_text(shorten(words, _LONGEST)) or " "
    inner = f"<b>{inner}</b>" if bold else inner
    return f'<font point-size="{size}" color="{color}">{inner}</font>'


def _bold(text: str) -> str:
    return f"<b>{html_text(shorten(text, _LINE)) or ' '}</b>"


def _plain(text: str) -> str:
    """A tooltip: Graphviz's own escapes are switched off, and ``<…>`` is no HTML."""
    lines = (shorten(visible(line), _LONGEST).replace("\\", "\\\\") for line in text.split("\n"))
    return graphviz.nohtml(r"\n".join(lines) or " ")


def _short_target(node: NodeRecord) -> str:
    """The op's own name, for a box that says by its colour what it is: ``linear``, ``view``, ``mm``."""
    text = node_target_text(node).lstrip(".")
    for space in ("aten.", "prims."):
        if text.startswith(space):
            text = text.split(".")[1]
    for space in ("F.", "torch.", "operator.", "functional."):
        text = text.removeprefix(space)
    return shorten(text, _LINE)


def _last(target: str) -> str:
    return shorten(target.removesuffix(".default").rpartition(".")[2], _LINE)


def _last_path(path: str) -> str:
    """The end of a path that tells siblings apart: ``layers.3``."""
    return shorten(".".join(path.split(".")[-2:]), _LINE)


def _is_parameter(node: NodeRecord) -> bool:
    flagged = isinstance(node.value, TensorMeta) and "parameter" in node.value.flags
    return flagged or (node.source is not None and node.source.input_kind == "parameter")


def _below(name: str, paths: Sequence[str]) -> str:
    """A parameter's name without the path of the module that it stands in."""
    for path in paths:
        if path and name.startswith(f"{path}."):
            return name[len(path) + 1 :]
    return name


def _is_constant(arg: Arg) -> bool:
    """Whether an argument says something that edges do not."""
    if isinstance(arg, Leaf) and arg.node is not None:
        return False
    refs = list(iter_refs(arg))
    return not refs or not isinstance(arg, tuple) or len(refs) < len(arg)


def _is_size(arg: Arg, nodes: Sequence[NodeRecord]) -> bool:
    """Whether an argument is an input that is no tensor, to which no edge leads."""
    if not isinstance(arg, Leaf) or arg.node is None or not 0 <= arg.node < len(nodes):
        return False
    node = nodes[arg.node]
    return node.op == "placeholder" and node.value is not None and not isinstance(node.value, TensorMeta)


def _without_defaults(node: NodeRecord) -> Sequence[Arg]:
    """The arguments up to the last that says something."""
    args, defaults = node.args, _DEFAULTS.get(node.target, ())
    end = len(args)
    while end and (args[end - 1] is None or (end <= len(defaults) and args[end - 1] == defaults[end - 1])):
        end -= 1
    return args[:end]


def _distinct(texts: Iterator[str]) -> list[str]:
    """Each text that is not empty once, in order."""
    return [text for text in dict.fromkeys(texts) if text]


def _item_text(node: NodeRecord, items: tuple[int, ...], *, mark: bool = True) -> str:
    """What an edge carries: the node's value, or ``[1] f32[8]`` for an item of a tuple."""
    value: ValueInfo | None = node.value
    for item in items:
        inside = value.items if isinstance(value, TupleInfo) else ()
        value = inside[item] if -len(inside) <= item < len(inside) else None
    if isinstance(value, TensorMeta) and value.inner:
        value = replace(value, inner={})
    place = "".join(f"[{i}]" for i in items) if mark else ""
    return f"{place} {value_text(value, _TYPE)}".strip()


def _symbol_text(symbol: SymbolRow) -> str:
    """``s0 = 16 in [2, ∞], from x.shape[0]``."""
    hint = f" = {symbol.hint}" if symbol.hint else ""
    parts = [f"{symbol.name}{hint} {symbol.range}".rstrip()]
    if symbol.sources:
        parts.append(f"from {shorten(symbol.sources, 2 * _LINE)}")
    return ", ".join([*parts, *([symbol.note] if symbol.note else [])])


def _count(number: int) -> str:
    """``950``, ``4.2 K``, ``1.1 M``, ``7.0 B``."""
    for unit, size in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return str(number)
