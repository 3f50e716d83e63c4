"""Why a compile ended in an error, in one sentence, and what mends it: the fake kernel to write, or torch's own hint."""

from __future__ import annotations

import re
import traceback
from typing import NamedTuple

from ..model import StackFrame
from . import compat
from .breaks import parse_message, user_frames
from .conditions import names_in
from .fakekernels import fake_kernel_stub
from .guards import bound
from .sources import NO_POSITIONS, Positions, is_outside, parse_stack, readable

_INNER = re.compile(
    r"Dynamo failed to run FX node with fake tensors: call_\w+ (.*?)\(.*?: got (\w+)\((['\"])(.*)\3\)",
    re.DOTALL,
)
_CONSTRAINT = re.compile(r"^  - (.+)$", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.)])\s+(?=[A-Z])")
_MOST_TEXT = 600
_OUTSIDE = re.compile(r"^(-?\d+) not in range \[(\S+), (\S+)\]")
_NARROWED = re.compile(
    r"^Not all values of .+? = (?P<source>.+) in the specified range (?P<marked>.+) satisfy the generated guard (?P<left>.+?)\.?$"
)
_SIZE = re.compile(r"^(.+)\.shape\[(\d+)\]$")
_LOWER, _UPPER = re.compile(r"(?<![\w.])(\d+) <= "), re.compile(r" <= (\d+)(?![\w.])")
# What mends an error of torch's that says nothing of it, by words in its text.
_MENDS = {
    "not simple sympy type <class 'NoneType'>": "torch._dynamo.mark_dynamic takes both min= and max=, or neither",
    "First bucket should be smaller": "DistributedDataParallel(bucket_cap_mb=) of 1 or more, the size of its first bucket; or"
    " torch._dynamo.config.optimize_ddp = False, which splits no graph for DDP",
}


class Told(NamedTuple):
    """A failure: why, what mends it (may be several lines of code), and the user's line."""

    reason: str
    fix: str = ""
    user: StackFrame | None = None


def read_failure(error: BaseException, positions: Positions = NO_POSITIONS) -> Told:
    """The exception that ended a compile, as torch raised it, in few words."""
    text, kind = str(error), type(error).__qualname__
    stub = fake_kernel_stub(text)
    line = _line(error, text)
    message = parse_message(text, line.code if line is not None else "", names_in(error))
    if message.reason.startswith("could not guard"):
        return Told(f"{kind}: {message.reason}", message.hints[0], line)
    if (sizes := _of_a_range(error, text, positions)) is not None:
        return sizes._replace(reason=f"{kind}: {sizes.reason}")
    named = _reason(text) if kind == "Unsupported" else f"{kind}: {_reason(text)}"
    reason = readable(named, None, positions)
    return Told(reason[:_MOST_TEXT], stub or readable(_fix(text), None, positions), line)


def _reason(text: str) -> str:
    if inner := _INNER.search(text):
        op, kind, message = inner[1], inner[2], inner[4]
        return f"{op} with fake tensors: {kind}: {_sentences(message, 2)}"
    if constraint := _CONSTRAINT.search(text):
        return _sentences(constraint[1], 1)
    return _first_line(text)


def _of_a_range(error: BaseException, text: str, positions: Positions) -> Told | None:
    """For ``mark_dynamic(t, dim, min=, max=)``: a size outside of the range, or code that holds for a part of it only."""
    if outside := _OUTSIDE.match(text):
        value, lower, upper = outside.groups()
        source = readable(_being_made(error), None, positions)
        wider = f"min={_least(lower, value)}, max={_most(upper, value)}"
        fix = f"{_mark(source, wider)} takes it in; or keep such sizes out of the compiled function"
        return Told(f"{source or 'a size'} is {value}, and was marked for {_between(lower, upper)}", fix)
    constraint = _CONSTRAINT.search(text)
    narrowed = _NARROWED.match(constraint[1]) if constraint else None
    if narrowed is None:
        return None
    source, marked, left = [readable(part, None, positions) for part in narrowed.groups()]
    ends = _ends(left)
    fix = f"{_mark(source, '', maybe=True)}: other sizes get a variant then"
    if None not in ends:
        fix = f"{_mark(source, f'min={ends[0]}, max={ends[1]}')}, or {fix}"
    held = _between(*ends) if any(ends) else bound(left)
    return Told(
        f"{source} is marked for {_between(*_ends(marked))}, and the graph is right for {held} only", fix
    )


def _being_made(error: BaseException) -> str:
    """Dynamo's name of the size whose symbol torch was making when it raised; the exception's text has only the value."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    source = next((f.f_locals.get("source") for f in frames if f.f_code.co_name == "create_symbol"), None)
    return "" if source is None else compat.source_text(source)


def _ends(condition: str) -> tuple[str | None, str | None]:
    """Both ends of ``2 <= x.shape[0] and x.shape[0] <= 5``, None where a side is open."""
    lower, upper = _LOWER.search(condition), _UPPER.search(condition)
    return lower and lower[1], upper and upper[1]


def _between(lower: str | None, upper: str | None) -> str:
    if lower is None or "oo" in lower:
        return f"up to {upper}"
    return f"{lower} or more" if upper is None or "oo" in upper else f"{lower} to {upper}"


def _least(lower: str, value: str) -> str:
    return min(lower, value, key=int) if lower.isdecimal() else value


def _most(upper: str, value: str) -> str:
    return max(upper, value, key=int) if upper.isdecimal() else value


def _mark(source: str, range_: str, *, maybe: bool = False) -> str:
    """The call that marks a size."""
    found = _SIZE.match(source)
    where = f"{found[1]}, {found[2]}" if found else "…"
    name = "maybe_mark_dynamic" if maybe else "mark_dynamic"
    return f"torch._dynamo.{name}({where}{', ' if range_ else ''}{range_})"


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
    if known := next((fix for words, fix in _MENDS.items() if words in text), ""):
        return known
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
