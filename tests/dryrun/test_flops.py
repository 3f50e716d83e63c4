"""FLOPs of a dry run against torch's own counter on real tensors, and against products worked out by hand."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import peek_backend
from tests.conftest import require
from tests.models import Case, mixtral, routed_mixtral


def counted(case, *, train: bool) -> tuple[int, int]:
    """FLOPs of forward and backward as FlopCounterMode counts them, attention as the matrix products it is defined by."""
    model = case.make().train(train and case.training)
    with (
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False) as counter,
        torch.set_grad_enabled(train),
    ):
        loss = model(**case.inputs())
        forward = counter.get_total_flops()
        if train:
            loss.backward()
    return forward, counter.get_total_flops() - forward


def test_forward_flops_equal_torchs_counter(case):
    """The FLOPs of a forward are those that FlopCounterMode counts while the real model runs."""
    cost = peek_backend.dryrun(case.make, keywords=case.inputs()).cost
    assert cost.flops == counted(case, train=False)[0] > 0


def attention_scores(record) -> int:
    """FLOPs of the scores that flash attention computes a second time in its backward, which plain attention keeps."""
    graph = next(g for g in record.graphs if g.stage == "backward")
    nodes = [n for n in graph.nodes if "flash_attention_for_cpu_backward" in n.target]
    shapes = [[graph.nodes[n.args[i].node].value.shape for i in (1, 2)] for n in nodes]
    return sum(2 * b * h * s * width * k[2] for (b, h, s, width), k in shapes)


def test_backward_flops_equal_torchs_counter(case):
    """Forward and backward of a training step count what FlopCounterMode does, flash attention's second scores apart."""
    record = peek_backend.dryrun(case.make, keywords=case.inputs(), train=True, eval_mode=not case.training)
    totals = record.cost.totals
    forward, backward = counted(case, train=True)
    assert totals.forward_flops == forward
    assert totals.backward_flops - attention_scores(record) == backward


def test_even_experts_cost_what_routed_ones_do():
    """Mixtral with equally many rows for each expert counts what FlopCounterMode counts of the real one, whose router decides."""
    require("transformers")
    rows = {"input_ids": torch.arange(64).view(4, 16)}  # enough different tokens that every expert gets some
    for train in (False, True):
        record = peek_backend.dryrun(mixtral, keywords=rows, train=train)
        forward, backward = counted(Case(routed_mixtral, lambda: rows), train=train)
        totals = record.cost.totals
        assert totals.forward_flops == forward
        if train:
            assert totals.backward_flops - attention_scores(record) == backward


def by_hand(function, *specs, **how):
    return peek_backend.dryrun(function, *specs, **how).cost


def test_a_linear_layer_by_hand():
    """A linear layer of 8 × 16 rows from 32 to 64 features takes 2·8·16·32·64 operations and moves input, weight and output."""
    cost = by_hand(F.linear, "f32[8, 16, 32]", "f32[64, 32]")
    assert cost.flops == 2 * 8 * 16 * 32 * 64
    assert cost.bytes == 4 * (8 * 16 * 32 + 64 * 32 + 8 * 16 * 64)


def test_attention_by_hand():
    """Flash attention counts both its products for every query head, heads that share keys too, and keeps no scores."""
    shape = "f32[2, 8, 32, 16]"
    cost = by_hand(F.scaled_dot_product_attention, shape, shape, shape)
    assert cost.flops == 2 * 2 * (2 * 8 * 32 * 32 * 16)
    tensor = 4 * 2 * 8 * 32 * 16
    assert cost.peak_memory < 5 * tensor < 4 * 2 * 8 * 32 * 32 + 4 * tensor
    grouped = by_hand(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        shape,
        "f32[2, 2, 32, 16]",
        "f32[2, 2, 32, 16]",
    )
    assert grouped.flops == cost.flops


def test_vectors_by_hand():
    """Products that torch has no formula for: dot, matrix-vector, and distances' own."""
    assert by_hand(torch.dot, "f32[64]", "f32[64]").flops == 2 * 64
    assert by_hand(torch.mv, "f32[32, 64]", "f32[64]").flops == 2 * 32 * 64
    assert by_hand(torch.addmv, "f32[32]", "f32[32, 64]", "f32[64]").flops == 2 * 32 * 64


def test_views_are_free():
    """Views move nothing and take no memory, a copy moves its bytes twice."""
    free = by_hand(lambda x: x.view(4, 4).t().unsqueeze(0).expand(8, 4, 4)[1:], "f32[16]")
    assert (free.flops, free.bytes) == (0, 0)
    assert free.peak_memory == 16 * 4
    copied = by_hand(lambda x: x.t().contiguous(), "f32[4, 8]")
    assert copied.bytes == 2 * 4 * 32


def test_an_embedding_reads_the_rows_it_needs():
    """Looking up 6 rows of a large table reads 6 rows and the indices."""
    cost = by_hand(F.embedding, "i64[2, 3]", "f32[1000, 8]")
    assert cost.totals.read == 6 * 8 + 6 * 8 * 4
    assert cost.totals.written == 6 * 8 * 4


@pytest.mark.parametrize("train", [False, True])
def test_a_bag_of_embeddings_reads_the_rows_it_needs(train):
    """Three bags of 2 rows each read 6 rows of the table, the indices and where each bag begins; they write no more."""
    record = peek_backend.dryrun(
        lambda: torch.nn.EmbeddingBag(1000, 8), "i64[6]", "i64[3]", train=train, stages=("dynamo", "forward")
    )
    graph = next(g for g in record.graphs if g.stage == ("forward" if train else "dynamo"))
    (bag,) = [n for n in graph.nodes if "embedding_bag" in n.target]
    assert bag.cost.read == 6 * 8 * 4 + 6 * 8 + 3 * 8
    assert 3 * 8 * 4 <= bag.cost.written <= 3 * 8 * 4 + (6 + 3 + 3) * 8


def test_symbolic_costs_hold_at_other_sizes():
    """With dynamic dims the price is an expression, whose value at other sizes is what those sizes cost."""
    symbolic = by_hand(lambda x, w: torch.relu(x @ w), "f32[batch=8, 32]", "f32[32, 64]")
    (name,) = {s.name for s in symbolic._record.graphs[0].symbols}
    assert symbolic.expressions.flops == f"4096*{name}"
    assert symbolic.flops == 4096 * 8
    other = by_hand(lambda x, w: torch.relu(x @ w), "f32[24, 32]", "f32[32, 64]")
    there = symbolic.at(**{name: 24})
    assert (there.flops, there.bytes, there.peak_memory) == (other.flops, other.bytes, other.peak_memory)


def two_products(x, y, w):
    return (x @ w).sum() + (y @ w @ w).sum()


def test_inputs_that_are_alike_have_names_of_their_own():
    """Of two inputs of one dtype and shape each has its own name for a dim, and a price at its own size."""
    cost = by_hand(two_products, "f32[a=4, 8]", "f32[b=4, 8]", "f32[8, 8]")
    assert cost.at(a=6).flops == 2 * 8 * 8 * (6 + 2 * 4)
    assert cost.at(b=6).flops == 2 * 8 * 8 * (4 + 2 * 6)


class Wrapped(torch.nn.Module):
    """Inputs by keyword, one of them in a dict."""

    def forward(self, *, w, **rest):
        return two_products(rest["x"], rest["more"]["y"], w)


def test_one_name_is_one_size():
    """A name that two inputs share is the size of both, where torch has a symbol for each too."""
    wanted = 2 * 8 * 8 * (6 + 2 * 6)
    cost = by_hand(two_products, "f32[a=4, 8]", "f32[a=4, 8]", "f32[8, 8]")
    assert cost.at(a=6).flops == wanted
    keywords = {"x": "f32[a=4, 8]", "more": {"y": "f32[a=4, 8]"}, "w": "f32[8, 8]"}
    named = by_hand(Wrapped, keywords=keywords)
    assert named.at(a=6).flops == wanted
    assert "= a (4 here)" in str(named) and "shape[0]" not in str(named).partition("where")[2].splitlines()[0]


def broken(x, w):
    y = x @ w
    torch._dynamo.graph_break()
    return y @ w + x.sum()


def test_a_size_that_a_break_hides_is_refused():
    """After a graph break torch takes sizes as they come: a price at another size, which would mix the two, is refused."""
    cost = by_hand(broken, "f32[a=4, 8]", "f32[8, 8]")
    assert cost.at(a=4).flops == 2 * 2 * 4 * 8 * 8
    with pytest.raises(
        peek_backend.PeekError, match=r"a=6 does not reach graph 1/0\n.* y, 4 long too"
    ) as error:
        cost.at(a=6)
    assert "in the input's spec" in error.value.fix
    free = by_hand(broken, "f32[a=4, 8]", "f32[8, 8]", dynamic=True)
    with pytest.raises(peek_backend.PeekError, match="a symbol of its own, s"):
        free.at(a=6)


def test_an_unknown_symbol_is_refused():
    """A size for a symbol that no graph has is a mistake that names those there are."""
    cost = by_hand(torch.sin, "f32[n=8]")
    with pytest.raises(peek_backend.PeekError, match="unknown symbol 's999'"):
        cost.at(s999=4)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "out of range"),
        (1, "hold for 2 to"),
        (-3, "out of range"),
        (1.5, "no size"),
        (True, "no size"),
        ("8", "no size"),
    ],
)
def test_a_size_that_the_graph_is_not_for_is_refused(value, said):
    """A size below the symbol's range, and what is no whole number, is refused: torch compiles another graph for it."""
    cost = by_hand(torch.sin, "f32[n=8]")
    with pytest.raises(peek_backend.PeekError, match=said):
        cost.at(n=value)
    assert cost.at(n=2).peak_memory == 2 * 2 * 4


def test_branches_count_the_dearer_one():
    """Of ``torch.cond`` the dearer branch is counted, as FlopCounterMode does."""

    def branching(x, w):
        return torch.cond(x.sum() > 0, lambda x, w: x @ w @ w, lambda x, w: x @ w, (x, w))

    assert by_hand(branching, "f32[8, 8]", "f32[8, 8]").flops == 2 * (2 * 8 * 8 * 8)


class Halves(torch.nn.Module):
    """A branch and a checkpointed layer, each with products of its own."""

    def __init__(self):
        super().__init__()
        self.cheap, self.layer = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.dear = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Linear(64, 8))

    def forward(self, x):
        x = torch.utils.checkpoint.checkpoint(self.layer, x, use_reentrant=False)
        return torch.cond(x.sum() > 0, lambda y: self.cheap(y).relu(), lambda y: self.dear(y).relu(), (x,))


@pytest.mark.parametrize("batch", ["4", "batch=4"])
def test_modules_cost_what_they_do_in_bodies(batch):
    """What runs in a checkpoint, or in the branch that is counted, is the cost of its modules; the other branch costs none."""
    cost = peek_backend.dryrun(Halves, f"f32[{batch}, 8]").cost
    found = {line.path: line.flops for line in cost.modules()}
    dear = 2 * 4 * 8 * 64
    assert found == {"": 2 * 4 * 8 * 8 + 2 * dear, "layer": 2 * 4 * 8 * 8, "cheap": 0, "dear": 2 * dear,
                     "dear.0": dear, "dear.1": dear}  # fmt: skip
    bounds = cost.roofline("h100-80gb").bounds
    assert {b.module for b in bounds if b.compute} == {"layer", "dear.0", "dear.1"}


def test_a_bilinear_layer_by_hand():
    """Each of 4 outputs takes a product of 3 × 8 with 8 × 6, and one of its rows with the other input's."""
    cost = by_hand(lambda: torch.nn.Bilinear(8, 6, 4), "f32[3, 8]", "f32[3, 6]")
    assert cost.flops == 4 * (2 * 3 * 8 * 6 + 2 * 3 * 6)
    assert cost.totals.unknown == ()


def test_vmap_counts_every_example():
    """Ops inside ``vmap`` are counted for the whole batch."""
    cost = by_hand(lambda x, w: torch.vmap(lambda row: w @ row)(x), "f32[5, 8]", "f32[16, 8]")
    assert cost.flops == 5 * 2 * 16 * 8


def test_autocast_halves_the_bytes():
    """Under autocast a product reads and writes bfloat16, whatever the device it is switched on for."""

    def mixed(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            return x @ w

    plain = by_hand(lambda x, w: x @ w, "f32[64, 64]", "f32[64, 64]")
    half = by_hand(mixed, "bf16[64, 64]", "bf16[64, 64]")
    assert half.flops == plain.flops
    assert half.bytes * 2 == plain.bytes


def test_an_op_without_a_formula_is_told():
    """A custom op counts no FLOPs, and the summary says so."""
    with torch.library._scoped_library("peek_price", "FRAGMENT") as library:
        library.define("double(Tensor x) -> Tensor")
        library.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("double", torch.empty_like, "Meta")
        cost = by_hand(torch.ops.peek_price.double, "f32[8]")
        (why, count), *_ = cost.totals.unknown
    assert count == 1
    assert "peek_price::double has no FLOP formula" in why
    assert "peek_price::double" in str(cost)


def test_inspect_prices_on_request():
    """``inspect(…, cost=True)`` prices a real run; without it the record says how to get costs."""
    x = torch.ones(4, 8)
    assert peek_backend.inspect(lambda x: x @ x.t(), x, cost=True).cost.flops == 2 * 4 * 4 * 8
    with pytest.raises(peek_backend.PeekError, match="cost=True"):
        _ = peek_backend.inspect(lambda x: x @ x.t(), x).cost.flops


def test_pricing_adds_no_guard():
    """A dynamic function that is priced while it compiles is compiled once, with the guards that it has without."""
    from torch._dynamo.testing import CompileCounter

    from peek_backend.capture.cost import pricing

    def f(x, w):
        return torch.cat([F.gelu(x @ w), x @ w]).view(2, -1, 16).unfold(1, 3, 2).sum(-1)

    def guards(priced: bool) -> list[str]:
        torch._dynamo.reset()
        counter = CompileCounter()
        compiled = torch.compile(f, backend=counter, dynamic=True)
        with peek_backend.session() as session, pricing() if priced else contextlib.nullcontext():
            for rows in (10, 11, 12):
                compiled(torch.ones(rows, 6), torch.ones(6, 16))
        assert counter.frame_count == 1
        (graph,) = session.record.graphs
        assert any(n.cost is not None for n in graph.nodes) == priced
        return [g.text if hasattr(g, "text") else str(g) for g in graph.guards]

    assert guards(True) == guards(False)


def encoder(norm_first=False, activation="relu"):
    layer = torch.nn.TransformerEncoderLayer(
        32, 4, 64, batch_first=True, dropout=0.0, norm_first=norm_first, activation=activation
    )
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


@pytest.mark.parametrize("how", [{}, {"norm_first": True}, {"activation": "gelu"}], ids=str)
def test_layers_in_one_op_count_their_products(how):
    """torch's one-op encoder layer, which inference takes, counts the products that it takes in training op by op."""
    fused = peek_backend.dryrun(lambda: encoder(**how), "f32[2, 8, 32]")
    apart = peek_backend.dryrun(lambda: encoder(**how), "f32[2, 8, 32]", train=True)
    assert any("_transformer_encoder_layer_fwd" in n.target for n in fused.graphs[0].nodes)
    rows, width, hidden = 2 * 8, 32, 64
    by_hand = 2 * (2 * rows * (4 * width * width + 2 * width * hidden) + 4 * rows * 8 * width)
    assert fused.cost.flops == apart.cost.totals.forward_flops == by_hand
    assert not fused.cost.totals.unknown


def test_attention_in_one_op_counts_its_products():
    """``_native_multi_head_attention`` counts projections and scores, with the weights returned or not."""

    def attend(x, qkv, bias, out, out_bias):
        return torch._native_multi_head_attention(x, x, x, 32, 4, qkv, bias, out, out_bias)

    cost = by_hand(attend, "f32[2, 8, 32]", "f32[96, 32]", "f32[96]", "f32[32, 32]", "f32[32]")
    assert cost.flops == 2 * 16 * 4 * 32 * 32 + 4 * 16 * 8 * 32


def test_products_without_a_formula_are_told():
    """An inverse counts no FLOPs, as in torch's counter, and the summary says so; its check of errors is free."""

    def invert(w, x):
        return torch.linalg.inv(w) @ x

    cost = by_hand(invert, "f32[6, 6]", "f32[6, 2]")
    assert cost.flops == 2 * 6 * 6 * 2
    assert [why for why, _ in cost.totals.unknown] == [
        "aten::linalg_inv_ex has no FLOP formula (flop_counter.register_flop_formula)"
    ]
    trained = by_hand(invert, "f32[6, 6] grad", "f32[6, 2]", train=True)
    assert not any("with_effects" in why for why, _ in trained.totals.unknown)
