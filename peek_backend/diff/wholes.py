"""Modules that came or went whole, told as one edit each: a layer more is one line and not one an op and a parameter.

A module came whole when the old graph has nothing at or below its path, and nothing of it in the new graph has a partner in the
old one; it went whole the other way round. The outermost such module is told. One of a single op is told as that op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from peek_backend.model.snapshot import Graph

from .edits import Edit, GraphDiff
from .modules import renamed_path

MAX_TARGETS = 3
"""Ops that a line names, the most frequent first; of more the count."""


def fold_modules(graphs: Sequence[GraphDiff], edits: Sequence[Edit]) -> list[Edit]:
    """The edits with those inside of a module that came or went whole put into one, at the place of the first."""
    for graph in graphs:
        if graph.old is not None and graph.new is not None and any(_is_part(edit) for edit in graph.edits):
            for way in ("added", "removed"):
                edits = _fold(graph, way, edits)
    return list(edits)


def _is_part(edit: Edit) -> bool:
    return edit.kind in ("op:added", "op:removed", "input:added", "input:removed") and bool(edit.module)


def _fold(graph: GraphDiff, way: str, edits: Sequence[Edit]) -> Sequence[Edit]:
    """``edits`` with the modules that were ``added`` to or ``removed`` from one graph folded."""
    kinds = (f"op:{way}", f"input:{way}")
    inside: dict[str, list[int]] = {}
    whole = _Wholes(graph, way)
    for index, edit in enumerate(edits):
        if edit.graph == graph.title and edit.kind in kinds and (path := whole.above(edit.module)):
            inside.setdefault(path, []).append(index)
    told = {
        indices[0]: _edit(graph.title, path, way, [edits[i] for i in indices])
        for path, indices in inside.items()
        if sum(edits[i].kind == kinds[0] for i in indices) > 1
    }
    if not told:
        return edits
    gone = {i for indices in inside.values() if indices[0] in told for i in indices}
    return [told.get(i, edit) for i, edit in enumerate(edits) if i in told or i not in gone]


class _Wholes:
    """The modules of one graph that have nothing in common with the other."""

    def __init__(self, graph: GraphDiff, way: str):
        assert graph.old is not None and graph.new is not None
        names = {e.old: e.new for e in graph.edits if e.kind == "module:renamed"}
        side, other = (graph.new, graph.old) if way == "added" else (graph.old, graph.new)
        taken = [renamed_path(path, names) if way == "added" else path for path in _paths(other)]
        partners = {pair[way == "added"] for pair in graph.pairs}
        taken += [node.module for k, node in enumerate(side.nodes) if k in partners]
        if way == "removed":
            taken = [*taken, *[old for old, new in names.items()]]
        self._taken = set(_prefixes(taken))
        self._found: dict[str, str] = {}

    def above(self, module: str) -> str:
        """The outermost module around ``module`` that is whole; empty when none is."""
        if module not in self._found:
            parts = module.split(".")
            paths = (".".join(parts[: k + 1]) for k in range(len(parts)))
            self._found[module] = next((path for path in paths if path not in self._taken), "")
        return self._found[module]


def _paths(graph: Graph) -> Iterator[str]:
    """The modules of a graph's nodes, and those that own its parameters."""
    yield from {node.module for node in graph.nodes}
    yield from {entry.name.rpartition(".")[0] for entry in graph.inputs}


def _prefixes(paths: Iterable[str]) -> Iterator[str]:
    for path in set(paths):
        parts = path.split(".")
        yield from (".".join(parts[: k + 1]) for k in range(len(parts)))


def _edit(title: str, path: str, way: str, inside: Sequence[Edit]) -> Edit:
    """One edit for all of a module; ``inside`` are those it stands for."""
    ops = Counter(edit.target for edit in inside if edit.kind.startswith("op:"))
    inputs = sum(edit.kind.startswith("input:") for edit in inside)
    place = next((edit.place for edit in inside if edit.place is not None), None)
    text = f"{_ops(ops)}{f', {inputs} input' + 's' * (inputs > 1) if inputs else ''}"
    first = inside[0]
    follows = sum(edit.follows for edit in inside)
    sample = next((edit.sample for edit in inside if edit.sample), "")
    made = Edit(
        f"module:{way}", title, path, path, text, place=place, node=first.node, old_node=first.old_node
    )
    return replace(made, follows=follows, sample=sample, inside=tuple(inside))


def _ops(ops: Mapping[str, int]) -> str:
    """``7 ops (F.linear ×3, torch.tanh ×2, operator.add and 1 more)``."""
    ranked = sorted(ops.items(), key=lambda item: -item[1])
    named = [target if count == 1 else f"{target} ×{count}" for target, count in ranked[:MAX_TARGETS]]
    more = f" and {len(ranked) - MAX_TARGETS} more" if len(ranked) > MAX_TARGETS else ""
    return f"{sum(ops.values())} ops ({', '.join(named)}{more})"
