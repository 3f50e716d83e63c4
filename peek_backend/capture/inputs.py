"""What ``peek inspect`` calls: made-up tensors built from specs, and the function or module, on a device."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo

from ..errors import PeekError
from ..model.inputs import TensorSpec


def make(load: Callable[[], Any], device: str) -> Any:
    """What ``load`` finds or makes, on ``device``; a class is made an object. PeekError for an unknown device."""
    _check_device(device)
    with contextlib.nullcontext() if device == "cpu" else torch.device(device):
        found = load()
        if isinstance(found, type):
            check_signature(found, (), {}, f"them in the target: {found.__name__}(…)")
            found = found()
    return found.to(device) if isinstance(found, torch.nn.Module) else found


def check_call(function: Any, args: Any, kwargs: dict[str, Any]) -> None:
    """PeekError when ``function`` cannot be called with these inputs, with its signature."""
    if not callable(function):
        what = f"a {type(function).__name__} cannot be inspected"
        raise PeekError(what, "it is no function or module", "name a function, an nn.Module or a class")
    called = function.forward if isinstance(function, torch.nn.Module) else function
    check_signature(called, args, kwargs, "--input SPEC for each, in order, or --kwarg NAME=SPEC")


def check_signature(function: Any, args: Any, kwargs: dict[str, Any], how: str) -> None:
    """PeekError when ``function`` does not take these arguments; ``how`` to pass others."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise PeekError(f"{name}{signature} cannot be called so", str(error), f"pass {how}") from None


def _check_device(name: str) -> None:
    device = device_named(name, "use cpu, cuda or meta")
    if device.type != "meta" and not is_usable(device):
        why = f"torch {torch.__version__} finds no {device.type} device here"
        raise PeekError(f"no device {name!r}", why, "use --device meta for shapes alone, or --device cpu")


def device_named(name: str, fix: str) -> torch.device:
    """torch's device of that name. PeekError for none."""
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise PeekError(f"unknown device {name!r}", str(error).splitlines()[0], fix) from None


def is_usable(device: torch.device) -> bool:
    """Whether this torch can put tensors with data on the device."""
    return device.type == "cpu" or bool(getattr(getattr(torch, device.type, None), "is_available", bool)())


def build(value: Any, device: str) -> Any:
    """``value`` with a tensor on ``device`` for every TensorSpec in its lists, tuples and dicts.

    Floating and complex data are normal with a fixed seed, drawn apart from torch's own generator; integers and bools
    are ones, which index any table of two rows and mask nothing. Named dims are marked dynamic. Raises PeekError
    for what torch cannot make.
    """
    generator = torch.Generator("cpu").manual_seed(0)
    return _build(value, device, generator)


def _build(value: Any, device: str, generator: torch.Generator) -> Any:
    if isinstance(value, TensorSpec):
        return _tensor(value, device, generator)
    if isinstance(value, (list, tuple)):
        return type(value)(_build(item, device, generator) for item in value)
    if isinstance(value, dict):
        return {key: _build(item, device, generator) for key, item in value.items()}
    return value


def _tensor(spec: TensorSpec, device: str, generator: torch.Generator) -> torch.Tensor:
    try:
        tensor = _data(spec, device, generator)
    except (RuntimeError, TypeError, AttributeError, OverflowError, NotImplementedError) as error:
        what = f"cannot make a {spec.dtype} tensor of shape {list(spec.shape)} on {device}"
        raise PeekError(what, str(error).splitlines()[0], "use a smaller shape, or --device meta") from None
    tensor.requires_grad_(spec.requires_grad)
    for dim, name in enumerate(spec.names):
        if name is not None:
            torch._dynamo.mark_dynamic(tensor, dim)
    return tensor


def _data(spec: TensorSpec, device: str, generator: torch.Generator) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, spec.dtype)
    if torch.device(device).type == "meta":
        return torch.empty(spec.shape, dtype=dtype, device=device)
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.ones(spec.shape, dtype=dtype, device=device)
    wide = torch.complex64 if dtype.is_complex else torch.float32
    return torch.randn(spec.shape, dtype=wide, generator=generator).to(device=device, dtype=dtype)
