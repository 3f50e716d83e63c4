"""Neighbours in the module tree that are built alike: found by a structural hash, and told apart again.

Comes in: a graph and its `Module` tree. Goes out: `Repeat` (a run of equal siblings, such as ``layers.0`` to
``layers.31``, with what differs inside it) and `Unlike` (a sibling that is built otherwise, and by which ops).

The hash of a container (a Merkle hash, linear in nodes and edges) covers the class, ops, targets, the form of
the arguments, the wiring inside, which inputs from outside go where, and which nodes are used outside. It
leaves out constants, types and the digits of module paths: siblings that differ only there fold, and the
differences are listed. Bodies of higher-order ops count by their own structure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from ..model import Arg, GraphRecord, Leaf, NodeRecord, TensorMeta, TupleInfo, ValueInfo
from .hierarchy import Item, Module, build_hierarchy, is_inlet, nodes_of, read_lists, walk

_DIGITS = re.compile(r"\d+")
_NUMBERED_SYMBOL = re.compile(r"\b(u|zuf|zf)\d+\b")
_PIECE = re.compile(r"#\d+$")
_MIN_FAMILY = 4
"""Siblings with a number in the name (``block1``) fold from this many ops on; ``fc1`` and ``fc2`` never do."""


class Difference(Struct, frozen=True):
    """One place in which the instances of a repeat differ.

    ``node`` is a node of the first instance; ``what`` is ``args``, a keyword's name, ``value`` (the type) or
    ``reads`` (another value from outside the repeat). ``values`` has each variant once with the paths of its
    instances: an Arg, for ``value`` a ValueInfo, for ``reads`` node indices.
    """

    node: int
    what: str
    values: tuple[tuple[Any, tuple[str, ...]], ...]


class Repeat(Struct, frozen=True):
    """Siblings next to each other with equal structure: the first one stands for all.

    ``chained`` says that an instance reads what the one before it made.
    """

    parent: str
    paths: tuple[str, ...]
    chained: bool
    differences: tuple[Difference, ...] = ()


class Unlike(Struct, frozen=True):
    """A sibling of the same family as a repeat that is built otherwise: ops it has more and fewer of."""

    path: str
    like: str
    more: tuple[tuple[str, int], ...]
    fewer: tuple[tuple[str, int], ...]


def find_repeats(
    graph: GraphRecord,
    tree: Module,
    keys: dict[str, int] | None = None,
    reads: list[list[int]] | None = None,
) -> tuple[Repeat, ...]:
    """Every run of two or more equal siblings, those inside a repeat's later instances left out.

    ``keys`` are those of `structure_keys`, ``reads`` of `read_lists`, made here unless given.
    """
    keys = keys or structure_keys(graph, tree)
    reads = read_lists(graph) if reads is None else reads
    found: list[Repeat] = []
    stack = [tree]
    while stack:
        parent = stack.pop()
        for run in _sibling_runs(parent.items, keys):
            stack.append(run[0])
            if len(run) > 1:
                found.append(describe_run(graph, parent, run, reads))
    return tuple(found)


def find_unlike(graph: GraphRecord, tree: Module, keys: dict[str, int] | None = None) -> tuple[Unlike, ...]:
    """Siblings that have the name and class of a repeat's instances but another structure."""
    keys = keys or structure_keys(graph, tree)
    found: list[Unlike] = []
    for parent in walk(tree):
        families: dict[Hashable, list[Module]] = {}
        for item in parent.items:
            if isinstance(item, Module) and item.kind == "module" and not _PIECE.search(item.path):
                families.setdefault((item.class_name, _family(item)), []).append(item)
        for members in families.values():
            found.extend(_odd_ones(graph, members, keys))
    return tuple(found)


def structure_keys(
    graph: GraphRecord,
    tree: Module,
    root: GraphRecord | None = None,
    reads: list[list[int]] | None = None,
) -> dict[str, int]:
    """The structural hash of every container by path, as a small number: equal numbers, equal structure.

    ``root`` is the graph whose ``children`` the nodes' ``body`` indexes, where ``graph`` is itself a child; ``reads``
    are those of `read_lists`, made here unless given.
    """
    hasher = _Hasher(graph, tree, _Numbers(graph if root is None else root), reads)
    hasher.enter(tree)
    return hasher.keys


def counterparts(instances: Sequence[Module]) -> dict[int, int]:
    """For every node of the later instances the node of the first that it repeats."""
    first = nodes_of(instances[0])
    return {node: twin for other in instances[1:] for node, twin in zip(nodes_of(other), first, strict=True)}


# --- the hash ---


class _Face(Struct, frozen=True):
    """A container seen from outside: its number, what it reads, its nodes used outside, its last position."""

    number: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    end: int


class _Numbers:
    """Numbers for structures, shared by a graph and the bodies it calls: equal structure, equal number."""

    def __init__(self, root: GraphRecord):
        self.root = root
        self.taken: dict[Hashable, int] = {}
        self.bodies: dict[int, int] = {}

    def of(self, structure: Hashable) -> int:
        return self.taken.setdefault(structure, len(self.taken))

    def of_body(self, index: int) -> int:
        """The number of a child graph; 0 inside itself, should a damaged file make it run itself."""
        if index not in self.bodies and 0 <= index < len(self.root.children):
            self.bodies[index] = 0
            body = self.root.children[index]
            tree = build_hierarchy(body)
            self.bodies[index] = _Hasher(body, tree, self).enter(tree).number
        return self.bodies.get(index, 0)


class _Hasher:
    """Walks one tree; ``keys`` gets the number of each container by path."""

    def __init__(
        self, graph: GraphRecord, tree: Module, numbers: _Numbers, reads: list[list[int]] | None = None
    ):
        self.graph, self.numbers = graph, numbers
        self.reads = read_lists(graph) if reads is None else reads
        self.keys: dict[str, int] = {}
        self.order = {node: position for position, node in enumerate(nodes_of(tree))}
        self.last_use = [-1] * len(graph.nodes)
        for index, refs in enumerate(self.reads):
            for ref in refs:
                self.last_use[ref] = max(self.last_use[ref], self.order[index])

    def enter(self, module: Module) -> _Face:
        """Number ``module`` after its items, whose places and ports name every value inside it."""
        inputs: dict[int, int] = {}
        places: dict[int, Hashable] = {}
        shape: list[Hashable] = [module.class_name, module.kind]
        end = -1
        for position, item in enumerate(module.items):
            label, reads, outputs, last = self._item(item)
            wires = [places[r] if r in places else ~inputs.setdefault(r, len(inputs)) for r in reads]
            shape.append((label, tuple(wires)))
            places.update({node: (position, port) for port, node in enumerate(outputs)})
            end = max(end, last)
        used = [node for node in places if self.last_use[node] > end]
        shape.append(tuple(places[node] for node in used))
        number = self.keys[module.path] = self.numbers.of(tuple(shape))
        return _Face(number, tuple(inputs), tuple(used), end)

    def _item(self, item: Item) -> tuple[Hashable, Sequence[int], Sequence[int], int]:
        """What stands at one place: its structure, the nodes it reads, those it offers, its last position."""
        if isinstance(item, Module):
            face = self.enter(item)
            return (_family(item), face.number), face.inputs, face.outputs, face.end
        label = _node_form(self.graph.nodes[item], self.numbers)
        return label, self.reads[item], (item,), self.order[item]


def _node_form(node: NodeRecord, numbers: _Numbers) -> Hashable:
    """A node without its constants, types and names."""
    if node.body is not None:
        return node.op, "body", numbers.of_body(node.body)
    if is_inlet(node):
        return node.op
    target = _DIGITS.sub("", node.target) if node.op == "call_module" else node.target
    kwargs = tuple((name, _arg_form(arg)) for name, arg in node.kwargs.items())
    return node.op, target, tuple(map(_arg_form, node.args)), kwargs


def _arg_form(arg: Arg) -> Hashable:
    """How an argument is nested and where it refers to nodes: ``r`` a node, ``c`` a constant, ``n`` None."""
    if type(arg) is Leaf:
        if arg.node is not None:
            return "r"
        for nested in (arg.slice, arg.dict, arg.nested):
            if nested is not None:
                return tuple(map(_arg_form, nested))
        return "c"
    if type(arg) is tuple:
        return tuple(map(_arg_form, arg))
    return "n" if arg is None else "c"


# --- runs of equal siblings ---


def _sibling_runs(items: Sequence[Item], keys: dict[str, int]) -> Iterator[list[Module]]:
    """The containers among ``items`` in runs that are equal, of one family, and next to each other."""
    run: list[Module] = []
    for item in items:
        if isinstance(item, Module):
            if run and _same(run[-1], item, keys):
                run.append(item)
                continue
            if run:
                yield run
            run = [item]
        elif run:
            yield run
            run = []
    if run:
        yield run


def _same(a: Module, b: Module, keys: dict[str, int]) -> bool:
    if keys[a.path] != keys[b.path] or _family(a) != _family(b):
        return False
    return a.size >= _MIN_FAMILY or (_is_numbered(a) and _is_numbered(b))


def _family(module: Module) -> str:
    """The name without digits and call marks: ``layers.3`` and ``layers.12@1`` are one family."""
    return _DIGITS.sub("", module.name.split("@")[0].split("#")[0])


def _is_numbered(module: Module) -> bool:
    """Whether the name is a place in a list (``layers.3``) or one call of several (``layer@1``)."""
    return module.name.rpartition(".")[2].split("#")[0].isdigit() or module.path != module.module


def _odd_ones(graph: GraphRecord, members: list[Module], keys: dict[str, int]) -> Iterator[Unlike]:
    """Those of a family whose structure is not the one that most of it has."""
    structure, count = Counter(keys[m.path] for m in members).most_common(1)[0]
    if count < 2:
        return
    model = next(m for m in members if keys[m.path] == structure)
    usual = _targets(graph, model)
    for member in members:
        if keys[member.path] != structure:
            targets = _targets(graph, member)
            more, fewer = targets - usual, usual - targets
            yield Unlike(member.path, model.path, tuple(more.items()), tuple(fewer.items()))


def _targets(graph: GraphRecord, module: Module) -> Counter[str]:
    nodes = (graph.nodes[i] for i in nodes_of(module))
    return Counter(n.target for n in nodes if not is_inlet(n) and n.op != "output")


# --- what differs inside a run ---


def describe_run(graph: GraphRecord, parent: Module, run: list[Module], reads: list[list[int]]) -> Repeat:
    """The Repeat of a run, its instances compared node by node with the first."""
    members = [nodes_of(module) for module in run]
    instance = {node: k for k, nodes in enumerate(members) for node in nodes}
    chained = any(
        instance.get(ref) == k - 1 for k in range(1, len(run)) for i in members[k] for ref in reads[i]
    )
    paths = tuple(module.path for module in run)
    own = _own_inputs(graph, reads, instance)
    differences: list[Difference] = []
    for twins in zip(*members, strict=True):
        nodes = [graph.nodes[i] for i in twins]
        if not _all_alike(nodes):
            differences.extend(_compare(twins[0], [_facets(node) for node in nodes], paths))
        operands = zip(*(reads[i] for i in twins), strict=True)
        for sources in operands:
            outside = [(r, path) for r, path in zip(sources, paths, strict=True) if r not in instance]
            if len({r for r, _ in outside} - own) > 1:
                differences.append(
                    _difference(twins[0], "reads", [(r, r) for r, _ in outside], tuple(p for _, p in outside))
                )
    return Repeat(parent.path, paths, chained, tuple(differences))


def _own_inputs(graph: GraphRecord, reads: list[list[int]], instance: dict[int, int]) -> set[int]:
    """Inputs that only one instance reads (its parameters): that they are others elsewhere is no difference."""
    readers: dict[int, set[int]] = {}
    for node, number in instance.items():
        for ref in reads[node]:
            if is_inlet(graph.nodes[ref]):
                readers.setdefault(ref, set()).add(number)
    return {ref for ref, numbers in readers.items() if len(numbers) == 1}


def _all_alike(nodes: list[NodeRecord]) -> bool:
    """Whether it is plain, before anything is made to compare, that no facet differs: so it is nearly everywhere."""
    first, *others = nodes
    key = _type_key(first.value)
    if any(_type_key(node.value) != key for node in others):
        return False
    if is_inlet(first):
        return True
    return all(
        _same_constants(first.args, node.args) and _same_kwargs(first.kwargs, node.kwargs) for node in others
    )


def _same_kwargs(a: dict[str, Arg], b: dict[str, Arg]) -> bool:
    return a.keys() == b.keys() and all(_same_constants(arg, b[name]) for name, arg in a.items())


def _same_constants(a: Arg, b: Arg) -> bool:
    """Whether two arguments have equal `_constants`."""
    if type(a) is not type(b):
        return False
    if type(a) is Leaf:
        return (a.node is not None and b.node is not None) or _constants(a) == _constants(b)
    return len(a) == len(b) and all(map(_same_constants, a, b)) if type(a) is tuple else a == b


_Facet = tuple[Hashable, Any]
"""What to compare, and what to show of it."""


def _facets(node: NodeRecord) -> dict[str, _Facet]:
    """What may differ between two nodes of equal structure."""
    facets: dict[str, _Facet] = {}
    if not is_inlet(node):
        facets["args"] = (_constants(node.args), node.args)
        facets.update({name: (_constants(arg), arg) for name, arg in node.kwargs.items()})
    facets["value"] = (_type_key(node.value), node.value)
    return facets


def _compare(node: int, facets: list[dict[str, _Facet]], paths: tuple[str, ...]) -> Iterator[Difference]:
    """A Difference for each facet that is not the same in all instances."""
    for what, (first, _) in facets[0].items():
        if any(f[what][0] != first for f in facets):
            yield _difference(node, what, [f[what] for f in facets], paths)


def _difference(node: int, what: str, facets: list[_Facet], paths: tuple[str, ...]) -> Difference:
    variants: dict[Hashable, tuple[Any, list[str]]] = {}
    for (key, shown), path in zip(facets, paths, strict=True):
        variants.setdefault(key, (shown, []))[1].append(path)
    return Difference(node, what, tuple((shown, tuple(where)) for shown, where in variants.values()))


def _constants(arg: Arg) -> Hashable:
    """An argument with its references blanked and its types told apart (1 is not True)."""
    if type(arg) is Leaf:
        if arg.node is not None:
            return None
        for nested in (arg.slice, arg.dict, arg.nested):
            if nested is not None:
                return tuple(map(_constants, nested))
        return _any_symbol(arg.sym) if arg.sym is not None else arg
    if type(arg) is tuple:
        return tuple(map(_constants, arg))
    return type(arg), arg


def _type_key(value: ValueInfo | None) -> Hashable:
    """A value's type, its storage and the numbers of unbacked and float symbols left out: each layer has its own."""
    if isinstance(value, TensorMeta):
        return (
            value.dtype,
            _any_sizes(value.shape, value.stride),
            value.device,
            value.layout,
            value.subclass,
            value.flags,
        )
    if isinstance(value, TupleInfo):
        return value.type, tuple(map(_type_key, value.items))
    return type(value), _any_symbol(getattr(value, "expr", "")), getattr(value, "hint", None)


@lru_cache(maxsize=4096)
def _any_sizes(shape: tuple[Any, ...], stride: tuple[Any, ...] | None) -> Hashable:
    return tuple(map(_any_symbol, (*shape, *(stride or ()))))


def _any_symbol(dim: Any) -> Any:
    return _NUMBERED_SYMBOL.sub(r"\1", dim) if isinstance(dim, str) else dim
