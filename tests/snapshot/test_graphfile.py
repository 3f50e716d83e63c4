"""``.graph`` files: printed the same each time, read back without loss."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings

from peek_backend.model import snapshot as m
from peek_backend.snapshot.graphfile import arguments, parse_graph, print_graph

from .strategies import snapshots

SLOW_TO_DRAW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def check_round_trip(snapshot: m.Snapshot) -> None:
    text = print_graph(snapshot)
    found = parse_graph(text, "a.graph")
    assert found == snapshot
    assert print_graph(found) == text
    text.encode("utf-8")


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW_TO_DRAW)
@given(snapshots())
def test_what_is_printed_is_read_back_whole(snapshot):
    """parse(print(x)) == x for every snapshot, whatever its names hold, and printing that again gives the same bytes."""
    check_round_trip(snapshot)


@pytest.mark.slow
@settings(max_examples=800, deadline=None, suppress_health_check=SLOW_TO_DRAW)
@given(snapshots())
def test_round_trip_of_many(snapshot):
    """The same of 800 snapshots."""
    check_round_trip(snapshot)


@pytest.mark.parametrize("kind", ["", *m.INPUT_KINDS])
@pytest.mark.parametrize(
    "type_",
    [
        None,
        m.NoneType(),
        m.TupleType(()),
        m.OpaqueType("buffer"),
        m.OpaqueType("x", "a (buffer)"),
        m.TensorType("f32", ()),
    ],
    ids=str,
)
def test_what_holds_an_input_is_told_apart_from_its_type(type_, kind):
    """``(buffer)`` behind a type is no part of it, whether the type is empty, a tuple or a text that ends so."""
    graph = m.Graph("f", inputs=(m.Input("scale", type_, kind), m.Input("x", m.TupleType(()))))
    check_round_trip(
        m.Snapshot("a", (("torch", "2.13"), ("py", "3.11"), ("device", "cpu"), ("grad", "on")), (), (graph,))
    )


def mlp(line: int = 0) -> m.Snapshot:
    """The multi-layer perceptron of the format's example."""
    place = m.Place(
        "model.py", "forward", "return self.fc2(F.relu(self.fc1(x)))", line, "/home/model.py" if line else ""
    )
    hidden = m.TensorType("f32", ("s0", 16), grad=True)
    weights = {
        "fc1.weight": (16, 8),
        "fc1.bias": (16,),
        "x": ("s0", 8),
        "fc2.weight": (4, 16),
        "fc2.bias": (4,),
    }
    inputs = [m.Input(name, m.TensorType("f32", shape, grad=name != "x")) for name, shape in weights.items()]
    linear = "\0, \0, \0"
    nodes = (
        m.Node("fc1.linear", "F.linear", linear, (2, 0, 1), hidden, place),
        m.Node("relu", "F.relu", "\0", (5,), hidden, place),
        m.Node("fc2.linear", "F.linear", linear, (6, 3, 4), m.TensorType("f32", ("s0", 4), grad=True), place),
    )
    symbols = (m.Symbol("s0", ("x.shape[0]",), 2),)
    graph = m.Graph(
        "MLP.forward", symbols=symbols, inputs=tuple(inputs), nodes=nodes, output=m.Call("\0", (7,))
    )
    env = (("torch", "2.13"), ("py", "3.11"), ("device", "cpu"), ("grad", "on"), ("dynamic", "mark(x:0)"))
    return m.Snapshot("test_mlp[dynamic]", env, (), (graph,))


MLP = """\
peek-graph 1
name   test_mlp[dynamic]
env    torch=2.13 py=3.11 device=cpu grad=on dynamic=mark(x:0)
stats  frames=1 graphs=1 ops=3 breaks=0 recompiles=0

graph MLP.forward
  sym  s0 = x.shape[0] in [2, ∞]
  in   fc1.weight: f32[16, 8] grad
  in   fc1.bias:   f32[16] grad
  in   x:          f32[s0, 8]
  in   fc2.weight: f32[4, 16] grad
  in   fc2.bias:   f32[4] grad
  # fc1   model.py:forward   return self.fc2(F.relu(self.fc1(x)))
  %fc1.linear = F.linear(x, fc1.weight, fc1.bias)            f32[s0, 16] grad
  %relu       = F.relu(%fc1.linear)                          f32[s0, 16] grad
  %fc2.linear = F.linear(%relu, fc2.weight, fc2.bias)        f32[s0, 4] grad
  out  %fc2.linear
"""


def test_a_file_reads_as_the_format_says():
    """A multi-layer perceptron with a dynamic batch prints as in the format's description, whatever the line numbers."""
    assert print_graph(mlp()) == MLP
    assert print_graph(mlp(31)) == MLP
    assert parse_graph(MLP) == mlp()


def test_printing_does_not_depend_on_the_hash_seed():
    """Two processes with other PYTHONHASHSEEDs print the same bytes."""
    code = "from tests.snapshot.test_graphfile import mlp, print_graph; print(print_graph(mlp()))"
    run = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            check=True,
        ).stdout
        for seed in "12"
    ]
    assert run[0] == run[1]
    assert run[0].decode() == MLP + "\n"


def test_an_arrow_in_a_name_is_no_part_of_the_title():
    """A frame and a stage that read like a resume function's name come back as they were."""
    graph = m.Graph("f ▸ resume#1", resume=2, variant=2, stage="g ▸ variant#2", because="h ▸ call#1")
    first = m.Graph("f ▸ resume#1", resume=2)
    check_round_trip(m.Snapshot("a", mlp().env, entries=(first, graph)))


def test_arguments_can_be_read_as_values():
    """A template gives Python values, keywords by name, and words for what Python has no type for."""
    call = m.Call('\0, [1, -2], slice(None, "a, b", None), {"k": True}, dtype=torch.float32, p=nan', (3,))
    found = arguments(call)
    assert found[1:5] == [
        (None, (1, -2)),
        (None, {"slice": (None, "a, b", None)}),
        (None, {"dict": (("k", True),)}),
        ("dtype", {"dtype": "float32"}),
    ]
    assert found[5][0] == "p" and found[5][1] != found[5][1]
