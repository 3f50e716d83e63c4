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

from ..model import (
    CaptureRecord,
    Dim,
    GraphRecord,
    Leaf,
    NodeCost,
    NodeRecord,
    TensorMeta,
    ValueInfo,
    iter_tensors,
    node_refs,
)
from ..passes.kinds import node_kind
from .cost import Sizes
from .dims import product
from .functional import is_in_place
from .sums import total
from .totals import ITEM_BYTES, is_op

Tensors = Sequence[TensorMeta]
Shape = Sequence[Dim]


def is_priced(graph: GraphRecord) -> bool:
    """Whether any node has a recorded price."""
    return any(node.cost is not None for node in graph.nodes)


def estimated(record: CaptureRecord, sizes: Sizes | None = None) -> CaptureRecord:
    """``record`` with a price for every node that follows from shapes; graphs with recorded prices keep those.

    With ``sizes`` prices are numbers at those where all symbols have values, without expressions.
    """
    return replace(record, graphs=tuple([g if is_priced(g) else _graph(g, sizes) for g in record.graphs]))


def _graph(graph: GraphRecord, sizes: Sizes | None) -> GraphRecord:
    """A body is priced once, with the symbols of the graph that runs it."""
    children = tuple([replace(c, nodes=_Estimate(c, graph, (), sizes).nodes()) for c in graph.children])
    return replace(graph, nodes=_Estimate(graph, graph, children, sizes).nodes(), children=children)


_Price = tuple[Dim, Dim, Dim, str]
"""FLOPs, bytes read, bytes written, why a part is unknown."""
_FREE: _Price = (0, 0, 0, "")


class _Estimate:
    """Prices the nodes of one graph in their order, each kind of call once: layers of a model cost alike.

    ``owner`` has the symbols, ``bodies`` are the priced graphs that nodes run. A layout (shape, stride, dtype) is known by
    a number, so that a call is told from others by a few ints.
    """

    def __init__(
        self, graph: GraphRecord, owner: GraphRecord, bodies: Sequence[GraphRecord], sizes: Sizes | None
    ):
        self.graph, self.owner, self.bodies, self.sizes = graph, owner, bodies, sizes
        self.numbers: dict[Any, int] = {}
        self.nbytes: list[Dim] = []
        self.tensors = [_tensors(node.value) for node in graph.nodes]
        self.layouts = [tuple(map(self._layout, tensors)) for tensors in self.tensors]
        self.seen: set[int] = set()
        self.known: dict[Any, _Price] = {}

    def nodes(self) -> tuple[NodeRecord, ...]:
        """The nodes with their prices."""
        return tuple(map(self._node, self.graph.nodes))

    def _layout(self, meta: TensorMeta) -> int:
        key = _key(meta)
        number = self.numbers.get(key)
        if number is None:
            number = self.numbers[key] = len(self.nbytes)
            self.nbytes.append(self._number(_bytes(meta)))
        return number

    def _number(self, size: Dim) -> Dim:
        return size if self.sizes is None else self.sizes.at(size, self.owner)

    def _node(self, node: NodeRecord) -> NodeRecord:
        made = self._made(node.index)
        if not is_op(node):
            return replace(node, cost=NodeCost(made=made)) if made else node
        flops, read, written, unknown = self._price(node, fresh=bool(made))
        return replace(node, cost=NodeCost(flops, read, written, 0, made, unknown))

    def _made(self, index: int) -> tuple[tuple[int, Dim], ...]:
        """Storages that are first held by the node's tensors, with the bytes of the first that holds them."""
        found = []
        for meta, layout in zip(self.tensors[index], self.layouts[index], strict=True):
            if meta.storage is not None and meta.storage not in self.seen:
                self.seen.add(meta.storage)
                found.append((meta.storage, self.nbytes[layout]))
        return tuple(found)

    def _price(self, node: NodeRecord, *, fresh: bool) -> _Price:
        refs = node_refs(node)
        found = self._of_bodies(node, refs) if self.bodies else None
        if found is not None:
            return found
        out = self.tensors[node.index]
        works = (
            fresh or (any(t.storage is None for t in out) and node_kind(node) != "view") or is_in_place(node)
        )
        layouts = self.layouts
        key = (node.target, works, layouts[node.index], *[layouts[r] for r in refs], _numbers(node))
        price = self.known.get(key)
        if price is None:
            price = self.known[key] = self._worked_out(node, refs) if works else (*_FREE[:3], _unknown(node))
        return price

    def _worked_out(self, node: NodeRecord, refs: Sequence[int]) -> _Price:
        """What looks up rows of a table reads as many as it returns, bags of them one for each index."""
        places = list(dict.fromkeys(refs))
        given = [t for ref in places for t in self.tensors[ref]]
        read = [self.nbytes[layout] for ref in places for layout in self.layouts[ref]]
        written = total(self.nbytes[layout] for layout in self.layouts[node.index])
        if _name(node.target) in _LOOKUPS and read:
            table = next((i for i, t in enumerate(given) if t.dtype not in _INDICES), 0)
            read[table] = self._number(_rows(given, table)) if _name(node.target) in _BAGS else written
        flops = self._number(_flops(node, given, self.tensors[node.index], self.graph))
        return flops, total(read), written, _unknown(node)

    def _of_bodies(self, node: NodeRecord, refs: Sequence[int]) -> _Price | None:
        """What an op costs that runs a body: what is in it. Which of several runs, and how often, is not known."""
        found = dict.fromkeys(n.body for n in (node, *(self.graph.nodes[r] for r in refs)))
        bodies = [self.bodies[b] for b in found if b is not None and b < len(self.bodies)]
        if not bodies:
            return None
        if len(bodies) > 1 or any(word in node.target for word in _LOOPS):
            return (*_FREE[:3], "how often each of its bodies runs does not follow from shapes alone")
        costs = [n.cost for n in bodies[0].nodes if n.cost is not None]
        sums = [total([getattr(c, part) for c in costs]) for part in ("flops", "read", "written")]
        return (*sums, next((c.unknown for c in costs if c.unknown), ""))


_LOOPS = ("while_loop", "scan", "map")


def _tensors(value: ValueInfo | None) -> Tensors:
    return (value,) if type(value) is TensorMeta else tuple(iter_tensors(value))


def _key(meta: TensorMeta) -> Any:
    """What a tensor's bytes and an op's FLOPs follow from."""
    if meta.layout == "strided" and not meta.inner and not meta.flags:
        return (meta.shape, meta.stride, meta.dtype)
    return (meta.shape, meta.stride, meta.dtype, meta.layout, meta.flags, repr(meta.inner))


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


_INDICES = ("int64", "int32")
_BAGS = frozenset(("embedding_bag", "embedding_bag_forward_only"))
_LOOKUPS = frozenset(("embedding", "index_select", "gather", "index", "take", "take_along_dim", *_BAGS))


def _rows(given: Tensors, table: int) -> Dim:
    """Bytes of one row of a table for each of the indices, the first integers."""
    indices = next((t.shape for t in given if t.dtype in _INDICES), ())
    return product((ITEM_BYTES.get(given[table].dtype, 0), *given[table].shape[1:], *indices))


def _unknown(node: NodeRecord) -> str:
    name = _name(node.target)
    counts = node_kind(node) in ("matmul", "attention") and name not in _FORMULAS and name != _CONV_BACKWARD
    return "its FLOPs do not follow from shapes alone" if counts else ""


# ---- FLOPs: a multiply-add is two


def _flops(node: NodeRecord, given: Tensors, out: Tensors, graph: GraphRecord) -> Dim:
    name = "conv_transpose" if _is_transposed(node) else _name(node.target)
    formula = _FORMULAS.get(name)
    if name != _CONV_BACKWARD and (formula is None or not out):
        return 0
    shapes = [t.shape for t in given]
    if len(given) < len(node_refs(node)):
        shapes = [t.shape for t in _operands(node, graph)]  # one tensor may stand in two places
    try:
        return formula(out[0].shape, *shapes) if formula is not None else _convolution_backward(node, *shapes)
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


_CONV_BACKWARD = "convolution_backward"


def _convolution_backward(node: NodeRecord, grad: Shape, x: Shape, weight: Shape) -> Dim:
    """The gradients that are asked for, of the input and of the weight: each is a convolution, counted as torch does."""
    transposed, (of_input, of_weight, _) = node.args[7] is True, node.args[10]
    parts: list[Dim] = []
    if of_input:
        parts.append(product((2, grad[0], *(x if transposed else grad)[2:], *weight)))
    if of_weight:
        channels, other = (grad[1], x) if transposed else (x[1], grad)
        parts.append(product((2, channels, *weight[2:], *other)))
    return total(parts)


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
