"""Tracebacks of the user's code, without the frames of peek that called it, or in a few lines."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator
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


MOST_LINES = 6
MOST_CHARACTERS = 300
_USER_CODE = re.compile(r'File "([^"\n]+)", line (\d+), in ([^\n]+)\n +([^\n]+)')
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+?)_at_\d+")
_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]|^<frozen ")


def brief(error: BaseException, package: str) -> str:
    """What ``error`` says in its first lines, and the user's line that raised it, where one is known.

    ``package`` is our own folder. Dynamo traces without running, and names the user's line at the end of its message.
    """
    traced = str(error).partition("from user code:")[2]
    cause = _cause(error)
    said = str(cause).partition("from user code:")[0]
    lines = [line for line in said.strip().splitlines() if line.strip()][:MOST_LINES]
    text = "\n  ".join(_cut(line) for line in lines)
    told = [f"{type(cause).__name__}: {text}" if text else type(cause).__name__]
    places = _USER_CODE.findall(traced)
    for step in [] if places else traceback.extract_tb(error.__traceback__):
        places.append((step.filename, str(step.lineno), step.name, step.line or ""))
    users = [p for p in places if not _LIBRARY.search(p[0]) and not p[0].startswith(package)]
    if users:
        file, line, function, code = users[-1]
        function = _RESUMED.sub(lambda found: found[1], function)
        told.append(f"  at:  {file}:{line} in {function}" + (f": {_cut(code)}" if code else ""))
    return "\n".join(told)


def _cause(error: BaseException) -> BaseException:
    """What an op raised while Dynamo traced it; Dynamo's own words around it are about its way of tracing."""
    step: BaseException | None = error if type(error).__name__ == "TorchRuntimeError" else None
    while step is not None:
        if not type(step).__module__.startswith("torch._dynamo"):
            return step
        step = step.__cause__ or step.__context__
    return error


@contextlib.contextmanager
def unlogged(*loggers: str) -> Iterator[None]:
    """What these loggers of torch say of an error that is told in our words is left out, with its traceback."""

    def nothing(record: logging.LogRecord) -> bool:
        return False

    for name in loggers:
        logging.getLogger(name).addFilter(nothing)
    try:
        yield
    finally:
        for name in loggers:
            logging.getLogger(name).removeFilter(nothing)


def _cut(line: str) -> str:
    return line if len(line) <= MOST_CHARACTERS else f"{line[:MOST_CHARACTERS]}…"
