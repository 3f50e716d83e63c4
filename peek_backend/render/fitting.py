"""Tables and lines of plain text in the width of a terminal: lines break between parts, tables lose what matters least.

Comes in: headers and rows, or a line of parts. Goes out: text whose lines are at most ``width`` columns; None is no limit.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from .escape import MARKUP, cell_escape, cut_middle, visible, width
from .fit import share
from .table import between

_GAP = 2
"""Columns between two of a simple table."""
_LEAST = 12
"""Columns that a shortened cell keeps."""


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    format: str = "simple",
    *,
    columns: int | None = None,
    floors: Sequence[int] = (),
) -> str:
    """A table of plain text in any format of tabulate. ``columns`` cuts its cells, under a floor only as a last resort."""
    from tabulate import tabulate  # 70 ms to import, so only where a table is made

    if columns is not None and format not in MARKUP:
        rows = [[visible(cell) for cell in row] for row in rows]
        taken = [
            [len(head) + _GAP, *(width(row[at]) for row in rows)]  # tabulate pads headers by two
            for at, head in enumerate(headers)
        ]
        widths = share(taken, floors, columns - between(format, len(headers)))
        headers = [cut_middle(head, w - _GAP) for head, w in zip(headers, widths, strict=True)]
        rows = [[cut_middle(cell, w) for cell, w in zip(row, widths, strict=True)] for row in rows]
    escape = cell_escape(format)
    cells = [[escape(cell) for cell in row] for row in rows]
    return tabulate(cells, headers=list(headers), tablefmt=format, disable_numparse=True)


def fitted(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    format: str,
    columns: int | None,
    *,
    drop: Sequence[str] = (),
    shorten: Sequence[str] = (),
) -> str:
    """A table without the columns that have nothing in any row. One that is too wide loses the columns ``drop``, in that order,
    then the middle of cells of the columns ``shorten``. Only plain tables are fitted: the others are read by programs.
    """
    if columns is None or format != "simple":
        return table(headers, rows, format)
    kept = [i for i in range(len(headers)) if not rows or any(row[i] for row in rows)]
    for name in drop:
        if _wide(headers, rows, kept) <= columns:
            break
        kept = [i for i in kept if headers[i] != name]
    cells = [[row[i] for i in kept] for row in rows]
    names = [headers[i] for i in kept]
    for name in shorten:
        over = _wide(names, cells, range(len(names))) - columns
        if over > 0 and name in names:
            at = names.index(name)
            room = max(_column(names, cells, at) - over, _LEAST)
            cells = [[*row[:at], cut_middle(row[at], room), *row[at + 1 :]] for row in cells]
    return table(names, cells, format)


def _wide(headers: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[int]) -> int:
    return sum(_column(headers, rows, i) + _GAP for i in columns) - _GAP


def _column(headers: Sequence[str], rows: Sequence[Sequence[str]], at: int) -> int:
    """Columns of a table's column; tabulate pads headers by two."""
    return max([width(headers[at]) + _GAP, *[width(row[at]) for row in rows]])


def wrapped(text: str, columns: int | None) -> str:
    """Lines broken at spaces, the rest two columns deeper than their line. A number keeps its unit, a long word stays whole."""
    if columns is None:
        return text
    return "\n".join(_wrapped(line, max(columns, _LEAST)) for line in text.split("\n"))


_UNIT = re.compile(r"(?<=\d) (?=[A-Za-z%µ])")
_TIED = "\N{NO-BREAK SPACE}"


def _wrapped(line: str, columns: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    how: Any = {"break_long_words": False, "break_on_hyphens": False, "subsequent_indent": indent}
    return "\n".join(textwrap.wrap(_UNIT.sub(_TIED, line), columns, **how)).replace(_TIED, " ")
