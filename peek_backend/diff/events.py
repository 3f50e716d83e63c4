"""Breaks, frames without a graph and notes of two snapshots: which came, which went, which only read differently."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from msgspec.structs import replace

from ..model.snapshot import Break, Skipped, Snapshot
from .edits import Edit
from .texts import place_key

Entry = TypeVar("Entry", Break, Skipped)


def event_edits(old: Snapshot, new: Snapshot, renamed: Mapping[str, str]) -> Iterator[Edit]:
    """All edits of breaks, skipped frames and notes; ``renamed`` maps frames' old names to their new ones."""
    skipped = [replace(entry, frame=renamed.get(entry.frame, entry.frame)) for entry in old.skipped]
    yield from _entry_edits(old.breaks, new.breaks, _BREAK_KEYS, _break_edit, _break_reason)
    yield from _entry_edits(skipped, new.skipped, _SKIPPED_KEYS, _skipped_edit, _skipped_reason)
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


def _break_edit(info: Break, *, came: bool) -> Edit:
    text = " ".join(part for part in (info.id, info.reason or info.place.code) if part)
    return Edit("break:added" if came else "break:removed", target=info.id, text=text, place=info.place)


def _break_reason(info: Break) -> Edit:
    return Edit("break:reason", target=info.id, text=info.id or info.reason, place=info.place)


_SKIPPED_KEYS: tuple[Callable[[Skipped], Hashable], ...] = (
    lambda s: (s.frame, s.state, s.reason),
    lambda s: (s.frame, s.state),
)


def _skipped_edit(entry: Skipped, *, came: bool) -> Edit:
    arrival = "capture:nothing" if entry.state == "NOTHING" else "frame:skipped"
    text = f"{entry.frame} {entry.state}: {entry.reason}"
    kind = arrival if came else "frame:captured"
    return Edit(kind, entry.frame, target=entry.frame, text=text, place=entry.place)


def _skipped_reason(entry: Skipped) -> Edit:
    return Edit("frame:reason", entry.frame, target=entry.frame, text=entry.frame)


def _entry_edits(
    old: Iterable[Entry],
    new: Iterable[Entry],
    keys: Iterable[Callable[[Entry], Hashable]],
    told: Callable[..., Edit],
    reason: Callable[[Entry], Edit],
) -> Iterator[Edit]:
    """Entries that came or went, by ``told``: as often as a line has one more or one less for the same reason.

    For information: lines that read differently, and by ``reason`` the entries that have another one.
    """
    pairs, gone, come = _matched(old, new, keys)
    yield from [told(entry, came=True) for entry in come]
    yield from [told(entry, came=False) for entry in gone]
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
