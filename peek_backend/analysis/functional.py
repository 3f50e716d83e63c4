"""What functionalisation makes of each in-place op: an op without side effect, views made anew, the write-back at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ..model import CaptureRecord, GraphRecord, Leaf, NodeRecord, node_refs
from ..model.inplace import IN_PLACE_FUNCTIONS
from .autograd import sibling
from .provenance import Provenance

_SCATTERS = (
    "scatter",
    "as_strided_scatter",
    "select_scatter",
    "slice_scatter",
    "diagonal_scatter",
    "index_put",
)
_VIEWS = frozenset(
    (
        *(
            "view",
            "reshape",
            "_unsafe_view",
            "select",
            "slice",
            "transpose",
            "permute",
            "t",
            "unsqueeze",
            "squeeze",
        ),
        *(
            "expand",
            "alias",
            "as_strided",
            "diagonal",
            "unbind",
            "split",
            "split_with_sizes",
            "detach",
            "view_as",
        ),
        *(
            "unfold",
            "flatten",
            "narrow",
            "chunk",
            "movedim",
            "swapaxes",
            "getitem",
            "T",
            "mT",
            "real",
            "imag",
        ),
    )
)


class InPlaceOp(Struct, frozen=True):
    """One in-place op of the Dynamo graph, and what the first ATen graph has for it.

    ``ops`` compute the new value, ``writes`` put it into the base of a view (``select_scatter``), ``views`` are made anew from
    that base; ``chain`` are the Dynamo graph's views between the operand and what it is a view of. ``input`` is the input that it
    changes in the end, ``epilogue`` how that is written back; both empty for a value of the graph's own.
    """

    node: NodeRecord
    ops: tuple[NodeRecord, ...]
    writes: tuple[NodeRecord, ...]
    views: tuple[NodeRecord, ...]
    chain: tuple[NodeRecord, ...] = ()
    input: str = ""
    epilogue: str = ""


def in_place_ops(record: CaptureRecord, dynamo: GraphRecord) -> list[InPlaceOp]:
    """Every op of a Dynamo graph that writes in place, with what its joint or inference graph made of it.

    One that writes several inputs, as a batch norm in training, stands there for each.
    """
    traced = (
        sibling(record, dynamo, "joint")
        or sibling(record, dynamo, "inference")
        or sibling(record, dynamo, "forward")
    )
    if traced is None:
        return []
    links = Provenance(record)
    named = {n.index: _view_chain(dynamo, n) for n in dynamo.nodes if is_in_place(n)}
    written = {root.index for _, root in named.values() if root is not None}
    found = [_in_place(links, dynamo, traced, dynamo.nodes[i], *named[i]) for i in named]
    for node, root in _silent_writes(links, dynamo, traced, written):
        found.append(_in_place(links, dynamo, traced, node, [], root))
    return sorted(found, key=lambda op: op.node.index)


def _silent_writes(
    links: Provenance, dynamo: GraphRecord, traced: GraphRecord, written: set[int]
) -> Iterator[tuple[NodeRecord, NodeRecord]]:
    """Ops that write an input though no name says so, as a batch norm does its running statistics; and the input.

    Those are the readers of a mutated input from which its write-back comes, or the only reader.
    """
    inputs = [n for n in dynamo.nodes if n.op == "placeholder"]
    for mutated in traced.lowering.mutated if traced.lowering else ():
        root = inputs[mutated.input]
        if not mutated.data or root.index in written:
            continue
        readers = [n for n in dynamo.nodes if n.op.startswith("call") and root.index in node_refs(n)]
        values = [links.node(place) for place in _written_back(links, dynamo, traced, root)]
        origins = {i for value in values for key, i in value.origins if key == dynamo.key}
        writers = [n for n in readers if n.index in origins]
        # A graph that came as text has origins by line, where another op of the line may look more alike.
        writers = writers or [n for n in readers if any(_line(n) == _line(value) for value in values)]
        for node in writers or (readers if len(readers) == 1 else ()):
            yield node, root


def _written_back(
    links: Provenance, dynamo: GraphRecord, traced: GraphRecord, root: NodeRecord
) -> Iterator[tuple[str, int]]:
    """The values that the ATen graph copies into an input at its end."""
    entries = [i for key, i in links.results((dynamo.key, root.index)) if key == traced.key]
    for node in filter(_is_write_back, traced.nodes):
        target, value, *_ = node_refs(node)
        if target in entries:
            yield traced.key, value


def _line(node: NodeRecord) -> tuple[str | None, int | None] | None:
    return (node.source.file, node.source.line) if node.source is not None else None


def _is_write_back(node: NodeRecord) -> bool:
    return node.op == "call_function" and _base_name(node) == "copy_" and len(node_refs(node)) > 1


def _in_place(
    links: Provenance,
    dynamo: GraphRecord,
    traced: GraphRecord,
    node: NodeRecord,
    chain: Sequence[NodeRecord],
    root: NodeRecord | None,
) -> InPlaceOp:
    # Taking a result out of several makes nothing, and is no view: those of ATen have names of their own.
    made = [links.node(p) for p in links.results((dynamo.key, node.index)) if p[0] == traced.key]
    made = [n for n in made if not _is_write_back(n) and n.target != "operator.getitem"]
    writes = [n for n in made if _base_name(n).endswith(_SCATTERS)]
    views = [n for n in made if _base_name(n) in _VIEWS]
    rest = [n for n in made if n not in writes and n not in views and n.op == "call_function"]
    name, epilogue = _epilogue(dynamo, traced, root)
    return InPlaceOp(node, tuple(rest), tuple(writes), tuple(views), tuple(chain), name, epilogue)


def is_in_place(node: NodeRecord) -> bool:
    """Whether a node of a Dynamo graph writes its first operand: ``add_``, ``x[0] = y``, ``+=``, ``out=``, ``inplace=True``."""
    if node.op not in ("call_function", "call_method"):
        return False
    name = _base_name(node)
    trailing = name.endswith("_") and not name.endswith("__")
    return (
        trailing or name in IN_PLACE_FUNCTIONS or node.kwargs.get("inplace") is True or "out" in node.kwargs
    )


def _base_name(node: NodeRecord) -> str:
    """``add_`` of ``aten.add_.Tensor``, ``torch.add_`` and the method ``add_``."""
    parts = node.target.split(".")
    return parts[1] if parts[0] == "aten" and len(parts) > 2 else parts[-1]


def _view_chain(dynamo: GraphRecord, node: NodeRecord) -> tuple[list[NodeRecord], NodeRecord | None]:
    """The views between the written operand and what it is a view of, outermost first."""
    chain: list[NodeRecord] = []
    now = _first_operand(dynamo, node)
    while now is not None and now.op != "placeholder":
        if _base_name(now) not in _VIEWS and not is_in_place(now):
            return chain, None
        if not is_in_place(now):
            chain.append(now)
        now = _first_operand(dynamo, now)
    return chain, now


def _first_operand(dynamo: GraphRecord, node: NodeRecord) -> NodeRecord | None:
    target = node.kwargs.get("out") or (node.args[0] if node.args else None)
    return dynamo.nodes[target.node] if isinstance(target, Leaf) and target.node is not None else None


def _epilogue(dynamo: GraphRecord, traced: GraphRecord, root: NodeRecord | None) -> tuple[str, str]:
    if root is None:
        return "", ""
    ordinal = [n.index for n in dynamo.nodes if n.op == "placeholder"].index(root.index)
    name = (root.source.input if root.source else None) or root.name
    for mutated in traced.lowering.mutated if traced.lowering else ():
        if mutated.input == ordinal:
            return (
                name,
                mutated.how if mutated.output is None else f"{mutated.how}, from output {mutated.output}",
            )
    return name, ""
