"""Counts and sizes of one graph: users, bytes, ops, inputs, dynamic dims.

Comes in: a GraphRecord. Goes out: numbers, or expressions where a size is symbolic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..model import (
    Dim,
    GraphRecord,
    NodeRecord,
    SizeInfo,
    SymBool,
    SymFloat,
    SymInt,
    TensorMeta,
    TupleInfo,
    ValueInfo,
    iter_tensors,
    node_refs,
)
from .dims import Number, evaluate, product, symbols_in

# Bytes of one element as torch.dtype.itemsize has them; the sub-byte types pack several numbers into one.
ITEM_BYTES: dict[str, int] = {
    **dict.fromkeys(("complex128",), 16),
    **dict.fromkeys(("float64", "complex64", "int64", "uint64"), 8),
    **dict.fromkeys(("float32", "complex32", "int32", "uint32", "qint32"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16", "bits16"), 2),
    **dict.fromkeys(
        ("int8", "uint8", "bool", "qint8", "quint8", "bits8", "bits1x8", "bits2x4", "bits4x2"), 1
    ),
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"), 1),
    **dict.fromkeys(("float8_e8m0fnu", "float4_e2m1fn_x2", "quint4x2", "quint2x4"), 1),
}

COMPUTES = frozenset({"call_function", "call_method", "call_module"})
"""Opcodes of nodes that do work; the others name what comes in and goes out."""


def is_op(node: NodeRecord) -> bool:
    """Whether the node computes something (no input, attribute or output)."""
    return node.op in COMPUTES


def users(graph: GraphRecord) -> list[list[int]]:
    """For each node the indices of the nodes that read it, ascending, each once."""
    found: list[list[int]] = [[] for _ in graph.nodes]
    for node in graph.nodes:
        for ref in dict.fromkeys(node_refs(node)):
            if 0 <= ref < len(found):
                found[ref].append(node.index)
    return found


def hints(graph: GraphRecord) -> dict[str, Number]:
    """The value that each symbol of the graph had while tracing; unbacked ones are missing."""
    return {s.name: s.hint for s in graph.symbols if s.hint is not None}


def _tensor_bytes(meta: TensorMeta) -> Dim | None:
    """Bytes of the elements; None for an unknown dtype, and where they do not follow from the shape."""
    if meta.inner:
        return nbytes(TupleInfo(tuple(meta.inner.values())))
    item = ITEM_BYTES.get(meta.dtype)
    if item is None or meta.layout != "strided" or "nested" in meta.flags:
        return None
    return product((item, *meta.shape))


def nbytes(value: ValueInfo | None) -> Dim | None:
    """Bytes of a value's elements: an int, an expression (``64*s0``), 0 without a tensor, None when unknown.

    Elements are counted as ``numel() * itemsize`` does: a broadcast dim in full. A subclass counts its
    inner tensors.
    """
    sizes = [_tensor_bytes(meta) for meta in iter_tensors(value)]
    if any(size is None for size in sizes):
        return None
    number = sum(size for size in sizes if isinstance(size, int))
    terms = [size for size in sizes if isinstance(size, str)]
    if not terms:
        return number
    return " + ".join([*terms, str(number)] if number else terms)


def nbytes_at(value: ValueInfo | None, values: Mapping[str, Number]) -> int | None:
    """As ``nbytes``, with the symbols' ``values`` put in; None when a symbol has none."""
    size = nbytes(value)
    number = None if size is None else evaluate(size, values)
    return None if number is None else int(number)


def inputs_of(graph: GraphRecord, *kinds: str) -> Iterator[NodeRecord]:
    """The placeholders, or those of the named kinds only (``parameter``, ``buffer``, ``argument`` …)."""
    for node in graph.nodes:
        if node.op != "placeholder":
            continue
        if not kinds or (node.source is not None and node.source.input_kind in kinds):
            yield node


def dynamic_symbols(graph: GraphRecord) -> list[str]:
    """Symbols that size an input or are one, in order of appearance. Equal dims share a symbol: one."""
    found: dict[str, None] = {}
    for node in inputs_of(graph):
        if isinstance(node.value, SymInt):
            found.update(dict.fromkeys(sorted(symbols_in(node.value.expr))))
        for meta in iter_tensors(node.value):
            for dim in meta.shape:
                found.update(dict.fromkeys(sorted(symbols_in(dim))))
    return list(found)


def used_symbols(graph: GraphRecord) -> set[str]:
    """Symbols that a value of the graph or of its bodies is made of: sizes, strides, offsets, scalars."""
    texts: set[str] = set()
    for part in with_children(graph):
        for node in part.nodes:
            texts.update(_expressions(node.value))
    return {symbol for text in texts for symbol in symbols_in(text)}


def _expressions(value: ValueInfo | None) -> Iterator[str]:
    if isinstance(value, TensorMeta):
        dims = (*value.shape, *(value.stride or ()), value.storage_offset)
        yield from [dim for dim in dims if type(dim) is str]
        for inner in value.inner.values():
            yield from _expressions(inner)
    elif isinstance(value, (SymInt, SymFloat, SymBool)):
        yield value.expr
    elif isinstance(value, SizeInfo):
        yield from [dim for dim in value.shape if type(dim) is str]
    elif isinstance(value, TupleInfo):
        for item in value.items:
            yield from _expressions(item)


def with_children(graph: GraphRecord) -> Iterator[GraphRecord]:
    """The graph, then the bodies of its higher-order ops, each once."""
    yield graph
    for child in graph.children:
        yield from with_children(child)
