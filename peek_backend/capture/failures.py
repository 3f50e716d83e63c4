"""Why a compile ended in an error, in one sentence, and what mends it: the fake kernel to write, or torch's own hint."""

from __future__ import annotations

import re
from typing import NamedTuple

from ..model import StackFrame
from .breaks import parse_message, user_frames
from .fakekernels import fake_kernel_stub
from .sources import NO_POSITIONS, Positions, is_outside, parse_stack, readable

_INNER = re.compile(
    r"Dynamo failed to run FX node with fake tensors: call_\w+ (.*?)\(.*?: got (\w+)\((['\"])(.*)\3\)",
    re.DOTALL,
)
_CONSTRAINT = re.compile(r"^  - (.+)$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.)])\s+(?=[A-Z])")
_MOST_TEXT = 600


class Told(NamedTuple):
    """A failure: why, what mends it (may be several lines of code), and the user's line."""

    reason: str
    fix: str = ""
    user: StackFrame | None = None


def read_failure(error: BaseException, positions: Positions = NO_POSITIONS) -> Told:
    """The exception that ended a compile, as torch raised it, in few words."""
    text, kind = str(error), type(error).__qualname__
    stub = fake_kernel_stub(text)
    message = parse_message(text)
    if message.reason.startswith("could not guard"):
        return Told(f"{kind}: {message.reason}", message.hints[0], _line(error, text))
    named = _reason(text) if kind == "Unsupported" else f"{kind}: {_reason(text)}"
    reason = readable(named, None, positions)
    return Told(reason[:_MOST_TEXT], stub or readable(_fix(text), None, positions), _line(error, text))


def _reason(text: str) -> str:
    if inner := _INNER.search(text):
        op, kind, message = inner[1], inner[2], inner[4]
        return f"{op} with fake tensors: {kind}: {_sentences(message, 2)}"
    if constraint := _CONSTRAINT.search(text):
        return _sentences(constraint[1], 1)
    return _first_line(text)


def in_short(error: BaseException, most: int = 300) -> str:
    """``ValueError: what it says first``, in at most ``most`` characters."""
    return f"{type(error).__name__}: {_first_line(str(error))}"[:most]


def _first_line(text: str) -> str:
    """What an exception says first; a line that ends with a colon (``backend='…' raised:``) announces the next one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]


def _sentences(text: str, count: int) -> str:
    return " ".join(_SENTENCE.split(text)[:count])


def _fix(text: str) -> str:
    if constraint := _CONSTRAINT.search(text):
        return " ".join(_SENTENCE.split(constraint[1])[1:2])
    hints = parse_message(text).hints
    return hints[0] if hints and "error when running in eager" not in hints[0] else ""


def _line(error: BaseException, text: str) -> StackFrame | None:
    """The user's line: of the exception's own stack, else of the traceback that its text ends with."""
    real = user_frames(getattr(error, "real_stack", None))
    frames = real or _in_text(text)
    outside = [f for f in frames if is_outside(f.file)]
    return (outside or list(frames) or [None])[-1]


def _in_text(text: str) -> tuple[StackFrame, ...]:
    return parse_stack(re.sub(r"^ +File", "  File", text, flags=re.MULTILINE))
