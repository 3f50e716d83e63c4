"""Which dims the program marked before the compile: ``mark_dynamic``, ``mark_unbacked``, ``mark_static`` and their weak form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import torch

from ..model import GraphRecord, SymbolInfo, TensorMeta

_MARKS = {
    "_dynamo_dynamic_indices": "dynamic",
    "_dynamo_weak_dynamic_indices": "maybe dynamic",
    "_dynamo_unbacked_indices": "unbacked",
    "_dynamo_strict_unbacked_indices": "unbacked",
    "_dynamo_static_indices": "static",
}
"""The attributes that torch's functions set on a tensor, each a set of dims."""

_RANGE = re.compile(r"^dynamic, (\d+) to (\d+)$")


def read_marks(graph: GraphRecord, inputs: Sequence[Any]) -> dict[str, str]:
    """``{"x.shape[0]": "dynamic"}`` for the inputs of a graph, in the order of its placeholders.

    A mark with a range reads ``dynamic, 2 to 16``.
    """
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    marks: dict[str, str] = {}
    for node, value in zip(placeholders, inputs, strict=False):
        if isinstance(node.value, TensorMeta) and isinstance(value, torch.Tensor):
            name = node.source.input if node.source is not None and node.source.input else node.name
            marks.update({f"{name}.shape[{dim}]": mark for dim, mark in _marks(value)})
    return marks


def _marks(tensor: torch.Tensor) -> Iterator[tuple[int, str]]:
    """A tensor's marks, read from its own dict: a subclass's ``__getattr__`` is the user's code."""
    stored = object.__getattribute__(tensor, "__dict__")
    ranges = {
        r.dim: f", {r.min} to {r.max}" for r in stored.get("_dynamo_dynamic_range") or () if r.max is not None
    }
    for attribute, mark in _MARKS.items():
        for dim in sorted(stored.get(attribute) or ()):
            yield dim, mark + (ranges.get(dim, "") if mark == "dynamic" else "")


def marked_range(mark: str) -> tuple[int, int] | None:
    """The sizes that a mark allows, both included; None for one without a range."""
    found = _RANGE.match(mark)
    return (int(found[1]), int(found[2])) if found else None


def without_marked(symbols: Sequence[SymbolInfo], marks: Mapping[str, str]) -> tuple[SymbolInfo, ...]:
    """The symbols without the bounds that a mark set: torch notes them for the line that was the first to use the tensor."""
    return tuple([msgspec.structs.replace(s, facts=tuple(_unmarked(s, marks))) for s in symbols])


def _unmarked(symbol: SymbolInfo, marks: Mapping[str, str]) -> Iterator[Any]:
    ranges = [r for source in symbol.sources if (r := marked_range(marks.get(source, ""))) is not None]
    bounds = {
        f"{symbol.name} {sign} {end}" for r in ranges for sign, end in zip((">=", "<="), r, strict=True)
    }
    yield from (fact for fact in symbol.facts if fact.kind != "range" or fact.text not in bounds)
