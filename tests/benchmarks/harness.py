"""What every benchmark shares: one Row a number, and ways to measure that say how far the machine itself wanders.

A benchmark is a module ``bench_NAME.py`` in this folder with ``main() -> list[Row]``; ``run.py`` finds it, runs it in a process
of its own and prints its rows. ``python -m tests.benchmarks.run NAME`` runs one.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One number. With ``limit`` it holds while ``value <= limit``; without, it stands beside the others to compare.

    ``unit`` is one of ``s``, ``ms``, ``%``, ``×`` (a ratio), ``B``, ``MB``, or a word. ``note`` says how it was measured, or what
    the spread was.
    """

    what: str
    value: float
    unit: str
    limit: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.limit is None or self.value <= self.limit


def seconds(action: Callable[[], object], *, repeat: int = 1) -> float:
    """Median wall seconds of ``action()``, with the garbage collector off while the clock runs."""
    return statistics.median(_timed(action) for _ in range(repeat))


def _timed(action: Callable[[], object]) -> float:
    gc.collect()
    was = gc.isenabled()
    gc.disable()
    try:
        start = time.perf_counter()
        action()
        return time.perf_counter() - start
    finally:
        if was:
            gc.enable()


def alternate(actions: dict[str, Callable[[], object]], *, rounds: int) -> dict[str, list[float]]:
    """Wall seconds of each action, ``rounds`` times, taken in turns in one process and in alternating order.

    Turns make what slows the machine for a while hit all actions alike.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for i in range(rounds):
        names = list(actions) if i % 2 == 0 else list(reversed(actions))
        for name in names:
            times[name].append(_timed(actions[name]))
    return times


def spread(values: Sequence[float]) -> str:
    """Half the distance between the quartiles, over the median, as text: ``±4 %``."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"±{100 * (high - low) / 2 / middle:.0f} %"


def process_cpu(args: Sequence[str], *, env: dict[str, str] | None = None) -> tuple[float, float]:
    """(CPU seconds, wall seconds) of one child process with its output thrown away. Raises OSError when it fails."""
    start = time.perf_counter()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        streams = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
        pid = os.posix_spawnp(args[0], list(args), {**os.environ, **(env or {})}, file_actions=streams)
        _, status, usage = os.wait4(pid, 0)
    finally:
        os.close(null)
    if status:
        raise OSError(f"{' '.join(args)} ended with status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start


def terminal_seconds(args: Sequence[str], *, columns: int = 120) -> tuple[float, float, int]:
    """(wall seconds, CPU seconds, bytes printed) of one child that writes to a terminal. Raises OSError when it fails."""
    import pty

    master, slave = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "LINES": "50"}
    start = time.perf_counter()
    pid = os.posix_spawnp(
        args[0], list(args), env, file_actions=[(os.POSIX_SPAWN_DUP2, slave, fd) for fd in (0, 1, 2)]
    )
    os.close(slave)
    size, tail = _drain(master)
    _, status, usage = os.wait4(pid, 0)
    took = time.perf_counter() - start
    if status:
        raise OSError(
            f"{' '.join(args)} ended with status {os.waitstatus_to_exitcode(status)}: {tail[-500:]!r}"
        )
    return took, usage.ru_utime + usage.ru_stime, size


def _drain(fd: int) -> tuple[int, bytes]:
    size, tail = 0, b""
    with os.fdopen(fd, "rb", buffering=0) as stream:
        while True:
            try:
                chunk = stream.read(65536)
            except OSError:  # Linux reports the closed far side of a terminal as EIO
                return size, tail
            if not chunk:
                return size, tail
            size, tail = size + len(chunk), (tail + chunk)[-2000:]
