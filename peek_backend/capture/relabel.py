"""A record with one device's name in place of another: what was traced on stand-ins is told of the device that was asked
for."""

from __future__ import annotations

from typing import Any

import msgspec

from ..model import CaptureRecord, GraphRecord, Leaf, NodeRecord, TensorMeta, TupleInfo


def relabelled(record: CaptureRecord, old: str, new: str) -> CaptureRecord:
    """``record`` with tensors and device arguments on ``old`` moved to ``new``; what is shared stays shared."""
    change = _Relabel(old, new)
    return msgspec.structs.replace(record, graphs=tuple([change.graph(g) for g in record.graphs]))


class _Relabel:
    def __init__(self, old: str, new: str):
        self._old, self._new = old, new

    def graph(self, graph: GraphRecord) -> GraphRecord:
        nodes = tuple([self._node(n) for n in graph.nodes])
        children = tuple([self.graph(c) for c in graph.children])
        return msgspec.structs.replace(graph, nodes=nodes, children=children)

    def _node(self, node: NodeRecord) -> NodeRecord:
        value = self._value(node.value)
        args = self._arg(node.args)
        kwargs = {name: self._arg(arg) for name, arg in node.kwargs.items()}
        return msgspec.structs.replace(node, value=value, args=args, kwargs=kwargs)

    def _value(self, value: Any) -> Any:
        if isinstance(value, TensorMeta):
            inner = {name: self._value(v) for name, v in value.inner.items()} if value.inner else value.inner
            device = self._new if value.device == self._old else value.device
            return msgspec.structs.replace(
                value, device=device, inner=inner, became=self._value(value.became)
            )
        if isinstance(value, TupleInfo):
            return msgspec.structs.replace(value, items=tuple([self._value(v) for v in value.items]))
        return value

    def _arg(self, arg: Any) -> Any:
        if isinstance(arg, tuple):
            return tuple([self._arg(a) for a in arg])
        if isinstance(arg, Leaf):
            return self._leaf(arg)
        return self._new if arg == self._old and isinstance(arg, str) else arg

    def _leaf(self, leaf: Leaf) -> Leaf:
        if leaf.device == self._old:
            return Leaf(device=self._new)
        if leaf.slice is not None:
            return Leaf(slice=self._arg(leaf.slice))
        if leaf.dict is not None:
            return Leaf(dict=self._arg(leaf.dict))
        return Leaf(nested=self._arg(leaf.nested)) if leaf.nested is not None else leaf
