"""The one error a user can cause: what happened, why, and what mends it. Imports nothing of peek."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PeekError(Exception):
    """A user's mistake, told in three parts.

    ``problem`` says what happened and where (file, line, node or compile id), ``why`` the reason,
    ``fix`` the command or setting that mends it. The command line prints it and exits with 2.
    """

    def __init__(self, problem: str, why: str = "", fix: str = ""):
        self.problem, self.why, self.fix = problem, why, fix
        super().__init__(problem, why, fix)

    def __str__(self) -> str:
        parts = [self.problem]
        if self.why:
            parts.append(f"  why: {self.why}")
        if self.fix:
            parts.append(f"  fix: {self.fix}")
        return "\n".join(parts)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name``, or None when nothing is close enough to suggest."""
    known = sorted(known)
    folded = {k.lower(): k for k in reversed(known)}
    match = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=0.5)
    return folded[match[0]] if match else None


MOST_KNOWN = 12
"""Names that an error lists: a module of torch has hundreds."""


def unknown_name(kind: str, name: str, known: Iterable[str], where: str = "") -> PeekError:
    """The error for a name that is none of ``known``; suggests the nearest right one, and lists some when they are many.

    ``where`` says what the name stands in: ``unknown level 'stat' in [tool.peek]``.
    """
    known = sorted(known)
    close = nearest(name, known)
    fix = f"did you mean {close!r}? " if close else ""
    inside = f" in {where}" if where else ""
    return PeekError(f"unknown {kind} {name!r}{inside}", "", f"{fix}known: {_listed(name, known)}")


def _listed(name: str, known: list[str]) -> str:
    """All of ``known``, or of a long list the names most like ``name``, in order of the alphabet."""
    if len(known) <= 2 * MOST_KNOWN:  # a short list read whole is worth more than its half
        return ", ".join(known)
    like = difflib.get_close_matches(name, known, n=MOST_KNOWN, cutoff=0.0)
    return f"{', '.join(sorted(like))} … and {len(known) - len(like)} more"
