"""A verdict as text for a terminal of 80 columns."""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Iterator, Sequence

from ..diff.verdict import Finding, Verdict
from .diff_lines import (
    change,
    counts,
    group_place,
    notes,
    place_text,
    sizes_that_became_static,
    subject,
    where,
    words,
)
from .escape import visible

MARKS = {"fail": "✗", "warn": "!", "allowed": "○", "info": "·"}
_COLORS = {"fail": "31", "warn": "33", "allowed": "2", "info": "2", "same": "32"}
_TITLES = {"fail": "FAIL", "warn": "WARN", "info": "OK", "same": "OK"}
MAX_WORDS = 22
"""Characters of the first column; a longer first column pushes the rest of its own line only."""
HINTS = ("accept: pytest … --peek-update", "review: peek review")


def render_text(
    verdict: Verdict,
    *,
    width: int = 80,
    color: bool = False,
    where_is: str = "",
    hints: Sequence[str] = HINTS,
    capture: str = "",
    limit: int = 50,
) -> str:
    """The verdict in lines of at most ``width`` columns, ending in a newline.

    ``where_is`` is the snapshot's path, ``hints`` the commands for the last line, ``capture`` the file of the new side that
    `peek explain` can be asked about, ``limit`` the most groups that are told one by one. Colour only with ``color``.
    """
    paint = _Paint(color)
    head = f"{paint(_TITLES[verdict.level], verdict.level)} {visible(verdict.name)}: {counts(verdict)}"
    lines = beside(head, visible(where_is), width)
    if verdict.confounded:
        lines += _wrapped(
            f"confounded ({visible(verdict.confounded)}): the environments differ", "  ", "    ", width
        )
    for finding in verdict.findings[:limit]:
        lines += _finding(finding, width, paint)
    left = len(verdict.findings) - limit
    if left > 0:
        lines.append(f"  … and {left} more groups of changes")
    for entry in verdict.unused_allowances:
        lines += _wrapped(f"note: no change needed the allowance {visible(entry)}", "  ", "    ", width)
    if verdict.level in ("fail", "warn") and hints:
        lines += joined([*hints, *_why(verdict, capture)], width)
    return "\n".join(lines) + "\n"


def _why(verdict: Verdict, capture: str) -> Iterator[str]:
    """The command that says why a size became static, where there is a capture to ask."""
    size = next((edit.target for edit in sizes_that_became_static(verdict)), "")
    if capture and size:
        yield f"why: {visible(shlex.join(['peek', 'explain', capture, size]))}"


class _Paint:
    def __init__(self, color: bool):
        self.color = color

    def __call__(self, text: str, level: str) -> str:
        return f"\x1b[{_COLORS[level]}m{text}\x1b[0m" if self.color else text


def _finding(finding: Finding, width: int, paint: _Paint) -> Iterator[str]:
    """One line where it fits, else its pieces on lines below, further in."""
    group = finding.group
    mark = MARKS[finding.level]
    title = visible(words(finding))
    place = group_place(group)
    code = place_text(place, code=len(group.edits) == 1)
    pieces = [where(group), subject(group), change(group), code, f"[{finding.note}]" if finding.note else ""]
    if finding.allowed_by:
        pieces.append(f"[allowed: {finding.allowed_by}]")
    pieces = [visible(piece) for piece in pieces if piece]
    head = f"  {mark} {title}" if not pieces else f"  {mark} {_padded(title, MAX_WORDS)}"
    for number, line in enumerate(_filled(head, pieces, width)):
        yield line.replace(mark, paint(mark, finding.level), 1) if number == 0 else line
    for note in notes(group):
        yield from _wrapped(visible(note), "      └ ", "        ", width)


def _filled(head: str, pieces: Sequence[str], width: int) -> list[str]:
    """Pieces three spaces apart; one that does not fit starts a line of its own."""
    lines, fresh = [head], True
    for piece in pieces:
        gap = " " if fresh else "   "
        if _columns(lines[-1]) + len(gap) + _columns(piece) <= width:
            lines[-1] += gap + piece
            fresh = False
            continue
        if fresh:
            lines[-1] = lines[-1].rstrip()
        lines += _wrapped(piece, "      ", "        ", width)
        fresh = False
    return lines


def _wrapped(text: str, first: str, rest: str, width: int) -> list[str]:
    """Lines of at most ``width`` columns, broken at spaces where there are any."""
    lines, indent = [], first
    while _columns(indent + text) > width:
        room = _fit(text, width - _columns(indent))
        cut = text.rfind(" ", 1, room + 1)
        cut = cut if cut > room // 2 else room
        lines.append(indent + text[:cut].rstrip())
        text, indent = text[cut:].lstrip(), rest
    return [*lines, indent + text]


def _fit(text: str, columns: int) -> int:
    """How many characters of ``text`` fit, at least one."""
    used = 0
    for index, char in enumerate(text):
        used += _columns(char)
        if used > columns:
            return max(index, 1)
    return len(text)


def beside(left: str, right: str, width: int) -> list[str]:
    """Both on one line, the second at the right end, or on a line below."""
    if not right:
        return [left]
    gap = width - _columns(left) - _columns(right)
    return [left + " " * gap + right] if gap >= 2 else [left, *_wrapped(right, "  ", "    ", width)]


def joined(parts: Sequence[str], width: int) -> list[str]:
    line = "    ".join(parts)
    return [line] if _columns(line) <= width else list(parts)


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - _columns(text))


def _columns(text: str) -> int:
    """Terminal columns: wide characters take two, marks that join to another none, colour codes none."""
    plain = text
    while "\x1b[" in plain:
        head, _, tail = plain.partition("\x1b[")
        plain = head + tail.partition("m")[2]
    if plain.isascii():
        return len(plain)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in plain
    )
