"""The frame ledger: every frame Dynamo looked at, what became of it, its breaks, recompiles, guards and compile times.

Comes in: what torch's hooks say while a compile runs (start, bytecode made, end), its lists of break reasons and guard
failures, and its compilation metrics. Goes out: FrameRecord, BreakInfo, RecompileInfo, and what became known of the graphs
after their backend call. Everything becomes plain data inside the hook; no frame, tensor or guard outlives its compile.

Which hook says what:

* start     a compile begins: its code, callers, and which guards failed, while the frame's locals are at hand
* bytecode  it made code: the breaks in it, and the guards that will be built
* end       it is over: the guards' code, the last ranges of the symbols, and the exception if it failed
* refused   a call for which nothing is compiled: the recompile limit was reached, a stance forbids it, or Dynamo raised before
* metrics   written after the end and read at the next event: seconds, and refused attempts that no warning told of
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from ..model import (
    BreakInfo,
    FailedGuard,
    FrameRecord,
    GraphRecord,
    Problem,
    RecompileInfo,
    StackFrame,
)
from . import compat, metrics, refusals
from .blocks import block_around, is_inside
from .breaks import DDP_SPLIT, generator_break, read_break, skipped_break, tidy, traced_break
from .changes import Retry, advice, is_of_size, what_changed
from .conditions import names_of
from .failures import in_short, read_failure
from .frames import Compile, Frame, calling, count, fields, frame_record
from .guards import cause, read_guards
from .marks import read_marks, without_marked
from .nothing import declined_frame
from .recompiles import attempts, changed_sizes, explained, read_failed, variant_of
from .sources import describe, is_dynamo_wrapper, is_program, place, positions_of, receiver_of
from .symbols import read_symbols, relations
from .tracelog import TraceLog

# Dynamo's own exceptions for "leave this frame to Python"; any other ends the call, unless suppress_errors is on.
_SOFT = ("Unsupported", "UserError")
# What torch raises for a marked size that it cannot leave dynamic.
_CONSTRAINT = "ConstraintViolationError"


class Told(NamedTuple):
    """What a ledger has to say. Frames are in the order in which Dynamo met them."""

    graphs: tuple[GraphRecord, ...]
    frames: tuple[FrameRecord, ...]
    breaks: tuple[BreakInfo, ...]
    recompiles: tuple[RecompileInfo, ...]


class _Looking:
    """What torch holds of one running compile; dropped at its end."""

    def __init__(self, output: Any):
        code = compat.root_code(output)
        self.context = compat.guards_context(output)
        self.shape_env = output.shape_env
        self.receiver = receiver_of(code)
        self.positions = positions_of(code, compat.root_locals(output))
        self.guards: list[Any] = []


class Ledger:
    """Fills itself from torch's hooks while ``watching``; ``graphs`` is the session's own list, in order of capture.

    ``emit(record)`` is called with each FrameRecord, BreakInfo and RecompileInfo as it becomes known,
    ``patch(kind, index, **fields)`` with what became known later of one. ``trace`` tells of skipped frames where this torch
    says it nowhere else. Nothing raised in here reaches the compile: it becomes a Problem.
    """

    def __init__(
        self,
        graphs: list[GraphRecord],
        problems: list[Problem],
        emit: Callable[[Any], None],
        patch: Callable[..., None],
        trace: TraceLog | None = None,
    ):
        self._trace = trace
        self.graphs, self.problems = graphs, problems
        self.frames: list[Frame] = []
        self.breaks: list[BreakInfo] = []
        self.recompiles: list[RecompileInfo] = []
        self.declined_elsewhere: list[str] = []
        self._emit, self._patch = emit, patch
        self._lock = threading.RLock()
        self._compiles: dict[str, Compile] = {}
        self._looking: dict[str, _Looking] = {}
        self._frames_by_code: dict[Any, Frame] = {}
        self._outer_error: dict[str, int] = {}  # by id: an exception keeps frames, and their tensors, alive
        self._last_reason: Any = None
        self._last_metric: Any = None
        self._register: Callable[[], None] = lambda: None
        self._take_skips: Callable[[], list[str]] = list
        self._codes_before: dict[int, Callable[[], Any]] = {}

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Torch tells this ledger what happens, until the block ends."""
        self._last_reason = next(reversed(compat.break_reasons()), None)
        self._last_metric = next(reversed(compat.metrics_of_compiles()), None)
        self._codes_before = {id(code): weakref.ref(code) for code in compat.codes_seen()}
        with (
            compat.keep_metrics(),
            compat.watch_skips() as self._take_skips,
            compat.watch_step_causes(),
            compat.watch_compiles(self._started, self._rewritten, self._ended) as self._register,
            refusals.watch_limit(self._over_the_limit),
            refusals.watch_stance_calls(self._kept_by_a_stance),
            refusals.watch_errors(self._ended_with),
        ):
            try:
                yield
            finally:
                self.settle()

    # ---- hooks: called by torch, in the thread that compiles -------------------------------------------------------

    def _started(self, compile_id: str) -> None:
        with self._told(compile_id):
            self._outer_error[compile_id] = id(sys.exc_info()[1])
            self._begin(compile_id)

    def graph(self, index: int, output: Any, inputs: Sequence[Any]) -> None:
        """Graph ``index`` of the session is about to go to its backend, traced on ``inputs``."""
        with self._told(compat.compile_id() or "graph"):
            self._register()  # a reset since the last compile took the callbacks away
            compile_id = compat.compile_id()
            if compile_id is None:
                return
            compile = self._begin(compile_id)
            compile.graphs.append(index)
            self._looking[compile_id] = _Looking(output)
            graph, mode = self.graphs[index], compat.dynamic_mode()
            self._set_graph(
                index,
                frame=compile.frame,
                name=self.frames[compile.frame].name,
                ended_by=None,  # known at the end: a bucket of DDP's has a reason as well, and is ended by no break
                marks=read_marks(graph, inputs),
                state=graph.state if mode == "automatic" else graph.state | {"dynamic": mode},
            )

    def _rewritten(self, code: Any, new_code: Any) -> None:
        with self._told(compat.compile_id() or getattr(code, "co_name", "frame")):
            self._register()
            compile_id = compat.compile_id()
            if compile_id is None:  # a package loads code without a compile
                return
            compile = self._begin(compile_id, code)
            compile.produced = True
            self._take_breaks(compile)
            if (looking := self._looking.get(compile_id)) is not None:
                looking.guards = list(looking.context.dynamo_guards)

    def _ended(self, compile_id: str) -> None:
        error = sys.exc_info()[1]
        with self._told(compile_id):
            compile = self._compiles.get(compile_id)
            if compile is None or compile.ended:
                return
            if id(error) == self._outer_error.pop(compile_id, None):
                error = None  # the program compiles inside an except block of its own
            self._finish(compile, error)
        with self._told(compile_id):
            self._looking.pop(compile_id, None)

    @contextlib.contextmanager
    def _told(self, where: str) -> Iterator[None]:
        """Whatever goes wrong inside is a Problem: an exception in a hook would end the user's compile."""
        try:
            with self._lock:
                yield
        except Exception as error:
            self.problems.append(
                Problem(where, "what happened to this frame could not all be read", in_short(error))
            )

    # ---- one compile -----------------------------------------------------------------------------------------------

    def _begin(self, compile_id: str, code: Any = None) -> Compile:
        """The compile with this id; a new one at its first hook, or when a reset made the ids start again."""
        known = self._compiles.get(compile_id)
        if known is not None and not known.ended:
            return known
        self._read_metrics()
        found = compat.compiling()
        if found is not None and found.code is not None:
            code = found.code
        local_values = found.local_values if found is not None else {}
        frame = self._frame(code, local_values, found.variants if found is not None else 0)
        if frame.variants and code is not None and not compat.cache_entries(code):
            frame.resets, frame.dropped, frame.earlier = frame.resets + 1, len(frame.compiles), 0
            frame.values.clear()
        compile = Compile(compile_id, frame.index)
        if found is not None:
            compile.one_graph = found.one_graph
            compile.callers = _places(found.callers)
            if not frame.compiles:
                self._find_outer(frame, compile.callers)
        compile.failed = self._failures(frame, self._new_failures(frame, code), local_values)
        compile.sizes = self._sizes(frame, compile.failed, local_values)
        frame.compiles.append(compile)
        self._compiles[compile_id] = compile
        return compile

    def _frame(self, code: Any, local_values: dict[str, Any], variants: int) -> Frame:
        key = _key(code, local_values)
        known = self._frames_by_code.get(key)
        if known is not None and known.code() is code:
            return known
        root = compat.resume_root(code) if code is not None else None
        parent = self._frame(root, local_values, 0) if root is not None else None
        frame = self._new_frame(*describe(code, local_values))
        if parent is not None:
            self._continue(parent, frame)
        sharing = self._frames_by_code.get(id(code)) if key != id(code) else None
        frame.earlier = variants if sharing is None or sharing.code() is not code else 0
        frame.positions = positions_of(code, local_values)
        if code is not None:
            frame.code = weakref.ref(code)
            self._frames_by_code[key] = self._frames_by_code[id(code)] = frame
        self._emit(frame_record(frame))
        return frame

    def _new_frame(self, name: str, file: str, line: int) -> Frame:
        frame = Frame(len(self.frames), name, file, line)
        self.frames.append(frame)
        return frame

    def _new_failures(self, frame: Frame, code: Any) -> list[str]:
        """torch's texts of the guards that failed since this frame was last looked at; of the latest attempt only."""
        texts = compat.guard_failures(code)
        start = frame.failures_read if frame.failures_read <= len(texts) else 0  # a reset empties the list
        frame.failures_read = len(texts)
        found = attempts(texts[start:])
        return found[-1] if found else []

    def _failures(
        self, frame: Frame, texts: Sequence[str], local_values: dict[str, Any]
    ) -> tuple[FailedGuard, ...]:
        """The guard of each variant that failed, in words, the one that tells most first."""
        own = [t for t in texts if self._is_of(frame, variant_of(t))]
        failed = [read_failed(text, local_values, frame.file, frame.positions) for text in own]
        return explained(failed, frame.values)

    def _is_of(self, frame: Frame, variant: str | None) -> bool:
        """Whether a variant is the frame's, and not of another function that Dynamo runs through the same wrapper."""
        known = self._compiles.get(variant or "")
        return known is None or known.frame == frame.index

    def _take_breaks(self, compile: Compile) -> None:
        """The breaks that torch noted since the last look belong to this compile: only one runs at a time."""
        reasons = _since(compat.break_reasons(), self._last_reason)
        looking = self._looking.get(compile.compile_id)
        names = names_of(looking.shape_env) if reasons and looking is not None else {}
        for reason in reasons:
            self._last_reason = reason
            if reason.reason.startswith(DDP_SPLIT):
                compile.buckets += 1
                continue
            cause = compat.step_cause(reason)
            event = read_break(
                reason, compile.callers, resumed=self._continues(compile), cause=cause, names=names
            )
            compile.breaks.append(msgspec.structs.replace(event, frame=compile.frame))

    def _finish(self, compile: Compile, error: BaseException | None) -> None:
        compile.ended = True
        self._take_breaks(compile)
        frame = self.frames[compile.frame]
        if error is not None:
            self._failed(compile, error)
        elif compile.produced:
            compile.variant = frame.variants
            self._recompiled(compile, frame)
        elif self._trace is not None and compat.skips_need_the_trace():
            self._skipped(compile, self._trace.break_of(compile.compile_id))
        self._ended_graphs(compile)
        for event in compile.breaks:
            self._tell_break(event)
        self._patch("frame", frame.index, **fields(frame))

    def _tell_break(self, event: BreakInfo) -> None:
        self.breaks.append(event)
        self._emit(event)

    def _failed(self, compile: Compile, error: BaseException) -> None:
        kind = type(error).__qualname__
        told = read_failure(error, self.frames[compile.frame].positions)
        compile.error, compile.fix = told.reason, told.fix
        compile.user = told.user or (self._asked_at(compile, told.reason) if kind == _CONSTRAINT else None)
        soft = kind in _SOFT
        compile.raised = compile.one_graph or not (soft or compat.errors_suppressed())
        if soft:
            event = skipped_break(error, compile.callers, resumed=self._continues(compile))
            compile.breaks.append(msgspec.structs.replace(event, frame=compile.frame))
        compile.breaks = [self._whole(b, compile) for b in compile.breaks]

    def _asked_at(self, compile: Compile, text: str) -> StackFrame | None:
        """The line that asked what a text says of a size, where one did; else the one that made the call."""
        symbols = self.graphs[compile.graphs[-1]].symbols if compile.graphs else ()
        return cause(text, symbols) or calling(compile.callers, self.frames[compile.frame])

    def _whole(self, event: BreakInfo, compile: Compile) -> BreakInfo:
        """A break that took the whole frame: in the block that is why, unless it is an error in any case."""
        frame = self.frames[compile.frame]
        own = [f for f in event.stack if (f.file, f.function) == (frame.file, frame.own_name)]
        if compile.raised or not is_program(frame.file):
            own = []
        # Of several functions of that name on the stack, those that were traced into lie outside of this one's lines.
        block = next((b for f in own if (b := block_around(frame.file, frame.line, f.line))), "")
        return msgspec.structs.replace(event, split=False, resumes=True, compile_id=None, block=block)

    def _skipped(self, compile: Compile, told: tuple[str, tuple[StackFrame, ...]] | None) -> None:
        """A compile that made no code and raised nothing: skipped for the break that torch's trace tells of."""
        if told is None:
            return
        event = self._whole(traced_break(*told), compile)
        compile.breaks.append(msgspec.structs.replace(event, frame=compile.frame))
        compile.error, compile.user = event.reason, event.stack[-1] if event.stack else None

    def _continues(self, compile: Compile) -> bool:
        return self.frames[compile.frame].root is not None

    def _recompiled(self, compile: Compile, frame: Frame) -> None:
        """Notes a successful compile of a code object after its first."""
        if compile.variant < 2:
            return
        info = RecompileInfo(
            compile_id=compile.compile_id,
            frame=frame.index,
            variant=compile.variant,
            failed=compile.failed,
            changed=self._changed(compile, frame),
            advice=self._advice(frame, compile),
            resume=frame.root is not None,
            user=calling(compile.callers, frame),
        )
        self.recompiles.append(info)
        self._emit(info)

    def _advice(self, frame: Frame, attempt: Compile) -> str:
        """What would have spared the program this attempt to compile a frame again."""
        last = next((c.graphs[-1] for c in reversed(frame.compiles) if c.graphs), None)
        before = self._closest(frame.compiles, attempt.failed)
        retry = Retry(
            failed=attempt.failed,
            graph=None if last is None else self.graphs[last],
            refused=attempt.refused,
            outer="" if frame.outer is None else self.frames[frame.outer].name,
            cut=frame.cut,
            sizes=attempt.sizes,
            marks={} if before is None else before.marks,
        )
        return advice(retry)

    def _find_outer(self, frame: Frame, callers: Sequence[StackFrame]) -> None:
        """Notes the function that the program called, and its last break, for a frame that is one of its own because of it.

        Of several the outermost, whose inputs the program holds. A resume frame has one whoever its callers are.
        """
        last = {self._root_of(event): event for event in self.breaks}
        last.pop(frame.index, None)
        found = (i for caller in callers for i in last if _holds(self.frames[i], caller))
        frame.outer = next(found, frame.root)
        event = None if frame.outer is None else last.get(frame.outer)
        if event is not None and event.stack:
            frame.cut = event.user or event.stack[-1]

    def _root_of(self, event: BreakInfo) -> int:
        """The frame of a break, or the one that it continues."""
        assert event.frame is not None
        root = self.frames[event.frame].root
        return event.frame if root is None else root

    def _changed(self, compile: Compile, frame: Frame) -> tuple[str, ...]:
        before = self._closest(frame.compiles[:-1], compile.failed)
        if before is None or not compile.graphs:
            return ()
        return what_changed(before, self.graphs[compile.graphs[-1]])

    def _sizes(
        self, frame: Frame, failed: Sequence[FailedGuard], local_values: dict[str, Any]
    ) -> tuple[str, ...]:
        if not any(is_of_size(guard) for guard in failed):  # for no other are they told
            return ()
        before = self._closest(frame.compiles, failed)
        return changed_sizes(before, local_values, frame.positions) if before is not None else ()

    def _closest(self, compiles: Sequence[Compile], failed: Sequence[FailedGuard]) -> GraphRecord | None:
        """The graph of the variant whose failed guard tells most: of all, it fits the call best."""
        by_id = {c.compile_id: c for c in compiles}
        wanted = [*[g.variant for g in failed], *reversed(by_id)]
        found = next((c for v in wanted if v and (c := by_id.get(v)) and c.graphs), None)
        return self.graphs[found.graphs[-1]] if found is not None else None

    def _ended_graphs(self, compile: Compile) -> None:
        """What is known of the compile's graphs only now: guards, last ranges, what ended them, whether they can run."""
        if not compile.graphs:
            return
        last = self.graphs[compile.graphs[-1]].attempt
        kept = [i for i in compile.graphs if self.graphs[i].attempt == last]
        for index in compile.graphs:
            if never := compile.error or ("" if index in kept else "Dynamo started this compile over"):
                self._set_graph(index, never_ran=never)
        if compile.error is None and compile.breaks:
            compile.breaks = [
                msgspec.structs.replace(b, compile_id=compile.compile_id) for b in compile.breaks
            ]
            self._set_graph(kept[-1], ended_by=compile.breaks[-1])
        if compile.buckets:
            self._name_buckets(kept)
        if (looking := self._looking.get(compile.compile_id)) is not None:
            for index in kept:
                self._set_graph(index, **self._shapes(self.graphs[index], looking))
            graph = self.graphs[kept[-1]]
            self._set_graph(
                kept[-1], guards=read_guards(looking.guards, graph, _files(graph), looking.positions)
            )

    def _name_buckets(self, indices: Sequence[int]) -> None:
        for place_, index in enumerate(indices, 1):
            note = f"bucket {place_} of {len(indices)}: DDPOptimizer split the graph, and the backend is called for each"
            self._set_graph(index, notes=(*self.graphs[index].notes, note))

    def _shapes(self, graph: GraphRecord, looking: _Looking) -> dict[str, Any]:
        env = looking.shape_env
        if env is None or not graph.symbols:
            return {}
        names = [s.name for s in graph.symbols]
        symbols = read_symbols(env, names, looking.receiver, _files(graph), looking.positions)
        return {"symbols": without_marked(symbols, graph.marks), "relations": relations(env)}

    def _set_graph(self, index: int, **fields: Any) -> None:
        if fields:
            self.graphs[index] = msgspec.structs.replace(self.graphs[index], **fields)
            self._patch("graph", index, **fields)

    def counter(self, compile_id: str) -> Callable[[], Any]:
        """What counts the calls of the variant being compiled: the ``__next__`` of a counter, which no thread interrupts."""
        with self._lock:
            compile = self._begin(compile_id)
            compile.calls = itertools.count()
            return compile.calls.__next__

    # ---- what torch writes after the end ---------------------------------------------------------------------------

    def settle(self) -> None:
        """Read what torch noted since the last event. Safe at any time; compiles that still run stay open."""
        with self._told("compilation metrics"):
            self._read_metrics()
        with self._told("skipped frames"):
            self._read_generators()
            self._read_skips()

    def _read_metrics(self) -> None:
        for metric in _since(compat.metrics_of_compiles(), self._last_metric):
            self._last_metric = metric
            compile_id = str(metric.compile_id)
            if metrics.refused(metric):
                self._refused(compile_id, metric.recompile_reason)
            elif (compile := self._compiles.get(compile_id)) is not None:
                compile.phases = metrics.added(compile.phases, metrics.phases(metric))
                if not compile.ended and compile.produced:  # nested: torch calls no end for it
                    self._finish(compile, None)

    def _refused(self, compile_id: str, reason: str) -> None:
        """The metrics tell of an attempt that the recompile limit turned down."""
        known = self._compiles.get(compile_id)
        if known is not None and known.refused:
            return
        frame = self._frame_of_failure(compile_id, reason)
        if frame is not None:
            texts = self._new_failures(frame, frame.code()) or [reason]
            failed = self._failures(frame, texts, {})
            self._turned_down(frame, Compile(compile_id, frame.index, failed=failed))

    def _over_the_limit(self, call: refusals.Refused) -> None:
        """The recompile limit turns this call down: the code object runs in eager since, or ends with an error."""
        compile_id = compat.compile_id()
        with self._told(compile_id or call.code.co_name):
            if compile_id is None:
                return
            frame = self._frame(call.code, call.local_values, len(compat.cache_entries(call.code)))
            failed = self._failures(frame, self._new_failures(frame, call.code), call.local_values)
            self._turned_down(frame, self._attempt(frame, call, failed, compile_id))

    def _attempt(
        self, frame: Frame, call: refusals.Refused, failed: tuple[FailedGuard, ...], compile_id: str = ""
    ) -> Compile:
        """What would have been a compile."""
        sizes = self._sizes(frame, failed, call.local_values)
        callers = _places(call.callers)
        return Compile(
            compile_id, frame.index, callers=callers, failed=failed, sizes=sizes, raised=call.raises
        )

    def _ended_with(self, call: refusals.Refused, error: Exception) -> None:
        """An error of Dynamo's ends this call: that of the compile that just ended, or one raised before any began."""
        with self._told(call.code.co_name):
            frame = self._frame(call.code, call.local_values, len(compat.cache_entries(call.code)))
            last = frame.compiles[-1] if frame.compiles else None
            if last is not None and last.ended and (last.refused or last.error is not None):
                last.raised = True
            elif not frame.forbidden.error:
                self._never_began(frame, call, error)
            self._patch("frame", frame.index, **fields(frame))

    def _never_began(self, frame: Frame, call: refusals.Refused, error: Exception) -> None:
        forbidden, kind = frame.forbidden, type(error).__qualname__
        callers, told = _places(call.callers), read_failure(error, frame.positions)
        forbidden.error, forbidden.fix = told.reason, told.fix
        forbidden.user = told.user or (callers[-1] if callers else None)
        if kind == "RecompileError":
            failed = self._failures(frame, self._new_failures(frame, call.code), call.local_values)
            why = failed[0].text if failed else told.reason
            forbidden.error = f"torch._dynamo.config.error_on_recompile makes a recompile an error: {why}"
            forbidden.fix = self._advice(frame, self._attempt(frame, call, failed))
        elif kind in _SOFT:
            event = traced_break(str(error), (*callers, _definition(frame)))
            self._tell_break(msgspec.structs.replace(event, frame=frame.index))

    def _turned_down(self, frame: Frame, compile: Compile) -> None:
        compile.refused = compile.ended = True
        compile.variant = frame.variants + 1
        counts = [count(c.calls) for c in frame.compiles[frame.dropped :] if c.calls is not None]
        frame.compiles.append(compile)
        self._compiles[compile.compile_id] = compile
        info = RecompileInfo(
            compile_id=compile.compile_id,
            frame=frame.index,
            variant=compile.variant,
            failed=compile.failed,
            advice=self._advice(frame, compile),
            refused=True,
            resume=frame.root is not None,
            user=calling(compile.callers, frame),
            call=sum(counts) + 1 if counts and not frame.earlier else None,
        )
        self.recompiles.append(info)
        self._emit(info)
        self._patch("frame", frame.index, **fields(frame))

    def _kept_by_a_stance(self, call: refusals.Refused) -> None:
        """A stance keeps this call from being compiled: it ends with an error, or runs in eager."""
        with self._told(call.code.co_name):
            frame = self._frame(call.code, call.local_values, len(compat.cache_entries(call.code)))
            failed = [
                read_failed(text, call.local_values, frame.file, frame.positions)
                for text in call.guards
                if text
            ]
            seen = {k: set(v) for k, v in frame.values.items()}
            ordered, callers = explained(failed, seen), _places(call.callers)
            why = ordered[0].text if ordered else "it had not been compiled before"
            told, name = frame.forbidden, f"torch.compiler.set_stance({call.stance!r})"
            if call.raises and not told.error:
                told.error, told.user = (
                    f"{name} lets nothing new be compiled: {why}",
                    callers[-1] if callers else None,
                )
                told.fix = self._advice(frame, self._attempt(frame, call, ordered))
            elif not call.raises:
                told.eager_calls += 1
                at = f", at {callers[-1].place}" if callers else ""
                told.eager_why = told.eager_why or f"{name} lets nothing new be compiled: {why}{at}"
            self._patch("frame", frame.index, **fields(frame))

    def _frame_of_failure(self, compile_id: str, reason: str) -> Frame | None:
        """The frame of a refused attempt: by its compile id's first part, or by who has this failure text."""
        prefix = compile_id.rpartition("/")[0] + "/"
        for known, compile in reversed(self._compiles.items()):
            if known.startswith(prefix):
                return self.frames[compile.frame]
        for code in compat.codes_with_guard_failures():
            if reason in compat.guard_failures(code):
                return self._frame(code, {}, len(compat.cache_entries(code)))
        return None

    def _read_generators(self) -> None:
        """Generator functions that were compiled as such: Dynamo refuses them with a break of which no hook tells.

        Generator expressions come to Dynamo only from a frame that was left in eager; that frame tells of the break.
        """
        for code in compat.codes_seen():
            before = self._codes_before.get(id(code), lambda: None)() is code
            if before or not _is_generator(code) or not is_program(code.co_filename):
                continue
            known = self._frames_by_code.get(id(code))
            if known is not None and known.code() is code:
                continue
            frame = self._frame(code, {}, 0)
            event = msgspec.structs.replace(generator_break(_definition(frame)), frame=frame.index)
            frame.declined = event.reason
            self._tell_break(event)
            self._patch("frame", frame.index, **fields(frame))

    def _read_skips(self) -> None:
        """Frames that Dynamo declined before it traced them: the program's own are frames, the libraries' are kept as text."""
        for text in self._take_skips():
            name, file, line, why = declined_frame(text)
            if not is_program(file):
                self.declined_elsewhere.append(text)
                continue
            if name == "<genexpr>" or any(
                (f.file, f.line) == (file, line) and not f.root for f in self.frames
            ):
                continue
            frame = self._new_frame(name, file, line)
            self._resumes(frame, name)
            frame.declined = "no tensor op to compile" if "No ops traced" in why else why
            self._emit(frame_record(frame))

    def _resumes(self, frame: Frame, name: str) -> None:
        """Links a resume function, known by its name only, to the frame of its file that it continues."""
        found = _RESUME.search(name)
        if found is None:
            return
        own = [f for f in self.frames if f.file == frame.file and f.root is None and f.own_name == found[1]]
        if own:
            self._continue(own[-1], frame)

    def _continue(self, parent: Frame, frame: Frame) -> None:
        parent.resumes += 1
        frame.root, frame.resume = parent.index, parent.resumes
        frame.name = f"{parent.name} ▸ resume#{frame.resume}"

    # ---- records ---------------------------------------------------------------------------------------------------

    def told(self) -> Told:
        """All so far, of one moment: every frame that a graph, break or recompile names by index is there."""
        with self._lock:
            return Told(
                tuple(self.graphs),
                tuple([frame_record(frame) for frame in self.frames]),
                tuple(self.breaks),
                tuple(self.recompiles),
            )


_RESUME = re.compile(r"^torch_dynamo_resume_in_(.+)_at_\d+$")


def _key(code: Any, local_values: dict[str, Any]) -> Any:
    """What tells frames apart: the code object, and in Dynamo's wrapper, through which many functions run, what it runs."""
    if code is None or not is_dynamo_wrapper(code) or "fn" not in local_values:
        return id(code)
    return (id(code), *describe(code, local_values))


def _places(callers: Sequence[tuple[str, int, str]]) -> tuple[StackFrame, ...]:
    """The lines that led to a frame, (file, line, function) each, as frames of the program."""
    return tidy([frame for where in callers if (frame := place(*where)) is not None])


def _definition(frame: Frame) -> StackFrame:
    """The line at which a frame's function begins."""
    found = place(frame.file, frame.line, frame.own_name)
    return found or StackFrame(frame.file, frame.line, frame.own_name)


def _holds(frame: Frame, caller: StackFrame) -> bool:
    """Whether a line of a stack is one of a frame's function; methods of several classes go by one name."""
    same = (frame.file, frame.own_name) == (caller.file, caller.function)
    return same and is_inside(frame.file, frame.line, caller.line)


def _is_generator(code: Any) -> bool:
    return bool(code.co_flags & inspect.CO_GENERATOR) and code.co_name != "<genexpr>"


def _files(graph: GraphRecord) -> Sequence[str]:
    """The files that the graph's nodes come from, to complete the short paths that torch keeps."""
    files = dict.fromkeys([graph.file])
    files.update(dict.fromkeys(n.source.file for n in graph.nodes if n.source is not None and n.source.file))
    return [f for f in files if f]


def _since(items: Sequence[Any], last: Any) -> list[Any]:
    """The items after ``last``; all of them when it is not among them (a reset emptied the list)."""
    found = []
    for item in reversed(items):
        if item is last:
            break
        found.append(item)
    return found[::-1]
