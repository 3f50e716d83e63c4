"""Modules that came or went whole, told as one edit each: a layer more is one line and not one an op and a parameter.

A module came whole when the old graph has nothing at or below its path, and nothing of it in the new graph has a partner in the
old one; it went whole the other way round. The outermost such module is told. One of a single op is told as that op.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate

from ..model.snapshot import Graph
from .edits import Edit, GraphDiff
from .modules import renamed_path
from .texts import few, owner

_PARTS = ("op:added", "op:removed", "input:added", "input:removed")
Whole = tuple[str, str, str]
"""A graph, ``added`` or ``removed``, and the path of the module."""


def fold_modules(graphs: Sequence[GraphDiff], edits: Sequence[Edit]) -> list[Edit]:
    """The edits with those inside of a module that came or went whole put into one, at the place of the first."""
    around = list(_wholes(graphs, edits))
    inside: dict[Whole | None, list[Edit]] = defaultdict(list)
    for whole, edit in zip(around, edits, strict=True):
        inside[whole].append(edit)
    told = {
        whole: _edit(whole, parts)
        for whole, parts in inside.items()
        if whole and sum(part.kind.startswith("op:") for part in parts) > 1
    }
    return [
        told.get(whole, edit)
        for whole, edit in zip(around, edits, strict=True)
        if whole not in told or edit is inside[whole][0]
    ]


def _wholes(graphs: Sequence[GraphDiff], edits: Sequence[Edit]) -> Iterator[Whole | None]:
    """Of each edit the outermost module around it that came or went whole; None where there is none."""
    pairs = {graph.title: graph for graph in graphs if graph.old is not None and graph.new is not None}
    shared = cache(lambda title, way: _shared(pairs[title], way))
    for edit in edits:
        path, way = "", edit.kind.partition(":")[2]
        if edit.kind in _PARTS and edit.module and edit.graph in pairs:
            known = shared(edit.graph, way)
            path = next((outer for outer in _outermost_first(edit.module) if outer not in known), "")
        yield (edit.graph, way, path) if path else None


def _shared(pair: GraphDiff, way: str) -> set[str]:
    """The modules of the new graph (of the old one for ``removed``) that have something in common with the other."""
    assert pair.old is not None and pair.new is not None
    renamed = [(edit.old, edit.new) for edit in pair.edits if edit.kind == "module:renamed"]
    if way == "added":
        side, other, names = pair.new, pair.old, dict(renamed)
        partners = [new for _, new in pair.pairs]
    else:
        side, other, names = pair.old, pair.new, {new: old for old, new in renamed}
        partners = [old for old, _ in pair.pairs]
    paths = {renamed_path(path, names) for path in _paths(other)} | {side.nodes[k].module for k in partners}
    return {outer for path in paths for outer in _outermost_first(path)}


def _paths(graph: Graph) -> set[str]:
    """The modules of a graph's nodes, and those that own its parameters."""
    return {node.module for node in graph.nodes} | {owner(entry.name) for entry in graph.inputs}


def _outermost_first(path: str) -> Iterator[str]:
    """``a``, ``a.b``, ``a.b.c`` of ``a.b.c``."""
    return accumulate(path.split("."), "{}.{}".format)


def _edit(whole: Whole, inside: Sequence[Edit]) -> Edit:
    """One edit for all of a module; ``inside`` are those it stands for."""
    graph, way, path = whole
    return Edit(
        f"module:{way}", graph, path, path, _text(inside),
        place=next((edit.place for edit in inside if edit.place is not None), None),
        node=inside[0].node,
        old_node=inside[0].old_node,
        follows=sum(edit.follows for edit in inside),
        sample=next((edit.sample for edit in inside if edit.sample), ""),
        inside=tuple(inside),
    )  # fmt: skip


def _text(inside: Sequence[Edit]) -> str:
    """``7 ops (F.linear ×3, torch.tanh ×2, operator.add … and 1 more), 2 inputs``: the most frequent ops first."""
    ops = Counter(edit.target for edit in inside if edit.kind.startswith("op:"))
    named = [target if count == 1 else f"{target} ×{count}" for target, count in ops.most_common()]
    inputs = len(inside) - ops.total()
    tail = f", {inputs} input{'s' if inputs > 1 else ''}" if inputs else ""
    return f"{ops.total()} ops ({few(named)}){tail}"
