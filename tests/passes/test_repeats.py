"""Repeats: equal neighbours fold, differences are named, and nothing unequal folds."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from peek_backend.model import Leaf, SymFloat
from peek_backend.passes.hierarchy import build_hierarchy, walk
from peek_backend.passes.repeats import counterparts, find_repeats, find_unlike, structure_keys
from tests.builders import GraphBuilder, graph, node, tensor, transformer

X = tensor("s0", 64)


def repeats(g):
    """The repeats of ``g`` with its tree."""
    return find_repeats(g, build_hierarchy(g))


def with_modules(g, *paths):
    """The graph of builder ``g``, its modules of one class."""
    return replace(g.graph(), modules=dict.fromkeys(paths, "Layer"))


def layers(count, change=None):
    """``count`` layers of norm, linear and residual; ``change(g, i, value)`` may add to layer i."""
    g = GraphBuilder()
    g.modules = {f"layers.{i}": "Layer" for i in range(count)}
    x = g.input("x", X)
    for i in range(count):
        path = f"layers.{i}"
        w = g.parameter(f"{path}.weight", tensor(64, 64))
        h = g.call("torch.nn.functional.layer_norm", x, (64,), module=path, value=X, eps=1e-5)
        h = g.call("torch.nn.functional.linear", h, w, module=path, value=X)
        h = change(g, i, h) if change else h
        x = g.call("_operator.add", x, h, module=path, value=X)
    g.output(x)
    return g.graph()


def edited(g, name_start, module, **fields):
    """``g`` with fields of the node of ``module`` whose name starts so replaced."""
    nodes = [
        replace(n, **fields)
        if n.source and n.source.module == module and n.name.startswith(name_start)
        else n
        for n in g.nodes
    ]
    return replace(g, nodes=tuple(nodes))


def test_equal_layers_fold():
    """32 equal layers are one repeat, chained, without differences."""
    (found,) = repeats(transformer(32))
    assert (found.parent, found.paths[0], found.paths[-1], len(found.paths)) == (
        "",
        "layers.0",
        "layers.31",
        32,
    )
    assert found.chained and found.differences == ()


def test_counterparts_map_to_the_first():
    """Every node of a later instance has the node of the first at the same place, with the same target."""
    g = transformer(5)
    tree = build_hierarchy(g)
    (found,) = find_repeats(g, tree)
    modules = {m.path: m for m in walk(tree)}
    twins = counterparts([modules[p] for p in found.paths])
    assert len(twins) == 4 * (13 + 3)
    for node_, first in twins.items():
        assert g.nodes[node_].target == g.nodes[first].target or g.nodes[node_].op == "placeholder"


def test_another_constant_folds_and_is_named():
    """A layer whose eps differs stays in the fold, which says which eps stands where."""
    g = edited(layers(4), "layer_norm", "layers.2", kwargs={"eps": 1e-6})
    (found,) = repeats(g)
    (difference,) = found.differences
    assert difference.what == "eps" and g.nodes[difference.node].name.startswith("layer_norm")
    assert difference.values == (
        (1e-5, ("layers.0", "layers.1", "layers.3")),
        (1e-6, ("layers.2",)),
    )


def test_another_type_folds_and_is_named():
    """A layer that is wider is named by the type it has."""
    g = edited(layers(3), "linear", "layers.1", value=tensor("s0", 128))
    (found,) = repeats(g)
    assert [(d.what, d.values[1]) for d in found.differences] == [
        ("value", (tensor("s0", 128), ("layers.1",)))
    ]


def test_one_is_not_true():
    """Constants that are equal in Python but of two types are a difference."""
    g = edited(layers(2), "layer_norm", "layers.0", kwargs={"eps": 1})
    g = edited(g, "layer_norm", "layers.1", kwargs={"eps": True})
    assert [d.what for d in repeats(g)[0].differences] == ["eps"]


def test_unbacked_symbols_are_no_difference():
    """Layers that each have an unbacked size of their own are equal."""
    g = edited(layers(2), "linear", "layers.0", value=tensor("u0", 64))
    g = edited(g, "linear", "layers.1", value=tensor("u7", 64))
    assert repeats(g)[0].differences == ()


def test_float_symbols_are_no_difference_but_their_values_are():
    """Layers read their eps as a float symbol each; another eps is told."""

    def eps(first, second):
        g = edited(layers(2), "linear", "layers.0", value=SymFloat("zf48", first))
        return repeats(edited(g, "linear", "layers.1", value=SymFloat("zf1", second)))[0].differences

    assert eps(1e-6, 1e-6) == ()
    assert [d.what for d in eps(1e-6, 1e-5)] == ["value"]


def test_an_extra_op_does_not_fold_and_is_named():
    """Layer 3 with one more op splits the fold; it says what it has more than the others."""
    g = layers(6, lambda g, i, h: g.call("torch.relu", h, module=f"layers.{i}", value=X) if i == 3 else h)
    found = {r.paths for r in repeats(g)}
    assert found == {("layers.0", "layers.1", "layers.2"), ("layers.4", "layers.5")}
    (odd,) = find_unlike(g, build_hierarchy(g))
    assert (odd.path, odd.like, odd.more, odd.fewer) == ("layers.3", "layers.0", (("torch.relu", 1),), ())


def rewired(a, b):
    """Two layers that read two values of before, in the orders given."""
    g = GraphBuilder()
    x, y = g.input("x", X), g.input("y", X)
    for i, order in enumerate((a, b)):
        args = [(x, y)[k] for k in order]
        h = g.call("torch.sub", *args, module=f"l.{i}", value=X)
        h = g.call("torch.div", *args, module=f"l.{i}", value=X)
        g.call("torch.mul", h, args[0], module=f"l.{i}", value=X)
    return with_modules(g, "l.0", "l.1")


@pytest.mark.parametrize(
    ("a", "b", "folds"), [((0, 1), (0, 1), True), ((0, 0), (0, 1), False), ((0, 1), (1, 0), True)]
)
def test_wiring_decides(a, b, folds):
    """One input read twice is another structure than two inputs; which inputs they are is only a difference."""
    found = repeats(rewired(a, b))
    assert bool(found) == folds
    if folds:
        assert {d.what for d in found[0].differences} == (set() if a == b else {"reads"})


def test_own_inputs_are_no_difference():
    """That each layer reads parameters of its own, of unknown kind, is not told as a difference."""
    g = GraphBuilder()
    x = g.input("x", X)
    for i in range(3):
        w = g.input(f"primals_{i}", X, kind="other")
        x = g.call("torch.sin", g.call("torch.mul", x, w, module=f"l.{i}", value=X), module=f"l.{i}", value=X)
    g.output(x)
    (found,) = repeats(with_modules(g, "l.0", "l.1", "l.2"))
    assert found.differences == ()


def test_internal_wiring_decides():
    """The same ops wired otherwise do not fold."""
    g = GraphBuilder()
    x = g.input("x", X)
    for i in (0, 1):
        p = g.call("torch.sin", x, module=f"l.{i}", value=X)
        q = g.call("torch.cos", x if i else p, module=f"l.{i}", value=X)
        g.output(g.call("torch.mul", p, q, module=f"l.{i}", value=X))
    assert repeats(with_modules(g, "l.0", "l.1")) == ()


@pytest.mark.parametrize("inner_returned", [False, True])
def test_what_is_used_outside_decides(inner_returned):
    """A layer whose inner value is also returned is not drawn as one whose value is not."""
    g = GraphBuilder()
    x = g.input("x", X)
    first = g.call("torch.sin", x, module="l.0", value=X)
    a = g.call("torch.cos", first, module="l.0", value=X)
    b = g.call("torch.cos", g.call("torch.sin", a, module="l.1", value=X), module="l.1", value=X)
    g.output(*([first] if inner_returned else []), b)
    assert bool(repeats(with_modules(g, "l.0", "l.1"))) != inner_returned


def test_only_lists_fold():
    """fc1 and fc2, or query and key, are names of their own: they never fold, however alike."""
    g = GraphBuilder()
    x = g.input("x", X)
    names = ("fc1", "fc2", "query", "key")
    for name in names:
        x = g.call("torch.sin", g.call("torch.cos", x, module=name, value=X), module=name, value=X)
    assert repeats(with_modules(g, *names)) == ()


def test_bodies_count_by_their_structure():
    """Layers that run equal bodies fold though each has a body of its own; another body does not."""

    def checkpointed(*targets):
        g = GraphBuilder()
        x = g.input("x", X)
        for i in range(len(targets)):
            body = g.add(f"wrap_body_{i}", "get_attr", f"wrap_body_{i}", body=i)
            x = g.call("torch.ops.higher_order.tag_activation_checkpoint", body, x, module=f"l.{i}", value=X)
            x = g.call("torch.sin", x, module=f"l.{i}", value=X)
        g.output(x)
        bodies = [
            graph(node(0, "x", "placeholder", "x"), node(1, "y", "call_function", t, Leaf(node=0)))
            for t in targets
        ]
        return replace(with_modules(g, *(f"l.{i}" for i in range(len(targets)))), children=tuple(bodies))

    assert len(repeats(checkpointed("torch.cos", "torch.cos"))) == 1
    assert repeats(checkpointed("torch.cos", "torch.tan")) == ()


def test_equal_numbers_mean_equal_structure():
    """Attentions of all layers have one number, the norm another."""
    g = transformer(3)
    keys = structure_keys(g, build_hierarchy(g))
    assert keys["layers.0.attn"] == keys["layers.2.attn"] != keys["layers.0.norm"]


@pytest.mark.slow
def test_time_grows_linearly():
    """Ten times the layers take about ten times as long."""

    def best(g):
        tree = build_hierarchy(g)
        times = []
        for _ in range(3):
            start = time.process_time()
            find_repeats(g, tree)
            times.append(time.process_time() - start)
        return min(times)

    assert best(transformer(1000)) < 25 * best(transformer(100))
