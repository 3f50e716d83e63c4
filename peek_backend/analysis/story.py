"""The story of each code object that was compiled more than once: its variants, the values seen, the advice.

Comes in: a record. Goes out: ``Story`` rows, the longest first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..model import CaptureRecord, FailedGuard, FrameRecord, RecompileInfo


class Seen(NamedTuple):
    """The values that one source had, in the order of the variants."""

    source: str
    values: tuple[str, ...]


class Story(NamedTuple):
    """One frame's recompiles. ``refused`` is the attempt from which on it runs uncompiled."""

    frame: FrameRecord
    index: int
    variants: int
    recompiles: tuple[RecompileInfo, ...]
    refused: RecompileInfo | None
    seen: tuple[Seen, ...]
    advice: tuple[str, ...]


def stories(record: CaptureRecord) -> list[Story]:
    """A story for every frame that was compiled again, or was refused to be."""
    by_frame: dict[int, list[RecompileInfo]] = {}
    for recompile in record.recompiles:
        if recompile.frame is not None:
            by_frame.setdefault(recompile.frame, []).append(recompile)
    found = [_story(record, index, infos) for index, infos in by_frame.items() if index < len(record.frames)]
    return sorted(found, key=lambda story: (story.refused is None, -story.variants))


def _story(record: CaptureRecord, index: int, infos: list[RecompileInfo]) -> Story:
    refused = next((r for r in infos if r.refused), None)
    compiled = [r for r in infos if not r.refused]
    variants = max((r.variant for r in compiled), default=(refused.variant - 1 if refused else 1))
    advice = dict.fromkeys(r.advice for r in infos if r.advice)
    guards = [guard for recompile in infos for guard in recompile.failed]
    return Story(record.frames[index], index, variants, tuple(compiled), refused, seen(guards), tuple(advice))


def seen(guards: Iterable[FailedGuard]) -> tuple[Seen, ...]:
    """What each source was over the variants: what they expect, then what the last call had."""
    values: dict[str, dict[str, None]] = {}
    for guard in guards:
        if not guard.source or guard.expected is None:
            continue
        got = guard.got.removeprefix(f"{guard.source} = ") if guard.got is not None else None
        is_value = not _is_condition(guard)
        for value in (guard.expected if is_value else None, got if is_value or got != guard.got else None):
            if value is not None:
                values.setdefault(guard.source, {})[value] = None
    return tuple([Seen(source, tuple(kept)) for source, kept in values.items() if len(kept) > 1])


def _is_condition(guard: FailedGuard) -> bool:
    """Whether what a guard expects is no value: a comparison, the same object, a state of the process."""
    return guard.expected in (guard.text, "the same object", "as when it was compiled") or (
        guard.expected is not None and guard.text.startswith(f"{guard.expected}, got")
    )


def cause(recompile: RecompileInfo) -> FailedGuard | None:
    """The failed guard that tells most, which a record keeps first; the others are those of the other variants."""
    return recompile.failed[0] if recompile.failed else None
