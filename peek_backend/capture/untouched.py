"""What a trace beside the program's own compile changes in torch, put back as it was."""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch._dynamo.symbolic_convert import TensorifyState
from torch._dynamo.utils import counters, get_metrics_context
from torch._functorch import aot_autograd

from .compat import initialised_cuda_devices, metadata_unprinted


@contextlib.contextmanager
def leaving_nothing(shape_env: Any) -> Iterator[None]:
    """Afterwards the shape environment, torch's counters, the numbers of AOT graphs, the metrics of the running compile and the
    random state are what they were; meanwhile torch warns and logs nothing from this thread."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # the program's own run will say what is to be said
        stack.enter_context(_silent())
        stack.enter_context(_counts_kept())
        stack.enter_context(torch.random.fork_rng(devices=initialised_cuda_devices()))
        if shape_env is not None:
            stack.enter_context(environment_kept(shape_env))
            stack.enter_context(shape_env.suppress_guards())
            stack.enter_context(shape_env.ignore_fresh_unbacked_symbols())
        yield


@contextlib.contextmanager
def floats_kept() -> Iterator[None]:
    """Which floats Dynamo is to take as constants when it traces again is of the program's own compiles."""
    before = set(TensorifyState.force_specializations)
    try:
        yield
    finally:
        TensorifyState.clear()
        TensorifyState.force_specializations.update(before)


@contextlib.contextmanager
def _counts_kept() -> Iterator[None]:
    number, counts = aot_autograd.AOT_COUNTER, copy.deepcopy(counters)
    metrics = getattr(get_metrics_context(), "_metrics", {})
    measured = dict(metrics)
    aot_autograd.AOT_COUNTER = copy.copy(number)
    try:
        yield
    finally:
        aot_autograd.AOT_COUNTER = number
        for now, before in ((counters, counts), (metrics, measured)):
            now.clear()
            now.update(before)


class _OtherThreads(logging.Filter):
    """Lets pass what other threads log, and what is not torch's."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread or not record.name.startswith("torch")


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """No TORCH_LOGS and no TORCH_TRACE of this thread: they would show graphs that the program does not compile."""
    known = logging.root.manager.loggerDict
    loggers = [known[name] for name in list(known) if name.startswith("torch")]
    handlers = {
        id(h): h for each in (logging.root, *loggers) for h in getattr(each, "handlers", ())
    }  # a PlaceHolder has none
    mute, thread = _OtherThreads(), threading.get_ident()
    stop = metadata_unprinted(lambda: threading.get_ident() == thread)
    for handler in handlers.values():
        handler.addFilter(mute)
    try:
        yield
    finally:
        for handler in handlers.values():
            handler.removeFilter(mute)
        stop()


_KEPT = (
    "guards",
    "axioms",
    "replacements",
    "replacements_slocs",
    "unbacked_renamings",
    "deferred_runtime_asserts",
    "divisible",
    "var_to_range",
    "var_to_range_sloc",
    "size_like",
    "pending_fresh_unbacked_symbols",
    "real_tensor_prop_unbacked_vals",
    "dim_constraints",
)
"""What a trace may change in a shape environment, other than names for new symbols."""


@contextlib.contextmanager
def environment_kept(env: Any) -> Iterator[None]:
    before = {name: copy.copy(getattr(env, name)) for name in _KEPT if hasattr(env, name)}
    asserts = env.num_deferred_runtime_asserts
    sources = {symbol: list(found) for symbol, found in env.var_to_sources.items()}
    try:
        yield
    finally:
        for symbol, found in sources.items():
            # torch 2.8 adds one for a nested tensor made anew, and an error of its own names them all.
            env.var_to_sources[symbol][:] = found
        changed = [name for name, value in before.items() if getattr(env, name) != value]
        for name in changed:
            setattr(env, name, before[name])
        env.num_deferred_runtime_asserts = asserts
        if changed:
            env._update_version_counter()
