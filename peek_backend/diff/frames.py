"""Which frame of the old snapshot is which of the new one, where functions and classes have other names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..model.snapshot import Graph, Skipped, Snapshot

MAX_PAIRS = 10_000
"""Most pairs of frames that are looked at."""
LEAST_ALIKE = 0.5
"""The share of ops that a renamed frame keeps at least."""


def renamed_frames(old: Snapshot, new: Snapshot) -> dict[str, str]:
    """Old name to new name of frames that are gone and have come: those that are most alike, in order.

    A frame that is known on the other side in another state (it runs in eager now) is not gone.
    """
    before, after = _names(old), _names(new)
    gone = [name for name in before if name not in after]
    come = [name for name in after if name not in before]
    if not gone or not come or len(gone) * len(come) > MAX_PAIRS:
        return {}
    left, right = _ops(old, gone), _ops(new, come)
    pairs = [
        (-alike, abs(i - j), i, j)
        for i, a in enumerate(gone)
        for j, b in enumerate(come)
        if (alike := _alike(left[a], right[b])) >= LEAST_ALIKE
    ]
    found: dict[str, str] = {}
    for _, _, i, j in sorted(pairs):
        if gone[i] not in found and come[j] not in found.values():
            found[gone[i]] = come[j]
    return found


def _names(snapshot: Snapshot) -> dict[str, None]:
    """Every frame that a snapshot knows, in order."""
    return dict.fromkeys([e.frame for e in snapshot.entries if isinstance(e, (Graph, Skipped))])


def _ops(snapshot: Snapshot, frames: Sequence[str]) -> Mapping[str, Counter]:
    """What each frame consists of: ops, inputs' types, states without a graph."""
    found: dict[str, Counter] = {frame: Counter() for frame in frames}
    for entry in snapshot.entries:
        if isinstance(entry, Graph) and entry.frame in found:
            found[entry.frame].update(node.target for node in entry.nodes)
            found[entry.frame][""] += 1
        elif isinstance(entry, Skipped) and entry.frame in found:
            found[entry.frame][entry.state, entry.reason] += 1
    return found


def _alike(a: Counter, b: Counter) -> float:
    return 2 * (a & b).total() / (a.total() + b.total())
