"""Hints of a dry run: what a value read from data is to be taken for, by the line that reads it or the symbol it becomes.

A number (``item()``, ``if t:``, ``layers[t]``) is then a constant of the graph. A size (``nonzero``, ``unique``) stays a symbol,
of which torch decides guards by the hint: the mechanism of its real-tensor propagation, which never needs the tensor itself.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import re
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import torch
from torch import fx
from torch._guards import TracingContext
from torch._subclasses.fake_impls import op_implementations_dict
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ..errors import PeekError
from ..model import CaptureRecord, GraphRecord
from . import compat
from .sources import PEEK_FOLDER
from .within import held, replaced

Values = Sequence[int | float | bool]

_READS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default)
_MAKERS = ("create_unbacked_symint", "create_unbacked_symfloat", "create_unbacked_symbool")
_NOW: contextvars.ContextVar[Hints | None] = contextvars.ContextVar("hints", default=None)


class Read(NamedTuple):
    """A value that the program reads from data: ``file:line`` of the innermost frames, and the symbol it became, if one;
    ``choice`` where it is true or false."""

    places: tuple[str, ...]
    symbol: str = ""
    choice: bool = False

    @property
    def place(self) -> str:
        """The line that a person would name: the innermost one outside torch."""
        return next((p for p in self.places if not p.startswith(compat.torch_folder())), self.places[0])


class Hints:
    """The hints of one dry run, and what it read from data. Several values of one hint are taken in turn, anew in
    each compile."""

    def __init__(self, given: Mapping[str, Any]):
        self._given = {name: _values(name, value) for name, value in given.items()}
        self._turns: Counter[Any] = Counter()
        self._used: set[str] = set()
        self._sizes: dict[tuple[str | None, str], int | float] = {}
        self._unhinted: list[Read] = []

    def __bool__(self) -> bool:
        return bool(self._given)

    def number(self, *, choice: bool) -> int | float | bool | None:
        """The hint for a number, or a ``choice``, that is read now; None without one."""
        return self._value(Read(_places(), choice=choice))

    def symbol(self, env: ShapeEnv, made: Any) -> None:
        """Have torch take the hint for a size that has just become a symbol (a bool is a symbol that equals 1)."""
        symbol = next(iter(made.node._expr.free_symbols))
        value = self._value(Read(_places(), str(symbol), isinstance(made, torch.SymBool)))
        if value is not None:
            value = int(value) if isinstance(value, bool) or not isinstance(made, torch.SymFloat) else value
            compat.set_unbacked_hint(env, symbol, value)
            self._sizes[compat.compile_id(), str(symbol)] = value

    def _value(self, read: Read) -> int | float | bool | None:
        name = next((n for n in self._given if n == read.symbol), None)
        name = name or next((n for p in read.places for n in self._given if _is_at(n, p)), None)
        if name is None:
            if read.places:
                self._unhinted.append(read)
            return None
        self._used.add(name)
        turn = (name, compat.compile_id(), compat.attempt())
        values = self._given[name]
        self._turns[turn] += 1
        return values[(self._turns[turn] - 1) % len(values)]

    def place_of(self, text: str) -> str:
        """Where the last symbol without a hint that ``text`` names was made; empty where it names none."""
        names = set(text.replace("(", " ").replace(")", " ").replace(",", " ").split())
        return next((r.place for r in reversed(self._unhinted) if r.symbol in names), "")

    def is_choice(self, place: str) -> bool:
        """Whether what ``place`` read last, without a hint, is true or false."""
        return next((r.choice for r in reversed(self._unhinted) if r.place == place), False)

    def check_used(self, record: CaptureRecord) -> None:
        """PeekError, with the record on it, for hints whose line or symbol reads nothing from data, naming those that do."""
        unused = [name for name in self._given if name not in self._used]
        if not unused:
            return
        read = dict.fromkeys(f"{_short(r.place)}" + f" ({r.symbol})" * bool(r.symbol) for r in self._unhinted)
        others = [*(f"{n} (has its hint)" for n in self._given if n in self._used), *list(read)[:_MOST]]
        why = (
            f"what is read from data: {', '.join(others)}"
            if others
            else "the program reads nothing from data"
        )
        error = PeekError(
            f"no value is read from data at {', '.join(unused)}",
            why,
            "name one of those lines or symbols, or leave the hint out",
        )
        error.peek_record = record  # type: ignore[attr-defined]
        raise error

    def told(self, record: CaptureRecord) -> CaptureRecord:
        """The record with the hints that were taken: as assumptions, and as the values of their symbols."""
        taken = {name: _text(values) for name, values in self._given.items() if name in self._used}
        if not taken or record.dryrun is None:
            return record
        about = msgspec.structs.replace(record.dryrun, assumed=taken)
        return msgspec.structs.replace(record, dryrun=about, graphs=tuple(map(self._hinted, record.graphs)))

    def _hinted(self, graph: GraphRecord) -> GraphRecord:
        symbols = [
            msgspec.structs.replace(s, hint=self._sizes.get((graph.compile_id, s.name), s.hint))
            for s in graph.symbols
        ]
        return msgspec.structs.replace(graph, symbols=tuple(symbols))


_MOST = 8


def _text(values: Values) -> str:
    shown = [str(v) for v in values]
    return ", ".join(shown if len(shown) <= _MOST else [*shown[:3], "…", shown[-1]])


def _values(name: str, value: Any) -> Values:
    values = (
        [value]
        if isinstance(value, (int, float))
        else list(value)
        if isinstance(value, (range, list, tuple))
        else []
    )
    if not values or not all(isinstance(v, (int, float)) for v in values):
        raise PeekError(
            f"{name}={value!r} is no hint",
            "a hint is a number, or several that are taken in turn",
            'write hints={"model.py:120": 8}, or [0, 1, 2] for a line that reads one after the other',
        )
    if ":" in name and not name.rpartition(":")[2].isdecimal():
        raise PeekError(f"{name!r} names no line", "", 'write "model.py:120", or a symbol: "u0"')
    return values


def _is_at(name: str, place: str) -> bool:
    """Whether ``model.py:120`` (or more of the path) is a place that ends so, at a folder."""
    return place == name or place.endswith((f"/{name}", f"{os.sep}{name}"))


def _short(place: str) -> str:
    return os.path.basename(place)


def _places() -> tuple[str, ...]:
    """``file:line`` of the program's frames, innermost first: those that Dynamo traces, else those that run, a captured
    graph's as what its node came from."""
    if traced := TracingContext.extract_stack():
        return tuple([f"{f.filename}:{f.lineno}" for f in reversed(traced)])
    if stack := fx.traceback.get_current_meta().get("stack_trace"):  # AOTAutograd interprets the graph
        return tuple(_lines(stack))
    found: list[str] = []
    for frame, line in traceback.walk_stack(None):
        file = frame.f_code.co_filename
        if not file.startswith(("<eval_with_key>", PEEK_FOLDER)):
            found.append(f"{file}:{line}")
        elif isinstance(gm := frame.f_locals.get("self"), fx.GraphModule):
            found += _node_places(gm, line)
    return tuple(found)


def _node_places(gm: fx.GraphModule, line: int) -> list[str]:
    """The same for the node whose code stands on this line of a graph module's generated ``forward``."""
    start = getattr(gm, "_prologue_start", 0)  # 2.13; before, lines are counted from the first one
    index = (gm._lineno_map or {}).get(line - start)
    nodes = list(gm.graph.nodes)
    stack = nodes[index].stack_trace if index is not None and index < len(nodes) else None
    return _lines(stack or "")


def _lines(stack: str) -> list[str]:
    """``file:line`` of a node's stack trace, innermost first."""
    return [f"{file}:{number}" for file, number in reversed(_LINE.findall(stack))]


_LINE = re.compile(r'File "([^"]+)", line (\d+)')


@contextlib.contextmanager
def hinted(hints: Hints) -> Iterator[None]:
    """Within, in this thread, what is read from data has the values of ``hints`` where there are some."""
    log = logging.getLogger(ShapeEnv.__module__)
    real = {op: op_implementations_dict[op] for op in _READS if op in op_implementations_dict}
    makers = {name: _symbol_by(getattr(ShapeEnv, name)) for name in _MAKERS}
    with held(_NOW, hints), replaced(ShapeEnv, **makers):
        try:
            op_implementations_dict.update({op: _number_or(call) for op, call in real.items()})
            log.addFilter(_unsaid)
            yield
        finally:
            log.removeFilter(_unsaid)
            op_implementations_dict.update(real)


def unhinted() -> contextlib.AbstractContextManager[None]:
    """Within, nothing that is read counts as read by the program: an op is run again for its price."""
    return held(_NOW, None)


def _number_or(real: Any) -> Any:
    def read(mode: Any, func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        hints = _NOW.get()
        symbolic = (
            compat.version() < (2, 13) and TracingContext.extract_stack()
        )  # Dynamo takes no constant of ``item()``
        asked = hints is not None and not symbolic
        number = hints.number(choice=tensor.dtype == torch.bool) if asked else None
        return number if number is not None else real(mode, func, tensor, *args, **kwargs)

    return read


def _symbol_by(real: Any) -> Any:
    def create(self: ShapeEnv, *args: Any, **kwargs: Any) -> Any:
        made = real(self, *args, **kwargs)
        hints = _NOW.get()
        if hints is not None:
            hints.symbol(self, made)
        return made

    return create


def _unsaid(record: logging.LogRecord) -> bool:
    """Drops torch's warning for each guard that a hint decides: the result tells of the hints."""
    return not str(record.msg).startswith("propagate_real_tensors")
