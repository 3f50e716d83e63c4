"""The later stages as torch's trace log tells them: graphs as text, on warm caches too, without changing what is compiled.

The log is what TORCH_TRACE writes; a handler on its logger sees the same without a file. A graph that comes from AOTAutograd's
cache is told as one that was traced. Nodes are linked by their names, and to the Dynamo graph by their lines. What no text says
of inputs and outputs is read from AOTAutograd's metadata while it tells of the graph.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from ..model import CacheOutcome, GraphRecord, Problem, Source, StageInfo
from ..model.graph import results_of
from . import aotmeta
from .failures import in_short
from .inductor import AOT_AUTOGRAD, FX_GRAPH, asks_fx_cache
from .kernels import kernel_nodes, parse_code
from .listeners import Emit
from .moved import at_lines_of, at_todays_lines
from .printed import Descriptors, descriptors, parse_graph
from .provenance import Trail
from .stagereader import CALLS, Wanted, inputs_of, template_of, with_inputs, with_origins
from .tracelog import TraceHandler, compile_id_of, listen_to_trace

_GRAPHS = {
    "aot_joint_graph": "joint",
    "aot_forward_graph": "forward",
    "aot_backward_graph": "backward",
    "aot_inference_graph": "inference",
}
_OPEN: list[_Handler] = []
_LOCK = threading.Lock()


@contextlib.contextmanager
def reading_log(
    dynamo: GraphRecord, wanted: Wanted, emit: Emit, flat: Sequence[int] | None = None
) -> Iterator[LogReader]:
    """Read what the log says of the backend call inside the block, and of its backward when that compiles later.

    ``flat`` as of a StageReader.
    """
    reader = LogReader(dynamo, wanted, emit, flat)
    handler = _Handler(reader)
    with _LOCK:
        _OPEN.append(handler)
        handler.close_log = listen_to_trace(handler)
    try:
        yield reader
    finally:
        handler.calling = False
        if reader.done or not reader.by_inductor:
            handler.close_down()


def close_logs() -> None:
    """Stop waiting for backwards that have not compiled; ``torch._dynamo.reset()`` ends them."""
    for handler in tuple(_OPEN):
        handler.close_down()


class LogReader:
    """Turns the texts of one backend call into records, each linked to the stage before."""

    def __init__(self, dynamo: GraphRecord, wanted: Wanted, emit: Emit, flat: Sequence[int] | None = None):
        self._dynamo, self._wanted, self._emit = dynamo, wanted, emit
        self._trail = Trail(dynamo)
        self._info = StageInfo(by=wanted.by)
        self._entries = [n for n in dynamo.nodes if n.op == "placeholder"]
        self._flat = tuple(flat if flat is not None else range(len(self._entries)))
        self._inputs: dict[str, Source] = {}
        self._tangents: tuple[int | None, ...] = ()
        self._records: dict[str, GraphRecord] = {}
        self._read: dict[str, GraphRecord] = {}  # all of them, those that nobody wants too
        self._texts: dict[str, str] = {}
        self._aot_cache: CacheOutcome | None = None
        self._part = ""
        self._call = next(CALLS)
        self.by_inductor = False
        self.seen: set[str] = set()
        self._ended: set[str] = set()

    @property
    def done(self) -> bool:
        """Whether nothing more is to come: every graph that was told has been compiled."""
        return not {"forward", "backward", "inference"} & self.seen - self._ended

    @property
    def active(self) -> bool:
        """Whether the log told of AOTAutograd at all."""
        return bool(self.seen)

    def take(self, name: str, payload: str) -> None:
        """One artifact of the log: its name and its text. What cannot be read is a Problem of its stage."""
        try:
            self._take(name, payload)
        except Exception as error:
            stage = _GRAPHS.get(name, "post_grad")
            problem = Problem(
                f"{self._dynamo.key} {stage}", f"the text of {name} could not be read", in_short(error)
            )
            record = template_of(self._dynamo, stage)
            self._send(stage, msgspec.structs.replace(record, problems=(problem,), lowering=self._info))

    def _take(self, name: str, payload: str) -> None:
        if name in _GRAPHS:
            self._graph(_GRAPHS[name], payload)
        elif name in ("inductor_post_grad_graph", "inductor_output_code"):
            self._late(name, payload)
        elif name.startswith(("fx_graph_cache_", "aotautograd_cache_", "autograd_cache_")):
            self._outcome(name, payload)

    def _graph(self, stage: str, text: str) -> None:
        self.seen.add(stage)
        told = descriptors(text)
        record = self._with_inputs(self._parsed(text, template_of(self._dynamo, stage), ("joint",)), told)
        self._read[stage] = record
        if stage in ("joint", "inference"):
            self._read_metadata(record, told)
            origins = self._trail.traced_by_line(record, self._inputs_of(record, told), self._tangents)
        else:
            origins = self._trail.lowered_by_name(record, ("joint",), "a pass on the joint graph")
        wanted = stage in self._wanted
        self._trail.add_record(stage, record.key if wanted else None, record, origins)
        if wanted:
            info = self._with_ordinals(record, told)
            self._send(stage, with_origins(record, origins, self._with_counts(stage, record, info)))

    def _read_metadata(self, record: GraphRecord, told: Descriptors) -> None:
        """What AOTAutograd's metadata, at hand while it tells of a graph, says of writes and aliases; of tangents what they are
        for, where the text has no descriptors."""
        meta = aotmeta.metadata()
        mutated, aliased = aotmeta.mutated_inputs(meta, self._flat), aotmeta.aliased_outputs(meta, self._flat)
        self._info = msgspec.structs.replace(self._info, mutated=mutated, aliased=aliased)
        names = [n.name for n in record.nodes if n.op == "placeholder" and "tangents" in n.name]
        if told.tangents:
            self._tangents = tuple([told.tangents.get(name) for name in names])
        else:
            self._tangents = aotmeta.in_order_of_outputs(len(names), meta)

    def _parsed(self, text: str, template: GraphRecord, before: Sequence[str]) -> GraphRecord:
        """A graph's text, with the lines of today's program: AOTAutograd's own cache, too, has the text of another."""
        record = parse_graph(text, template)
        earlier = [self._read[stage] for stage in before if stage in self._read]
        return at_lines_of(record, earlier) if earlier else at_todays_lines(record, self._dynamo)

    def _with_inputs(self, record: GraphRecord, told: Descriptors) -> GraphRecord:
        """Inputs get the names that the program has for them, saved values the lines of the forward's nodes."""
        for name, ordinal in self._ordinals(record, told).items():
            if (source := self._entries[ordinal].source) is not None:
                self._inputs[name] = source
        forward = self._read.get("forward")
        lines = {n.name: n.source for n in forward.nodes if n.source} if forward else {}
        return with_inputs(record, {**lines, **self._inputs})

    def _ordinals(self, record: GraphRecord, told: Descriptors) -> dict[str, int]:
        """Which of Dynamo's inputs each placeholder is: by its descriptor; without any, by the order where there are as many."""
        order = told.inputs
        if not order and record.stage != "backward":
            own = [n.name for n in record.nodes if n.op == "placeholder" and "tangents" not in n.name]
            order = {name: i for i, name in enumerate(own)} if len(own) == len(self._flat) else {}
        return {name: self._flat[i] for name, i in order.items() if i < len(self._flat)}

    def _inputs_of(self, record: GraphRecord, told: Descriptors) -> tuple[int | None, ...]:
        ordinals = self._ordinals(record, told)
        return tuple([ordinals.get(n.name) for n in record.nodes if n.op == "placeholder"])

    def _with_ordinals(self, record: GraphRecord, told: Descriptors) -> StageInfo:
        """What is known of a graph: which output each tangent belongs to and which input each gradient, as far as it is told."""
        inputs = self._inputs_of(record, told)
        if record.stage == "backward":
            gradients = self._gradients(record, told)
            return StageInfo(self._info.by, False, None, inputs, self._tangents, gradients)
        tangents = self._tangents if record.stage == "joint" else ()
        return msgspec.structs.replace(self._info, inputs=inputs, tangents=tangents)

    def _gradients(self, backward: GraphRecord, told: Descriptors) -> tuple[int | None, ...]:
        """Each output's input: by descriptors, a None that has none by its place; without any, by the order of inputs."""
        count = len(results_of(backward))
        found = told.gradients if len(told.gradients) == count else (None,) * count
        if count == len(self._flat) and all(i in (None, at) for at, i in enumerate(found)):
            return self._flat
        return tuple([self._flat[i] if i is not None and i < len(self._flat) else None for i in found])

    def _with_counts(self, stage: str, record: GraphRecord, info: StageInfo) -> StageInfo:
        """Which outputs of a forward are saved: those after the ones that the backward's inputs do not name."""
        if stage != "backward" or (forward := self._records.get("forward")) is None:
            return info
        count = _forward_outputs(forward, record)
        if forward.lowering is not None:
            lowering = msgspec.structs.replace(forward.lowering, forward_outputs=count)
            self._send("forward", msgspec.structs.replace(forward, lowering=lowering))
        return info

    def _late(self, name: str, text: str) -> None:
        """A post-grad graph, then the code made from it, which names the half that both belong to."""
        if name == "inductor_post_grad_graph":
            self._texts[name] = text
            return
        self.by_inductor = True
        part = next(
            (p for p in ("forward", "backward", "inference") if f"_{p}']" in text.partition("\n")[0]), ""
        )
        self._part = part or "inference"
        if not asks_fx_cache():
            self._ended.add(self._part)
        post_grad = self._texts.pop("inductor_post_grad_graph", "")
        shown = part if part != "inference" else ""
        if not post_grad or not {"post_grad", "kernels"} & self._wanted.stages:
            return
        before = (self._part, "joint")
        record = self._parsed(post_grad, template_of(self._dynamo, "post_grad", shown), before)
        half = self._read.get(self._part)
        record = with_inputs(record, inputs_of(half)[0] if half else self._inputs)
        origins = self._trail.lowered_by_name(record, before, "a post-grad pass of Inductor")
        wanted = "post_grad" in self._wanted
        self._trail.add_record("post_grad", record.key if wanted else None, record, origins)
        info = StageInfo(by=self._wanted.by, compiled=True)
        if wanted:
            self._send(f"post_grad of {part}", with_origins(record, origins, info))
        if "kernels" in self._wanted:
            self._kernels(text, record, shown, info)

    def _kernels(self, text: str, post_grad: GraphRecord, part: str, info: StageInfo) -> None:
        code = parse_code(text)
        nodes = kernel_nodes(code)
        origins = self._trail.kernels(nodes, code, post_grad, None)
        record = msgspec.structs.replace(template_of(self._dynamo, "kernels", part), nodes=nodes)
        record = with_inputs(record, *inputs_of(post_grad))
        self._send(f"kernels of {part}", with_origins(record, origins, info))

    def _outcome(self, name: str, payload: str) -> None:
        cache, _, outcome = name.rpartition("_")
        if outcome not in ("hit", "miss", "bypass"):
            return
        details = _json(payload)
        reason = str(details.get("cache_bypass_reason") or "")
        kind = FX_GRAPH if cache.startswith("fx") else AOT_AUTOGRAD
        found = CacheOutcome(kind, outcome, str(details.get("key") or details.get("cache_key") or ""), reason)
        if kind == AOT_AUTOGRAD:  # told before or after the graphs, by what it was
            self._aot_cache = found
            for stage in ("forward", "inference"):
                self._add_outcome(stage, found)
        else:
            self._ended.add(self._part)
            self._add_outcome(self._part, found)
            if self._aot_cache is not None:
                self._add_outcome(self._part, self._aot_cache)

    def _add_outcome(self, stage: str, outcome: CacheOutcome) -> None:
        record = self._records.get(stage)
        if record is None or record.lowering is None:
            return
        info = record.lowering
        caches = (*[c for c in info.caches if c.cache != outcome.cache], outcome)
        info = msgspec.structs.replace(info, caches=caches, compiled=True)
        self._send(stage, msgspec.structs.replace(record, lowering=info))

    def _send(self, slot: str, record: GraphRecord) -> None:
        self._records[slot] = record
        self._emit(self._call, slot, record)


def _forward_outputs(forward: GraphRecord, backward: GraphRecord) -> int:
    """How many outputs of the forward come before those that it saves: as many at its end as the backward has other inputs."""
    saved = [n for n in backward.nodes if n.op == "placeholder" and "tangents" not in n.name]
    return max(0, len(results_of(forward)) - len(saved))


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class _Handler(TraceHandler):
    """Hands on what the log says of one compile; a mistake in reading it reaches nobody's program."""

    def __init__(self, reader: LogReader):
        super().__init__(logging.DEBUG)
        self.reader, self.calling = reader, True
        self.close_log: Callable[[], None] = lambda: None
        self._thread = threading.get_ident()
        self._compile = reader._dynamo.compile_id

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):
            self._take(record)

    def _take(self, record: Any) -> None:
        metadata = record.metadata
        name = str((metadata.get("artifact") or {}).get("name") or next(iter(_known(metadata)), ""))
        mine = self.calling and record.thread == self._thread
        if not name or not (mine or (not self.calling and compile_id_of(metadata) == self._compile)):
            return
        payload = getattr(record, "payload", None)
        self.reader.take(name, payload if isinstance(payload, str) else "")
        if not self.calling and self.reader.done:
            self.close_down()

    def close_down(self) -> None:
        with _LOCK:
            if self in _OPEN:
                _OPEN.remove(self)
                self.close_log()


def _known(metadata: dict[str, Any]) -> Iterator[str]:
    return (
        name for name in (*_GRAPHS, "inductor_post_grad_graph", "inductor_output_code") if name in metadata
    )
