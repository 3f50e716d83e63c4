"""Watches AOTAutograd at work for a backend: its joint graph, the cut into forward and backward, and what compiles each.

All backends that torch builds on AOTAutograd (Inductor too) go through ``torch._dynamo.backends.common.AotAutograd``, which looks
``aot_module_simplified`` up in its module at each call. That name is replaced while somebody watches; the replacement wraps the
partitioner and the compilers that it is given, and changes nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import fx
from torch._dynamo.backends import common
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler
from torch._functorch.partitioners import default_partition


class Watcher(Protocol):
    """What is told of each step, with torch's own live objects: to be read at once, not kept. No method may raise."""

    def started(self) -> None:
        """AOTAutograd was called."""

    def joint(self, gm: fx.GraphModule, forward_outputs: int) -> None:
        """The joint graph as AOTAutograd traced it; its first ``forward_outputs`` outputs are the forward's."""

    def parted(self, forward: fx.GraphModule, backward: fx.GraphModule, forward_outputs: int) -> None:
        """The two halves. Outputs of the forward after ``forward_outputs`` are saved for the backward."""

    def compiling(self, stage: str, gm: fx.GraphModule) -> contextlib.AbstractContextManager[Any]:
        """A graph (``forward``, ``backward`` or ``inference``) goes to its compiler; the compile runs inside the context."""

    def compiled(self, stage: str, gm: fx.GraphModule, result: Any) -> None:
        """What came back; the compiler may have changed ``gm``."""


_NOW = threading.local()
_LOCK = threading.Lock()
_REAL = common.aot_module_simplified
_USERS: list[Watcher] = []


@contextlib.contextmanager
def watch_aot(watcher: Watcher) -> Iterator[None]:
    """Tell ``watcher`` of every AOTAutograd call of this thread in the block, and of the backward when it compiles later."""
    before = getattr(_NOW, "watcher", None)
    with _LOCK:
        _USERS.append(watcher)
        common.aot_module_simplified = _watched
    _NOW.watcher = watcher
    try:
        yield
    finally:
        _NOW.watcher = before
        with _LOCK:
            _USERS.remove(watcher)
            if not _USERS:
                common.aot_module_simplified = _REAL


def _watched(mod: Any, args: Any, *rest: Any, **kwargs: Any) -> Any:
    watcher = getattr(_NOW, "watcher", None)
    if watcher is None or rest:
        return _REAL(mod, args, *rest, **kwargs)
    return call_aot(mod, args, watcher, kwargs)


def call_aot(mod: fx.GraphModule, args: Sequence[Any], watcher: Watcher, kwargs: dict[str, Any]) -> Any:
    """``aot_module_simplified(mod, args, **kwargs)``, with ``watcher`` told of each step."""
    watcher.started()
    kwargs = dict(kwargs)
    kwargs["partition_fn"] = _partition(kwargs.get("partition_fn") or default_partition, watcher)
    for name, stage in (("inference", "inference"), ("fw", "forward"), ("bw", "backward")):
        compiler = kwargs.get(f"{name}_compiler") or kwargs["fw_compiler"]
        kwargs[f"{name}_compiler"] = _compiler(compiler, stage, watcher)
    return _REAL(mod, args, **kwargs)


def _partition(partition: Callable[..., Any], watcher: Watcher) -> Callable[..., Any]:
    @functools.wraps(partition, assigned=("__name__", "__qualname__"), updated=())
    def watched(gm: fx.GraphModule, joint_inputs: Any, **kwargs: Any) -> Any:
        if not joint_inputs:  # the body of a higher-order op, cut before the graph that holds it
            return partition(gm, joint_inputs, **kwargs)
        outputs = kwargs["num_fwd_outputs"]
        watcher.joint(gm, outputs)
        forward, backward = partition(gm, joint_inputs, **kwargs)
        watcher.parted(forward, backward, outputs)
        return forward, backward

    return watched


def _compiler(compiler: Any, stage: str, watcher: Watcher) -> Any:
    if isinstance(compiler, SerializableAOTDispatchCompiler):
        inner = compiler.compiler_fn
        return type(compiler)(compiler.output_code_ty, _telling(inner, stage, watcher))
    return _telling(compiler, stage, watcher)


def _telling(compile: Callable[..., Any], stage: str, watcher: Watcher) -> Callable[..., Any]:
    def telling(gm: fx.GraphModule, example_inputs: Any) -> Any:
        with watcher.compiling(stage, gm):
            result = compile(gm, example_inputs)
        watcher.compiled(stage, gm, result)
        return result

    if stage != "backward":
        return telling
    return torch._dynamo.disable(telling, reason="peek watches the backward compile")
