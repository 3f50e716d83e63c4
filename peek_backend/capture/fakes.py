"""Models and inputs without memory: built on the meta device, then every tensor a fake one on the wanted device.

A factory runs under a mode that makes each tensor on ``meta`` whatever device it names, and that lets ``.to("cuda")`` of such
a tensor pass. What still takes real memory (a checkpoint read from a file) is stopped at ``MOST_REAL`` bytes.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ..errors import PeekError
from ..model import HeldTensor
from .failures import in_short
from .inspection import is_shapeless
from .isolation import random_state_kept
from .sources import is_outside

MOST_REAL = 64 * 2**20
"""Bytes of real tensors that a constructor may make: tables and constants, no weights."""
_SMALL = 2**20

_MOVES = {torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu}
_READS = {
    getattr(torch.Tensor, name) for name in ("item", "tolist", "numpy", "__bool__", "__float__", "__int__")
}
_STEPS = {torch.linspace, torch.logspace}
"""Constructors whose few values (drop-path rates) are read while the model is built."""


def built(make: Callable[[], Any]) -> Any:
    """What ``make()`` returns, its tensors on the meta device. ``make``'s own exceptions pass; PeekError where it needs
    data."""
    with torch.device("meta"), _Building():
        return make()


def built_quietly(make: Callable[[], Any]) -> Any:
    """``built``, with the random state put back."""
    with random_state_kept():
        return built(make)


class _Building(TorchFunctionMode):
    """Sends every new tensor to ``meta``; those made on the CPU by name stay real while they are small."""

    def __init__(self) -> None:
        super().__init__()
        self._real = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in _STEPS:
            kwargs.setdefault("device", "cpu")
        elif func in _device_constructors():
            self._redirect(func, args, kwargs)
        elif func in _MOVES and args[0].is_meta:
            return _moved(func, args, kwargs)
        elif func in _READS and args[0].is_meta:
            raise _reads_data(func)
        out = func(*args, **kwargs)
        self._weigh(out, args)
        return out

    def _redirect(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        device = kwargs.get("device")
        if device is None:
            return  # torch.device("meta") sees to it
        if torch.device(device).type != "cpu" or _asked_bytes(func, args, kwargs) > _SMALL:
            kwargs["device"] = "meta"

    def _weigh(self, out: Any, args: Any) -> None:
        """Count real memory that is new, and stop before there is much of it."""
        if not isinstance(out, torch.Tensor) or out.is_meta or out.device.type != "cpu" or out._is_view():
            return
        if any(out is a for a in args):
            return
        self._real += out.numel() * out.element_size()
        if self._real > MOST_REAL:
            raise _allocates(self._real)


_OF_VALUES = {torch.tensor, torch.as_tensor, torch.asarray}


def _asked_bytes(func: Any, args: Any, kwargs: dict[str, Any]) -> int:
    """Bytes that a constructor such as ``torch.zeros`` is asked for; those of a list of values are few."""
    if func in _OF_VALUES:
        return 0
    sizes = kwargs.get("size", args[0] if args and isinstance(args[0], (tuple, list, torch.Size)) else args)
    if not isinstance(sizes, (tuple, list, torch.Size)) or not all(type(s) is int for s in sizes):
        return 0
    total = (kwargs.get("dtype") or torch.get_default_dtype()).itemsize
    for size in sizes:
        total *= size
    return total


def _moved(func: Any, args: Any, kwargs: dict[str, Any]) -> torch.Tensor:
    """``x.to(…)`` of a meta tensor without the device: dtype and memory format change as asked."""
    if func is not torch.Tensor.to:
        return args[0]
    _device, dtype, _blocking, memory_format = torch._C._nn._parse_to(
        *_without_tensor(args[1:]), **_to_kwargs(kwargs)
    )
    wanted = {"dtype": dtype} if dtype is not None else {}
    if memory_format is not None:
        wanted["memory_format"] = memory_format
    copy = {"copy": True} if kwargs.get("copy") else {}
    return func(args[0], **wanted, **copy) if wanted or copy else args[0]


def _without_tensor(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """``x.to(other)`` as ``x.to(device, dtype)``."""
    if args and isinstance(args[0], torch.Tensor):
        return (args[0].device, args[0].dtype, *args[1:])
    return args[:2]


def _to_kwargs(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in kwargs.items() if k in ("device", "dtype", "non_blocking", "memory_format")}


def _user_line() -> str:
    """``file:line`` of the innermost frame outside torch and peek."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_outside(file):
            return f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return "the constructor"


def _reads_data(func: Any) -> PeekError:
    return PeekError(
        f"the model reads a tensor's value while it is built: {_user_line()}",
        f"{func.__name__}() needs data, which a dry run does not make",
        "compute the number with math or numpy, or make the tensor with device='cpu'",
    )


def _allocates(size: int, where: str = "") -> PeekError:
    return PeekError(
        f"the model takes real memory while it is built: {size / 2**20:.0f} MiB, {where or 'at ' + _user_line()}",
        "a dry run allocates nothing, and this tensor comes from data (a file, numpy, a list)",
        "build it from its configuration, without loading weights",
    )


def check_unreal(built_module: Any) -> None:
    """PeekError when a module that was built still holds much real memory: tensors that torch could not see being made."""
    if not isinstance(built_module, torch.nn.Module):
        return
    real = {
        f"{path}.{name}".lstrip("."): t
        for path, m in built_module.named_modules()
        for name, t in _tensors_of(m)
        if not t.is_meta
    }
    size = sum(t.numel() * t.element_size() for t in real.values())
    if size > MOST_REAL:
        largest = max(real, key=lambda name: real[name].numel() * real[name].element_size())
        raise _allocates(size, largest)


def settle_lazy(function: Any, args: Any, kwargs: Any, *, made: bool) -> None:
    """Give lazy modules (``nn.LazyLinear``) their shapes by one call on the meta device; only where the dry run ``made`` them.

    Raises PeekError for a lazy module that the caller holds: that call would change it for good, and where the call fails.
    """
    if not is_shapeless(function):
        return
    if not made:
        raise PeekError(
            f"{type(function).__name__} has parameters without a shape",
            "its lazy modules take it from their first call, which would change the module given",
            "pass a factory of it, or call it once before",
        )
    inputs = pytree.tree_map(lambda x: x.to("meta") if isinstance(x, torch.Tensor) else x, (args, kwargs))
    try:
        with torch.device("meta"), torch.no_grad():
            function(*inputs[0], **inputs[1])
    except Exception as error:
        raise PeekError(
            f"{type(function).__name__} has parameters without a shape",
            f"its first call, on the meta device, ended with {in_short(error)}",
            "make them with their sizes: nn.Linear(8, 4) instead of nn.LazyLinear(4)",
        ) from error


def _tensors_of(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for table in (module._parameters, module._buffers, module.__dict__):
        yield from ((name, value) for name, value in table.items() if isinstance(value, torch.Tensor))


def note_eager(mode: FakeTensorMode) -> Counter[str]:
    """From now on the ops that ``mode`` runs outside of compiles and captured graphs, which no graph has, with how often.

    The mode stays of its own class, by which higher-order ops find their rules.
    """
    found: Counter[str] = Counter()
    real, inside = mode.dispatch, [False]

    def noting(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outer = inside[0]  # an op that is made of others counts once
        if not outer and isinstance(func, torch._ops.OpOverload) and _computes(func) and _is_eager():
            found[f"{func.namespace}::{func.overloadpacket.__name__}"] += 1
        inside[0] = True
        try:
            return real(func, types, args, kwargs)
        finally:
            inside[0] = outer

    mode.dispatch = noting  # type: ignore[method-assign]
    return found


def _computes(func: torch._ops.OpOverload) -> bool:
    """Whether an op makes or changes data, and is no view."""
    if func.namespace in ("prim", "prims") or func.overloadpacket.__name__ in ("detach", "_unsafe_view"):
        return False
    returns = func._schema.returns
    tells = [r for r in returns if r.alias_info is None or r.alias_info.is_write]
    return bool(tells) or func._schema.is_mutable


def _is_eager() -> bool:
    """Whether neither a compile nor a captured graph runs in this thread."""
    if TracingContext.try_get() is not None:
        return False
    frame = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith("<eval_with_key>"):
        frame = frame.f_back
    return frame is None


class Fakes:
    """Fake tensors of one mode and device in place of real and meta ones: one for each tensor, storages shared as theirs
    were."""

    def __init__(self, mode: FakeTensorMode, device: torch.device, *, grad: bool):
        self.mode, self.device, self._grad = mode, device, grad
        self._made: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._storages: dict[int, tuple[Any, torch.UntypedStorage]] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The stand-in of a tensor; a Parameter's is one. Gradients are asked for only in a dry run that has them."""
        known = self._made.get(id(tensor))
        if known is None:
            known = self._made[id(tensor)] = (tensor, self._fake(tensor))
        return known[1]

    def _fake(self, tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, FakeTensor) and tensor.fake_mode is self.mode:
            return tensor
        if is_traceable_wrapper_subclass(tensor):
            return self._wrapper(tensor)
        if tensor.layout is not torch.strided:
            return self.mode.from_tensor(tensor)
        fake = FakeTensor(self.mode, self._meta(tensor), self.device)
        if isinstance(tensor, torch.nn.Parameter):
            fake._is_param = True
        for name in vars(tensor):
            if name.startswith("_dynamo"):  # which dims are dynamic
                setattr(fake, name, getattr(tensor, name))
        return fake.requires_grad_(tensor.requires_grad and self._grad)

    def _wrapper(self, tensor: Any) -> torch.Tensor:
        """A subclass of the same kind around the stand-ins of its inner tensors: torch's own keeps them on the meta device."""
        names, context = tensor.__tensor_flatten__()
        inner = {name: self.tree(getattr(tensor, name)) for name in names}
        fake = type(tensor).__tensor_unflatten__(inner, context, tensor.size(), tensor.stride())
        if isinstance(tensor, torch.nn.Parameter):
            fake._is_param = True
        return fake.requires_grad_(tensor.requires_grad and self._grad)

    def _meta(self, tensor: torch.Tensor) -> torch.Tensor:
        own = tensor.untyped_storage()
        known = self._storages.get(own._cdata)
        if known is None:
            known = self._storages[own._cdata] = (own, torch.UntypedStorage(own.nbytes(), device="meta"))
        meta = torch.empty(0, dtype=tensor.dtype, device="meta")
        with torch.no_grad():
            return meta.set_(known[1], tensor.storage_offset(), tuple(tensor.shape), tensor.stride())

    def tree(self, value: Any) -> Any:
        """``value`` with every tensor in its lists, tuples and dicts replaced."""
        return pytree.tree_map(lambda x: self.of(x) if isinstance(x, torch.Tensor) else x, value)

    @contextlib.contextmanager
    def instead_of(self, modules: Iterable[torch.nn.Module]) -> Iterator[None]:
        """While the block runs, parameters, buffers and plain tensor attributes of the modules are fake; afterwards as
        before."""
        undo: list[tuple[dict[str, Any], dict[str, Any]]] = []
        try:
            for module in modules:
                for table in (module._parameters, module._buffers, module.__dict__):
                    undo.append((table, dict(table)))
                    self._replace(table)
            yield
        finally:
            for table, before in reversed(undo):
                table.clear()
                table.update(before)

    def _replace(self, table: dict[str, Any]) -> None:
        for name, value in table.items():
            if isinstance(value, torch.Tensor):
                table[name] = self.of(value)


def held_tensors(modules: Iterable[torch.nn.Module]) -> tuple[HeldTensor, ...]:
    """Every parameter and buffer of the modules by name; tied ones have one storage number."""
    numbers: dict[int, int] = {}
    found: list[HeldTensor] = []
    for module in modules:
        for buffer, named in (
            (False, module.named_parameters(remove_duplicate=False)),
            (True, module.named_buffers(remove_duplicate=False)),
        ):
            found.extend(_held(name, tensor, numbers, buffer=buffer) for name, tensor in named)
    return tuple(found)


def _held(name: str, tensor: torch.Tensor, numbers: dict[int, int], *, buffer: bool) -> HeldTensor:
    strided = tensor.layout is torch.strided and not is_traceable_wrapper_subclass(tensor)
    key = tensor.untyped_storage()._cdata if strided else -id(tensor)
    size = sum(_storages(tensor).values())
    dtype = str(tensor.dtype).removeprefix("torch.")
    number = numbers.setdefault(key, len(numbers))
    return HeldTensor(name, number, tensor.numel(), size, dtype, buffer, tensor.requires_grad)


def _storages(tensor: Any) -> dict[int, int]:
    """Bytes by storage of what holds a tensor's data: of a subclass (quantized weights) that of its inner tensors."""
    if is_traceable_wrapper_subclass(tensor):
        inner = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
        return {k: n for part in inner if isinstance(part, torch.Tensor) for k, n in _storages(part).items()}
    if tensor.layout is not torch.strided:
        return {-id(tensor): tensor.numel() * tensor.element_size()}
    return {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes()}
