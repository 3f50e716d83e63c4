"""Inspecting never fails the program: a fault in any converter ends as a Problem that is shown."""

from __future__ import annotations

import io

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

from peek_backend.capture import arguments, graphs, mutation, session, sources, symbols, values
from peek_backend.render import text


def program(x, y):
    z = x.clone()
    z.transpose_(0, 1)
    branch = torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))
    return z, branch + y, x.max(0)


PLACES = [
    (values.ValueReader, "read"),
    (values.ValueReader, "dims"),
    (values.ValueReader, "dtype"),
    (values.ValueReader, "device"),
    (values.ValueReader, "_sequence"),
    (values, "_hint"),
    (arguments.ArgReader, "read"),
    (arguments.ArgReader, "kwargs"),
    (graphs, "target_name"),
    (graphs, "read_symbols"),
    (graphs, "values_at_production"),
    (graphs, "Writes"),
    (graphs._GraphReader, "body"),
    (graphs._GraphReader, "_symbols"),
    (graphs._BodyReader, "value_of"),
    (graphs._BodyReader, "_marked"),
    (mutation, "written_operands"),
    (mutation, "_entry_copy"),
    (sources.SourceReader, "read"),
    (sources, "parse_stack"),
    (sources, "readable"),
    (sources, "dynamo_source"),
    (symbols, "_read_symbol"),
    (session, "read_graph"),
    (session, "compile_origin"),
    (text, "graph_text"),
]


@pytest.mark.parametrize(
    ("owner", "name"), PLACES, ids=lambda p: getattr(p, "__name__", p).rpartition(".")[2]
)
def test_fault_is_shown_and_the_program_runs(monkeypatch, owner, name):
    """Whichever function raises, the result is right and the output says what failed."""

    def fault(*args, **kwargs):
        raise RuntimeError("injected fault")

    monkeypatch.setattr(owner, name, fault)
    monkeypatch.setattr(graphs, "_TARGETS", {})  # names found before the fault
    assert_runs_and_tells(
        "" if name == "_entry_copy" else "injected fault"
    )  # no input here changes its metadata


@pytest.mark.parametrize("kind", [FakeTensor, torch.SymInt, type(None)])
def test_fault_of_one_kind_of_value(monkeypatch, kind):
    """A converter that raises for one kind of value costs those values alone."""

    def fault(*args):
        raise RuntimeError("injected fault")

    monkeypatch.setitem(values._CONVERTERS, kind, fault)
    assert_runs_and_tells("injected fault" if kind is not type(None) else "")


def assert_runs_and_tells(words):
    stream = io.StringIO()
    args = (torch.randn(4, 5), torch.randn(4, 5))
    compiled = torch.compile(program, backend="peek", dynamic=True, options={"file": stream})
    for found, expected in zip(compiled(*args), program(*args), strict=True):
        if isinstance(found, torch.Tensor):
            assert torch.equal(found, expected)
    assert words in stream.getvalue()
