"""What functionalisation makes of each in-place op: an op without side effect, views made anew, the write-back at the end."""

from __future__ import annotations

from msgspec import Struct

from ..model import CaptureRecord, GraphRecord, Leaf, NodeRecord
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
    """Every in-place op of a Dynamo graph, with what its joint or inference graph made of it."""
    traced = (
        sibling(record, dynamo, "joint")
        or sibling(record, dynamo, "inference")
        or sibling(record, dynamo, "forward")
    )
    if traced is None:
        return []
    links = Provenance(record)
    return [_in_place(links, dynamo, traced, n) for n in dynamo.nodes if is_in_place(n)]


def _in_place(links: Provenance, dynamo: GraphRecord, traced: GraphRecord, node: NodeRecord) -> InPlaceOp:
    made = [links.node(p) for p in links.results((dynamo.key, node.index)) if p[0] == traced.key]
    made = [n for n in made if not _base_name(n).startswith("copy_") or n.op != "call_function"]
    writes = [n for n in made if _base_name(n).endswith(_SCATTERS)]
    views = [n for n in made if _base_name(n) in _VIEWS]
    rest = [n for n in made if n not in writes and n not in views and n.op == "call_function"]
    chain, root = _view_chain(dynamo, node)
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
