"""Why a session has no graph: one sentence a reason, the most telling first."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..model import EarlierFrame, FrameRecord

MOST_NAMED = 5

_STANCES = {
    "force_eager": "torch.compiler.set_stance('force_eager') is in force: compiled functions run in eager",
    "eager_on_recompile": "torch.compiler.set_stance('eager_on_recompile') is in force: nothing new is compiled",
    "fail_on_recompile": "torch.compiler.set_stance('fail_on_recompile') is in force: nothing new is compiled",
}
_OUTCOMES = {
    "skipped": "left in eager",
    "failed": "failed",
    "empty": "nothing to compile",
    "broken": "broke before any op, and none came after",
    "limit": "not compiled again: the recompile limit was reached before",
}
# Wrappers that stand around every compiled call; that Dynamo declines them says nothing.
_WRAPPERS = (
    "_wrapped_call_impl",
    "_call_impl",
    "compile_wrapper",
    "inner",
    "disable",
    "_fn",
    "__call__",
    "__init__",
)
_INNERMOST = ("innermost_fn", "nothing", "innermost_backend")


def why_nothing(
    frames: Sequence[FrameRecord],
    earlier: Sequence[EarlierFrame],
    declined: Sequence[str],
    stance: str,
) -> tuple[str, ...]:
    """Sentences that begin with "nothing was captured". ``declined`` are torch's own frames that Dynamo would not trace."""
    reasons = []
    if stance in _STANCES:
        reasons.append(_STANCES[stance])
    reasons += [_frame(f) for f in frames[:MOST_NAMED] if f.outcome in _OUTCOMES]
    if not reasons:
        reasons += [_declined(text) for text in _telling(declined)]
    if not reasons and earlier:
        names = ", ".join(f"{e.name} ({_place(e.file, e.line)})" for e in earlier[:MOST_NAMED])
        reasons.append(
            f"compiled before the capture began, so calls reuse the code: {names}; torch._dynamo.reset() or a new process "
            "compiles again"
        )
    if not reasons:
        reasons.append("no compiled function was called")
    return tuple(f"nothing was captured: {reason}" for reason in reasons)


def _frame(frame: FrameRecord) -> str:
    where = f"{frame.name} ({_place(frame.file, frame.line)})"
    return (
        f"{where} {_OUTCOMES[frame.outcome]}: {frame.reason}"
        if frame.reason
        else f"{where} {_OUTCOMES[frame.outcome]}"
    )


def _telling(declined: Sequence[str]) -> list[str]:
    """Those of torch's declined frames that hold the user's computation: a container's forward, not a wrapper around it."""
    kept = [
        t for t in declined if t.partition(" (")[0] not in (*_WRAPPERS, *_INNERMOST) and "/_dynamo/" not in t
    ]
    return [t for t in kept if "/nn/" in t or "/distributed/" in t][:MOST_NAMED]


def _declined(text: str) -> str:
    name, _, rest = text.partition(" (")
    where, _, why = rest.partition("): ")
    file, _, line = where.rpartition(":")
    return f"{name} ({_place(file, int(line) if line.isdecimal() else 0)}) left in eager: {why}"


def _place(file: str, line: int) -> str:
    return f"{os.path.basename(file)}:{line}"
