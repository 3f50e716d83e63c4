"""What a test may demand of a capture's price: FLOPs, bytes moved, peak memory, parameters; absolute or beside a snapshot's.

Comes in: a record whose nodes have costs, what is expected, the numbers that a snapshot holds. Goes out: one sentence for each
expectation that does not hold. The price is that of the whole capture at the sizes seen while tracing.

``"<2GiB"``, ``"<= 1.5 TFLOP"``, ``7_850`` (exactly), ``("1GiB", "2GiB")`` (both included) are absolute. ``"+5%"`` is at most 5 %
more than the snapshot's, ``"+0%"`` no more, ``"-10%"`` at least 10 % less, ``"±5%"`` off by 5 % at most.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from ..errors import PeekError, unknown_name
from ..model import CaptureRecord, Dim
from .cost import Sizes, costs
from .memory import timeline

PRICES = ("flops", "bytes", "peak_memory", "parameters")
"""What can be expected, named as on ``record.cost``."""

_THOUSANDS = ("", "k", "M", "G", "T", "P", "E")
_BYTES = {f"{p}B": 1000**i for i, p in enumerate(_THOUSANDS)}
_BYTES |= {f"{p.upper()}iB": 1024**i for i, p in enumerate(_THOUSANDS) if p}
_FLOPS = {f"{p}{unit}": 1000**i for i, p in enumerate(_THOUSANDS) for unit in ("", "FLOP", "FLOPs")}
_COUNT = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


class _Kind(NamedTuple):
    """How one price is written: its ``units``, and the ``words`` that tell them."""

    units: Mapping[str, int]
    words: str
    example: str

    def unit(self, text: str) -> int | None:
        """What a unit is worth; capital letters do not matter."""
        return {name.lower(): worth for name, worth in self.units.items()}.get(text.lower())


_SIZE = _Kind(_BYTES, "B, KiB, MiB, GiB, TiB, kB, MB, GB, TB", '"<2GiB"')
_KINDS = {
    "flops": _Kind(_FLOPS, "FLOP, kFLOP, MFLOP, GFLOP, TFLOP, PFLOP", '"<= 3 TFLOP"'),
    "bytes": _SIZE,
    "peak_memory": _SIZE,
    "parameters": _Kind(_COUNT, "K, M, B", '"< 8B"'),
}

_NUMBER = r"\d[\d_,]*(?:\.\d+)?(?:[eE][+-]?\d+)?"
_RELATIVE = re.compile(r"(\+-|\+/-|[+\-−±])\s*(\d+(?:\.\d+)?)\s*%")
_ABSOLUTE = re.compile(rf"(==|!=|<=|>=|<|>)?\s*({_NUMBER})\s*([A-Za-z]*)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


def prices(record: CaptureRecord) -> dict[str, Dim]:
    """The four numbers; an expression where a size is read from data. Empty for a capture without costs."""
    sizes = Sizes()
    try:
        sums = costs(record, sizes)
        memory = timeline(record, sizes)
    except PeekError:
        return {}
    return {
        "flops": sums.flops,
        "bytes": sums.bytes,
        "peak_memory": memory.peak,
        "parameters": sums.parameters,
    }


def is_relative(wanted: Any) -> bool:
    """Whether an expectation is beside what a snapshot holds."""
    return isinstance(wanted, str) and "%" in wanted


def unmet_prices(
    got: Mapping[str, Dim], expected: Mapping[str, Any], kept: Mapping[str, int]
) -> dict[str, str]:
    """By price, why it is not as expected; ``kept`` are the snapshot's numbers.

    Raises PeekError for an unknown price, a value that it cannot have, a capture without costs, and a size read from data.
    """
    found = {}
    for key, wanted in expected.items():
        if key not in _KINDS:
            raise unknown_name("price", key, PRICES)
        holds = _rule(key, wanted)  # a mistake in writing is told before anything else
        price = _number(key, got)
        if is_relative(wanted):
            if why := _beside(key, price, wanted, kept.get(key)):
                found[key] = why
        elif not holds(price):
            found[key] = f"expected {_shown(wanted)}, got {_told(key, price)}"
    return found


def _number(key: str, got: Mapping[str, Dim]) -> int:
    if not got:
        fix = "capture with a function, or with inspect(…, cost=True) or dryrun(…)"
        raise PeekError(f"{key}: this capture has no costs", "its graphs were recorded without", fix)
    price = got[key]
    if isinstance(price, int):
        return price
    why = f"it depends on sizes that are read from data: {price}"
    raise PeekError(f"{key}: the price is no number", why, f"assert on record.cost.at(…).{key}")


def _beside(key: str, price: int, wanted: str, kept: int | None) -> str:
    """Why a price is not within the percent of the snapshot's; empty when it is."""
    if kept is None:
        return f"expected {_shown(wanted)}, and the snapshot has no {key} yet; now {_told(key, price)}"
    sign, percent = _percent(key, wanted)
    share = Fraction(percent) / 100
    most = kept * (1 - share if sign == "-" else 1 + share)
    least = kept * (1 - share) if sign == "±" else 0
    if least <= price <= most:
        return ""
    change = f", {100 * (price - kept) / kept:+.3g} %" if kept else ""
    return f"expected {_shown(wanted)} of {_told(key, kept)}, got {_told(key, price)}{change}"


def _percent(key: str, wanted: str) -> tuple[str, str]:
    found = _RELATIVE.fullmatch(wanted.strip())
    if found is None:
        raise _unreadable(key, wanted)
    sign = {"+-": "±", "+/-": "±", "−": "-"}.get(found[1], found[1])
    return sign, found[2]


def _rule(key: str, wanted: Any) -> Callable[[int], bool]:
    """What holds for an absolute expectation; a relative one is read for mistakes alone. Raises PeekError for neither."""
    if is_relative(wanted):
        _percent(key, wanted)
        return lambda _price: True
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        return lambda price: price == wanted
    if isinstance(wanted, (tuple, list)) and len(wanted) == 2 and any(b is not None for b in wanted):
        low, high = [None if b is None else _bound(key, b, wanted) for b in wanted]
        return lambda price: (low or 0) <= price <= (math.inf if high is None else high)
    found = _ABSOLUTE.fullmatch(wanted.strip()) if isinstance(wanted, str) else None
    if found is None or (found[3] and not found[1]):  # "2GiB" is hit by no price to the byte
        raise _unreadable(key, wanted)
    compare, limit = _COMPARE[found[1] or "=="], _worth(key, found[2], found[3], wanted)
    return lambda price: compare(price, limit)


def _bound(key: str, bound: Any, wanted: Any) -> Fraction:
    found = _ABSOLUTE.fullmatch(str(bound).strip()) if isinstance(bound, (str, int)) else None
    if found is None or found[1] or isinstance(bound, bool):
        raise _unreadable(key, wanted)
    return _worth(key, found[2], found[3], wanted)


def _worth(key: str, number: str, unit: str, wanted: Any) -> Fraction:
    worth = _KINDS[key].unit(unit) if unit else 1
    if worth is None:
        raise _unreadable(key, wanted, f"{unit!r} is no unit of it: {_KINDS[key].words}")
    return Fraction(number.replace(",", "").replace("_", "")) * worth


def _unreadable(key: str, wanted: Any, why: str = "") -> PeekError:
    fix = f'write {key}={_KINDS[key].example}, or beside the snapshot "+5%" or "±5%"'
    return PeekError(f"{key}: {wanted!r} cannot be read", why, fix)


def _shown(wanted: Any) -> str:
    if isinstance(wanted, (tuple, list)):
        low, high = wanted
        return f"{low or 0} to {'any' if high is None else high}"
    return f"{wanted:,}" if isinstance(wanted, int) else str(wanted).strip()


def _told(key: str, price: int) -> str:
    """A price with a unit, and to the last digit: both ``1.00 GiB`` may be, and still differ."""
    exact = f"{price:,}"
    units = [(n, w) for n, w in _KINDS[key].units.items() if not n.endswith("s") and _is_shown(key, n)]
    name, worth = max((u for u in units if u[1] <= max(price, 1)), key=lambda u: u[1], default=("", 1))
    if worth == 1:
        return f"{exact} {name}".rstrip()
    return f"{price / worth:.2f} {name} ({exact})"


def _is_shown(key: str, unit: str) -> bool:
    """Units that peek writes: binary ones for bytes, FLOP with its prefix, K, M and B for parameters."""
    if key == "flops":
        return unit.endswith("FLOP")
    return unit == "B" or unit.endswith("iB") if _KINDS[key] is _SIZE else True


__all__ = ["PRICES", "is_relative", "prices", "unmet_prices"]
