"""Programs of every kind that AOTAutograd treats apart: each graph is there once, under its own key, with nothing unexplained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import peek_backend
from peek_backend.analysis.provenance import Provenance

from .helpers import run_backward, staged, unexplained

ROOT = Path(__file__).parents[2]
INNER = pytest.mark.parametrize("inner", [None, "aot_eager"])


def check(record) -> list[str]:
    """The keys of the record's graphs: each once, none with a problem, every node with an origin or a reason."""
    keys = [g.key for g in record.graphs]
    assert len(set(keys)) == len(keys)
    assert [p.why for g in record.graphs for p in g.problems] == []
    assert unexplained(record) == []
    return keys


def branches(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda a, b: (a @ b).sin(), lambda a, b: a @ b - 1, (x, w))


def loops(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    from torch._higher_order_ops.while_loop import while_loop

    start = torch.zeros((), dtype=torch.int64)
    return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, (y @ w).sin()), (start, x))[1]


def scans(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    from torch._higher_order_ops.scan import scan

    carry, each = scan(lambda c, a: ((c + a @ w).tanh(), (c * a).sum() + c.sum()), x.new_zeros(4), x)
    return carry.sum() + each.sum()


def checkpoints(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return checkpoint(lambda a, b: (a @ b).sigmoid().sin(), x, w, use_reentrant=False)


@INNER
@pytest.mark.parametrize(
    ("fn", "stages", "bodies"),
    [
        pytest.param(branches, ["joint", "forward", "backward"], 2, id="cond"),
        pytest.param(loops, ["inference"], 2, id="while_loop"),
        pytest.param(scans, ["joint", "forward", "backward"], 1, id="scan"),
        pytest.param(checkpoints, ["joint", "forward", "backward"], 0, id="checkpoint"),
    ],
)
def test_bodies(fn, stages, bodies, inner):
    """A higher-order op's bodies belong to the graph that calls it, and their nodes come from the Dynamo graph's bodies."""
    with torch.set_grad_enabled(stages != ["inference"]):
        record = staged(fn, torch.ones(2, 4), torch.ones(4, 4, requires_grad=True), inner=inner)
    assert check(record) == ["0/0", *(f"0/0 {s}" for s in stages)]
    graph = record.graph(f"0/0 {'inference' if bodies and stages == ['inference'] else 'forward'}")
    assert len(graph.children) == bodies
    links = Provenance(record)
    for body in graph.children:
        ops = [n for n in body.nodes if n.op == "call_function"]
        assert ops
        assert all("▸" in links.origins((graph.key, 0))[0][0] or n.origins for n in ops)


class Float8(torch.Tensor):
    """A weight kept as float8 with a scale, read as float32."""

    @staticmethod
    def __new__(cls, data: torch.Tensor, scale: torch.Tensor) -> Float8:
        return torch.Tensor._make_wrapper_subclass(
            cls, data.shape, strides=data.stride(), dtype=scale.dtype, device=data.device
        )

    def __init__(self, data: torch.Tensor, scale: torch.Tensor):
        self.kept, self.scale = data, scale

    def __repr__(self, *, tensor_contents=None) -> str:
        return "Float8(…)"  # torch's own reads the elements; pytest has handlers on every log, for which torch prints it

    def __tensor_flatten__(self):
        return ["kept", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, parts, _meta, _size, _stride):
        return cls(parts["kept"], parts["scale"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten.t.default, torch.ops.aten.detach.default):
            return cls(func(args[0].kept), args[0].scale)
        plain = [a.kept.to(a.scale.dtype) * a.scale if isinstance(a, Float8) else a for a in args]
        return func(*plain, **(kwargs or {}))


@INNER
def test_a_float8_weight(inner):
    """A float8 subclass is one input of the Dynamo graph and two of the joint graph: the bytes saved are those of its parts."""
    w = Float8(torch.randn(4, 4).to(torch.float8_e4m3fn), torch.tensor(2.0))
    x = torch.randn(2, 4, requires_grad=True)
    record = staged(lambda x, w: (x @ w.t()).relu().sum(), x, w, inner=inner)
    assert check(record) == ["0/0", "0/0 joint", "0/0 forward", "0/0 backward"]
    joint = record.graph("0/0 joint")
    assert joint.lowering.inputs == (0, 0, 1, None)
    assert joint.nodes[0].value.dtype == "float8_e4m3fn"
    (view,) = record.autograd
    assert {s.nbytes for s in view.saved} >= {16, 4}
    assert [(g.input, g.node is not None) for g in view.gradients] == [("w", False), ("x", True)]


class Unprintable(Float8):
    """One whose text cannot be had while it is fake."""

    def __repr__(self, *, tensor_contents=None) -> str:
        raise RuntimeError("not while tracing")


@pytest.mark.skipif(torch.__version__.startswith("2.8."), reason="torch 2.8 prints it with no handler too")
@pytest.mark.parametrize("source", ["live", "log"])
@pytest.mark.parametrize("trace", [False, True])
@INNER
def test_a_tensor_that_cannot_be_printed(inner, trace, source, monkeypatch):
    """Reading torch's trace has AOTAutograd print nothing that it would not print without peek."""
    import logging

    from peek_backend.capture.session import Session

    monkeypatch.setattr(logging.getLogger("torch.__trace"), "handlers", [])  # pytest's
    w = Unprintable(torch.randn(4, 4).to(torch.float8_e4m3fn), torch.tensor(2.0))
    options = {"inner": inner, "stages": "all", "stages_from": source, "quiet": True}
    with Session(trace=trace) as session:
        compiled = torch.compile(
            lambda x, w: (x @ w.t()).sum(), backend="peek", options=options, fullgraph=True
        )
        compiled(torch.randn(2, 4, requires_grad=True), w)
    assert [p.why for g in session.record.graphs for p in g.problems] == []
    assert {"joint", "forward", "backward"} <= {g.stage for g in session.record.graphs}


@pytest.fixture
def one_rank(tmp_path):
    """A gloo group of this process alone."""
    import torch.distributed as dist

    if dist.is_initialized():  # by a case that ran before in this process
        dist.destroy_process_group()
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@INNER
def test_dtensors(inner, one_rank):
    """A DTensor is one input; its shard's gradient and saved values bear its name, and its mesh is an input without one."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (1,))
    w = distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)]).requires_grad_()
    x = distribute_tensor(torch.randn(2, 4), mesh, [Replicate()])
    fn = lambda x, w: (x @ w.t()).redistribute(mesh, [Replicate()]).to_local().relu().sum()  # noqa: E731
    record = staged(fn, x, w, inner=inner)
    assert [k.split(" ", 1)[-1] for k in check(record)] == ["0/0", "joint", "forward", "backward"]
    (view,) = record.autograd
    assert {g.input for g in view.gradients if g.node is not None} == {"w"}
    assert {"mm", "relu"} <= {n.name for n in record.graphs[1].nodes}


@INNER
def test_several_compiles_of_one_frame(inner):
    """Each compile of a frame has its own stages; the numbers that a dynamic one saves are those of its own symbols."""
    options = {"stages": "all", "inner": inner, "quiet": True}
    with peek_backend.session() as session:
        compiled = torch.compile(lambda x: (x * 2).sin(), backend="peek", options=options)
        for size in (3, 5, 7, 1):
            compiled(torch.ones(size, requires_grad=True)).sum().backward()
        with torch.no_grad():
            compiled(torch.ones(3))
    record = session.record
    trained = [
        key for i in range(3) for key in (f"0/{i}", *(f"0/{i} {s}" for s in ("joint", "forward", "backward")))
    ]
    assert check(record) == [*trained, "0/3", "0/3 inference"]
    assert [g.frame for g in record.graphs] == [0] * len(record.graphs)
    numbers = [[s.value.expr for s in view.saved if s.nbytes is None] for view in record.autograd]
    assert [len(n) for n in numbers] == [0, 1, 0]


@INNER
def test_sizes_saved_for_the_backward(inner):
    """Symbolic sizes that the backward needs are numbers without bytes, whichever backend compiles."""
    x = torch.ones(6, 4, requires_grad=True)
    record = staged(lambda x: x.sin().sum(0) * x.shape[0], x, dynamic=True, inner=inner)
    check(record)
    (view,) = record.autograd
    assert len([s for s in view.saved if s.nbytes is None]) >= 1
    assert sum(s.nbytes for s in view.saved if s.nbytes is not None) == view.nbytes


@INNER
def test_each_backward_of_compiled_autograd(inner):
    """Two backwards that compiled autograd compiles have their stages under ids of their own."""
    from torch._dynamo import compiled_autograd

    options = {"stages": "all", "inner": inner, "quiet": True}
    how = {"backend": "peek", "options": options}
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    with peek_backend.session() as session, compiled_autograd._enable(torch.compile(**how)):
        compiled = torch.compile(net, **how)
        for size in (2, 3):
            run_backward(compiled(torch.ones(size, 4)))
    keys = check(session.record)
    backward = [k for k in keys if k.startswith("!")]
    assert len([k for k in backward if " " not in k]) == 2
    assert {f"{k} inference" for k in backward if " " not in k} <= set(backward)


@pytest.mark.timeout(300)
def test_the_buckets_of_two_real_ranks(tmp_path):
    """On two gloo ranks each bucket of DistributedDataParallel has its own four graphs, under the rank's own keys."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
            "-m", "tests.stages.two_ranks", str(tmp_path),
        ],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    for told in ranks:
        assert told["calls"] >= 2
        assert len(set(told["keys"])) == told["graphs"]
        wanted = [
            [call, s] for call in range(told["calls"]) for s in ("backward", "dynamo", "forward", "joint")
        ]
        assert told["stages"] == wanted
        assert (told["problems"], told["unexplained"]) == ([], [])
    assert ranks[0]["gradient"] == ranks[1]["gradient"] != 0
