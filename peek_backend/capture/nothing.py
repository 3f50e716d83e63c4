"""Why a session has no graph: one sentence a reason, the most telling first."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import NOT_CALLED, NOTHING_CAPTURED, EarlierFrame, FrameRecord, StackFrame

MOST_NAMED = 5

_STANCES = {
    "force_eager": "torch.compiler.set_stance('force_eager') {is_in} force: compiled functions run in eager",
    "eager_on_recompile": "torch.compiler.set_stance('eager_on_recompile') {is_in} force: nothing new is compiled",
    "fail_on_recompile": "torch.compiler.set_stance('fail_on_recompile') {is_in} force: nothing new is compiled",
}
_OUTCOMES = {
    "skipped": "left in eager",
    "failed": "failed",
    "empty": "nothing to compile",
    "broken": "broke before any op, and none came after",
    "limit": "not compiled again: the recompile limit was reached before",
}


def stance_notes(seen: Sequence[str], frames: Sequence[FrameRecord] = ()) -> tuple[str, ...]:
    """What a stance that was in force for a time kept from being compiled, of a session that has graphs all the same.

    Where the frames say themselves what a stance did to them, nothing is left to note.
    """
    told = [f.eager_why + f.reason for f in frames]
    return tuple(
        f"torch.compiler.set_stance({name!r}) was in force for a time: calls that would have compiled then did not"
        for name in dict.fromkeys(seen)
        if name in _STANCES and not any(f"set_stance({name!r})" in text for text in told)
    )


def why_nothing(
    frames: Sequence[FrameRecord],
    earlier: Sequence[EarlierFrame],
    declined: Sequence[str],
    stance: str,
    *,
    over: bool = False,
    uncompiled: Sequence[str] = (),
) -> tuple[str, ...]:
    """Sentences that begin with NOTHING_CAPTURED. ``declined`` are frames of libraries that Dynamo would not trace.

    ``over`` says that the stance was in force for a time only. ``uncompiled`` tells of what torch.compile was given and did not
    compile.
    """
    found = [f for f in frames if f.outcome in _OUTCOMES]
    # An error tells most, then what was traced at least.
    found.sort(key=lambda f: (f.outcome != "failed", not f.compile_ids))
    reasons = (
        [_STANCES[stance].format(is_in="was for a time in" if over else "is in")]
        if stance in _STANCES
        else []
    )
    reasons += [_frame(f) for f in found[:MOST_NAMED]]
    reasons += [_declined(text) for text in _telling(declined)]
    reasons += list(dict.fromkeys(uncompiled))[:MOST_NAMED]
    if not reasons and earlier:
        names = ", ".join(f"{e.name} ({_place(e.file, e.line)})" for e in earlier[:MOST_NAMED])
        reasons.append(
            f"compiled before the capture began, so calls reuse the code: {names}; torch._dynamo.reset() or a new process "
            "compiles again"
        )
    if not reasons:
        reasons.append(NOT_CALLED)
    return tuple(NOTHING_CAPTURED + reason for reason in reasons)


def _frame(frame: FrameRecord) -> str:
    where = f"{frame.name} ({_place(frame.file, frame.line)}) {_OUTCOMES[frame.outcome]}"
    reason = frame.reason.partition(". ")[0]
    return f"{where}: {reason}" if reason else where


def _telling(declined: Sequence[str]) -> list[str]:
    """Those of the declined frames that hold the user's computation: a container's forward, not a wrapper around it."""
    kept = [t for t in declined if declined_frame(t)[0] == "forward"]
    return kept[:MOST_NAMED]


def _declined(text: str) -> str:
    name, file, line, why = declined_frame(text)
    return f"{name} ({_place(file, line)}) left in eager: {why}"


def declined_frame(text: str) -> tuple[str, str, int, str]:
    """Dynamo's ``name (file:line): why`` taken apart."""
    name, _, rest = text.partition(" (")
    where, _, why = rest.partition("): ")
    file, _, line = where.rpartition(":")
    return name, file, int(line) if line.isdecimal() else 0, why


def _place(file: str, line: int) -> str:
    return StackFrame(file, line).place
