"""What a break is worth: the ops that mending it would join."""

from __future__ import annotations

from msgspec.structs import replace

from peek_backend.analysis.breaks import ranked
from peek_backend.model import BreakInfo, FrameRecord, StackFrame
from tests.builders import capture, transformer


def graph_of_frame(index):
    return replace(transformer(1), compile_id=f"{index}/0", frame=index)


def frame(name, line, *, resume_of=None, resume=0, callers=(), outcome="compiled"):
    return FrameRecord(name, "m.py", line, outcome, resume_of=resume_of, resume=resume, callers=callers)


def test_a_resume_frame_left_in_eager_has_only_what_it_calls():
    """Ops of the frames before it, and of functions called above its line, are not after the break."""
    main = StackFrame("main.py", 1, "<module>")
    early, late = StackFrame("m.py", 3, "forward"), StackFrame("m.py", 9, "forward")
    frames = (
        frame("M.forward", 1, callers=(main,)),
        frame("M.forward ▸ resume#1", 2, resume_of=0, resume=1, callers=(main, early)),
        frame("M.forward ▸ resume#2", 8, resume_of=0, resume=2, callers=(main, early), outcome="skipped"),
        frame("helper", 20, callers=(main, early)),
    )
    left = BreakInfo("in a loop", stack=(late,), frame=2, split=False)
    graphs = [graph_of_frame(i) for i in (0, 1, 3)]
    (place,) = ranked(capture(*graphs, frames=frames, breaks=(left,)))
    assert place.ops_after == 0
    called = replace(frames[3], callers=(main, late))
    (place,) = ranked(capture(*graphs, frames=(*frames[:3], called), breaks=(left,)))
    assert place.ops_after > 0
