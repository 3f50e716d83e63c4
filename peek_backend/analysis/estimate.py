"""What nodes cost, worked out from shapes alone: for captures that were recorded without prices.

Comes in: a record. Goes out: the same record, every op of a graph without prices having one. Recorded prices are better (they
know every kernel) and are left as they are; here FLOPs are those of matrix products, convolutions and attention by the
textbook, as ``torch.utils.flop_counter`` counts them, and bytes those of the tensors that an op reads and writes, none for a
view. ``tests/analysis/test_estimate.py`` holds both against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from peek_backend.model import (
    CaptureRecord,
    Dim,
    GraphRecord,
    Leaf,
    NodeCost,
    NodeRecord,
    TensorMeta,
    iter_tensors,
    node_refs,
)
from peek_backend.passes.kinds import node_kind

from .dims import product
from .functional import is_in_place
from .sums import total
from .totals import ITEM_BYTES, is_op

Tensors = Sequence[TensorMeta]
Shape = Sequence[Dim]


def is_priced(graph: GraphRecord) -> bool:
    """Whether any node has a recorded price."""
    return any(node.cost is not None for node in graph.nodes)


def estimated(record: CaptureRecord) -> CaptureRecord:
    """``record`` with a price for every node that follows from shapes; graphs with recorded prices keep those."""
    return replace(record, graphs=tuple([g if is_priced(g) else _graph(g) for g in record.graphs]))


def _graph(graph: GraphRecord) -> GraphRecord:
    seen: set[int] = set()
    known: dict[Any, tuple[Dim, Dim, Dim]] = {}
    return replace(graph, nodes=tuple([_node(graph, node, seen, known) for node in graph.nodes]))


def _node(graph: GraphRecord, node: NodeRecord, seen: set[int], known: dict[Any, tuple]) -> NodeRecord:
    """The node with its price; ``seen`` are the storages that earlier ones hold, ``known`` prices by what they depend on."""
    out = list(iter_tensors(node.value))
    made = tuple(_new_storages(out, seen))
    if not is_op(node):
        return replace(node, cost=NodeCost(made=made)) if made else node
    given = [t for ref in dict.fromkeys(node_refs(node)) for t in iter_tensors(graph.nodes[ref].value)]
    fresh = bool(made) or (any(t.storage is None for t in out) and node_kind(node) != "view")
    works = fresh or is_in_place(node)
    key = (node.target, works, tuple(map(_key, given)), tuple(map(_key, out)), _numbers(node))
    price = known.get(key)
    if price is None:
        price = known[key] = _price(node, given, out, graph) if works else (0, 0, 0)
    return replace(node, cost=NodeCost(*price, made=made, unknown=_unknown(node)))


def _new_storages(out: Tensors, seen: set[int]) -> list[tuple[int, Dim]]:
    """Storages that are first held by these tensors, with the bytes of the largest."""
    found: list[tuple[int, Dim]] = []
    for meta in out:
        if meta.storage is not None and meta.storage not in seen:
            seen.add(meta.storage)
            found.append((meta.storage, _bytes(meta)))
    return found


def _key(meta: TensorMeta) -> Any:
    return (meta.shape, meta.stride, meta.dtype)


def _numbers(node: NodeRecord) -> tuple[str, ...]:
    """Arguments that FLOPs depend on beside the tensors' shapes."""
    return (str(node.kwargs.get("groups", "")), str(node.args[6:7])) if "conv" in node.target else ()


def _bytes(meta: TensorMeta) -> Dim:
    """Bytes that hold the tensor's elements: a dim that ``expand`` made is there once. 0 where they do not follow."""
    if meta.inner:
        return total(_bytes(inner) for inner in meta.inner.values() if isinstance(inner, TensorMeta))
    item = ITEM_BYTES.get(meta.dtype, 0)
    if meta.layout != "strided" or "nested" in meta.flags or not item:
        return 0
    strides = meta.stride if meta.stride is not None else (1,) * len(meta.shape)
    return product((item, *[d for d, s in zip(meta.shape, strides, strict=True) if s != 0]))


def _price(node: NodeRecord, given: Tensors, out: Tensors, graph: GraphRecord) -> tuple[Dim, Dim, Dim]:
    """FLOPs, bytes read, bytes written. What looks up rows of a table reads as many as it returns."""
    read = [_bytes(t) for t in given]
    written = total(map(_bytes, out))
    if _name(node.target) in _LOOKUPS and read:
        read[next((i for i, t in enumerate(given) if t.dtype not in ("int64", "int32")), 0)] = written
    return _flops(node, given, out, graph), total(read), written


_LOOKUPS = frozenset(("embedding", "index_select", "gather", "index", "take", "take_along_dim"))


def _unknown(node: NodeRecord) -> str:
    counts = node_kind(node) in ("matmul", "attention") and _name(node.target) not in _FORMULAS
    return "its FLOPs do not follow from shapes alone" if counts else ""


# ---- FLOPs: a multiply-add is two


def _flops(node: NodeRecord, given: Tensors, out: Tensors, graph: GraphRecord) -> Dim:
    name = "conv_transpose" if _is_transposed(node) else _name(node.target)
    formula = _FORMULAS.get(name)
    shapes = [t.shape for t in given]
    if formula is None or not out:
        return 0
    if len(given) < len(node_refs(node)):
        shapes = [t.shape for t in _operands(node, graph)]  # one tensor may stand in two places
    try:
        return formula(out[0].shape, *shapes)
    except (IndexError, TypeError, ValueError):
        return 0


def _operands(node: NodeRecord, graph: GraphRecord) -> list[TensorMeta]:
    """The tensors among the arguments in their places, repeats included."""
    refs = [
        arg.node
        for arg in (*node.args, *node.kwargs.values())
        if isinstance(arg, Leaf) and arg.node is not None
    ]
    values = [graph.nodes[ref].value for ref in refs]
    return [v for v in values if isinstance(v, TensorMeta)]


def _name(target: str) -> str:
    """``linear`` of ``torch.nn.functional.linear`` and of ``aten.linear.default``; convolutions are one."""
    parts = target.split(".")
    name = parts[1] if parts[0] == "aten" and len(parts) > 1 else parts[-1]
    name = name.strip("_")
    if name.startswith("conv_transpose"):
        return "conv_transpose"
    return "conv" if name in ("conv1d", "conv2d", "conv3d", "convolution") else name


def _is_transposed(node: NodeRecord) -> bool:
    """Whether ``aten.convolution(x, weight, bias, stride, padding, dilation, transposed, …)`` runs backwards."""
    return node.target.startswith("aten.convolution.") and len(node.args) > 6 and node.args[6] is True


def _linear(out: Shape, x: Shape, weight: Shape, *_bias: Shape) -> Dim:
    return product((2, *out, weight[-1]))


def _matmul(out: Shape, a: Shape, b: Shape) -> Dim:
    return product((2, *out, a[-1]))


def _add_product(out: Shape, _added: Shape, a: Shape, b: Shape) -> Dim:
    return product((2, *out, a[-1]))


def _convolution(out: Shape, x: Shape, weight: Shape, *_bias: Shape) -> Dim:
    """Each output element meets one filter: its channels of the group times the kernel."""
    return product((2, *out, *weight[1:]))


def _transposed(out: Shape, x: Shape, weight: Shape, *_bias: Shape) -> Dim:
    return product((2, *x, *weight[1:]))


def _attention(out: Shape, q: Shape, k: Shape, v: Shape, *_mask: Shape) -> Dim:
    """q·kᵀ, then scores·v; a causal mask saves nothing, as in torch's formula."""
    return total((product((2, *q, k[-2])), product((2, *q[:-1], k[-2], v[-1]))))


def _attention_backward(_out: Shape, _grad: Shape, q: Shape, k: Shape, v: Shape, *_rest: Shape) -> Dim:
    """Five products: the scores again, then the gradients of scores, v, q and k."""
    scores = (*q[:-1], k[-2])
    return total((product((6, *scores, q[-1])), product((4, *scores, v[-1]))))


_FORMULAS: dict[str, Callable[..., Dim]] = {
    "linear": _linear, "matmul": _matmul, "mm": _matmul, "bmm": _matmul, "mv": _matmul, "dot": _matmul,
    "addmm": _add_product, "baddbmm": _add_product, "addmv": _add_product,
    "conv": _convolution, "conv_transpose": _transposed,
    "scaled_dot_product_attention": _attention, "scaled_dot_product_flash_attention": _attention,
    "scaled_dot_product_efficient_attention": _attention, "scaled_dot_product_cudnn_attention": _attention,
    "scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "scaled_dot_product_flash_attention_backward": _attention_backward,
    "scaled_dot_product_efficient_attention_backward": _attention_backward,
    "scaled_dot_product_flash_attention_for_cpu": _attention, "scaled_dot_product_fused_attention_overrideable": _attention,
}  # fmt: skip


__all__ = ["estimated", "is_priced"]
