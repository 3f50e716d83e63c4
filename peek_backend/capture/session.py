"""Collects what a block of code compiles: every graph of the process, whatever backend it was compiled for."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec
from torch import fx
from torch._guards import CompileContext

from ..model import SCHEMA_VERSION, CaptureRecord, EarlierFrame, FrameRecord, GraphRecord, Problem
from . import compat
from .cached import compiled_before
from .environment import read_environment
from .failures import in_short
from .graphs import compile_origin, read_graph
from .ledger import Ledger
from .listeners import listen
from .nothing import stance_notes, why_nothing
from .tracelog import TraceLog, fact_sources

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
        key = compat.compile_id()
        problem = Problem(key or "graph", "the graph could not be read", in_short(error))
        return GraphRecord(key, "dynamo", (), (), problems=(problem,))


class Session:
    """Everything compiled while it is open, in all threads, as plain records.

    A compile belongs to the process: torch keeps one list of breaks and metrics, and a model that is called in one thread may
    compile in others (its backward, a data-parallel replica, a server's workers). So a session sees all threads, and two
    sessions that are open at the same time, in whatever threads, see the same compiles.

    ``sink(item)`` is called with each record as it is made (GraphRecord, FrameRecord, BreakInfo, …), from the thread that
    made it, so that a program that dies leaves what it had; ``patch(kind, index, **fields)`` with what became known later of
    the record at that place among those of its kind. An error in either ends up in ``record.problems``. Opening a session
    compiles nothing, wraps no backend, and closing it leaves torch as it was. ``count_calls`` counts the calls of each variant
    compiled meanwhile; ``trace`` reads torch's structured trace as well, for 4 to 5 % of the compile. ``stages`` names later
    stages to record of every compile, ``stages_from`` where from: ``live`` graphs, or torch's ``log``.
    """

    def __init__(
        self,
        sink: Callable[[Any], None] | None = None,
        *,
        patch: Callable[..., None] | None = None,
        count_calls: bool = False,
        trace: bool = False,
        stages: Collection[str] = (),
        stages_from: str = "live",
    ):
        self._sink, self._patching = sink, patch
        skips = compat.skips_need_the_trace()
        self._count_calls, self._trace = count_calls, TraceLog() if trace or skips else None
        self._stages, self._stages_from = frozenset(stages) - {"dynamo"}, stages_from
        self._stage_at: dict[tuple[int, str], int] = {}
        self._lock = threading.RLock()
        self._graphs: list[GraphRecord] = []
        self._problems: list[Problem] = []
        self._exit = contextlib.ExitStack()
        self._ledger = Ledger(self._graphs, self._problems, self._send, self._patch, self._trace)
        self._earlier: tuple[EarlierFrame, ...] = ()
        self._stances: list[str] = []
        self._uncompiled: list[str] = []
        self.environment = msgspec.structs.replace(
            read_environment(), sources=fact_sources(trace=trace, skips=skips)
        )

    def __enter__(self) -> Session:
        self._stances.append(compat.stance())
        self._exit.enter_context(compat.watch_stances(self._stances.append))
        self._exit.enter_context(compat.watch_uncompiled(self._uncompiled.append))
        self._earlier = self._guarded(compiled_before, "functions compiled before") or ()
        self._exit.enter_context(self._ledger.watching())
        self._exit.enter_context(compat.watch_graphs(self._observe))
        self._exit.enter_context(listen(self._stage))
        if self._stages:
            self._exit.enter_context(compat.around_backend_calls(self._reading))
        if self._count_calls:
            self._exit.enter_context(compat.count_calls(self._ledger.counter))
        if self._trace is not None:
            self._exit.enter_context(self._trace.listening())
        return self

    def __exit__(self, *exc: Any) -> None:
        self._exit.close()

    def _observe(self, output: Any, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> None:
        index = self.add(observe(output, gm, example_inputs))
        self._ledger.graph(index, output, example_inputs)

    def add(self, graph: GraphRecord) -> int:
        """Keep a graph and hand it to the sink; its index among the graphs."""
        with self._lock:
            self._graphs.append(graph)
            index = len(self._graphs) - 1
        self._send(graph)
        return index

    def _stage(self, call: int, slot: str, graph: GraphRecord) -> None:
        """Keep a graph of a later stage, in the place of what was known of it before."""
        with self._lock:
            at = self._stage_at.get((call, slot))
            if at is not None:
                self._graphs[at] = graph
        if at is None:
            self._stage_at[call, slot] = self.add(graph)
        else:
            self._patch("graph", at, lowering=graph.lowering, problems=graph.problems)

    def _reading(self, output: Any, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        # Not before: a session may be opened while torch._dynamo is being imported, which these need whole.
        from .stagereader import Wanted
        from .stages import Request, reading_stages

        dynamo = observe(output, gm, example_inputs)
        wanted = Wanted(self._stages, compat.backend_name(output))
        return reading_stages(
            gm, example_inputs, dynamo, compat.root_code(output), Request(wanted, self._stages_from)
        )

    def settle(self) -> None:
        """Take in what torch wrote down since the last compile ended (times, refused recompiles), before somebody clears it."""
        self._ledger.settle()

    def _send(self, item: Any) -> None:
        if self._sink is not None:
            self._guarded(lambda: self._sink(item), "a record")  # type: ignore[misc]

    def _patch(self, kind: str, index: int, **fields: Any) -> None:
        if self._patching is not None:
            self._guarded(lambda: self._patching(kind, index, **fields), "a record")  # type: ignore[misc]

    def _guarded(self, action: Callable[[], Any], what: str) -> Any:
        try:
            return action()
        except Exception as error:  # a full disk must not end the user's compile
            with self._lock:
                self._problems.append(Problem("session", f"{what} could not be kept", str(error)[:300]))
            return None

    @property
    def record(self) -> CaptureRecord:
        """What was captured so far."""
        self.settle()
        told = self._ledger.told()  # before our own lock: a hook that fails takes the two in this order
        with self._lock:
            return CaptureRecord(
                SCHEMA_VERSION,
                self.environment,
                _with_frames(told.graphs if self._trace is None else self._trace.added_to(told.graphs)),
                frames=told.frames,
                breaks=told.breaks,
                recompiles=told.recompiles,
                problems=tuple(self._problems),
                notes=self._notes(told.frames),
                earlier=self._earlier,
            )

    def _notes(self, frames: Sequence[FrameRecord]) -> tuple[str, ...]:
        if self._graphs:
            return stance_notes(self._stances, frames)
        now = compat.stance()
        stance = next((s for s in (now, *self._stances) if s != "default"), "default")
        return why_nothing(
            frames,
            self._earlier,
            self._ledger.declined_elsewhere,
            stance,
            over=now == "default",
            uncompiled=self._uncompiled,
        )


def _with_frames(graphs: Sequence[GraphRecord]) -> tuple[GraphRecord, ...]:
    """The graphs, those of later stages with the frame and the name of the Dynamo graph they were made from."""
    first = {g.backend_call: {"frame": g.frame, "name": g.name} for g in graphs if g.stage == "dynamo"}
    return tuple(
        [
            g
            if g.lowering is None
            else msgspec.structs.replace(g, **first.get(g.backend_call, {"frame": None}))
            for g in graphs
        ]
    )
