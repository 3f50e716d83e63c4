"""Data-dependent values: where a value became unbacked, and what was asked of it.

Comes in: a graph. Goes out: facts with the user's line.
"""

from __future__ import annotations

import re

from ..model import (
    Fact,
    GraphRecord,
    NodeRecord,
    SizeInfo,
    StackFrame,
    SymBool,
    SymFloat,
    SymInt,
    TensorMeta,
    TupleInfo,
    ValueInfo,
)


def origin(graph: GraphRecord, name: str) -> Fact | None:
    """The op whose result has the symbol first: its value depends on data, not on sizes."""
    node = next((n for n in graph.nodes if n.op != "placeholder" and mentions(n.value, name)), None)
    if node is None:
        return None
    target = node.target.rpartition(".")[2]
    return Fact("unbacked", f"{target} made it from data: its value is known only at run time", user_of(node))


def user_of(node: NodeRecord) -> StackFrame | None:
    """The user's line of a node."""
    source = node.source
    if source is None or source.file is None or source.line is None:
        return None
    return StackFrame(source.file, source.line, source.function or "", source.code or "")


def mentions(value: ValueInfo | None, name: str) -> bool:
    """Whether a symbol stands in a value: its shape, stride, offset, or the value itself."""
    if isinstance(value, TupleInfo):
        return any(mentions(item, name) for item in value.items)
    if isinstance(value, (SymInt, SymFloat, SymBool)):
        return _in(value.expr, name)
    if isinstance(value, TensorMeta):
        dims = (*value.shape, *(value.stride or ()), value.storage_offset)
        return any(_in(dim, name) for dim in dims if isinstance(dim, str))
    return isinstance(value, SizeInfo) and any(_in(dim, name) for dim in value.shape if isinstance(dim, str))


def _in(expr: str, name: str) -> bool:
    return name in expr and re.search(rf"\b{re.escape(name)}\b", expr) is not None
