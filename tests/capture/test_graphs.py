"""Graphs with their children, arguments and targets."""

from __future__ import annotations

import pytest
import torch
from torch import fx

import peek_backend
from peek_backend.capture.arguments import ArgReader, target_name
from peek_backend.model import GraphRecord, Leaf, node_refs
from tests.capture.helpers import by_target, capture, graph_of


def bodies(graph: GraphRecord) -> list[str]:
    return [c.name for c in graph.children]


def test_cond_branches_are_children():
    """Both branches are child graphs with their own nodes and values, and get_attr nodes point to them."""
    graph = graph_of(
        lambda x: torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,)), torch.randn(4, 5)
    )
    assert len(graph.children) == 2
    assert [n.body for n in graph.nodes if n.body is not None] == [0, 1]
    assert by_target(graph.children[0], "sin").value.shape == (4, 5)
    assert by_target(graph.children[1], "cos").value.shape == (4, 5)


def test_nested_children_are_flat():
    """A body inside a body is a child of the root, reached by its index."""

    def inner(x):
        return torch.cond(x.sum() > 1, lambda t: t * 2, lambda t: t * 3, (x,))

    graph = graph_of(lambda x: torch.cond(x.sum() > 0, inner, lambda t: t.cos(), (x,)), torch.randn(3))
    assert len(graph.children) == 4
    indices = [n.body for g in (graph, *graph.children) for n in g.nodes if n.body is not None]
    assert sorted(indices) == [0, 1, 2, 3]
    assert all(not c.children for c in graph.children)


def test_while_loop_and_scan():
    """while_loop has a condition and a body; scan's body sees slices without the scanned dim."""
    from torch._higher_order_ops.scan import scan
    from torch._higher_order_ops.while_loop import while_loop

    loop = graph_of(
        lambda i, x: while_loop(lambda i, x: i.sum() < 3, lambda i, x: (i + 1, x.sin()), (i, x)),
        torch.zeros(1, dtype=torch.int64),
        torch.randn(3),
    )
    assert len(loop.children) == 2
    scanned = graph_of(
        lambda c, xs: scan(lambda c, x: (c + x, c * x), c, xs), torch.zeros(4), torch.randn(5, 4)
    )
    (body,) = scanned.children
    assert [n.value.shape for n in body.nodes if n.op == "placeholder"] == [(4,), (4,)]


def test_checkpoint_autograd_function_and_flex_attention():
    """Checkpoint, autograd.Function and flex_attention keep their bodies."""
    from torch.nn.attention.flex_attention import flex_attention
    from torch.utils.checkpoint import checkpoint

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = torch.randn(2, 2, 16, 8, requires_grad=True)
    assert graph_of(lambda t: checkpoint(torch.sin, t, use_reentrant=False), x).children
    assert len(graph_of(Double.apply, x).children) == 2
    assert graph_of(
        lambda t: flex_attention(t, t, t, score_mod=lambda s, b, h, q, k: s + q), x.detach()
    ).children


def test_shared_body_is_recorded_once():
    """A region called three times is one child, named by all its callers."""
    region = torch.compiler.nested_compile_region(lambda x: x.sin() * 2)
    graph = graph_of(lambda x: region(region(region(x))), torch.randn(3))
    assert len(graph.children) == 1
    assert {n.body for n in graph.nodes if n.body is not None} == {0}


def test_arguments_of_every_type():
    """Each type of argument has its own form; nothing is lost in nesting."""
    node = fx.Graph().placeholder("x")
    read = ArgReader({node: 7}).read
    assert read(node) == Leaf(node=7)
    assert read((1, [node, None])) == (1, (Leaf(node=7), None))
    assert read(slice(node, None, 2)) == Leaf(slice=(Leaf(node=7), None, 2))
    assert read({"a": node}) == Leaf(dict=(("a", Leaf(node=7)),))
    assert read(torch.float16) == Leaf(dtype="float16")
    assert read(torch.device("cpu")) == Leaf(device="cpu")
    assert read(torch.channels_last) == Leaf(memory_format="channels_last")
    assert read(torch.strided) == Leaf(layout="strided")
    assert read(...) == Leaf(ellipsis=True)
    assert read(float("nan")) == Leaf(float="nan")
    assert read(1 + 2j) == Leaf(complex="(1+2j)")
    assert read(2**80) == Leaf(repr=str(2**80))
    assert read(torch.sin) == Leaf(function="torch.sin")
    deep = read([[[[node]]]])
    assert deep == ((Leaf(nested=((Leaf(node=7),),)),),)


def test_deep_arguments_survive_json():
    """References inside the deepest nesting are still references after a round trip."""
    import msgspec

    from peek_backend.model import NodeRecord

    node = fx.Graph().placeholder("x")
    args = ArgReader({node: 0}).args(([[[[node, {"k": [node]}]]]],))
    record = NodeRecord(1, "n", "call_function", "f", args, {}, None, None)
    back = msgspec.json.decode(msgspec.json.encode(record), type=NodeRecord)
    assert back == record
    assert node_refs(back) == [0, 0]


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (torch.nn.functional.relu, "torch.nn.functional.relu"),
        (torch._C._nn.linear, "torch.nn.functional.linear"),
        (torch.ops.aten.mm.default, "aten.mm.default"),
        (torch.ops.higher_order.cond, "higher_order.cond"),
        ("sin", "sin"),
        (torch.sin, "torch.sin"),
    ],
)
def test_targets(target, name):
    """Targets are qualified names."""
    assert target_name(target) == name


def test_targets_carry_no_address():
    """Lambdas, partials, bound methods and callable objects have names that are the same in each run."""
    import functools

    class Callable:
        def __call__(self):
            return None

    for target in (lambda x: x, functools.partial(torch.sin), Callable(), Callable().__call__, torch.zeros):
        assert "0x" not in target_name(target)


def test_one_node_with_many_inputs():
    """A cat of 600 inputs keeps 600 references."""
    graph = graph_of(torch.cat, [torch.ones(1) for _ in range(600)])
    assert len(node_refs(by_target(graph, "torch.cat"))) == 600


def test_empty_graph():
    """A graph with nothing but its output is an empty graph, not an error."""

    def fn(x, flag):
        if flag == 1:
            torch._dynamo.graph_break()
        return x * 2

    compiled = torch.compile(fn, backend="eager")
    compiled(torch.ones(3), 0)
    with peek_backend.session() as session:
        compiled(torch.ones(3), 1)
    assert [n.op for n in session.record.graphs[0].nodes] == ["output"]


def test_compile_ids_and_frames():
    """Graphs carry torch's compile id; a graph of a resumed frame says so, and restarts do not count as attempts."""

    def fn(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    graphs = capture(fn, torch.ones(3)).graphs
    assert [g.compile_id for g in graphs] == ["0/0", "1/0"]
    assert [g.key for g in graphs] == ["0/0", "1/0"]
    assert graphs[0].name == "fn"
    assert graphs[1].name.startswith("fn ▸ resume")


def test_state():
    """What a graph was traced under is recorded where it is not the default."""
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        graph = graph_of(lambda x: x @ x, torch.randn(3, 3))
    assert graph.state == {"grad": "off", "autocast": "cpu bfloat16"}


def test_symbols_have_sources_ranges_and_hints():
    """Equal sizes share a symbol, which names both; ranges are those of torch."""
    graph = graph_of(lambda x, y: x + y, torch.randn(5, 3), torch.randn(5, 3), dynamic=True)
    symbol = next(s for s in graph.symbols if "x.shape[0]" in s.sources)
    assert symbol.sources == ("x.shape[0]", "y.shape[0]")
    assert (symbol.hint, symbol.lower, symbol.upper) == (5, 2, None)


def test_recorded_graphs_from_elsewhere():
    """symbolic_trace with shape propagation, make_fx and an ExportedProgram are read from what each keeps."""
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.passes.shape_prop import ShapeProp

    net, x = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()), torch.randn(3, 4)
    traced = fx.symbolic_trace(net)
    ShapeProp(traced).propagate(x)
    (shapes,) = peek_backend.record(traced).graphs
    assert [n.value.shape for n in shapes.nodes if n.op == "call_module"] == [(3, 2), (3, 2)]
    (aten,) = peek_backend.record(make_fx(lambda t: (t @ t.T).relu(), tracing_mode="fake")(x)).graphs
    assert any(n.target == "aten.relu.default" and n.value.shape == (3, 3) for n in aten.nodes)
    program = torch.export.export(net, (x,), dynamic_shapes={"input": {0: torch.export.Dim("batch")}})
    (exported,) = peek_backend.record(program).graphs
    inputs = [n.source.input for n in exported.nodes if n.op == "placeholder"]
    assert inputs == ["0.weight", "0.bias", "input"]
    assert isinstance(exported.nodes[2].value.shape[0], str)


class Called(torch.nn.Module):
    """A module of torch that is called in one line of the user."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(4, 2, 1)

    def forward(self, x):
        return self.conv(x)


def test_an_exported_op_has_the_line_of_the_user():
    """What a module of torch does has the line that calls the module, as in a capture of torch.compile."""
    program = torch.export.export(Called(), (torch.randn(1, 4, 3),))
    conv = next(n for n in peek_backend.record(program).graphs[0].nodes if n.target.startswith("aten.conv1d"))
    assert (conv.source.file, conv.source.code) == (__file__, "return self.conv(x)")
    assert conv.source.caller is None
    alone = torch.export.export(torch.nn.Conv1d(4, 2, 1), (torch.randn(1, 4, 3),))
    conv = next(n for n in peek_backend.record(alone).graphs[0].nodes if n.target.startswith("aten.conv1d"))
    assert conv.source.file.endswith("conv.py")


def test_pt2_file(tmp_path):
    """A saved ExportedProgram loads as a capture; another file is one clear error."""
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(4, 2), (torch.randn(3, 4),)), path)
    read = peek_backend.load(path)
    assert read.graphs[0].nodes
    assert read.environment.argv == (
        str(path),
    )  # what a page is named after: the reader did not make the graph
    bad = tmp_path / "bad.pt2"
    bad.write_bytes(b"not a zip")
    with pytest.raises(peek_backend.PeekError, match=r"bad\.pt2"):
        peek_backend.load(bad)
    with pytest.raises(peek_backend.PeekError, match="inspect"):
        peek_backend.record(torch.nn.Linear(1, 1))


def test_break_that_ended_a_graph_is_known_at_once():
    """The backend's own table says what ended a graph: no session needs to be open."""
    from io import StringIO

    def fn(x):
        y = x.sin()
        print(end="")
        return y.cos()

    stream = StringIO()
    torch.compile(fn, backend="peek", options={"file": stream})(torch.ones(3))
    assert stream.getvalue().count("graph break:") == 1
    assert 'print(end="")' in stream.getvalue()
