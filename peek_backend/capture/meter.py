"""Runs ops on fake tensors and adds up what each ATen op costs, as plain or symbolic ints.

Needs a fake mode, ``no_grad`` and ``suppress_guards`` around it, which ``cost`` sees to.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, NamedTuple

import torch
from torch import fx
from torch._C import DispatchKey
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .formulas import (
    flops,
    has_formula,
    has_own_buffers,
    inside_bytes,
    moved,
    refuse_mixed,
    storage_key,
    tensors_in,
    uncounted,
)
from .fusedkernels import written_out


class Bill(NamedTuple):
    """A cost while it is added up: ints or SymInts, and why a part is missing."""

    flops: Any = 0
    read: Any = 0
    written: Any = 0
    scratch: Any = 0
    unknown: str = ""
    buffers: str = ""

    def plus(self, other: Bill, times: Any = 1) -> Bill:
        """Both, one after the other; the other ``times`` over."""
        return Bill(
            self.flops + other.flops * times,
            self.read + other.read * times,
            self.written + other.written * times,
            _larger(self.scratch, other.scratch),
            self.unknown or other.unknown,
            self.buffers or other.buffers,
        )


def leaf_tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of nested lists, tuples and dicts, in order, repeats included."""
    return [x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


class Twins:
    """Stand-ins of tensors: equal metadata, no data, on the CPU; one for each tensor. Needs a fake mode around it."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        return pytree.tree_map(self._leaf, value)

    def _leaf(self, leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in self._made:
            self._made[id(leaf)] = self._twin(leaf)
        return self._made[id(leaf)]

    def _twin(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is not torch.strided or tensor.is_nested:
            raise NotImplementedError(f"a {tensor.layout} tensor")
        if tensor.dim() == 0:
            return torch.empty((), dtype=tensor.dtype, device="cpu")
        return torch.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device="cpu")


class Meter(TorchDispatchMode):
    """Adds up what each ATen op costs, and follows which storages live, so that their most at once is known."""

    supports_higher_order_operators = True

    def __init__(self, given: list[torch.Tensor]):
        super().__init__()
        self._bill = Bill()
        self._given = {storage_key(t) for t in given}
        self._live: dict[
            int, tuple[int, Any]
        ] = {}  # by address, which the next storage may have again: a number of its own
        self._most: tuple[int, dict[int, Any]] = (0, {})
        self._numbers = itertools.count()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.HigherOrderOperator):
            return self._higher_order(func, args, kwargs)
        if func.namespace in ("prim", "prims") or func.overloadpacket in _ASKS:
            return func(*args, **kwargs)
        if (parts := written_out(func, args)) is not None:
            with self:
                return parts(*args, **kwargs)
        if _is_composite(func) and not has_formula(func.overloadpacket):
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        out = func(*args, **kwargs)
        self._note(func, args, kwargs, out)
        return out

    def _note(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        refuse_mixed(func.overloadpacket, args)
        read, written = moved(func, args, kwargs, out)
        counted = flops(func.overloadpacket, args, kwargs, out)
        unknown = _no_formula(func) if _is_uncounted(func) else ""
        inside = inside_bytes(func.overloadpacket, args)
        named = func.overloadpacket.__name__ if has_own_buffers(func.overloadpacket, args, out) else ""
        self._bill = self._bill.plus(Bill(counted, read, written, inside, unknown, named))
        for tensor in tensors_in(out):
            self._follow(tensor)

    def _follow(self, tensor: torch.Tensor) -> None:
        key = storage_key(tensor)
        if key < 0 or key in self._given or key in self._live:
            return
        storage = tensor.untyped_storage()
        self._live[key] = (next(self._numbers), storage.nbytes())
        weakref.finalize(storage, self._live.pop, key, None)
        total = sum(_hinted(size) for _, size in self._live.values())
        if total > self._most[0]:
            self._most = (total, dict(self._live.values()))

    def _higher_order(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The op by its formula, or the price of its bodies: the dearest of several branches, a loop's one for each pass."""
        if func.name() == "with_effects":  # keeps the order of one op, which is its second argument
            return self._ordered(args, kwargs)
        out = func(*args, **kwargs)
        if has_formula(func):
            self._bill = self._bill.plus(Bill(flops(func, args, kwargs, out)))
        else:
            self._bill = self._bill.plus(_bodies_bill(func, args, kwargs))
        for tensor in tensors_in(out):
            self._follow(tensor)
        return out

    def _ordered(self, args: Any, kwargs: Any) -> Any:
        token, func, *operands = args
        with self:
            out = func(*operands, **kwargs)
        return (token, *out) if isinstance(out, (tuple, list)) else (token, out)

    def bill(self, out: Any) -> Bill:
        """The whole; scratch is what was alive at the most beside what the node returns."""
        results = dict(self._live[k] for t in tensors_in(out) if (k := storage_key(t)) in self._live)
        beside = sum(size for number, size in self._most[1].items() if number not in results)
        kept = sum(size for number, size in results.items() if number not in self._most[1])
        if later := _hinted(kept):  # what came after the peak adds nothing up to its size
            beside = beside - kept if _hinted(beside) > later else 0
        return self._bill._replace(scratch=_larger(beside, self._bill.scratch))


def _is_composite(func: Any) -> bool:
    """Whether an op is nothing but other ops (``silu_backward`` has such a form too, and a kernel of its own)."""
    return func.has_kernel_for_dispatch_key(
        DispatchKey.CompositeImplicitAutograd
    ) and not func.has_kernel_for_dispatch_key(DispatchKey.CPU)


def _bodies_bill(func: Any, args: Any, kwargs: Any) -> Bill:
    name = func.name()
    bodies = [m for m in pytree.tree_leaves((args, kwargs)) if isinstance(m, fx.GraphModule)]
    operands = [t for t in pytree.tree_leaves((args, kwargs)) if not isinstance(t, fx.GraphModule)]
    bills = [_body_bill(body, operands) for body in bodies]
    if not bills:
        return Bill(unknown=f"{name} has no FLOP formula")
    if name == "cond":
        return max(bills, key=lambda b: _hinted(b.flops))
    if name == "while_loop":
        return (
            bills[0]
            .plus(bills[1])
            ._replace(unknown="one pass of while_loop: how many there are depends on data")
        )
    passes = args[2][0].shape[0] if name == "scan" and args[2] else 1
    return Bill().plus(bills[0], passes)


def _body_bill(body: fx.GraphModule, operands: list[Any]) -> Bill:
    """The cost of a body, run node by node with each value let go after its last use."""
    inputs = _body_inputs(body, operands)
    meter = Meter(tensors_in(inputs))
    with meter:
        out = fx.Interpreter(body).run(*inputs)
    return meter.bill(out)


def _body_inputs(body: fx.GraphModule, operands: list[Any]) -> list[Any]:
    """Stand-ins of what torch recorded for the placeholders; the op's operands where it recorded nothing."""
    nodes = [n for n in body.graph.nodes if n.op == "placeholder"]
    values = [n.meta.get("example_value", n.meta.get("val")) for n in nodes]
    if any(v is None for v in values):
        return operands[-len(nodes) :] if nodes else []
    twins = Twins()
    return [twins.of(v) for v in values]


_ASKS = {
    getattr(torch.ops.aten, name)
    for name in (
        "size", "sym_size", "stride", "sym_stride", "storage_offset", "sym_storage_offset", "numel",
        "sym_numel", "dim", "is_contiguous",
        "sym_is_contiguous", "is_strides_like_format", "is_non_overlapping_and_dense",
    )
    if hasattr(torch.ops.aten, name)
}  # fmt: skip
"""Ops that only ask for metadata."""

_COUNTED = {"aten", "prims", "prim", "inductor", "_c10d_functional", "c10d"}
"""Namespaces in which an op without a formula counts no FLOPs by rule, not by lack of knowledge."""


def _is_uncounted(func: Any) -> bool:
    """Whether an op may well compute much, of which no formula tells."""
    if has_formula(func.overloadpacket):
        return False
    return func.namespace not in _COUNTED or uncounted(func.overloadpacket)


def _no_formula(func: Any) -> str:
    return f"{func.namespace}::{func.overloadpacket.__name__} has no FLOP formula (flop_counter.register_flop_formula)"


def _hinted(size: Any) -> int | float:
    """A number to compare by: the size seen while tracing."""
    if isinstance(size, int):
        return size
    try:
        return size.node.hint if size.node.has_hint() else 0
    except Exception:  # an unbacked size
        return 0


def _larger(a: Any, b: Any) -> Any:
    return a if _hinted(a) >= _hinted(b) else b
