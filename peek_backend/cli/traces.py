"""Tracebacks of the user's code, without the frames of peek that called it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, TracebackType


def cut_our_frames(ours: Callable[[CodeType], bool]) -> None:
    """Have what is being raised shown from behind the last frame that is ``ours``, whatever hook shows it.

    The exception is left to Python's top level, so that exit codes, a hook that the program set and Ctrl-C keep
    their meaning.
    """
    show = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        trace = _behind(trace, ours)
        show(kind, value.with_traceback(trace), trace)

    sys.excepthook = hook


def _behind(trace: TracebackType | None, ours: Callable[[CodeType], bool]) -> TracebackType | None:
    kept, step = trace, trace
    while step is not None:
        if ours(step.tb_frame.f_code):
            kept = step.tb_next
        step = step.tb_next
    while kept is not None and kept.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
        kept = kept.tb_next
    return kept
