"""Modules that came or went whole, told as one edit each: a layer more is one line and not one an op and a parameter.

A module came whole when the old graph has nothing at or below its path, and nothing of it in the new graph has a partner in the
old one; it went whole the other way round. The outermost such module is told. One of a single op is told as that op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from peek_backend.model.snapshot import Graph

from .edits import Edit, GraphDiff
from .modules import renamed_path
from .texts import owner

MAX_TARGETS = 3
"""Ops that a line names, the most frequent first; of more the count."""
_PARTS = ("op:added", "op:removed", "input:added", "input:removed")


def fold_modules(graphs: Sequence[GraphDiff], edits: Sequence[Edit]) -> list[Edit]:
    """The edits with those inside of a module that came or went whole put into one, at the place of the first."""
    pairs = {graph.title: graph for graph in graphs if graph.old is not None and graph.new is not None}
    wholes: dict[tuple[str, str], _Wholes] = {}
    inside: dict[tuple[str, str, str], list[int]] = {}
    for index, edit in enumerate(edits):
        if edit.kind in _PARTS and edit.module and edit.graph in pairs:
            key = (edit.graph, edit.kind.partition(":")[2])
            if key not in wholes:
                wholes[key] = _Wholes(pairs[edit.graph], key[1])
            if path := wholes[key].above(edit.module):
                inside.setdefault((*key, path), []).append(index)
    told: dict[int, Edit] = {}
    gone: set[int] = set()
    for (title, way, path), (first, *others) in inside.items():
        parts = [edits[index] for index in (first, *others)]
        if sum(part.kind.startswith("op:") for part in parts) > 1:
            told[first] = _edit(title, path, way, parts)
            gone.update(others)
    return [told.get(index, edit) for index, edit in enumerate(edits) if index not in gone]


class _Wholes:
    """The modules of one graph that have nothing in common with the other: those that were ``added``, or ``removed``."""

    def __init__(self, pair: GraphDiff, way: str):
        assert pair.old is not None and pair.new is not None
        renamed = [(edit.old, edit.new) for edit in pair.edits if edit.kind == "module:renamed"]
        if way == "added":
            side, other, names = pair.new, pair.old, dict(renamed)
            partners = [new for _, new in pair.pairs]
        else:
            side, other, names = pair.old, pair.new, {new: old for old, new in renamed}
            partners = [old for old, _ in pair.pairs]
        taken = {renamed_path(path, names) for path in _paths(other)} | {
            side.nodes[k].module for k in partners
        }
        self._taken = {outer for path in taken for outer in _outermost_first(path)}
        self._found: dict[str, str] = {}

    def above(self, module: str) -> str:
        """The outermost module around ``module`` that is whole; empty when none is."""
        if module not in self._found:
            paths = _outermost_first(module)
            self._found[module] = next((path for path in paths if path not in self._taken), "")
        return self._found[module]


def _paths(graph: Graph) -> set[str]:
    """The modules of a graph's nodes, and those that own its parameters."""
    return {node.module for node in graph.nodes} | {owner(entry.name) for entry in graph.inputs}


def _outermost_first(path: str) -> Iterator[str]:
    """``a``, ``a.b``, ``a.b.c`` of ``a.b.c``."""
    return accumulate(path.split("."), "{}.{}".format)


def _edit(title: str, path: str, way: str, inside: Sequence[Edit]) -> Edit:
    """One edit for all of a module; ``inside`` are those it stands for."""
    ops = Counter(edit.target for edit in inside if edit.kind.startswith("op:"))
    inputs = sum(edit.kind.startswith("input:") for edit in inside)
    return Edit(
        f"module:{way}", title, path, path,
        f"{_ops(ops)}{f', {inputs} input' + 's' * (inputs > 1) if inputs else ''}",
        place=next((edit.place for edit in inside if edit.place is not None), None),
        node=inside[0].node,
        old_node=inside[0].old_node,
        follows=sum(edit.follows for edit in inside),
        sample=next((edit.sample for edit in inside if edit.sample), ""),
        inside=tuple(inside),
    )  # fmt: skip


def _ops(ops: Mapping[str, int]) -> str:
    """``7 ops (F.linear ×3, torch.tanh ×2, operator.add and 1 more)``."""
    ranked = sorted(ops.items(), key=lambda item: -item[1])
    named = [target if count == 1 else f"{target} ×{count}" for target, count in ranked[:MAX_TARGETS]]
    more = f" and {len(ranked) - MAX_TARGETS} more" if len(ranked) > MAX_TARGETS else ""
    return f"{sum(ops.values())} ops ({', '.join(named)}{more})"
