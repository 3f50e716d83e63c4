"""When ``save=`` rewrites the file of a capture that grows: at once while that is cheap, else in a small share of the time.

A file is replaced whole, so writing it at every graph takes time with the square of their number: 300 graphs of 360 nodes
took as long to write as to compile. What waits is written soon after by a timer, and at the latest when Python exits.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from pathlib import Path

CHEAP = 0.05
"""Seconds: a write that is expected to take less is done at once, so that small captures are always complete."""

SHARE = 20
"""A longer one waits until this many times what it takes has passed since the last: at most 5 % of the time goes into it."""

LONGEST = 5.0
"""Seconds after which what waits is written in any case."""


class Pace:
    """Runs the writes of each path at their time; the caller's own lock keeps two of one path apart."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of the table of what waits
        self._rate: dict[Path, float] = {}  # seconds a graph, the best seen
        self._ended: dict[Path, float] = {}
        self._waiting: dict[Path, tuple[threading.Timer, Callable[[], None]]] = {}
        self._at_exit = False

    def run(self, path: Path, graphs: int, work: Callable[[], None], late: Callable[[], None]) -> None:
        """Do ``work``, which writes ``graphs`` graphs to ``path``, or ``late`` at its time: the same, and raises nothing."""
        expected = self._rate.get(path, 0.0) * graphs
        wait = self._ended.get(path, 0.0) + SHARE * expected - time.monotonic()
        if expected > CHEAP and wait > 0:
            self._defer(path, graphs, late, min(wait, LONGEST))
        else:
            self.forget(path)
            self._timed(path, graphs, work)

    def flush(self) -> None:
        """Write now what waits."""
        for path in list(self._waiting):
            if (waiting := self.forget(path)) is not None:
                waiting()

    def forget(self, path: Path) -> Callable[[], None] | None:
        """Take back what waits for ``path``; returns it."""
        with self._lock:
            timer, work = self._waiting.pop(path, (None, None))
        if timer is not None:
            timer.cancel()
        return work

    def _defer(self, path: Path, graphs: int, work: Callable[[], None], seconds: float) -> None:
        if not self._at_exit:
            atexit.register(self.flush)
            self._at_exit = True
        with self._lock:
            timer = self._waiting[path][0] if path in self._waiting else None
            if timer is None:
                timer = threading.Timer(seconds, self._due, (path, graphs))
                timer.daemon = True
                timer.start()
            self._waiting[path] = (timer, work)

    def _due(self, path: Path, graphs: int) -> None:
        if (work := self.forget(path)) is not None:
            self._timed(path, graphs, work)

    def _timed(self, path: Path, graphs: int, work: Callable[[], None]) -> None:
        """Do it and learn how long it takes; not from the first, which also loads the renderer."""
        first, start = path not in self._ended, time.monotonic()
        try:
            work()
        finally:
            self._ended[path] = time.monotonic()
            if not first:
                rate = (self._ended[path] - start) / max(graphs, 1)
                self._rate[path] = min(rate, self._rate.get(path, rate))
