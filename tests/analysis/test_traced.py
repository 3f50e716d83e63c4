"""Prices at the sizes that were seen while tracing."""

from __future__ import annotations

from msgspec.structs import replace

from peek_backend.analysis.traced import in_numbers
from peek_backend.model import NodeCost
from tests.builders import GraphBuilder, capture, symbol, tensor


def test_sizes_become_numbers_and_all_else_stays():
    """Each size with a hint is a number, one read from data its expression; reasons and named buffers are kept."""
    builder = GraphBuilder("f")
    builder.output(builder.input("x", tensor("s0", 4)))
    graph = builder.graph(symbols=(symbol("s0", "x.shape[0]", hint=4),))
    cost = NodeCost("8*s0", "u0", 3, "s0 + 1", ((0, "16*s0"), (1, 7)), "a reason", "aten.mm")
    nodes = (replace(graph.nodes[0], cost=cost), *graph.nodes[1:])
    (found,) = in_numbers(capture(replace(graph, nodes=nodes))).graphs
    assert found.nodes[0].cost == NodeCost(32, "u0", 3, 5, ((0, 64), (1, 7)), "a reason", "aten.mm")
