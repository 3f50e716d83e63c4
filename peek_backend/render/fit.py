"""Columns of text made to fit: which of them gives way when a terminal is too narrow.

Comes in: the width of every cell by column. Goes out: a width a column.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

NEVER = 1 << 30
"""A floor that keeps a column from being cut as long as another can give."""
_LEAST = 4


def share(
    cells: Sequence[Sequence[int]], floors: Sequence[int], room: int, hard: Sequence[int] = ()
) -> list[int]:
    """Widths for columns of ``cells`` (their texts' widths) that add up to ``room``, or as near as ``_LEAST`` allows.

    Each time that column loses a character in which this tears the fewest cells, so that one long cell
    does not keep a whole column wide. No column goes under its floor while any other can give, nor under ``hard``
    (if given) while any other is above that.
    """
    taken = [sorted(column) for column in cells]
    widths = [column[-1] if column else 0 for column in taken]
    for least in (floors, *([hard] if hard else []), [_LEAST] * len(widths)):
        while sum(widths) > room:
            able = [i for i, w in enumerate(widths) if w > least[i]]
            if not able:
                break
            widths[min(able, key=lambda i: (_torn(taken[i], widths[i] - 1), -widths[i]))] -= 1
    return widths


def _torn(widths: list[int], limit: int) -> int:
    """How many of the sorted widths are over the limit."""
    return len(widths) - bisect_right(widths, limit)
