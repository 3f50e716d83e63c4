"""The counts of a capture follow their definitions."""

from __future__ import annotations

from peek_backend.analysis.stats import Stats, stats
from peek_backend.model import BreakInfo, FrameRecord, Problem, RecompileInfo, StackFrame
from tests.builders import GraphBuilder, capture, graph, node, tensor, transformer


def broken(line, reason="Unsupported", **more):
    """A break event at one line of a file."""
    stack = (StackFrame("outer.py", 1), StackFrame("model.py", line))
    return BreakInfo(reason, stack=stack, **more)


def test_nothing_captured_is_all_zero():
    """A capture without anything counts nothing."""
    assert stats(capture()) == Stats()


def test_graphs_nodes_and_inputs():
    """Nodes, ops, inputs, parameters and dynamic dims are summed over the graphs."""
    found = stats(capture(transformer(1), transformer(2)))
    assert (found.graphs, found.nodes, found.ops) == (2, 22 + 38, 16 + 29)
    assert (found.inputs, found.parameters, found.dynamic_dims) == (5 + 8, 4 + 7, 2)


def test_bodies_count_as_nodes_not_as_graphs():
    """The body of a higher-order op adds its nodes and ops, no graph and no input."""
    body = graph(node(0, "x", "placeholder", "x"), node(1, "y"))
    found = stats(capture(graph(node(0, "c"), children=(body,))))
    assert (found.graphs, found.nodes, found.ops, found.inputs) == (1, 3, 2, 0)


def test_buffers_are_no_parameters():
    """A buffer is an input that is counted apart from parameters."""
    g = GraphBuilder()
    g.input("mean", tensor(2), kind="buffer")
    g.parameter("weight", tensor(2))
    found = stats(capture(g.graph()))
    assert (found.inputs, found.parameters, found.buffers) == (2, 1, 1)


def test_only_the_last_attempt_of_a_compile_counts():
    """A restart within one compile captures again: the earlier capture never ran and is not counted."""
    again = [graph(node(0, "x"), attempt=i) for i in range(3)]
    assert stats(capture(*again, graph(node(0, "x"), compile_id="1/0"))).graphs == 2


def test_several_calls_of_one_compile_all_count():
    """DDP calls the backend several times under one compile id: each call is a graph."""
    assert stats(capture(*(graph(node(0, "x"), call=i) for i in range(3)))).graphs == 3


def test_ranks_are_counted_apart():
    """The same compile id on another rank is another graph, whatever its attempt."""
    assert stats(capture(graph(rank=0, attempt=1), graph(rank=1))).graphs == 2


def test_later_stages_are_no_graphs():
    """What AOTAutograd makes of a graph is no further capture."""
    assert stats(capture(graph(node(0, "x")), graph(node(0, "x"), stage="joint"))).graphs == 1


def test_breaks_are_events_and_locations_are_places_with_reasons():
    """Every event is a break; the same reason at the same line is one location, another reason there is not."""
    events = (
        broken(3),
        broken(3),
        broken(3, "Other"),
        broken(9, intent="user"),
        broken(9, split=False, frame=1),
    )
    found = stats(capture(breaks=events))
    assert (found.breaks, found.break_locations, found.requested_breaks) == (5, 3, 1)


def test_skipped_frames_are_those_a_break_left_in_eager():
    """A frame is skipped once however often it breaks; one that torch's own list leaves out is not skipped by a break."""
    events = (broken(3, split=False, frame=0), broken(4, split=False, frame=0), broken(5, split=False))
    frames = (FrameRecord("f", outcome="skipped"), FrameRecord("torch_internal", outcome="skipped"))
    assert stats(capture(frames=frames, breaks=events)).skipped == 2


def test_a_refused_attempt_is_no_recompile():
    """Recompiles are successful ones, those of resumed frames told apart; the refused attempt gives its code object up."""
    events = (
        RecompileInfo("0/1", frame=0, variant=2),
        RecompileInfo("1/1", frame=1, variant=2, resume=True),
        RecompileInfo("0/8", frame=0, refused=True),
    )
    frames = (FrameRecord("f", outcome="limit"), FrameRecord("f ▸ resume#1"))
    found = stats(capture(frames=frames, recompiles=events))
    assert (found.recompiles, found.resume_recompiles, found.given_up) == (2, 1, 1)


def test_failures_and_problems():
    """Failed frames, graphs that never ran and problems anywhere are counted."""
    bad = graph(never_ran="constraint violated", problems=(Problem("x", "no value"),))
    found = stats(
        capture(bad, frames=(FrameRecord("f", outcome="failed"),), problems=(Problem("y", "late"),))
    )
    assert (found.failed, found.never_ran, found.problems) == (1, 1, 2)


def test_problems_of_later_stages_count():
    """A stage that could not be read is a problem of the capture, though its graph is not one of the program's."""
    failed = graph(stage="joint", problems=(Problem("0/0 joint", "the stage could not be read"),))
    assert stats(capture(graph(node(0, "x")), failed)).problems == 1
