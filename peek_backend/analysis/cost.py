"""The price of a capture: FLOPs, bytes, parameters, by module, at any sizes.

Comes in: a record whose nodes have costs. Goes out: sums of them, as numbers where every symbol has a value, else as
expressions. Nothing here knows what an op costs; that is stored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from ..errors import PeekError, unknown_name
from ..model import (
    CaptureRecord,
    Dim,
    GraphRecord,
    HeldTensor,
    NodeCost,
    NodeRecord,
    SymbolInfo,
    iter_refs,
    iter_tensors,
    node_refs,
)
from ..model.graph import results_of
from .dims import Number, evaluate, symbols_in
from .folding import Folding
from .stats import captured_graphs
from .sums import total
from .totals import hints

PASSES = ("forward", "backward")


class ModuleCost(Struct, frozen=True):
    """What one module (or all its numbered siblings that are alike, ``layers.*``) costs, its submodules included.

    ``modules`` is how many paths it stands for; ``flops`` forward and backward together; ``moved`` bytes read and written;
    ``share`` of all FLOPs, 0 to 1, None while sizes are symbolic. ``parameters`` counts elements, tied ones once.
    """

    path: str
    kind: str
    modules: int
    depth: int
    parameters: int
    parameter_bytes: int
    flops: Dim
    backward_flops: Dim
    moved: Dim
    share: float | None


class Costs(Struct, frozen=True):
    """The sums over a capture. A training step has a forward and a backward; inference has a forward alone.

    ``flops`` is both together, ``bytes`` what is read and written by every op on its own, nothing fused; ``intensity`` their
    ratio in FLOP per byte. ``parameters`` counts elements of the model (tied ones once), ``parameter_bytes`` and
    ``buffer_bytes`` what they take.
    ``unknown`` are the reasons why parts are missing, with how many nodes each concerns.
    """

    flops: Dim
    forward_flops: Dim
    backward_flops: Dim
    read: Dim
    written: Dim
    parameters: int
    parameter_bytes: int
    trainable: int
    buffer_bytes: int
    unknown: tuple[tuple[str, int], ...]

    @property
    def bytes(self) -> Dim:
        return total((self.read, self.written))

    @property
    def intensity(self) -> float | None:
        """FLOP per byte; None while either is symbolic."""
        moved = self.bytes
        if isinstance(self.flops, str) or isinstance(moved, str) or not moved:
            return None
        return self.flops / moved


class Sizes:
    """Values of symbols: those of ``given`` (``{"s0": 8}``), and where ``traced``, for all others what was seen while
    tracing."""

    def __init__(self, given: Mapping[str, Number] | None = None, *, traced: bool = True):
        self._given, self._traced = dict(given or {}), traced
        self._known: dict[int, dict[str, Number]] = {}

    def of(self, graph: GraphRecord) -> dict[str, Number]:
        known = self._known.get(id(graph))
        if known is None:
            known = self._known[id(graph)] = {**(hints(graph) if self._traced else {}), **self._given}
        return known

    def at(self, size: Dim, graph: GraphRecord) -> Dim:
        """``size`` as a number where all of its symbols have values, else as it is."""
        if isinstance(size, int):
            return size
        number = evaluate(size, self.of(graph))
        return size if number is None else int(number)


def costed(record: CaptureRecord) -> list[tuple[str, GraphRecord]]:
    """The graphs to add up, each with the pass it belongs to, in the order in which they run.

    Of a training step the forward and the backward that AOTAutograd cut, backwards from the last forward to the first; of
    graphs without those the captured ones. Raises PeekError when no node has a cost.
    """
    captured = {id(g) for g in captured_graphs(record)}
    cut = {g.backend_call for g in record.graphs if g.stage == "forward"}
    forward = [
        g for g in record.graphs if g.stage == "forward" or (id(g) in captured and g.backend_call not in cut)
    ]
    backward = [g for g in reversed(record.graphs) if g.stage == "backward"]
    if forward and not any(n.cost is not None for g in (*forward, *backward) for n in g.nodes):
        fix = "use dryrun, or inspect(…, cost=True)"
        raise PeekError("this capture has no costs", "its graphs were recorded without", fix)
    return [("forward", g) for g in forward] + [("backward", g) for g in backward]


class PricedOp(NamedTuple):
    """A node with a price, the graph or body that it is in, and its module: for want of one in a body, that of the op that
    runs it."""

    owner: GraphRecord
    node: NodeRecord
    module: str


def priced_ops(graph: GraphRecord) -> Iterator[PricedOp]:
    """What costs something in a graph; in place of an op that runs a body (``cond``, a checkpoint) the nodes of the body that its
    price is that of: the dearer of two branches. An op whose price is that of none (a loop of many passes) stands for itself."""
    yield from _priced_in(graph, graph.children, "")


def _priced_in(owner: GraphRecord, bodies: Sequence[GraphRecord], outer: str) -> Iterator[PricedOp]:
    for node in owner.nodes:
        cost = node.cost
        if cost is None or not (cost.flops or cost.read or cost.written):
            continue
        module = (node.source.module if node.source is not None else "") or outer
        body = _priced_body(node, owner, bodies)
        if body is None:
            yield PricedOp(owner, node, module)
        else:
            yield from _priced_in(body, bodies, module)


def _priced_body(node: NodeRecord, owner: GraphRecord, bodies: Sequence[GraphRecord]) -> GraphRecord | None:
    """The body whose nodes together cost what the node that runs it does."""
    if not bodies or node.cost is None:
        return None
    found = [n.body for n in (node, *(owner.nodes[i] for i in node_refs(node))) if n.body is not None]
    own = _added_up([node.cost])
    for body in (bodies[i] for i in found if i < len(bodies)):
        if _added_up([n.cost for n in body.nodes if n.cost is not None]) == own:
            return body
    return None


def _added_up(costs: Sequence[NodeCost]) -> tuple[Dim, Dim, Dim]:
    return total(c.flops for c in costs), total(c.read for c in costs), total(c.written for c in costs)


def missing_backwards(record: CaptureRecord) -> list[tuple[str, str]]:
    """The captured graphs of a training step whose results ask for a gradient and that have no backward: each one's key, and
    why. Empty for inference."""
    if record.dryrun is None or not record.dryrun.train:
        return []
    cut = {g.backend_call for g in record.graphs if g.stage == "backward"}
    return [
        (g.key, _why_no_backward(record, g))
        for g in captured_graphs(record)
        if g.backend_call not in cut and _asks_for_gradient(g)
    ]


def _asks_for_gradient(graph: GraphRecord) -> bool:
    returned = [graph.nodes[i] for result in results_of(graph) for i in iter_refs(result)]
    return any(meta.requires_grad for node in returned for meta in iter_tensors(node.value))


def _why_no_backward(record: CaptureRecord, graph: GraphRecord) -> str:
    later = [
        g for g in record.graphs if g.backend_call == graph.backend_call and g.stage in ("joint", *PASSES)
    ]
    problem = next((p for g in later for p in g.problems), None)
    if problem is not None:
        return f"{problem.what}: {problem.why}" if problem.why else problem.what
    return "it was not among the stages that were recorded"


def costs(record: CaptureRecord, sizes: Sizes | None = None) -> Costs:
    """The sums over ``record``; with ``sizes`` at those, without as expressions. Raises PeekError when it has no costs."""
    parts = [
        (which, graph, node.cost)
        for which, graph in costed(record)
        for node in graph.nodes
        if node.cost is not None
    ]
    by_pass = {which: total(_at(sizes, c.flops, g) for w, g, c in parts if w == which) for which in PASSES}
    held = held_of(record)
    parameters = [t for t in held if not t.buffer]
    return Costs(
        flops=total(by_pass.values()),
        forward_flops=by_pass["forward"],
        backward_flops=by_pass["backward"],
        read=total(_at(sizes, c.read, g) for _, g, c in parts),
        written=total(_at(sizes, c.written, g) for _, g, c in parts),
        parameters=sum(t.numel for t in parameters),
        parameter_bytes=sum(t.nbytes for t in parameters),
        trainable=sum(t.numel for t in parameters if t.requires_grad),
        buffer_bytes=sum(t.nbytes for t in held if t.buffer),
        unknown=tuple(Counter(c.unknown for _, _, c in parts if c.unknown).most_common()),
    )


def _at(sizes: Sizes | None, size: Dim, graph: GraphRecord) -> Dim:
    return size if sizes is None else sizes.at(size, graph)


def held_of(record: CaptureRecord) -> list[HeldTensor]:
    """Parameters and buffers, each storage once: those of the dry run's model, else those that the graphs read."""
    held = record.dryrun.held if record.dryrun is not None else _held_in(record)
    return list({t.storage: t for t in reversed(held)}.values())[::-1]


def _held_in(record: CaptureRecord) -> tuple[HeldTensor, ...]:
    """Parameters and buffers among the inputs of the captured graphs, by name: one that two graphs read is one."""
    found: dict[str, HeldTensor] = {}
    for graph in captured_graphs(record):
        for node in graph.nodes:
            source = node.source
            if node.op != "placeholder" or source is None or source.input_kind not in ("parameter", "buffer"):
                continue
            name, cost = source.input or node.name, node.cost
            if name not in found and cost is not None and cost.made:
                found[name] = _held(node, name, len(found), cost, buffer=source.input_kind == "buffer")
    return tuple(found.values())


def _held(node: NodeRecord, name: str, storage: int, cost: NodeCost, *, buffer: bool) -> HeldTensor:
    value: Any = node.value
    size = cost.made[0][1]
    numel = 1
    for dim in getattr(value, "shape", ()):
        numel *= dim if isinstance(dim, int) else 1
    dtype, grad = getattr(value, "dtype", ""), getattr(value, "requires_grad", False)
    return HeldTensor(name, storage, numel, size if isinstance(size, int) else 0, dtype, buffer, grad)


def folding_of(record: CaptureRecord) -> Folding:
    """Which modules of the capture are shown as one."""
    held = (
        record.dryrun.held if record.dryrun is not None else _held_in(record)
    )  # tied ones by all their names
    return Folding.of(record, [t for t in held if not t.buffer])


def by_module(
    record: CaptureRecord, sizes: Sizes | None = None, *, depth: int | None = None, fold: bool = True
) -> list[ModuleCost]:
    """Every module that a node or a parameter is in, parents before children, in the order of use; the first is the whole.

    ``depth`` is the deepest level shown (the whole is 0). With ``fold``, numbered siblings that are alike are one line.
    """
    sums = _Sums(sizes, folding_of(record).label if fold else str)
    for which, graph in costed(record):
        for op in priced_ops(graph):
            sums.node(which, graph, op)
    for tensor in held_of(record):
        if not tensor.buffer:
            sums.parameter(tensor)
    classes = record.dryrun.modules if record.dryrun is not None else _classes(record)
    return [line for line in sums.lines(classes) if depth is None or line.depth <= depth]


def _classes(record: CaptureRecord) -> dict[str, str]:
    return {path: kind for graph in record.graphs for path, kind in graph.modules.items()}


class _Sum:
    """What is added up for one line."""

    def __init__(self) -> None:
        self.forward: list[Dim] = []
        self.backward: list[Dim] = []
        self.moved: list[Dim] = []
        self.numel = self.nbytes = 0
        self.paths: set[str] = set()


class _Sums:
    def __init__(self, sizes: Sizes | None, fold: Callable[[str], str]):
        self._sizes, self._fold = sizes, fold
        self._sums: dict[str, _Sum] = {"": _Sum()}
        self._chains: dict[str, tuple[_Sum, ...]] = {}
        self._own: dict[tuple[str, str], tuple[list[Dim], list[Dim]]] = {}

    def _above(self, path: str) -> tuple[_Sum, ...]:
        """The sums of all modules that contain one, from the whole down, and its own."""
        known = self._chains.get(path)
        if known is None:
            steps = path.split(".") if path else []
            wholes = [".".join(steps[:end]) for end in range(len(steps) + 1)]
            known = self._chains[path] = tuple([self._sum(whole) for whole in wholes])
        return known

    def _sum(self, path: str) -> _Sum:
        label = self._fold(path)
        if label not in self._sums:
            self._sums[label] = _Sum()
        self._sums[label].paths.add(path)
        return self._sums[label]

    def node(self, which: str, graph: GraphRecord, op: PricedOp) -> None:
        """Note what a node costs at its own module; ``lines`` adds it to those above. ``graph`` has its symbols."""
        cost, path = op.node.cost, op.module
        assert cost is not None
        flops, read, written = cost.flops, cost.read, cost.written
        if self._sizes is not None:
            flops, read, written = (self._sizes.at(x, graph) for x in (flops, read, written))
        if not (flops or read or written):
            return
        own = self._own.get((which, path))
        if own is None:
            self._above(path)  # modules stand in the order of use
            own = self._own[which, path] = ([], [])
        own[0].append(flops)
        own[1].extend((read, written))

    def parameter(self, tensor: HeldTensor) -> None:
        for sum_ in self._above(tensor.name.rpartition(".")[0]):
            sum_.numel += tensor.numel
            sum_.nbytes += tensor.nbytes

    def _spread(self) -> None:
        """Add what the nodes of each module cost to it and to all that contain it."""
        for (which, path), (flops, moved) in self._own.items():
            flop_sum, moved_sum = total(flops), total(moved)
            for sum_ in self._above(path):
                (sum_.forward if which == "forward" else sum_.backward).append(flop_sum)
                sum_.moved.append(moved_sum)
        self._own.clear()

    def lines(self, classes: Mapping[str, str]) -> Iterator[ModuleCost]:
        self._spread()
        whole = total([*self._sums[""].forward, *self._sums[""].backward])
        for path in _in_tree_order(list(self._sums)):
            sum_ = self._sums[path]
            forward, backward = total(sum_.forward), total(sum_.backward)
            kinds = dict.fromkeys(classes.get(p, "") for p in sorted(sum_.paths))
            both = total((forward, backward))
            yield ModuleCost(
                path=path,
                kind=", ".join(filter(None, kinds)),
                modules=len(sum_.paths),
                depth=path.count(".") + 1 if path else 0,
                parameters=sum_.numel,
                parameter_bytes=sum_.nbytes,
                flops=both,
                backward_flops=backward,
                moved=total(sum_.moved),
                share=both / whole if isinstance(both, int) and isinstance(whole, int) and whole else None,
            )


def _in_tree_order(paths: list[str]) -> list[str]:
    """Each path after its parent and before its parent's next sibling; siblings in the order they came."""
    children: dict[str, list[str]] = {}
    for path in paths:
        if path:
            children.setdefault(path.rpartition(".")[0], []).append(path)
    found: list[str] = []
    waiting = [""]
    while waiting:
        path = waiting.pop()
        found.append(path)
        waiting.extend(reversed(children.get(path, [])))
    return found


def resolved(record: CaptureRecord, given: Mapping[str, Number]) -> dict[str, Number]:
    """Values by symbol, where ``given`` may use the caller's names of dims too.

    Raises PeekError for a name that no graph has, a value that is no whole number, and one that the graphs are not for.
    """
    names = symbols_by_name(record)
    symbols = {s.name: s for g in record.graphs for s in g.symbols}
    known = {*symbols}
    known |= {name for _, g in costed(record) for n in g.nodes if n.cost for name in symbols_in(n.cost.flops)}
    values: dict[str, Number] = {}
    for name, value in given.items():
        if name not in known and name not in names:
            raise _no_symbol(name, {*known, *names})
        for each in names.get(name, (name,)):
            _check_size(name, value, symbols.get(each))
            values[each] = value
    _check_resumed(record, values, symbols)
    return values


def _check_resumed(
    record: CaptureRecord, values: Mapping[str, Number], symbols: Mapping[str, SymbolInfo]
) -> None:
    """PeekError where a size changes that a graph after a break has too, as a number or a symbol of its own.

    What an earlier graph computed comes into such a graph as any input does: with nothing to tell that it had the size.
    """
    hints_of = {name: symbols[name].hint for name in values if name in symbols}
    changed = {hint: name for name, hint in hints_of.items() if hint not in (None, values[name])}
    for graph, node, dim in _dims_after_breaks(record) if changed else ():
        size = dim if isinstance(dim, int) else hints(graph).get(dim)
        if dim not in values and size in changed:
            symbol = changed[size]
            own = {s: name for name, all_ in symbols_by_name(record).items() for s in all_}
            said = "a size of its own" if isinstance(dim, int) else f"a symbol of its own, {dim}"
            value = (node.source.input if node.source is not None else None) or node.name
            raise PeekError(
                f"{own.get(symbol, symbol)}={values[symbol]} does not reach graph {graph.key}",
                f"it goes on after a graph break, where {value}, {size} long too, has {said}",
                "give that size in the input's spec instead",
            )


def _dims_after_breaks(record: CaptureRecord) -> Iterator[tuple[GraphRecord, NodeRecord, Dim]]:
    """The dims of what graphs that go on after a break get from those before it."""
    captured = captured_graphs(record)
    resumed = {i for i, f in enumerate(record.frames) if f.resume_of is not None or f.outer is not None}
    given = {
        n.source.input for g in captured if g.frame not in resumed for n in g.nodes if n.source is not None
    }
    for graph in captured:
        for node in graph.nodes if graph.frame in resumed else ():
            if node.op == "placeholder" and node.source is not None and node.source.input not in given:
                for meta in iter_tensors(node.value):
                    yield from ((graph, node, dim) for dim in meta.shape)


def symbols_by_name(record: CaptureRecord) -> dict[str, tuple[str, ...]]:
    """The symbols of each name that the caller of a dry run gave to dims."""
    about = record.dryrun
    if about is None:
        return {}
    return {
        name: (first, *(s for s, other in about.aliases.items() if other == name))
        for name, first in about.sizes.items()
    }


def _check_size(name: str, value: Any, symbol: SymbolInfo | None) -> None:
    """PeekError for a value that is no size, or one at which torch would compile another graph."""
    whole = symbol is None or symbol.type == "int"
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise PeekError(f"{name}={value!r} is no size", "sizes are whole numbers", f"write {name}=8")
    _check_range(name, value, symbol)


def _check_range(name: str, value: Number, symbol: SymbolInfo | None) -> None:
    """PeekError for a size at which torch would compile another graph."""
    fixed = symbol.replaced_by if symbol is not None else None
    if fixed is not None and fixed.isdecimal() and int(fixed) != value:
        raise PeekError(
            f"{name} is always {fixed}", "the program fixes it", "give that size in the input's spec"
        )
    low = (symbol.lower if symbol is not None else None) or 0
    high = symbol.upper if symbol is not None and symbol.upper is not None else math.inf
    if not low <= value <= high:
        most = "∞" if high == math.inf else f"{high:,}"
        why = f"these graphs hold for {low} to {most}; torch compiles others for it"
        raise PeekError(f"{name}={value} is out of range", why, "give that size in the input's spec instead")


def _no_symbol(name: str, known: set[str]) -> PeekError:
    if known:
        return unknown_name("symbol", name, known)
    return PeekError(
        f"no symbol {name!r}", "every size is a number", "make a dim dynamic: 'i64[batch=8, 16]'"
    )
