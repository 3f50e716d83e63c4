"""Hands a graph on to the backend that runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._dynamo
from torch import fx

from ..errors import PeekError, unknown_name

PEEK = "peek"


def check_inner(inner: str | Callable[..., Any] | None) -> None:
    """Raises PeekError, naming the nearest, when no backend has this name."""
    if not isinstance(inner, str):
        return
    if inner == PEEK:
        raise PeekError(
            "inner='peek' would call itself", "peek hands the graph to the inner backend", "name another"
        )
    if inner not in (known := backend_names()):
        raise unknown_name("inner backend", inner, known)


def backend_names() -> list[str]:
    """All backends that ``inner`` can name, debug and experimental ones included."""
    return [name for name in torch._dynamo.list_backends(exclude_tags=()) if name != PEEK]


def hand_on(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    inner: str | Callable[..., Any] | None,
    *,
    mode: str | None = None,
    inner_options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """What Dynamo is to run: the inner backend's own callable, its exceptions untouched.

    Without ``inner``, ``gm.forward``: it keeps autograd and in-place ops, and costs 20 to 30 µs less a call than ``gm`` itself.
    """
    if inner is None:
        return gm.forward
    if inner == "inductor" and (mode or inner_options):  # torch's own wrapper turns both into config patches
        return torch._TorchCompileInductorWrapper(mode, inner_options, None)(gm, example_inputs)
    backend = torch._dynamo.lookup_backend(inner)
    kwargs = {"mode": mode, "options": inner_options}
    return backend(gm, example_inputs, **{k: v for k, v in kwargs.items() if v})
