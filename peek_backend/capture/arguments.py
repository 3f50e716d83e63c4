"""An FX argument as an Arg, and an FX target as a name."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ..model import Arg, Leaf
from ..model.graph import MAX_NESTING
from .values import capped

_EMPTY: dict[str, Arg] = {}  # shared by all nodes without kwargs
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class ArgReader:
    """Converts the arguments of one graph; ``index`` maps each of its nodes to its position."""

    def __init__(self, index: dict[fx.Node, int]):
        self._index = index
        self._refs: dict[fx.Node, Leaf] = {}

    def args(self, args: Any) -> tuple[Arg, ...]:
        return tuple([self.read(a) for a in args])

    def kwargs(self, kwargs: Any) -> dict[str, Arg]:
        return {str(k): self.read(v) for k, v in kwargs.items()} if kwargs else _EMPTY

    def read(self, arg: Any, depth: int = 0) -> Arg:
        """``arg`` as plain data; what no type fits becomes its text without addresses."""
        kind = type(arg)
        if kind is fx.Node:
            return self._ref(arg)
        convert = _LEAVES.get(kind)
        if convert is not None:
            return convert(arg)
        if isinstance(arg, (tuple, list)):
            return self._sequence(arg, depth)
        if isinstance(arg, slice):
            return Leaf(slice=(self.read(arg.start), self.read(arg.stop), self.read(arg.step)))
        if isinstance(arg, dict):
            return Leaf(dict=tuple([(self.read(k), self.read(v)) for k, v in arg.items()]))
        return _other(arg)

    def _ref(self, node: fx.Node) -> Leaf:
        ref = self._refs.get(node)
        if ref is None:
            ref = self._refs[node] = Leaf(node=self._index[node])
        return ref

    def _sequence(self, arg: Any, depth: int) -> Arg:
        if depth + 1 >= MAX_NESTING:
            return Leaf(nested=tuple([self.read(a) for a in arg]))
        return tuple([self.read(a, depth + 1) for a in arg])


def _number(value: Any) -> Arg:
    if isinstance(value, float) and not math.isfinite(value):
        return Leaf(float=str(value))
    return value if isinstance(value, float) or -(2**63) <= value < 2**63 else Leaf(repr=str(value))


def _other(arg: Any) -> Leaf:
    if isinstance(arg, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return Leaf(sym=capped(str(arg)))
    if callable(arg) and hasattr(arg, "__name__"):
        return Leaf(function=target_name(arg))
    if isinstance(arg, torch.Tensor):  # a constant tensor in an argument: its repr would read data
        return Leaf(repr=f"tensor({str(arg.dtype).removeprefix('torch.')}{list(arg.shape)})")
    return Leaf(repr=without_addresses(capped(_safe_repr(arg))))


def _safe_repr(arg: Any) -> str:
    try:
        return repr(arg)
    except Exception:  # a user's own __repr__
        return f"<{type(arg).__module__}.{type(arg).__qualname__}>"


def without_addresses(text: str) -> str:
    """``text`` without the memory addresses that differ in each run."""
    return _ADDRESS.sub("", text)


def _named(field: str) -> Callable[[Any], Leaf]:
    return functools.cache(lambda value: Leaf(**{field: str(value).removeprefix("torch.")}))


def _itself(value: Any) -> Any:
    return value


_LEAVES: dict[type, Callable[[Any], Arg]] = {
    int: _number,
    float: _number,
    str: _itself,
    bool: _itself,
    type(None): _itself,
    complex: lambda value: Leaf(complex=str(value)),
    type(...): lambda _value: Leaf(ellipsis=True),
    torch.dtype: _named("dtype"),
    torch.device: _named("device"),
    torch.layout: _named("layout"),
    torch.memory_format: _named("memory_format"),
}


def target_name(target: Any) -> str:
    """The qualified name of an FX target: ``torch.nn.functional.linear``, ``operator.add``, ``aten.mm.default``, ``cond``.

    Names carry no address. What has no name is its type's name.
    """
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target.name()}"
    if isinstance(target, torch._ops.OpOverloadPacket):
        return str(target)
    return _function_name(target)


def _function_name(target: Any) -> str:
    if isinstance(target, functools.partial):
        return f"partial({target_name(target.func)})"
    if getattr(target, "__name__", "") == "<lambda>":  # torch would read the source file for a name
        return _dotted(target)
    try:
        name = fx.node._get_qualified_name(target)
    except Exception:  # not a function torch can name: a bound method, an instance
        name = _dotted(target)
    return without_addresses(_public(name))


def _public(name: str) -> str:
    """The public name of what Python and torch keep in private modules."""
    module, _, attribute = name.rpartition(".")
    if module == "_operator":
        return f"operator.{attribute}"
    if module == "torch._C._nn" and hasattr(torch.nn.functional, attribute):
        return f"torch.nn.functional.{attribute}"
    return name


def _dotted(target: Any) -> str:
    named = target if hasattr(target, "__qualname__") else type(target)
    module = getattr(named, "__module__", None)
    return f"{module}.{named.__qualname__}" if module else named.__qualname__
