"""How many bytes a tree of plain objects takes."""

from __future__ import annotations

import sys
from typing import Any

from msgspec import Struct


def deep_size(root: Any) -> int:
    """Bytes of ``root`` and of all that it reaches, each object once (``sys.getsizeof``); types and modules are not followed."""
    seen: set[int] = set()
    waiting, total = [root], 0
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        if isinstance(item, Struct):
            waiting.extend(getattr(item, name) for name in item.__struct_fields__)
        elif isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, (tuple, list, set, frozenset)):
            waiting.extend(item)
    return total
