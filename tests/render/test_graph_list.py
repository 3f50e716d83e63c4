"""A line a graph, and problems that say the same in one line."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from peek_backend.model import BreakInfo, Problem, StackFrame
from peek_backend.render.escape import width
from peek_backend.render.text import graph_list, problem_lines, render_text
from tests.builders import HOSTILE, capture, transformer


def graphs(count, **fields):
    first = transformer(1)
    return [
        replace(first, compile_id=f"{i}/0", name=f"Model.forward ▸ resume#{i}", **fields)
        for i in range(count)
    ]


def test_one_line_a_graph_with_its_ending():
    """Each graph is one line: key, name, place, ops, and the break that ended it."""
    ended = replace(graphs(1)[0], compile_id="9/0", ended_by=BreakInfo("no", id="GB0059"))
    lines = graph_list(capture(*graphs(3), ended)).splitlines()
    assert lines[0] == "4 graphs"
    assert [line.split()[0] for line in lines[1:]] == ["0/0", "1/0", "2/0", "9/0"]
    assert lines[-1].endswith("break: GB0059")


@pytest.mark.parametrize(
    ("stack", "words"),
    [((StackFrame("/src/model.py", 31, "forward"),), "break at model.py:31"), ((), "break")],
)
def test_a_break_without_an_id_goes_by_its_line(stack, words):
    """torch numbers most of its breaks: of the others the line is told, where there is one."""
    ended = replace(graphs(1)[0], ended_by=BreakInfo("could not guard", stack=stack))
    assert graph_list(capture(ended)).rstrip().endswith(f"  {words}")


def test_list_fits_a_terminal():
    """No line is wider than the terminal, whatever the names hold."""
    named = [replace(g, name=text) for g, text in zip(graphs(len(HOSTILE)), HOSTILE.values(), strict=True)]
    text = graph_list(capture(*named), width=80)
    assert all(width(line) <= 80 for line in text.splitlines())
    assert len(text.splitlines()) == len(HOSTILE) + 1


def test_equal_problems_are_one_line():
    """Sixty problems that differ only in their place are one line with the first places and the number left out."""
    same = [Problem(f"{i}/0", "could not be read", "TypeError: no") for i in range(60)]
    other = Problem("1/0", "is strange")
    (first, second) = problem_lines([*same, other])
    assert first == "problem at 0/0, 1/0, 2/0, 3/0, … 56 more: could not be read; TypeError: no"
    assert second == "problem at 1/0: is strange"


def test_totals_can_be_left_to_another_report():
    """The counts of the whole capture stand at the end, unless another report gives them."""
    record = capture(*graphs(2))
    assert "2 graphs" in render_text(record).splitlines()[-1]
    assert "2 graphs" not in render_text(record, totals=False)
