"""From a flat list of nodes to a tree of module containers whose collapsed graph never has a cycle.

Comes in: a GraphRecord. Goes out: a `Module` tree in which every node stands exactly once.

* A container is one *call* of a module (``Source.call``), so that a module used twice is two boxes.
* Within a module, and in plain functions, what called functions did is grouped by the call stack: a run of nodes
  under one call (``apply_rotary_pos_emb()``) is a container, nested as the calls were.
* Where calls interleave (joint and backward graphs visit a module twice) only the containers that take part
  in a cycle are split, into runs of neighbouring nodes: ``layers.0`` and ``layers.0#2``.
* A container keeps at most ``max_children`` items; more are put into chunks of neighbours.
* Parameters, buffers and constants live in the smallest container that holds all their users.

If the items of every container form a DAG, so does every picture with some containers closed: a cycle of
boxes would project onto a cycle of items of their lowest common container.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Union

from msgspec import Struct

from ..model import GraphRecord, NodeRecord, Source, node_refs
from .kinds import node_kind

MAX_CHILDREN = 1000
MAX_DEPTH = 64
"""Containers nest at most this deep; what is deeper stays in the last one."""

_MIN_FUNCTION_RUN = 3
_IN_TORCH = re.compile(r"[\\/]torch[\\/]")
_LAST_MARK = re.compile(r"(@\d+)?(#\d+)?$")
_CALL_MARK = re.compile(r"@\d+(?=\.|$)")
_NO_OPS = frozenset({"placeholder", "get_attr", "output"})
_INLINE_KINDS = frozenset({"parameter", "buffer", "global", "closure", "size", "state"})


class Module(Struct, frozen=True):
    """One container and what is in it.

    ``path`` is unique in the tree: the call path, with ``#2`` for a later container of the same path, empty
    for the root. ``module`` is the path without these marks, ``name`` its last part for a label, ``kind`` one
    of ``root``, ``module``, ``function``, ``chunk``. ``items`` holds node indices and Modules in topological
    order; inputs come first. ``edges`` are the values that pass between two items, each at the lowest module
    that holds both ends: (position from, position to, uses). ``size`` counts the nodes inside that compute
    something (no placeholder, get_attr or output).
    """

    path: str
    module: str
    name: str
    class_name: str
    kind: str
    items: tuple[Item, ...]
    edges: tuple[tuple[int, int, int], ...]
    size: int


Item = Union[int, Module]


def build_hierarchy(
    graph: GraphRecord, *, max_children: int = MAX_CHILDREN, reads: list[list[int]] | None = None
) -> Module:
    """The module tree of ``graph``; child graphs are trees of their own. Linear in nodes and edges.

    ``reads`` are those of `read_lists`, made here unless given.
    """
    reads = read_lists(graph) if reads is None else reads
    chains = _module_chains(graph)
    functions = _add_functions(graph, chains)
    job = _Job(chains, reads, max_children, functions)
    inside = [n.index for n in graph.nodes if not is_inlet(n)]
    root = _Container("", "", None, "root")
    _fill(root, inside, job)
    _place_inlets(graph, root, reads)
    _number(root)
    _lift_edges(root, reads, len(graph.nodes))
    return _freeze(root, graph)


def read_lists(graph: GraphRecord) -> list[list[int]]:
    """For each node the nodes it reads, repeats included; a reference to no earlier node is dropped."""
    return [[r for r in node_refs(node) if 0 <= r < node.index] for node in graph.nodes]


def is_inlet(node: NodeRecord) -> bool:
    """Whether the node only names something from outside: a placeholder or an attribute."""
    return node.op in ("placeholder", "get_attr")


def is_inline(node: NodeRecord) -> bool:
    """Whether the inlet belongs to its users, not to the caller: parameter, constant, size, a module's attribute."""
    if node.op == "get_attr":
        return True
    source = node.source
    if node.op != "placeholder" or source is None:
        return False
    return source.input_kind in _INLINE_KINDS or "._modules[" in (source.origin or "")


def walk(module: Module) -> Iterator[Module]:
    """``module`` and every container below it, parents first."""
    stack = [module]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(item for item in reversed(current.items) if isinstance(item, Module))


def nodes_of(module: Module) -> list[int]:
    """Indices of all nodes in ``module``, depth first: a topological order."""
    found: list[int] = []
    stack: list[Item] = [module]
    while stack:
        item = stack.pop()
        if isinstance(item, Module):
            stack.extend(reversed(item.items))
        else:
            found.append(item)
    return found


def plain_path(path: str) -> str:
    """A path without call marks: ``block@1.fc`` is ``block.fc``."""
    return _CALL_MARK.sub("", path)


class _Container:
    """A Module while it is built."""

    __slots__ = ("depth", "edges", "inlets", "items", "kind", "module", "parent", "path", "position")

    def __init__(self, path: str, module: str, parent: _Container | None, kind: str):
        self.path, self.module, self.parent, self.kind = path, module, parent, kind
        self.depth = 0 if parent is None else parent.depth + 1
        self.items: list[int | _Container] = []
        self.inlets: list[int] = []
        self.edges: dict[tuple[int, int], int] = {}
        self.position = 0


class _Job:
    """What all steps of one build share. ``taken`` counts the containers of each path."""

    __slots__ = ("chains", "functions", "max_children", "reads", "taken")

    def __init__(self, chains: list[_Chain], reads: list[list[int]], max_children: int, functions: set[str]):
        self.chains, self.reads, self.max_children, self.functions = chains, reads, max_children, functions
        self.taken: dict[str, int] = {}

    def unique(self, path: str) -> str:
        """``path`` itself the first time, then ``path#2`` and so on."""
        count = self.taken[path] = self.taken.get(path, 0) + 1
        return path if count == 1 else f"{path}#{count}"


_Chain = tuple[str, ...]
"""The paths of the containers around a node, outermost first."""

_Group = tuple[str, list[int]]
"""A container to be: its path and its nodes in order."""


# --- which containers a node stands in ---


def _module_chains(graph: GraphRecord) -> list[_Chain]:
    """For each node the call paths of its modules, outermost first."""
    known = set(graph.modules)
    known.update(n.source.module for n in graph.nodes if n.source is not None)
    cache: dict[str, _Chain] = {"": ()}
    chains = []
    for node in graph.nodes:
        call = "" if node.source is None or node.op == "output" else node.source.call or node.source.module
        chain = cache.get(call)
        if chain is None:
            chain = cache[call] = _prefixes(call, known)
        chains.append(chain)
    return chains


def _prefixes(call: str, known: set[str]) -> _Chain:
    """The call paths that lead to ``call``: a new one at every known module, so ``layers.0`` is one step."""
    parts = call.split(".")
    found = [prefix for end in range(1, len(parts)) if plain_path(prefix := ".".join(parts[:end])) in known]
    return (*found[: MAX_DEPTH - 1], call)


def _add_functions(graph: GraphRecord, chains: list[_Chain]) -> set[str]:
    """Lengthen the chains by the calls that led to each node within its module; returns the new paths.

    The frames that all nodes of a module share are how the module itself was reached, and are no containers.
    """
    frames = _Frames(graph)
    groups: dict[_Chain, list[int]] = {}
    for node in graph.nodes:
        if node.op not in _NO_OPS and not _is_switch(node):
            groups.setdefault(chains[node.index], []).append(node.index)
    new: set[str] = set()
    for chain, nodes in groups.items():
        _nest(frames, chains, chain, nodes, new)
    _join_neighbours(graph, chains)
    return new


def _join_neighbours(graph: GraphRecord, chains: list[_Chain]) -> None:
    """Switches without a line of the user's (vmap's levels) stand in the smallest container that holds both their neighbours."""
    ops = [n for n in graph.nodes if n.op not in _NO_OPS]
    placed = [
        n.index for n in ops if _has_line(n) and not (_is_switch(n) and _IN_TORCH.search(n.source.file))
    ]
    for before, after in itertools.pairwise(placed):
        inside = _common_chain(chains[before], chains[after])
        for between in range(before + 1, after):
            own = chains[between]
            # A module of its own is not left for the neighbours': only what stands further out moves in.
            if graph.nodes[between].op not in _NO_OPS and own == inside[: len(own)]:
                chains[between] = inside


def _has_line(node: NodeRecord) -> bool:
    return node.source is not None and node.source.file is not None


def _common_chain(one: _Chain, other: _Chain) -> _Chain:
    pairs = zip(one, other, strict=False)
    return one[: sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))]


def _nest(frames: _Frames, chains: list[_Chain], chain: _Chain, nodes: list[int], new: set[str]) -> None:
    """Give runs of at least three nodes under one call, not all the nodes there are, a container below ``chain``."""
    start = frames.shared(nodes)
    calls: dict[str, int] = {}
    for call, run in frames.runs(nodes, start):
        if call is None or not _MIN_FUNCTION_RUN <= len(run) < len(nodes) or len(chain) >= MAX_DEPTH:
            continue
        name = f"{chain[-1]}.{call}()" if chain else f"{call}()"
        count = calls[name] = calls.get(name, -1) + 1
        path = f"{name}@{count}" if count else name
        new.add(path)
        for index in run:
            chains[index] = (*chain, path)
        _nest(frames, chains, (*chain, path), run, new)


def _is_switch(node: NodeRecord) -> bool:
    """Whether the node only turns something on or off (autocast, vmap's levels): it ends no run of its neighbours."""
    return node.value is None and node.body is None and node_kind(node) == "control"


class _Frames:
    """The functions that were running when each node was made, outermost first: (file, function, calling line)."""

    def __init__(self, graph: GraphRecord):
        cache: dict[tuple[int | None, str | None, str | None], tuple[tuple[str, str, int], ...]] = {}
        self.of: list[tuple[tuple[str, str, int], ...]] = []
        for node in graph.nodes:
            source = node.source
            if source is None or source.file is None:
                self.of.append(())
                continue
            key = (source.caller, source.file, source.function)
            if key not in cache:
                cache[key] = _stack(graph, source)
            self.of.append(cache[key])

    def shared(self, nodes: list[int]) -> int:
        """How many outer functions all ``nodes`` have in common."""
        stacks = {self.of[i] for i in nodes}
        count = 0
        for level in zip(*stacks):  # noqa: B905 - up to the shortest
            if len({frame[:2] for frame in level}) > 1:
                break
            count += 1
        return count

    def runs(self, nodes: list[int], level: int) -> list[tuple[str | None, list[int]]]:
        """Neighbours under one call at ``level``, with the function's name; None for those not in a call.

        What torch's own files call (``vmap``'s inside) counts as the work of whoever called torch.
        """
        found: list[tuple[str | None, list[int]]] = []
        last: object = self
        for index in nodes:
            stack = self.of[index]
            call = stack[level] if len(stack) > level and not _IN_TORCH.search(stack[level][0]) else None
            if call != last:
                found.append((call[1] if call else None, []))
            found[-1][1].append(index)
            last = call
        return found


def _stack(graph: GraphRecord, source: Source) -> tuple[tuple[str, str, int], ...]:
    """The frames of a node: those of its callers and its own."""
    known = source.caller is not None and 0 <= source.caller < len(graph.stacks)
    outer = graph.stacks[source.caller] if known else ()
    lines = (0, *(frame.line for frame in outer))
    names = [*((f.file, f.function) for f in outer), (source.file or "", source.function or "?")]
    frames = zip(names, lines, strict=True)
    # A comprehension is no function of its own to a reader.
    return tuple((file, name, line) for (file, name), line in frames if not name.startswith("<"))


# --- the tree of what computes ---


def _fill(box: _Container, nodes: list[int], job: _Job, level: int = 0) -> None:
    """Put ``nodes`` (ascending) into ``box``, those with deeper chains into new containers below it."""
    items, contiguous = _partition(nodes, job.chains, level)
    if not contiguous:
        items = _untangle(items, job.reads)
    for item in items:
        if type(item) is int:
            box.items.append(item)
            continue
        path, members = item
        kind = "function" if path in job.functions else "module"
        child = _Container(job.unique(path), plain_path(path), box, kind)
        _fill(child, members, job, level + 1)
        box.items.append(child)
    _chunk(box, job.max_children)


def _partition(nodes: Iterable[int], chains: list[_Chain], level: int) -> tuple[list[int | _Group], bool]:
    """Own nodes and groups in order of their first node, and whether every group is one run."""
    items: list[int | _Group] = []
    groups: dict[str, list[int]] = {}
    last, contiguous = None, True
    for index in nodes:
        chain = chains[index]
        if len(chain) <= level:
            items.append(index)
            last = None
            continue
        path = chain[level]
        members = groups.get(path)
        if members is None:
            members = groups[path] = []
            items.append((path, members))
        elif path != last:
            contiguous = False
        members.append(index)
        last = path
    return items, contiguous


def _untangle(items: list[int | _Group], reads: list[list[int]]) -> list[int | _Group]:
    """Split the groups that lie on a cycle into runs, and sort all items topologically.

    Items that can be peeled off from the front or the back are on no cycle. Within the rest, runs of
    neighbours in node order are intervals, and every edge goes to a later interval.
    """
    edges = _item_edges(items, reads)
    core = _core(edges, len(items))
    if core:
        kept = [item for pos, item in enumerate(items) if pos not in core]
        items = kept + _runs([items[pos] for pos in sorted(core)])
        edges = _item_edges(items, reads)
    return _topological(items, edges)


def _item_edges(items: list[int | _Group], reads: list[list[int]]) -> list[set[int]]:
    """For each item the positions of the items that read from it."""
    where = {i: pos for pos, item in enumerate(items) for i in _members(item)}
    out: list[set[int]] = [set() for _ in items]
    for index, pos in where.items():
        for ref in reads[index]:
            source = where.get(ref, pos)
            if source != pos:
                out[source].add(pos)
    return out


def _members(item: int | _Group) -> list[int]:
    return [item] if type(item) is int else item[1]


def _core(out: list[set[int]], count: int) -> set[int]:
    """Positions left when items without a predecessor, then without a successor, are taken away."""
    into: list[set[int]] = [set() for _ in range(count)]
    for pos, targets in enumerate(out):
        for target in targets:
            into[target].add(pos)
    left = _peel(set(range(count)), into, out)
    return _peel(left, out, into)


def _peel(left: set[int], before: list[set[int]], after: list[set[int]]) -> set[int]:
    """``left`` without all that follows from items that have nothing of ``left`` before them."""
    waiting = {pos: len(before[pos] & left) for pos in left}
    ready = [pos for pos, n in waiting.items() if n == 0]
    while ready:
        pos = ready.pop()
        del waiting[pos]
        for other in after[pos]:
            if other in waiting:
                waiting[other] -= 1
                if waiting[other] == 0:
                    ready.append(other)
    return set(waiting)


def _runs(items: list[int | _Group]) -> list[int | _Group]:
    """The nodes of ``items`` in order, each run of one group's nodes a group again."""
    tagged = sorted((i, pos) for pos, item in enumerate(items) for i in _members(item))
    result: list[int | _Group] = []
    last = None
    for index, pos in tagged:
        item = items[pos]
        if type(item) is int:
            result.append(item)
        elif pos == last:
            result[-1][1].append(index)  # type: ignore[index]
        else:
            result.append((item[0], [index]))
        last = pos
    return result


def _topological(items: list[int | _Group], out: list[set[int]]) -> list[int | _Group]:
    """``items`` so that readers come later; of those that are free, the one with the earliest node first."""
    waiting = [0] * len(items)
    for targets in out:
        for target in targets:
            waiting[target] += 1
    heap = [(_members(item)[0], pos) for pos, item in enumerate(items) if waiting[pos] == 0]
    heapq.heapify(heap)
    result = []
    while heap:
        _, pos = heapq.heappop(heap)
        result.append(items[pos])
        for target in out[pos]:
            waiting[target] -= 1
            if waiting[target] == 0:
                heapq.heappush(heap, (_members(items[target])[0], target))
    return result


def _chunk(box: _Container, max_children: int) -> None:
    """Put the items of a container that has too many into chunks of neighbours, evenly filled."""
    mark = "~"
    while len(box.items) > max_children:
        size = -(-len(box.items) // -(-len(box.items) // max_children))
        chunks: list[int | _Container] = []
        for start in range(0, len(box.items), size):
            chunk = _Container(f"{box.path}{mark}{start // size}", box.module, box, "chunk")
            chunk.items = box.items[start : start + size]
            _adopt(chunk)
            chunks.append(chunk)
        box.items = chunks
        mark += "~"


def _adopt(box: _Container) -> None:
    """Make ``box`` the parent of its items, and set the depths below it."""
    stack = [box]
    while stack:
        parent = stack.pop()
        for item in parent.items:
            if type(item) is _Container:
                item.parent, item.depth = parent, parent.depth + 1
                stack.append(item)


# --- inputs, edges, and the finished records ---


def _place_inlets(graph: GraphRecord, root: _Container, reads: list[list[int]]) -> None:
    """Give every inlet its container: the root, or the smallest that holds the users it belongs to."""
    home = _containers(root, len(graph.nodes))
    place: list[_Container | None] = [None] * len(graph.nodes)
    inline = [is_inline(n) for n in graph.nodes]
    for index, refs in enumerate(reads):
        user = home[index]
        for ref in refs:
            if inline[ref] and user is not None:
                before = place[ref]
                place[ref] = user if before is None else _common(before, user)
    for node in graph.nodes:
        if is_inlet(node):
            (place[node.index] or root).inlets.append(node.index)


def _containers(root: _Container, count: int) -> list[_Container | None]:
    """The container of each node."""
    home: list[_Container | None] = [None] * count
    stack = [root]
    while stack:
        box = stack.pop()
        for item in box.items:
            if type(item) is _Container:
                stack.append(item)
            else:
                home[item] = box
    return home


def _common(a: _Container, b: _Container) -> _Container:
    """The lowest container that holds both."""
    while a is not b:
        if a.depth >= b.depth:
            a = a.parent  # type: ignore[assignment]
        else:
            b = b.parent  # type: ignore[assignment]
    return a


def _number(root: _Container) -> None:
    """Put the inlets in front, and give every container its position in its parent."""
    stack = [root]
    while stack:
        box = stack.pop()
        box.items = [*box.inlets, *box.items]
        for position, item in enumerate(box.items):
            if type(item) is _Container:
                item.position = position
                stack.append(item)


def _lift_edges(root: _Container, reads: list[list[int]], count: int) -> None:
    """Count every use of a value at the lowest container that holds its producer and its reader."""
    home = _containers(root, count)
    position = [0] * count
    for box in {id(b): b for b in home if b is not None}.values():
        for pos, item in enumerate(box.items):
            if type(item) is int:
                position[item] = pos
    memo: dict[tuple[int, int], tuple[_Container, int | None, int | None]] = {}
    for index, refs in enumerate(reads):
        reader = home[index]
        for ref in refs:
            producer = home[ref]
            if producer is reader:
                edges, key = reader.edges, (position[ref], position[index])  # type: ignore[union-attr]
            else:
                pair = (id(producer), id(reader))
                found = memo.get(pair)
                if found is None:
                    found = memo[pair] = _meet(producer, reader)  # type: ignore[arg-type]
                common, start, end = found
                edges = common.edges
                key = (position[ref] if start is None else start, position[index] if end is None else end)
            edges[key] = edges.get(key, 0) + 1


def _meet(a: _Container, b: _Container) -> tuple[_Container, int | None, int | None]:
    """The lowest common container, and where in it a and b are (None: it is a or b itself)."""
    start = end = None
    while a is not b:
        if a.depth >= b.depth:
            a, start = a.parent, a.position  # type: ignore[assignment]
        else:
            b, end = b.parent, b.position  # type: ignore[assignment]
    return a, start, end


def _freeze(box: _Container, graph: GraphRecord, above: str = "") -> Module:
    """The finished record of a container; ``above`` is the module path that its name leaves out."""
    items: list[Item] = []
    size = 0
    for item in box.items:
        if type(item) is int:
            items.append(item)
            size += graph.nodes[item].op not in _NO_OPS
        else:
            inner = _freeze(item, graph, box.module)  # type: ignore[arg-type]
            items.append(inner)
            size += inner.size
    class_name = graph.modules.get(box.module, "") if box.kind == "module" else ""
    edges = tuple([(a, b, uses) for (a, b), uses in sorted(box.edges.items())])
    return Module(box.path, box.module, _name(box, above), class_name, box.kind, tuple(items), edges, size)


def _name(box: _Container, above: str) -> str:
    """The part of the path that the containers around it do not say, with its call mark."""
    if box.kind == "chunk":
        return f"part {int(box.path.rpartition('~')[2]) + 1}"
    below = box.module[len(above) + 1 :] if above and box.module.startswith(f"{above}.") else box.module
    mark = _LAST_MARK.search(box.path)
    return below + (mark.group() if mark else "")
