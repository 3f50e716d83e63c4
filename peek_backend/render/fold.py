"""Which rows of a big graph are shown: modules folded, repeated ones once, at most so many rows.

Comes in: a GraphView and a number of rows. Goes out: ``Shown`` entries in reading order, outermost first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..analysis.totals import is_op
from ..passes.hierarchy import Item, Module, is_inline, nodes_of
from .labels import name_text
from .view import GraphView

_DIGITS = re.compile(r"\d+")


class Shown:
    """One row: a node, a group (one module or a run of equal ones), or a count of nodes left out.

    Exactly one of ``node``, ``run`` and ``hidden`` is set. An open group's rows follow as ``inside``; ``within`` is
    the path of the module that a row stands in.
    """

    __slots__ = ("depth", "hidden", "inside", "node", "run", "within")

    def __init__(self, depth: int, *, node: int | None = None, run: Sequence[Module] = (), hidden: int = 0):
        self.depth, self.node, self.run, self.hidden = depth, node, run, hidden
        self.within = ""
        self.inside: list[Shown] = []

    @property
    def module(self) -> Module:
        """The first module of the group."""
        return self.run[0]

    def walk(self) -> Iterator[Shown]:
        """This row and those of its open groups, in reading order."""
        yield self
        for row in self.inside:
            yield from row.walk()


class Folder:
    """Opens groups of one graph level by level while rows are left."""

    def __init__(self, view: GraphView, limit: int):
        self.view, self.nodes = view, view.graph.nodes
        self.keys = view.structure
        self.left = limit
        self.top = Shown(-1, run=[view.tree])

    def rows(self) -> list[Shown]:
        """The rows to show, at most ``limit``."""
        closed = self._open(self.top)
        while closed:
            below: list[Shown] = []
            for group in closed:
                below.extend(self._open(group))
            closed = below
        self._open_ends()
        return [row for top in self.top.inside for row in top.walk()]

    def _open(self, group: Shown) -> list[Shown]:
        """Put the group's rows under it if there is room, and name the groups among them."""
        rows = list(self._entries(group.module, group.depth + 1))
        if len(rows) > self.left:
            if group is not self.top:
                return []
            rows = self._shortened(rows, self.left)
        self.left -= len(rows)
        for row in rows:
            row.within = group.module.module
        group.inside = rows
        return [row for row in rows if row.run and row.module.kind != "chunk"]

    def _entries(self, module: Module, depth: int) -> Iterator[Shown]:
        """Rows for a module's items: parameters left out, equal neighbours as one, single ops without their box."""
        for item in equal_runs(module.items, self.keys):
            if isinstance(item, list) and (len(item) > 1 or item[0].size != 1):
                yield Shown(depth, run=item)
                continue
            node = item if isinstance(item, int) else first_op(self.view, item[0])
            if not is_inline(self.nodes[node]):
                yield Shown(depth, node=node)

    def _shortened(self, rows: list[Shown], limit: int) -> list[Shown]:
        """The first and the last rows, and between them how many nodes are left out."""
        if len(rows) <= limit:
            return rows
        tail = max((limit - 1) // 2, 1)
        head = max(limit - 1 - tail, 1)
        hidden = sum(1 if row.node is not None else sum(m.size for m in row.run) for row in rows[head:-tail])
        return [*rows[:head], Shown(rows[0].depth, hidden=hidden), *rows[-tail:]]

    def _open_ends(self) -> None:
        """Chunks are neighbours without a name of their own: show the start of the first and the end of the last."""
        chunks = [row for row in self.top.inside if row.run and row.module.kind == "chunk"]
        for chunk in dict.fromkeys((*chunks[:1], *chunks[-1:])):
            share = self.left // 2 if chunk is chunks[0] and len(chunks) > 1 else self.left
            if share < 3:
                return
            chunk.inside = self._shortened(list(self._entries(chunk.module, chunk.depth + 1)), share)
            self.left -= len(chunk.inside)


def equal_runs(items: Sequence[Item], keys: dict[str, int]) -> Iterator[int | list[Module]]:
    """The items, neighbouring modules of equal structure and equal name but for its numbers as one list."""
    run: list[Module] = []
    for item in items:
        if run and isinstance(item, Module) and _alike(run[-1], item, keys):
            run.append(item)
            continue
        if run:
            yield run
        run = [item] if isinstance(item, Module) else []
        if isinstance(item, int):
            yield item
    if run:
        yield run


def _alike(a: Module, b: Module, keys: dict[str, int]) -> bool:
    return keys[a.path] == keys[b.path] and _DIGITS.sub("", a.name) == _DIGITS.sub("", b.name)


def fold(view: GraphView, limit: int) -> list[Shown]:
    """At most ``limit`` rows that show the whole graph, the outer modules first to be opened."""
    return Folder(view, limit).rows()


def group_name(run: Sequence[Module]) -> str:
    """``norm``; of a run ``layers.0–31``."""
    first, last = run[0].name, run[-1].name
    if first == last:
        return name_text(first)
    stem = first.rstrip("0123456789")
    return f"{name_text(first)}–{name_text(last.removeprefix(stem))}"


def first_op(view: GraphView, module: Module) -> int:
    """The first node of a module that computes."""
    inside = nodes_of(module)
    return next((i for i in inside if is_op(view.graph.nodes[i])), inside[0])


def last_op(view: GraphView, module: Module) -> int:
    """The last node of a module that computes: its value is what the module hands on."""
    inside = nodes_of(module)
    return next((i for i in reversed(inside) if is_op(view.graph.nodes[i])), inside[-1])
