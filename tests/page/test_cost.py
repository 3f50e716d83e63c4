"""Cost in the page: recorded prices, or those that follow from shapes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from peek_backend.model import NodeCost
from peek_backend.render.html.metrics import Metrics
from peek_backend.render.labels import bytes_text
from peek_backend.render.theme import DARK, LIGHT, SPAN
from tests.page.synthetic import FFN, HIDDEN, capture

TOKENS = 16
"""The size of s0 while the synthetic capture was traced."""
GATE = 2 * TOKENS * HIDDEN * FFN
"""FLOPs of a gate projection: a multiply-add is two."""


def node_of(record, module: str, target: str = "linear"):
    """The first node of a target in a module."""
    nodes = record.graphs[0].nodes
    return next(n for n in nodes if n.source and n.source.module == module and target in n.target)


def with_prices(record):
    """The capture with a recorded price on each linear: a FLOP a node."""
    graph = record.graphs[0]
    nodes = tuple(
        replace(n, cost=NodeCost(1, 2, "3*s0") if "linear" in n.target else NodeCost()) for n in graph.nodes
    )
    return replace(record, graphs=(replace(graph, nodes=nodes), *record.graphs[1:]))


def test_prices_follow_from_shapes():
    """A linear's FLOPs are worked out at the sizes seen while tracing, and said to be."""
    record = capture(200)
    columns = Metrics(record).columns(0)
    gate = node_of(record, "layers.0.mlp.gate_proj").index
    assert columns["flops"][gate] == GATE
    assert columns["written"][gate] == TOKENS * FFN * 4
    assert columns["estimated"]


def test_recorded_prices_come_first():
    """Where a capture has prices, those are shown, symbols at their hints."""
    record = with_prices(capture(200))
    columns = Metrics(record).columns(0)
    gate = node_of(record, "layers.0.mlp.gate_proj").index
    assert [columns[k][gate] for k in ("flops", "read", "written")] == [1, 2, 3 * TOKENS]
    assert not columns["estimated"]


def test_the_panel_tells_the_cost_of_a_node_and_of_a_container(open_page):
    """FLOPs, bytes, intensity of a node; sum and share of a container."""
    record = capture(200)
    gate = node_of(record, "layers.0.mlp.gate_proj").index
    opened = open_page(record, f"#v=graph&s={gate}")
    text = opened.tab.inner_text(".panel")
    for part in ("worked out from shapes", f"{GATE / 1e6:.0f} MFLOP", "reads", "writes", "FLOP per byte"):
        assert part in text, part
    opened.js("app.select(app.graphView.current.tree.path(app.state.selected)[0])")
    text = opened.tab.inner_text(".panel")
    assert "MFLOP" in text
    assert "% of the graph" in text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_heat_is_strong_where_much_is(open_page, theme):
    """A projection is darker (on dark ground: brighter) than the small product; what has no FLOPs has no colour."""
    record = capture(200)
    gate = node_of(record, "layers.0.mlp.gate_proj").index
    small = next(n.index for n in record.graphs[0].nodes if "silu" in n.target)
    opened = open_page(record, "#v=graph&m=flops", theme=theme)
    fills = opened.js(f"[app.graphView.current.fill({gate}), app.graphView.current.fill({small})]")
    assert fills[0].startswith("#")
    assert fills[1] is None
    moved = opened.js(
        f"(app.set({{ overlay: 'moved' }}), app.graphView.update(), [{gate}, {small}].map(app.graphView.current.fill))"
    )
    shade = [sum(int(colour[i : i + 2], 16) for i in (1, 3, 5)) for colour in moved]
    assert (shade[0] < shade[1]) == (theme == "light")
    assert "B" in opened.tab.inner_text(".legend")


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_heat_has_the_scale_of_pictures(open_page, theme):
    """The overlays take the colours of diagrams in the same theme, and the same span of the scale."""
    opened = open_page(capture(200), "#v=graph&m=moved", theme="light" if theme is LIGHT else "dark")
    scale, most = opened.js(
        """(({ overlay, tree }) => [overlay.scale, Math.max(...[...Array(tree.N + tree.G).keys()].map(
               (i) => i === tree.root ? 0 : overlay.amount(i)))])(app.graphView.current)"""
    )
    assert tuple(scale["colours"]) == theme.heat.scale
    assert (scale["lo"], scale["hi"]) == (f"≤ {bytes_text(round(most / SPAN))}", bytes_text(most))


def test_a_closed_container_has_the_sum_of_its_nodes(open_page):
    """What a container counts is what its nodes count together."""
    record = capture(200)
    opened = open_page(record, "#v=graph&m=flops")
    assert opened.js(
        """(() => { const { tree, graph, overlay } = app.graphView.current;
             return [...Array(tree.G).keys()].every((g) => {
               const sum = tree.leaves(tree.N + g).reduce((s, i) => s + Math.max(0, graph.metrics.flops[i]), 0);
               return sum === 0 || overlay.amount(tree.N + g) === sum; }); })()"""
    )


def test_the_overview_tells_the_cost(open_page):
    """The sums, and the modules that cost most; a module is a search away."""
    opened = open_page(capture(200))
    text = opened.tab.inner_text(".cost")
    for part in (
        "worked out from shapes",
        "FLOPs",
        "bytes moved",
        "FLOP per byte",
        "parameters",
        "layers.*.mlp",
    ):
        assert part in text, part


def test_nodes_are_sorted_and_found_by_flops(open_page):
    """The table has a column of FLOPs; flops:>30M finds the large products."""
    record = capture(200)
    opened = open_page(record, "#v=table&t=flops-")
    assert "lm_head" in opened.js("app.graph.text('module', app.views.table.rows[0])")
    found = opened.js("(app.search('flops:>20M', true), app.hitList.map((i) => app.graph.metrics.flops[i]))")
    assert found
    assert min(found) > 20_000_000


def test_a_capture_without_tensors_has_no_cost(open_page):
    """Nothing to count: no section, no overlay of FLOPs, and nothing breaks."""
    record = capture(20)
    graph = record.graphs[0]
    bare = replace(record, graphs=(replace(graph, nodes=tuple(replace(n, value=None) for n in graph.nodes)),))
    opened = open_page(bare, "#v=graph&m=flops")
    assert opened.tab.locator(".tools option", has_text="FLOPs").count() == 0
    opened.js("app.go('overview')")
    assert opened.tab.locator(".cost").count() == 0
