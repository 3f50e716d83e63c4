"""Prices as plain numbers, at the sizes that were seen while tracing.

Comes in: a record with prices. Goes out: the same record, each price a number; where a size is read from data it stays an
expression.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..model import CaptureRecord, Dim, GraphRecord, NodeCost, NodeRecord
from .cost import Sizes


def in_numbers(record: CaptureRecord) -> CaptureRecord:
    """``record`` with each price, those in bodies too, at the sizes seen while tracing."""
    return replace(record, graphs=tuple(map(_graph, record.graphs)))


def _graph(graph: GraphRecord) -> GraphRecord:
    """A body has the symbols of the graph that runs it."""
    children = tuple([replace(c, nodes=_nodes(c.nodes, graph)) for c in graph.children])
    return replace(graph, nodes=_nodes(graph.nodes, graph), children=children)


def _nodes(nodes: tuple[NodeRecord, ...], graph: GraphRecord) -> tuple[NodeRecord, ...]:
    """Each expression is worked out once, and what is a number already is left as it is."""
    sizes = Sizes()
    known: dict[str, Dim] = {}

    def number(size: Dim) -> Dim:
        if type(size) is int:
            return size
        if size not in known:
            known[size] = sizes.at(size, graph)
        return known[size]

    def priced(node: NodeRecord) -> NodeRecord:
        c = node.cost
        if c is None or not _is_symbolic(c):
            return node
        made = tuple([(storage, number(size)) for storage, size in c.made])
        parts = {part: number(getattr(c, part)) for part in ("flops", "read", "written", "scratch")}
        return replace(node, cost=replace(c, **parts, made=made))

    return tuple(map(priced, nodes))


def _is_symbolic(cost: NodeCost) -> bool:
    if (
        type(cost.flops) is str
        or type(cost.read) is str
        or type(cost.written) is str
        or type(cost.scratch) is str
    ):
        return True
    return any(type(size) is str for _, size in cost.made)


__all__ = ["in_numbers"]
