"""A page of text for a terminal: lines that wrap, pairs with something at the right margin, program text as it is.

Comes in: texts. Goes out: one string.
"""

from __future__ import annotations

import textwrap

from .escape import cut, visible, width
from .labels import said

_STYLES = {"bold": "\x1b[1m", "dim": "\x1b[2m", "red": "\x1b[31m", "yellow": "\x1b[33m", "green": "\x1b[32m"}
_RESET = "\x1b[0m"


class Page:
    """Lines of a report, wrapped to a width with their further lines indented, and coloured where asked."""

    def __init__(self, width: int | None, color: bool, file: str = "FILE"):
        self.width, self.color, self.file = width, color, file
        self.lines: list[str] = []

    def add(self, text: str, style: str = "", *, indent: int = 0, hang: int = 2) -> None:
        """One line, or more where the page is narrow; control characters are spelled."""
        pad = " " * indent
        for line in self._wrapped(_said(text), indent, hang):
            self.lines.append(pad + self._paint(line, style))

    def pair(self, left: str, right: str, style: str = "", *, indent: int = 0) -> None:
        """``left`` and, at the end of the line, ``right``; on a line of its own where there is no room."""
        left, right = _said(left), visible(right)
        room = (self.width or 100) - indent
        gap = room - width(left) - width(right)
        if not right:
            self.add(left, style, indent=indent)
        elif gap >= 2:
            self.lines.append(" " * indent + self._paint(left, style) + " " * gap + self._paint(right, "dim"))
        else:
            self.add(left, style, indent=indent)
            self.add(right, "dim", indent=indent + 4)

    def code(self, text: str, *, indent: int, whole: bool = False) -> None:
        """Program text: each line as it is, cut at the end of the page. ``whole`` for what is to be copied from it."""
        for line in text.splitlines():
            shown = visible(line)
            if self.width is not None and not whole:
                shown = cut(shown, max(self.width - indent, 20))
            self.lines.append(" " * indent + self._paint(shown, "dim"))

    def head(self, text: str) -> None:
        """A title, set off by an empty line."""
        if self.lines:
            self.lines.append("")
        self.add(text, "bold")

    def _wrapped(self, text: str, indent: int, hang: int) -> list[str]:
        if self.width is None or width(text) + indent <= self.width:
            return [text]
        room = max(self.width - indent, 20)
        return textwrap.wrap(
            text, room, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False
        ) or [text]

    def _paint(self, text: str, style: str) -> str:
        return f"{_STYLES[style]}{text}{_RESET}" if self.color and style in _STYLES and text else text

    @property
    def text(self) -> str:
        """The page so far."""
        return "\n".join(line.rstrip() for line in self.lines) + "\n"


def _said(text: str) -> str:
    """Text for a terminal."""
    return visible(said(text))
