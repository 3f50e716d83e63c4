"""Which differences of two headers are differences of environments."""

from __future__ import annotations

import pytest

from peek_backend.diff import compare, verdict
from peek_backend.model.snapshot import Snapshot
from peek_backend.snapshot.graphfile import parse_graph

GRAPH = """\
peek-graph 1
name   test_f
env    torch=2.13 py=3.11 device=cpu grad=on dynamic={marks}
stats  frames=1 graphs=1 ops={ops} breaks=0 recompiles=0

graph f
  sym  s0 = {x}.shape[0] in [2, ∞]
  in   {x}: f32[s0, 8]
  in   y: f32[8]
  %add = operator.add({x}, y)                                f32[s0, 8]
{more}  out  %add
"""
SIN = "  %sin = .sin(%add)                                          f32[s0, 8]\n"


def snapshot(marks: str, x: str = "x", more: str = "") -> Snapshot:
    text = GRAPH.format(marks=marks, x=x, more=more, ops=2 if more else 1)
    return parse_graph(text.replace("out  %add", "out  %sin") if more else text)


@pytest.mark.parametrize(
    ("marks", "name"),
    [
        ("mark(tokens:0,y:0)", "tokens"),
        ("mark(y:0,x:0)", "x"),
        ("mark(y:0,tokens:0)", "tokens"),
    ],
    ids=["renamed", "order", "both"],
)
def test_marks_under_other_names_or_in_another_order_are_the_same(marks, name):
    """An argument was renamed, or a test names its dims in another order: an op added fails as ever, not as confounded."""
    old = snapshot("mark(x:0,y:0)")
    assert compare(old, snapshot(marks, name)).env == ()
    found = verdict(compare(old, snapshot(marks, name, SIN)))
    assert (found.level, found.confounded) == ("fail", "")


@pytest.mark.parametrize("marks", ["mark(x:0)", "mark(x:1,y:0)", "mark(x['a']:0,y:0)", "on", "mark(z:0,y:0)"])
def test_other_marks_are_another_environment(marks):
    """Another size, another argument or all of them marked: the graphs are made in another way."""
    (difference,) = compare(snapshot("mark(x:0,y:0)"), snapshot(marks)).env
    assert difference == ("dynamic", "mark(x:0,y:0)", marks)
