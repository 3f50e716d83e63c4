"""``torch.autocast`` of a device that is not there, while the CPU plays it.

torch switches autocast for CUDA off, with a warning, where there is none; and it casts by the device of each tensor, here the
CPU's. So the device's own autocast switches that of the CPU too, to the same dtype, and ops that it keeps in float32 on an
accelerator and not on the CPU are kept there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .within import kernels, replaced

_FLOAT32 = (
    "layer_norm", "native_layer_norm", "group_norm", "softmax.int", "log_softmax.int", "exp", "expm1", "log", "log10", "log1p",
    "log2", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "reciprocal", "rsqrt", "sum", "sum.dim_IntList", "cumsum",
    "cumprod", "logsumexp", "softplus", "cosine_similarity", "linalg_vector_norm", "cosh", "sinh", "tan", "acos", "asin",
    "erfinv",
)  # fmt: skip
"""Ops in float32 under autocast on CUDA and XPU alone: aten/src/ATen/autocast_mode.h, AT_FORALL_FP32 and its kin."""


@contextlib.contextmanager
def autocast_played(device: torch.device) -> Iterator[None]:
    """Within, ``torch.autocast`` of ``device``'s type holds for tensors on the CPU; none was switched on before."""
    with contextlib.ExitStack() as stack:
        if device.type == "cuda":
            stack.enter_context(replaced(torch.cuda.amp.common, amp_definitely_not_available=lambda: False))
            stack.enter_context(replaced(torch.cuda, is_bf16_supported=lambda *_, **__: True))
        if device.type in ("cuda", "xpu"):
            stack.enter_context(_kept_in_float32())
        switches = {"__enter__": _entering(device.type), "__exit__": _leaving(device.type)}
        stack.enter_context(replaced(torch.amp.autocast_mode.autocast, **switches))
        yield


def _entering(kind: str) -> Callable[[Any], Any]:
    real = torch.amp.autocast_mode.autocast.__enter__

    def enter(self: Any) -> Any:
        if self.device == kind:
            self._peek_cpu = (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
            torch.set_autocast_enabled("cpu", self._enabled)
            torch.set_autocast_dtype("cpu", self.fast_dtype)
        return real(self)

    return enter


def _leaving(kind: str) -> Callable[..., Any]:
    real = torch.amp.autocast_mode.autocast.__exit__

    def leave(self: Any, *raised: Any) -> Any:
        if self.device == kind:
            enabled, dtype = self._peek_cpu
            torch.set_autocast_enabled("cpu", enabled)
            torch.set_autocast_dtype("cpu", dtype)
        return real(self, *raised)

    return leave


def _kept_in_float32() -> contextlib.AbstractContextManager[None]:
    return kernels("AutocastCPU", {name: _in_float32(_op(name)) for name in _FLOAT32})


def _op(name: str) -> torch._ops.OpOverload:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def _in_float32(op: torch._ops.OpOverload) -> Callable[..., Any]:
    without = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(without):
            return op(*map(_widened, args), **{name: _widened(arg) for name, arg in kwargs.items()})

    return kernel


def _widened(arg: Any) -> Any:
    low = isinstance(arg, torch.Tensor) and arg.dtype in (torch.float16, torch.bfloat16)
    return arg.float() if low else arg
