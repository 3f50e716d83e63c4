"""What holds within a block and is afterwards as before: attributes of torch's classes and modules, kernels of its ops, context
variables."""

from __future__ import annotations

import contextlib
import contextvars
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._dynamo.eval_frame import skip_code

_ABSENT = object()


@contextlib.contextmanager
def replaced(owner: Any, **functions: Callable[..., Any]) -> Iterator[None]:
    """Within, ``owner`` (a class or module) has these functions of its own; afterwards what it had, or none."""
    before = {name: owner.__dict__.get(name, _ABSENT) for name in functions}
    try:
        for name, function in functions.items():
            setattr(owner, name, untraced(function))
        yield
    finally:
        for name, value in before.items():
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, never compiled on its own where the program calls it outside of a graph."""
    skip_code(function.__code__)
    return function


@contextlib.contextmanager
def kernels(key: str, functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Within, ops of ATen, by name and overload, have these kernels for a dispatch key; afterwards what they had."""
    library = torch.library.Library("aten", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that an op of torch has another kernel now is the point
            for name, function in functions.items():
                library.impl(name, function, key)
        yield
    finally:
        library._destroy()


@contextlib.contextmanager
def held(variable: contextvars.ContextVar[Any], value: Any) -> Iterator[None]:
    """Within, in this thread, ``variable`` has ``value``."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
