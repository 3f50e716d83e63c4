"""A graph as a folded tree of its modules, for a terminal.

Comes in: a GraphView and a ``Layout``. Goes out: one line a module: name, class and ×N, what it computes, the type
it hands on, and the line of code. Ops that stand between modules share a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import PurePath
from urllib.parse import quote

from ..analysis.totals import is_op
from ..passes.hierarchy import Module, is_inline, nodes_of
from . import labels
from .escape import cut, osc8, visible, width
from .fit import share
from .fold import equal_runs, group_name, last_op
from .table import Layout
from .view import GraphView

MAX_LINES = 200
"""Lines that a terminal gets; a file gets all."""
_LONE_OPS = 60
"""Ops of a graph without modules that get a line each; more share lines."""
_NAMED_OPS = 5
"""Ops of a module that are named in its line; of more only the number is told."""


class Branch:
    """One line of the tree: its cells, the node whose line of code it shows, and the lines below it."""

    __slots__ = ("below", "kind", "module", "node", "title", "type", "what")

    def __init__(self, title: str, what: str, kind: str = "op"):
        self.title, self.what, self.kind = title, what, kind
        self.type = ""
        self.node: int | None = None
        self.module: Module | None = None
        self.below: list[Branch] = []


def tree_text(view: GraphView, layout: Layout) -> str:
    """The tree, one line a module; under a cut one a line says how to see all."""
    planter = _Planter(view)
    branches, complete = planter.grow(MAX_LINES if layout.width and not layout.all_rows else None)
    if not branches:
        return "no nodes"
    rows = [row for branch, last in _with_last(branches) for row in _rows(branch, "", last)]
    lines = _aligned(view, rows, layout)
    if not complete:
        lines.append("modules folded" + (f"; {layout.how_all}" if layout.how_all else ""))
    return "\n".join(lines)


class _Planter:
    """Makes the branches of one graph, the outer modules first."""

    def __init__(self, view: GraphView):
        self.view, self.nodes = view, view.graph.nodes
        self.keys = view.structure

    def grow(self, limit: int | None) -> tuple[list[Branch], bool]:
        """The branches under the root, in at most ``limit`` lines; and whether all of them are there."""
        top = self._items(self.view.tree, root=True)
        left = None if limit is None else limit - len(top)
        level, complete = top, True
        while level:
            below: list[Branch] = []
            for branch in level:
                rows = self._items(branch.module) if branch.module is not None else []
                if left is not None and len(rows) > left:
                    complete = False
                    continue
                left = None if left is None else left - len(rows)
                branch.below = rows
                below.extend(rows)
            level = below
        return top, complete

    def _items(self, module: Module, *, root: bool = False) -> list[Branch]:
        """The lines for what stands in a container: none for one whose ops its own line names."""
        if not root and not any(isinstance(item, Module) for item in module.items):
            return []
        kept = [i for i in module.items if isinstance(i, Module) or not is_inline(self.nodes[i])]
        lone = root and len(kept) <= _LONE_OPS and all(isinstance(i, int) for i in kept)
        branches: list[Branch] = []
        for plain, items in groupby(equal_runs(kept, self.keys), key=lambda item: isinstance(item, int)):
            if plain:
                branches.extend(self._op_lines(list(items), lone=lone))
            else:
                branches.extend(self._group(run) for run in items)
        return branches

    def _op_lines(self, indices: list[int], *, lone: bool) -> Iterator[Branch]:
        """A line for each input and output; ops that follow each other share one, unless ``lone``."""
        for shared, group in groupby(indices, key=lambda i: is_op(self.nodes[i])):
            for some in [list(group)] if shared and not lone else [[i] for i in group]:
                yield self._op_line(some)

    def _op_line(self, indices: list[int]) -> Branch:
        node = self.nodes[indices[-1]]
        if len(indices) == 1:
            branch = Branch(labels.name_text(node.name), self.view.call(node.index), node.op)
        else:
            branch = Branch(labels.plural(len(indices), "op"), self._ops_text(indices))
        branch.type = self.view.type_text(node.index)
        branch.node = node.index
        return branch

    def _group(self, run: Sequence[Module]) -> Branch:
        first = run[0]
        times = f" ×{len(run)}" if len(run) > 1 else ""
        inside = [i for i in nodes_of(first) if is_op(self.nodes[i])]
        ops = self._ops_text(inside) if len(inside) <= _NAMED_OPS else labels.plural(first.size, "op")
        name = f"{first.class_name}{times}".strip()
        branch = Branch(group_name(run), f"{name} · {ops}" if name else ops, "group")
        branch.module = first
        branch.type = self.view.type_text(last_op(self.view, run[-1]))
        branch.node = inside[0] if inside else None
        return branch

    def _ops_text(self, indices: Sequence[int]) -> str:
        """``pow, mean, rsqrt``: the targets' last words, neighbours of one kind counted."""
        words = [labels.node_target_text(self.nodes[i]).rpartition(".")[2] for i in indices]
        counted = [(word, sum(1 for _ in same)) for word, same in groupby(words)]
        return labels.some([f"{word} ×{n}" if n > 1 else word for word, n in counted], str)


def _with_last(branches: Sequence[Branch]) -> Iterator[tuple[Branch, bool]]:
    for position, branch in enumerate(branches):
        yield branch, position == len(branches) - 1


def _rows(branch: Branch, indent: str, last: bool) -> Iterator[tuple[str, Branch]]:
    """Every branch with the lines that lead to it."""
    yield indent + ("└─ " if last else "├─ "), branch
    for child, final in _with_last(branch.below):
        yield from _rows(child, indent + ("   " if last else "│  "), final)


def _aligned(view: GraphView, rows: Sequence[tuple[str, Branch]], layout: Layout) -> list[str]:
    """The rows in columns: title, class or call, type, and where there is room the line of code."""
    cells = [[lead + visible(b.title), visible(b.what), visible(b.type)] for lead, b in rows]
    if layout.links or layout.width is None or layout.width >= 110:
        for row, (_, branch) in zip(cells, rows, strict=True):
            row.append("" if branch.node is None else visible(view.cell(branch.node, "source")))
    widths = _widths(cells, layout.width)
    lines = []
    for row, (lead, branch) in zip(cells, rows, strict=True):
        texts = [cut(text, w) for text, w in zip(row, widths, strict=True)]
        padded = [text + " " * (w - width(text)) for text, w in zip(texts, widths, strict=True)]
        if layout.color:
            padded = _painted(padded, lead, branch)
        if layout.links and texts[-1]:
            padded[-1] = _link(view, branch, texts[-1])
        lines.append("  ".join(text for text, w in zip(padded, widths, strict=True) if w).rstrip())
    return lines


_FLOORS = (24, 24, 24, 0)
"""What each column keeps before any other is cut further: title, class or call, type, place."""


def _widths(cells: list[list[str]], limit: int | None) -> list[int]:
    taken = [[width(text) for text in column] for column in zip(*cells, strict=True)]
    if limit is None:
        return [max(column) for column in taken]
    return share(taken, _FLOORS, limit - 2 * (len(taken) - 1))


def _painted(cells: list[str], lead: str, branch: Branch) -> list[str]:
    """Lines dim, names of modules bold, types cyan."""
    title = cells[0][len(lead) :]
    strong = f"\x1b[1m{title}\x1b[0m" if branch.kind == "group" else title
    return [f"\x1b[2m{lead}\x1b[0m{strong}", cells[1], f"\x1b[36m{cells[2]}\x1b[0m", *cells[3:]]


def _link(view: GraphView, branch: Branch, text: str) -> str:
    """The place as a link that a terminal opens."""
    source = None if branch.node is None else view.graph.nodes[branch.node].source
    if source is None or not source.file:
        return text
    path = PurePath(source.file).as_posix()
    return osc8(f"file://{quote(path)}#{source.line or 1}", text)
