"""FLOPs and bytes of one ATen op, from its real or fake arguments: torch's formulas, ours where it has none.

Symbolic sizes stay symbolic. Nothing is compared beyond what torch's own formulas compare, so run them under
``suppress_guards()``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry

_ATEN = torch.ops.aten


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_rest: Any, **_kw: Any) -> Any:
    """Two products of every query head with all keys: q·kᵀ, then scores·v. Causal masks save nothing, as in torch's formula."""
    batch, heads, queries, width = q.shape
    return 2 * batch * heads * queries * k.shape[-2] * (width + v.shape[-1])


def _attention_backward(
    _grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_rest: Any, **_kw: Any
) -> Any:
    """Five products: the scores again, then the gradients of scores, v, q and k (torch's ``sdpa_backward_flop_count``)."""
    batch, heads, queries, width = q.shape
    return 2 * batch * heads * queries * k.shape[-2] * (3 * width + 2 * v.shape[-1])


def _dot(a: torch.Tensor, _b: torch.Tensor, **_kw: Any) -> Any:
    return 2 * a.numel()


def _matrix_vector(a: torch.Tensor, _vector: torch.Tensor, **_kw: Any) -> Any:
    return 2 * a.shape[0] * a.shape[1]


def _add_matrix_vector(_self: torch.Tensor, a: torch.Tensor, vector: torch.Tensor, **kw: Any) -> Any:
    return _matrix_vector(a, vector)


def _outer(_self: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **_kw: Any) -> Any:
    return 2 * a.shape[0] * b.shape[0]


def _integer_product(a: torch.Tensor, b: torch.Tensor, **_kw: Any) -> Any:
    return 2 * a.shape[0] * a.shape[1] * b.shape[1]


def _add_product(_self: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *_rest: Any, **_kw: Any) -> Any:
    return 2 * a.shape[0] * a.shape[1] * b.shape[1]


def _sum_of_products(_self: torch.Tensor, a: torch.Tensor, b: torch.Tensor, **_kw: Any) -> Any:
    return 2 * a.shape[0] * a.shape[1] * a.shape[2] * b.shape[2]


def _grouped(a: torch.Tensor, b: torch.Tensor, *_rest: Any, **_kw: Any) -> Any:
    """Every row of ``a`` meets one group's matrix: (rows, k) · (groups, k, n), or batches of both."""
    if a.dim() == 2 and b.dim() == 3:
        return 2 * a.shape[0] * a.shape[1] * b.shape[2]
    if a.dim() == 3 and b.dim() == 3:
        return 2 * a.shape[0] * a.shape[1] * a.shape[2] * b.shape[2]
    return 2 * a.shape[-2] * a.shape[-1] * b.shape[-1]


def _distance(a: torch.Tensor, b: torch.Tensor, *_rest: Any, **_kw: Any) -> Any:
    """Euclidean distances through one matrix product of rows with two columns more (ATen/native/Distance.cpp)."""
    return 2 * math.prod(a.shape[:-1]) * b.shape[-2] * (a.shape[-1] + 2)


def _trilinear(
    a: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    expand_a: Sequence[int],
    expand_b: Sequence[int],
    expand_c: Sequence[int],
    summed: Sequence[int],
    *_rest: Any,
    **_kw: Any,
) -> Any:
    """``nn.Bilinear``: a product of ``a`` and ``b``, summed where ``c`` has no dim, then one with ``c`` (ATen/native/Linear.cpp).

    Each tensor lacks the dims that it is expanded by; a product without a sum is elementwise, and counts nothing.
    """
    sizes: dict[int, Any] = {}
    dims = []
    for tensor, expanded in ((a, expand_a), (b, expand_b), (c, expand_c)):
        own = [d for d in range(tensor.dim() + len(expanded)) if d not in expanded]
        sizes.update(zip(own, tensor.shape, strict=True))
        dims.append(set(own))
    first = dims[0] | dims[1]
    early = {d for d in summed if d not in dims[2]}
    second = (first - early) | dims[2]
    products = [group for group, sums in ((first, early), (second, set(summed) - early)) if sums]
    return sum(2 * math.prod(sizes[d] for d in group) for group in products)


def _recurrent(x: torch.Tensor, *weights: Any, **_kw: Any) -> Any:
    """Every step multiplies its input and the state before it with all gates' matrices; biases, the 1-d ones, are added."""
    matrices = [w for w in tensors_in(weights[:2]) if w.dim() == 2]
    return 2 * math.prod(x.shape[:-1]) * sum(w.numel() for w in matrices)


def _recurrent_backward(x: torch.Tensor, *weights: Any, **_kw: Any) -> Any:
    """As many products for the gradients of input and state as for those of the matrices."""
    return 2 * _recurrent(x, *weights)


_OWN = {
    "mkldnn_rnn_layer": _recurrent,
    "mkldnn_rnn_layer_backward": _recurrent_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "_scaled_dot_product_fused_attention_overrideable": _attention,
    "_scaled_dot_product_fused_attention_overrideable_backward": _attention_backward,
    "_scaled_dot_product_attention_math": _attention,
    "dot": _dot,
    "vdot": _dot,
    "mv": _matrix_vector,
    "addmv": _add_matrix_vector,
    "addmv_": _add_matrix_vector,
    "addr": _outer,
    "ger": lambda a, b, **kw: _outer(a, a, b),
    "_int_mm": _integer_product,
    "_addmm_activation": _add_product,
    "addmm_": _add_product,
    "addbmm": _sum_of_products,
    "baddbmm_": lambda s, a, b, **kw: _sum_of_products(s, a, b),
    "_grouped_mm": _grouped,
    "_scaled_grouped_mm": _grouped,
    "_euclidean_dist": _distance,
    "_trilinear": _trilinear,
}
_FORMULAS: dict[Any, Callable[..., Any]] = {
    getattr(_ATEN, name): formula for name, formula in _OWN.items() if hasattr(_ATEN, name)
}


def has_formula(packet: Any) -> bool:
    """Whether torch, a user (``register_flop_formula``) or we have a formula for an op's packet."""
    return packet in flop_registry or packet in _FORMULAS


_UNCOUNTED = ("linalg_", "_linalg_", "cholesky", "_cholesky", "triangular_solve", "lu_", "ormqr", "geqrf", "_fft_",
              "_cudnn_rnn", "_miopen_rnn", "_cdist_", "_pdist_", "histogram")  # fmt: skip
_ARE_CHECKS = ("_linalg_check_errors", "linalg_vector_norm", "linalg_cross")


def uncounted(packet: Any) -> bool:
    """Whether an ATen op does products or transforms inside that neither torch's formulas nor ours count."""
    name = packet.__name__
    return name.startswith(_UNCOUNTED) and not name.startswith(_ARE_CHECKS)


_CONVERTS = {getattr(_ATEN, name) for name in ("add", "sub", "mul", "div", "pow", "where", "rsub")}
_COMPLEX_FIRST = {getattr(_ATEN, name) for name in ("abs", "angle")}
_BUFFERED = ("linalg_", "_linalg_", "cholesky", "_cholesky", "triangular_solve", "lu_", "ormqr", "geqrf", "_trilinear",
             "upsample_", "_upsample_", "sort", "topk", "kthvalue", "median", "unique", "_unique", "histogram",
             "recurrent_layer", "mkldnn_rnn_layer")  # fmt: skip


def inside_bytes(packet: Any, args: Sequence[Any]) -> Any:
    """Bytes that an op's kernel takes beside its result on every device, and gives back.

    The absolute value and the angle of a complex tensor are worked out as complex numbers first
    (``unary_op_impl_with_complex_to_float_out`` of ATen/native/UnaryOps.cpp).
    """
    if packet in _COMPLEX_FIRST and args[0].is_complex():
        return args[0].numel() * args[0].element_size()
    return 0


def has_own_buffers(packet: Any, args: Sequence[Any], out: Any) -> bool:
    """Whether an op's kernel takes work memory by rules of its own (device, layout, library), which no formula here has."""
    name = packet.__name__
    if name.startswith(_BUFFERED):
        return not name.startswith(_ARE_CHECKS)
    if packet not in _CONVERTS:
        return False
    reads_real = any(isinstance(t, torch.Tensor) and not t.is_complex() for t in args)
    return reads_real and any(
        t.is_complex() for t in tensors_in(out)
    )  # the CPU's kernel makes it complex first


_ONE_DTYPE = {
    getattr(_ATEN, name) for name in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "convolution")
}


def refuse_mixed(packet: Any, args: Sequence[Any]) -> None:
    """TypeError for a product of two dtypes: kernels refuse it, and the fake ones, which compute nothing, do not."""
    if packet in _ONE_DTYPE:
        dtypes = dict.fromkeys(
            str(x.dtype).removeprefix("torch.") for x in args if isinstance(x, torch.Tensor)
        )
        if len(dtypes) > 1:
            raise TypeError(f"{packet.__name__} of {' and '.join(dtypes)}, which its kernels refuse")


def flops(packet: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> Any:
    """Floating-point operations of one call: an int or SymInt; 0 for ops without a formula.

    Torch's formula where it has one, which a later torch may refine; raises what that raises.
    """
    if packet in flop_registry:
        return flop_registry[packet](*args, **kwargs, out_val=out)
    formula = _FORMULAS.get(packet)
    return formula(*args, **kwargs) if formula is not None else 0


# Of their first operand they read the rows that the index names, no more than they write.
_GATHERS = {"embedding", "index_select", "gather", "index", "take", "_unsafe_index", "take_along_dim"}
# They read a row for each index, whatever they make of them.
_BAGS = {"_embedding_bag", "_embedding_bag_forward_only"}
# What their first operand held does not matter to them.
_OVERWRITES = {"copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "exponential_", "random_"}
# They reserve memory and touch none of it.
_RESERVES = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}
# They write into their first operand what the values hold, at the places an index names.
_SCATTERS_IN_PLACE = {
    "index_put_", "index_copy_", "scatter_", "index_add_", "scatter_add_", "masked_scatter_", "_index_put_impl_",
}  # fmt: skip


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of nested lists, tuples and dicts, each object once."""
    found = {id(x): x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor)}
    return list(found.values())


def touched_bytes(tensor: torch.Tensor) -> Any:
    """Bytes of a tensor's distinct elements: those along a dim of stride 0, which ``expand`` makes, are one."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        return _parts_bytes(tensor)
    sizes = [
        size
        for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        if not (type(stride) is int and stride == 0)
    ]
    return math.prod(sizes) * tensor.element_size()


def _parts_bytes(tensor: torch.Tensor) -> Any:
    """Bytes of a sparse tensor's or a nested one's parts, where it tells them."""
    if tensor.layout is torch.sparse_coo:
        return sum(p.numel() * p.element_size() for p in (tensor._indices(), tensor._values()))
    return tensor.numel() * tensor.element_size()


def moved(func: Any, args: Any, kwargs: Any, out: Any) -> tuple[Any, Any]:
    """(read, written) bytes of one call of an OpOverload. (0, 0) for a view, also one that no schema calls so
    (``_unsafe_view``)."""
    name = func._schema.name.rpartition("::")[2]
    inputs, outputs = tensors_in((args, kwargs)), tensors_in(out)
    held = {storage_key(t) for t in inputs}
    written = [t for t in outputs if storage_key(t) not in held]
    in_place = func._schema.is_mutable
    if in_place:
        written += [t for t in _mutated(func, args, kwargs) if all(t is not w for w in written)]
    if name in _RESERVES or not (written or _answers(out)):
        return 0, 0
    writes = sum(map(touched_bytes, written))
    if name in _SCATTERS_IN_PLACE:
        rest = sum(map(touched_bytes, inputs[1:]))
        return rest, rest
    if name in _GATHERS and inputs:
        return writes + sum(map(touched_bytes, inputs[1:])), writes
    if name in _BAGS:
        rows = args[1].numel() * args[0].shape[1] * args[0].element_size()
        return rows + sum(map(touched_bytes, inputs[1:])), writes
    if name in _OVERWRITES:
        inputs = inputs[1:]
    return sum(map(touched_bytes, inputs)), writes


def _answers(out: Any) -> bool:
    """Whether the result is a number read from a tensor (``item``), which is no view."""
    return any(
        isinstance(x, (int, float, bool, torch.SymInt, torch.SymFloat)) for x in pytree.tree_leaves(out)
    )


def _mutated(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterable[torch.Tensor]:
    for i, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[i] if i < len(args) else kwargs.get(argument.name)
            yield from tensors_in(value)


def storage_key(tensor: torch.Tensor) -> int:
    """What tells one tensor's storage from another's while both live; the tensor itself where it has none."""
    try:
        return tensor.untyped_storage()._cdata
    except Exception:  # sparse tensors and functorch wrappers
        return -id(tensor)
