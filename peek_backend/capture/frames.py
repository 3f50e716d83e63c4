"""What the ledger knows of each code object and of each compile, and the FrameRecord that it becomes.

Plain data: no frame, tensor or guard of the program outlives its compile here.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..model import BreakInfo, FailedGuard, FrameRecord, Phase, StackFrame, own_name
from . import metrics
from .sources import NO_POSITIONS, Positions


@dataclass
class Compile:
    """One compile id: plain data only."""

    compile_id: str
    frame: int
    one_graph: bool = False
    callers: tuple[StackFrame, ...] = ()
    failed: tuple[FailedGuard, ...] = ()
    # All constant sizes that the call had otherwise than the variant whose guard tells most.
    sizes: tuple[str, ...] = ()
    variant: int = 0
    graphs: list[int] = field(default_factory=list)
    breaks: list[BreakInfo] = field(default_factory=list)
    produced: bool = False
    refused: bool = False
    error: str | None = None
    fix: str = ""
    user: StackFrame | None = None
    # The error reached the program; without it the frame was left in eager.
    raised: bool = False
    ended: bool = False
    buckets: int = 0
    phases: tuple[Phase, ...] = ()
    calls: itertools.count[int] | None = None


@dataclass
class Forbidden:
    """What was not to be compiled of one code object: the error that ended a call, and the calls that ran in eager instead."""

    error: str = ""
    fix: str = ""
    user: StackFrame | None = None
    eager_calls: int = 0
    eager_why: str = ""


@dataclass
class Frame:
    """One code object."""

    index: int
    name: str
    file: str
    line: int
    root: int | None = None
    resume: int = 0
    resumes: int = 0
    compiles: list[Compile] = field(default_factory=list)
    # Variants that the code object had when the session first met it.
    earlier: int = 0
    # How often its compiled code was dropped, and how many of the compiles were made before that.
    resets: int = 0
    dropped: int = 0
    # What each guarded source was in the variants so far.
    values: dict[str, set[str]] = field(default_factory=dict)
    forbidden: Forbidden = field(default_factory=Forbidden)
    declined: str = ""
    # The function that the program called, and the line in which that broke, where this frame is one of its own for it.
    outer: int | None = None
    cut: StackFrame | None = None
    # How many of torch's failure texts for this code were read.
    failures_read: int = 0
    code: Callable[[], Any] = lambda: None
    # What the arguments of a wrapper are called inside.
    positions: Positions = NO_POSITIONS

    @property
    def own_name(self) -> str:
        """The function's own name, as a stack has it; that of the function that a resume frame continues."""
        return own_name(self.name)

    @property
    def variants(self) -> int:
        """How many compiled variants the code object has by now."""
        return self.earlier + sum(c.produced and c.error is None for c in self.compiles[self.dropped :])


def frame_record(frame: Frame) -> FrameRecord:
    """What is known of a frame by now; whatever happens later makes another record."""
    outcome, reason = _outcome(frame)
    failed: Compile | Forbidden | None = _failed_last(frame)
    if failed is None and frame.forbidden.error:
        failed = frame.forbidden
    calls: Counter[str] = Counter()
    phases: dict[str, tuple[Phase, ...]] = {}
    for c in frame.compiles:  # after a reset the ids begin anew
        if c.calls is not None:
            calls[c.compile_id] += count(c.calls)
        if c.phases:
            phases[c.compile_id] = metrics.added(phases.get(c.compile_id, ()), c.phases)
    return FrameRecord(
        name=frame.name,
        file=frame.file,
        line=frame.line,
        outcome=outcome,
        reason=reason,
        compile_ids=tuple([c.compile_id for c in frame.compiles if not c.refused]),
        resume_of=frame.root,
        resume=frame.resume,
        phases=phases,
        calls=dict(calls),
        fix=failed.fix if failed is not None else "",
        user=failed.user if failed is not None else None,
        callers=frame.compiles[0].callers if frame.compiles else (),
        resets=frame.resets,
        eager_calls=frame.forbidden.eager_calls,
        eager_why=frame.forbidden.eager_why,
        outer=frame.outer,
        cut=frame.cut,
    )


def fields(frame: Frame) -> dict[str, Any]:
    """The fields of a frame's record that change after it was first told."""
    record = frame_record(frame)
    return {
        name: getattr(record, name)
        for name in (
            "outcome",
            "reason",
            "compile_ids",
            "phases",
            "fix",
            "user",
            "callers",
            "resets",
            "eager_calls",
            "eager_why",
            "outer",
            "cut",
        )
    }


def count(counter: itertools.count[int]) -> int:
    """How far a counter came, which only its text tells without moving it on: ``count(3)``."""
    return int(repr(counter)[len("count(") : -1])


def calling(callers: Sequence[StackFrame], frame: Frame) -> StackFrame | None:
    """The line that called a frame. The frame itself may be the last of its callers: always that of a resumed one."""
    own = (frame.file, frame.own_name)
    return next((c for c in reversed(callers) if (c.file, c.function) != own), None)


def _failed_last(frame: Frame) -> Compile | None:
    return next((c for c in reversed(frame.compiles) if c.ended and c.error is not None), None)


_MADE_AN_ERROR = "fullgraph=True makes that an error"


def _outcome(frame: Frame) -> tuple[str, str]:
    """What became of a frame, and why: the gravest thing that happened to it."""
    if frame.declined:
        return ("empty" if "no tensor" in frame.declined else "skipped"), frame.declined
    refused = next((c for c in frame.compiles if c.refused), None)
    if refused is not None:
        why = refused.failed[0].text if refused.failed else ""
        told = f"the recompile limit was reached after {frame.variants} variants: {why}"
        return ("failed", f"{told}; {_MADE_AN_ERROR}") if refused.raised else ("limit", told)
    failed = _failed_last(frame)
    if failed is not None:
        return ("failed" if failed.raised else "skipped"), str(failed.error)
    if frame.forbidden.error:
        return "failed", frame.forbidden.error
    return _outcome_of_the_good(frame)


def _outcome_of_the_good(frame: Frame) -> tuple[str, str]:
    ended = [c for c in frame.compiles if c.ended]
    split = next((c for c in ended if c.breaks), None)
    if split is not None:
        return "broken", split.breaks[0].reason
    if any(c.graphs for c in frame.compiles) or not ended:
        return "compiled", ""
    return "empty", "no tensor op to compile"
