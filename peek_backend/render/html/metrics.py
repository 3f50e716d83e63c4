"""What the page knows of cost: columns of numbers for every node, and the sums of the overview.

Comes in: a record, priced or not; one without prices is priced from its shapes. Goes out: dicts of numbers and texts, all at the
sizes that were seen while tracing.
"""

from __future__ import annotations

from typing import Any

from ...analysis.cost import Costs, ModuleCost, Sizes, by_module, costs
from ...analysis.estimate import estimated, is_priced
from ...analysis.heat import alive_during
from ...analysis.memory import Timeline, timeline
from ...analysis.traced import in_numbers
from ...errors import PeekError
from ...model import CaptureRecord, Dim
from .. import labels
from ..cost import count_text, flops_text, parameters_text, ratio_text, size_text
from .payload import clean

MODULES = 12
"""Modules that the overview lists, the dearest first."""
DEEPEST = 3


class Metrics:
    """The costs of one record: those of torch's own formulas where it has them, else those that follow from shapes."""

    def __init__(self, record: CaptureRecord):
        self._priced = [is_priced(graph) for graph in record.graphs]
        self.record = in_numbers(estimated(record, Sizes()))
        self._memory = self._timeline()
        self._during = {} if self._memory is None else alive_during(self._memory)

    def _timeline(self) -> Timeline | None:
        """Memory over time; None where storages are not recorded, or nothing has a price."""
        held = any(node.cost is not None and node.cost.made for g in self.record.graphs for node in g.nodes)
        try:
            return timeline(self.record) if held else None
        except PeekError:
            return None

    def columns(self, position: int) -> dict[str, Any] | None:
        """FLOPs, bytes read and written, and live bytes of each node of a graph; -1 where unknown, None without any."""
        graph = self.record.graphs[position]
        if not any(node.cost is not None for node in graph.nodes):
            return None
        during = self._during.get(id(graph), {})
        priced = [node.cost for node in graph.nodes]
        columns: dict[str, Any] = {
            "flops": [-1 if c is None else _number(c.flops) for c in priced],
            "read": [-1 if c is None else _number(c.read) for c in priced],
            "written": [-1 if c is None else _number(c.written) for c in priced],
        }
        if during:
            columns["memory"] = [during.get(node.index, -1) for node in graph.nodes]
        unknown = {
            n.index: clean(n.cost.unknown) for n in graph.nodes if n.cost is not None and n.cost.unknown
        }
        return columns | {"unknown": unknown, "estimated": not self._priced[position]}

    def facts(self) -> dict[str, Any] | None:
        """What the overview tells: the sums, and the modules that cost most; None where nothing has a price."""
        try:
            found = costs(self.record)
            modules = by_module(self.record, depth=DEEPEST)
        except PeekError:
            return None
        if not found.flops and not found.bytes:
            return None
        return {
            "estimated": not any(self._priced),
            "rows": [row for row in self._rows(found) if row["value"]],
            "modules": [_module(line) for line in _dearest(modules)],
            "unknown": [f"{labels.plural(count, 'node')}: {clean(why)}" for why, count in found.unknown],
        }

    def _rows(self, found: Costs) -> list[dict[str, str]]:
        passes = f"forward {flops_text(found.forward_flops)}, backward {flops_text(found.backward_flops)}"
        buffers = f"and buffers of {size_text(found.buffer_bytes)}" if found.buffer_bytes else ""
        return [
            _row("FLOPs", flops_text(found.flops) if found.flops else "", passes if found.backward_flops else ""),
            _row("bytes moved", size_text(found.bytes), f"{size_text(found.read)} read, {size_text(found.written)} written"),
            _row("FLOP per byte", ratio_text(found.intensity) if found.intensity else "", "if nothing is fused"),
            _row("parameters", parameters_text(found.parameters) if found.parameters else "",
                 f"{size_text(found.parameter_bytes)} {buffers}".strip()),
            self._peak(),
        ]  # fmt: skip

    def _peak(self) -> dict[str, str]:
        """The most memory at once, and during which op; of several graphs that do not belong together none."""
        memory = self._memory
        if memory is None or (len(memory.graphs) > 1 and self.record.dryrun is None):
            return _row("", "", "")
        node = memory.peak_node
        at = f"during {labels.name_text(node.name)}" if node is not None else ""
        return _row("peak memory", size_text(memory.peak), clean(at))


def _row(label: str, value: str, note: str) -> dict[str, str]:
    return {"label": label, "value": value, "note": note}


def _dearest(modules: list[ModuleCost]) -> list[ModuleCost]:
    """The modules with the most FLOPs, then bytes; the whole is left out, and so is what holds one module alone."""

    def price(line: ModuleCost) -> tuple[int, int]:
        return (_number(line.flops), _number(line.moved))

    return sorted((m for m in modules if m.depth), key=price, reverse=True)[:MODULES]


def _number(size: Dim) -> int:
    return size if isinstance(size, int) else -1


def _module(line: ModuleCost) -> dict[str, Any]:
    times = f" ×{line.modules}" if line.modules > 1 else ""
    return {
        "path": clean(f"{line.path}{times}"),
        "module": clean(line.path) if line.modules == 1 else "",
        "kind": clean(line.kind),
        "flops": flops_text(line.flops) if line.flops else "",
        "share": line.share,
        "moved": size_text(line.moved),
        "parameters": count_text(line.parameters) if line.parameters else "",
    }
