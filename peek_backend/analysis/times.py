"""Where the compile time went: seconds by phase, by frame and by variant, and the recompiles' share.

Comes in: a record. Goes out: rows, the longest first. ``codegen`` is part of ``inductor``; the other phases add up to the total.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..model import CaptureRecord, Phase

PHASES = {"dynamo": "Dynamo", "aot": "AOTAutograd", "inductor": "Inductor", "codegen": "codegen"}


class Spent(NamedTuple):
    """Seconds of one compile: ``phases`` by torch's part."""

    frame: int
    name: str
    compile_id: str
    seconds: float
    phases: tuple[Phase, ...]
    recompile: bool


def spent(record: CaptureRecord) -> list[Spent]:
    """Every compile with a time, the longest first."""
    again = {(r.frame, r.compile_id) for r in record.recompiles if not r.refused}
    rows = [
        Spent(i, frame.name, compile_id, total(phases), phases, (i, compile_id) in again)
        for i, frame in enumerate(record.frames)
        for compile_id, phases in frame.phases.items()
    ]
    return sorted(rows, key=lambda row: -row.seconds)


def total(phases: Iterable[Phase]) -> float:
    """Seconds of the whole compile."""
    return next((p.seconds for p in phases if p.name == "total"), 0.0)


def by_phase(rows: Iterable[Spent]) -> dict[str, float]:
    """Seconds summed over compiles, by phase name, ``total`` included."""
    sums: dict[str, float] = {}
    for row in rows:
        for phase in row.phases:
            sums[phase.name] = sums.get(phase.name, 0.0) + phase.seconds
    return sums


def recompile_share(rows: Iterable[Spent]) -> float:
    """The part of all seconds that recompiles took, 0 to 1."""
    rows = list(rows)
    whole = sum(row.seconds for row in rows)
    return sum(row.seconds for row in rows if row.recompile) / whole if whole else 0.0
