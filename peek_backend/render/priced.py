"""A capture's price with everything that can be asked of it: ``record.cost``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ..analysis.cost import Costs, ModuleCost, Sizes, by_module, costs, resolved
from ..analysis.devices import Device, device_named
from ..analysis.memory import Timeline, timeline
from ..analysis.roofline import Roofline, roofline
from ..model import CaptureRecord, Dim
from . import cost as text
from .fitting import wrapped
from .memory import alive_table, memory_data, memory_svg, memory_text
from .roofline import roofline_data, roofline_table, roofline_text


class Cost:
    """FLOPs, bytes, parameters and memory of a capture, at the sizes seen while tracing, or at others (``at``).

    ``str()`` is the summary. Every number is an int; where a symbol has no value (an unbacked one) an expression.
    """

    def __init__(self, record: CaptureRecord, given: Mapping[str, int] | None = None):
        self._record, self._sizes = record, Sizes(given)

    def at(self, **sizes: int) -> Cost:
        """The price at other sizes, by symbol or by the name that a spec gave the dim: ``cost.at(s0=8, batch=16)``.

        Raises PeekError for a name that no graph has.
        """
        return Cost(self._record, resolved(self._record, sizes))

    @cached_property
    def totals(self) -> Costs:
        """All sums."""
        return costs(self._record, self._sizes)

    @cached_property
    def expressions(self) -> Costs:
        """The sums with every symbol as it is: ``cost.expressions.flops == "3411968*s0*s1"``."""
        return costs(self._record)

    @cached_property
    def memory(self) -> Timeline:
        """Memory over time, its peak and what is alive there."""
        return timeline(self._record, self._sizes)

    @property
    def flops(self) -> Dim:
        """Floating-point operations, a multiply-add being two; forward and backward together."""
        return self.totals.flops

    @property
    def bytes(self) -> Dim:
        """Bytes read and written by all ops, none fused."""
        return self.totals.bytes

    @property
    def intensity(self) -> float | None:
        """FLOP per byte moved."""
        return self.totals.intensity

    @property
    def parameters(self) -> int:
        """Elements of the model's parameters, tied ones once."""
        return self.totals.parameters

    @property
    def parameter_bytes(self) -> int:
        return self.totals.parameter_bytes

    @property
    def peak_memory(self) -> int:
        """The most bytes alive at once: model, inputs, activations and, in training, gradients and optimizer state."""
        return self.memory.peak

    def roofline(self, device: str | Device) -> Roofline:
        """Lower bounds of time on a device of the table (``"h100-80gb"``) or one's own, and whether it fits.

        Raises PeekError naming the nearest device.
        """
        found = device_named(device) if isinstance(device, str) else device
        return roofline(self._record, found, self.memory, self._sizes)

    def modules(self, *, depth: int | None = None, fold: bool = True) -> list[ModuleCost]:
        """The price by module, parents before children; ``fold`` joins paths that differ in numbers alone."""
        return by_module(self._record, self._sizes, depth=depth, fold=fold)

    def table(self, *, depth: int | None = 4, sort: str = "order", format: str = "simple") -> str:
        """The price by module as a table. ``sort`` is order, flops, bytes or parameters."""
        return text.module_table(self._record, self._sizes, depth=depth, sort=sort, format=format)

    def tree(self, *, depth: int | None = 4) -> str:
        """The price by module as a tree with bars."""
        return text.module_tree(self._record, self._sizes, depth=depth)

    def to_json(self, *, depth: int | None = None, on: Device | None = None) -> str:
        """All of it as JSON; with a device its roofline too."""
        data = text.as_data(self._record, self._sizes, depth=depth)
        data["memory"] = memory_data(self.memory)
        if on is not None:
            data["roofline"] = roofline_data(self.roofline(on))
        return json.dumps(data, indent=1, ensure_ascii=False)

    def memory_svg(self) -> str:
        """Memory over time as an SVG, the peak marked."""
        return memory_svg(self.memory)

    def text(
        self,
        *,
        format: str = "simple",
        depth: int | None = 4,
        sort: str = "order",
        on: Device | None = None,
        width: int | None = None,
    ) -> str:
        """Everything for a terminal of ``width`` columns; with ``format="json"`` for a program, with a device its roofline
        too."""
        if format == "json":
            return self.to_json(depth=depth, on=on)
        tables = "simple" if format == "tree" else format
        how: Any = {"depth": depth, "columns": width}
        if format == "tree":
            modules = text.module_tree(self._record, self._sizes, **how)
        else:
            modules = text.module_table(self._record, self._sizes, sort=sort, format=format, **how)
        parts = [wrapped(str(self), width), modules]
        if self.memory.alive:
            parts.append(alive_table(self.memory, tables, columns=width))
        if on is not None:
            bounds = self.roofline(on)
            told = wrapped(roofline_text(bounds), width)
            parts += [told, roofline_table(bounds, tables, columns=width)]
        return "\n\n".join(parts)

    def __str__(self) -> str:
        return f"{text.summary(self._record, self._sizes)}\n{memory_text(self.memory)}"
