"""Calls for which nothing is compiled: a stance forbids it, the recompile limit was reached, or Dynamo raised before it began.

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
    """A call for which nothing is compiled, seen in its own thread before it runs in eager or ends with an error.

    ``stance`` is the one that forbids it, else empty; ``raises`` says that the call ends with an error.
    ``guards`` are torch's texts of the guard that failed of each cached variant.
    """

    code: Any
    local_values: dict[str, Any]
    callers: tuple[tuple[str, int, str], ...]
    guards: tuple[str, ...] = ()
    stance: str = ""
    raises: bool = False


def watch_stance_calls(observer: Callable[[Refused], None]) -> contextlib.AbstractContextManager[None]:
    """Call ``observer`` for each call that a stance keeps from being compiled: ``fail_on_recompile``, ``eager_on_recompile``.

    torch asks ``_callback_from_stance`` at every compiled call what to do with frames that have no code yet. The stance's own
    answer is kept: an error, or eager with whatever is cached further in. The observer must not raise.
    """
    return compat.stand_in(eval_frame, "_callback_from_stance", _telling_stances, observer)


def _telling_stances(real: Callable[..., Any], tell: Callable[[Refused], None]) -> Callable[..., Any]:
    def telling(callback: Any) -> Any:
        found, name = real(callback), eval_frame._stance.stance
        if name == "eager_on_recompile" and found is False and callback not in (False, None):
            return _eager_and_told(tell)
        if name == "fail_on_recompile" and callable(found):
            return _failing_and_told(found, tell)
        return found

    return telling


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
    """Tell of a frame that was compiled before, or that the program called as a compiled function; not of what these call."""
    with contextlib.suppress(Exception):  # a frame that cannot be read is one that nobody hears of
        entries, above = compat.cache_entries(frame.f_code), _caller(frame, above)
        called = above is not None and above.f_code.co_filename == eval_frame.__file__
        if entries or called:
            texts = tuple(_failing_guards(entries, frame.f_locals))
            call = _read(frame, above, raises=raises)
            observer(call._replace(guards=texts, stance=eval_frame._stance.stance))


def _caller(frame: Any, above: Any) -> Any:
    """What called ``frame``. ``above`` is the Python frame before the callback's: the caller, from Python 3.11 on, which hides a
    frame that has not begun."""
    return above.f_back if above.f_code is frame.f_code else above


def _read(frame: Any, above: Any, *, raises: bool) -> Refused:
    values = compat.named(frame.f_locals, frame.f_globals)
    return Refused(frame.f_code, values, compat.callers(above), raises=raises)


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


def watch_errors(observer: Callable[[Refused, Exception], None]) -> contextlib.AbstractContextManager[None]:
    """Call ``observer`` with each call that Dynamo ends with an error, whether or not a compile had begun by then.

    Hooks tell of what is raised between the start and the end of a compile. Before it stand checks of the frame, the making
    of DDP's optimizer and the settings that forbid a compile; all of it runs in ``CatchErrorsWrapper``, which torch calls for
    every frame without code, whatever the backend. The observer must not raise.
    """
    return compat.stand_in(convert_frame.CatchErrorsWrapper, "__call__", _telling_errors, observer)


# Dynamo walks up from itself, past what has this in its file name, to see whether disable(recursive=False) called the frame.
_AS_DYNAMO = f"{__file__} (around torch/_dynamo/convert_frame.py)"


def _telling_errors(
    real: Callable[..., Any], tell: Callable[[Refused, Exception], None]
) -> Callable[..., Any]:
    def telling(self: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return real(self, frame, *args, **kwargs)
        except Exception as error:
            with contextlib.suppress(Exception):  # as above
                tell(_read(frame, _caller(frame, sys._getframe(1)), raises=True), error)
            raise

    telling.__code__ = telling.__code__.replace(co_filename=_AS_DYNAMO)
    return telling
