"""Edits and neutral changes of snapshots, each with what a diff must say of it."""

from __future__ import annotations

import heapq
import random
import re
from collections.abc import Callable
from itertools import pairwise

from msgspec.structs import replace

from peek_backend.diff.effects import is_impure
from peek_backend.diff.match import Interner, Side
from peek_backend.model.snapshot import (
    Break,
    Call,
    Graph,
    Input,
    Node,
    Place,
    Snapshot,
    SymType,
    TensorType,
    TupleType,
    Type,
)

# A mutation gives the new graph, and (kind, label of the node or name of the input) of the one edit that must be found;
# None when this graph has no place for it.
Mutation = Callable[[random.Random, Graph], "tuple[Graph, str, str] | None"]


def with_graph(snapshot: Snapshot, old: Graph, new: Graph) -> Snapshot:
    return replace(snapshot, entries=tuple([new if entry is old else entry for entry in snapshot.entries]))


def with_node(graph: Graph, index: int, **changes) -> Graph:
    nodes = list(graph.nodes)
    nodes[index] = replace(nodes[index], **changes)
    return replace(graph, nodes=tuple(nodes))


def renumbered(graph: Graph, nodes: list[Node], moved: dict[int, int]) -> Graph:
    """A graph with other nodes; ``moved`` maps old positions to new ones wherever they are used."""

    def move(operands: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([moved.get(o, o) for o in operands])

    output = replace(graph.output, operands=move(graph.output.operands))
    return replace(graph, nodes=tuple([replace(n, operands=move(n.operands)) for n in nodes]), output=output)


def tensors(graph: Graph) -> list[int]:
    return [k for k, node in enumerate(graph.nodes) if isinstance(node.type, TensorType)]


def used(graph: Graph) -> set[int]:
    """Positions that something reads."""
    return {o for node in graph.nodes for o in node.operands} | set(graph.output.operands)


# Edits


def insert_op(rng: random.Random, graph: Graph):
    """A multiplication behind a tensor, which all users now read."""
    first, read = len(graph.inputs), used(graph)
    places = [k for k in tensors(graph) if first + k in read]
    if not places:
        return None
    k = rng.choice(places)
    before = graph.nodes[k]
    label = f"{before.module}.inserted".lstrip(".")
    new = Node(label, "operator.mul", "\0, 1.0001", (first + k,), before.type, before.place)
    position = first + k
    moved = {p: p + 1 for p in range(position, first + len(graph.nodes))}
    shifted = renumbered(graph, list(graph.nodes), moved)
    head = [
        replace(n, operands=o.operands)
        for n, o in zip(shifted.nodes[: k + 1], graph.nodes[: k + 1], strict=True)
    ]
    return replace(shifted, nodes=(*head, new, *shifted.nodes[k + 1 :])), "op:added", label


def remove_op(rng: random.Random, graph: Graph):
    """An op taken out; its users read its first operand."""
    first, read = len(graph.inputs), used(graph)
    places = [k for k, n in enumerate(graph.nodes) if n.operands and n.operands[0] >= 0 and first + k in read]
    if not places:
        return None
    k = rng.choice(places)
    position, instead = first + k, graph.nodes[k].operands[0]
    moved = {position: instead} | {p: p - 1 for p in range(position + 1, first + len(graph.nodes))}
    nodes = [node for index, node in enumerate(graph.nodes) if index != k]
    return renumbered(graph, nodes, moved), "op:removed", graph.nodes[k].label


def swap_op(rng: random.Random, graph: Graph):
    """Another op with the same arguments."""
    places = [k for k, node in enumerate(graph.nodes) if not is_impure(node.target, node.template)]
    k = rng.choice(places)
    return with_node(graph, k, target="torch.another"), "op:changed", graph.nodes[k].label


def change_constant(rng: random.Random, graph: Graph):
    """One more than a number in the arguments of an op."""
    number = re.compile(r"(?<![\w.\-])\d+(?:\.\d+)?(?![\w.\]])(?=$|, )")
    places = [
        k for k, node in enumerate(graph.nodes) if number.search(node.template) and '"' not in node.template
    ]
    if not places:
        return None
    k = rng.choice(places)
    node = graph.nodes[k]
    match = rng.choice(list(number.finditer(node.template)))
    value = str(float(match[0]) + 1) if "." in match[0] else str(int(match[0]) + 1)
    template = node.template[: match.start()] + value + node.template[match.end() :]
    if is_impure(node.target, node.template) != is_impure(node.target, template):
        return None
    return with_node(graph, k, template=template), "op:constant", node.label


def swap_operands(rng: random.Random, graph: Graph):
    """``a - b`` becomes ``b - a``."""
    same = equal_values(graph)
    places = [
        k
        for k, node in enumerate(graph.nodes)
        if len(node.operands) >= 2
        and min(node.operands[:2]) >= 0
        and same[node.operands[0]] != same[node.operands[1]]
    ]
    if not places:
        return None
    k = rng.choice(places)
    a, b, *rest = graph.nodes[k].operands
    return with_node(graph, k, operands=(b, a, *rest)), "op:rewired", graph.nodes[k].label


def equal_values(graph: Graph) -> list[int]:
    """A number for each position, equal where the same is computed twice."""
    keys: dict = {}
    found = [keys.setdefault(("in", p), len(keys)) for p in range(len(graph.inputs))]
    for node in graph.nodes:
        found.append(
            keys.setdefault(
                (node.target, node.template, *[found[o] for o in node.operands if o >= 0]), len(keys)
            )
        )
    return found


def _changed_type(change: Callable[[TensorType], TensorType], kind: str) -> Mutation:
    def of_node(rng: random.Random, graph: Graph):
        places = tensors(graph)
        k = rng.choice(places)
        return with_node(graph, k, type=change(graph.nodes[k].type)), kind, graph.nodes[k].label

    return of_node


def _changed_input(change: Callable[[TensorType], TensorType], kind: str) -> Mutation:
    """An input of another type, and all tensors that come from it: one edit, the rest follow."""

    def of_input(rng: random.Random, graph: Graph):
        places = [j for j, entry in enumerate(graph.inputs) if isinstance(entry.type, TensorType)]
        if not places:
            return None
        j = rng.choice(places)
        dirty = {j}
        nodes = []
        for position, node in enumerate(graph.nodes, len(graph.inputs)):
            if dirty.intersection(node.operands) and isinstance(node.type, TensorType):
                dirty.add(position)
                nodes.append(replace(node, type=change(node.type)))
            else:
                nodes.append(node)
        inputs = list(graph.inputs)
        inputs[j] = replace(inputs[j], type=change(inputs[j].type))
        return replace(graph, inputs=tuple(inputs), nodes=tuple(nodes)), kind, inputs[j].name

    return of_input


def other_dtype(t: TensorType) -> TensorType:
    return replace(t, dtype="f16" if t.dtype != "f16" else "f64")


def other_shape(t: TensorType) -> TensorType:
    return replace(t, shape=(*t.shape, 3))


def other_device(t: TensorType) -> TensorType:
    return replace(t, device="cuda:1" if t.device != "cuda:1" else None)


def other_grad(t: TensorType) -> TensorType:
    return replace(t, grad=not t.grad)


def make_static(rng: random.Random, graph: Graph):
    """A symbol of an input's size becomes a number everywhere, and those after it are renumbered."""
    pure = [s for s in graph.symbols if any(s.name in getattr(i.type, "shape", ()) for i in graph.inputs)]
    if not pure:
        return None
    symbol = rng.choice(pure)
    left = [s for s in graph.symbols if s is not symbol]
    names = {symbol.name: "17"} | {s.name: f"s{k}" for k, s in enumerate(left)}
    place = f"{next(i.name for i in graph.inputs if symbol.name in getattr(i.type, 'shape', ()))}.shape["
    return with_symbols(replace(graph, symbols=tuple(left)), names), "dim:static", place


def swap_impure(rng: random.Random, graph: Graph):
    """Two neighbours among the ops with an effect, neither of which reads the other, change places."""
    side = Side(graph, Interner(), str)
    first = len(graph.inputs)
    impure = [k for k, flag in enumerate(side.impure) if flag]
    pairs = []
    for a, b in pairwise(impure):
        between = set(range(first + a, first + b))
        if (
            not between.intersection(side.operands[b])
            and not between.intersection(side.state[b])
            and side.calls[a] != side.calls[b]
        ):
            pairs.append((a, b))
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    order = list(range(len(graph.nodes)))
    order.insert(a, order.pop(b))
    return permuted(graph, order), "op:order", graph.nodes[a].label + "|" + graph.nodes[b].label


EDITS: dict[str, Mutation] = {
    "op inserted": insert_op,
    "op removed": remove_op,
    "op swapped": swap_op,
    "constant": change_constant,
    "operand order": swap_operands,
    "dtype of a node": _changed_type(other_dtype, "type:dtype"),
    "shape of a node": _changed_type(other_shape, "type:shape"),
    "device of a node": _changed_type(other_device, "type:device"),
    "requires_grad of a node": _changed_type(other_grad, "type:requires_grad"),
    "dtype of an input": _changed_input(other_dtype, "type:dtype"),
    "shape of an input": _changed_input(other_shape, "type:shape"),
    "device of an input": _changed_input(other_device, "type:device"),
    "dim made static": make_static,
    "order of impure ops": swap_impure,
}


def add_break(rng: random.Random, snapshot: Snapshot, graph: Graph) -> Snapshot | None:
    """Cuts a graph in two at a random node, as a break in its middle does."""
    if len(graph.nodes) < 4 or graph.bodies or graph.resume:
        return None
    k = rng.randrange(1, len(graph.nodes) - 1)
    first = len(graph.inputs)
    cut = first + k
    late = [o for n in graph.nodes[k:] for o in n.operands] + list(graph.output.operands)
    crossing = sorted({o for o in late if first <= o < cut})
    needed = sorted({o for o in late if 0 <= o < first})
    head_inputs = sorted({o for n in graph.nodes[:k] for o in n.operands if o < first})
    head = replace(
        renumbered(graph, list(graph.nodes[:k]), _positions([*head_inputs, *range(first, cut)])),
        inputs=tuple([graph.inputs[o] for o in head_inputs]),
        output=Call(
            ", ".join(["\0"] * len(crossing)),
            tuple([_positions([*head_inputs, *range(first, cut)])[o] for o in crossing]),
        ),
    )
    names = [Input(f"v{n}", graph.nodes[o - first].type) for n, o in enumerate(crossing)]
    moved = _positions([*needed, *crossing, *range(cut, first + len(graph.nodes))])
    tail = replace(
        renumbered(graph, list(graph.nodes[k:]), moved),
        resume=1,
        inputs=(*[graph.inputs[o] for o in needed], *names),
    )
    entries = []
    for entry in snapshot.entries:
        if entry is graph:
            entries += [head, Break("gb0059", Place("model.py", "f", 'print("n")'), "call of print"), tail]
        elif (
            isinstance(entry, Graph)
            and entry.resume
            and (entry.frame, entry.variant) == (graph.frame, graph.variant)
        ):
            entries.append(replace(entry, resume=entry.resume + 1))
        else:
            entries.append(entry)
    return replace(snapshot, entries=tuple(entries))


def _positions(order: list[int]) -> dict[int, int]:
    return {o: p for p, o in enumerate(order)}


# Neutral changes


def with_symbols(graph: Graph, names: dict[str, str]) -> Graph:
    """A graph whose symbols have other names, or are numbers."""
    word = re.compile(r"(?<![\w.])[su]\d+(?![\w.])")

    def text(expr: str):
        swapped = word.sub(lambda m: names.get(m[0], m[0]), expr)
        return int(eval(swapped)) if re.fullmatch(r"[\d\s+*/()-]+", swapped) else swapped

    def dim(size):
        return text(size) if isinstance(size, str) else size

    def of(t: Type) -> Type:
        if isinstance(t, TensorType):
            shape = tuple(map(dim, t.shape))
            stride = None if t.stride is None else tuple(map(dim, t.stride))
            return replace(
                t, shape=shape, stride=stride, inner=tuple([(name, of(part)) for name, part in t.inner])
            )
        if isinstance(t, SymType):
            return replace(t, expr=str(text(t.expr)))
        if isinstance(t, TupleType):
            return replace(t, items=tuple(map(of, t.items)))
        return t

    def node(n: Node) -> Node:
        return replace(n, type=of(n.type), template=word.sub(lambda m: names.get(m[0], m[0]), n.template))

    bodies = [
        replace(
            b, inputs=tuple([replace(i, type=of(i.type)) for i in b.inputs]), nodes=tuple(map(node, b.nodes))
        )
        for b in graph.bodies
    ]
    return replace(
        graph,
        symbols=tuple([replace(s, name=names.get(s.name, s.name)) for s in graph.symbols]),
        guards=tuple([str(text(g)) for g in graph.guards]),
        inputs=tuple([replace(i, type=of(i.type)) for i in graph.inputs]),
        nodes=tuple(map(node, graph.nodes)),
        bodies=tuple(bodies),
    )


def permuted(graph: Graph, order: list[int]) -> Graph:
    """The nodes in another order."""
    first = len(graph.inputs)
    moved = {first + old: first + new for new, old in enumerate(order)}
    return renumbered(graph, [graph.nodes[k] for k in order], moved)


def legal_reorder(rng: random.Random, graph: Graph) -> Graph:
    """Any order that keeps operands before users, ops with an effect in order, and reads on their side of writes."""
    side = Side(graph, Interner(), str)
    first, count = side.first, len(graph.nodes)
    before: list[set[int]] = [
        {o - first for o in (*side.operands[k], *side.state[k]) if o >= first} for k in range(count)
    ]
    impure = [k for k in range(count) if side.impure[k]]
    for a, b in pairwise(impure):
        before[b].add(a)
    # What reads memory before it is written stays before the write.
    for k in range(count):
        for later in impure:
            if later > k and {side.home[o] for o in side.operands[k]} & {
                side.home[o] for o in side.operands[later]
            }:
                before[later].add(k)
    after: list[list[int]] = [[] for _ in range(count)]
    waits = [len(found) for found in before]
    for k, found in enumerate(before):
        for o in found:
            after[o].append(k)
    ready = [(rng.random(), k) for k in range(count) if not waits[k]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, k = heapq.heappop(ready)
        order.append(k)
        for user in after[k]:
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, (rng.random(), user))
    return permuted(graph, order)


def rename_nodes(rng: random.Random, graph: Graph) -> Graph:
    """Other labels, as other local variables give them."""
    nodes = []
    for k, node in enumerate(graph.nodes):
        module, dot, _ = node.label.rpartition(".")
        nodes.append(replace(node, label=f"{module}{dot}r{rng.randrange(10**6)}_{k}"))
    return replace(graph, nodes=tuple(nodes))


def rename_inputs(rng: random.Random, graph: Graph) -> Graph:
    """Another name for the arguments (inputs that are no parameter), and so for the sources of symbols."""
    names = {
        entry.name: f"arg{rng.randrange(1000)}_{j}"
        for j, entry in enumerate(graph.inputs)
        if not getattr(entry.type, "grad", True) and "." not in entry.name
    }
    inputs = tuple([replace(entry, name=names.get(entry.name, entry.name)) for entry in graph.inputs])

    def source(text: str) -> str:
        for old, new in names.items():
            if text == old or text.startswith(f"{old}."):
                return new + text[len(old) :]
        return text

    symbols = tuple([replace(s, sources=tuple(map(source, s.sources))) for s in graph.symbols])
    return replace(graph, inputs=inputs, symbols=symbols)


def move_lines(rng: random.Random, graph: Graph) -> Graph:
    """Comments above, so other line numbers; other text on some lines."""
    nodes = []
    for node in graph.nodes:
        place = node.place and replace(
            node.place, line=rng.randrange(1000), code=rng.choice([node.place.code, "other = code()"])
        )
        nodes.append(replace(node, place=place))
    return replace(graph, nodes=tuple(nodes))


def renumber_symbols(rng: random.Random, graph: Graph) -> Graph:
    """Other numbers for the symbols."""
    names = [s.name for s in graph.symbols if s.name.startswith("s")]
    other = names[:]
    rng.shuffle(other)
    return with_symbols(graph, dict(zip(names, other, strict=True)))


NEUTRAL: dict[str, Callable[[random.Random, Graph], Graph]] = {
    "nodes renamed": rename_nodes,
    "arguments renamed": rename_inputs,
    "legal reorder": legal_reorder,
    "comments and line numbers": move_lines,
    "symbols renumbered": renumber_symbols,
}
