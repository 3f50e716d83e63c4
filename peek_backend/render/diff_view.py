"""What pictures and pages show of a diff: both graphs of each pair as one, row by row, with what is worth opening marked.

Comes in: a Diff. Goes out: Panels of plain rows. Nothing is escaped here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..diff.edits import INFO, KINDS, Diff, Edit, GraphDiff
from ..diff.merged import MergedGraph, MergedNode, merged_graph
from ..model.snapshot import Body, Graph, Node
from ..snapshot.graphfile import fill, type_text
from ..snapshot.graphfile_text import label_name, operand_name

SIGNS = {"same": " ", "added": "+", "removed": "−", "changed": "~"}
"""A mark as a sign, so that no colour stands alone."""


class Row(NamedTuple):
    """One op or input. ``call`` and ``type`` are as the file writes them; ``notes`` say what changed, in words.

    ``first`` marks the first of equal changes, ``times`` how many there are: the others need not be opened. ``operands`` are
    rows of the same panel, ``gone`` those that only the old graph read.
    """

    mark: str
    label: str
    call: str
    type: str
    module: str = ""
    place: str = ""
    notes: tuple[str, ...] = ()
    first: bool = True
    times: int = 1
    operands: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    is_input: bool = False


class Panel(NamedTuple):
    """One pair of graphs, or of bodies within them. ``mark`` says whether the graph as a whole came or went.

    ``outputs`` are rows; ``notes`` what changed of the graph as such (guards, ranges, outputs).
    """

    title: str
    mark: str
    rows: tuple[Row, ...]
    outputs: tuple[int, ...]
    gone_outputs: tuple[int, ...]
    notes: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return self.mark != "same" or bool(self.notes) or any(row.mark != "same" for row in self.rows)


def panels(diff: Diff) -> list[Panel]:
    """A panel for each pair of graphs and for each pair of bodies that changed, in order."""
    groups = {}
    for group in diff.groups:
        for place, edit in enumerate(group.edits):
            groups |= dict.fromkeys(map(id, (edit, *edit.inside)), (place, len(group.edits)))
    found = []
    for pair in diff.graphs:
        found.append(_panel(pair, groups))
        found += [panel for panel in _bodies(pair, groups) if panel.changed]
    return found


def _panel(pair: GraphDiff, groups: dict[int, tuple[int, int]]) -> Panel:
    merged = merged_graph(pair.old, pair.new, pair)
    mark = "added" if pair.old is None else "removed" if pair.new is None else "same"
    rows = [_input_row(merged, i, pair, groups) for i in range(len(merged.inputs))]
    old, new = _Names(pair.old), _Names(pair.new)
    rows += [_row(node, old, new, groups) for node in merged.nodes]
    at_rows = {id(edit) for part in (*merged.inputs, *merged.nodes) for edit in part.edits}
    of_the_graph = [e for e in pair.edits if e.graph == pair.title and id(e) not in at_rows]
    notes = tuple(edit_text(e) for e in of_the_graph if e.kind not in INFO)
    return Panel(pair.title, mark, tuple(rows), merged.outputs, merged.old_outputs, notes)


def _bodies(pair: GraphDiff, groups: dict[int, tuple[int, int]]) -> Iterator[Panel]:
    """The bodies of higher-order ops, each as a graph of its own."""
    for old, new, pairs, inputs in pair.bodies:
        assert pair.old is not None and pair.new is not None
        left, right = pair.old.bodies[old], pair.new.bodies[new]
        title = f"{pair.title}/{right.name}"
        edits = tuple(e for e in pair.edits if e.graph == title)
        body = GraphDiff(title, _as_graph(left), _as_graph(right), pairs, (), edits, inputs)
        yield _panel(body, groups)


def _as_graph(body: Body) -> Graph:
    return Graph(body.name, inputs=body.inputs, nodes=body.nodes, output=body.output)


class _Names:
    """Operand names of one graph, short: labels without their module. Bodies count from the end."""

    def __init__(self, graph: Graph | None):
        graph = graph or Graph("")
        inputs = [operand_name(entry.name) for entry in graph.inputs]
        labels = [f"%{label_name(node.label.rpartition('.')[2])}" for node in graph.nodes]
        self.names = [*inputs, *labels]
        self.bodies = [f"@{body.name}" for body in graph.bodies]

    def call(self, node: Node) -> str:
        operands = {o: self._name(o) for o in node.operands}
        return f"{node.target}({fill(node, operands)})"  # type: ignore[arg-type]

    def _name(self, operand: int) -> str:
        if operand >= 0:
            return self.names[operand]
        return self.bodies[-1 - operand] if -1 - operand < len(self.bodies) else "@body"


def _row(node: MergedNode, old: _Names, new: _Names, groups: dict[int, tuple[int, int]]) -> Row:
    shown = node.node
    call = (new if node.new is not None else old).call(shown)
    first, times = _standing(node.edits, groups)
    place = shown.place
    return Row(
        node.mark,
        f"%{shown.label}",
        call,
        type_text(shown.type),
        shown.module,
        f"{place.file}:{place.line or place.function}" if place is not None and place.file else "",
        tuple(edit_text(edit) for edit in node.edits if edit.kind not in INFO),
        first,
        times,
        node.operands,
        node.old_operands if node.mark != "removed" else (),
    )


def _input_row(merged: MergedGraph, index: int, pair: GraphDiff, groups: dict[int, tuple[int, int]]) -> Row:
    entry = merged.inputs[index]
    side = pair.old if entry.mark == "removed" else pair.new
    types = {found.name: found.type for found in side.inputs} if side is not None else {}
    first, times = _standing(entry.edits, groups)
    notes = tuple(edit_text(edit) for edit in entry.edits if edit.kind not in INFO)
    return Row(
        entry.mark,
        entry.name,
        "",
        type_text(types.get(entry.name)),
        notes=notes,
        first=first,
        times=times,
        is_input=True,
    )


def _standing(edits: Sequence[Edit], groups: dict[int, tuple[int, int]]) -> tuple[bool, int]:
    """Whether one of the edits is the first of its group, and how many equal ones that group has."""
    places = [groups.get(id(edit), (0, 1)) for edit in edits]
    if not places:
        return True, 1
    return any(place == 0 for place, _ in places), max(times for _, times in places)


def edit_text(edit: Edit) -> str:
    """``dim became static  x.shape[0]  s0 [2, ∞] → 4``; of an op what it was, as what it is stands beside it."""
    words = KINDS[edit.kind]
    if edit.kind in ("op:changed", "op:constant", "op:rewired") and edit.old:
        return f"{words}, was {edit.old}"
    change = f"{edit.old} → {edit.new}" if edit.old and edit.new else edit.old or edit.new
    subject = "" if edit.kind.startswith("op:") else edit.text
    return "  ".join(part for part in (words, subject, change) if part)


def folds(panel: Panel, limit: int) -> list[int | None]:
    """For each row the number of the fold it is in, None for a row that is shown.

    Shown are at most ``limit`` rows that changed, each the first of its kind, and what they read and are read by, inputs only
    where they changed. The others are folded so that no fold stands both before and behind a shown row: no cycle comes of it.
    """
    shown = _shown(panel, limit)
    return _components(panel, shown, _levels(panel, shown))


def _levels(panel: Panel, shown: set[int]) -> list[int]:
    """How many shown rows stand before each row, at most; then as late as what reads it allows, so that folds are few and large.

    Along an edge the level never falls, and it rises behind a shown row; so folds of one level cannot close a circle.
    """
    level: list[int] = []
    readers: list[list[int]] = [[] for _ in panel.rows]
    for place, row in enumerate(panel.rows):
        before = [o for o in {*row.operands, *row.gone} if o < place]
        for operand in before:
            readers[operand].append(place)
        level.append(max((level[o] + (o in shown) for o in before), default=0))
    for place in range(len(level) - 1, -1, -1):
        if place not in shown and readers[place]:
            level[place] = min(level[reader] for reader in readers[place])
    return level


def _shown(panel: Panel, limit: int) -> set[int]:
    changed = [i for i, row in enumerate(panel.rows) if row.mark != "same" and row.first][:limit]
    shown = set(changed)
    marked = set(changed)
    for place, row in enumerate(panel.rows):
        operands = {*row.operands, *row.gone}
        if place in marked:
            shown |= {o for o in operands if not panel.rows[o].is_input}
        elif not row.is_input and operands & marked:
            shown.add(place)
    return shown


def _components(panel: Panel, shown: set[int], level: Sequence[int]) -> list[int | None]:
    """Connected rows of one level, each a fold."""
    parent = list(range(len(panel.rows)))

    def top(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for place, row in enumerate(panel.rows):
        if place in shown or row.is_input:
            continue
        for operand in row.operands:
            if operand not in shown and not panel.rows[operand].is_input and level[operand] == level[place]:
                parent[top(place)] = top(operand)
    return [None if i in shown else top(i) for i in range(len(panel.rows))]
