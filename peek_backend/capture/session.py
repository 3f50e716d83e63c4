"""Collects what a block of code compiles: every graph of the process, whatever backend it was compiled for."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx
from torch._guards import CompileContext

from ..model import SCHEMA_VERSION, CaptureRecord, GraphRecord, Problem
from . import compat
from .environment import read_environment
from .graphs import compile_origin, read_graph

_NOW = threading.local()
_CALLS: weakref.WeakKeyDictionary[Any, dict[int, int]] = weakref.WeakKeyDictionary()


def observe(output: Any, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> GraphRecord:
    """The record of the graph that Dynamo is handing to a backend in this thread; read once however many ask.

    Never raises: what fails is a Problem of the record.
    """
    known = getattr(_NOW, "observed", None)
    context = CompileContext.try_get()
    if known is not None and known[0]() is gm and known[1] == (compat.compile_id(), compat.attempt()):
        return known[2]
    record = _read(output, gm, example_inputs, _next_call(context))
    _NOW.observed = (weakref.ref(gm), (compat.compile_id(), compat.attempt()), record)
    return record


def _next_call(context: Any) -> tuple[int, int]:
    """Which of this compile's attempts that reached a backend this is, and how many graphs that attempt handed over before.

    Dynamo restarts its analysis (at every break) without calling the backend, so its own count would tell apart what is
    the same; DDP's splitter sends several graphs under one compile id.
    """
    if context is None:
        return 0, 0
    counts = _CALLS.setdefault(context, {})
    counts[context.attempt] = counts.get(context.attempt, -1) + 1
    return list(counts).index(context.attempt), counts[context.attempt]


def _read(
    output: Any, gm: fx.GraphModule, example_inputs: Sequence[Any], place: tuple[int, int]
) -> GraphRecord:
    try:
        origin = compile_origin(output, example_inputs, *place)
        return read_graph(gm, origin)
    except Exception as error:  # nothing that goes wrong here may reach the user's compile
        why = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"[:300]
        key = compat.compile_id()
        return GraphRecord(
            key, "dynamo", (), (), problems=(Problem(key or "graph", "the graph could not be read", why),)
        )


class Session:
    """Everything compiled while it is open, in all threads, as plain records.

    ``sink(item)`` is called with each record as it is made (GraphRecord, Problem, …), from the thread that made it, so that a
    program that dies leaves what it had; an error in it ends up in ``record.problems``. Opening a session compiles nothing,
    wraps no backend, and closing it leaves torch as it was.
    """

    def __init__(self, sink: Callable[[Any], None] | None = None):
        self._sink = sink
        self._lock = threading.Lock()
        self._graphs: list[GraphRecord] = []
        self._problems: list[Problem] = []
        self._exit = contextlib.ExitStack()
        self.environment = read_environment()

    def __enter__(self) -> Session:
        self._exit.enter_context(compat.watch_graphs(self._observe))
        return self

    def __exit__(self, *exc: Any) -> None:
        self._exit.close()

    def _observe(self, output: Any, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        self.add(observe(output, gm, example_inputs))

    def add(self, graph: GraphRecord) -> None:
        """Keep a graph and hand it to the sink."""
        with self._lock:
            self._graphs.append(graph)
        self._send(graph)

    def _send(self, item: Any) -> None:
        if self._sink is None:
            return
        try:
            self._sink(item)
        except Exception as error:  # a full disk must not end the user's compile
            with self._lock:
                self._problems.append(Problem("session", "a record could not be written", str(error)[:300]))

    @property
    def record(self) -> CaptureRecord:
        """What was captured so far."""
        with self._lock:
            return CaptureRecord(
                SCHEMA_VERSION, self.environment, tuple(self._graphs), problems=tuple(self._problems)
            )
