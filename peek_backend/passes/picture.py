"""What is seen of a graph: clusters with boxes in them, and edges between boxes.

Comes in: a graph and a `Choice` of what to open. Goes out: a `Picture`. Nothing here knows how a picture is drawn.

* Edges of a repeat's later instances are laid upon those of the first. An edge that would then run backwards
  is the chain from one instance to the next, which the repeat itself states.
* Parallel edges are one edge with all their values.
* A value that every layer reads (cos, sin, a mask) is a tag beside its readers instead of a long edge.
* Bodies of higher-order ops are clusters of their own, each once.

Boxes and edges never form a cycle: a box is an interval of a topological order of the nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..model import GraphRecord
from .hierarchy import Module, nodes_of
from .repeats import Repeat, Unlike
from .selection import Choice, Forest, View, open_forest

_TAG_READERS, _TAG_CLUSTERS = 6, 3
"""A value read by so many boxes, in so many clusters, is drawn as tags."""
_RETURNS, _KEPT_RETURNS = 8, 3
"""With more boxes returning values than this, only the first outputs keep their edges."""


@dataclass(frozen=True)
class Box:
    """Something drawn: one node, several alike (``nodes``), or a closed container (``closed``).

    ``module`` is the closed container, or for an op the module that consists of it alone. ``view`` tells the
    graph: -1 the one drawn, else the child with that index. ``tag`` marks a reference to a value drawn elsewhere,
    ``loose`` calls that no value joins to the rest.
    """

    key: str
    view: int
    nodes: tuple[int, ...]
    module: Module | None = None
    closed: bool = False
    repeat: Repeat | None = None
    tag: bool = False
    loose: bool = False


@dataclass
class Cluster:
    """An open container, or with ``body`` the body of a higher-order op."""

    key: str
    view: int
    module: Module
    repeat: Repeat | None = None
    body: bool = False
    members: list[Box | Cluster] = field(default_factory=list)


@dataclass(frozen=True)
class Edge:
    """Values that go from one box to another.

    ``values`` are (node, items): the producer and which item of its tuple; ``uses`` counts how often a reader
    names one of them. ``kind`` is ``data``, ``tag`` (from a tag) or ``body`` (from a higher-order op to what it
    runs, which may be a cluster).
    """

    source: str
    target: str
    view: int
    values: tuple[tuple[int, tuple[int, ...]], ...]
    uses: int
    kind: str = "data"


@dataclass(frozen=True)
class Picture:
    """What is to be drawn.

    ``inlets`` are by box the inputs written inside it; ``tagged`` the (view, node) that are drawn as tags;
    ``returned`` by box how many of its values are outputs to which no edge is drawn; ``twins`` by view the nodes of
    a repeat's later instances, each with the node of the first that it repeats.
    """

    graph: GraphRecord
    root: Cluster
    boxes: dict[str, Box]
    edges: tuple[Edge, ...]
    inlets: dict[str, tuple[int, ...]]
    tagged: frozenset[tuple[int, int]]
    returned: dict[str, int]
    unlike: dict[tuple[int, str], Unlike]
    notes: tuple[str, ...]
    twins: dict[int, dict[int, int]] = field(default_factory=dict)

    def stands_for(self) -> dict[str, list[int]]:
        """All nodes that each box stands for: its own, and those of a repeat's later instances at its place."""
        shown = {
            (box.view, node): key for key, box in self.boxes.items() if not box.tag for node in box.nodes
        }
        found: dict[str, list[int]] = {}
        for view, twin in self.twins.items():
            for node in range(len(self.graph_of(view).nodes)):
                key = shown.get((view, _first(node, twin)))
                if key is not None:
                    found.setdefault(key, []).append(node)
        return found

    def graph_of(self, view: int) -> GraphRecord:
        """The graph that ``view`` numbers."""
        return self.graph if view < 0 else self.graph.children[view]


def draw(graph: GraphRecord, choice: Choice | None = None) -> Picture:
    """Open what ``choice`` asks for and see what that shows.

    Raises PeekError for an ``expand`` that names no container.
    """
    return _Painter(open_forest(graph, choice or Choice())).paint()


class _Painter:
    """Turns what is open into boxes and edges."""

    def __init__(self, forest: Forest):
        self.forest = forest
        self.boxes: dict[str, Box] = {}
        self.home: dict[str, Cluster] = {}
        self.box_of: dict[tuple[int, int], str] = {}
        self.body_box: dict[int, str] = {}
        self.counter = 0

    def paint(self) -> Picture:
        """Boxes first, then what runs between them."""
        forest = self.forest
        shared = self._shared_bodies()
        root = self._cluster(-1, forest.view(-1).tree, shared)
        for body in sorted(shared):
            self._body(body, root, shared)
        wiring = _Wiring(self)
        edges = (*wiring.edges(), *self._body_edges())
        unlike = {(n, path): u for n, view in forest.views.items() for path, u in view.unlike.items()}
        inlets = {box: tuple(found) for box, found in wiring.inlets.items()}
        return Picture(
            forest.graph,
            root,
            self.boxes,
            edges,
            inlets,
            frozenset(wiring.tagged),
            dict(wiring.returned),
            unlike,
            tuple(forest.notes),
            {number: view.twin for number, view in forest.views.items()},
        )

    def _shared_bodies(self) -> set[int]:
        """Bodies that more than one visible node runs: they stand at the top, once."""
        runs: Counter[int] = Counter()
        for number, path in self.forest.open:
            view = self.forest.view(number)
            for row in view.rows(view.modules[path]):
                runs.update(self.forest.bodies(number, row))
        return {body for body, count in runs.items() if count > 1}

    def _cluster(self, number: int, module: Module, shared: set[int], *, body: bool = False) -> Cluster:
        view = self.forest.view(number)
        cluster = Cluster(f"c{self.next()}", number, module, view.repeats.get(module.path), body)
        for row in view.rows(module):
            if isinstance(row, Module):
                self._container(number, row, cluster, shared)
            else:
                self._op(number, row, cluster, shared)
        return cluster

    def _container(self, number: int, module: Module, cluster: Cluster, shared: set[int]) -> None:
        if (number, module.path) in self.forest.open:
            cluster.members.append(self._cluster(number, module, shared))
            return
        view = self.forest.view(number)
        nodes = tuple(nodes_of(module))
        repeat = view.repeats.get(module.path)
        self.add(Box(f"m{self.next()}", number, nodes, module, True, repeat), cluster)

    def _op(self, number: int, row: tuple[int, ...], cluster: Cluster, shared: set[int]) -> None:
        view = self.forest.view(number)
        thin = view.thin.get(row[0]) if len(row) == 1 else None
        repeat = view.repeats.get(thin.path) if thin is not None else None
        self.add(
            Box(f"n{self.next()}", number, row, thin, False, repeat, loose=row[0] in view.loose), cluster
        )
        for body in self.forest.bodies(number, row):
            if body not in shared:
                self._body(body, cluster, shared)

    def _body(self, body: int, cluster: Cluster, shared: set[int]) -> None:
        if body in self.body_box:
            return
        self.body_box[body] = ""
        tree = self.forest.view(body).tree
        if (body, "") in self.forest.open:
            inner = self._cluster(body, tree, shared, body=True)
            cluster.members.append(inner)
            self.body_box[body] = inner.key
        else:
            box = Box(f"m{self.next()}", body, tuple(nodes_of(tree)), tree, True)
            self.add(box, cluster)
            self.body_box[body] = box.key

    def _body_edges(self) -> Iterator[Edge]:
        """From every visible op to the bodies it runs."""
        for box in list(self.boxes.values()):
            if not box.closed and not box.tag:
                for body in self.forest.bodies(box.view, box.nodes):
                    if self.body_box.get(body):
                        yield Edge(box.key, self.body_box[body], box.view, (), 1, "body")

    def add(self, box: Box, cluster: Cluster, *, first: bool = False) -> None:
        """Put ``box`` into ``cluster``."""
        self.boxes[box.key] = box
        self.home[box.key] = cluster
        cluster.members.insert(0 if first else len(cluster.members), box)
        if not box.tag:
            self.box_of.update({(box.view, node): box.key for node in box.nodes})

    def next(self) -> int:
        """A number for a key."""
        self.counter += 1
        return self.counter


@dataclass(frozen=True)
class _Use:
    """One reference as it is drawn: the value, its items taken, and the boxes at both ends. ``mark`` tells uses apart."""

    value: int
    items: tuple[int, ...]
    source: str
    target: str
    mark: tuple[int, int]


class _Wiring:
    """The references between the boxes of all visible graphs, merged to edges.

    ``inlets`` collects by box the inputs written inside it, ``tagged`` the values that are drawn as tags,
    ``returned`` counts by box the outputs that have no edge.
    """

    def __init__(self, painter: _Painter):
        self.painter = painter
        self.inlets: dict[str, dict[int, None]] = {}
        self.tagged: set[tuple[int, int]] = set()
        self.returned: Counter[str] = Counter()

    def edges(self) -> Iterator[Edge]:
        """All edges, those of one graph after the other."""
        for number in sorted({view for view, _ in self.painter.box_of}):
            view = self.painter.forest.view(number)
            uses, shared = self._uses(number, view)
            uses = self._without_returns(view, uses)
            wide = shared | self._wide(uses)
            direct = [u for u in uses if u.value not in wide or self._neighbours(u)]
            yield from self._merge(number, direct, "data")
            yield from self._merge(
                number, self._tags(number, [u for u in uses if u not in set(direct)]), "tag"
            )

    def _uses(self, number: int, view: View) -> tuple[list[_Use], set[int]]:
        """Every reference that shows, once, and the values that several instances of a repeat read from outside it."""
        order = {node: position for position, node in enumerate(nodes_of(view.tree))}
        uses: dict[_Use, None] = {}
        readers: dict[int, set[str]] = {}
        for index, refs in enumerate(view.reads):
            target = self._box(number, view, index)
            if target is None or index in view.carrier or index in view.inline:
                continue
            for position, ref in enumerate(refs):
                value, items = _resolve(ref, view.carrier)
                if value in view.inline:
                    if index not in view.twin and view.graph.nodes[value].body is None:
                        self.inlets.setdefault(target, {})[value] = None
                    continue
                if index in view.instance and value not in view.instance:
                    readers.setdefault(value, set()).add(view.instance[index])
                source = self._box(number, view, value)
                drawn = (_first(value, view.twin), _first(index, view.twin))
                if source in (None, target) or order[drawn[0]] >= order[drawn[1]]:
                    continue
                uses[_Use(drawn[0], items, source, target, (drawn[1], position))] = None
        return list(uses), {value for value, found in readers.items() if len(found) > 1}

    def _without_returns(self, view: View, uses: list[_Use]) -> list[_Use]:
        """Take out the edges to an output that nearly every box would have (what is saved for backward)."""
        returns = [u for u in uses if view.graph.nodes[u.mark[0]].op == "output"]
        if len({u.source for u in returns}) <= _RETURNS:
            return uses
        dropped = {u for u in returns if u.mark[1] >= _KEPT_RETURNS}
        self.returned.update(u.source for u in dropped)
        return [u for u in uses if u not in dropped]

    def _box(self, number: int, view: View, node: int) -> str | None:
        return self.painter.box_of.get((number, _first(node, view.twin)))

    def _wide(self, uses: list[_Use]) -> set[int]:
        """Values read by many boxes in several clusters."""
        targets: dict[int, set[str]] = {}
        for use in uses:
            targets.setdefault(use.value, set()).add(use.target)
        return {
            value
            for value, boxes in targets.items()
            if len(boxes) >= _TAG_READERS and len({self.painter.home[b].key for b in boxes}) >= _TAG_CLUSTERS
        }

    def _neighbours(self, use: _Use) -> bool:
        return self.painter.home[use.source] is self.painter.home[use.target]

    def _tags(self, number: int, uses: list[_Use]) -> list[_Use]:
        """The uses with a tag, one a value and cluster, in place of their source."""
        tags: dict[tuple[int, str], str] = {}
        moved = []
        for use in uses:
            cluster = self.painter.home[use.target]
            place = (use.value, cluster.key)
            if place not in tags:
                tags[place] = f"t{self.painter.next()}"
                self.painter.add(Box(tags[place], number, (use.value,), tag=True), cluster, first=True)
                self.tagged.add((number, use.value))
            moved.append(_Use(use.value, use.items, tags[place], use.target, use.mark))
        return moved

    def _merge(self, number: int, uses: list[_Use], kind: str) -> Iterator[Edge]:
        """One edge for all values between two boxes."""
        found: dict[tuple[str, str], list[_Use]] = {}
        for use in uses:
            found.setdefault((use.source, use.target), []).append(use)
        for (source, target), group in found.items():
            values = tuple(dict.fromkeys((u.value, u.items) for u in group))
            yield Edge(source, target, number, values, len(group), kind)


def _resolve(node: int, carrier: dict[int, tuple[int, int]]) -> tuple[int, tuple[int, ...]]:
    """The node that made a tuple's item, and which item of it."""
    items: tuple[int, ...] = ()
    while node in carrier:
        node, position = carrier[node]
        items = (position, *items)
    return node, items


def _first(node: int, twin: dict[int, int]) -> int:
    """The node that stands for ``node``: its place in the first instances of all repeats around it."""
    while node in twin:
        node = twin[node]
    return node
