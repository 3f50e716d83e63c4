"""Two snapshots to a Diff: graphs by frame, resume ordinal and variant, breaks, skipped frames, environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from ..model.snapshot import Graph, Place, Snapshot
from .cuts import fold_cuts
from .edits import Diff, Edit, GraphDiff
from .environments import differences
from .events import event_edits
from .frames import renamed_frames
from .graphs import compare_graphs
from .wholes import fold_modules

Key = tuple[str, int, int, str, int]
MAX_ALIGNED = 10_000
"""Most pairs of graphs of one function that are tried when a break shifted its resume functions."""


def compare(old: Snapshot, new: Snapshot) -> Diff:
    """What changed from ``old`` to ``new``. Both may come from files or from a capture."""
    renamed = renamed_frames(old, new)
    graphs = list(_graphs(old, new, renamed))
    edits = [*event_edits(old, new, renamed), *[edit for graph in graphs for edit in graph.edits]]
    for before, after in renamed.items():
        edits.append(Edit("frame:renamed", after, target=after, text="", old=before, new=after))
    edits = fold_modules(graphs, fold_cuts(old, new, graphs, edits))
    return Diff(
        new.name or old.name,
        tuple(differences(old, new, graphs)),
        tuple(graphs),
        tuple(edits),
        old.stats,
        new.stats,
    )


def _key(graph: Graph) -> Key:
    return graph.frame, graph.resume, graph.variant, graph.stage, graph.call


def _graphs(old: Snapshot, new: Snapshot, renamed: Mapping[str, str]) -> Iterator[GraphDiff]:
    """Pairs of graphs in order of the new snapshot, then those that are gone. ``renamed`` maps old frames to new ones."""
    after = {_key(graph): graph for graph in new.graphs}
    known = [
        replace(graph, frame=renamed[graph.frame]) if graph.frame in renamed else graph
        for graph in old.graphs
    ]
    before = {_key(graph): graph for graph in known}
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


def _place(graph: Graph) -> Place | None:
    return next((node.place for node in graph.nodes if node.place is not None), None)
