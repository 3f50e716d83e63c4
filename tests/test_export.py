"""A record as a file: what is said when there is nothing to draw."""

from __future__ import annotations

import pytest

from peek_backend.errors import PeekError
from peek_backend.export import write
from peek_backend.model import BreakInfo, FrameRecord, Problem
from tests.builders import capture

EAGER = "f (model.py:3) left in eager: Failed to trace builtin operator"


@pytest.mark.parametrize(
    ("record", "why", "fix"),
    [
        (capture(), "no compiled function was called", "call the compiled function"),
        (
            capture(notes=("nothing was captured: no compiled function was called",)),
            "no compiled function was called",
            "call the compiled function",
        ),
        (
            capture(notes=("1 kernel record left out", f"nothing was captured: {EAGER}")),
            EAGER,
            "record.explain() or peek explain FILE",
        ),
        (
            capture(
                frames=(FrameRecord("f", outcome="skipped", reason="print"), FrameRecord("g", reason="x"))
            ),
            "f: print (and 1 more)",
            "peek explain",
        ),
        (capture(breaks=(BreakInfo("call to print"),)), "call to print", "peek explain"),
        (capture(problems=(Problem("c", "cut off", "killed"),)), "cut off (killed)", "peek explain"),
    ],
)
def test_a_picture_of_nothing_says_why(tmp_path, record, why, fix):
    """Without a graph no picture is written, and the error gives the record's own reason where it has one."""
    with pytest.raises(PeekError) as caught:
        write(record, tmp_path / "x.dot")
    assert caught.value.why == why
    assert fix in caught.value.fix
    assert not (tmp_path / "x.dot").exists()
