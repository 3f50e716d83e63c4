"""Two snapshots to a Diff: graphs by frame, resume ordinal and variant, breaks, skipped frames, environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from peek_backend.model.snapshot import Break, Graph, Place, Skipped, Snapshot

from .edits import Diff, Edit, GraphDiff
from .graphs import compare_graphs

Key = tuple[str, int, int, str, int]
MAX_ALIGNED = 10_000
"""Most pairs of graphs of one function that are tried when a break shifted its resume functions."""


def compare(old: Snapshot, new: Snapshot) -> Diff:
    """What changed from ``old`` to ``new``. Both may come from files or from a capture."""
    graphs = list(_graphs(old, new))
    events = [*_break_edits(old, new), *_skipped_edits(old, new)]
    edits = [*events, *[edit for graph in graphs for edit in graph.edits], *_notes(old, new)]
    edits = list(_folded(edits, graphs, events))
    return Diff(
        new.name or old.name, tuple(_env(old, new)), tuple(graphs), tuple(edits), old.stats, new.stats
    )


def _env(old: Snapshot, new: Snapshot) -> Iterator[tuple[str, str, str]]:
    before, after = dict(old.env), dict(new.env)
    for key in dict.fromkeys([*before, *after]):
        if before.get(key, "") != after.get(key, ""):
            yield key, before.get(key, ""), after.get(key, "")


def _key(graph: Graph) -> Key:
    return graph.frame, graph.resume, graph.variant, graph.stage, graph.call


def _graphs(old: Snapshot, new: Snapshot) -> Iterator[GraphDiff]:
    """Pairs of graphs in order of the new snapshot, then those that are gone."""
    after = {_key(graph): graph for graph in new.graphs}
    before = _renamed_frames({_key(graph): graph for graph in old.graphs}, after)
    partners = _partners(before, after)
    for key, graph in after.items():
        other = before.pop(partners[key], None) if key in partners else None
        if other is None:
            kind = "recompile:added" if graph.variant > 1 else "graph:added"
            edit = Edit(
                kind,
                graph.title,
                target=graph.frame,
                text=graph.title,
                new=graph.because,
                place=_place(graph),
            )
            yield GraphDiff(graph.title, None, graph, edits=(edit,))
            continue
        found = compare_graphs(other, graph)
        if other.because != graph.because:
            reason = Edit(
                "recompile:reason", graph.title, text=graph.title, old=other.because, new=graph.because
            )
            found = replace(found, edits=(*found.edits, reason))
        yield found
    for graph in before.values():
        kind = "recompile:removed" if graph.variant > 1 else "graph:removed"
        edit = Edit(kind, graph.title, target=graph.frame, text=graph.title, place=_place(graph))
        yield GraphDiff(graph.title, graph, None, edits=(edit,))


def _partners(before: Mapping[Key, Graph], after: Mapping[Key, Graph]) -> dict[Key, Key]:
    """The old key of each new graph: the same, except where a break more or less shifted the ordinals of resume functions."""
    families: dict[tuple, tuple[list[Key], list[Key]]] = {}
    for side, graphs in enumerate((before, after)):
        for key in graphs:
            frame, _, *rest = key
            families.setdefault((frame, *rest), ([], []))[side].append(key)
    partners: dict[Key, Key] = {}
    for left, right in families.values():
        if len(left) == len(right) or not left or not right or len(left) * len(right) > MAX_ALIGNED:
            partners.update({key: key for key in right if key in before})
        else:
            heads = [key for key in right if key in before and key[1] == 0]
            partners.update({key: key for key in heads})
            rest = (
                [graphs[k] for k in sorted(keys) if k not in heads]
                for graphs, keys in ((before, left), (after, right))
            )
            partners.update(_aligned(*rest))
    return partners


def _aligned(old: Sequence[Graph], new: Sequence[Graph]) -> Iterator[tuple[Key, Key]]:
    """(new key, old key) of graphs in order that are most alike: by the share of ops that they have in common."""
    left, right = (
        [Counter(node.target for node in graph.nodes) for graph in graphs] for graphs in (old, new)
    )
    alike = [[(1 + 2 * (a & b).total()) / (1 + a.total() + b.total()) for b in right] for a in left]
    best = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j + 1] + alike[i][j], best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(old) and j < len(new):
        if best[i][j] == best[i + 1][j + 1] + alike[i][j]:
            yield _key(new[j]), _key(old[i])
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1


def _renamed_frames(before: dict[Key, Graph], after: dict[Key, Graph]) -> dict[Key, Graph]:
    """Old graphs under the new name of their frame, when one frame alone is gone and one alone is new."""
    gone = dict.fromkeys(k[0] for k in before if not any(k[0] == n[0] for n in after))
    come = dict.fromkeys(k[0] for k in after if not any(k[0] == o[0] for o in before))
    if len(gone) != 1 or len(come) != 1:
        return before
    (old_name,), (new_name,) = gone, come
    return {
        (new_name, *key[1:]) if key[0] == old_name else key: replace(graph, frame=new_name)
        if key[0] == old_name
        else graph
        for key, graph in before.items()
    }


def _place(graph: Graph) -> Place | None:
    return next((node.place for node in graph.nodes if node.place is not None), None)


def _break_key(info: Break) -> tuple[str, str, str, str]:
    return info.id, info.place.file, info.place.function, info.place.code


def _break_edits(old: Snapshot, new: Snapshot) -> Iterator[Edit]:
    """Breaks that are new or gone: as often as the same line breaks for the same reason more or less often."""
    before, after = Counter(map(_break_key, old.breaks)), Counter(map(_break_key, new.breaks))
    for kind, more, fewer, breaks in (
        ("break:added", after, before, new.breaks),
        ("break:removed", before, after, old.breaks),
    ):
        left = more - fewer
        for info in breaks:
            key = _break_key(info)
            if left[key] > 0:
                left[key] -= 1
                text = " ".join(part for part in (info.id, info.reason or info.place.code) if part)
                yield Edit(kind, target=info.id, text=text, place=info.place)


def _skipped_edits(old: Snapshot, new: Snapshot) -> Iterator[Edit]:
    before = {(s.frame, s.state): s for s in old.skipped}
    after = {(s.frame, s.state): s for s in new.skipped}
    for key, entry in after.items():
        if key not in before:
            yield _skipped_edit("capture:nothing" if entry.state == "NOTHING" else "frame:skipped", entry)
    for key, entry in before.items():
        if key not in after:
            yield _skipped_edit("frame:captured", entry)


def _skipped_edit(kind: str, entry: Skipped) -> Edit:
    return Edit(
        kind,
        entry.frame,
        target=entry.frame,
        text=f"{entry.frame} {entry.state}: {entry.reason}",
        place=entry.place,
    )


def _notes(old: Snapshot, new: Snapshot) -> Iterator[Edit]:
    for note in new.notes:
        if note not in old.notes:
            yield Edit("note", text=note)


def _folded(edits: Iterable[Edit], graphs: Iterable[GraphDiff], events: Iterable[Edit]) -> Iterator[Edit]:
    """Folds what a new or vanished break moves from one graph into another: ops, inputs and outputs of the frames that it cuts.

    A break added in ``f`` takes ops out of ``f`` into ``f ▸ resume#1``; that is one edit, not one an op. Where no break was
    recorded, the resume function that came or went tells of it.
    """
    graphs = list(graphs)
    told = any(edit.kind in ("break:added", "break:removed") for edit in events)
    cut = {_frame(g) for g in graphs if (g.old is None or g.new is None) and _is_resume(g)}
    if not cut:
        yield from edits
        return
    moved = _ops_that_moved(graphs, cut)
    names = {
        entry.name for g in graphs if g.old is None or g.new is None for entry in (g.new or g.old).inputs
    }
    titles = {g.title: _frame(g) for g in graphs}
    for edit in edits:
        frame = titles.get(edit.graph.partition("/")[0])
        is_half = edit.kind in ("graph:added", "graph:removed")
        if frame in cut and _comes_of_the_cut(edit, names) and (told or not is_half):
            continue
        if frame in cut and edit.kind in ("op:added", "op:removed") and moved[edit.kind, edit.target] > 0:
            moved[edit.kind, edit.target] -= 1
            continue
        yield edit


def _comes_of_the_cut(edit: Edit, names: set[str]) -> bool:
    """Whether a cut alone explains an edit of its frame: halves that come or go, what they hand over, inputs that moved.

    ``names`` are the inputs of the graphs that came or went.
    """
    if edit.kind in ("graph:added", "graph:removed", "output:changed", "input:order", "input:renamed"):
        return True
    if edit.kind.startswith("recompile:"):
        return "resume#" in edit.graph
    return edit.kind in ("input:added", "input:removed") and (edit.target in names or "resume#" in edit.graph)


def _frame(graph: GraphDiff) -> str:
    return (graph.new or graph.old).frame


def _is_resume(graph: GraphDiff) -> bool:
    return (graph.new or graph.old).resume > 0


def _ops_that_moved(graphs: Iterable[GraphDiff], cut: set[str]) -> Counter:
    """How many ops of each target the graphs of cut frames gained or lost as a whole."""
    moved: Counter = Counter()
    for graph in graphs:
        if _frame(graph) not in cut:
            continue
        if graph.old is None:
            moved.update(("op:removed", node.target) for node in graph.new.nodes)
        elif graph.new is None:
            moved.update(("op:added", node.target) for node in graph.old.nodes)
    return moved
