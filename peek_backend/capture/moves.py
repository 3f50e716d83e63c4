"""Moves in the program's own code (``x.to("cuda")``, ``x.cuda()``) while a device that is not there is played by another.

torch's bindings of these methods start the named device before any mode sees the call, and fail where this torch has none.
Dynamo and AOTAutograd run each recorded method on a fake tensor, so that it is enough to have those tensors answer for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from .within import replaced, untraced

_TO = torch._C.TensorBase.to


@contextlib.contextmanager
def played(device: torch.device, by: torch.device) -> Iterator[None]:
    """Within, moving a fake tensor to a device of ``device``'s type moves it to ``by``."""
    methods = {"to": _moved_to(device, by)}
    if hasattr(torch._C.TensorBase, device.type):  # .cuda(), .xpu()
        methods[device.type] = _moved(by)
    with replaced(FakeTensor, **methods), replaced(FunctionalTensor, **methods):
        yield


def _moved_to(device: torch.device, by: torch.device) -> Callable[..., Any]:
    @untraced
    def other(value: Any) -> Any:
        if isinstance(value, str) and value.partition(":")[0] == device.type:
            return by
        return by if isinstance(value, torch.device) and value.type == device.type else value

    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        moved = dict(zip(kwargs, map(other, kwargs.values()), strict=True))
        return _TO(self, *map(other, args), **moved)  # a comprehension would be a frame to Dynamo

    return to


def _moved(by: torch.device) -> Callable[..., Any]:
    def move(self: torch.Tensor, device: Any = None, non_blocking: bool = False, **how: Any) -> torch.Tensor:
        return _TO(self, by, non_blocking=non_blocking, **how)

    return move
