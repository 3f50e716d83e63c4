"""Where a node came from and what became of it, over all stages of a capture, in both directions.

Each node names its origins in earlier stages; the other direction is worked out here. Nothing is stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ..errors import PeekError, unknown_name
from ..model import CaptureRecord, GraphRecord, NodeRecord
from ..model.graph import keyed

Place = tuple[str, int]
"""A node of a capture: its graph's key, its index."""

ORDER = ("dynamo", "fx", "joint", "inference", "forward", "backward", "post_grad", "kernels")


class Step(Struct, frozen=True):
    """A node on a trail. ``graph`` is its graph's key, ``stage`` that graph's stage with its part (``post_grad backward``)."""

    graph: str
    stage: str
    node: NodeRecord
    note: str = ""


class Trace(Struct, frozen=True):
    """What is known of some nodes: ``nodes`` themselves, ``came_from`` all that led to them, ``became`` all they turned into.

    ``twins`` have the same value in the other half of a joint graph: what a backward computes again or is handed, and what the
    forward computed. Each in the order of stages, each node once.
    """

    nodes: tuple[Step, ...]
    came_from: tuple[Step, ...] = ()
    became: tuple[Step, ...] = ()
    twins: tuple[Step, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """All of it, in the order of stages."""
        return in_order((*self.came_from, *self.nodes, *self.became, *self.twins))


class Provenance:
    """The links of one capture, both ways."""

    def __init__(self, record: CaptureRecord):
        self.graphs: dict[str, GraphRecord] = {}
        for graph in record.graphs:
            self.graphs.update(keyed(graph))
        self._down: dict[Place, list[Place]] = {}
        for key, graph in self.graphs.items():
            for node in graph.nodes:
                for origin in node.origins:
                    self._down.setdefault((origin[0], origin[1]), []).append((key, node.index))

    def origins(self, place: Place) -> tuple[Place, ...]:
        """The nodes that this one names as its origins, in earlier stages that the capture holds."""
        found = self.node(place).origins
        return tuple([(k, i) for k, i in found if k in self.graphs and i < len(self.graphs[k].nodes)])

    def results(self, place: Place) -> tuple[Place, ...]:
        """The nodes of later stages that name this one as their origin."""
        return tuple(self._down.get(place, ()))

    def nearest(self, place: Place, keys: Collection[str]) -> list[Place]:
        """The nodes of the graphs ``keys`` that a node came from, over the stages between; not what these came from."""
        found: dict[Place, None] = {}
        waiting, seen = [place], {place}
        while waiting:
            for origin in self.origins(waiting.pop()):
                if origin[0] in keys:
                    found[origin] = None
                elif origin not in seen:
                    seen.add(origin)
                    waiting.append(origin)
        return list(found)

    def became(self, place: Place) -> list[Place]:
        """All nodes of later stages that a node turned into."""
        return list(self._closure((place,), self.results))

    def node(self, place: Place) -> NodeRecord:
        return self.graphs[place[0]].nodes[place[1]]

    def trace(self, places: Sequence[Place]) -> Trace:
        """Everything that led to these nodes and all that became of them."""
        start = dict.fromkeys(places)
        before = self._closure(start, self.origins)
        after = self._closure(start, self.results)
        known = {*start, *before, *after}
        twins = {twin: note for place in start for twin, note in self._twins(place) if twin not in known}
        return Trace(self._steps(start), self._steps(before), self._steps(after), self._steps(twins, twins))

    def _twins(self, place: Place) -> Iterator[tuple[Place, str]]:
        """The node of the other half that has the value of this one, with how they are related: a partitioner keeps names."""
        graph, node = self.graphs[place[0]], self.node(place)
        other = {"forward": "backward", "backward": "forward"}.get(graph.stage)
        for key, half in self.graphs.items():
            if half.stage == other and half.backend_call == graph.backend_call and half.key == key:
                for twin in half.nodes:
                    if twin.name == node.name and (note := _TWINS.get((graph.stage, node.op, twin.op))):
                        yield (key, twin.index), note

    def _closure(self, start: Iterable[Place], step: Callable[[Place], Iterable[Place]]) -> dict[Place, None]:
        first = set(start)
        seen = dict.fromkeys(start)
        waiting = list(seen)
        while waiting:
            for place in step(waiting.pop()):
                if place not in seen:
                    seen[place] = None
                    waiting.append(place)
        return {p: None for p in seen if p not in first}

    def _steps(self, places: Iterable[Place], notes: Mapping[Place, str] | None = None) -> tuple[Step, ...]:
        return in_order([self._step(p, (notes or {}).get(p, "")) for p in places])

    def _step(self, place: Place, note: str) -> Step:
        graph = self.graphs[place[0]]
        return Step(place[0], f"{graph.stage} {graph.part}".strip(), self.node(place), note)

    def find(self, what: str) -> list[Place]:
        """The nodes that a text names: ``mm_3``, ``0/0 joint:mm_3``, or ``model.py:31`` for all of a user's line.

        A line means the nodes of the first stage that has any there. PeekError when there is none, with the nearest names.
        """
        if (line := _LINE.match(what)) is not None:
            return self._at_line(line[1], int(line[2]))
        key, _, name = what.rpartition(":")
        name = name.lstrip("%").strip()
        graphs = self._named_graphs(key.strip())
        found = [(k, n.index) for k, g in graphs.items() for n in g.nodes if n.name == name]
        if not found:
            known = dict.fromkeys(n.name for g in graphs.values() for n in g.nodes)
            raise unknown_name("node", name, known)
        return found

    def _named_graphs(self, key: str) -> dict[str, GraphRecord]:
        if not key:
            return self.graphs
        if key not in self.graphs:
            raise unknown_name("graph", key, self.graphs)
        return {key: self.graphs[key]}

    def _at_line(self, file: str, line: int) -> list[Place]:
        found = [(k, n.index) for k, g in self.graphs.items() for n in g.nodes if _is_at(n, file, line, g)]
        if not found:
            raise PeekError(f"no node at {file}:{line}", _lines_of(self.graphs.values(), file), "")
        first = min(rank_of(self.graphs[k].stage) for k, _ in found)
        return [p for p in found if rank_of(self.graphs[p[0]].stage) == first]


_TWINS = {
    ("backward", "call_function", "call_function"): "the backward computes it again",
    ("backward", "placeholder", "call_function"): "saved for the backward",
    ("forward", "call_function", "call_function"): "computed again",
    ("forward", "call_function", "placeholder"): "saved by the forward",
}
"""How the twin of a node relates to it: by the node's stage, its op, and the twin's. Both have the program's own inputs."""

_LINE = re.compile(r"^(.+\.\w+):(\d+)$")


def in_order(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Steps in the order of stages."""
    return tuple(sorted(steps, key=lambda s: (rank_of(s.stage), s.graph, s.node.index)))


def rank_of(stage: str) -> int:
    """The place of a stage in a compile."""
    name = stage.split(" ", maxsplit=1)[0]
    return ORDER.index(name) if name in ORDER else len(ORDER)


def _is_at(node: NodeRecord, file: str, line: int, graph: GraphRecord) -> bool:
    """Whether a node was made by a line: its own, or one of those that called it."""
    source = node.source
    if source is None or source.file is None:
        return False
    if source.line == line and _same_file(source.file, file):
        return True
    callers = (
        graph.stacks[source.caller] if source.caller is not None and source.caller < len(graph.stacks) else ()
    )
    return any(f.line == line and _same_file(f.file, file) for f in callers)


def _same_file(path: str, given: str) -> bool:
    path, given = path.replace("\\", "/"), given.replace("\\", "/")
    return path == given or path.endswith("/" + given.removeprefix("./"))


def _lines_of(graphs: Iterable[GraphRecord], file: str) -> str:
    lines = sorted({s.line for g in graphs for s in _sources(g) if s.line and _same_file(s.file, file)})
    if not lines:
        return "no node of the capture comes from that file"
    shown = ", ".join(map(str, lines[:20])) + (", …" if len(lines) > 20 else "")
    return f"lines of it that made nodes: {shown}"


def _sources(graph: GraphRecord) -> Iterator:
    return (n.source for n in graph.nodes if n.source is not None and n.source.file is not None)
