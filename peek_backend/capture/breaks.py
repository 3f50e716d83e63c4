"""Graph breaks in torch's words as BreakInfo: reason, explanation, hints, id, link, and who asked for the break."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from ..model import BreakInfo, StackFrame
from . import compat
from .conditions import in_program_words, names_in
from .fakekernels import fake_kernel_stub
from .sources import is_program, library_of

LINK = "https://meta-pytorch.github.io/compile-graph-break-site/gb/{}.html"

# A field of Dynamo's message begins a line with one of these, two blanks in; its further lines are indented deeper.
_FIELD = re.compile(r"^ {0,2}(Explanation|Hint|Developer debug context|Higher Order Operator): ?(.*)$")
_VISIT = re.compile(r"For more details about this graph break, please visit: (\S+)")
_ID = re.compile(r"/(gb\d+)\.html", re.IGNORECASE)
_END = re.compile(r"^(from user code:|Set TORCHDYNAMO_VERBOSE|You can suppress this exception)", re.MULTILINE)
_UNKNOWN_AT_COMPILE = re.compile(r"Could not guard on data-dependent expression (.+?) \(unhinted")
_MOST_TEXT = 2_000

_BY_USER = ("graph_break()`", "skip_frame()`", "torch.compiler.disable()`", "torch.compiler.set_stance")
_BY_LIST = "Dynamo developers have intentionally marked"

DDP_SPLIT = "DDPOptimizer intentional graph-break"
"""How a bucket's end begins in torch's list of break reasons: the graph is split for DDP, no break of the program."""


class Message(NamedTuple):
    """What Dynamo's text of a break says."""

    reason: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    id: str | None = None
    link: str | None = None


def read_break(
    reason: Any,
    callers: Sequence[StackFrame] = (),
    *,
    resumed: bool = False,
    cause: compat.StepCause | None = None,
    names: Mapping[str, str] = {},
) -> BreakInfo:
    """A ``GraphCompileReason`` as BreakInfo. ``callers`` led to the compiled frame, outermost first.

    ``resumed`` says that the frame continues another, whose own line is the last of the callers. ``cause`` is what stands behind
    a break in the middle of a statement, after which the frame is not resumed. ``names`` are the program's of torch's symbols.
    """
    text = cause.text if cause is not None else reason.reason
    inner = user_frames(cause.stack if cause is not None and cause.stack else reason.user_stack)
    message = parse_message(text, _code(inner), names)
    event = _break_info(message, _joined(callers, inner, resumed=resumed), text=text)
    return msgspec.structs.replace(event, resumes=reason.reason != "step_unsupported")


def skipped_break(
    error: BaseException, callers: Sequence[StackFrame] = (), *, resumed: bool = False
) -> BreakInfo:
    """The break that made Dynamo leave a whole frame in eager, from the ``Unsupported`` that ended its compile."""
    text, inner = str(error), user_frames(getattr(error, "real_stack", None))
    stack = _joined(callers, inner, resumed=resumed)
    return _break_info(parse_message(text, _code(inner), names_in(error)), stack, split=False, text=text)


def traced_break(text: str, stack: Sequence[StackFrame]) -> BreakInfo:
    """The break that made Dynamo skip a frame, as torch's trace tells it."""
    return _break_info(parse_message(text, _code(stack)), tidy(stack), split=False, text=text)


def generator_break(where: StackFrame) -> BreakInfo:
    """The break for a compiled generator function, which Dynamo refuses before it begins to trace."""
    return _break_info(_registered("Attempt to trace generator"), (where,), split=False)


def _break_info(
    message: Message, stack: tuple[StackFrame, ...], *, split: bool = True, text: str = ""
) -> BreakInfo:
    stub, library, intent = fake_kernel_stub(text), library_of(stack), intent_of(message)
    return BreakInfo(
        reason=message.reason,
        explanation=message.explanation,
        hints=(stub, *message.hints) if stub else message.hints,
        id=message.id,
        link=message.link,
        context=message.context,
        stack=stack,
        intent="skiplist" if library and intent == "user" else intent,
        split=split,
        library=library,
        user=_leading_there(stack),
    )


def _leading_there(stack: Sequence[StackFrame]) -> StackFrame | None:
    """The line of the program that leads to a break in other code."""
    if not stack or is_program(stack[-1].file):
        return None
    return next((f for f in reversed(stack) if is_program(f.file)), None)


def intent_of(message: Message) -> Literal["user", "skiplist", "unsupported"]:
    """Who asked for a break: the user's own call, torch's list of code it never traces, or a gap of Dynamo."""
    if any(words in message.reason for words in _BY_USER):
        return "user"
    if _BY_LIST in message.explanation or message.reason.startswith("Skip inlining"):
        return "skiplist"
    return "unsupported"


def _code(stack: Sequence[StackFrame]) -> str:
    """The line that broke."""
    return stack[-1].code if stack else ""


def parse_message(text: str, code: str = "", names: Mapping[str, str] = {}) -> Message:
    """The parts of Dynamo's text of a break. Words that stand only in its registry are added where the text lacks them.

    ``code`` is the line that broke; with it, and with the program's ``names`` of symbols, a condition on data is told.
    """
    end = _END.search(text)
    text = text[: end.start()] if end else text
    if unknown := _UNKNOWN_AT_COMPILE.search(text):
        return _undecided(unknown[1], in_program_words(unknown[1], code, names))
    if text.startswith("generic_jump"):
        return _registered("Data-dependent branching", context=text)
    link = _VISIT.search(text)
    fields: dict[str, list[str]] = {"": []}
    current = fields[""]
    for line in (text[: link.start()] if link else text).splitlines():
        found = _FIELD.match(line)
        if found:
            current = fields.setdefault(found[1], [])
            current.append(found[2])
        elif current and line.strip():
            current[-1] = f"{current[-1]}\n{line.strip()}" if current is not fields[""] else current[-1]
        elif not current and line.strip():
            current.append(line.strip())
    reason = fields[""][0] if fields[""] else text.strip()
    return _message(reason, fields, link[1] if link else None)


def _undecided(expression: str, said: str) -> Message:
    """A condition on data that the trace had to decide, and could not: Dynamo raises torch's own long message for it.

    ``said`` is the condition in the program's words.
    """
    return Message(
        f"could not guard on the data-dependent expression {expression}",
        f"whether {said} holds is known only when the data is there.",
        (
            f"torch._check({said}) where it always holds (or its opposite where it never does)",
            "torch.cond(pred, true_fn, false_fn, operands) where both happen",
        ),
    )


def _message(reason: str, fields: dict[str, list[str]], link: str | None) -> Message:
    registered = _registry().get(reason)
    found = _ID.search(link or "")
    id = found[1].upper() if found else registered[0] if registered else None
    return Message(
        reason=_cut(reason),
        explanation=_cut("\n".join(fields.get("Explanation", ()))),
        hints=tuple(_cut(hint) for hint in fields.get("Hint", ())),
        context=_cut("\n".join(fields.get("Developer debug context", ()))),
        id=id,
        link=link or (LINK.format(id.lower()) if id else None),
    )


def _registered(gb_type: str, *, context: str = "") -> Message:
    """What the registry says of a break for which Dynamo keeps a short code only (``generic_jump TensorVariable()``)."""
    id, entry = _registry().get(gb_type, (None, _UNREGISTERED.get(gb_type, {})))
    explanation = re.sub(r'"\s+"', "", str(entry.get("Explanation", ""))).strip('"').partition('"')[0]
    hints = [hint for hint in _whole(entry.get("Hints", ())) if "{" not in hint]
    known = LINK.format(id.lower()) if id else None
    return Message(gb_type, explanation.strip(), tuple(hints), context, id, known)


def _whole(hints: Iterable[Any]) -> list[str]:
    """The registry's hints, those put together again that it tore where the program's text runs over a line."""
    found: list[str] = []
    for hint in map(str, hints):
        text = re.sub(r'"\s+"', "", hint).strip('"')
        if found and found[-1].endswith(" "):
            found[-1] += text
        else:
            found.append(text)
    return found


# For a torch that brings no registry.
_UNREGISTERED: dict[str, dict[str, Any]] = {
    "Data-dependent branching": {
        "Explanation": "Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support tracing "
        "dynamic control flow.",
    },
    "Attempt to trace generator": {
        "Explanation": "Generators cannot be compiled directly with `torch.compile`.",
        "Hints": [
            "Call a generator from inside of a non-generator Python function and compile that function instead."
        ],
    },
}


@functools.cache
def _registry() -> dict[str, tuple[str, dict[str, Any]]]:
    return compat.break_registry()


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "…"


def _stack_frame(frame: Any) -> StackFrame:
    """A ``traceback.FrameSummary`` as StackFrame; it reads the line from the file when nobody asked before."""
    name = getattr(frame.name, "__name__", frame.name)  # DDPOptimizer gives its class (torch 2.8)
    return StackFrame(frame.filename, frame.lineno or 0, name, (frame.line or "").strip())


def user_frames(stack: Iterable[Any] | None) -> tuple[StackFrame, ...]:
    """A traceback summary as frames, outermost first; empty for None."""
    return tuple([_stack_frame(frame) for frame in stack or ()])


_RESUME = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+$")


def _joined(
    callers: Sequence[StackFrame], inner: Sequence[StackFrame], *, resumed: bool
) -> tuple[StackFrame, ...]:
    """The callers, then the frames that Dynamo traced, as one stack of the program."""
    outer, traced = tidy(callers), tidy(inner)
    if (
        resumed
        and outer
        and traced
        and (outer[-1].file, outer[-1].function) == (traced[0].file, traced[0].function)
    ):
        outer = outer[:-1]
    return (*outer, *traced)


def tidy(stack: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """A stack without Dynamo's own: a resume function goes by the name of the function that it continues.

    That function stands among the callers as well; of the two, the line further on is kept.
    """
    kept: list[StackFrame] = []
    for frame in stack:
        resumed = _RESUME.search(frame.function) is not None
        own = _by_own_name(frame)
        if kept and resumed and (kept[-1].file, kept[-1].function) == (own.file, own.function):
            kept.pop()
        kept.append(own)
    return tuple(kept)


def _by_own_name(frame: StackFrame) -> StackFrame:
    resumed = _RESUME.search(frame.function)
    return StackFrame(frame.file, frame.line, resumed[1], frame.code) if resumed else frame
