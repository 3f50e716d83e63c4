"""What graphs that come as text are told of their inputs by the graph before them."""

from __future__ import annotations

from peek_backend.capture.stagereader import inputs_of, with_inputs
from peek_backend.model import GraphRecord, NodeRecord, Source, StackFrame


def test_the_line_of_an_input_comes_without_the_call_stack_of_another_graph():
    """A saved value keeps its line in a later backward, which has no stacks: with a number of one no file could be read back."""
    source = Source(file="/src/model.py", line=7, function="forward", code="h = x * 2", caller=0)
    saved = NodeRecord(0, "mul", "placeholder", "mul", (), {}, None, source)
    backward = GraphRecord(
        "0/0", "backward", (saved,), (), stacks=((StackFrame("/src/train.py", 3, "<module>", "f(x)"),),)
    )
    later = GraphRecord(
        "0/0", "post_grad", (NodeRecord(0, "mul", "placeholder", "mul", (), {}, None, None),), ()
    )
    given = with_inputs(later, *inputs_of(backward)).nodes[0].source
    assert given is not None
    assert (given.line, given.code, given.caller) == (7, "h = x * 2", None)
