"""Breaks, frames without a graph and notes of two snapshots: which came, which went, which only read differently."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from peek_backend.model.snapshot import Break, Skipped, Snapshot

from .edits import Edit
from .texts import place_key


def event_edits(old: Snapshot, new: Snapshot, renamed: Mapping[str, str]) -> Iterator[Edit]:
    """All edits of breaks, skipped frames and notes; ``renamed`` maps frames' old names to their new ones."""
    yield from _break_edits(old.breaks, new.breaks)
    yield from _skipped_edits(old.skipped, new.skipped, renamed)
    for note in new.notes:
        if note not in old.notes:
            yield Edit("note", text=note)
    for note in old.notes:
        if note not in new.notes:
            yield Edit("note", text="no longer:", old=note)


# Where a break stands: its line, else its line in a file or function of another name, else its function.
_BREAK_KEYS: tuple[Callable[[Break], Hashable], ...] = (
    lambda b: (b.id, b.place.file, b.place.function, b.place.code, b.reason),
    lambda b: (b.id, b.place.file, b.place.function, b.place.code),
    lambda b: (b.id, b.place.function, b.place.code),
    lambda b: (b.id, b.place.file, b.place.code),
    lambda b: (b.id, b.place.code),
    lambda b: (b.id, b.place.file, b.place.function),
)


def _break_edits(old: Sequence[Break], new: Sequence[Break]) -> Iterator[Edit]:
    """Breaks that are new or gone: as often as the same line breaks for the same reason more or less often."""
    pairs, gone, come = _matched(old, new, _BREAK_KEYS)
    for info in come:
        yield _break_edit("break:added", info)
    for info in gone:
        yield _break_edit("break:removed", info)
    yield from _reworded(pairs, lambda b: Edit("break:reason", target=b.id, text=b.id, place=b.place))


def _break_edit(kind: str, info: Break) -> Edit:
    text = " ".join(part for part in (info.id, info.reason or info.place.code) if part)
    return Edit(kind, target=info.id, text=text, place=info.place)


_SKIPPED_KEYS: tuple[Callable[[Skipped], Hashable], ...] = (
    lambda s: (s.frame, s.state, s.reason),
    lambda s: (s.frame, s.state),
)


def _skipped_edits(
    old: Sequence[Skipped], new: Sequence[Skipped], renamed: Mapping[str, str]
) -> Iterator[Edit]:
    left = [replace(entry, frame=renamed.get(entry.frame, entry.frame)) for entry in old]
    pairs, gone, come = _matched(left, new, _SKIPPED_KEYS)
    for entry in come:
        yield _skipped_edit("capture:nothing" if entry.state == "NOTHING" else "frame:skipped", entry)
    for entry in gone:
        yield _skipped_edit("frame:captured", entry)
    yield from _reworded(pairs, lambda s: Edit("frame:reason", s.frame, target=s.frame, text=s.frame))


def _skipped_edit(kind: str, entry: Skipped) -> Edit:
    text = f"{entry.frame} {entry.state}: {entry.reason}"
    return Edit(kind, entry.frame, target=entry.frame, text=text, place=entry.place)


def _reworded(pairs: Sequence[tuple], reason: Callable[..., Edit]) -> Iterator[Edit]:
    """For information: lines that read differently, and of each new entry whose reason does the edit that ``reason`` makes."""
    moved = sum(place_key(a.place) != place_key(b.place) for a, b in pairs)
    if moved:
        yield Edit("source", text="source lines", count=moved)
    for a, b in pairs:
        if a.reason != b.reason:
            yield replace(reason(b), old=a.reason, new=b.reason)


def _matched(old: Iterable, new: Iterable, keys: Iterable[Callable]) -> tuple[list[tuple], list, list]:
    """Pairs of equal key in order, by the strictest key that fits; then what is left on either side."""
    left, right, pairs = list(old), list(new), []
    for key in keys:
        places: dict[Hashable, list] = defaultdict(list)
        for entry in left:
            places[key(entry)].append(entry)
        rest = []
        for entry in right:
            found = places[key(entry)]
            if found:
                pairs.append((found.pop(0), entry))
            else:
                rest.append(entry)
        left, right = [entry for found in places.values() for entry in found], rest
    return pairs, left, right
