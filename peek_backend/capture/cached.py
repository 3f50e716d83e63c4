"""Functions that were compiled before anybody looked: what their cache entries still say."""

from __future__ import annotations

from typing import Any

from ..model import EarlierFrame
from . import compat
from .guards import bound
from .sources import code_name, readable

MOST_FRAMES = 50
MOST_GUARDS = 60
_MOST_TEXT = 300


def compiled_before() -> tuple[EarlierFrame, ...]:
    """Every living function that has compiled variants now, with their guards. Compiles nothing, calls nothing of the user's."""
    found = []
    for code in compat.codes_seen():
        entries = compat.cache_entries(code)
        if entries and len(found) < MOST_FRAMES:
            found.append(_earlier(code, entries))
    return tuple(found)


def _earlier(code: Any, entries: list[Any]) -> EarlierFrame:
    variants = {str(entry.compile_id): _guards(entry) for entry in reversed(entries)}
    return EarlierFrame(code_name(code), code.co_filename, code.co_firstlineno, variants)


def _guards(entry: Any) -> tuple[str, ...]:
    """The conditions of one variant, without those that compare addresses or the state of the process."""
    codes = getattr(entry.guard_manager, "code_parts", None) or ()
    words = [bound(readable(code, None)) for code in codes if "___" not in code and "_dynamo_" not in code]
    return tuple([w[:_MOST_TEXT] for w in words[:MOST_GUARDS]])
