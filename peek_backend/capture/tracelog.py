"""torch's structured trace as a second witness: opt-in, since torch prints every graph for it (4 to 5 % of the compile).

The trace is what TORCH_TRACE writes; a handler on its logger sees the same without a file. It says a few things that no
other hook does: why a symbol was made static, down to the op of torch that asked, and on torch 2.8 which frames were skipped.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from ..model import Fact, GraphRecord, StackFrame, SymbolInfo
from . import compat
from .sources import parse_stack

LOGGER = "torch.__trace"

_BREAK = re.compile(r"Graph Break Reason: (.*?)\nUser code traceback:\n(.*)", re.DOTALL)


def fact_sources(*, trace: bool = False, skips: bool = False) -> dict[str, str]:
    """Which part of torch each kind of fact is read from, for the environment record.

    ``trace`` where the trace was asked for, ``skips`` where this torch tells of skipped frames nowhere else.
    """
    sources = {
        "graphs": "OutputGraph._call_user_compiler",
        "frames": "callback_handler, register_bytecode_hook, dynamo_tls.skip_reasons",
        "breaks": "torch._dynamo.utils.graph_break_reasons; the exception for frames that were skipped",
        "recompiles": "torch._dynamo.utils.guard_failures; the compilation metrics for refused ones",
        "guards": "TracingContext.guards_context.dynamo_guards",
        "symbols": "ShapeEnv",
        "times": "torch._dynamo.utils.get_compilation_metrics",
        "earlier": "cache entries",
    }
    return (
        sources
        | ({"specialisations": LOGGER} if trace else {})
        | ({"skipped frames": LOGGER} if skips else {})
    )


class TraceHandler(logging.Handler):
    """A handler of peek's own on the trace's logger."""


def listen_to_trace(handler: TraceHandler) -> Callable[[], None]:
    """Put a handler on the trace's logger; the function that is returned takes it off.

    A handler is all that it takes to have AOTAutograd print its metadata, tensors included, and the ``repr`` of a fake subclass
    can raise, which ends the compile. Nobody here reads that artifact: it is printed for handlers of others only.
    """
    logger = logging.getLogger(LOGGER)
    stop = compat.metadata_unprinted(lambda: all(isinstance(h, TraceHandler) for h in logger.handlers))
    logger.addHandler(handler)

    def close() -> None:
        logger.removeHandler(handler)
        stop()

    return close


class TraceLog:
    """Keeps what the trace says, by compile id: symbols that were made static, and the last break of each compile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._facts: dict[tuple[str | None, str], Fact] = {}
        self._breaks: dict[str | None, str] = {}

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """A handler on the trace's logger for as long as the block runs. The logger prints nothing of its own."""
        logger = logging.getLogger(LOGGER)
        before = logger.propagate
        logger.propagate = (
            False  # torch keeps it so, but sets it late; the program's own handlers must see nothing of it
        )
        close = listen_to_trace(_Handler(self))
        try:
            yield
        finally:
            close()
            logger.propagate = before

    def take(self, record: Any) -> None:
        """One line of the trace."""
        metadata = getattr(record, "metadata", None) or {}
        if (metadata.get("artifact") or {}).get("name") == "dynamo_graph_break_reason":
            with self._lock:
                self._breaks[compile_id_of(metadata)] = str(getattr(record, "payload", ""))
        found = metadata.get("symbolic_shape_specialization")
        if not found:
            return
        stack = [f for f in (found.get("user_stack") or ()) if f]
        fact = Fact(
            "specialised", f"{found['symbol']} == {found['value']}: {found['reason']}", _innermost(stack)
        )
        with self._lock:
            self._facts[compile_id_of(metadata), str(found["symbol"])] = fact

    def break_of(self, compile_id: str) -> tuple[str, tuple[StackFrame, ...]] | None:
        """The last break that the trace told of a compile, once: Dynamo's message and the user's stack."""
        with self._lock:
            text = self._breaks.pop(compile_id, None)
        found = _BREAK.search(text or "")
        return (found[1], parse_stack(found[2].partition("\nTraceback ")[0])) if found else None

    def added_to(self, graphs: Sequence[GraphRecord]) -> tuple[GraphRecord, ...]:
        """The graphs with what the trace knows of their symbols."""
        return tuple([self._graph(graph) for graph in graphs])

    def _graph(self, graph: GraphRecord) -> GraphRecord:
        symbols = tuple([self._symbol(s, graph.compile_id or "") for s in graph.symbols])
        return graph if symbols == graph.symbols else msgspec.structs.replace(graph, symbols=symbols)

    def _symbol(self, symbol: SymbolInfo, compile_id: str) -> SymbolInfo:
        """With the trace's fact where there is none yet: of one that is known, the trace may still have the line.

        Its own words are torch's for how it came about (``range_refined_to_singleton``), those of the shape environment name the
        op that asked.
        """
        told = self._facts.get((compile_id, symbol.name))
        if told is None:
            return symbol
        own = next((f for f in symbol.facts if f.kind == "specialised"), None)
        fact = told if own is None else msgspec.structs.replace(own, user=own.user or told.user)
        return msgspec.structs.replace(symbol, facts=(fact, *[f for f in symbol.facts if f is not own]))


def compile_id_of(metadata: dict[str, Any]) -> str | None:
    """The compile that a line of the trace tells of, as torch writes its id; None for a line outside of any."""
    frame, compile = metadata.get("frame_id"), metadata.get("frame_compile_id")
    if frame is None:
        return None
    autograd = metadata.get("compiled_autograd_id")
    return f"{frame}/{compile}" if autograd is None else f"!{autograd}/{frame}/{compile}"


def _innermost(stack: list[dict[str, Any]]) -> StackFrame | None:
    """The last frame of an interned stack: ``{"line", "name", "filename", "loc"}``, the file name as a number."""
    if not stack:
        return None
    from torch._logging.structured import INTERN_TABLE

    names = {number: name for name, number in INTERN_TABLE.items()}
    last = stack[-1]
    file = names.get(last.get("filename"), str(last.get("filename", "")))
    return StackFrame(file, int(last.get("line", 0)), str(last.get("name", "")), str(last.get("loc") or ""))


class _Handler(TraceHandler):
    """Hands each line on; a mistake in reading one is nothing that logging should print."""

    def __init__(self, log: TraceLog):
        super().__init__(logging.DEBUG)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):
            self._log.take(record)
