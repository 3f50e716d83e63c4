"""``peek inspect``: targets, made-up inputs, and what is said when they do not fit."""

from __future__ import annotations

import sys

import pytest

from peek_backend.cli.target import parse_target
from peek_backend.errors import PeekError
from peek_backend.snapshot import jsonfile

from .conftest import python

torch = pytest.importorskip("torch")

MODULE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, n=8):
        super().__init__()
        self.fc = nn.Linear(n, 4)
    def forward(self, x, mask=None):
        y = torch.relu(self.fc(x))
        return y * 2 if mask is None else y * mask

class Needs(nn.Module):
    def __init__(self, n):
        super().__init__()

def f(x, y=1):
    return x.sin() + y

def broken(x):
    y = x.cos()
    torch._dynamo.graph_break()
    return y @ x.no_such_method()

def nested(pair, *, scale):
    return pair["a"][0] * scale + pair["b"]

net = Net()
number = 3
"""


@pytest.fixture
def inspect(tmp_path, monkeypatch, peek):
    """``peek inspect model.py:…`` in this process, as parsed JSON where it succeeds."""
    (tmp_path / "model_under_test.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    yield lambda target, *args: peek("inspect", f"model_under_test.py:{target}", *args)
    sys.modules.pop("model_under_test", None)


def record_of(done):
    assert (done.code, done.err) == (0, "")
    return jsonfile.decode(done.out.encode(), "stdout")


def values(graph):
    """Shape, dtype and device of each tensor input."""
    metas = [n.value for n in graph.nodes if n.op == "placeholder" and hasattr(n.value, "shape")]
    return [(m.shape, m.dtype, m.device) for m in metas]


def test_function_with_a_table(inspect):
    """A function on one tensor gives its table on stdout."""
    done = inspect("f", "--input", "f32[8, 16]")
    assert done.code == 0
    assert "[8, 16]" in done.out and "sin" in done.out


def test_named_dim_is_dynamic(inspect):
    """A dim with a name is symbolic in the graph, the others are as written."""
    record = record_of(inspect("f", "--input", "f64[batch=8, 16]", "--format", "json"))
    ((shape, dtype, device),) = values(record.graphs[0])
    assert isinstance(shape[0], str) and shape[1:] == (16,)
    assert (dtype, device) == ("float64", "cpu")


@pytest.mark.parametrize(
    ("target", "args", "weight"),
    [
        ("Net", ["--input", "f32[3, 8]"], (4, 8)),
        ("net", ["--input", "f32[3, 8]"], (4, 8)),
        ("Net(16)", ["--input", "f32[3, 16]"], (4, 16)),
        ("Net(n=16)", ["--input", "f32[3, 16]", "--kwarg", "mask=f32[3, 4]"], (4, 16)),
        ("net.forward", ["--input", "f32[3, 8]"], (4, 8)),
    ],
)
def test_targets(inspect, target, args, weight):
    """A class, an object, a call and a method can all be named."""
    record = record_of(inspect(target, *args, "--format", "json"))
    assert weight in [shape for shape, _, _ in values(record.graphs[0])]


def test_containers_and_scalars(inspect):
    """Dicts, lists and numbers reach the function as they are."""
    args = ["--input", "{a: [f32[2]], b: f32[2]}", "--kwarg", "scale=2.5", "--format", "json"]
    record = record_of(inspect("nested", *args))
    assert [shape for shape, _, _ in values(record.graphs[0])] == [(2,), (2,)]


def test_meta_device(inspect):
    """On the meta device nothing is computed, parameters included."""
    record = record_of(inspect("Net", "--input", "f32[3, 8]", "--device", "meta", "--format", "json"))
    assert {device for _, _, device in values(record.graphs[0])} == {"meta"}


def test_inputs_leave_torchs_generator_alone(inspect):
    """Making inputs up draws no number from the generator that the program uses."""
    from peek_backend.capture.inputs import build
    from peek_backend.specs import parse_input

    before = torch.random.get_rng_state()
    first, second = (
        build(parse_input("[f32[3], c64[2], i64[2], bool[2], f8e5m2[2]]"), "cpu") for _ in range(2)
    )
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(a.float(), b.float()) for a, b in zip(first[2:], second[2:], strict=True))
    assert first[2].tolist() == [1, 1] and first[3].tolist() == [True, True]
    assert torch.equal(first[0], second[0]) and torch.equal(first[1], second[1])


@pytest.mark.parametrize(
    ("target", "args", "says"),
    [
        ("f", ["--input", "f33[8]"], "did you mean 'f32'?"),
        ("f", ["--input", "f32[8,"], "the [ at column 4 is not closed"),
        ("f", ["--input", "f32[b=8]", "--kwarg", "y=f32[b=4]"], "it is 8 in one place and 4 in another"),
        ("f", [], "f(x, y=1) cannot be called so"),
        ("f", ["--kwarg", "z=3"], "missing a required argument: 'x'"),
        ("ff", ["--input", "3"], "did you mean 'f'?"),
        ("Needs", [], "Needs(…)"),
        ("number", [], "a int cannot be inspected"),
        ("f", ["--input", "f32[2]", "--inner", "inductr"], "did you mean 'inductor'?"),
        ("f", ["--input", "f32[2]", "--device", "cpuu"], "unknown device 'cpuu'"),
        ("f", ["--input", "f32[2]", "--device", "xpu"], "finds no xpu device here"),
        ("f", ["--input", "f32[99999999999999]"], "cannot make a float32 tensor"),
    ],
)
def test_what_cannot_be_meant_is_one_message(inspect, target, args, says):
    """An input, name, device or backend that cannot be is one message and exit code 2."""
    done = inspect(target, *args)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model", "after a colon"),
        (":f", "after a colon"),
        ("model:", "after a colon"),
        ("model:f(", "not an expression"),
        ("model:1 + 2", "more than names, dots and calls"),
        ("model:[f][0]", "more than names, dots and calls"),
        ("no-module:f", "is no module's name"),
        ("no/such.py:f", "there is no such file"),
        ("tests:f(g)", None),
    ],
)
def test_bad_targets(text, says):
    """A target that names nothing is refused before anything is imported."""
    if says is None:
        with pytest.raises(PeekError, match=r"no plain value|unknown name"):
            parse_target(text).load()
        return
    with pytest.raises(PeekError) as caught:
        parse_target(text)
    assert says in str(caught.value)


def test_missing_module_and_missing_import(monkeypatch, tmp_path):
    """A module that is not there is our message; one that it imports in vain is its own error."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "imports_in_vain.py").write_text("import no_such_thing")
    with pytest.raises(PeekError, match="no module named 'no_such_module'"):
        parse_target("no_such_module:f").load()
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        parse_target("imports_in_vain:f").load()


def test_error_of_the_program_is_told_in_short(inspect):
    """What the function raises is its type, its words and the user's line, after the graphs captured until then."""
    done = inspect("broken", "--input", "f32[2, 2]")
    assert done.code == 1
    assert "cos" in done.out
    assert done.err.startswith("peek: ") and "no_such_method" in done.err
    assert "in broken: return y @ x.no_such_method()" in done.err
    assert "--traceback shows all" in done.err
    assert "Traceback" not in done.err and len(done.err.splitlines()) <= 10


def test_inputs_that_do_not_fit_are_told_in_short(inspect):
    """So is what torch says of inputs whose shapes do not fit, with the line of the model that met them."""
    done = inspect("Net", "--input", "f32[8, 5]")
    assert done.code == 1
    assert "[8, 5] X [8, 4]" in done.err
    assert "in forward: y = torch.relu(self.fc(x))" in done.err
    assert "Traceback" not in done.err and len(done.err.splitlines()) <= 10


def test_error_of_the_program_keeps_its_traceback(tmp_path):
    """With --traceback it is shown as Python shows it, without our own frames."""
    (tmp_path / "model.py").write_text(MODULE)
    args = ["inspect", "model.py:broken", "--input", "f32[2, 2]", "--traceback"]
    done = python("-m", "peek_backend", *args, cwd=tmp_path)
    error = done.stderr.decode()
    assert done.returncode == 1
    assert b"cos" in done.stdout
    assert "Traceback" in error and "no_such_method" in error and "peek_backend" not in error


def test_show_of_an_exported_program(tmp_path, peek):
    """``peek show`` reads a .pt2 file; one that is none is one message."""
    exported = torch.export.export(torch.nn.Linear(4, 2), (torch.ones(3, 4),))
    torch.export.save(exported, tmp_path / "m.pt2")
    done = peek("show", tmp_path / "m.pt2")
    assert done.code == 0
    assert "linear" in done.out and "[3, 2]" in done.out
    (tmp_path / "bad.pt2").write_bytes(b"PK\x03\x04 no archive")
    bad = python("-m", "peek_backend", "show", tmp_path / "bad.pt2")
    assert (bad.returncode, bad.stdout) == (2, b"")
    said = bad.stderr.decode()
    assert said.startswith("peek: ") and str(tmp_path / "bad.pt2") in said
    assert "Traceback" not in said
