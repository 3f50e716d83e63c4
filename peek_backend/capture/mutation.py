"""Values as they were when they were produced.

Dynamo's ``example_value`` is the state at the end of the trace: after ``y = x.clone(); y.transpose_(0, 1)`` the node of
``y`` shows the transposed shape, since both nodes hold one object. The few nodes whose object a later op gives other metadata are
run again under the tracing fake mode, in order and on copies; all others keep what they have.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ..model.inplace import IN_PLACE_FUNCTIONS

# In-place ops that can change shape, stride, offset, dtype or storage of their first operand.
METADATA_OPS = frozenset(
    (
        *("transpose_", "t_", "swapaxes_", "swapdims_", "moveaxis_", "unsqueeze_", "squeeze_", "as_strided_"),
        *("resize_", "resize_as_", "resize_as_sparse_", "sparse_resize_", "sparse_resize_and_clear_"),
        *("set_", "data", "set_data", "requires_grad_", "detach_", "rename_"),
    )
)
# The setters of Tensor.data write their first operand too.
_WRITERS = IN_PLACE_FUNCTIONS | {"data", "set_data"}


def op_name(node: fx.Node) -> str:
    """The bare name of what a node calls: ``transpose_`` for a method, an ``aten.transpose_.default`` or a function."""
    target = node.target
    if isinstance(target, str):
        return target
    packet = getattr(target, "overloadpacket", target)
    name = getattr(packet, "__name__", "")
    if name == "__set__":  # the setter of Tensor.data, Tensor.grad
        return getattr(getattr(target, "__self__", None), "__name__", name)
    return name


def written_operands(node: fx.Node) -> list[fx.Node]:
    """The nodes whose tensors ``node`` writes in place.

    An ATen op's schema says so; a method or function says so by its trailing underscore, ``out=``, ``inplace=True``, or is in a
    table here. Dunder names and what a custom function does inside are not known.
    """
    if node.op not in ("call_function", "call_method"):
        return []
    if isinstance(node.target, torch._ops.OpOverload):
        return _written_by_schema(node, node.target._schema)
    out = node.kwargs.get("out")
    written = [out] if isinstance(out, fx.Node) else list(out) if isinstance(out, (tuple, list)) else []
    name = op_name(node)
    if name in ("batch_norm", "instance_norm"):
        written += _running_statistics(node, name)
    elif (
        (name.endswith("_") and not name.endswith("__"))
        or name in _WRITERS
        or node.kwargs.get("inplace") is True
    ):
        written += node.args[:1]
    return [n for n in written if isinstance(n, fx.Node)]


def _written_by_schema(node: fx.Node, schema: Any) -> list[fx.Node]:
    written: list[Any] = []
    for i, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
            written += value if isinstance(value, (tuple, list)) else [value]
    return [n for n in written if isinstance(n, fx.Node)]


def _running_statistics(node: fx.Node, name: str) -> list[Any]:
    """The running mean and variance that ``F.batch_norm`` and ``F.instance_norm`` write while they use the batch's own."""
    flag = "training" if name == "batch_norm" else "use_input_stats"
    training = node.kwargs.get(flag, node.args[5] if len(node.args) > 5 else name == "instance_norm")
    if training is False:
        return []
    by_position = dict(zip(("running_mean", "running_var"), node.args[1:3], strict=False))
    return [node.kwargs.get(k, by_position.get(k)) for k in ("running_mean", "running_var")]


class Writes:
    """What the in-place ops of one graph write. ``stale`` are the nodes whose recorded value is not the one they produced."""

    def __init__(self, nodes: list[fx.Node], value_of: Callable[[fx.Node], Any]):
        self._value_of = value_of
        self._last_write: dict[int, int] = {}
        changed: set[int] = set()
        for position, node in enumerate(nodes):
            for operand in written_operands(node):
                value = value_of(operand)
                if isinstance(value, torch.Tensor):
                    self._note(value, position)
                    if op_name(node) in METADATA_OPS:
                        changed.add(id(value))
        changed.update(self._gained_grad(nodes))
        self.stale = [n for n in nodes if changed and id(value_of(n)) in changed]

    def _note(self, value: torch.Tensor, position: int) -> None:
        self._last_write[id(value)] = position
        storage = _storage_key(value)
        if storage is not None:
            self._last_write[storage] = position

    def _gained_grad(self, nodes: list[fx.Node]) -> Iterator[int]:
        """Objects that an in-place op made require grad after they were produced without."""
        if not self._last_write:
            return
        for node in nodes:
            value = self._value_of(node)
            if id(value) in self._last_write and value.requires_grad and not self._born_with_grad(node):
                yield id(value)

    def _born_with_grad(self, node: fx.Node) -> bool:
        if (
            node.op in ("placeholder", "get_attr")
            or "requires_grad" in node.kwargs
            or op_name(node) == "requires_grad_"
        ):
            return True
        values = (self._value_of(n) for n in node.all_input_nodes)
        return any(isinstance(v, torch.Tensor) and v.requires_grad for v in values)

    def written_after(self, value: Any, position: int) -> bool:
        """Whether the data of a tensor produced at ``position`` are written in place later.

        Known writers are found by their operands; others (a custom op) raise the version.
        """
        if not isinstance(value, torch.Tensor):
            return False
        last = max(self._last_write.get(id(value), -1), self._last_write.get(_storage_key(value), -1))
        return last > position or (last < 0 and _version(value) > 0)


def _version(value: torch.Tensor) -> int:
    return 0 if value.is_inference() else value._version


def _storage_key(value: torch.Tensor) -> int | None:
    try:
        return value.untyped_storage()._cdata
    except Exception:  # sparse tensors and functorch wrappers have no storage
        return None


def values_at_production(
    stale: list[fx.Node],
    value_of: Callable[[fx.Node], Any],
    entry_of: Callable[[fx.Node], Any],
    fake_mode: FakeTensorMode,
    read: Callable[[Any], Any],
) -> dict[fx.Node, Any]:
    """``read(value)`` of each stale node right after it ran; nodes in graph order.

    ``entry_of`` gives a placeholder's input. The run is on copies, under ``fake_mode``, adds no guard (``suppress_guards``),
    keeps no fresh unbacked symbol, warns of nothing, and restores the RNG.
    """
    copies: dict[int, Any] = {}
    found: dict[fx.Node, Any] = {}
    with _quietly(fake_mode):
        for node in stale:
            if node.op == "placeholder":
                result = _entry_copy(entry_of(node), value_of(node), fake_mode)
            else:
                result = _run(node, lambda n: copies.get(id(value_of(n)), value_of(n)))
            copies[id(value_of(node))] = result
            found[node] = read(result)
    return found


def _quietly(fake_mode: FakeTensorMode) -> ExitStack:
    stack = ExitStack()
    stack.enter_context(warnings.catch_warnings())
    warnings.simplefilter("ignore")  # the program's own run says what is to be said
    stack.enter_context(torch.random.fork_rng(devices=[]))
    stack.enter_context(fake_mode)
    shape_env = fake_mode.shape_env
    if shape_env is not None:
        stack.enter_context(shape_env.suppress_guards())
        stack.enter_context(shape_env.ignore_fresh_unbacked_symbols())
    return stack


def _entry_copy(entry: Any, traced: Any, fake_mode: FakeTensorMode) -> Any:
    """A fake of an input as it was at entry: its own sizes, with the symbols that stand for them."""
    if isinstance(entry, FakeTensor) or not isinstance(entry, torch.Tensor):
        return entry
    shape, contiguous = tuple(entry.shape), entry.is_contiguous()
    if fake_mode.shape_env is not None:
        shape = _with_symbols(shape, traced, fake_mode.shape_env)
    if contiguous:
        fake = torch.empty(shape, dtype=entry.dtype, device=entry.device)
    else:
        fake = torch.empty_strided(tuple(entry.shape), entry.stride(), dtype=entry.dtype, device=entry.device)
    return fake.requires_grad_() if entry.requires_grad else fake


def _with_symbols(shape: tuple[int, ...], traced: torch.Tensor, shape_env: Any) -> tuple[Any, ...]:
    """The sizes with a symbol of the traced value in place of each that equals its hint (in-place views move dims)."""
    symbolic = [s for s in traced.shape if isinstance(s, torch.SymInt) and s.node.has_hint()]
    return tuple([next((s for s in symbolic if s.node.hint == size), size) for size in shape])


def _run(node: fx.Node, value_of: Callable[[fx.Node], Any]) -> Any:
    args = fx.map_arg(node.args, value_of)
    kwargs = fx.map_arg(node.kwargs, value_of)
    if node.op == "call_method":
        return getattr(args[0], node.target)(*args[1:], **kwargs)
    return node.target(*args, **kwargs)
