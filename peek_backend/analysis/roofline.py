"""A lower bound of the time that a capture takes on a device, and whether it fits.

Comes in: a record whose nodes have costs, a device. Goes out: a Roofline. After Williams, Waterman and Patterson, "Roofline:
an insightful visual performance model" (2009): an op takes at least its FLOPs over the device's peak rate for its dtype, and
at least its bytes over the bandwidth. Each op counts its own reads and writes; a compiler that fuses ops moves less, so that
the sum over ops bounds a run op by op.
``fused`` bounds any run: all FLOPs, and each input, parameter and output moved once.
"""

from __future__ import annotations

import re

from msgspec import Struct

from ..model import (
    CaptureRecord,
    GraphRecord,
    NodeRecord,
    iter_stored,
    iter_tensors,
    node_refs,
)
from .cost import PricedOp, Sizes, costed, folding_of, priced_ops
from .devices import Device
from .memory import Timeline
from .totals import nbytes_at


class Bound(Struct, frozen=True):
    """The least time in seconds of the ops of one module, or of all its alike siblings (``layers.*``), with one target.

    ``by`` is ``compute`` or ``memory``, whichever takes longer.
    """

    module: str
    target: str
    ops: int
    seconds: float
    compute: float
    memory: float

    @property
    def by(self) -> str:
        return "compute" if self.compute >= self.memory else "memory"


class Roofline(Struct, frozen=True):
    """``seconds`` is at least what a run op by op takes, ``fused`` what any run takes. ``compute_bound`` is the share of
    ``seconds`` in ops that the device's rate bounds. ``short`` is how many bytes of memory are missing, negative where some
    are left. ``unknown`` counts ops of which nothing is known: symbolic sizes, or a dtype without a rate."""

    device: Device
    seconds: float
    fused: float
    compute_bound: float
    bounds: tuple[Bound, ...]
    peak: int
    unknown: int

    @property
    def short(self) -> int:
        return self.peak - self.device.memory


def roofline(record: CaptureRecord, device: Device, memory: Timeline, sizes: Sizes | None = None) -> Roofline:
    """The bounds of ``record`` on ``device``; ``memory`` is its timeline at the same sizes. Raises PeekError without costs."""
    sizes = sizes or Sizes()
    sums: dict[tuple[str, str], list[float]] = {}
    unknown, folding = 0, folding_of(record)
    for root, op in [(graph, op) for _, graph in costed(record) for op in priced_ops(graph)]:
        times = _times(root, op, device, sizes)
        if times is None:
            unknown += 1
            continue
        key = (folding.label(op.module), op.node.target)
        entry = sums.setdefault(key, [0, 0.0, 0.0, 0.0, 0.0])
        for i, part in enumerate((1, max(times), *times, max(times) if times[0] >= times[1] else 0.0)):
            entry[i] += part
    bounds = [Bound(m, t, int(n), s, c, b) for (m, t), (n, s, c, b, _) in sums.items()]
    seconds = sum(b.seconds for b in bounds)
    computing = sum(entry[4] for entry in sums.values())
    bounds.sort(key=lambda b: -b.seconds)
    fused = _fused(record, device, sizes, sum(b.compute for b in bounds))
    return Roofline(
        device, seconds, fused, computing / seconds if seconds else 0.0, tuple(bounds), memory.peak, unknown
    )


def _times(graph: GraphRecord, op: PricedOp, device: Device, sizes: Sizes) -> tuple[float, float] | None:
    """(compute, memory) seconds of one op of ``graph`` or of a body in it; None where its size or rate is not known."""
    cost = op.node.cost
    assert cost is not None
    flops, read, written = (sizes.at(x, graph) for x in (cost.flops, cost.read, cost.written))
    if isinstance(flops, str) or isinstance(read, str) or isinstance(written, str):
        return None
    rate = device.rate(dtype_of(op.owner, op.node)) if flops else 1.0
    if rate is None:
        return None
    return flops / rate, (read + written) / device.bandwidth


def dtype_of(graph: GraphRecord, node: NodeRecord) -> str:
    """The dtype that an op multiplies in: that of the widest floating tensor it reads, of what is multiplied where scales come
    with it (``_scaled_mm``), else of the integers that it reads, else of its result."""
    read = [t.dtype for i in node_refs(node) for t in iter_tensors(graph.nodes[i].value)]
    if read and _SCALED.search(node.target):
        return read[0]
    found = [d for d in read if d.startswith(("float", "bfloat", "complex"))]
    own = [t.dtype for t in iter_tensors(node.value)]
    return max(found, key=lambda d: _BITS.get(d, 0), default=next(iter([*read, *own]), "float32"))


_SCALED = re.compile(r"scaled_(grouped_)?mm")
_BITS = {
    "float8_e4m3fn": 8, "float8_e5m2": 8, "float8_e4m3fnuz": 8, "float8_e5m2fnuz": 8, "float8_e8m0fnu": 8, "float4_e2m1fn_x2": 4,
    "float16": 16, "bfloat16": 16, "float32": 32, "complex32": 32, "float64": 64, "complex64": 64, "complex128": 128,
}  # fmt: skip


def _fused(record: CaptureRecord, device: Device, sizes: Sizes, compute: float) -> float:
    """The larger of all compute, and what is read of every storage that enters a graph moved once (the sum of both directions
    is no less)."""
    moved = 0
    for _, graph in costed(record):
        entering = {
            storage: sizes.at(size, graph)
            for node in graph.nodes
            if node.op == "placeholder" and node.cost is not None
            for storage, size in node.cost.made
        }
        read = _most_read(graph, sizes)
        moved += sum(min(s, read.get(storage, 0)) for storage, s in entering.items() if isinstance(s, int))
    return max(compute, moved / device.bandwidth)


_LOOKUPS = frozenset(
    ("embedding", "embedding_bag", "_embedding_bag", "_embedding_bag_forward_only", "gather", "index_select",
     "index", "_unsafe_index", "getitem", "take", "take_along_dim")
)  # fmt: skip


def _most_read(graph: GraphRecord, sizes: Sizes) -> dict[int, int]:
    """By storage, the bytes of the largest tensor in it that one op reads: a slice has those of its rows. Of what an op looks
    rows up in, no number is known."""
    most: dict[int, int] = {}
    for node in graph.nodes:
        if node.cost is None or not node.cost.read or not _LOOKUPS.isdisjoint(node.target.split(".")):
            continue
        read = sizes.at(node.cost.read, graph)
        for ref in node_refs(node):
            for part in iter_stored(graph.nodes[ref].value):
                size = nbytes_at(part, sizes.of(graph))
                if part.storage is not None and size is not None and isinstance(read, int):
                    most[part.storage] = max(most.get(part.storage, 0), min(size, read))
    return most
