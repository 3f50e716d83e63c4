"""The symbols of a graph, from the shape environment it was traced in. Reads only; asks torch nothing that adds a guard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..model import SymbolInfo
from .compat import backed_hints, source_text
from .sources import readable
from .values import capped


def read_symbols(shape_env: Any, used: Iterable[Any], receiver: str | None) -> tuple[SymbolInfo, ...]:
    """Every symbol with a source, and every other that a value of the graph uses, by name order of creation.

    ``used`` are sympy symbols found in the graph's values.
    """
    if shape_env is None:
        return ()
    hints = backed_hints(shape_env)
    sources = shape_env.var_to_sources
    known = dict.fromkeys(s for s in hints if sources.get(s))
    known.update(dict.fromkeys(s for s in shape_env.var_to_range if _is_unbacked(shape_env, s)))
    known.update(dict.fromkeys(sorted(used, key=str)))
    return tuple([_read_symbol(shape_env, symbol, hints, receiver) for symbol in known])


def _read_symbol(shape_env: Any, symbol: Any, hints: dict[Any, Any], receiver: str | None) -> SymbolInfo:
    lower, upper = _bounds(shape_env.var_to_range.get(symbol))
    sources = [readable(source_text(s), receiver) for s in shape_env.var_to_sources.get(symbol, ())]
    replaced = shape_env.replacements.get(symbol)
    return SymbolInfo(
        name=str(symbol),
        sources=tuple(dict.fromkeys(sources)),
        hint=_plain(hints.get(symbol)),
        lower=lower,
        upper=upper,
        type="float" if str(symbol).startswith(("zf", "zuf")) else "int",
        unbacked=_is_unbacked(shape_env, symbol),
        replaced_by=None if replaced is None else capped(str(replaced)),
    )


def _is_unbacked(shape_env: Any, symbol: Any) -> bool:
    return str(symbol).startswith(("u", "zuf"))


def _bounds(value_range: Any) -> tuple[int | float | None, int | float | None]:
    """Both ends of a torch ValueRanges; None where it is unbounded (infinite, or torch's own stand-ins for it)."""
    if value_range is None:
        return None, None
    return _bound(value_range.lower), _bound(value_range.upper)


def _bound(value: Any) -> int | float | None:
    if getattr(value, "is_infinite", False) or str(value).lstrip("-") in ("int_oo", "oo", "zoo"):
        return None
    plain = _plain(value)
    # sys.maxsize and its neighbour are how torch says "no limit" for sizes.
    return None if isinstance(plain, int) and abs(plain) >= 2**62 else plain


def _plain(value: Any) -> int | float | None:
    """A sympy number or Python number as a Python one; None for what is neither."""
    if value is None or isinstance(value, (int, float)):
        return value
    try:
        return int(value) if getattr(value, "is_integer", False) else float(value)
    except (TypeError, ValueError):  # nested ints and other hints that are no number
        return None
