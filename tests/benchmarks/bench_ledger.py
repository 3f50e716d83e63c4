"""What the frame ledger adds to a compile: 10,000 nodes in 200 frames that break, and in one frame with many guards.

The time is taken inside peek's own hooks, as a part of the whole compile's; with the trace logger, torch's own work of printing
every graph for it counts as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import FunctionType

import torch

from peek_backend.capture import ledger as ledger_module
from peek_backend.capture import session as session_module

from .bench_capture import clocked
from .harness import Row
from .models import Stack

FRAMES = 200
NODES = 10_000
LIMIT, LIMIT_WITH_TRACE = 5, 8  # per cent of the compile


def main() -> list[Row]:
    broken(frames=4, nodes=40)()  # loads what any compile loads
    rows = []
    for what, build in (("200 frames", lambda: broken(frames=FRAMES, nodes=NODES)), ("1 frame", one_frame)):
        for trace in (False, True):
            rows.append(in_hooks(what, build(), trace=trace))
    return rows


def _template(x: torch.Tensor, n: int) -> torch.Tensor:
    for _ in range(n):
        x = x + 1
    torch._dynamo.graph_break()
    for _ in range(n):
        x = x * 2
    return x


def broken(*, frames: int, nodes: int) -> Callable[[], None]:
    """Calls half as many functions as ``frames``, each a code object of its own that breaks once."""
    code, each = _template.__code__, nodes // frames
    functions = [
        FunctionType(code.replace(co_name=f"part_{i}"), globals(), f"part_{i}") for i in range(frames // 2)
    ]

    def call() -> None:
        torch._dynamo.reset()
        for function in functions:
            torch.compile(function, backend="eager")(torch.ones(4), each)

    return call


def one_frame() -> Callable[[], None]:
    """One model of so many nodes: thousands of guards on its modules and parameters."""
    model = Stack(NODES)

    def call() -> None:
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(model, backend="eager")(model.input())

    return call


def in_hooks(what: str, call: Callable[[], None], *, trace: bool) -> Row:
    """Seconds inside the hooks, and inside torch's trace where that is on, over those of the compile."""
    hooks = [
        clocked(session_module.Session, "_observe"),
        *(clocked(ledger_module.Ledger, name) for name in ("_started", "_rewritten", "_ended", "settle")),
    ]
    if trace:
        hooks.append(clocked(torch._logging, "trace_structured"))
    clocks = [hook.__enter__() for hook in hooks]
    try:
        with session_module.Session(trace=trace) as session:
            start = time.perf_counter()
            call()
            took = time.perf_counter() - start
        counts = len(session.record.frames), sum(len(g.nodes) for g in session.record.graphs)
    finally:
        for hook in reversed(hooks):
            hook.__exit__(None, None, None)
    spent = sum(clock.seconds for clock in clocks)
    name = "with torch's trace" if trace else "in the hooks"
    return Row(
        f"ledger, {name} / compile, {what}",
        100 * spent / took,
        "%",
        LIMIT_WITH_TRACE if trace else LIMIT,
        f"{1000 * spent:.0f} ms of {took:.1f} s, {counts[1]:,} nodes, {counts[0]} frames",
    )
