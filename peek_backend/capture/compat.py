"""What differs between torch versions, each with the version and the reason, and the one place where Dynamo is wrapped."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch._dynamo.config as dynamo_config
from torch._dynamo import bytecode_transformation as bytecode
from torch._dynamo import convert_frame, decorators, eval_frame, exc, resume_execution
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.callback import CallbackTrigger, callback_handler
from torch._dynamo.convert_frame import register_bytecode_hook
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import SpeculationEntry
from torch._guards import CompileContext, TracingContext
from torch.utils._python_dispatch import TorchDispatchMode


def version() -> tuple[int, int]:
    """torch's version as (major, minor)."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def backed_hints(shape_env: Any) -> dict[Any, Any]:
    """Hints by symbol. ``var_to_val`` was renamed ``backed_var_to_val`` in 2.13; the old name warns since."""
    hints = getattr(shape_env, "backed_var_to_val", None)
    return hints if hints is not None else shape_env.var_to_val


def set_unbacked_hint(shape_env: Any, symbol: Any, value: int) -> None:
    """The value by which guards on an unbacked symbol are decided. ``set_unbacked_var_to_val`` was renamed
    ``set_real_tensor_prop_unbacked_vals`` in 2.13 or before."""
    set_value = (
        getattr(shape_env, "set_real_tensor_prop_unbacked_vals", None) or shape_env.set_unbacked_var_to_val
    )
    set_value(symbol, value)


def let_see_higher_order(mode: type) -> None:
    """Have a dispatch mode see higher-order ops as it sees others.

    Its ``supports_higher_order_operators`` does so on 2.13; on 2.8, which has no such thing, each op has to be told of the mode.
    """
    if hasattr(TorchDispatchMode, "supports_higher_order_operators"):
        return
    for op in torch._ops._higher_order_ops.values():
        if mode not in op.python_key_table:
            op.py_impl(mode)(functools.partial(_see_higher_order, op))


def _see_higher_order(op: Any, mode: Any, *args: Any, **kwargs: Any) -> Any:
    return mode.__torch_dispatch__(op, (), args, kwargs)


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


class _StandIn(NamedTuple):
    """What stands in for a function of torch, what it stands in for, and who is told."""

    function: Any
    real: Any
    observers: list[Callable[..., None]]


_STAND_INS: dict[tuple[Any, str], _StandIn] = {}


@contextlib.contextmanager
def stand_in(
    owner: Any, name: str, made: Callable[[Any, Callable[..., None]], Any], observer: Callable[..., None]
) -> Iterator[None]:
    """Have ``made(real, tell)`` stand in for ``owner.name`` while anybody watches it; ``tell(...)`` calls every observer.

    Whoever watches the same may end in any order: torch's own is back with the last. What another put on top meanwhile stays.
    """
    with _LOCK:
        standing = _STAND_INS.get((owner, name))
        if standing is None:
            standing = _STAND_INS[owner, name] = _standing_in(getattr(owner, name), made)
            setattr(owner, name, standing.function)
        standing.observers.append(observer)
    try:
        yield
    finally:
        with _LOCK:
            standing.observers.remove(observer)
            if not standing.observers:
                del _STAND_INS[owner, name]
                if getattr(owner, name) is standing.function:
                    setattr(owner, name, standing.real)


def _standing_in(real: Any, made: Callable[[Any, Callable[..., None]], Any]) -> _StandIn:
    observers: list[Callable[..., None]] = []

    def tell(*args: Any) -> None:
        for observer in tuple(observers):
            observer(*args)

    # wraps keeps marks of Dynamo's, such as the one by which it refuses set_stance in compiled code
    return _StandIn(functools.wraps(real)(made(real, tell)), real, observers)


_OBSERVERS: list[Callable[[Any, Any, Any], None]] = []
_AROUND: list[Callable[[Any, Any, Any], contextlib.AbstractContextManager[Any]]] = []
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
        with _buckets_observed(self) as split:
            if not split:
                _tell_observers(self, gm, example_inputs)
            with contextlib.nullcontext() if split else _surrounded(self, gm, example_inputs):
                compiled = _REAL(self, gm, example_inputs, *args, **kwargs)
        return compiled
    finally:
        _WATCHED.output = None


@contextlib.contextmanager
def _surrounded(output: Any, gm: Any, example_inputs: Any) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for around in tuple(_AROUND):
            stack.enter_context(around(output, gm, example_inputs))
        yield


@contextlib.contextmanager
def around_backend_calls(
    around: Callable[[Any, Any, Any], contextlib.AbstractContextManager[Any]],
) -> Iterator[None]:
    """Run each backend call inside ``around(output_graph, gm, example_inputs)``. Needs ``watch_graphs``."""
    with _LOCK:
        _AROUND.append(around)
    try:
        yield
    finally:
        with _LOCK:
            _AROUND.remove(around)


def backend_name(output: Any) -> str:
    """The name of the backend that runs a compile: ``inductor``, a function's own name, of peek its inner one; empty for none."""
    backend = getattr(output, "compiler_fn", None)
    optimizer = getattr(backend, "__self__", None)
    if type(optimizer).__name__ == "DDPOptimizer":
        backend = optimizer.backend_compile_fn
    names = (getattr(backend, name, None) for name in ("compiler_name", "__name__"))
    found = next((n for n in names if isinstance(n, str)), "")
    if found == "peek":
        inner = (getattr(backend, "kwargs", None) or {}).get("options", {}).get("inner")
        return inner if isinstance(inner, str) else getattr(inner, "__name__", "")
    return getattr(getattr(backend, "compiler_fn", backend), "inner_name", found)


def _tell_observers(output: Any, gm: Any, example_inputs: Any) -> None:
    for observer in tuple(_OBSERVERS):
        observer(output, gm, example_inputs)


@contextlib.contextmanager
def _buckets_observed(output: Any) -> Iterator[bool]:
    """Whether DDPOptimizer stands between Dynamo and the backend; then the observers are told each graph that it hands on.

    It cuts the graph into buckets and calls the backend for each. The optimizer is made anew for every frame, so what is set on
    it here is seen by this compile alone.
    """
    optimizer = getattr(getattr(output, "compiler_fn", None), "__self__", None)
    if type(optimizer).__name__ != "DDPOptimizer":
        yield False
        return
    backend = optimizer.backend_compile_fn

    def observed(gm: Any, example_inputs: Any, **kwargs: Any) -> Any:
        _tell_observers(output, gm, example_inputs)
        with _surrounded(output, gm, example_inputs):
            return backend(gm, example_inputs, **kwargs)

    optimizer.backend_compile_fn = observed
    try:
        yield True
    finally:
        optimizer.backend_compile_fn = backend


@contextlib.contextmanager
def count_calls(counter: Callable[[str], Callable[[], Any]]) -> Iterator[None]:
    """Have every variant that is compiled meanwhile call ``counter(compile id)()`` first, at each of its calls, also later.

    The call is an instruction of the code that Dynamo made, so variants without a graph are counted as well. It has to be written
    in C (a method of ``itertools.count``): Dynamo looks at every Python frame that compiled code enters.
    """

    def hook(code: Any, new: Any) -> Any:
        try:
            return _counting(new, counter(compile_id() or ""))
        except Exception:  # an odd code object is left as it is, and not counted
            return None

    handle = register_bytecode_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _counting(code: types.CodeType, count: Callable[[], Any]) -> types.CodeType:
    """``code`` with a call of ``count`` at its start: behind RESUME, where Python has one (3.11 and later)."""

    def insert(instructions: list[Any], options: dict[str, Any]) -> None:
        names = [instruction.opname for instruction in instructions]
        start = names.index("RESUME") + 1 if "RESUME" in names else 0
        load = bytecode.create_instruction("LOAD_CONST", argval=count)
        instructions[start:start] = [
            *bytecode.add_push_null(load),
            *bytecode.create_call_function(0, False),
            bytecode.create_instruction("POP_TOP"),
        ]

    made = bytecode.transform_code_object(code, insert)
    return made[0] if isinstance(made, tuple) else made  # 2.13 returns the state of the tracer as well


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


HAS_ISOLATION = "isolate_recompiles" in inspect.signature(torch.compile).parameters
"""Whether a compile can have cache entries of its own; torch 2.12 and later."""


def compile_apart(fn: Any, **kwargs: Any) -> Any:
    """``torch.compile`` whose cache entries neither count against the user's recompile limit nor evict his.

    Before isolation existed a function is compiled as a copy, since entries belong to the code object; the entries of a module's
    forward share its list, and each inspection of one that the user has compiled takes a place under his limit.
    """
    if HAS_ISOLATION:
        return torch.compile(fn, isolate_recompiles=True, **kwargs)
    return torch.compile(_copied(fn), **kwargs)


def _copied(fn: Any) -> Any:
    """A function with a code object of its own; anything but a function or a bound method as it is."""
    if isinstance(fn, types.MethodType):
        return types.MethodType(_copied(fn.__func__), fn.__self__)
    if not isinstance(fn, types.FunctionType):
        return fn
    copied = types.FunctionType(
        fn.__code__.replace(), fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__
    )
    copied.__kwdefaults__ = fn.__kwdefaults__
    copied.__dict__.update(fn.__dict__)
    return copied


def cache_entries(code: types.CodeType) -> list[Any]:
    """Every cache entry of a code object, those of all regions included."""
    return list(torch._C._dynamo.eval_frame._debug_get_cache_entry_list(code))


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
    """Whether code from a precompiled package is loaded for a code object; 2.8 has no such packages."""
    entries = getattr(torch._C._dynamo.eval_frame, "_debug_get_precompile_entries", None)
    return entries is not None and bool(entries(code))


def initialised_cuda_devices() -> list[int]:
    """CUDA devices whose generators may have been used; none where CUDA was never started, which asking would do."""
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Set how often a tensor counts as written, so that autograd's check of saved tensors holds as before.

    Takes sequences from 2.7 on. Inference tensors have no version.
    """
    if not tensor.is_inference():
        torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


@contextlib.contextmanager
def watch_compiles(
    started: Callable[[str], None], rewritten: Callable[[Any, Any], None], ended: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """Call ``started(compile id)`` and ``ended(compile id)`` around each compile, ``rewritten(code, new code)`` in between.

    ``rewritten`` is called once Dynamo made its bytecode, before it builds the guards. The three must not raise: an exception in
    a callback ends the user's compile. A ``torch._dynamo.reset()`` meanwhile keeps them. Yields a function that registers
    them again. Nested compiles have no start and end of their own.
    """

    def start(args: Any) -> None:
        if args.callback_trigger is CallbackTrigger.DYNAMO:
            started(str(args.compile_id))

    def end(args: Any) -> None:
        if args.callback_trigger is CallbackTrigger.DYNAMO:
            ended(str(args.compile_id))

    def register() -> None:
        with _LOCK:
            if start not in callback_handler.start_callbacks:
                callback_handler.register_start_callback(start)
            if end not in callback_handler.end_callbacks:
                callback_handler.register_end_callback(end)

    register()
    hook = register_bytecode_hook(rewritten)
    with _LOCK:
        _REGISTERS.append(register)
        callback_handler.clear = _cleared
    try:
        yield register
    finally:
        hook.remove()
        with _LOCK:
            _REGISTERS.remove(register)
            if not _REGISTERS:
                del callback_handler.clear
        with _LOCK, contextlib.suppress(ValueError):  # a reset took them away
            callback_handler.remove_start_callback(start)
        with _LOCK, contextlib.suppress(ValueError):
            callback_handler.remove_end_callback(end)


_REGISTERS: list[Callable[[], None]] = []


def _cleared() -> None:
    """Stands in for the handler's ``clear`` while somebody watches: ``torch._dynamo.reset()`` calls it, and a frame that is
    left in eager after one reaches no backend that could register again."""
    type(callback_handler).clear(callback_handler)
    for register in tuple(_REGISTERS):
        register()


class StepCause(NamedTuple):
    """The ``Unsupported`` after which Dynamo compiles a frame up to its last line in between, and leaves the rest to Python."""

    text: str
    stack: tuple[Any, ...]


@contextlib.contextmanager
def watch_step_causes() -> Iterator[None]:
    """Keep what ends a frame in the middle of a statement, for ``step_cause``.

    Torch notes such a break as "step_unsupported" only. Its cause is the last ``Unsupported`` raised before Dynamo starts the
    frame over without a reason (``SpeculationEntry.fail_and_restart_analysis``; 2.8 logs it nowhere).
    """
    with (
        stand_in(exc.Unsupported, "__init__", _noting_causes, _note_unsupported),
        stand_in(SpeculationEntry, "fail_and_restart_analysis", _noting_restarts, _note_restart),
    ):
        yield


def _noting_causes(raised: Any, tell: Callable[..., None]) -> Any:
    def noting(self: Any, *args: Any, **kwargs: Any) -> None:
        raised(self, *args, **kwargs)
        tell(self)

    return noting


def _note_unsupported(error: Any) -> None:
    _WATCHED.unsupported = StepCause(str(error), tuple(getattr(error, "real_stack", None) or ()))


def _noting_restarts(restarted: Any, tell: Callable[..., None]) -> Any:
    def restarting(self: Any, *args: Any, **kwargs: Any) -> Any:
        tell(self)
        return restarted(self, *args, **kwargs)

    return restarting


def _note_restart(entry: Any) -> None:
    if entry.reason is None:
        _WATCHED.step_cause = getattr(_WATCHED, "unsupported", None)


def step_cause(reason: Any) -> StepCause | None:
    """What is behind a "step_unsupported" of the compile that runs in this thread; None for any other reason."""
    if reason.reason != "step_unsupported":
        return None
    return getattr(_WATCHED, "step_cause", None)


_METRICS_LIMIT = 100_000
_METRICS_BEFORE: list[int | None] = []


@contextlib.contextmanager
def keep_metrics() -> Iterator[None]:
    """Let torch keep all compilation metrics while somebody reads them; by default it holds the last 64."""
    with _LOCK:
        held = dynamo_utils._compilation_metrics.maxlen
        _METRICS_BEFORE.append(held)
        if held is not None and held < _METRICS_LIMIT:
            dynamo_utils.set_compilation_metrics_limit(_METRICS_LIMIT)
    try:
        yield
    finally:
        with _LOCK:
            first = _METRICS_BEFORE[0]
            _METRICS_BEFORE.pop()
            if (
                not _METRICS_BEFORE
                and first is not None
                and first != dynamo_utils._compilation_metrics.maxlen
            ):
                dynamo_utils.set_compilation_metrics_limit(first)


def metrics_of_compiles() -> list[Any]:
    """torch's CompilationMetrics, oldest first."""
    return dynamo_utils.get_compilation_metrics()


def break_reasons() -> list[Any]:
    """Every GraphCompileReason of a break since the last reset: ``.reason``, ``.user_stack``."""
    return dynamo_utils.graph_break_reasons


def guard_failures(code: Any) -> list[str]:
    """What failed at each recompile of a code object, a text a variant; the metrics keep the first only."""
    return dynamo_utils.guard_failures.get(code, [])


def codes_with_guard_failures() -> list[Any]:
    """The code objects that were compiled more than once since the last reset."""
    return list(dynamo_utils.guard_failures)


class Compiling(NamedTuple):
    """What Dynamo holds of the frame that it is compiling in this thread.

    ``local_values`` are the user's own objects, with the globals as ``G``; ``variants`` counts the compiled ones of the code
    object; ``callers`` are (file, line, function) of what led to the frame, before Python 3.11 the frame itself last.
    """

    code: Any
    local_values: dict[str, Any]
    one_graph: bool
    variants: int
    callers: tuple[tuple[str, int, str], ...]


_MOST_FRAMES_UP = 60
_MOST_CALLERS = 30


def compiling() -> Compiling | None:
    """The innermost compile under way in this thread, or None.

    No hook passes the frame on to the start callback, nor to anyone when no graph comes out; ``_compile`` has it among its own
    locals (``code``, ``locals``, ``one_graph``, ``cache_entries``; the last is ``cache_size`` alone on 2.8).
    """
    frame = sys._getframe(1)
    for _ in range(_MOST_FRAMES_UP):
        if frame is None:
            return None
        if frame.f_code is convert_frame._compile.__code__:
            return _compiling(frame)
        frame = frame.f_back
    return None


def _compiling(frame: Any) -> Compiling:
    held = frame.f_locals
    code, entries = held.get("code"), held.get("cache_entries")
    count = len(entries) if entries is not None else getattr(held.get("cache_size"), "num_cache_entries", 0)
    return Compiling(
        code,
        named(held.get("locals"), held.get("globals")),
        bool(held.get("one_graph")),
        count,
        callers(frame, code),
    )


def named(local_values: Any, global_values: Any) -> dict[str, Any]:
    """A frame's values by the names that guards use: locals by their own, globals as ``G['name']``."""
    return {"G": global_values} | dict(local_values or {})


PEEK_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_COMMAND_LINE = os.path.join(PEEK_FOLDER, "cli", "")


def callers(frame: Any, code: Any = None) -> tuple[tuple[str, int, str], ...]:
    """The Python lines above a compile, outermost first, without torch's files and peek's; the compiled frame is the last.

    What is above peek's command line started peek, not the program.
    """
    inside, found = (torch_folder(), PEEK_FOLDER), []
    while frame is not None and len(found) < _MOST_CALLERS:
        here = frame.f_code
        if here.co_filename.startswith(_COMMAND_LINE):
            break
        if here is code or not here.co_filename.startswith((*inside, "<frozen")):
            found.append((here.co_filename, frame.f_lineno or here.co_firstlineno, here.co_name))
        frame = frame.f_back
    return tuple(reversed(found))


def resume_root(code: Any) -> Any:
    """The code object that a resume function continues, None for any other. A resume of a resume has the same root."""
    found = resume_execution.ContinueExecutionCache.generated_code_metadata.get(code)
    return None if found is None else found.code


def guards_context(output: Any) -> Any:
    """Where Dynamo collects the guards of the compile; it empties it right after the compile."""
    return output.tracing_context.guards_context


def guard_type(guard: Any) -> str:
    """torch's name of a guard's kind (``TENSOR_MATCH``). ``create_fn_name`` came after 2.8."""
    if hasattr(guard, "create_fn_name"):
        return guard.create_fn_name()
    function = guard.create_fn
    return getattr(getattr(function, "func", function), "__name__", str(function))


def guarded_class(guard: Any) -> str:
    """The name of the class of what a guard is on, where torch kept it; 2.8 has no class in the guard's code."""
    reference = getattr(guard, "guarded_class_weakref", None)
    found = reference() if callable(reference) else None
    return found.__name__ if isinstance(found, type) else ""


def guard_name(guard: Any) -> str:
    """Dynamo's text of a guard's source, empty for the state of the process."""
    return guard.name


def dynamic_mode() -> str:
    """How this compile treats sizes: ``on`` (dynamic=True), ``off`` (dynamic=False), ``automatic`` (static until they change)."""
    if not dynamo_config.assume_static_by_default:
        return "on"
    return "automatic" if dynamo_config.automatic_dynamic_shapes else "off"


def skips_need_the_trace() -> bool:
    """Whether only torch's trace tells which break made Dynamo skip a frame.

    Until 2.12 a break in a loop raises SkipFrame, which Dynamo catches itself and writes to no list; since 2.13 it is an
    ``Unsupported`` that ends the compile.
    """
    return version() < (2, 13)


def errors_suppressed() -> bool:
    """Whether Dynamo runs a frame in eager after any error in its compile (``suppress_errors``)."""
    return bool(dynamo_config.suppress_errors)


def stance() -> str:
    """The process's ``torch.compiler.set_stance``, ``default`` where none is set."""
    return eval_frame._stance.stance


def watch_stances(seen: Callable[[str], None]) -> contextlib.AbstractContextManager[None]:
    """Call ``seen(name)`` whenever the program sets a stance, also for a block that is over before anybody asks for ``stance``.

    ``torch.compiler.set_stance`` reaches ``_set_stance`` through the module ``decorators``, the one place that is wrapped.
    """
    return stand_in(decorators, "_set_stance", _telling_stance, seen)


def _telling_stance(real: Any, tell: Callable[..., None]) -> Any:
    def telling(stance: Any) -> Any:
        tell(stance.stance)
        return real(stance)

    return telling


@contextlib.contextmanager
def watch_uncompiled(seen: Callable[[str], None]) -> Iterator[None]:
    """Call ``seen(sentence)`` for what the program gives to ``torch.compile`` and that is not compiled, or not when it is called.

    ``disable=True`` (and TORCHDYNAMO_DISABLE=1) hands the function back through ``_NullDecorator``; of a class its ``__call__``
    is compiled, through ``_TorchDynamoContext.__call__``.
    """
    with (
        stand_in(eval_frame._NullDecorator, "__call__", _handing_back, seen),
        stand_in(eval_frame._TorchDynamoContext, "__call__", _entering, seen),
    ):
        yield


def _handing_back(real: Any, tell: Callable[..., None]) -> Any:
    def handing_back(self: Any, fn: Any) -> Any:
        tell(f"torch.compile was told to leave {_name(fn)} as it is: disable=True, or TORCHDYNAMO_DISABLE=1")
        return real(self, fn)

    return handing_back


def _entering(real: Any, tell: Callable[..., None]) -> Any:
    def entering(self: Any, fn: Any) -> Any:
        if inspect.isclass(fn):
            tell(f"torch.compile of the class {_name(fn)} compiles its __call__, not the making of an object")
        return real(self, fn)

    return entering


def _name(fn: Any) -> str:
    name = getattr(fn, "__qualname__", None)
    return name.rpartition("<locals>.")[2] if isinstance(name, str) else type(fn).__name__


@contextlib.contextmanager
def watch_skips() -> Iterator[Callable[[], list[str]]]:
    """Yields a function that gives the frames this thread saw declined before tracing: ``name (file:line): why``.

    Dynamo keeps that list for its own fullgraph message when somebody asks for it (2.13 has it, 2.8 has not). A call
    with fullgraph=True takes it over, so the function asks for it again.
    """
    state = getattr(eval_frame, "dynamo_tls", None)
    if not hasattr(type(state), "skip_reasons"):
        yield list
        return
    thread, before = threading.get_ident(), state.skip_reasons
    state.skip_reasons = own = [] if before is None else before

    def take() -> list[str]:
        nonlocal own
        if threading.get_ident() == thread and state.skip_reasons is None:
            state.skip_reasons = own = []
        taken = list(own)
        own.clear()
        return taken

    try:
        yield take
    finally:
        if state.skip_reasons is own:
            state.skip_reasons = before


def break_registry() -> dict[str, tuple[str, dict[str, Any]]]:
    """torch's registry of graph breaks by type: ``GB0059`` and its entry (Explanation, Hints). Empty where there is none."""
    path = os.path.join(os.path.dirname(torch._dynamo.__file__), "graph_break_registry.json")
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
    except (OSError, ValueError):
        return {}
    return {found[0]["Gb_type"]: (id, found[0]) for id, found in entries.items() if found}


def codes_seen() -> list[Any]:
    """The code objects that Dynamo looked at since the last reset and that are still alive."""
    codes = [reference() for reference in list(getattr(convert_frame.input_codes, "seen", ()))]
    return [code for code in codes if code is not None]


@functools.cache
def torch_folder() -> str:
    """Where torch is installed, with a separator at its end."""
    return os.path.join(os.path.dirname(torch.__file__), "")


def passed_by_dynamo() -> tuple[type[BaseException], ...]:
    """Exceptions of a backend that ``OutputGraph._call_user_compiler`` does not turn into a BackendCompilerFailed.

    They steer Dynamo or end in a graph break; from 2.13 on an IndexError passes as well.
    """
    steering = (
        exc.TensorifyScalarRestartAnalysis,
        exc.ShortenTraceback,
        exc.SkipFrame,
        *exc.exceptions_allowed_to_be_fallback,
    )
    return (*steering, IndexError) if version() >= (2, 13) else steering


def backend_failed(name: str, error: Exception, frame: types.FrameType) -> Exception:
    """The exception that Dynamo raises where the backend ``name`` raised ``error``; ``frame`` called the backend."""
    named = types.SimpleNamespace(__name__=name)
    return exc.BackendCompilerFailed(named, error, frame).with_traceback(error.__traceback__)


_UNPRINTED: list[Callable[[], bool]] = []
_PRINTS: list[Callable[..., str]] = []


def metadata_unprinted(unwanted: Callable[[], bool]) -> Callable[[], None]:
    """While ``unwanted()`` holds, AOTAutograd prints none of its metadata for the trace log; the result of the call ends this.

    It prints with torchgen's ``dataclass_repr``, which its modules import by name (torch 2.8 to 2.15).
    """
    import torchgen.utils

    with _LOCK:
        if not _UNPRINTED:
            _PRINTS[:] = [torchgen.utils.dataclass_repr]
            _replace_everywhere(_PRINTS[0], _printed_where_wanted)
        _UNPRINTED.append(unwanted)

    def stop() -> None:
        with _LOCK:
            _UNPRINTED.remove(unwanted)
            if not _UNPRINTED:
                _replace_everywhere(_printed_where_wanted, _PRINTS[0])

    return stop


def _printed_where_wanted(*args: Any, **kwargs: Any) -> str:
    if any(unwanted() for unwanted in tuple(_UNPRINTED)):
        return ""
    return _PRINTS[0](*args, **kwargs)


def _replace_everywhere(old: Any, new: Any) -> None:
    """Put ``new`` where torchgen and the modules of AOTAutograd that are loaded have ``old`` as ``dataclass_repr``."""
    for name, module in list(sys.modules.items()):
        ours = name == "torchgen.utils" or name.startswith("torch._functorch._aot_autograd")
        if ours and vars(module).get("dataclass_repr") is old:
            module.dataclass_repr = new
