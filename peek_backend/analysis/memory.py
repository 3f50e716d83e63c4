"""Memory over time: which storages live at each step of a graph, or of a training step, and what is alive at the peak.

Comes in: a record whose nodes have costs. Goes out: a Timeline. A storage is born with the node that first holds it and dies
after the last node that reads a tensor of it, as in the code that torch.fx writes and in the boxed calls of AOTAutograd's
backends. Parameters, buffers, gradients, optimizer state and the call's inputs and outputs stay to the end. Sizes are bytes
asked for; an allocator's rounding and caching come on top.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from ..errors import unknown_name
from ..model import CaptureRecord, Dim, GraphRecord, NodeRecord, ValueInfo, iter_stored
from ..model.graph import results_of
from .autograd import sibling
from .cost import Sizes, costed, folding_of, held_of
from .folding import Folding
from .totals import users

KINDS = (
    "parameters",
    "buffers",
    "optimizer state",
    "gradients",
    "gradients of outputs",
    "inputs",
    "outputs",
    "saved activations",
    "temporaries",
    "scratch",
)
"""What memory is for. ``gradients of outputs`` is what a backward starts from (its tangents), ``saved activations`` are kept by
a forward for its backward, ``scratch`` is gone when its op returns."""

STATE_COPIES = {"adamw": 2, "adam": 2, "momentum": 1, "sgd": 0, "none": 0}
"""How many tensors of a parameter's size and dtype each optimizer keeps: Adam's two moments, SGD's momentum (torch.optim)."""


class Block(Struct, frozen=True, gc=False):
    """A piece of memory: alive from step ``born`` through step ``last``. ``node`` of graph ``graph`` made it; both are None
    for what is there from the start."""

    kind: str
    nbytes: int
    born: int
    last: int
    graph: int | None = None
    node: int | None = None


class Step(Struct, frozen=True, gc=False):
    """One op of a pass: bytes alive while it runs (its results and scratch with it) and after it, when what is not read again
    is gone."""

    graph: int
    node: int
    during: int
    after: int


class Alive(Struct, frozen=True):
    """What is alive at the peak, added up by kind, module (alike siblings as ``*``) and the user's line. ``blocks`` counts
    storages."""

    kind: str
    nbytes: int
    blocks: int
    module: str = ""
    place: str = ""


class Timeline(Struct, frozen=True):
    """``steps`` in order of time; ``passes`` the name and number of steps of each graph; ``peak`` bytes, reached during step
    ``at`` (None without a step); ``alive`` what is there then, most first; ``blocks`` all there is; ``unknown`` how many
    storages have no known size;
    ``buffered`` the ops whose kernels take memory of their own, which is not in it."""

    graphs: tuple[GraphRecord, ...]
    passes: tuple[tuple[str, int], ...]
    steps: tuple[Step, ...]
    blocks: tuple[Block, ...]
    peak: int
    at: int | None
    alive: tuple[Alive, ...]
    unknown: int
    buffered: tuple[str, ...] = ()

    @property
    def peak_node(self) -> NodeRecord | None:
        """The node during which the peak is reached."""
        if self.at is None:
            return None
        step = self.steps[self.at]
        return self.graphs[step.graph].nodes[step.node]

    def by_kind(self, at: int | None = None) -> dict[str, int]:
        """Bytes of each kind while step ``at`` (the peak's) runs, in the order of KINDS; kinds without bytes are left out."""
        at = self.at if at is None else at
        found: dict[str, int] = defaultdict(int)
        for block in self.blocks:
            if at is None or block.born <= at <= block.last:
                found[block.kind] += block.nbytes
        return {kind: found[kind] for kind in KINDS if found[kind]}


def timeline(record: CaptureRecord, sizes: Sizes | None = None) -> Timeline:
    """Memory over the graphs of ``record``, one after the other: of a training step the forward, then the backward.

    Symbols have the values of ``sizes``, else those seen while tracing. Raises PeekError when the record has no costs, or names
    an optimizer that is not known.
    """
    return _Tracks(record, sizes or Sizes()).timeline()


class _Tracks:
    """Lays the graphs on one axis of steps and gathers the blocks."""

    def __init__(self, record: CaptureRecord, sizes: Sizes):
        self._record, self._sizes = record, sizes
        self._runs = costed(record)
        self._graphs = [graph for _, graph in self._runs]
        self._forwards = [graph for which, graph in self._runs if which == "forward"]
        self._training = record.dryrun is not None and record.dryrun.train
        self._blocks: list[Block] = []
        self._steps: list[tuple[int, int]] = []
        self._unknown = 0
        self._saved: dict[tuple, dict[str, _Storage]] = {}

    def timeline(self) -> Timeline:
        storages: list[_Storage] = []
        for index, (which, graph) in enumerate(self._runs):
            storages += self._graph(index, which, graph)
        end = len(self._steps)
        blocks = list(self._resident(end))
        blocks += [s.block(end) for s in storages if s.nbytes] + self._blocks
        during, after = _totals(blocks, end)
        steps = tuple([Step(g, n, d, a) for (g, n), d, a in zip(self._steps, during, after, strict=True)])
        at = max(range(end), key=during.__getitem__) if end else None
        peak = during[at] if at is not None else sum(b.nbytes for b in blocks)
        alive = tuple(_alive(blocks, at, self._graphs, folding_of(self._record)))
        passes = tuple([(g.key, sum(s.graph == i for s in steps)) for i, g in enumerate(self._graphs)])
        names = {
            n.cost.buffers for g in self._graphs for n in g.nodes if n.cost is not None and n.cost.buffers
        }
        return Timeline(
            tuple(self._graphs),
            passes,
            steps,
            tuple(blocks),
            peak,
            at,
            alive,
            self._unknown,
            tuple(sorted(names)),
        )

    def _resident(self, end: int) -> Iterator[Block]:
        """What is there before the first step: the model, and the optimizer's state for what is trained."""
        held = held_of(self._record)
        yield Block("parameters", sum(t.nbytes for t in held if not t.buffer), 0, end)
        yield Block("buffers", sum(t.nbytes for t in held if t.buffer), 0, end)
        about = self._record.dryrun
        if about is not None and about.train:
            if about.optimizer not in STATE_COPIES:
                raise unknown_name("optimizer", about.optimizer, STATE_COPIES)
            copies = STATE_COPIES[about.optimizer]
            yield Block("optimizer state", copies * sum(t.nbytes for t in held if t.requires_grad), 0, end)

    def _graph(self, index: int, which: str, graph: GraphRecord) -> list[_Storage]:
        """The storages of one graph, its steps added to the axis."""
        start = len(self._steps)
        at = _positions(graph, start)
        self._steps += [(index, n.index) for n in graph.nodes if n.index in at]
        finish = len(self._steps) - 1
        known: dict[int, _Storage] = {}
        for node in graph.nodes:
            self._born(index, which, node, known, at.get(node.index, start))
        self._dies(graph, at, finish, known)
        self._held_by_caller(which, graph, known, finish)
        self._returned(which, graph, known, finish)
        self._scratch(index, graph, at)
        return [s for s in known.values() if s.graph == index]

    def _born(self, index: int, which: str, node: NodeRecord, known: dict[int, _Storage], born: int) -> None:
        if node.cost is None:
            return
        earlier = self._saved_as(index, which, node)
        for number, size in node.cost.made:
            if number not in known:
                known[number] = earlier or self._storage(index, which, node, size, born)

    def _saved_as(self, index: int, which: str, node: NodeRecord) -> _Storage | None:
        """The storage of the forward that an input of its backward is."""
        if which != "backward" or node.op != "placeholder":
            return None
        return self._saved.get(self._graphs[index].backend_call, {}).get(node.name)

    def _storage(self, index: int, which: str, node: NodeRecord, size: Dim, born: int) -> _Storage:
        nbytes = self._sizes.at(size, self._graphs[index])
        if isinstance(nbytes, str):
            self._unknown += 1
            nbytes = 0
        return _Storage(_kind(which, node), nbytes, born, index, node.index)

    def _held_by_caller(
        self, which: str, graph: GraphRecord, known: dict[int, _Storage], finish: int
    ) -> None:
        """The caller keeps what it passes in through the call, in training through the backward too."""
        if which == "backward":
            return  # tangents are handed over
        stays = self._training and graph is self._forwards[0]
        for storage in known.values():
            if storage.kind == "inputs":
                storage.last, storage.stays = finish, stays

    def _dies(self, graph: GraphRecord, at: dict[int, int], finish: int, known: dict[int, _Storage]) -> None:
        """Each storage lives through the last step that reads a node that holds it."""
        for node, readers in zip(graph.nodes, users(graph), strict=True):
            numbers = _numbers(node.value)
            if not numbers:
                continue
            last = max([at.get(r, finish) for r in readers], default=at.get(node.index, 0))
            for number in numbers:
                if (storage := known.get(number)) is not None:
                    storage.last = max(storage.last, last)

    def _returned(self, which: str, graph: GraphRecord, known: dict[int, _Storage], finish: int) -> None:
        """What the graph returns has a kind of its own and lives on: outputs, gradients, what is saved for the backward."""
        ends = _Ends.of(graph)
        for position, node in enumerate(ends.results):
            if node is None:
                continue
            storages = [known[i] for i in _numbers(node.value) if i in known]
            for storage in storages:
                if which == "backward":
                    self._gradient(graph, storage, position, finish)
                else:
                    self._output(graph, storage, ends.role(position), finish)
            if storages and ends.role(position) == "saved activations":
                self._saved.setdefault(graph.backend_call, {})[node.name] = storages[0]

    def _output(self, graph: GraphRecord, storage: _Storage, role: str, finish: int) -> None:
        """The caller keeps the last forward's outputs, in training to the end; what is written back to an input is gone then."""
        if storage.kind == "temporaries":
            storage.kind = role or "outputs"
        if role == "outputs":
            storage.last = max(storage.last, finish)
            storage.stays |= storage.kind == "outputs" and self._training and graph is self._forwards[-1]

    def _gradient(self, graph: GraphRecord, storage: _Storage, position: int, finish: int) -> None:
        """Gradients of parameters stay; those of values between two graphs are handed to the backward that comes next."""
        if storage.kind != "temporaries":
            return
        storage.kind = "gradients"
        entries = graph.lowering.gradients if graph.lowering is not None else ()
        ordinal = entries[position] if position < len(entries) else None
        last_backward = graph.backend_call == self._forwards[0].backend_call
        storage.stays = last_backward or self._is_parameter(graph, ordinal)
        storage.last = max(storage.last, finish)

    def _is_parameter(self, graph: GraphRecord, ordinal: int | None) -> bool:
        """Whether an input of the captured graph that this one was made of is a parameter; unknown ones are taken for one."""
        captured = sibling(self._record, graph, "dynamo")
        inputs = [n for n in captured.nodes if n.op == "placeholder"] if captured is not None else []
        if ordinal is None or ordinal >= len(inputs):
            return True
        source = inputs[ordinal].source
        return source is None or source.input_kind == "parameter"

    def _scratch(self, index: int, graph: GraphRecord, at: dict[int, int]) -> None:
        for node in graph.nodes:
            if node.cost is None or not node.cost.scratch or node.index not in at:
                continue
            size = self._sizes.at(node.cost.scratch, graph)
            if isinstance(size, int):
                step = at[node.index]
                self._blocks.append(Block("scratch", size, step, step, index, node.index))
            else:
                self._unknown += 1


class _Storage:
    """A storage while its life is worked out; ``stays`` when it outlives the passes."""

    __slots__ = ("born", "graph", "kind", "last", "nbytes", "node", "stays")

    def __init__(self, kind: str, nbytes: int, born: int, graph: int, node: int):
        self.kind, self.nbytes, self.born, self.last = kind, nbytes, born, born
        self.graph, self.node, self.stays = graph, node, False
        if kind in _RESIDENT:
            self.nbytes = 0  # counted once, with the model

    def block(self, end: int) -> Block:
        return Block(
            self.kind, self.nbytes, self.born, end if self.stays else self.last, self.graph, self.node
        )


_RESIDENT = ("parameters", "buffers")
_BY_INPUT = {"parameter": "parameters", "buffer": "buffers"}


def _kind(which: str, node: NodeRecord) -> str:
    if node.op != "placeholder":
        return "temporaries"
    source = node.source
    known = _BY_INPUT.get(source.input_kind or "") if source is not None else None
    if known is not None:
        return known
    if which != "backward":
        return "inputs"
    return "gradients of outputs" if node.name.startswith("tangents") else "saved activations"


def _positions(graph: GraphRecord, start: int) -> dict[int, int]:
    """The step of each node that computes; the others take no time."""
    computing = [n.index for n in graph.nodes if n.op not in ("placeholder", "get_attr", "output")]
    return {index: start + i for i, index in enumerate(computing)}


def _results(graph: GraphRecord) -> list[NodeRecord | None]:
    """What the output node returns, in order; None for an item that is no node."""
    return [_node(graph, item) for item in results_of(graph)]


class _Ends(NamedTuple):
    """What a graph returns: its ``results``, of which the first ``own`` are the program's, the rest saved for the backward;
    ``written_back`` are positions of results that only update an input after the call."""

    results: list[NodeRecord | None]
    own: int
    written_back: frozenset[int | None]

    @classmethod
    def of(cls, graph: GraphRecord) -> _Ends:
        results, lowering = _results(graph), graph.lowering
        if lowering is None or lowering.forward_outputs is None:
            return cls(results, len(results), frozenset())
        return cls(results, lowering.forward_outputs, frozenset(m.output for m in lowering.mutated))

    def role(self, position: int) -> str:
        """``outputs``, ``saved activations``, or nothing for what is gone after it was written back."""
        if position >= self.own:
            return "saved activations"
        return "" if position in self.written_back else "outputs"


def _node(graph: GraphRecord, item: Any) -> NodeRecord | None:
    index = getattr(item, "node", None)
    return graph.nodes[index] if isinstance(index, int) else None


def _numbers(value: ValueInfo | None) -> list[int]:
    """The storages that a value holds, those of a subclass's or functorch wrapper's inner tensors too."""
    return [meta.storage for meta in iter_stored(value) if meta.storage is not None]


def _totals(blocks: Sequence[Block], end: int) -> tuple[list[int], list[int]]:
    """Bytes alive during each step and after it."""
    change = [0] * (end + 2)
    for block in blocks:
        change[min(block.born, end)] += block.nbytes
        change[min(block.last, end) + 1] -= block.nbytes
    during, alive = [], 0
    for step in range(end):
        alive += change[step]
        during.append(alive)
    gone = [0] * (end + 1)
    for block in blocks:
        if block.last < end:
            gone[block.last] += block.nbytes
    return during, [during[i] - gone[i] for i in range(end)]


def _alive(
    blocks: Sequence[Block], at: int | None, graphs: Sequence[GraphRecord], folding: Folding
) -> list[Alive]:
    sums: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for block in blocks:
        if block.nbytes and (at is None or block.born <= at <= block.last):
            entry = sums[(block.kind, *_origin(block, graphs, folding))]
            entry[0] += block.nbytes
            entry[1] += 1
    found = [
        Alive(kind, nbytes, count, module, place) for (kind, module, place), (nbytes, count) in sums.items()
    ]
    return sorted(found, key=lambda a: -a.nbytes)


def _origin(block: Block, graphs: Sequence[GraphRecord], folding: Folding) -> tuple[str, str]:
    """(module, place) of the node that made a block; an input has its own name for a place."""
    if block.graph is None or block.node is None:
        return "", ""
    source = graphs[block.graph].nodes[block.node].source
    if source is None:
        return "", graphs[block.graph].nodes[block.node].name
    place = source.input or (f"{source.file}:{source.line}" if source.file else "")
    return folding.label(source.module), place


__all__ = ["KINDS", "STATE_COPIES", "Alive", "Block", "Step", "Timeline", "timeline"]
