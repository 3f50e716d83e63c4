"""Lower bounds of time as text and plain data.

Comes in: a Roofline. Goes out: text, or a dict of numbers. A bound is always called one.
"""

from __future__ import annotations

from typing import Any

from ..analysis.roofline import Bound, Roofline
from .fitting import fitted
from .labels import bytes_text, plural, target_text

MOST_BOUNDS = 8


def seconds_text(seconds: float) -> str:
    """``1.25 s``, ``3.4 ms``, ``12 µs``."""
    for unit, scale in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def roofline_text(found: Roofline) -> str:
    """Whether it fits, the bounds in all, and what bounds them."""
    device = found.device
    room = bytes_text(device.memory)
    if found.short > 0:
        lines = [f"on {device.name}: does not fit in {room}: by {bytes_text(found.short)}"]
    else:
        lines = [f"on {device.name}: fits in {room}, {bytes_text(-found.short)} left"]
    share = round(100 * found.compute_bound)
    lines.append(
        f"  lower bound of time: {seconds_text(found.seconds)} op by op "
        f"({share} % of it compute-bound, {100 - share} % memory-bound), {seconds_text(found.fused)} however ops are fused"
    )
    if found.unknown:
        lines.append(
            f"  not in it: {plural(found.unknown, 'op')} of unknown size, or of a dtype without a rate"
        )
    lines.append(f"  peaks after {device.source}")
    return "\n".join(lines)


def roofline_table(
    found: Roofline, format: str = "simple", *, most: int = MOST_BOUNDS, columns: int | None = None
) -> str:
    """The ops with the longest bounds, by module and target."""
    rows = [_row(bound, found.seconds) for bound in found.bounds[:most]]
    rest = found.bounds[most:]
    if rest:
        seconds = sum(b.seconds for b in rest)
        rows.append(
            [
                f"{len(rest)} more",
                "",
                str(sum(b.ops for b in rest)),
                seconds_text(seconds),
                _share(seconds, found.seconds),
                "",
            ]
        )
    headers = ["module", "op", "ops", "at least", "share", "bound by"]
    return fitted(headers, rows, format, columns, drop=("ops",), shorten=("module", "op"))


def _row(bound: Bound, whole: float) -> list[str]:
    target = target_text(bound.target)
    return [
        bound.module,
        target,
        str(bound.ops),
        seconds_text(bound.seconds),
        _share(bound.seconds, whole),
        bound.by,
    ]


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def roofline_data(found: Roofline) -> dict[str, Any]:
    """The same as plain data, times in seconds."""
    return {
        "device": found.device.name,
        "source": found.device.source,
        "memory": found.device.memory,
        "short_by": max(found.short, 0),
        "lower_bound_seconds": found.seconds,
        "fused_lower_bound_seconds": found.fused,
        "compute_bound_share": found.compute_bound,
        "unknown_ops": found.unknown,
        "bounds": [
            {"module": b.module, "op": b.target, "ops": b.ops, "seconds": b.seconds, "bound_by": b.by}
            for b in found.bounds
        ],
    }
