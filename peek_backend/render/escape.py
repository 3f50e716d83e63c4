"""Text made safe for one output, at the last moment. What a reader sees is always the text itself.

Comes in: any text (a name, a path, a source line; hostile or not). Goes out: text that it shows as is.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable

# Invisible but needed: emoji families and several scripts join letters with these.
_JOINERS = ("\u200c", "\u200d")


def visible(text: str) -> str:
    """``text`` with control and direction characters spelled as Python does: ``\\n``, ``\\x1b``, ``\\u202e``.

    No terminal reacts to what comes out and no line is torn; backslashes stay single, so paths read well.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _JOINERS else _spelled(c) for c in text)


def _spelled(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


# Only what GitHub's Markdown would read as a mark, so that the raw text stays readable: `_` opens emphasis at
# a word's start alone (not in `l_x_`), and brackets are plain unless they could be a link (`[s0, 16]` is not).
_MARKDOWN = re.compile(r"[\\`*<>&|~$]|(?<!\w)_+|\](?=[(\[:])|\[(?=\^)")


def markdown(text: str) -> str:
    """Text inside a GitHub Markdown table or paragraph."""
    return _MARKDOWN.sub(lambda m: _ENTITIES.get(m[0]) or "".join(f"\\{c}" for c in m[0]), visible(text))


# Angle brackets and ampersands as entities: a backslash before them is not understood by every renderer.
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def markdown_code(text: str) -> str:
    """Text as a code span: fenced by more backticks than it holds; a pipe is escaped as in a table."""
    text = visible(text).replace("|", "\\|")
    if not text:
        return ""
    runs = [len(run) for run in re.findall("`+", text)]
    fence = "`" * next(n for n in range(1, len(runs) + 2) if n not in runs)
    pad = " " if text.startswith("`") or text.endswith("`") or text.strip() == "" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def html_text(text: str) -> str:
    """Text inside HTML, quotes included."""
    if text == "]":  # alone in an element, which dot's reader of labels (2.43) takes for a syntax error
        return "&#93;"
    return html.escape(visible(text))


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "→": r"$\rightarrow$",
    "×": r"$\times$",
    "∞": r"$\infty$",
    "…": r"\ldots{}",
    "▸": r"$\triangleright$",
    "▾": r"$\triangledown$",
    "·": r"\textperiodcentered{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}


def latex(text: str) -> str:
    """Text inside LaTeX, the arrows and signs of our labels in its own words."""
    return "".join(_LATEX.get(c, c) for c in visible(text))


def rst(text: str) -> str:
    """Text inside reStructuredText: its inline marks are escaped."""
    return re.sub(r"[\\*`|]|_(?!\w)", lambda m: f"\\{m[0]}", visible(text))


def mermaid(text: str) -> str:
    """Text inside a quoted Mermaid label: everything its parser or the browser could read becomes an entity.

    Mermaid's own entities are ``#35;`` for ``#`` (https://mermaid.js.org/syntax/flowchart.html).
    """
    return re.sub(r"[^\w .,:/=+()\[\]'*?!~^@\u0080-\U0010ffff-]", lambda m: f"#{ord(m[0])};", visible(text))


def _entity(char: str) -> Callable[[str], str]:
    """An escape that writes one character as its HTML entity, which these wikis show."""
    entity = f"&#{ord(char)};"
    return lambda text: visible(text).replace(char, entity)


def _backslashed(chars: str) -> Callable[[str], str]:
    pattern = re.compile(f"[{re.escape(chars)}]")
    return lambda text: pattern.sub(lambda m: f"\\{m[0]}", visible(text))


def _mediawiki(text: str) -> str:
    """Wiki marks out of action; a leading sign would otherwise open a row or a list."""
    text = html.escape(visible(text), quote=False)
    return re.sub(r"[|\[\]{}*#:;=+'-]{2,}|[|\[{]|^[-+*#:;=]", lambda m: f"<nowiki>{m[0]}</nowiki>", text)


def _ascii_arrow(text: str) -> str:
    """For LaTeX by tabulate, which escapes all but the one sign of ours that pdflatex has no glyph for."""
    return visible(text).replace("→", "->")


# What tabulate escapes itself (html, latex) is left to it, but for the sign it does not know.
CELLS: dict[str, Callable[[str], str]] = {
    "github": markdown,
    "pipe": markdown,
    "unsafehtml": html_text,
    **dict.fromkeys(("latex", "latex_booktabs", "latex_longtable"), _ascii_arrow),
    "latex_raw": latex,
    "rst": rst,
    "asciidoc": _backslashed("|"),
    "jira": _backslashed("|{}[]*_"),
    "mediawiki": _mediawiki,
    "moinmoin": lambda text: visible(text).replace("||", "<<Verbatim(||)>>"),
    "orgtbl": lambda text: visible(text).replace("|", "\\vert{}"),
    "textile": _entity("|"),
    "youtrack": _entity("|"),
}
"""How a table format's cells are escaped; every other format needs ``visible`` alone."""

MARKUP = frozenset({*CELLS, "html", "tsv"})
"""Table formats that are read by a program: never cut, never coloured."""


def cell_escape(table_format: str) -> Callable[[str], str]:
    """The escape for cells of one tabulate format."""
    return CELLS.get(table_format, visible)


def osc8(url: str, text: str) -> str:
    """``text`` as a link of a terminal (OSC 8); control characters in the address are percent-encoded."""
    safe = "".join(c if c.isprintable() and c not in " \x7f" else _percent(c) for c in url)
    return f"\x1b]8;;{safe}\x1b\\{text}\x1b]8;;\x1b\\"


def _percent(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "backslashreplace"))


def width(text: str) -> int:
    """Columns that ``text`` takes in a terminal: East Asian characters and emoji two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_char_width(c) for c in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or char in _JOINERS:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` terminal columns, ended by ``…`` when it is cut."""
    if width(text) <= limit:
        return text
    return f"{text[: _fitting(text, limit - 1)]}…" if limit > 0 else ""


def cut_middle(text: str, limit: int, share: float = 1 / 2) -> str:
    """As ``cut``, but both ends stay, the last one with ``share`` of the room: ``layers.…q.weight``."""
    if limit < 8 or width(text) <= limit:
        return cut(text, limit)
    kept = _fitting(text[::-1], int((limit - 1) * share))
    tail = text[len(text) - kept :]
    head = text[: _fitting(text, limit - 1 - width(tail))]
    return f"{head}…{tail}"


def _fitting(text: str, limit: int) -> int:
    """How many of the first characters take at most ``limit`` columns."""
    if text.isascii():
        return max(limit, 0)
    used = 0
    for count, char in enumerate(text):
        used += _char_width(char)
        if used > limit:
            return count
    return len(text)
