"""Prices from shapes, held against those that torch's own formulas gave."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from peek_backend.analysis.cost import Sizes, costs
from peek_backend.analysis.estimate import estimated, is_priced
from peek_backend.analysis.memory import timeline
from peek_backend.model import CaptureRecord, GraphRecord
from tests.builders import GraphBuilder, capture, symbol, tensor

torch = pytest.importorskip("torch")


class Every(torch.nn.Module):
    """Each kind of op that has FLOPs, and some that have none."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 32)
        self.wide = torch.nn.Linear(32, 64)
        self.conv = torch.nn.Conv1d(64, 32, 3, groups=2)
        self.up = torch.nn.ConvTranspose1d(32, 16, 2)
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, ids):
        x = self.norm(self.table(ids))
        heads = x.view(x.shape[0], x.shape[1], 4, 8).transpose(1, 2)
        x = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2)
        y = self.up(self.conv(self.wide(x).transpose(1, 2)))
        square = torch.baddbmm(x @ x.transpose(1, 2), x, x.transpose(1, 2))
        square.add_(1)
        return y.relu().sum() + torch.addmm(square[0], x[0], x[0].T).sum()


@pytest.fixture(scope="module", params=[False, True], ids=["inference", "training"])
def priced(request) -> CaptureRecord:
    """A dry run, every node with the price of torch's formulas."""
    import peek_backend

    return peek_backend.dryrun(Every, "i64[batch=4, 12]", device="cpu", train=request.param)


def bare(record: CaptureRecord) -> CaptureRecord:
    """The record without prices."""
    graphs = [replace(g, nodes=tuple(replace(n, cost=None) for n in g.nodes)) for g in record.graphs]
    return replace(record, graphs=tuple(graphs))


def flops(graph: GraphRecord) -> dict[str, object]:
    """FLOPs by node at the sizes seen while tracing; nodes without any are left out."""
    sizes = Sizes()
    found = {n.name: sizes.at(n.cost.flops, graph) for n in graph.nodes if n.cost is not None}
    return {name: number for name, number in found.items() if number}


def test_flops_are_those_of_torch(priced):
    """In every graph each product, convolution and attention has the FLOPs that FlopCounterMode counts."""
    for graph, other in zip(priced.graphs, estimated(bare(priced)).graphs, strict=True):
        if not is_priced(graph):
            continue
        unknown = {n.name for n in other.nodes if n.cost is not None and n.cost.unknown}
        recorded = {name: number for name, number in flops(graph).items() if name not in unknown}
        assert flops(other) == recorded, graph.key
        assert recorded


def test_what_has_no_formula_is_named(priced):
    """Every op of the model follows from shapes, backward convolutions too; a product that does not says so, and counts none."""
    nodes = [n for g in estimated(bare(priced)).graphs for n in g.nodes if n.cost is not None]
    assert [n.target for n in nodes if n.cost.unknown] == []
    g = GraphBuilder("f")
    x = g.input("x", tensor(4, 8))
    g.output(g.call("torch.einsum", "ij,ij->i", x, x, value=tensor(4)))
    (einsum,) = [n for n in estimated(capture(g.graph())).graphs[0].nodes if n.target == "torch.einsum"]
    assert einsum.cost.unknown == "its FLOPs do not follow from shapes alone"
    assert einsum.cost.flops == 0


def test_bytes_and_memory_come_near(priced):
    """Bytes moved and the peak are within a fifth of what torch's kernels move and keep."""
    sizes = Sizes()
    known, guess = costs(priced, sizes), costs(estimated(bare(priced)), sizes)
    assert guess.bytes == pytest.approx(known.bytes, rel=0.2)
    assert guess.parameters == known.parameters
    assert timeline(estimated(bare(priced))).peak == pytest.approx(timeline(priced).peak, rel=0.2)


def test_bags_of_embeddings_read_their_rows():
    """Bags of rows of a large table read, by shapes too, one row for each index: what torch's kernel reads."""
    import peek_backend

    record = peek_backend.dryrun(
        lambda: torch.nn.EmbeddingBag(1000, 8), "i64[3, 4]", device="cpu", train=True
    )
    for graph, other in zip(record.graphs, estimated(bare(record)).graphs, strict=True):
        bags = [n.name for n in graph.nodes if n.target.endswith("embedding_bag")]
        for name in bags if is_priced(graph) else ():
            known, guess = (next(n.cost for n in g.nodes if n.name == name) for g in (graph, other))
            # the kernel reads where each bag begins as well, which F.embedding_bag makes itself
            assert guess.read == pytest.approx(known.read, abs=3 * 8)
            assert known.read < 1000 * 8 * 4


def test_recorded_prices_are_kept(priced):
    """A graph that has prices is returned as it is, one without gets some."""
    for graph, other in zip(priced.graphs, estimated(priced).graphs, strict=True):
        assert (other is graph) == is_priced(graph)
        assert is_priced(other)
    assert not any(map(is_priced, bare(priced).graphs))


def with_bodies(target, bodies):
    """A graph whose one op runs ``bodies`` linears, each in a body of its own."""
    children = []
    for k in range(bodies):
        inner = GraphBuilder(f"body_{k}")
        x, w = inner.input("x", tensor("s0", 8)), inner.input("w", tensor(16, 8))
        inner.output(inner.call("torch.nn.functional.linear", x, w, value=tensor("s0", 16)))
        children.append(inner.graph())
    g = GraphBuilder("outer")
    x, w = g.input("x", tensor("s0", 8)), g.input("w", tensor(16, 8))
    run = [g.add(f"body_{k}", "get_attr", f"body_{k}", body=k) for k in range(bodies)]
    g.output(g.call(target, *run, x, w, value=tensor("s0", 16)))
    return g.graph(children=tuple(children), symbols=(symbol("s0", "x.shape[0]", hint=4),))


def test_an_op_costs_what_its_body_does():
    """A checkpointed region has the price of what is inside it, as an expression or at the sizes given."""
    before = capture(with_bodies("torch.ops.higher_order.tag_activation_checkpoint", 1))
    (graph,) = estimated(before).graphs
    (op,) = [n for n in graph.nodes if n.target.endswith("checkpoint")]
    assert op.cost.flops == "256*s0" and not op.cost.unknown
    (graph,) = estimated(before, Sizes()).graphs
    assert next(n.cost.flops for n in graph.nodes if n.target.endswith("checkpoint")) == 1024


@pytest.mark.parametrize(("target", "bodies"), [("torch.cond", 2), ("torch.ops.higher_order.while_loop", 1)])
def test_bodies_that_run_any_number_of_times_have_no_price(target, bodies):
    """Which branch runs, and how often a loop does, is not in the shapes: the price is unknown, and not zero."""
    (graph,) = estimated(capture(with_bodies(target, bodies))).graphs
    (op,) = [n for n in graph.nodes if n.target == target]
    assert op.cost.flops == 0 and "how often each of its bodies runs" in op.cost.unknown
