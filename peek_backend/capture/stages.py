"""Around one backend call: who wants its later stages, who reads them, and where the records go."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from torch import fx

from ..errors import PeekError
from ..model import GraphRecord
from . import compat
from .aot import watch_aot
from .beside import copied, flat_ordinals, trace_beside
from .failures import in_short
from .inductor import live_graphs
from .listeners import Emit, to_all
from .stagelog import LogReader, reading_log
from .stagereader import BESIDE, INDUCTOR, StageReader, Wanted


class Request(NamedTuple):
    """What is asked of the stages of a backend call. ``emit`` gets their records, beside all that listen."""

    wanted: Wanted
    source: str = "live"
    decompositions: dict[Any, Callable[..., Any]] | None = None
    emit: Emit | None = None


_NOW = threading.local()


@contextlib.contextmanager
def reading_stages(
    gm: fx.GraphModule, example_inputs: Sequence[Any], dynamo: GraphRecord, code: Any, request: Request
) -> Iterator[None]:
    """Record the stages of one backend call: those that the inner backend goes through inside the block, if it is built on
    AOTAutograd; otherwise, after it, those that AOTAutograd would make. The block's own exceptions pass unchanged.

    Inside another one (a session around the peek backend) this one reads for both.
    """
    outer: _Reading | None = getattr(_NOW, "reading", None)
    if outer is not None:
        outer.taken_over = True
        wanted = request.wanted._replace(stages=request.wanted.stages | outer.stages)
        request = request._replace(wanted=wanted)
    _NOW.reading = reading = _Reading(request.wanted.stages)
    inputs = tuple(example_inputs)  # some backends empty the list
    flat = flat_ordinals(inputs)
    try:
        with _reading(gm, dynamo, code, request, flat) as (reader, spare):
            yield
    finally:
        _NOW.reading = outer
    if request.wanted.by != INDUCTOR and not reader.active and not reading.taken_over:
        wanted = request.wanted._replace(by=BESIDE)
        beside = StageReader(dynamo, code, wanted, to_all(request.emit), flat)
        if spare is None:
            beside.failed("joint", "the graph could not be copied for AOTAutograd")
        else:
            _beside(spare, inputs, beside, request.decompositions)


def requested(
    gm: fx.GraphModule, example_inputs: Sequence[Any], dynamo: GraphRecord, request: Request
) -> contextlib.AbstractContextManager[None]:
    """``reading_stages`` for the backend call that is running in this thread."""
    return reading_stages(
        gm, example_inputs, dynamo, compat.root_code(compat.current_output_graph()), request
    )


class _Reading:
    """One backend call under way in a thread; ``taken_over`` when a nested one reads for it."""

    def __init__(self, stages: frozenset[str]):
        self.stages, self.taken_over = stages, False


@contextlib.contextmanager
def _reading(
    gm: fx.GraphModule, dynamo: GraphRecord, code: Any, request: Request, flat: Sequence[int] | None
) -> Iterator[tuple[StageReader | LogReader, fx.GraphModule | None]]:
    """The reader of what the inner backend does, and a copy of the graph for the case that it is not built on AOTAutograd."""
    if request.source == "log":
        spare = None if request.wanted.by == INDUCTOR else copy_or_none(gm)
        with reading_log(dynamo, request.wanted, to_all(request.emit), flat) as log:
            yield log, spare
        return
    reader = StageReader(dynamo, code, request.wanted, to_all(request.emit), flat)
    spare = None if request.wanted.by == INDUCTOR else copy_or_none(gm)
    with live_graphs() as cached, watch_aot(reader):
        reader.aot_cached = cached
        yield reader, spare


def copy_or_none(gm: fx.GraphModule) -> fx.GraphModule | None:
    """A copy of the graph to trace later; None where it cannot be copied, which then is not traced."""
    try:
        return copied(gm)
    except Exception:
        return None


def _beside(
    gm: fx.GraphModule, example_inputs: Sequence[Any], reader: StageReader, decompositions: Any
) -> None:
    """What AOTAutograd raises of a graph is no failure of the program, which another backend runs: a Problem tells it."""
    try:
        trace_beside(gm, example_inputs, reader, decompositions=decompositions)
    except PeekError:  # strict
        raise
    except Exception as error:
        reader.failed(reader.next_stage, in_short(error, 400), "AOTAutograd cannot make this stage")
