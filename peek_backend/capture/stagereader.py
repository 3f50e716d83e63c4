"""The later stages of one backend call as records, each linked to the one before.

``StageReader`` is told of each step by ``aot.watch_aot``, converts what it sees at once and keeps plain data alone. What it
cannot read is a Problem of that stage's record; the compile goes on, unless the one who asked raises a PeekError for it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from torch import fx

from ..errors import PeekError
from ..model import CudagraphSkip, GraphRecord, NodeRecord, Problem, Source, StageInfo, ValueInfo
from . import aotmeta
from .failures import in_short
from .graphs import Origin, read_graph
from .inductor import CompileNotes, compiled_graph, of_calls, output_code, post_grad_text
from .kernels import kernel_nodes, parse_code
from .listeners import Emit
from .moved import at_lines_of, elsewhere, frame_today
from .printed import parse_graph
from .provenance import Origin as NodeOrigin
from .provenance import Trail
from .sources import Described


class Wanted(NamedTuple):
    """Which stages are to be recorded, and who makes them (an inner backend's name)."""

    stages: frozenset[str]
    by: str

    def __contains__(self, stage: object) -> bool:
        return stage in self.stages


CALLS = itertools.count()
"""Numbers the backend calls that are read, so that records of one stand apart from those of another."""


class StageReader:
    """Reads what one backend call makes of its Dynamo graph. Its methods are those of ``aot.Watcher``; none raises on its own.

    ``flat`` has, for each input that AOTAutograd sees, the Dynamo graph's, where one of these is a list (compiled autograd's).
    """

    def __init__(
        self, dynamo: GraphRecord, code: Any, wanted: Wanted, emit: Emit, flat: Sequence[int] | None = None
    ):
        self._dynamo, self._code, self._wanted, self._emit = dynamo, code, wanted, emit
        self._flat, self._cudagraphs = flat, False
        self._trail = Trail(dynamo)
        self._sources = [n.source for n in dynamo.nodes if n.op == "placeholder"]
        self._info = StageInfo(by=wanted.by)
        self._entries: dict[str, int | None] = {}
        self._records: dict[str, GraphRecord] = {}
        self._seen: set[str] = set()
        self._call = next(CALLS)
        self.active = False
        self.aot_cached = False

    def started(self) -> None:
        """AOTAutograd was called: what follows is its own."""
        self.active = True

    def joint(self, gm: fx.GraphModule, forward_outputs: int) -> None:
        """The joint graph, and with it everything that AOTAutograd's metadata says."""
        self._guarded("joint", lambda: self._traced("joint", gm, forward_outputs))

    def _traced(self, stage: str, gm: fx.GraphModule, forward_outputs: int | None) -> None:
        meta = aotmeta.metadata()
        flat = self._flat if self._flat is not None else range(len(self._trail.inputs))
        own = aotmeta.input_ordinals(gm, len(flat), meta)
        inputs, tangents = aotmeta.mapped(own, flat), aotmeta.tangent_ordinals(gm, meta)
        gradients = () if forward_outputs is None else aotmeta.gradient_ordinals(gm, forward_outputs, own)
        self._info = StageInfo(
            by=self._wanted.by,
            forward_outputs=forward_outputs,
            inputs=inputs,
            tangents=tangents,
            gradients=aotmeta.mapped(gradients, flat),
            mutated=aotmeta.mutated_inputs(meta, flat),
            aliased=aotmeta.aliased_outputs(meta, flat),
        )
        placeholders = [n.name for n in gm.graph.nodes if n.op == "placeholder"]
        self._entries = dict(zip(placeholders, inputs, strict=True))
        self._keep(stage, gm, self._trail.traced(gm, inputs, tangents), self._info)

    def parted(self, forward: fx.GraphModule, backward: fx.GraphModule, forward_outputs: int) -> None:
        """Forward and backward; the backward is there at once, though most backends compile it when it first runs."""
        info = self._info
        entries = self._entries_of(forward)
        self._guarded(
            "forward",
            lambda: self._lowered(
                "forward", forward, msgspec.structs.replace(info, inputs=entries, gradients=(), tangents=())
            ),
        )
        entries = self._entries_of(backward)
        backward_info = StageInfo(
            by=info.by,
            compiled=None if self._beside else False,
            inputs=entries,
            tangents=info.tangents,
            gradients=info.gradients,
        )
        self._guarded("backward", lambda: self._lowered("backward", backward, backward_info))

    @property
    def _beside(self) -> bool:
        return self._wanted.by == BESIDE

    def _entries_of(self, gm: fx.GraphModule) -> tuple[int | None, ...]:
        return tuple([self._entries.get(n.name) for n in gm.graph.nodes if n.op == "placeholder"])

    def _lowered(self, stage: str, gm: fx.GraphModule, info: StageInfo) -> None:
        origins = self._trail.lowered(gm, ("joint",), "a pass on the joint graph")
        self._keep(stage, gm, origins, info)

    @contextlib.contextmanager
    def compiling(self, stage: str, gm: fx.GraphModule) -> Iterator[None]:
        """A compile of one of the graphs; an inference graph is seen here for the first time."""
        self._notes = CompileNotes(cudagraphs_wanted=self._cudagraphs)
        if stage == "inference":
            self._guarded("inference", lambda: self._traced("inference", gm, None))
        with self._notes.taking():
            # Set while the forward compiles; when a backward compiles later, Inductor sets its options again further in.
            self._cudagraphs = self._notes.cudagraphs_wanted
            yield

    def compiled(self, stage: str, gm: fx.GraphModule, result: Any) -> None:
        """The compile ended: what Inductor made of the graph, which cache answered, why there are no CUDA graphs."""
        self._guarded(stage, lambda: self._compiled(stage, gm, result))

    def _compiled(self, stage: str, gm: fx.GraphModule, result: Any) -> None:
        notes = self._notes
        caches, skips = notes.outcomes(result, self.aot_cached), notes.skips(result)
        if notes.hit:
            skips = tuple([self._today(skip) for skip in skips])
        self._update(stage, compiled=None if self._beside else True, caches=caches, cudagraphs=skips)
        if "post_grad" in self._wanted or "kernels" in self._wanted:
            self._late(stage, gm, result, notes)

    def _today(self, skip: CudagraphSkip) -> CudagraphSkip:
        """The cache keeps the line of the program that filled it."""
        user = frame_today(skip.user, self._dynamo) if skip.user is not None else None
        return msgspec.structs.replace(skip, user=user)

    def _late(self, stage: str, gm: fx.GraphModule, result: Any, notes: CompileNotes) -> None:
        """Inductor's graph after its passes, then its kernels; nothing for another compiler, or a graph without an op."""
        if compiled_graph(result) is None:
            return
        part = stage if stage != "inference" else ""
        info = StageInfo(by=self._wanted.by, compiled=True, inputs=self._entries_of(gm))
        template = template_of(self._dynamo, "post_grad", part)
        if notes.hit:
            # Inductor left it as it was.
            half = self._records.get(stage) or read_graph(gm, self._origin(stage))
            record = at_lines_of(parse_graph(post_grad_text(result) or "", template), [half])
            record = with_inputs(record, inputs_of(half)[0])
            origins = self._trail.lowered_by_name(record, (stage, "joint"), _POST_GRAD)
        else:
            record = msgspec.structs.replace(read_graph(gm, self._origin("post_grad")), part=part)
            origins = self._trail.lowered(gm, (stage, "joint"), _POST_GRAD)
        if (wanted := "post_grad" in self._wanted) is True:
            self._send(f"post_grad of {stage}", with_origins(record, origins, info))
        if "kernels" in self._wanted:
            self._trail.add_record("post_grad", record.key if wanted else None, record, origins)
            kernels = self._kernels(result, notes, record, template_of(self._dynamo, "kernels", part))
            self._send(f"kernels of {stage}", with_origins(*kernels, info))

    def _kernels(
        self, result: Any, notes: CompileNotes, post_grad: GraphRecord, template: GraphRecord
    ) -> tuple[GraphRecord, list[NodeOrigin]]:
        code = parse_code(output_code(result) or "")
        told = of_calls([call.name for call in code.calls], notes.kernels) if not notes.hit else None
        nodes = kernel_nodes(code)
        record = msgspec.structs.replace(template, nodes=nodes)
        origins = self._trail.kernels(nodes, code, post_grad, told)
        return with_inputs(record, *inputs_of(post_grad)), origins

    def _keep(self, stage: str, gm: fx.GraphModule, origins: Sequence[NodeOrigin], info: StageInfo) -> None:
        self._seen.add(stage)
        wanted = stage in self._wanted
        key = msgspec.structs.replace(self._dynamo, stage=stage).key if wanted else None
        self._trail.add(stage, key, gm, origins)
        if wanted:
            record = with_origins(read_graph(gm, self._origin(stage)), origins, info)
            record = msgspec.structs.replace(record, children=self._bodies(gm, record))
            self._send(stage, self._with_lines(record))

    def _bodies(self, gm: fx.GraphModule, record: GraphRecord) -> tuple[GraphRecord, ...]:
        """The bodies of higher-order ops, with the origins of their nodes as far as torch names them."""
        return tuple([self._body(gm, child) for child in record.children])

    def _body(self, gm: fx.GraphModule, child: GraphRecord) -> GraphRecord:
        module = getattr(gm, child.name, None)
        if not isinstance(module, fx.GraphModule) or len(module.graph.nodes) != len(child.nodes):
            return child
        pairs = zip(child.nodes, self._trail.body(module), strict=True)
        return msgspec.structs.replace(child, nodes=tuple([_with_origin(n, o) for n, o in pairs]))

    def _with_lines(self, record: GraphRecord) -> GraphRecord:
        """A node that torch gave no line has the line of a node it came from (the write-back of an in-place op)."""
        known = {r.key: r for r in (self._dynamo, *self._records.values())}
        nodes = [n if n.source or n.op != "call_function" else _with_line(n, known) for n in record.nodes]
        return msgspec.structs.replace(record, nodes=tuple(nodes))

    def _origin(self, stage: str) -> Origin:
        graph = self._dynamo
        return Origin(
            graph.compile_id, stage, graph.attempt, graph.call, graph.rank, self._code,
            described=Described(graph.name, graph.file, graph.line),
            sources=self._input_sources(), state=graph.state,
        )  # fmt: skip

    def _input_sources(self) -> dict[str, Source]:
        """A placeholder that is an input of the Dynamo graph has that one's source."""
        found = {}
        for name, entry in self._entries.items():
            if entry is not None and entry < len(self._sources) and self._sources[entry] is not None:
                found[name] = self._sources[entry]
        return found

    def _update(self, stage: str, **fields: Any) -> None:
        record = self._records.get(stage)
        if record is None or record.lowering is None:
            return
        lowering = msgspec.structs.replace(record.lowering, **fields)
        self._send(stage, msgspec.structs.replace(record, lowering=lowering))

    def _send(self, slot: str, record: GraphRecord) -> None:
        self._records[slot] = record
        self._emit(self._call, slot, record)

    @property
    def next_stage(self) -> str:
        """The stage after the last that was read."""
        return next((s for s in ("joint", "forward") if s not in self._seen), "backward")

    def _guarded(self, stage: str, read: Callable[[], None]) -> None:
        try:
            read()
        except PeekError:  # strict
            raise
        except Exception as error:  # looking never ends the user's compile
            self.failed(stage, in_short(error))

    def failed(self, stage: str, why: str, what: str = "the stage could not be read") -> None:
        """Send what is known of a stage that could not be read, or made: its name and the reason."""
        problem = Problem(f"{self._dynamo.key} {stage}", what, why)
        record = self._records.get(stage) or msgspec.structs.replace(
            template_of(self._dynamo, stage), lowering=StageInfo(by=self._wanted.by)
        )
        self._send(stage, msgspec.structs.replace(record, problems=(*record.problems, problem)))


def _with_line(node: NodeRecord, known: Mapping[str, GraphRecord]) -> NodeRecord:
    found = (known[key].nodes[i].source for key, i in node.origins if key in known)
    source = next((s for s in found if s is not None and s.line), None)
    return node if source is None else msgspec.structs.replace(node, source=elsewhere(source))


INDUCTOR = "inductor"
_POST_GRAD = "a post-grad pass of Inductor"
BESIDE = "as AOTAutograd would"


def template_of(dynamo: GraphRecord, stage: str, part: str = "") -> GraphRecord:
    """An empty record of a later stage of the same backend call."""
    return GraphRecord(
        dynamo.compile_id, stage, (), (), name=dynamo.name, file=dynamo.file, line=dynamo.line, rank=dynamo.rank,
        attempt=dynamo.attempt, call=dynamo.call, state=dynamo.state, part=part,
    )  # fmt: skip


def inputs_of(record: GraphRecord) -> tuple[dict[str, Source], dict[str, ValueInfo]]:
    """Sources and values of a graph's placeholders, by name."""
    nodes = [n for n in record.nodes if n.op == "placeholder"]
    return {n.name: elsewhere(n.source) for n in nodes if n.source}, {
        n.name: n.value for n in nodes if n.value
    }


def with_inputs(
    record: GraphRecord, sources: Mapping[str, Source], values: Mapping[str, ValueInfo] | None = None
) -> GraphRecord:
    """A graph that came as text, with the program's names for its inputs, and their types where the text has none."""
    values = values or {}
    nodes = [
        n
        if n.op != "placeholder"
        else msgspec.structs.replace(
            n, source=n.source or sources.get(n.name), value=n.value or values.get(n.name)
        )
        for n in record.nodes
    ]
    return msgspec.structs.replace(record, nodes=tuple(nodes))


def with_origins(
    record: GraphRecord, origins: Sequence[NodeOrigin], lowering: StageInfo, notes: Sequence[str] = ()
) -> GraphRecord:
    """The record with the origins of its nodes and what is known of its making."""
    nodes = tuple([_with_origin(n, o) for n, o in zip(record.nodes, origins, strict=True)])
    return msgspec.structs.replace(record, nodes=nodes, lowering=lowering, notes=(*record.notes, *notes))


def _with_origin(node: NodeRecord, origin: NodeOrigin) -> NodeRecord:
    if not origin.places and origin.reason is None:
        return node
    return msgspec.structs.replace(node, origins=origin.places, no_origin=origin.reason)
