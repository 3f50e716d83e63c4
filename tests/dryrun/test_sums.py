"""Sums of symbolic sizes, and the price by module: like terms joined, nothing lost, nothing counted twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peek_backend.analysis.cost import Sizes, by_module, costs
from peek_backend.analysis.dims import evaluate
from peek_backend.analysis.folding import Folding
from peek_backend.analysis.sums import total
from peek_backend.errors import PeekError
from peek_backend.model import DryRun, HeldTensor, NodeCost
from peek_backend.render.cost import count_text, module_table, module_tree, parameters_text
from tests.builders import GraphBuilder, capture, tensor, transformer


@pytest.mark.parametrize(
    ("sizes", "sum_"),
    [
        ([], 0),
        ([1, 2], 3),
        (["4*s0", "8*s0"], "12*s0"),
        (["s0*s1", "s1*s0", 3], "2*s0*s1 + 3"),
        (["s0**2", "s0*s0", "s0"], "2*s0**2 + s0"),
        (["4*s0", "-4*s0", 7], 7),
        (["s0 - 1", 1], "s0"),
        (["2*(s0 + 1)", "s1"], "2*s0 + s1 + 2"),
        (["(s0//2)", "3*(s0//2)"], "4*(s0 // 2)"),
        (["Max(1, s0)", "Max(1, s0)"], "2*Max(1, s0)"),
        (["s0 +", "s0 +"], "2*(s0 +)"),
    ],
)
def test_like_terms_are_joined(sizes, sum_):
    """Sums are what a person would write; what cannot be read is kept as it stands."""
    assert total(sizes) == sum_


_ATOMS = st.sampled_from(["s0", "s1", "u0", "(s0//3)", "Max(2, s1)"])
_TERMS = st.builds(
    lambda n, names: "*".join([str(n), *names]), st.integers(-9, 9), st.lists(_ATOMS, min_size=1, max_size=3)
)
_EXPRESSIONS = st.one_of(st.integers(-99, 99), st.lists(_TERMS, min_size=1, max_size=3).map(" + ".join))


@given(
    st.lists(_EXPRESSIONS, max_size=6),
    st.fixed_dictionaries({n: st.integers(1, 50) for n in ("s0", "s1", "u0")}),
)
def test_a_sum_has_the_value_of_its_parts(sizes, values):
    """At any sizes a sum is worth what its parts are worth together."""
    parts = [evaluate(s, values) for s in sizes]
    assert evaluate(total(sizes), values) == sum(parts)


def priced():
    """Two layers of two products each, on a model of four parameters, tied two and two."""
    g = GraphBuilder()
    x, w = g.input("x", tensor(4, 4)), g.parameter("layers.0.a.weight", tensor(4, 4))
    for i in range(2):
        for part, flops in (("a", 100), ("b", "s0*10")):
            x = g.call("torch.matmul", x, w, value=tensor(4, 4), module=f"layers.{i}.{part}")
            g.nodes[-1] = _with_cost(g.nodes[-1], NodeCost(flops, 8, 4))
    g.output(x)
    held = (
        HeldTensor("layers.0.a.weight", 0, 16, 64, "float32"),
        HeldTensor("layers.1.a.weight", 0, 16, 64, "float32"),
        HeldTensor("layers.0.b.weight", 1, 4, 16, "float32"),
        HeldTensor("layers.1.b.weight", 1, 4, 16, "float32"),
    )
    import msgspec

    return msgspec.structs.replace(
        capture(g.graph()),
        dryrun=DryRun("cuda", held=held, modules={"": "Net", "layers.0": "Block", "layers.1": "Block"}),
    )


def _with_cost(node, cost):
    import msgspec

    return msgspec.structs.replace(node, cost=cost)


def test_modules_add_up():
    """A module's price is that of all inside it, tied parameters counted once, equal layers joined."""
    record = priced()
    lines = {m.path: m for m in by_module(record, Sizes({"s0": 7}))}
    assert lines[""].flops == 2 * (100 + 70) == costs(record, Sizes({"s0": 7})).flops
    assert (lines["layers.*"].modules, lines["layers.*"].flops, lines["layers.*"].kind) == (2, 340, "Block")
    assert (lines["layers.*.b"].flops, lines["layers.*.b"].share) == (140, 140 / 340)
    assert (lines[""].parameters, lines["layers.*.a"].parameters) == (20, 16)
    assert [m.path for m in by_module(record, depth=1)] == ["", "layers"]
    assert {m.path for m in by_module(record, fold=False)} >= {"layers.0.a", "layers.1.b"}


def test_symbolic_prices_stay_expressions():
    """Without values the sums are expressions, and shares are not told."""
    lines = {m.path: m for m in by_module(priced())}
    assert lines[""].flops == "20*s0 + 200"
    assert lines["layers.*.a"].flops == 200
    assert lines["layers.*.a"].share is None


def labels(classes, weights=()):
    """Label of each path; ``weights`` are (name, elements)."""
    held = [HeldTensor(name, i, numel, 4 * numel, "float32") for i, (name, numel) in enumerate(weights)]
    folding = Folding(classes, held)
    return {path: folding.label(path) for path in classes}


def test_alike_siblings_fold():
    """Layers of one class with the same inside are one line, at every level; a name that ends in a digit stays."""
    classes = {
        f"layers.{i}{end}": kind
        for i in range(3)
        for end, kind in (("", "Block"), (".fc1", "Linear"), (".fc2", "Linear"))
    }
    assert set(labels(classes).values()) == {"layers.*", "layers.*.fc1", "layers.*.fc2"}
    assert labels({"layers.0": "Block"}) == {"layers.0": "layers.0"}


def test_different_siblings_keep_their_numbers():
    """Members of a Sequential fold where class, parameters and inside agree, and nowhere else."""
    assert labels({"0": "Linear", "1": "ReLU", "2": "Linear"}) == {"0": "0,2", "1": "1", "2": "0,2"}
    sizes = [("0.weight", 8), ("1.weight", 8), ("2.weight", 4)]
    assert labels({"0": "Linear", "1": "Linear", "2": "Linear"}, sizes) == {"0": "0,1", "1": "0,1", "2": "2"}
    inside = {"a.0": "Block", "a.1": "Block", "a.1.down": "Conv2d", "a.2": "Block", "a.3": "Block"}
    assert labels(inside)["a.3"] == "a.0,2,3"
    many = {str(i): "ReLU" if i % 2 else "Linear" for i in range(12)}
    assert labels(many)["0"] == "0,2,4,…"


def test_tables_and_trees_show_every_module():
    """Table and tree have a line for each module, the dearest first where that is asked for."""
    record = priced()
    assert module_tree(record, Sizes({"s0": 7})).splitlines()[1].startswith("└─ layers")
    rows = module_table(record, Sizes({"s0": 20}), sort="flops", format="tsv").splitlines()[1:]
    assert [row.split("\t")[0].strip() for row in rows] == [
        "all",
        "layers",
        "layers.* ×2",
        "layers.*.b ×2",
        "layers.*.a ×2",
    ]
    with pytest.raises(PeekError, match="unknown sort 'flop'"):
        module_table(record, sort="flop")


def test_a_capture_without_costs_says_how_to_get_them():
    """Asking an ordinary capture for its price tells what to call."""
    with pytest.raises(PeekError, match="no costs"):
        costs(capture(transformer(1)))


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (812, "812"), (999.6, "1 k"), (70_553_706_496, "70.6 G"), (1.25e12, "1.25 T")],
)
def test_counts(number, text):
    """Three digits and a decimal prefix."""
    assert count_text(number) == text


def test_parameters_read_as_on_model_cards():
    """Thousand millions are B."""
    assert parameters_text(70_553_706_496) == "70.6 B"
