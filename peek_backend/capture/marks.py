"""Which dims the program marked before the compile: ``mark_dynamic``, ``mark_unbacked``, ``mark_static`` and their weak form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from ..model import GraphRecord, TensorMeta

_MARKS = {
    "_dynamo_dynamic_indices": "dynamic",
    "_dynamo_weak_dynamic_indices": "maybe dynamic",
    "_dynamo_unbacked_indices": "unbacked",
    "_dynamo_strict_unbacked_indices": "unbacked",
    "_dynamo_static_indices": "static",
}
"""The attributes that torch's functions set on a tensor, each a set of dims."""


def read_marks(graph: GraphRecord, inputs: Sequence[Any]) -> dict[str, str]:
    """``{"x.shape[0]": "dynamic"}`` for the inputs of a graph, in the order of its placeholders."""
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
    for attribute, mark in _MARKS.items():
        for dim in sorted(stored.get(attribute) or ()):
            yield dim, mark
