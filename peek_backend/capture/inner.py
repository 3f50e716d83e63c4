"""Hands a graph on to the backend that runs it."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch._dynamo
from torch import fx

from ..errors import PeekError, unknown_name
from . import compat

PEEK = "peek"
INDUCTOR = "inductor"


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


DECOMPOSITIONS = "decompositions"
"""The key of ``inner_options`` that holds a table of decompositions, as Inductor's ``compile_fx`` takes it."""
MODE = "mode"
"""The key that holds Inductor's mode: ``torch.compile`` takes no ``mode=`` beside ``options=``, where peek's own stand."""


def check_inner_options(
    inner: str | Callable[..., Any] | None, mode: str | None, options: Mapping[str, Any] | None
) -> None:
    """Raises PeekError for a mode or an option that the inner backend would refuse; of Inductor's its own checks ask."""
    mode, settings = _settings(inner, mode, options)
    if inner is None and settings:
        raise PeekError(
            f"inner_options without an inner backend: {', '.join(settings)}",
            "nobody reads them",
            "add inner='inductor'",
        )
    if inner != INDUCTOR or not (mode or settings):
        return
    try:
        torch._TorchCompileInductorWrapper(mode, settings, None)
    except RuntimeError as error:
        raise _refused(error, mode, settings) from None


def _refused(error: RuntimeError, mode: str | None, settings: Mapping[str, Any]) -> PeekError:
    """Inductor's refusal, with the nearest right name instead of all of its six hundred."""
    text = str(error)
    unknown = re.match(r"Unexpected optimization option (\S+),", text)
    if unknown is not None:
        from torch._inductor import config

        return unknown_name("option of Inductor", unknown[1], list(config.get_config_copy()))
    if mode and "mode" in text:
        from torch._inductor import list_mode_options

        return unknown_name("mode of Inductor", mode, dict.fromkeys(["default", *list_mode_options()]))
    return PeekError("inner_options: Inductor refuses a value", text, "see torch._inductor.config")


def _settings(
    inner: str | Callable[..., Any] | None, mode: str | None, options: Mapping[str, Any] | None
) -> tuple[str | None, dict[str, Any]]:
    """Inductor's mode and its options; a mode that stands among the options is taken from them. PeekError where there are two."""
    rest = {k: v for k, v in (options or {}).items() if k != DECOMPOSITIONS}
    if inner != INDUCTOR or MODE not in rest:
        return mode, rest
    given = rest.pop(MODE)
    if not isinstance(given, str):
        raise PeekError(
            f"bad mode of Inductor in inner_options: {given!r}", "a mode is a word", "write 'max-autotune'"
        )
    if mode and given != mode:
        raise PeekError(
            f"two modes: {mode!r} and {given!r}", "the second is in inner_options", "give one of them"
        )
    return given, rest


def hand_on(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    inner: str | Callable[..., Any] | None,
    *,
    mode: str | None = None,
    inner_options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """What Dynamo is to run: the inner backend's own callable. Its exceptions are those that Dynamo would raise for it.

    Without ``inner``, ``gm.forward``: it keeps autograd and in-place ops, and costs 20 to 30 µs less a call than ``gm`` itself.
    """
    if inner is None:
        return gm.forward
    if inner == INDUCTOR and (mode or inner_options):
        with _failing_as(INDUCTOR):
            return _inductor(gm, example_inputs, mode, inner_options)
    backend = torch._dynamo.lookup_backend(inner)
    given = {k: v for k, v in {"mode": mode, "options": inner_options}.items() if v}
    with _failing_as(inner if isinstance(inner, str) else getattr(backend, "__name__", str(backend))):
        compiled = backend(gm, example_inputs, **given)
        if not callable(compiled):
            raise AssertionError("compiler_fn did not return callable")  # as Dynamo says it
        return compiled


@contextlib.contextmanager
def _failing_as(name: str) -> Iterator[None]:
    """An exception in the block is what Dynamo makes of one that the backend ``name`` raises; it would call the backend ``peek``.

    Those that steer Dynamo, and those that it passes on as they are, go through untouched; so do all where Dynamo did not call
    peek itself, as a backend around it may catch them.
    """
    try:
        yield
    except compat.passed_by_dynamo():
        raise
    except Exception as error:
        output = compat.current_output_graph()
        if getattr(getattr(output, "compiler_fn", None), "__name__", "") != PEEK:
            raise
        raise compat.backend_failed(name, error, sys._getframe(2)) from None


def _inductor(
    gm: fx.GraphModule, example_inputs: Sequence[Any], mode: str | None, options: Mapping[str, Any] | None
) -> Callable[..., Any]:
    """Inductor through torch's own wrapper, which turns a mode and options into patches of its config."""
    wrapper = torch._TorchCompileInductorWrapper(*_settings(INDUCTOR, mode, options), None)
    table = (options or {}).get(DECOMPOSITIONS)
    if table is None:
        return wrapper(gm, example_inputs)
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(gm, example_inputs, config_patches=wrapper.config, decompositions=table)
