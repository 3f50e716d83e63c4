"""What each node of a graph costs by one measure, to colour a picture by.

Comes in: a record, priced or not; one without prices is priced from its shapes. Goes out: numbers by node, at the sizes that were
seen while tracing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from ..errors import PeekError, unknown_name
from ..model import CaptureRecord, Dim, GraphRecord, NodeCost, NodeRecord
from .cost import Sizes
from .estimate import estimated, is_priced
from .memory import Timeline, timeline
from .sums import total
from .traced import in_numbers

HEATS = ("flops", "bytes", "memory")
"""Floating-point operations, bytes read and written, bytes alive while a node runs."""


class Amounts(Struct, frozen=True):
    """One measure of every node of a graph, or of a body that it runs.

    ``by_view`` has one list a graph: key -1 the graph itself, else the child with that index; None where a node has no price.
    ``whole`` is the sum over the graph's own nodes (a body's are in the op that runs it), of memory the most at once.
    ``reasons`` tell by view and node why a price is missing. ``worked_out`` says that prices follow from shapes, none
    having been recorded.
    """

    heat: str
    by_view: dict[int, tuple[int | None, ...]]
    whole: int
    reasons: dict[tuple[int, int], str]
    worked_out: bool

    @property
    def adds_up(self) -> bool:
        """Whether several nodes have the sum of what each has; of memory they have the most."""
        return self.heat != "memory"

    def of(self, view: int, nodes: Iterable[int]) -> int | None:
        """What these nodes have together; None where none has a price."""
        numbers = self.by_view.get(view, ())
        known = [n for n in (numbers[i] for i in nodes if i < len(numbers)) if n is not None]
        if not known:
            return None
        return sum(known) if self.adds_up else max(known)

    def unknown(self) -> list[tuple[str, int]]:
        """Why prices are missing, with the number of nodes that each reason concerns."""
        return Counter(self.reasons.values()).most_common()


def amounts(record: CaptureRecord, heat: str) -> list[Amounts]:
    """By ``heat`` what the nodes of each graph of ``record`` cost, in the record's order.

    Raises PeekError for an unknown heat.
    """
    if heat not in HEATS:
        raise unknown_name("heat", heat, HEATS)
    priced = in_numbers(estimated(record, Sizes()))
    of_graph = _memory(priced) if heat == "memory" else _sums(heat)
    pairs = zip(record.graphs, priced.graphs, strict=True)
    return [of_graph(graph, not is_priced(before)) for before, graph in pairs]


_Measure = Callable[[GraphRecord, bool], Amounts]


def _sums(heat: str) -> _Measure:
    """FLOPs or bytes, which add up."""

    def measure(graph: GraphRecord, worked_out: bool) -> Amounts:
        parts = {-1: graph, **dict(enumerate(graph.children))}
        costs = {view: [_price(node, heat) for node in part.nodes] for view, part in parts.items()}
        numbers = {
            view: tuple([c if type(c) is int else None for c in found]) for view, found in costs.items()
        }
        reasons = {
            (view, node.index): why
            for view, part in parts.items()
            for node, size in zip(part.nodes, costs[view], strict=True)
            if (why := _why_unknown(node.cost, size, heat))
        }
        whole = sum(n for n in numbers[-1] if n is not None)
        return Amounts(heat, numbers, whole, reasons, worked_out)

    return measure


def _price(node: NodeRecord, heat: str) -> Dim | None:
    """A number; an expression where a size is read from data; None for what computes nothing or has no price."""
    cost = node.cost
    if cost is None or node.op in ("placeholder", "get_attr", "output"):
        return None
    size = cost.flops if heat == "flops" else total((cost.read, cost.written))
    return None if cost.unknown and not size else size


def _why_unknown(cost: NodeCost | None, size: Dim | None, heat: str) -> str:
    if isinstance(size, str):
        return f"it depends on a size that is read from data: {size}"
    return cost.unknown if cost is not None and (size is None or heat == "flops") else ""


def _memory(priced: CaptureRecord) -> _Measure:
    """Bytes alive while each node runs; of a graph that is not on the time line nothing is known."""
    try:
        during = alive_during(timeline(priced))
    except PeekError:
        during = {}

    def measure(graph: GraphRecord, worked_out: bool) -> Amounts:
        steps = during.get(id(graph), {})
        numbers = tuple([steps.get(node.index) for node in graph.nodes])
        return Amounts("memory", {-1: numbers}, max(steps.values(), default=0), {}, worked_out)

    return measure


def alive_during(memory: Timeline) -> dict[int, dict[int, int]]:
    """Bytes alive while each node runs: by the ``id`` of its graph, then the node's index."""
    found: dict[int, dict[int, int]] = {}
    for step in memory.steps:
        found.setdefault(id(memory.graphs[step.graph]), {})[step.node] = step.during
    return found


__all__ = ["HEATS", "Amounts", "alive_during", "amounts"]
