"""Calls for which nothing may be compiled any more: a stance forbids it, or the recompile limit was reached.

torch has no hook for them: the answers it gives in place of a compile are watched. Each call gets the answer that it would have
got; what is seen is told to an observer, in the thread of the call, before the call runs.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch._dynamo.config as dynamo_config
from torch._dynamo import convert_frame, eval_frame, guards
from torch._dynamo.types import ConvertFrameReturn

from . import compat


class Refused(NamedTuple):
    """A call for which nothing may be compiled, seen in its own thread before it runs in eager or ends with an error.

    ``stance`` is the one that forbids it, empty for the recompile limit; ``raises`` says that the call ends with an error.
    ``guards`` are torch's texts of the guard that failed of each cached variant.
    """

    code: Any
    local_values: dict[str, Any]
    callers: tuple[tuple[str, int, str], ...]
    guards: tuple[str, ...] = ()
    stance: str = ""
    raises: bool = False


@contextlib.contextmanager
def watch_stance_calls(observer: Callable[[Refused], None]) -> Iterator[None]:
    """Call ``observer`` for each call that a stance keeps from being compiled: ``fail_on_recompile``, ``eager_on_recompile``.

    torch asks ``_callback_from_stance`` at every compiled call what to do with frames that have no code yet. The stance's own
    answer is kept: an error, or eager with whatever is cached further in. The observer must not raise.
    """
    real = eval_frame._callback_from_stance

    @functools.wraps(real)
    def telling(callback: Any) -> Any:
        found, name = real(callback), eval_frame._stance.stance
        if name == "eager_on_recompile" and found is False and callback not in (False, None):
            return _eager_and_told(observer)
        if name == "fail_on_recompile" and callable(found):
            return _failing_and_told(found, observer)
        return found

    eval_frame._callback_from_stance = telling
    try:
        yield
    finally:
        if eval_frame._callback_from_stance is telling:
            eval_frame._callback_from_stance = real


def _eager_and_told(observer: Callable[[Refused], None]) -> Callable[..., Any]:
    action = torch._C._dynamo.eval_frame._FrameAction
    strategy = torch._C._dynamo.eval_frame._FrameExecStrategy(action.DEFAULT, action.RUN_ONLY)

    def callback(frame: Any, *args: Any, **kwargs: Any) -> Any:
        _tell_refused(observer, frame, sys._getframe(1), raises=False)
        return ConvertFrameReturn(frame_exec_strategy=strategy, apply_to_code=False)

    # By these torch finds the backend to compare with that of a cached variant: none, as in its own run-only mode.
    callback._torchdynamo_orig_backend = False  # type: ignore[attr-defined]
    callback._torchdynamo_orig_callable = False  # type: ignore[attr-defined]  # its name on 2.8
    return callback


def _failing_and_told(real: Callable[..., Any], observer: Callable[[Refused], None]) -> Callable[..., Any]:
    @functools.wraps(real)  # takes over the attribute that holds the backend
    def callback(frame: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return real(frame, *args, **kwargs)
        except RuntimeError:
            _tell_refused(observer, frame, sys._getframe(1), raises=True)
            raise

    return callback


def _tell_refused(observer: Callable[[Refused], None], frame: Any, above: Any, *, raises: bool) -> None:
    """Tell of a frame that was compiled before, or that the program called as a compiled function; not of what these call.

    ``above`` is the Python frame before the callback's: the caller, from Python 3.11 on, which hides a frame that has not begun.
    """
    with contextlib.suppress(Exception):  # a frame that cannot be read is one that nobody hears of
        code, entries = frame.f_code, compat.cache_entries(frame.f_code)
        above = above.f_back if above.f_code is code else above
        called = above is not None and above.f_code.co_filename == eval_frame.__file__
        if entries or called:
            texts = tuple(_failing_guards(entries, frame.f_locals))
            values, stance = compat.named(frame.f_locals, frame.f_globals), eval_frame._stance.stance
            observer(Refused(code, values, compat.callers(above), texts, stance, raises))


def _failing_guards(entries: list[Any], local_values: dict[str, Any]) -> Iterator[str]:
    """torch's text of the first guard that fails, of each cached variant. 2.13 asks for the backend too."""
    takes_backend = "backend" in inspect.signature(guards.get_guard_fail_reason_helper).parameters
    for entry in entries:
        backend = [getattr(entry, "backend", None)] if takes_backend else []
        yield guards.get_guard_fail_reason_helper(
            entry.guard_manager, local_values, entry.compile_id, *backend
        )


@contextlib.contextmanager
def watch_limit(observer: Callable[[Refused], None]) -> Iterator[None]:
    """Call ``observer`` when the recompile limit turns an attempt down, while the frame's values are at hand.

    No hook says so; torch warns of it from inside ``_compile``, through a logger that a filter looks at. Nothing is filtered
    out. Where that logger is off, only the metrics tell of the attempt, later. The observer must not raise.
    """

    def look(record: logging.LogRecord) -> bool:
        if "hit config." in str(record.msg) and (found := compat.compiling()) is not None:
            raises = found.one_graph or getattr(dynamo_config, "fail_on_recompile_limit_hit", False)
            observer(Refused(found.code, found.local_values, found.callers, raises=raises))
        return True

    convert_frame.log.addFilter(look)
    try:
        yield
    finally:
        convert_frame.log.removeFilter(look)
