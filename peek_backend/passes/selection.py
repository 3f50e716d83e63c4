"""Which containers of a graph are open.

Comes in: a graph and a `Choice`. Goes out: a `Forest`: the trees of the graph and of the bodies it runs, what each open
container shows, and notes on what was folded.

* Parameters, buffers, constants and sizes are no boxes; they belong to the boxes that read them.
* A repeat shows its first instance.
* An item taken from a tuple is no box; it belongs to the edge.
* A container of one op shows that op. Neighbours that do the same (400 times ``mul``) are one box, and so are all
  calls of a container that take no value and give none (``_vmap_increment_nesting``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Union

from msgspec import Struct

from ..errors import PeekError, nearest
from ..model import GraphRecord, Leaf, NodeRecord, NoneInfo, TensorMeta, TupleInfo
from .hierarchy import Module, build_hierarchy, is_inlet, is_inline, nodes_of, read_lists, walk
from .kinds import node_kind
from .repeats import Repeat, counterparts, describe_run, find_repeats, find_unlike, structure_keys

COMFORT = 64
"""Boxes that an automatic choice shows at most: about one screen, or one page."""
SMALL = 40
"""Up to so many boxes even norms and activations are opened."""
LIMIT = 800
"""Boxes that ``depth`` and ``expand`` show at most: dot lays them out in about two seconds, 2,000 in 15."""
FLAT = 300
"""Items that one container shows before it is cut into parts."""
BUNDLE = 6
"""Neighbouring nodes with one target that become one box."""

_MAX_INPUTS = 16
_NO_LIMIT = 10**9
_HEAVY = frozenset({"matmul", "attention", "custom"})


class Choice(Struct, frozen=True):
    """How much to unfold. ``depth`` counts levels of containers; ``expand`` names more to open, by path or glob."""

    depth: int | None = None
    expand: tuple[str, ...] = ()
    full: bool = False


Row = Union[Module, "tuple[int, ...]"]
"""What an open container shows at one place: a container, or nodes that make one box."""


class View:
    """One graph with its tree and its folds, and what of it is drawn.

    ``repeats`` are by the path of their first instance, ``hidden`` the paths of all others, ``twin`` maps the
    nodes of these to the nodes they repeat, ``instance`` every node of a repeat to its instance. ``thin`` maps a
    node to the container that consists of it alone, ``carrier`` a tuple's item to (tuple, position).
    """

    def __init__(self, graph: GraphRecord, root: GraphRecord, choice: Choice):
        self.graph, self.root, self.choice = graph, root, choice
        self.reads = read_lists(graph)
        self.inline = _inline_nodes(graph, self.reads)
        self.carrier = _tuple_items(graph)
        self._plant(_NO_LIMIT)
        if not choice.full and any(len(m.items) > FLAT < len(self.rows(m)) for m in self.modules.values()):
            self._plant(FLAT)

    def _plant(self, max_children: int) -> None:
        """The tree, and what of it folds."""
        graph = self.graph
        self.tree = build_hierarchy(graph, max_children=max_children, reads=self.reads)
        self.modules = {m.path: m for m in walk(self.tree)}
        self.repeats: dict[str, Repeat] = {}
        self.hidden: set[str] = set()
        self.twin: dict[int, int] = {}
        self.instance: dict[int, str] = {}
        self.thin: dict[int, Module] = {}
        self.loose = _loose_nodes(graph, self._wires(), self.tree)
        self._rows: dict[str, list[Row]] = {}
        self.keys = structure_keys(graph, self.tree, self.root, self.reads)
        self.unlike = {u.path: u for u in find_unlike(graph, self.tree, self.keys)}
        if not self.choice.full:
            self._fold_inside(self.tree)

    def _wires(self) -> list[list[int]]:
        """The reads without those of inputs that are no tensors: a size does not make a switch part of the data."""
        nodes = self.graph.nodes
        plain = {i for i in self.inline if is_inlet(nodes[i]) and not isinstance(nodes[i].value, TensorMeta)}
        plain -= {n.index for n in nodes if n.body is not None}
        return [[r for r in refs if r not in plain] for refs in self.reads]

    def _fold_inside(self, module: Module) -> None:
        for repeat in find_repeats(self.graph, module, self.keys, self.reads):
            if repeat.parent not in self.hidden:
                self._fold(repeat)

    def _fold(self, repeat: Repeat) -> None:
        """Let the first instance of each run stand for all of it; ``expand`` decides how many runs there are."""
        parent = self.modules[repeat.parent]
        for run in self._split(repeat, self.choice.expand):
            if run[0].path != repeat.paths[0]:
                self._fold_inside(run[0])
            if len(run) == 1:
                continue
            whole = len(run) == len(repeat.paths)
            self.repeats[run[0].path] = repeat if whole else describe_run(self.graph, parent, run, self.reads)
            self.twin.update(counterparts(run))
            for module in run:
                self.instance.update(dict.fromkeys(nodes_of(module), module.path))
            self.hidden.update(m.path for module in run[1:] for m in walk(module))

    def _split(self, repeat: Repeat, patterns: Sequence[str]) -> Iterator[list[Module]]:
        """The instances in runs; one that a pattern picks from among the others is a run of its own."""
        instances = [self.modules[path] for path in repeat.paths]
        picked: set[str] = set()
        for pattern in patterns:
            hits = {i.path for i in instances if any(_matches(m, pattern) for m in walk(i))}
            if len(hits) < len(instances):
                picked |= hits
        run: list[Module] = []
        for instance in instances:
            if run and (instance.path in picked or run[-1].path in picked):
                yield run
                run = []
            run.append(instance)
        yield run

    def rows(self, module: Module) -> list[Row]:
        """What ``module`` shows when it is open."""
        if module.path not in self._rows:
            rows = list(self._bundled(self._flat(module)))
            loose = tuple(i for i in module.items if isinstance(i, int) and i in self.loose)
            self._rows[module.path] = [loose, *rows] if loose else rows
        return self._rows[module.path]

    def _flat(self, module: Module) -> Iterator[int | Module]:
        """The drawn items; a container of a single op shows that op."""
        for item in module.items:
            if isinstance(item, Module):
                if item.path in self.hidden:
                    continue
                if item.size > 1:
                    yield item
                    continue
                drawn = [i for i in nodes_of(item) if self.is_drawn(i)]
                self.thin.update(dict.fromkeys(drawn, item))
                yield from drawn
            elif self.is_drawn(item) and item not in self.loose:
                yield item

    def _bundled(self, items: Iterator[int | Module]) -> Iterator[Row]:
        run: list[int] = []
        for item in items:
            if isinstance(item, int) and run and self._alike(run[-1], item):
                run.append(item)
                continue
            yield from self._bundle(run)
            run = [item] if isinstance(item, int) else []
            if isinstance(item, Module):
                yield item
        yield from self._bundle(run)

    def _bundle(self, run: list[int]) -> Iterator[Row]:
        if len(run) >= BUNDLE and not self.choice.full:
            yield tuple(run)
        else:
            yield from ((i,) for i in run)

    def _alike(self, a: int, b: int) -> bool:
        one, two = self.graph.nodes[a], self.graph.nodes[b]
        return (
            one.op == two.op and one.target == two.target and one.op != "placeholder" and not self.bodies(a)
        )

    def is_drawn(self, index: int) -> bool:
        """Whether the node is a box when its container is open."""
        return index not in self.inline and index not in self.carrier

    def bodies(self, index: int) -> list[int]:
        """Indices of the child graphs that the node runs."""
        node = self.graph.nodes[index]
        found = [] if node.body is None or is_inlet(node) else [node.body]
        for ref in self.reads[index]:
            body = self.graph.nodes[ref].body
            if body is not None and body not in found:
                found.append(body)
        return found

    def is_primitive(self, module: Module) -> bool:
        """Whether people think of the container as one op: a norm, an activation, a mask made by a function."""
        if module.kind == "root" or any(m.kind == "module" for m in walk(module) if m is not module):
            return False
        return not any(node_kind(self.graph.nodes[i]) in _HEAVY or self.bodies(i) for i in nodes_of(module))


def _inline_nodes(graph: GraphRecord, reads: list[list[int]]) -> frozenset[int]:
    """Nodes written inside their readers: attributes, parameters, sizes; of many inputs those one op reads."""
    found = {n.index for n in graph.nodes if is_inlet(n) and (is_inline(n) or _is_plain_value(n))}
    inputs = [n.index for n in graph.nodes if n.op == "placeholder" and n.index not in found]
    if len(inputs) > _MAX_INPUTS:
        readers: dict[int, set[int]] = {i: set() for i in inputs}
        for index, refs in enumerate(reads):
            for ref in refs:
                if ref in readers:
                    readers[ref].add(index)
        output = {n.index for n in graph.nodes if n.op == "output"}
        found.update(i for i, users in readers.items() if len(users - output) == 1)
    return frozenset(found)


def _is_plain_value(node: NodeRecord) -> bool:
    """A parameter by its flag where no source says so, or an input that is no tensor."""
    if isinstance(node.value, TensorMeta):
        return "parameter" in node.value.flags
    return node.value is not None and not isinstance(node.value, TupleInfo)


def _tuple_items(graph: GraphRecord) -> dict[int, tuple[int, int]]:
    """For each ``getitem`` on a tuple: the tuple's node and the position taken."""
    found = {}
    for node in graph.nodes:
        if node.op != "call_function" or node.target.rpartition(".")[2] != "getitem" or len(node.args) != 2:
            continue
        base, position = node.args
        if not isinstance(base, Leaf) or base.node is None or type(position) is not int:
            continue
        if 0 <= base.node < node.index and isinstance(graph.nodes[base.node].value, TupleInfo):
            found[node.index] = (base.node, position)
    return found


def _loose_nodes(graph: GraphRecord, reads: list[list[int]], tree: Module) -> frozenset[int]:
    """Calls without a value, wired to nothing but each other in one container: switches of autocast, vmap."""
    silent = {n.index for n in graph.nodes if n.op == "call_function" and _is_silent(n)}
    home = {item: m.path for m in walk(tree) for item in m.items if item in silent}
    joined: dict[int, list[int]] = {i: [] for i in silent}
    wired: list[int] = []
    for index, refs in enumerate(reads):
        for ref in refs:
            if index in silent and ref in silent and home[index] == home[ref]:
                joined[index].append(ref)
                joined[ref].append(index)
            else:
                wired += [i for i in (index, ref) if i in silent]
    while wired:
        index = wired.pop()
        if index in silent:
            silent.discard(index)
            wired += joined[index]
    return frozenset(silent)


def _is_silent(node: NodeRecord) -> bool:
    return node.body is None and (node.value is None or isinstance(node.value, NoneInfo))


def _matches(module: Module, pattern: str) -> bool:
    names = (module.path, module.module)
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)


# --- what is open ---


class Forest:
    """The graph and the bodies it can reach, and which containers are open: (view, path).

    View -1 is the graph itself, the others its children by index. ``boxes`` counts what is drawn.
    """

    def __init__(self, graph: GraphRecord, choice: Choice):
        self.graph, self.choice = graph, choice
        self.views: dict[int, View] = {}
        self.open: set[tuple[int, str]] = set()
        self.boxes = 1
        self.notes: list[str] = []

    def view(self, number: int) -> View:
        """The view with this number, made when it is first asked for."""
        if number not in self.views:
            graph = self.graph if number < 0 else self.graph.children[number]
            self.views[number] = View(graph, self.graph, self.choice)
        return self.views[number]

    def bodies(self, number: int, row: Row) -> list[int]:
        """The child graphs that a row's op runs."""
        if isinstance(row, Module):
            return []
        return [b for b in self.view(number).bodies(row[0]) if 0 <= b < len(self.graph.children)]

    def below(self, number: int, module: Module) -> Iterator[tuple[int, Module]]:
        """The containers and bodies that come into sight when ``module`` is opened."""
        for row in self.view(number).rows(module):
            if isinstance(row, Module):
                yield number, row
            for body in self.bodies(number, row):
                yield body, self.view(body).tree

    def cost(self, number: int, module: Module) -> int:
        """Boxes that opening ``module`` adds."""
        rows = self.view(number).rows(module)
        return len(rows) + sum(len(self.bodies(number, row)) for row in rows) - 1


def open_forest(graph: GraphRecord, choice: Choice) -> Forest:
    """Open what was named first, then level by level what the choice wants and has room for.

    Raises PeekError for an ``expand`` that names no container.
    """
    forest = Forest(graph, choice)
    if choice.full:
        _grow(forest, lambda *place: True, _NO_LIMIT)
        return forest
    wanted = _wanted(forest)
    _grow(forest, lambda number, module, level: (number, module.path) in wanted, LIMIT)
    if choice.depth is not None:
        depth = choice.depth
        left = _grow(forest, lambda number, module, level: level < depth, LIMIT)
    else:
        left = _grow(
            forest, lambda number, module, level: not forest.view(number).is_primitive(module), COMFORT
        )
        _grow_all(forest, SMALL)
    _note(forest, left)
    return forest


def _wanted(forest: Forest) -> set[tuple[int, str]]:
    """The containers that ``expand`` names, and those around them."""
    wanted: set[tuple[int, str]] = set()
    missed = set(forest.choice.expand)
    if not missed:
        return wanted

    def mark(number: int, module: Module) -> bool:
        hits = {p for p in forest.choice.expand if module.path and _matches(module, p)}
        missed.difference_update(hits)
        inside = [mark(number, item) for item in module.items if isinstance(item, Module)]
        if hits or any(inside):
            wanted.add((number, module.path))
        return bool(hits) or any(inside)

    for number in (-1, *range(len(forest.graph.children))):
        mark(number, forest.view(number).tree)
    if missed:
        raise _no_match(forest, min(missed))
    return wanted


def _no_match(forest: Forest, pattern: str) -> PeekError:
    known = sorted({m.module or m.path for view in forest.views.values() for m in walk(view.tree)} - {""})
    close = nearest(pattern, known)
    shown = ", ".join(known[:10]) + (f", … {len(known) - 10} more" if len(known) > 10 else "")
    return PeekError(
        f"expand={pattern!r} names no module of graph {forest.graph.key}",
        "a pattern is a module's path, with * and ? for parts of it",
        (f"did you mean {close!r}? " if close else "")
        + (f"known: {shown}" if known else "it has no modules"),
    )


def _grow(forest: Forest, allowed: Callable[[int, Module, int], bool], cap: int) -> int:
    """Open, outermost first, what is allowed and leaves at most ``cap`` boxes; returns how many did not fit.

    The graph itself is always open.
    """
    queue = deque([(-1, forest.view(-1).tree, 0)])
    seen, refused = set(), 0
    while queue:
        number, module, level = queue.popleft()
        place = (number, module.path)
        if place in seen:
            continue
        seen.add(place)
        if place not in forest.open:
            if level and not allowed(number, module, level):
                continue
            cost = forest.cost(number, module)
            if level and forest.boxes + cost > cap:
                refused += 1
                continue
            forest.open.add(place)
            forest.boxes += cost
        queue.extend((n, child, level + 1) for n, child in forest.below(number, module))
    return refused


def _grow_all(forest: Forest, cap: int) -> None:
    """Open everything if that leaves at most ``cap`` boxes, else nothing."""
    before = set(forest.open), forest.boxes
    if _grow(forest, lambda *place: True, cap):
        forest.open, forest.boxes = before


def _note(forest: Forest, left: int) -> None:
    """Say how much was folded, and how to see more."""
    graph, choice = forest.graph, forest.choice
    nodes = len(graph.nodes) + sum(len(child.nodes) for child in graph.children)
    closed = _closed(forest)
    if not closed and not any(view.repeats for view in forest.views.values()):
        return
    forest.notes.append(f"folded {nodes:,} nodes to {forest.boxes:,} boxes")
    if left and choice.depth is not None:
        forest.notes.append(f"stopped at {LIMIT} boxes, before depth={choice.depth}")
    if closed:
        forest.notes.append(f"see more with expand={closed[0]!r} or full=True")


def _closed(forest: Forest) -> list[str]:
    """Paths of the containers that are drawn closed, the largest first."""
    found = {}
    for number, path in forest.open:
        for child, module in forest.below(number, forest.view(number).modules[path]):
            if module.path and (child, module.path) not in forest.open:
                found[module.path] = module.size
    return sorted(found, key=lambda path: (-found[path], path))
