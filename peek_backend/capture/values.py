"""A torch value as a ValueInfo, read without adding a guard.

Safe on symbols: ``str``, ``stride()``, ``node.hint``. Anything that compares, hashes or formats a SymInt with a spec
would add a guard or raise, so sizes are told apart by exact type before they are touched.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import SymBool as TorchSymBool
from torch import SymFloat as TorchSymFloat
from torch import SymInt as TorchSymInt
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..model import (
    Dim,
    NoneInfo,
    Opaque,
    ScalarInfo,
    SizeInfo,
    SymBool,
    SymFloat,
    SymInt,
    TensorMeta,
    TupleInfo,
    ValueInfo,
)

MAX_TEXT = 2_000
"""Characters kept of one expression or opaque text: torch's expressions can grow to 100,000."""

_NONE = NoneInfo()
_EMPTY: dict[str, ValueInfo] = {}  # shared by all tensors without inner ones
_SYM_TYPES = {TorchSymInt: SymInt, TorchSymFloat: SymFloat, TorchSymBool: SymBool}
_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, FakeTensor)
_NO_STRIDE = {torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}


def capped(text: str, limit: int = MAX_TEXT) -> str:
    """``text``, cut at ``limit`` characters with the number that was left out."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


class ValueReader:
    """Converts values of one graph; keeps its texts and storage numbers so that equal ones are shared."""

    def __init__(self) -> None:
        self._exprs: dict[Any, Dim] = {}
        self._dtypes: dict[torch.dtype, str] = {}
        self._devices: dict[torch.device, str] = {}
        self._storages: dict[int, int] = {}
        self._interned: dict[tuple[Dim, ...], tuple[Dim, ...]] = {}
        self._depth = 0
        self.symbols: set[Any] = set()

    def read(self, value: Any) -> ValueInfo:
        """``value`` as plain data. What no kind fits is Opaque; only a failing tensor method raises."""
        convert = _CONVERTERS.get(type(value))
        if convert is not None:
            return convert(self, value)
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, (tuple, list)):
            return self._sequence(value)
        if isinstance(value, dict):
            return self._mapping(value)
        return opaque(value)

    def dim(self, size: Any) -> Dim:
        """One size, stride or offset: an int, or the text of its expression."""
        if type(size) is int:
            return size
        expr = getattr(getattr(size, "node", None), "_expr", None)
        if expr is None:  # nested ints (j0) carry no expression
            return size if isinstance(size, int) else capped(str(size))
        known = self._exprs.get(expr)
        if known is None:
            known = self._exprs[expr] = self._expr_dim(size)
        return known

    def _expr_dim(self, size: Any) -> Dim:
        self.symbols.update(size.node.expr.free_symbols)
        text = str(size)
        return int(text) if text.lstrip("-").isdigit() else capped(text)

    def dims(self, sizes: Any) -> tuple[Dim, ...]:
        dims = tuple([s if type(s) is int else self.dim(s) for s in sizes])
        return self._interned.setdefault(dims, dims)

    def dtype(self, dtype: torch.dtype) -> str:
        text = self._dtypes.get(dtype)
        if text is None:
            text = self._dtypes[dtype] = str(dtype).removeprefix("torch.")
        return text

    def device(self, device: torch.device) -> str:
        text = self._devices.get(device)
        if text is None:
            text = self._devices[device] = str(device)
        return text

    def tensor(self, value: torch.Tensor) -> TensorMeta:
        """Metadata of a tensor, with the inner tensors of a wrapper subclass and the level of a functorch wrapper."""
        kind = type(value)
        layout = value.layout
        strided = layout is torch.jagged or (layout is torch.strided and not value.is_nested)
        return TensorMeta(
            shape=self.dims(_nested_shape(value) if value.is_nested else value.shape),
            dtype=self.dtype(value.dtype),
            stride=self.dims(value.stride()) if strided else None,
            device=self.device(value.device),
            requires_grad=value.requires_grad,
            storage_offset=self.dim(value.storage_offset()) if strided else 0,
            layout="strided" if layout is torch.strided else str(layout).removeprefix("torch."),
            subclass=None if kind is FakeTensor else self._subclass(value),
            inner=_EMPTY if kind is FakeTensor else self._inner(value),
            flags=_flags(value),
            storage=self._storage(value) if layout is torch.strided else None,
        )

    def _storage(self, value: torch.Tensor) -> int | None:
        try:
            key = value.untyped_storage()._cdata
        except Exception:  # functorch wrappers and some subclasses have none
            return None
        return self._storages.setdefault(key, len(self._storages))

    def _subclass(self, value: torch.Tensor) -> str | None:
        if torch._C._functorch.is_functorch_wrapped_tensor(value):
            return _functorch_name(value)
        return None if type(value) in _PLAIN_TENSORS else type(value).__name__

    def _inner(self, value: torch.Tensor) -> dict[str, ValueInfo]:
        if self._depth > 8:  # wrappers of wrappers are shallow; a cycle must end
            return _EMPTY
        self._depth += 1
        try:
            if torch._C._functorch.is_functorch_wrapped_tensor(value):
                return {"value": self.tensor(torch._C._functorch.get_unwrapped(value))}
            if not is_traceable_wrapper_subclass(value):
                return _EMPTY
            attributes, _ = value.__tensor_flatten__()
            return {name: self.read(getattr(value, name)) for name in attributes}
        finally:
            self._depth -= 1

    def sym(self, value: Any) -> ValueInfo:
        """A SymInt, SymFloat or SymBool with the hint that torch already knows."""
        node = value.node
        expr = getattr(node, "_expr", None)
        if expr is not None:
            self.symbols.update(node.expr.free_symbols)
        return _SYM_TYPES[type(value)](capped(str(value)), _hint(node))

    def _sequence(self, value: Any) -> TupleInfo:
        kind = type(value)
        structseq = kind.__module__ == "torch.return_types"  # torch's own named tuples, which have no _fields
        fields = _structseq_fields(kind) if structseq else tuple(getattr(value, "_fields", ()))
        name = f"torch.return_types.{kind.__name__}" if structseq else kind.__name__
        items = tuple([self.read(v) for v in value])
        return TupleInfo(items, name, fields if len(fields) == len(items) else ())

    def _mapping(self, value: dict) -> TupleInfo:
        return TupleInfo(
            tuple([self.read(v) for v in value.values()]), type(value).__name__, tuple(map(str, value))
        )


def _structseq_fields(kind: type) -> tuple[str, ...]:
    return tuple(
        [name for name, member in vars(kind).items() if isinstance(member, types.MemberDescriptorType)]
    )


def _nested_shape(value: torch.Tensor) -> Any:
    """The shape of a nested tensor: jagged ones have a symbolic one, strided ones none, so only the batch is known."""
    if value.layout is torch.jagged:
        return value.shape
    return (value.size(0), *["?"] * (value.dim() - 1))


def _functorch_name(value: torch.Tensor) -> str:
    functorch = torch._C._functorch
    level = functorch.maybe_get_level(value)
    if functorch.is_batchedtensor(value):
        return f"BatchedTensor(level={level}, dim={functorch.maybe_get_bdim(value)})"
    return f"{'GradTrackingTensor' if functorch.is_gradtrackingtensor(value) else 'FunctorchTensor'}(level={level})"


def _flags(value: torch.Tensor) -> tuple[str, ...]:
    if value.is_conj() or value.is_neg() or value.is_nested:
        tests = (("conj", value.is_conj), ("neg", value.is_neg), ("nested", lambda: value.is_nested))
        return tuple([name for name, test in tests if test()])
    return ()


def _hint(node: Any) -> int | float | bool | None:
    """The value seen while tracing; asked only where torch has it, since asking otherwise would make one up or raise."""
    try:
        hint = node.hint if node.has_hint() else None
    except Exception:  # an unbacked expression, or a nested int without hints
        return None
    if isinstance(hint, float) and not math.isfinite(hint):
        return None
    return hint if isinstance(hint, (bool, int, float)) else None


def opaque(value: Any) -> Opaque:
    """A value that has no record of its own: its type's name, and a text only where asking for one runs no user code."""
    kind = type(value)
    name = getattr(value, "script_class_name", None) if kind.__name__ == "FakeScriptObject" else None
    return Opaque(str(name) if name else f"{kind.__module__}.{kind.__qualname__}")


def scalar(value: Any) -> ValueInfo:
    """A Python number or text; ints over 64 bit and non-finite floats become text, which JSON can carry."""
    if isinstance(value, float) and not math.isfinite(value):
        return ScalarInfo("float", str(value))
    if type(value) is int and not -(2**63) <= value < 2**63:
        return ScalarInfo("int", str(value))
    if isinstance(value, (complex, bytes)):
        return ScalarInfo(type(value).__name__, capped(str(value)))
    return ScalarInfo(type(value).__name__, capped(value) if isinstance(value, str) else value)


def _named(kind: str) -> Callable[[ValueReader, Any], ValueInfo]:
    return lambda _reader, value: ScalarInfo(kind, str(value).removeprefix("torch."))


_CONVERTERS: dict[type, Callable[[ValueReader, Any], ValueInfo]] = {
    FakeTensor: ValueReader.tensor,
    torch.Tensor: ValueReader.tensor,
    type(None): lambda _reader, _value: _NONE,
    torch.Size: lambda reader, value: SizeInfo(reader.dims(value)),
    **dict.fromkeys(_SYM_TYPES, ValueReader.sym),
    **dict.fromkeys((bool, int, float, str, complex, bytes), lambda _reader, value: scalar(value)),
    torch.dtype: _named("dtype"),
    torch.device: _named("device"),
    torch.layout: _named("layout"),
    torch.memory_format: _named("memory_format"),
}
