"""AOTAutograd's stages traced beside a backend that is not built on it: they are there, and nothing else changes."""

from __future__ import annotations

import copy
import gc
import io
import warnings
import weakref

import pytest
import torch
import torch._dynamo.utils
from torch._functorch import aot_autograd
from torch._guards import TracingContext

import peek_backend
from peek_backend.capture.beside import copied

from .helpers import Small, run_backward, staged, unexplained


@pytest.mark.parametrize("inner", [None, "eager"])
def test_all_stages_at_once(inner):
    """Joint, forward and backward are there after the forward alone, each under its own key, and say who made them."""
    record = staged(Small(), torch.ones(4, 8), inner=inner, backward=False)
    assert [g.key for g in record.graphs] == ["0/0", "0/0 joint", "0/0 forward", "0/0 backward"]
    assert {g.lowering.by for g in record.graphs[1:]} == {"as AOTAutograd would"}
    assert all(g.lowering.compiled is None for g in record.graphs[1:])


def test_without_gradients_there_is_an_inference_graph():
    """A call that needs no gradient has one ATen graph."""
    with torch.no_grad():
        record = staged(Small(), torch.ones(4, 8))
    assert [g.key for g in record.graphs] == ["0/0", "0/0 inference"]


def test_only_what_is_asked_for():
    """stages=forward records the forward alone; its nodes then come from the Dynamo graph directly."""
    record = staged(Small(), torch.ones(4, 8), stages="forward")
    assert [g.key for g in record.graphs] == ["0/0", "0/0 forward"]
    ops = [n for n in record.graph("0/0 forward").nodes if n.op == "call_function"]
    assert {key for n in ops for key, _ in n.origins} == {"0/0"}


def variance(x: torch.Tensor) -> torch.Tensor:
    return x.unfold(1, 3, 2).var(0)


def compiles(fn, sizes, **options) -> int:
    """How many graphs the backend is handed over the calls with these sizes."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(fn, backend="peek", options={"quiet": True, **options}, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # var() of one row
        for rows, columns in sizes:
            compiled(torch.ones(rows, columns, requires_grad=True))
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def test_no_guard_is_added():
    """Tracing beside a backend compiles nothing again: AOTAutograd's own guards on sizes stay out of the program."""
    sizes = [(2, 9), (3, 11), (5, 20), (4, 17)]
    assert compiles(variance, sizes, stages="all") == compiles(variance, sizes) == 1


def test_the_environment_stays():
    """Guards, replacements, counters, graph numbers, tracing context and random state are as without stages."""

    def left(stages: str) -> dict[str, object]:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        torch.manual_seed(3)
        seen = {}

        def backend(gm, inputs):
            env = TracingContext.get().fake_mode.shape_env
            run = torch._dynamo.lookup_backend("peek")(gm, inputs, options={"stages": stages, "quiet": True})
            seen.update(
                guards=[str(g.expr) for g in env.guards],
                replacements={str(k): str(v) for k, v in env.replacements.items()},
                ranges={str(k): str(v) for k, v in env.var_to_range.items()},
                metadata=TracingContext.get().fw_metadata,
            )
            return run

        x = torch.ones(6, 4, requires_grad=True)
        torch.compile(
            lambda x: torch.nn.functional.dropout(x.view(-1, 2), 0.5).sum(0), backend=backend, dynamic=True
        )(x)
        seen["random"] = torch.rand(2).tolist()
        seen["aot"] = dict(torch._dynamo.utils.counters["aot_autograd"])
        seen["next graph"] = next(copy.copy(aot_autograd.AOT_COUNTER))
        return seen

    plain = left("dynamo")
    assert left("all") == plain


def test_results_and_gradients_are_the_backends(recwarn):
    """Outputs, gradients and the buffer equal those without stages, bit for bit."""
    found = []
    for stages in ("dynamo", "all"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model, x = Small(), torch.randn(4, 8, requires_grad=True)
        compiled = torch.compile(model, backend="peek", options={"stages": stages, "quiet": True})
        results = compiled(x)
        run_backward(results)
        found.append([*results, x.grad, model.seen, *(p.grad for p in model.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def overwritten(x: torch.Tensor) -> torch.Tensor:
    """Autograd needs relu's result for its backward, and the program overwrites it."""
    y = x.relu()
    y.add_(1)
    return y * 2


def test_what_aot_refuses_is_a_problem_and_the_program_fails_as_before():
    """An in-place op that autograd forbids ends the trace beside; the program sees its own error, when it would, and no more."""
    out = io.StringIO()
    x = torch.ones(3, requires_grad=True)
    compiled = torch.compile(overwritten, backend="peek", options={"stages": "all", "file": out})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = compiled(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
    assert "AOTAutograd cannot make this stage; RuntimeError: one of the variables" in out.getvalue()
    assert not [w for w in caught if "Error detected" in str(w.message)]


def test_a_copy_shares_tensors_and_nothing_else():
    """The copy that is traced has nodes and bodies of its own and the graph's own constants."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,)) + torch.tensor([1.0, 2.0])

    kept = []

    def backend(gm, inputs):
        kept.append((gm, copied(gm)))
        return gm.forward

    torch.compile(f, backend=backend)(torch.ones(2))
    ((gm, copy_),) = kept
    assert [n.name for n in copy_.graph.nodes] == [n.name for n in gm.graph.nodes]
    bodies = [name for name, child in gm.named_children() if isinstance(child, torch.fx.GraphModule)]
    assert bodies
    assert all(getattr(copy_, b).graph is not getattr(gm, b).graph for b in bodies)
    assert all(a is b for a, b in zip(gm.buffers(), copy_.buffers(), strict=True))


@pytest.mark.parametrize("inner", [None, "aot_eager"])
def test_nothing_of_torchs_is_kept(inner):
    """Graph modules and fake tensors of all stages die with the compile, though the record and a waiting backward live on."""
    from torch._subclasses.fake_tensor import FakeTensor

    alive = []

    def backend(gm, inputs):
        options = {"stages": "all", "quiet": True, "inner": inner}
        values = {n.name: n.meta.get("example_value") for n in gm.graph.nodes if n.op.startswith("call")}
        values.pop(
            "add_"
        )  # gives its operand back, an input, and torch keeps the inputs' fakes, with peek or without
        alive.append(weakref.ref(gm))
        alive.extend(weakref.ref(v) for v in values.values() if isinstance(v, FakeTensor))
        return torch._dynamo.lookup_backend("peek")(gm, inputs, options=options)

    with peek_backend.session() as session:
        result = torch.compile(Small(), backend=backend)(torch.ones(2, 8))
    del result
    torch._dynamo.reset()
    gc.collect()
    assert len(session.record.graphs) == 4
    assert [r() for r in alive if r() is not None] == []


NORMS = [
    pytest.param(torch.nn.LayerNorm(8), "native_layer_norm", id="eps"),
    pytest.param(torch.nn.BatchNorm1d(8), "_native_batch_norm_legit_functional", id="eps and momentum"),
]


@pytest.mark.parametrize("inner", [None, "eager"])
@pytest.mark.parametrize(("norm", "op"), NORMS)
def test_floats_that_cannot_be_tensors_become_constants(norm, op, inner):
    """With dynamic=True an ``eps`` is an input of the graph, which AOTAutograd refuses: where torch would trace again with the
    number, the copy has it, and the stages are those of a backend built on AOTAutograd."""
    from torch._dynamo.symbolic_convert import TensorifyState

    module = torch.nn.Sequential(torch.nn.Linear(8, 8), norm)
    record = staged(module, torch.randn(4, 8), inner=inner, dynamic=True)
    assert [g.key for g in record.graphs] == ["0/0", "0/0 joint", "0/0 forward", "0/0 backward"]
    assert [p for g in record.graphs for p in g.problems] == []
    assert unexplained(record) == []
    (node,) = [n for n in record.graph("0/0 joint").nodes if n.name == op]
    assert norm.eps in node.args
    assert TensorifyState.empty()
    torch._dynamo.reset()
    real = staged(module, torch.randn(4, 8), inner="aot_eager", dynamic=True)
    assert _ops(record.graph("0/0 joint")) == _ops(real.graph("0/0 attempt 1 joint"))


def _ops(graph):
    """What a graph calls; ``copy_`` apart, as it depends on the backend whether a buffer is written in the graph or after it."""
    return [n.target for n in graph.nodes if n.op == "call_function" and n.target != "aten.copy_.default"]


def test_a_float_that_can_be_a_tensor_stays_one():
    """A float that only scales tensors is an input of the joint graph too, so one compile serves all its values."""
    with peek_backend.session() as session:
        compiled = torch.compile(
            lambda x, s: (x * s).sin(),
            backend="peek",
            options={"stages": "joint", "quiet": True},
            dynamic=True,
        )
        for scale in (0.5, 0.75):
            compiled(torch.ones(4, requires_grad=True), scale)
    assert [g.key for g in session.record.graphs] == ["0/0", "0/0 joint"]
    names = [n.name for n in session.record.graph("0/0 joint").nodes]
    assert "convert_element_type_default" in names


def test_nothing_is_logged(capfd):
    """TORCH_LOGS shows no graph that the program does not compile."""
    said = []
    for stages in ("dynamo", "all"):
        torch._dynamo.reset()
        torch._logging.set_logs(aot_joint_graph=True, graph_code=True)
        try:
            staged(Small(), torch.ones(4, 8), stages=stages)
        finally:
            torch._logging.set_logs()
        said.append(len(capfd.readouterr().err.splitlines()))
    assert said[0] == said[1] > 10


def failing(**options) -> tuple[str, object]:
    """What a program whose joint graph AOTAutograd refuses prints, and its capture."""
    out = io.StringIO()
    with peek_backend.session() as session:
        compiled = torch.compile(
            overwritten, backend="peek", options={"stages": "all", "file": out, **options}
        )
        compiled(torch.ones(3, requires_grad=True))
    return out.getvalue(), session.record


def test_a_stage_that_fails_is_told_once():
    """The reason stands below the stage's table, or in a line where that is not shown; with quiet it is in the record alone."""
    text, record = failing()
    assert text.count("AOTAutograd cannot make this stage") == 1
    assert [p.where for g in record.graphs for p in g.problems] == ["0/0 joint"]
    torch._dynamo.reset()
    quiet, record = failing(quiet=True)
    assert quiet == ""
    assert len(record.graph("0/0 joint").problems) == 1
    torch._dynamo.reset()
    other, _ = failing(stages="forward")
    assert other.splitlines()[-2] == "peek: 0/0 joint: AOTAutograd cannot make this stage"


def test_strict_raises_on_a_stage_that_fails():
    """With strict a stage that cannot be made ends the compile with its reason, quiet or not."""
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="PeekError: 0/0 joint: AOTAutograd"):
        failing(strict=True, quiet=True)


def test_strict_raises_on_a_backward_that_compiles_later(monkeypatch):
    """What cannot be read of a backward when it runs is raised by backward()."""
    from peek_backend.capture.stagereader import StageReader
    from peek_backend.errors import PeekError

    options = {"stages": "all", "quiet": True, "strict": True, "inner": "aot_eager"}
    loss = torch.compile(Small(), backend="peek", options=options)(torch.ones(2, 8))[0].sum()
    monkeypatch.setattr(StageReader, "_compiled", lambda *args: 1 / 0)
    with pytest.raises(PeekError, match="ZeroDivisionError"):
        loss.backward()


def test_the_report_tells_of_a_stage_that_fails():
    """peek explain names the stage and why it is not there."""
    from peek_backend.render.explain import explain_text

    _, record = failing(quiet=True)
    text = explain_text(record)
    assert "1 thing that peek could not read" in text
    assert "0/0 joint: AOTAutograd cannot make this stage (RuntimeError: one of the variables" in text
