"""What peek adds to a compile, to later calls, and to memory.

The time inside peek's own hooks is measured from inside, as the A/B difference of two compiles drowns in the noise of the
machine; the A/B medians stand beside it, with the spread of A against A.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import peek_backend
from peek_backend import backend as peek_module
from peek_backend.capture import session as session_module
from peek_backend.model import CaptureRecord

from .harness import Row, alternate, spread
from .models import Stack
from .sizes import deep_size

QUIET = {"quiet": True}


def main() -> list[Row]:
    rows: list[Row] = []
    _compile(Stack(80), "eager")  # loads what any compile loads
    for nodes in (1_000, 10_000):
        for dynamic in (False, True):
            rows += in_hooks(nodes, dynamic=dynamic)
    rows += a_b(1_000, rounds=9)
    rows += later_calls(rounds=9)
    return rows


def _compile(
    model: Stack, backend: str, options: dict[str, Any] | None = None, *, dynamic: bool = False
) -> None:
    """A cold compile and one call."""
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(model, backend=backend, options=options, dynamic=dynamic)(model.input())


class Clock:
    """Seconds added up."""

    seconds = 0.0


@contextlib.contextmanager
def clocked(owner: Any, name: str) -> Iterator[Clock]:
    """Adds up the time spent in a function or method while the block runs."""
    real, clock = getattr(owner, name), Clock()

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return real(*args, **kwargs)
        finally:
            clock.seconds += time.perf_counter() - start

    setattr(owner, name, timed)
    try:
        yield clock
    finally:
        setattr(owner, name, real)


def in_hooks(nodes: int, *, dynamic: bool) -> list[Row]:
    """Seconds inside peek's hooks over those of the whole compile, and what is kept, a node.

    The hooks are the session's observer, which reads the graph, and the backend's look at it, which prints.
    """
    model = Stack(nodes)
    hooks = clocked(session_module.Session, "_observe"), clocked(peek_module, "_look")
    with hooks[0] as reads, hooks[1] as looks, peek_backend.session() as session:
        start = time.perf_counter()
        _compile(model, "peek", {"file": io.StringIO()}, dynamic=dynamic)
        took = time.perf_counter() - start
    record = session.record
    count, kind = record.stats.nodes, "dynamic" if dynamic else "static"
    rows = [
        ("reading the graph", reads.seconds, 3),
        ("and printing its table", reads.seconds + looks.seconds, None),
    ]
    return [
        Row(
            f"{what} / compile, {nodes:,} nodes, {kind}",
            100 * spent / took,
            "%",
            limit,
            f"{1000 * spent:.0f} ms of {took:.1f} s, {count:,} nodes",
        )
        for what, spent, limit in rows
    ] + [kept(record, f"{nodes:,} nodes, {kind}")]


def kept(record: CaptureRecord, what: str) -> Row:
    """Bytes that a record holds, a node."""
    size, count = deep_size(record.graphs), sum(len(g.nodes) for g in record.graphs)
    return Row(f"kept, {what}", size / count, "B/node", 1536, "each object once, strings too")


def a_b(nodes: int, *, rounds: int) -> list[Row]:
    """Medians of cold compiles with peek and without, in turns; and of without against itself."""
    model = Stack(nodes)
    times = alternate(
        {
            "eager": lambda: _compile(model, "eager"),
            "peek": lambda: _compile(model, "peek", QUIET),
            "eager again": lambda: _compile(model, "eager"),
        },
        rounds=rounds,
    )
    base = statistics.median(times["eager"])
    return [
        Row(
            f"compile with backend={name!r} / {'eager'!r}, {nodes:,} nodes",
            statistics.median(times[name]) / base,
            "×",
            note=f"median of {rounds}, {spread(times[name])}",
        )
        for name in ("peek", "eager again")
    ]


def later_calls(*, rounds: int) -> list[Row]:
    """Calls of the compiled function, with peek over without: the callable is the inner backend's own."""
    x, calls = torch.ones(4, 4), 2_000

    def compiled(backend: str, options: dict[str, Any] | None = None) -> Callable[[], None]:
        def f(x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x + 1) * 2

        run = torch.compile(f, backend=backend, options=options)
        run(x)

        def repeat() -> None:
            for _ in range(calls):
                run(x)

        return repeat

    torch._dynamo.reset()
    times = alternate({"eager": compiled("eager"), "peek": compiled("peek", QUIET)}, rounds=rounds)
    ratio = statistics.median(times["peek"]) / statistics.median(times["eager"])
    note = f"median of {rounds} × {calls:,} calls, {spread(times['peek'])}"
    return [Row("later calls, peek / eager", ratio, "×", 1.02, note)]
