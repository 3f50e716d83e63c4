"""The trail of a node over the stages, in both directions, and two stages side by side."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

from peek_backend.analysis.functional import in_place_ops
from peek_backend.analysis.provenance import Provenance
from peek_backend.errors import PeekError
from peek_backend.model import GraphRecord, NodeRecord
from peek_backend.render.stages import functional_text, side_by_side, trace_text
from tests.builders import capture

from .helpers import Small, staged, unexplained


@pytest.fixture(scope="module")
def small():
    torch._dynamo.reset()
    return staged(Small(), torch.ones(4, 8))


def test_every_node_has_an_origin_or_a_reason(small):
    """No node of a later stage is left unexplained, and every origin is a node of the capture."""
    assert unexplained(small) == []


def test_stages_belong_to_their_frame(small):
    """Graphs of later stages have the frame of the Dynamo graph that they were made from."""
    assert {g.frame for g in small.graphs} == {0}


def test_stages_have_the_name_of_their_graph():
    """Later stages of what Dynamo continues after a break are called as its graph is."""

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    torch._dynamo.reset()
    record = staged(broken, torch.ones(2, requires_grad=True))
    names = {g.compile_id: g.name for g in record.graphs if g.stage == "dynamo"}
    assert any("resume#1" in name for name in names.values())
    assert all(g.name == names[g.compile_id] for g in record.graphs)


def test_forward_in_time(small):
    """A Dynamo node became ATen nodes of the joint graph, and each of these a node of forward or backward."""
    trace = small.trace("0/0:linear")
    became = {(s.stage, s.node.name) for s in trace.became}
    assert {("joint", "t"), ("joint", "addmm"), ("forward", "addmm"), ("backward", "mm")} <= became
    assert trace.came_from == ()


def test_back_in_time(small):
    """A backward node leads to the forward op that it differentiates, and to its line."""
    trace = small.trace("0/0 backward:native_layer_norm_backward")
    names = [(s.stage, s.node.name) for s in trace.came_from]
    assert names == [("dynamo", "layer_norm"), ("joint", "native_layer_norm_backward")]
    assert "nn.functional.gelu(self.norm(self.fc(x)))" in str(trace)


def test_the_twin_in_the_other_half():
    """A node that a backward computes again, or is handed, leads to the forward's, and the forward's to it."""
    from torch.utils.checkpoint import checkpoint

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda a, b: (a @ b).sigmoid().sin(), x.exp(), w, use_reentrant=False)

    record = staged(f, torch.ones(2, 4), torch.ones(4, 4, requires_grad=True))

    def twins(what):
        return [(s.stage, s.node.name, s.note) for s in record.trace(what).twins]

    (again,) = twins("0/0 backward:sigmoid")
    assert again == ("forward", "sigmoid", "the backward computes it again")
    assert twins("0/0 forward:sigmoid") == [("backward", "sigmoid", "computed again")]
    (saved,) = [s.name for s in record.autograd[0].saved if not s.is_input]
    assert twins(f"0/0 backward:{saved}") == [("forward", saved, "saved for the backward")]
    assert twins(f"0/0 forward:{saved}") == [("backward", saved, "saved by the forward")]
    assert twins("0/0 forward:primals_2") == twins("0/0 joint:sigmoid") == []
    assert "the backward computes it again" in str(record.trace("0/0 backward:sigmoid"))


def test_a_line_of_the_program(small):
    """A file and line stand for all Dynamo nodes made there, and what became of them."""
    node = next(n for n in small.graph(0).nodes if n.name == "add_")
    trace = small.trace(f"helpers.py:{node.source.line}")
    assert {s.node.name for s in trace.nodes} == {"detach", "sum_1", "add_"}
    assert ("joint", "copy_") in {(s.stage, s.node.name) for s in trace.became}


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("lineer", "did you mean 'linear'"),
        ("0/0 join:mm", "did you mean '0/0 joint'"),
        ("helpers.py:1", "lines of it that made nodes: "),
        ("other.py:1", "no node of the capture comes from that file"),
    ],
)
def test_an_unknown_place_names_the_nearest(small, what, said):
    """A node, graph or line that the capture lacks is answered with those it has."""
    with pytest.raises(PeekError) as error:
        small.trace(what)
    assert said in str(error.value)


def test_bodies_are_traced_to_their_nodes():
    """A checkpointed region is a body in the Dynamo graph; the ATen nodes name the nodes inside it."""
    from torch.utils.checkpoint import checkpoint

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda a, b: (a @ b).sigmoid(), x, w, use_reentrant=False)

    record = staged(f, torch.ones(2, 4), torch.ones(4, 4, requires_grad=True))
    links = Provenance(record)
    (sigmoid,) = [n for n in record.graph("0/0 joint").nodes if n.name == "sigmoid"]
    (origin,) = links.origins(("0/0 joint", sigmoid.index))
    assert origin[0] == "0/0 ▸ wrap_body_0"
    assert links.node(origin).name == "sigmoid"


def test_side_by_side_holds_every_node_once(small):
    """The table of two stages has each node of both exactly once, the right ones beside what they came from."""
    left, right = small.graph("0/0"), small.graph("0/0 forward")
    lines = side_by_side(small, left, right).splitlines()[2:]
    for node in left.nodes:
        assert sum(f"{node.index} {node.name}: " in line[:48] for line in lines) == 1
    for node in right.nodes:
        assert sum(f"  {node.index} {node.name}: " in line[30:] for line in lines) == 1
    addmm = next(i for i, line in enumerate(lines) if " addmm: " in line)
    assert any(" linear: " in line for line in lines[addmm - 1 : addmm + 1])


def test_a_backward_stands_beside_its_forward():
    """A saved value stands in the row of the node that made it, the gradient of an op in the row of the op."""
    w = torch.ones(16, 4, requires_grad=True)
    record = staged(lambda x, w: torch.tanh(x @ w).sum(), torch.ones(8, 16), w)
    forward, backward = record.graph("0/0 forward"), record.graph("0/0 backward")
    rows = beside(side_by_side(record, forward, backward, "github"))
    saved = {n.name for n in backward.nodes if n.op == "placeholder" and "tangents" not in n.name}
    assert saved
    assert all(rows[name] == name for name in saved)
    assert (rows["mm_1"], rows["tanh_backward"], rows["tangents_1"]) == ("mm", "tanh", "sum_1")
    assert sorted(rows) == sorted(n.name for n in backward.nodes)


def beside(table):
    """For each right node of a table of two stages the left node of its row."""
    found, left = {}, ""
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        left = cells[0] or left
        if cells[2]:
            found[cells[2].split()[1].rstrip(":")] = left.split()[1].rstrip(":")
    return found


def test_a_narrow_trail_has_its_notes_below():
    """In a terminal notes are numbered and whole below the table; a kernel's own name is written once."""
    reason = "worked out from " + "it " * 40
    name = "cpp_fused_add_0"
    node = NodeRecord(0, name, "call_function", name, (), {}, None, None, no_origin=reason)
    graph = GraphRecord("0/0", "kernels", (node, replace(node, index=1, name="cpp_fused_add_1")), ())
    links = Provenance(capture(graph))
    text = trace_text(links.trace(links.find("cpp_fused_add_0")), links.graphs, width=80)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert text.count("cpp_fused_add_0") == 1
    assert " kernel " in text
    assert " ".join(text.split("\n\n")[-1].split()) == f"[1] {node.no_origin.strip()}"


def test_in_place_ops_made_functional():
    """A write through a view becomes an op, a scatter into the base and new views; the input gets its write-back."""

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x.view(-1)
        y[2:].mul_(2)
        z = x @ w
        z.add_(1)
        return z

    record = staged(f, torch.ones(4, 4), torch.ones(4, 4, requires_grad=True))
    through_view, own = in_place_ops(record, record.graph(0))
    assert [n.target for n in through_view.ops] == ["aten.mul.Tensor"]
    assert [n.target for n in through_view.writes] == ["aten.slice_scatter.default"]
    assert through_view.views
    assert [n.name for n in reversed(through_view.chain)] == ["y", "getitem"]
    assert (through_view.input, through_view.epilogue) == ("x", "copy_ in the graph")
    assert ([n.target for n in own.ops], own.input, own.epilogue) == (["aten.add.Tensor"], "", "")
    assert "x: copy_ in the graph" in functional_text(record.graph(0), [through_view, own])


@pytest.mark.parametrize("source", ["live", "log"])
def test_ops_that_write_inputs_without_saying_so(source):
    """A batch norm in training stands there for each statistic that it writes, beside its counter and the ReLU in place."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x):
            y = self.norm(x)
            y = torch.nn.functional.relu(y, inplace=True)
            self.seen.add_(self.norm.running_mean)  # reads a statistic, and does not write it
            return y

    record = staged(
        Net(), torch.randn(8, 4), inner="inductor" if source == "log" else None, stages_from=source
    )
    found = [(op.node.target.rpartition(".")[2], op.input) for op in in_place_ops(record, record.graph(0))]
    assert found == [
        ("add_", "norm.num_batches_tracked"),
        ("batch_norm", "norm.running_mean"),
        ("batch_norm", "norm.running_var"),
        ("relu", ""),
        ("add_", "seen"),
    ]
    assert all(
        op.epilogue == "copy_ in the graph" for op in in_place_ops(record, record.graph(0)) if op.input
    )


def test_each_bucket_of_ddp_has_its_own_stages():
    """DDP sends several graphs under one compile id: every stage of each appears once, under its own key."""
    import torch.distributed as dist

    case = _case("110_ddp_optimizer_splits")
    model, args, _, how = case.build()
    try:
        record = staged(model, *args, dynamic=how["dynamic"])
    finally:
        dist.destroy_process_group()
    keys = [g.key for g in record.graphs]
    assert len(set(keys)) == len(keys)
    last = next(g for g in record.graphs if g.call == 2).compile_id
    for key in (last, f"{last} call 1", f"{last} call 2"):
        assert {key, f"{key} joint", f"{key} forward", f"{key} backward"} <= set(keys)
    assert unexplained(record) == []


def with_stages(gm, inputs):
    """The peek backend as a function, for what takes a compiler of its own."""
    return torch._dynamo.lookup_backend("peek")(gm, inputs, options={"stages": "all", "quiet": True})


def test_compiled_autograds_graph():
    """The backward that compiled autograd compiles (``!0/…``) has its own stages, though its inputs come in a list."""
    from torch._dynamo import compiled_autograd

    import peek_backend

    layer = torch.nn.Linear(4, 4)
    with peek_backend.session() as session, compiled_autograd._enable(torch.compile(backend=with_stages)):
        torch.compile(layer, backend=with_stages)(torch.ones(2, 4)).sum().backward()
    record = session.record
    backward = next(g for g in record.graphs if g.stage == "dynamo" and g.compile_id.startswith("!0/"))
    inference = record.graph(f"{backward.key} inference")
    assert len(inference.nodes) > 10
    assert all(not g.problems for g in record.graphs)
    assert unexplained(record) == []


def test_a_subclass_is_taken_apart():
    """A wrapper subclass is one input of the Dynamo graph and two of the joint graph; both and their gradients are its own."""
    from torch.testing._internal.two_tensor import TwoTensor

    import peek_backend

    x = TwoTensor(torch.ones(3, 3), torch.ones(3, 3)).requires_grad_()
    w = torch.ones(3, 3, requires_grad=True)
    with peek_backend.session() as session:
        torch.compile(lambda x, w: (x @ w).relu().sum(), backend=with_stages)(x, w).backward()
    record = session.record
    assert record.graph("0/0 joint").lowering.inputs[:3] == (0, 0, 1)
    (view,) = record.autograd
    assert [g.input for g in view.gradients][:3] == ["x", "x", "w"]
    assert unexplained(record) == []


def _case(name: str):
    path = Path(__file__).parents[1] / "cases" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Rewriting(torch.nn.Module):
    """Writes in place into views: a linear layer's result (a view, for three dims), a row, a transpose."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.b(self.a(x).relu_())
        y.mul_(2)
        y[0].add_(x[1])
        y.clamp_(min=0)
        y.transpose(0, 1).tanh_()
        return y.sum()


@pytest.mark.parametrize("inner", [None, "aot_eager"])
def test_the_gradient_of_an_in_place_op_is_its_own(inner):
    """Every node of the backward comes from a Dynamo node of its own line; that of ``y.mul_(2)`` from ``mul_``."""
    record = staged(Rewriting(), torch.randn(2, 3, 4), inner=inner)
    links = Provenance(record)
    dynamo, joint = record.graph("0/0"), record.graph("0/0 joint")
    backward = {n.name for n in record.graph("0/0 backward").nodes if n.op == "call_function"}
    forward = {n.name for n in record.graph("0/0 forward").nodes}
    for node in joint.nodes:
        if node.name in backward - forward:
            assert {dynamo.nodes[i].source.line for _, i in node.origins} == {node.source.line}, node.name
            assert node.no_origin is None, node.name
    muls = [n for n in joint.nodes if n.target == "aten.mul.Tensor"]
    assert [[links.node(o).name for o in n.origins] for n in muls] == [["mul_"], ["mul_"]]
    (tanh_backward,) = [n for n in joint.nodes if n.name == "tanh_backward"]
    assert [links.node(o).name for o in tanh_backward.origins] == ["tanh_"]
