"""What each node of a graph costs: FLOPs, bytes moved, memory inside, as plain expressions.

A node of Dynamo's graph (``F.linear``, ``.softmax``, a higher-order op) is run once on stand-ins without data, under a mode
that meters each ATen op it becomes; equal nodes, told by target and metadata of their arguments, are run once for all. An ATen
node goes the same way and is its own only op. Stand-ins are fake tensors on the CPU whatever the device: a build of torch
without CUDA knows flash attention for the CPU alone, and would take plain mathematics elsewhere.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..model import NodeCost, iter_stored
from . import compat
from .failures import in_short
from .formulas import tensors_in
from .hints import unhinted
from .meter import Bill, Meter, Twins, leaf_tensors
from .values import MAX_TEXT, capped
from .within import held

_ACTIVE: contextvars.ContextVar[Pricer | None] = contextvars.ContextVar("pricer", default=None)


@contextlib.contextmanager
def pricing() -> Iterator[Pricer]:
    """Within, every graph that is read in this thread has the cost of its nodes."""
    pricer = Pricer()
    with held(_ACTIVE, pricer):
        yield pricer


def active_pricer(stage: str) -> Pricer | None:
    """The pricer of the ``pricing`` block that runs, if one does; None for a stage whose halves, or whose source, are priced."""
    return _ACTIVE.get() if stage not in ("joint", "post_grad", "kernels") else None


_FREE = NodeCost()
_ITEMS = (int, float, bool, str, type(None))


class Pricer:
    """Prices nodes, remembering what it has priced; for one thread at a time. ``runs`` counts the nodes that were run."""

    def __init__(self) -> None:
        self._known: dict[Any, NodeCost] = {}
        self._modes: dict[int, tuple[Any, FakeTensorMode]] = {}
        self.runs = 0

    def graph(self, value_of: Callable[[fx.Node], Any], shape_env: Any) -> GraphPricer:
        """The pricer of one graph; ``value_of`` tells what torch recorded for a node."""
        return GraphPricer(self, value_of, self._mode(shape_env))

    def _mode(self, shape_env: Any) -> FakeTensorMode:
        known = self._modes.get(id(shape_env))
        if known is None:  # the environment is kept so that its id stays its own
            mode = FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)
            known = self._modes[id(shape_env)] = (shape_env, mode)
        return known[1]

    def cost(self, key: Any, run: Callable[[], Bill]) -> NodeCost:
        """The cost remembered for ``key``, else that of ``run()``. What ``run`` raises is why the cost is unknown."""
        known = self._known.get(key)
        if known is None:
            self.runs += 1
            known = self._known[key] = _plain(_settled(run))
        return known


def _settled(run: Callable[[], Bill]) -> Bill:
    try:
        return run()
    except Exception as error:  # a node that cannot be priced costs the others nothing
        return Bill(unknown=in_short(error, 200))


def _plain(bill: Bill) -> NodeCost:
    parts = [_dim(x) for x in bill[:4]]
    return NodeCost(*parts, unknown=bill.unknown, buffers=bill.buffers)


def _dim(size: Any) -> int | str:
    if type(size) is int:
        return size
    text = str(size)
    return int(text) if text.lstrip("-").isdigit() else capped(text, MAX_TEXT)


class GraphPricer:
    """Prices the nodes of one graph, in their order: autocast that a node switches on holds for those after it."""

    def __init__(self, pricer: Pricer, value_of: Callable[[fx.Node], Any], mode: FakeTensorMode):
        self._pricer, self._value_of, self._mode = pricer, value_of, mode
        self._casts: list[tuple[torch.dtype, bool]] = [_ambient_autocast()]
        self._seen: set[int] = set()
        self._told: dict[fx.Node, Any] = {}
        compat.let_see_higher_order(Meter)

    def price(self, node: fx.Node, value: Any) -> NodeCost | None:
        """The cost of a node that computes; None for the others. ``value`` is its record, for the numbers of its storages."""
        made = self._made(node, value)
        if node.op not in ("call_function", "call_method"):
            return NodeCost(made=made) if made else None
        cost = self._computed(node)
        if not made:
            return cost
        return NodeCost(cost.flops, cost.read, cost.written, cost.scratch, made, cost.unknown, cost.buffers)

    def _made(self, node: fx.Node, value: Any) -> tuple[tuple[int, int | str], ...]:
        """The storages that this node's tensors are the first to hold, with their bytes."""
        if value is None or node.op == "output":
            return ()
        found = []
        for meta, tensor in zip(iter_stored(value), _raw_tensors(self._value_of(node)), strict=False):
            if meta.storage is None or meta.storage in self._seen:
                continue
            self._seen.add(meta.storage)
            found.append((meta.storage, _dim(_storage_bytes(tensor))))
        return tuple(found)

    def _computed(self, node: fx.Node) -> NodeCost:
        if self._switches(node) or _is_plain_python(node, self._value_of):
            return _FREE
        try:
            key = self._key(node)
        except TypeError:  # an argument that cannot be told from another: priced each time
            key = object()
        return self._pricer.cost(key, lambda: self._run(node))

    def _switches(self, node: fx.Node) -> bool:
        """Whether a node only switches a setting of torch; the setting is taken over where it matters to costs."""
        name = getattr(node.target, "__name__", "")
        if name == "_enter_autocast":
            device, dtype, enabled, *_ = (*node.args, None, True, None)
            self._casts.append((dtype or torch.get_autocast_dtype(str(device)), bool(enabled)))
        elif name == "_exit_autocast" and len(self._casts) > 1:
            self._casts.pop()
        return name in _SWITCHES or name.endswith(("_increment_nesting", "_decrement_nesting", "_batch_dim"))

    def _key(self, node: fx.Node) -> Any:
        value = self._value_of(node)
        # Sizes that depend on data are in the result alone.
        sizes = tuple([_size(s) for t in leaf_tensors(value) for s in t.shape if isinstance(s, torch.SymInt)])
        args = tuple([self._told_arg(a) for a in node.args])
        kwargs = tuple([(name, self._told_arg(a)) for name, a in node.kwargs.items()])
        return (node.op, node.target, args, kwargs, self._casts[-1], _batch(value), sizes)

    def _told_arg(self, arg: Any) -> Any:
        """What tells an argument from others; that of a node is worked out once for all its readers."""
        if isinstance(arg, fx.Node):
            known = self._told.get(arg)
            if known is None:
                known = self._told[arg] = _told(self._value_of(arg))
            return known
        if isinstance(arg, (tuple, list)):
            return (type(arg), *[self._told_arg(a) for a in arg])
        if isinstance(arg, dict):
            return (dict, *[(key, self._told_arg(a)) for key, a in arg.items()])
        if isinstance(arg, slice):
            return (slice, *[self._told_arg(a) for a in (arg.start, arg.stop, arg.step)])
        return _told(arg)

    def _run(self, node: fx.Node) -> Bill:
        # In a graph of ATen ops the casts are nodes of their own.
        cast = self._casts[-1] if not isinstance(node.target, torch._ops.OpOverload) else _NO_CAST
        with _quiet(self._mode, cast):
            times = _batch(self._value_of(node))
            twins = Twins()
            args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: twins.of(self._value_of(n)))
            meter = Meter(tensors_in((args, kwargs)))
            with meter:
                out = _call(node, args, kwargs)
            once = meter.bill(out)
            bill = Bill().plus(once, times)._replace(scratch=once.scratch * times)
            return _named_as_recorded(bill, out, self._value_of(node))


def _named_as_recorded(bill: Bill, out: Any, value: Any) -> Bill:
    """The bill with the symbols of the recorded value where the run made fresh ones: sizes that depend on data (``nonzero``)."""
    names = {}
    for ran, recorded in zip(tensors_in(out), leaf_tensors(value), strict=False):
        for fresh, known in zip(ran.shape, recorded.shape, strict=False):
            if isinstance(fresh, torch.SymInt) and isinstance(known, torch.SymInt):
                names[fresh.node._expr] = known.node._expr
    names = {fresh: known for fresh, known in names.items() if fresh.is_Symbol and fresh != known}
    if not names:
        return bill
    return bill._replace(**{k: _renamed(getattr(bill, k), names) for k in bill._fields[:4]})


def _renamed(size: Any, names: dict[Any, Any]) -> Any:
    """A size as the text of its expression with other symbols."""
    return size.node._expr.xreplace(names) if isinstance(size, torch.SymInt) else size


def _batch(value: Any) -> int:
    """How many examples a value computed inside ``vmap`` holds: its op runs once for all of them."""
    functorch, times = torch._C._functorch, 1
    tensor = next(iter(leaf_tensors(value)), None)
    while tensor is not None and functorch.is_functorch_wrapped_tensor(tensor):
        inner = functorch.get_unwrapped(tensor)
        if functorch.is_batchedtensor(tensor):
            times *= inner.shape[functorch.maybe_get_bdim(tensor)]
        tensor = inner
    return times


def _call(node: fx.Node, args: Any, kwargs: Any) -> Any:
    if node.op == "call_method":
        return getattr(args[0], node.target)(*args[1:], **kwargs)
    return node.target(*args, **kwargs)


_SWITCHES = {
    "_enter_autocast", "_exit_autocast", "_set_grad_enabled", "set_grad_enabled", "_enter_inference_mode", "_exit_inference_mode",
    "_saved_tensors_hooks_disable", "_saved_tensors_hooks_enable", "_set_deterministic_algorithms", "_set_fwd_grad_enabled",
    "lazy_load_decompositions", "_make_dual", "_exit_dual_level", "_enter_dual_level", "_graph_break",
}  # fmt: skip


def _is_plain_python(node: fx.Node, value_of: Callable[[fx.Node], Any]) -> bool:
    """Arithmetic on sizes, and items taken from tuples: nothing that a tensor takes part in."""
    return not any(_has_tensor(value_of(n)) for n in node.all_input_nodes) and not _has_tensor(value_of(node))


def _has_tensor(value: Any) -> bool:
    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        return True
    return isinstance(value, (tuple, list, dict)) and any(
        isinstance(x, torch.Tensor) for x in pytree.tree_leaves(value)
    )


def _raw_tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of ``iter_stored``, in the same order, of the value itself."""
    if isinstance(value, torch.Tensor):
        yield from _inner_tensors(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _raw_tensors(item)
    elif isinstance(value, (tuple, list)) and type(value) is not torch.Size:
        for item in value:
            yield from _raw_tensors(item)


def _inner_tensors(value: torch.Tensor) -> Iterator[torch.Tensor]:
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        yield from _inner_tensors(torch._C._functorch.get_unwrapped(value))
    elif is_traceable_wrapper_subclass(value):
        for name in value.__tensor_flatten__()[0]:
            yield from _raw_tensors(getattr(value, name))
    else:
        yield value


def _storage_bytes(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage().nbytes()


def _told(value: Any) -> Any:
    """What tells one value from another, for the cost of an op: metadata of tensors, values of plain things."""
    if isinstance(value, torch.Tensor):
        strided = value.layout is torch.strided and not value.is_nested
        stride = tuple([_size(s) for s in value.stride()]) if strided else value.layout
        return (torch.Tensor, tuple([_size(s) for s in value.shape]), stride, value.dtype, _batch(value))
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return (type(value), value.node._expr)
    if isinstance(value, _ITEMS):
        return (type(value), value)  # 1, 1.0 and True are equal
    if isinstance(value, torch.nn.Module):
        return (torch.nn.Module, id(value))
    if isinstance(value, (tuple, list)):
        return (type(value), *map(_told, value))
    hash(value)
    return value


def _size(size: Any) -> Any:
    return size if type(size) is int else size.node._expr


@contextlib.contextmanager
def _quiet(mode: FakeTensorMode, cast: tuple[torch.dtype, bool]) -> Iterator[None]:
    """Fake tensors, no autograd, the given autocast; no guard added, no symbol kept, random state put back."""
    from .untouched import (
        environment_kept,  # at load it would bring in AOTAutograd while torch._dynamo is half imported
    )

    env = mode.shape_env
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(unhinted())
        if env is not None:
            stack.enter_context(environment_kept(env))
            stack.enter_context(env.suppress_guards())
            stack.enter_context(env.ignore_fresh_unbacked_symbols())
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast("cpu", cast[0], enabled=cast[1], cache_enabled=False))
        stack.enter_context(mode)
        yield


def _ambient_autocast() -> tuple[torch.dtype, bool]:
    """The autocast that the graph was traced under, whatever its device."""
    for device in ("cuda", "cpu", "xpu"):
        with contextlib.suppress(RuntimeError):
            if torch.is_autocast_enabled(device):
                return torch.get_autocast_dtype(device), True
    return _NO_CAST


_NO_CAST = (torch.bfloat16, False)
