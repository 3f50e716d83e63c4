"""All that a capture says of one value of the program by its name in the report: an argument, an attribute, a global, a length.

Comes in: a record and a name (``k``, ``s.scale``, ``x.dtype``). Goes out: ``Value``: the guards on it, and the recompiles in
which one of them failed. Sizes and symbols have more to say: ``why``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..model import CaptureRecord, FailedGuard, GraphRecord, GuardInfo, RecompileInfo
from .stats import captured_graphs
from .story import Seen, seen


class Guarded(NamedTuple):
    """A guard on the value, and the graphs that have it."""

    guard: GuardInfo
    graphs: tuple[GraphRecord, ...]


class Failure(NamedTuple):
    """A guard on the value that did not hold, and the recompile that this led to."""

    recompile: RecompileInfo
    guard: FailedGuard


class Value(NamedTuple):
    """What is known of a value. ``advice`` is for the recompiles that it caused."""

    guards: tuple[Guarded, ...]
    failures: tuple[Failure, ...]
    seen: tuple[Seen, ...]
    advice: tuple[str, ...]


def about(record: CaptureRecord, name: str) -> Value | None:
    """Every guard on ``name`` or on a part of it (``x.dtype`` is part of ``x``); None where none is."""
    guards = tuple(_guards(record, name))
    failures = tuple(
        Failure(recompile, guard)
        for recompile in record.recompiles
        for guard in recompile.failed
        if _concerns(guard.source, name)
    )
    if not guards and not failures:
        return None
    caused = [f.recompile for f in failures if f.guard is f.recompile.failed[0]]
    advice = dict.fromkeys(r.advice for r in caused if r.advice)
    return Value(guards, failures, seen([f.guard for f in failures]), tuple(advice))


def names(record: CaptureRecord) -> list[str]:
    """The values that ``about`` knows, those that made something compile again first."""
    failed = [guard.source for recompile in record.recompiles for guard in recompile.failed]
    guarded = [g.source for graph in captured_graphs(record) for g in graph.guards if not g.ambient]
    return [name for name in dict.fromkeys([*failed, *guarded]) if name]


def _guards(record: CaptureRecord, name: str) -> Iterator[Guarded]:
    found: dict[GuardInfo, list[GraphRecord]] = {}
    for graph in captured_graphs(record):
        for guard in graph.guards:
            if not guard.ambient and _concerns(guard.source, name):
                found.setdefault(guard, []).append(graph)
    for guard, graphs in found.items():
        yield Guarded(guard, tuple(graphs))


_WRAPPED = ("type of ", "dispatch keys of ", "len(")


def _concerns(source: str, name: str) -> bool:
    """Whether a guard's source is the value, or a part of it; attributes of the compiled module go without ``self`` too."""
    bare = source
    for words in _WRAPPED:
        bare = bare.removeprefix(words)
    bare = bare.removesuffix(")") if source.startswith("len(") else bare.rpartition(" in ")[2]
    known = (source, bare, bare.removeprefix("self."))
    return bool(name) and any(
        text == name or (text.startswith(name) and text[len(name)] in ".[") for text in known
    )
