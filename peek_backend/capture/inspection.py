"""A fresh compile and one call of a function, leaving no trace."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec
import torch
from torch import fx
from torch.utils import _pytree as pytree

from ..errors import PeekError
from ..model import CaptureRecord, Problem, TensorMeta
from . import compat
from .inner import check_inner, hand_on
from .isolation import TensorState, dynamo_untouched, globals_kept, random_state_kept
from .session import Session, observe


def inspect_call(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    inner: str | Callable[..., Any] | None = None,
    more: Sequence[tuple[Sequence[Any], dict[str, Any]]] = (),
    stages: Collection[str] = (),
) -> CaptureRecord:
    """What ``torch.compile`` captures of ``fn(*args, **kwargs)``, from a fresh start, and of the calls ``more`` after it.

    ``stages`` names later stages to record too. Afterwards these are as before: compiled variants and dynamism of ``fn`` and of
    all it calls, torch's counters, buffers, inputs, gradients, attributes of modules, RNG, grad mode. The call's exception passes
    with ``peek_record`` on it. What the code does outside torch (files, prints, globals) happens. Raises PeekError for an unknown
    ``inner``, or an ``fn`` that is not callable.
    """
    check_inner(inner)
    _check_dynamic(dynamic)
    original = _uncompiled(fn)
    calls = [(args, kwargs), *more]
    state = TensorState(roots(original, calls))
    backend = _backend(state, inner)
    compiled = compat.compile_apart(original, backend=backend, dynamic=dynamic, fullgraph=fullgraph)
    with (
        Session(stages=stages) as session,
        globals_kept(inspect.unwrap(original)),
        _everything_kept(state) as lost,
    ):
        try:
            for call_args, call_kwargs in calls:
                compiled(*call_args, **call_kwargs)
        except (Exception, KeyboardInterrupt) as error:
            with contextlib.suppress(Exception):  # some exceptions take no attributes
                error.peek_record = session.record  # type: ignore[attr-defined]
            raise
        finally:
            session.settle()  # torch's counters, which it reads, are put back next
    return _with_problems(session.record, lost)


def _check_dynamic(dynamic: Any) -> None:
    if dynamic is not None and not isinstance(dynamic, bool):
        raise PeekError(
            f"dynamic={dynamic!r} is neither True, False nor None",
            "it is torch.compile's own switch, for all dims",
            "for single dims call torch._dynamo.mark_dynamic(x, 0) before, or peek inspect --input 'f32[batch=8, 4]'",
        )


def _uncompiled(fn: Any) -> Callable[..., Any]:
    """The function or module behind a compiled one; ``fn`` itself otherwise, a lazy module's copy, as its first call makes its
    parameters for good."""
    if not callable(fn):
        raise PeekError(
            f"a {type(fn).__name__} cannot be inspected",
            "it is no function or module",
            "pass the callable and its arguments: inspect(fn, x)",
        )
    if isinstance(fn, torch._dynamo.eval_frame.OptimizedModule):
        fn = fn._orig_mod
    if is_shapeless(fn):
        return copy.deepcopy(fn)
    return getattr(fn, "_torchdynamo_orig_callable", fn)


def is_shapeless(fn: Any) -> bool:
    """Whether ``fn`` is a module with lazy parameters or buffers, which take their shapes from its first call."""
    if not isinstance(fn, torch.nn.Module):
        return False
    return any(map(torch.nn.parameter.is_lazy, (*fn.parameters(), *fn.buffers())))


def roots(fn: Any, calls: Any) -> Iterator[Any]:
    """The modules and tensors that a call can reach without a graph: arguments, the module itself, closures and globals."""
    yield from pytree.tree_leaves(calls)
    yield fn
    function = inspect.unwrap(fn)
    yield getattr(function, "__self__", None)
    code = getattr(function, "__code__", None)
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            yield from pytree.tree_leaves(cell.cell_contents)
    for name in getattr(code, "co_names", ()):
        yield getattr(function, "__globals__", {}).get(name)


def _backend(state: TensorState, inner: Any) -> Callable[..., Any]:
    def inspecting(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        graph = observe(compat.current_output_graph(), gm, example_inputs)
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        for node, value in zip(placeholders, example_inputs, strict=False):
            written = isinstance(node.value, TensorMeta) and "mutated" in node.value.flags
            if written and isinstance(value, torch.Tensor):
                state.keep(value)
        return hand_on(gm, example_inputs, inner)

    inspecting.inner_name = inner if isinstance(inner, str) else ""  # type: ignore[attr-defined]  # for compat.backend_name
    return inspecting


@contextlib.contextmanager
def _everything_kept(state: TensorState) -> Iterator[list[str]]:
    lost: list[str] = []
    grad = torch.is_grad_enabled()
    with random_state_kept(), dynamo_untouched():
        try:
            yield lost
        finally:
            torch.set_grad_enabled(grad)
            lost.extend(state.restore())


def _with_problems(record: CaptureRecord, lost: list[str]) -> CaptureRecord:
    if not lost:
        return record
    problem = Problem(
        "inspect",
        f"{len(lost)} parameters were changed by the call and not put back: {', '.join(lost[:5])}",
        "code outside the captured graphs wrote them in place",
        "inspect the forward alone, or a copy of the module",
    )
    return msgspec.structs.replace(record, problems=(*record.problems, problem))
