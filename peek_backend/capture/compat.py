"""What differs between torch versions, each with the version and the reason, and the one place where Dynamo is wrapped."""

from __future__ import annotations

import contextlib
import inspect
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._guards import CompileContext, TracingContext


def version() -> tuple[int, int]:
    """torch's version as (major, minor)."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def backed_hints(shape_env: Any) -> dict[Any, Any]:
    """Hints by symbol. ``var_to_val`` was renamed ``backed_var_to_val`` in 2.13; the old name warns since."""
    hints = getattr(shape_env, "backed_var_to_val", None)
    return hints if hints is not None else shape_env.var_to_val


def source_text(source: Any) -> str:
    """Dynamo's name of a source: a method on 2.8, a string (cached property) later."""
    return source.name() if callable(source.name) else source.name


def current_output_graph() -> Any:
    """The OutputGraph whose backend call is running in this thread, or None.

    The wrapper below keeps it while a session watches; without one the tracer's own thread-local holds it.
    """
    if (watched := getattr(_WATCHED, "output", None)) is not None:
        return watched
    from torch._dynamo.symbolic_convert import (
        InstructionTranslator,
    )  # not needed to read a graph outside a compile

    with contextlib.suppress(Exception):  # current_tx raises AttributeError where nothing is traced
        return InstructionTranslator.current_tx().output
    return None


def root_code(output: Any) -> Any:
    """The code object of the frame being compiled, or None."""
    root = getattr(output, "root_tx", None)
    return getattr(root, "f_code", None)


def root_locals(output: Any) -> dict[str, Any]:
    """The local variables with which the frame being compiled was entered."""
    return getattr(getattr(output, "root_tx", None), "f_locals", None) or {}


def fake_mode() -> Any:
    """The fake mode of the compile that is running in this thread, or None."""
    context = TracingContext.try_get()
    return context.fake_mode if context is not None else None


def compile_id() -> str | None:
    """``0/0``, ``!0/1/0`` for compiled autograd, None outside a compile."""
    found = CompileContext.current_compile_id()
    return None if found is None else str(found)


def attempt() -> int:
    """How often Dynamo restarted its analysis in this compile so far."""
    context = CompileContext.try_get()
    return context.attempt if context is not None else 0


_WATCHED = threading.local()
_LOCK = threading.Lock()
_OBSERVERS: list[Callable[[Any, Any, Any], None]] = []
_REAL = OutputGraph._call_user_compiler


@contextlib.contextmanager
def watch_graphs(observer: Callable[[Any, Any, Any], None]) -> Iterator[None]:
    """Call ``observer(output_graph, gm, example_inputs)`` before each backend call of the process, whatever the backend.

    Wraps ``OutputGraph._call_user_compiler``, the one function through which every backend is called: the backend object, its
    cache entries and ``torch.compile`` stay as they are (a wrapped backend object compares unequal and compiles twice). The
    observer must not raise. The wrapper is there only while somebody watches.
    """
    with _LOCK:
        _OBSERVERS.append(observer)
        OutputGraph._call_user_compiler = _observed
    try:
        yield
    finally:
        with _LOCK:
            _OBSERVERS.remove(observer)
            if not _OBSERVERS:
                OutputGraph._call_user_compiler = _REAL


def _observed(self: Any, gm: Any, example_inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Stands in for ``_call_user_compiler`` while somebody watches: looks first, since the backend may take ``gm`` over."""
    _WATCHED.output = self
    try:
        for observer in tuple(_OBSERVERS):
            observer(self, gm, example_inputs)
        return _REAL(self, gm, example_inputs, *args, **kwargs)
    finally:
        _WATCHED.output = None


def rank() -> int | None:
    """This process's rank, None where no process group is initialised."""
    distributed = torch.distributed
    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else None


def ambient_state() -> dict[str, str]:
    """The process state a graph is traced under, where it is not the default: ``{"grad": "off", "autocast": "cpu bfloat16"}``."""
    state = {}
    if not torch.is_grad_enabled():
        state["grad"] = "inference" if torch.is_inference_mode_enabled() else "off"
    devices = [d for d in ("cpu", "cuda") if torch.is_autocast_enabled(d)]
    if devices:
        dtypes = [f"{d} {str(torch.get_autocast_dtype(d)).removeprefix('torch.')}" for d in devices]
        state["autocast"] = ", ".join(dtypes)
    if torch.are_deterministic_algorithms_enabled():
        state["deterministic"] = "on"
    return state


def world_size() -> int | None:
    """The number of ranks, None where no process group is initialised."""
    distributed = torch.distributed
    return (
        distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else None
    )


def compile_apart(fn: Any, **kwargs: Any) -> Any:
    """``torch.compile`` with cache entries of its own, so that they neither count against the user's recompile limit nor evict his.

    ``isolate_recompiles`` exists from 2.12 on; before, entries share one list and are invalidated after use.
    """
    if "isolate_recompiles" in inspect.signature(torch.compile).parameters:
        kwargs["isolate_recompiles"] = True
    return torch.compile(fn, **kwargs)


def cache_entries(code: types.CodeType) -> list[Any]:
    """Every cache entry of a code object, those of all regions included."""
    return list(torch._C._dynamo.eval_frame._debug_get_cache_entry_list(code))


def entry_is_for(entry: Any, backend: Any) -> bool:
    """Whether a cache entry was compiled for ``backend``. Dynamo keeps the wrapper that ``torch.compile`` put around it."""
    kept = getattr(entry, "backend", None)
    return kept is backend or getattr(kept, "compiler_fn", None) is backend


def drop_globals(code: types.CodeType | None) -> None:
    """Remove the globals (``__compiled_fn_…``) that Dynamo installed for the code it generated.

    torch does so when that code dies, which it never does for a frame that broke (seen on 2.13, also after ``reset()``).
    """
    manager = torch._dynamo.utils.CleanupManager.instance
    if code is not None and id(code) in manager.values:
        manager._remove_id(id(code))


def default_strategy(code: types.CodeType) -> None:
    """Let Dynamo convert a code object again, after it was marked as skipped or run-only."""
    action = torch._C._dynamo.eval_frame._FrameAction.DEFAULT  # the strategy's own default is to skip
    strategy = torch._C._dynamo.eval_frame._FrameExecStrategy(action, action)
    torch._dynamo.eval_frame.set_code_exec_strategy(code, strategy)


def has_precompiled(code: types.CodeType) -> bool:
    """Whether code from a precompiled package is loaded for a code object."""
    return bool(torch._C._dynamo.eval_frame._debug_get_precompile_entries(code))


def initialised_cuda_devices() -> list[int]:
    """CUDA devices whose generators may have been used; none where CUDA was never started, which asking would do."""
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Set how often a tensor counts as written, so that autograd's check of saved tensors holds as before.

    Takes sequences from 2.7 on. Inference tensors have no version.
    """
    if not tensor.is_inference():
        torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
