"""Graph breaks by place, the ones that are worth mending first at the head.

Comes in: a record. Goes out: ``BreakPlace`` rows. A break is worth as much as the ops that come after it: joined to what stands
before it, they would be one graph. Its weight is the number of its events times those ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..model import BreakInfo, CaptureRecord, FrameRecord, GraphRecord, StackFrame
from .advice import rewrites
from .stats import break_place, captured_graphs
from .totals import is_op, with_children


class BreakPlace(NamedTuple):
    """All events with one reason at one line. ``ops_after`` are those that a mended break would join to what is before it."""

    place: StackFrame | None
    reason: str
    events: tuple[BreakInfo, ...]
    ops_after: int
    rewrites: tuple[str, ...]

    @property
    def first(self) -> BreakInfo:
        """The event that stands for the others."""
        return self.events[0]

    @property
    def weight(self) -> int:
        """Events times ops after them: what mending is worth."""
        return len(self.events) * self.ops_after


def ranked(record: CaptureRecord) -> list[BreakPlace]:
    """The places where the program breaks, by weight, then by how many events they have, then in order of the program."""
    places: dict[tuple[str, str], list[BreakInfo]] = {}
    for event in record.breaks:
        places.setdefault((break_place(event), event.reason), []).append(event)
    ops = ops_by_frame(record)
    rows = [_place(record, events, ops) for events in places.values()]
    return sorted(rows, key=lambda row: (-row.weight, -len(row.events)))


def _place(record: CaptureRecord, events: Sequence[BreakInfo], ops: Sequence[int]) -> BreakPlace:
    first = events[0]
    after = max(_ops_after(record, event, ops) for event in events)
    where = first.stack[-1] if first.stack else None
    told = rewrites(first, inside=_in_the_program(record, first))
    return BreakPlace(where, first.reason, tuple(events), after, told)


def _in_the_program(record: CaptureRecord, event: BreakInfo) -> bool:
    """Whether a function that the program wrote is among those compiled that led to the break, and not only their caller."""
    if event.user is None:
        return False
    known = {(f.file, f.function) for f in record.frames}
    outer = event.stack[: event.stack.index(event.user) + 1]
    return any((frame.file, frame.function) in known for frame in outer)


def ops_by_frame(record: CaptureRecord) -> list[int]:
    """Ops captured of each frame, of its largest variant: a recompile is no further work."""
    ops = [0] * len(record.frames)
    running: dict[tuple[int, str | None], int] = {}
    for graph in captured_graphs(record):
        if graph.frame is not None and graph.frame < len(ops):
            key = (graph.frame, graph.compile_id)
            before = running.get(key, 0) if graph.call else 0  # ids begin anew after a reset
            running[key] = before + graph_ops(graph)
            ops[graph.frame] = max(ops[graph.frame], running[key])
    return ops


def graph_ops(graph: GraphRecord) -> int:
    """Ops of a graph and of its bodies."""
    return sum(is_op(node) for body in with_children(graph) for node in body.nodes)


def _ops_after(record: CaptureRecord, event: BreakInfo, ops: Sequence[int]) -> int:
    """Ops in the frames that go on after the break; for a frame that runs on in eager, in those that it calls."""
    if event.frame is None or event.frame >= len(record.frames):
        return 0
    frame = record.frames[event.frame]
    if event.split and event.resumes:
        return sum(ops[i] for i, later in enumerate(record.frames) if _continues(later, frame, event.frame))
    root = _root(event.frame, frame)
    return sum(
        ops[i] for i, inner in enumerate(record.frames) if _root(i, inner) != root and _calls(frame, inner)
    )


def _continues(later: FrameRecord, frame: FrameRecord, index: int) -> bool:
    return later.resume_of == _root(index, frame) and later.resume > frame.resume


def _root(index: int, frame: FrameRecord) -> int:
    """The frame that a resume function continues; the frame itself for any other."""
    return index if frame.resume_of is None else frame.resume_of


def _calls(frame: FrameRecord, inner: FrameRecord) -> bool:
    """Whether ``frame`` is among those that led to ``inner``; what a resume function calls stands at its line or below."""
    callers = (c for c in inner.callers if (c.file, c.function) == (frame.file, frame.function))
    return any(caller.line >= frame.line for caller in callers)
