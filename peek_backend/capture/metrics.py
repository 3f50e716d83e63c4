"""What torch's compilation metrics say of one compile: seconds by phase, and whether the recompile limit refused it."""

from __future__ import annotations

from typing import Any

from ..model import Phase

_MICRO = 1e-6


def phases(metric: Any) -> tuple[Phase, ...]:
    """Seconds by phase, those it took only. ``codegen`` is part of ``inductor``; the others add up to ``total``.

    torch's own fields nest: Dynamo's contains AOTAutograd's, which contains Inductor's. A backward's entry has no Dynamo.
    """
    aot = _seconds(metric, "aot_autograd_cumulative_compile_time_us")
    inductor = _seconds(metric, "inductor_cumulative_compile_time_us")
    codegen = _seconds(metric, "inductor_code_gen_cumulative_compile_time_us")
    whole = _seconds(metric, "dynamo_cumulative_compile_time_us")
    if getattr(metric, "is_forward", None) is False:
        whole = aot = max(_seconds(metric, "backward_cumulative_compile_time_us"), inductor)
    total = max(whole, aot, inductor)
    named = {
        "dynamo": total - max(aot, inductor),
        "aot": max(aot, inductor) - inductor,
        "inductor": inductor,
        "codegen": codegen,
        "total": total,
    }
    return tuple(Phase(name, round(seconds, 6)) for name, seconds in named.items() if seconds > 0)


def added(first: tuple[Phase, ...], second: tuple[Phase, ...]) -> tuple[Phase, ...]:
    """Both sums of seconds, phase by phase: a forward and its backward have one compile id."""
    seconds = {p.name: p.seconds for p in first}
    for phase in second:
        seconds[phase.name] = round(seconds.get(phase.name, 0.0) + phase.seconds, 6)
    return tuple(Phase(name, value) for name, value in seconds.items())


def _seconds(metric: Any, name: str) -> float:
    return (getattr(metric, name, None) or 0) * _MICRO


def refused(metric: Any) -> bool:
    """Whether the recompile limit turned this attempt down: it has a reason to recompile and no code."""
    return metric.recompile_reason is not None and metric.co_name is None
