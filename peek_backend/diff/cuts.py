"""What follows from a break that came or went, told under it.

A break moves ops, inputs and outputs from one graph into others: into resume functions, into the functions that were inlined
before, into eager. That is one edit, the break, and not one an op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ..model.snapshot import Snapshot
from .edits import Edit, GraphDiff
from .texts import few

_ROOTS = ("break:added", "break:removed", "frame:skipped", "frame:captured")
_SHIFTED = ("graph:added", "graph:removed", "output:changed", "input:order", "input:renamed", "frame:renamed")


def fold_cuts(old: Snapshot, new: Snapshot, graphs: Sequence[GraphDiff], edits: Sequence[Edit]) -> list[Edit]:
    """The edits without those that a break explains; the break, or the frame left in eager, says what it led to."""
    cuts = _Cuts(old, new, graphs, edits)
    kept, folded = [], []
    for edit in edits:
        (folded if cuts.explains(edit) else kept).append(edit)
    roots = [edit for edit in kept if edit.kind in _ROOTS]
    if not roots:
        return list(edits)
    return _told(kept, folded, cuts)


class _Cuts:
    """The frames that a break cut in two or put into eager, and what these frames lost to others."""

    def __init__(self, old: Snapshot, new: Snapshot, graphs: Sequence[GraphDiff], edits: Sequence[Edit]):
        self.graphs = graphs
        self.titles = {g.title: _frame(g) for g in graphs}
        one_sided = [g for g in graphs if g.old is None or g.new is None]
        self.told = any(edit.kind in ("break:added", "break:removed") for edit in edits)
        self.eager = _turned(old, new) | _turned(new, old)
        self.cut = {_frame(g) for g in one_sided if (g.new or g.old).resume > 0}
        self.moved = self._moved([g for g in one_sided if _frame(g) in self.cut])
        self.inputs = {entry.name for g in one_sided for entry in (g.new or g.old).inputs}
        known = {graph.frame for graph in old.graphs} & {graph.frame for graph in new.graphs}
        inlined = self._inlined([g for g in one_sided if _frame(g) not in known])
        self.inlined = {pair.title for pair in inlined}
        self.inlined_ops = {target for pair in inlined for target in _targets(pair)}

    @staticmethod
    def _moved(graphs: Iterable[GraphDiff]) -> Counter:
        """How many ops of each target went from a cut frame into its resume functions, or came back."""
        moved: Counter = Counter()
        for graph in graphs:
            kind, side = ("op:removed", graph.new) if graph.old is None else ("op:added", graph.old)
            moved.update((kind, node.target) for node in side.nodes)
        return moved

    def _inlined(self, graphs: Iterable[GraphDiff]) -> list[GraphDiff]:
        """Graphs of functions that a cut frame had inlined: all their ops were in it, or are in it now."""
        frames = self.cut | self.eager
        inside = [pair for pair in self.graphs if _frame(pair) in frames]
        before = {node.target for pair in inside if pair.old is not None for node in pair.old.nodes}
        after = {node.target for pair in inside if pair.new is not None for node in pair.new.nodes}
        return [
            pair for pair in graphs if inside and _targets(pair) <= (before if pair.old is None else after)
        ]

    def explains(self, edit: Edit) -> bool:
        """Whether a cut alone explains an edit."""
        if edit.kind in _ROOTS or (edit.kind == "recompile:added" and "resume#" not in edit.graph):
            return False
        title = edit.graph.partition("/")[0]
        frame = self.titles.get(title)
        if frame in self.eager or title in self.inlined:
            return self.told or bool(self.eager)
        if frame not in self.cut:
            return False
        return self._follows(edit, title)

    def _follows(self, edit: Edit, title: str) -> bool:
        if edit.kind in _SHIFTED:
            return self.told or edit.kind not in ("graph:added", "graph:removed")
        if edit.kind.startswith("recompile:"):
            return "resume#" in edit.graph
        if edit.kind in ("input:added", "input:removed"):
            return "resume#" in title or self._is_handed_over(edit.target)
        if edit.kind in ("op:added", "op:removed"):
            return self._has_moved(edit)
        return False

    def _is_handed_over(self, name: str) -> bool:
        """Whether an input is one of a graph that came or went: there an inlined module's parameters have shorter names."""
        parts = name.split(".")
        return any(".".join(parts[k:]) in self.inputs for k in range(len(parts)))

    def _has_moved(self, edit: Edit) -> bool:
        key = edit.kind, edit.target
        if self.moved[key] > 0:
            self.moved[key] -= 1
            return True
        # One graph stands for all calls of a function that is no longer inlined.
        return edit.target in self.inlined_ops


def _turned(old: Snapshot, new: Snapshot) -> set[str]:
    """Frames that left graphs on the first side and run in eager on the second."""
    now = {graph.frame for graph in new.graphs}
    return {entry.frame for entry in new.skipped if entry.frame not in now} & {g.frame for g in old.graphs}


def _frame(graph: GraphDiff) -> str:
    return (graph.new or graph.old).frame


def _targets(graph: GraphDiff) -> set[str]:
    return {node.target for node in (graph.new or graph.old).nodes}


def _told(kept: Sequence[Edit], folded: Sequence[Edit], cuts: _Cuts) -> list[Edit]:
    """The kept edits, the first root with what follows from it; a frame left in eager for a break's reason is under the break."""
    came = [g.title for g in cuts.graphs if g.old is None]
    gone = [g.title for g in cuts.graphs if g.new is None and _frame(g) not in cuts.eager]
    root = next(k for k, edit in enumerate(kept) if edit.kind in _ROOTS)
    worse = kept[root].kind in ("break:added", "frame:skipped")
    under = [k for k, edit in enumerate(kept) if k != root and _is_under(edit, kept[root])]
    leads = [(kept[k].kind, _eager_text(kept[k])) for k in under]
    if came and any(edit.kind == "graph:added" for edit in folded):
        words = "graph split" if worse else "captured now"
        leads.append(("graph:added", f"{words}: {few(came)}"))
    if gone and any(edit.kind == "graph:removed" for edit in folded):
        words = "no graph any more" if worse else "joined into one graph"
        leads.append(("graph:removed", f"{words}: {few(gone)}"))
    leads += [(kind, "") for kind in dict.fromkeys(edit.kind for edit in folded) if kind not in dict(leads)]
    edits = [edit for k, edit in enumerate(kept) if k not in under]
    place = edits.index(kept[root])
    edits[place] = replace(kept[root], leads_to=tuple(leads))
    return edits


def _is_under(edit: Edit, root: Edit) -> bool:
    """Whether a frame is in eager, or no longer, for what a break says."""
    pairs = {"break:added": "frame:skipped", "break:removed": "frame:captured"}
    reason = edit.text.removeprefix(edit.target).partition(": ")[2]
    return edit.kind == pairs.get(root.kind) and bool(reason) and reason in root.text


def _eager_text(edit: Edit) -> str:
    return (
        f"{'frame left in eager' if edit.kind == 'frame:skipped' else 'frame is captured now'}: {edit.target}"
    )
