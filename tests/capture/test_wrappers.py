"""Functions that Dynamo runs through a wrapper: told apart, and their arguments by their own names."""

from __future__ import annotations

import functools

import torch

from peek_backend.capture.recompiles import read_failed
from peek_backend.capture.session import Session
from peek_backend.capture.sources import Positions, positions_of
from peek_backend.render.explain import explain_text


def watched(program):
    torch._dynamo.reset()
    with torch._dynamo.config.patch({"automatic_dynamic_local_pgo": False}), Session() as session:
        program()
    return session.record


def compiled(fn):
    return torch.compile(fn, backend="eager")


def inputs(record):
    return [
        [n.source.input for n in g.nodes if n.op == "placeholder" and n.source.input_kind == "argument"]
        for g in record.graphs
    ]


def test_functions_of_one_wrapper_are_frames_of_their_own():
    """Two layers of torch.nn share Dynamo's wrapper code: neither is a recompile of the other."""

    def program():
        tanh = compiled(torch.nn.Tanh())
        tanh(torch.ones(3))
        compiled(torch.nn.Linear(3, 2))(torch.ones(4, 3))
        tanh(torch.ones(5))

    record = watched(program)
    assert [f.name for f in record.frames] == ["Tanh.forward", "Linear.forward"]
    assert [(r.frame, r.variant, r.failed[0].source) for r in record.recompiles] == [(0, 2, "input.shape[0]")]
    assert [g.variant for r in record.recompiles for g in r.failed] == ["0/0"]


def test_the_arguments_of_a_layer_go_by_its_own_names():
    """``input``, not ``args[0]``: as an input, in guards, symbols, the recompile's reason and the advice alike."""

    def program():
        layer = compiled(torch.nn.Linear(3, 2))
        layer(torch.ones(4, 3))
        layer(torch.ones(5, 3))

    record = watched(program)
    assert inputs(record)[0] == ["input"]
    assert "input" in {g.source for g in record.graphs[0].guards}
    assert ("input.shape[0]",) in {s.sources for s in record.graphs[1].symbols}
    assert record.recompiles[0].failed[0].text == "input.shape[0]: expected 4, got 5"
    assert "mark_dynamic(input, 0)" in record.recompiles[0].advice
    assert "args[" not in explain_text(record, details=True)


def test_what_a_partial_has_given_shifts_the_names():
    """Of ``f(a, b, *more)`` with ``a`` given, the first argument is ``b``, the next is of ``more``."""

    def f(a, b, *more, k=1):
        return a + b * k + more[0]

    held = functools.partial(f, torch.ones(2), k=3)
    record = watched(lambda: compiled(held)(torch.ones(2), torch.ones(2)))
    assert inputs(record)[0][-2:] == ["b", "more[0]"]


def test_a_decorated_function_keeps_its_names():
    """The wrapper of a decorator that passes everything on is seen through; one that does not is left as it is."""

    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs)

        return wrapper

    @decorate
    def f(x, scale):
        return x * scale

    record = watched(lambda: compiled(f)(torch.ones(2), scale=torch.ones(2)))
    assert sorted(inputs(record)[0]) == ["scale", "x"]

    def plain(*args):
        return args[0]

    assert positions_of(plain.__code__, {"args": ()}) == Positions()


def test_names_are_put_in_wherever_an_argument_stands():
    """Only the wrapper's own tuple is renamed, not a key or an attribute of that name."""
    positions = Positions("args", ("x", "y"), "rest")
    assert positions.named("args[0].shape[1] == args[1]") == "x.shape[1] == y"
    assert (
        positions.named("self.args[0] + cfg['args[0]'] + args[3]")
        == "self.args[0] + cfg['args[0]'] + rest[1]"
    )


def test_other_keywords_are_told_as_such():
    """A wrapper called with a keyword that it did not have: which, and not that a dict is dynamic."""
    failed = read_failed("2/0: not L['kwargs']", {"kwargs": {"flag": True}})
    assert failed.text == "keyword arguments: expected none, got flag"


def test_the_length_of_a_dict_is_told_as_a_length():
    """torch writes ``len(d) != 1`` for the check ``len(d) == 1``: the report has what was expected, and what came."""
    failed = read_failed("0/0: len(d) != 1", {"d": {"a": 1, "b": 2}})
    assert (failed.text, failed.expected, failed.got) == ("len(d) == 1, got 2", "1", "2")


def test_why_a_class_and_a_disabled_function_give_no_graph():
    """What torch.compile was given and does not compile is named, where nothing else was captured."""

    class Made:
        def __init__(self, x):
            self.x = x + 1

    record = watched(lambda: compiled(Made)(torch.ones(2)))
    assert any("of the class Made compiles its __call__" in note for note in record.notes)

    def f(x):
        return x + 1

    record = watched(lambda: torch.compile(f, disable=True)(torch.ones(2)))
    assert any("leave f as it is: disable=True" in note for note in record.notes)
    assert torch._dynamo.eval_frame._NullDecorator.__call__.__module__ == "torch._dynamo.eval_frame"
