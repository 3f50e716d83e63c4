"""Torch's state put back after an inspection: compiled variants, dynamism, counters, and the tensors that a call can change."""

from __future__ import annotations

import contextlib
import random
import sys
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
import torch._dynamo.utils as dynamo_utils
from torch._dynamo import convert_frame, pgo
from torch._dynamo.guards import DeletedGuardManagerWrapper

from . import compat


@contextlib.contextmanager
def dynamo_untouched() -> Iterator[None]:
    """Within, Dynamo starts without history; afterwards its state is what it was.

    ``torch._dynamo.reset()`` would do the former for the whole process and drop the user's variants.
    """
    with _fresh_dynamism(), _counters_kept(), _recorded_codes() as codes:
        try:
            yield
        finally:
            for code, earlier in codes:
                _forget(code, earlier)


_NO_LIMIT = 2**30

# A code object, and which cache entries it had when it was first converted: ids of their guard managers.
_Converted = tuple[types.CodeType, frozenset[int]]


@contextlib.contextmanager
def _recorded_codes() -> Iterator[list[_Converted]]:
    """Stands in for the tracker that every frame conversion tells its code object, and passes on to it."""
    real = convert_frame.input_codes
    codes: list[_Converted] = []
    convert_frame.input_codes = _CodeTracker(real, codes)
    try:
        yield codes
    finally:
        convert_frame.input_codes = real


class _CodeTracker:
    def __init__(self, real: Any, codes: list[_Converted]):
        self._real, self._codes = real, codes

    def add(self, code: types.CodeType) -> None:
        if not any(code is c for c, _ in self._codes):
            self._codes.append((code, frozenset(id(e.guard_manager) for e in compat.cache_entries(code))))
        self._real.add(code)

    def __contains__(self, code: types.CodeType) -> bool:
        return code in self._real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _forget(code: types.CodeType, earlier: frozenset[int]) -> None:
    """Drop the cache entries that are not among the ``earlier`` ones, and let Dynamo look at the code again.

    Where the user has no variant of it, all that Dynamo keeps with the code goes; else the inspection's entries are
    invalidated. A code object that was converted had the default strategy before: what is skipped or run-only is not converted.
    """
    own = [e for e in compat.cache_entries(code) if id(e.guard_manager) not in earlier and e.code is not None]
    for entry in own:
        compat.drop_globals(entry.code)
    if not earlier and not compat.has_precompiled(code):
        torch._C._dynamo.eval_frame.reset_code(code)
        return
    for entry in own:
        manager = entry.guard_manager
        manager.extra_state.invalidate(entry, DeletedGuardManagerWrapper("the inspection is over"))
    compat.default_strategy(code)


@contextlib.contextmanager
def _fresh_dynamism() -> Iterator[None]:
    """No memory of the sizes seen before, none kept of those seen now, and no profile read from or written to disk."""
    state, frames = pgo._CODE_STATE, convert_frame.FRAME_COMPILE_COUNTER.copy()
    next_frame = convert_frame.FRAME_COUNTER
    pgo._CODE_STATE = defaultdict(pgo.CodeState)
    convert_frame.FRAME_COMPILE_COUNTER.clear()
    try:
        with torch._dynamo.config.patch(
            automatic_dynamic_local_pgo=False, automatic_dynamic_remote_pgo=False
        ):
            yield
    finally:
        pgo._CODE_STATE = state
        convert_frame.FRAME_COUNTER = (
            next_frame  # the ids given meanwhile are forgotten with the code (_forget)
        )
        convert_frame.FRAME_COMPILE_COUNTER.clear()
        convert_frame.FRAME_COMPILE_COUNTER.update(frames)


@contextlib.contextmanager
def _counters_kept() -> Iterator[None]:
    """torch's own counts and failure lists, which users read and reset, show nothing of the inspection afterwards."""
    counters = {name: counter.copy() for name, counter in dynamo_utils.counters.items()}
    failures = {code: list(found) for code, found in dynamo_utils.guard_failures.items()}
    reasons = len(dynamo_utils.graph_break_reasons)
    metrics = list(dynamo_utils._compilation_metrics)
    try:
        yield
    finally:
        _refill(dynamo_utils.counters, counters)
        _refill(dynamo_utils.guard_failures, failures)
        del dynamo_utils.graph_break_reasons[reasons:]
        dynamo_utils._compilation_metrics.clear()
        dynamo_utils._compilation_metrics.extend(metrics)


@contextlib.contextmanager
def globals_kept(function: Any) -> Iterator[None]:
    """Remove the globals that Dynamo adds to a function's module without a clean-up of its own (``__builtins_dict___7``)."""
    scope = getattr(getattr(function, "forward", function), "__globals__", {})
    before = set(scope)
    try:
        yield
    finally:
        for name in [n for n in scope if n.startswith("__builtins_dict__") and n not in before]:
            _drop_global(scope, name)


def _drop_global(scope: dict[str, Any], name: str) -> None:
    """Remove a global, through the hook of the generated code that owns it where there is one.

    A compile whose guards fail leaves such code behind: its hook would find the name gone when the code dies, and complain.
    """
    manager = dynamo_utils.CleanupManager.instance
    for key, hooks in list(manager.values.items()):
        if any(hook.scope is scope and hook.name == name for hook in hooks):
            manager._remove_id(key)
    scope.pop(name, None)


def _refill(mapping: dict[Any, Any], content: dict[Any, Any]) -> None:
    mapping.clear()
    mapping.update(content)


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """The generators of torch (CPU and each initialised CUDA device), Python and, where it is loaded, NumPy."""
    python, numpy = random.getstate(), sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy is not None else None
    try:
        with torch.random.fork_rng(devices=compat.initialised_cuda_devices()):
            yield
    finally:
        random.setstate(python)
        if numpy is not None and numpy_state is not None:
            numpy.random.set_state(numpy_state)


class _Kept(NamedTuple):
    """A tensor, its view of the data with the metadata it had, a copy of the data, and its version."""

    tensor: torch.Tensor
    before: torch.Tensor
    copied: torch.Tensor
    version: int

    def restore(self) -> None:
        """Write the data back into the storage they came from, which others may view; kernels that write without raising
        the version (batch_norm's running statistics) leave no sign, so every tensor is written."""
        self.before.copy_(self.copied)
        if _metadata(self.tensor) != _metadata(self.before):
            self.tensor.data = self.before
        compat.set_version(self.tensor, self.version)


def _metadata(tensor: torch.Tensor) -> Any:
    strided = tensor.layout is torch.strided
    return (
        tensor.shape,
        tensor.dtype,
        strided and (tensor.stride(), tensor.storage_offset(), tensor.data_ptr()),
    )


class TensorState:
    """Tensors and modules as they were, to be put back after a call.

    Copied at once: inputs, buffers, existing gradients (each once). Parameters, and whatever else a graph reads, are copied
    when a graph that writes them is about to run (``keep``), so that a big model is not held twice.
    """

    def __init__(self, roots: Iterable[Any]):
        self._copies: dict[int, _Kept] = {}
        self._grads: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        self._marks: list[tuple[torch.Tensor, dict[str, Any]]] = []
        self._modules: list[tuple[torch.nn.Module, dict[str, Any], dict[str, dict[str, Any]]]] = []
        self._versions: list[tuple[str, torch.Tensor, int]] = []
        for root in roots:
            self._add(root)

    def _add(self, root: Any) -> None:
        if isinstance(root, torch.nn.Module):
            for module in root.modules():
                self._add_module(module)
            for name, parameter in root.named_parameters():
                if torch.nn.parameter.is_lazy(parameter):
                    continue
                self._versions.append((name, parameter, _version(parameter)))
                self._add_grad(parameter)
        elif isinstance(root, torch.Tensor):
            self._marks.append((root, dict(root.__dict__)))
            self.keep(root)
            self._add_grad(root)

    def _add_module(self, module: torch.nn.Module) -> None:
        if "_parameters" not in module.__dict__:  # a ScriptModule keeps its state in C++
            return
        tables = {name: dict(module.__dict__[name]) for name in ("_parameters", "_buffers", "_modules")}
        self._modules.append((module, dict(module.__dict__), tables))
        for buffer in module._buffers.values():
            if buffer is not None:
                self.keep(buffer)

    def _add_grad(self, tensor: torch.Tensor) -> None:
        if tensor.is_leaf:
            self._grads.append((tensor, tensor.grad))
            if tensor.grad is not None:
                self.keep(tensor.grad)

    def keep(self, tensor: torch.Tensor) -> None:
        """Copy ``tensor``'s data, once. Meta and fake tensors have none."""
        if id(tensor) in self._copies or torch.nn.parameter.is_lazy(tensor) or tensor.is_meta:
            return
        if isinstance(tensor, torch._subclasses.FakeTensor):
            return
        with torch.no_grad(), contextlib.suppress(NotImplementedError, RuntimeError):
            before = tensor.data
            copied = before.clone(memory_format=torch.preserve_format)
            self._copies[id(tensor)] = _Kept(tensor, before, copied, _version(tensor))

    def restore(self) -> list[str]:
        """Put everything back; returns the names of parameters that changed and of which there was no copy."""
        lost = [n for n, p, version in self._versions if _version(p) != version and id(p) not in self._copies]
        with torch.no_grad():
            for kept in self._copies.values():
                kept.restore()
        for tensor, grad in self._grads:
            tensor.grad = grad
        for tensor, marks in self._marks:
            _refill(tensor.__dict__, marks)
        for module, content, tables in self._modules:
            _refill(module.__dict__, content)
            for name, table in tables.items():
                _refill(module.__dict__[name], table)
        self._clear()
        return lost

    def _clear(self) -> None:
        """Let go of every tensor: an invalidated cache entry still holds the backend, which holds this."""
        for kept in (self._copies, self._grads, self._marks, self._modules, self._versions):
            kept.clear()


def _version(tensor: torch.Tensor) -> int:
    """How often a tensor was written; inference tensors do not count, so every one of them reads as written."""
    return -1 if tensor.is_inference() else tensor._version
