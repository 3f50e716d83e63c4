"""What kind of work a node does, judged by its target alone.

Comes in: a NodeRecord. Goes out: one of `KINDS`. The names are those of torch's Python functions, Tensor methods
and ATen ops, so that one table serves a Dynamo graph (``torch.nn.functional.linear``, ``.view``), an ATen graph
(``aten.mm.default``) and ``operator.add``. An in-place op is the kind of its plain form.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..model import NodeRecord

KINDS = {
    "matmul": "matrix product, convolution",
    "attention": "attention",
    "norm": "normalisation",
    "reduction": "reduction, sort, scan",
    "elementwise": "elementwise",
    "view": "view, shape",
    "movement": "copy, index, join",
    "random": "random",
    "control": "control flow, subgraph",
    "custom": "custom op",
    "input": "input, output",
    "other": "other",
}
"""Every kind and how a legend names it."""

_NAMES = {
    "matmul": """addbmm addmm addmv addr baddbmm bilinear bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d
        conv_transpose3d convolution convolution_backward dot einsum ger inner kron linear linear_backward matmul
        mkldnn_linear mm mv outer rmatmul tensordot vdot multi_dot chain_matmul cudnn_convolution _conv_depthwise2d
        _convolution scaled_mm _scaled_mm _int_mm grouped_mm _grouped_mm lstm gru rnn_tanh rnn_relu lstm_cell
        gru_cell weight_int8pack_mm cholesky qr svd solve inv pinv lu eigh det""",
    "attention": """scaled_dot_product_attention _scaled_dot_product_attention flex_attention flex_attention_backward
        multi_head_attention_forward _native_multi_head_attention _scaled_dot_product_flash_attention
        _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention _flash_attention_forward
        _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_attention_math _efficient_attention_forward
        _scaled_dot_product_fused_attention_overrideable""",
    "norm": """batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional
        _native_batch_norm_legit_no_training layer_norm native_layer_norm group_norm native_group_norm instance_norm
        rms_norm _fused_rms_norm local_response_norm normalize cudnn_batch_norm weight_norm renorm""",
    "reduction": """all amax amin aminmax any argmax argmin argsort avg_pool1d avg_pool2d avg_pool3d
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d adaptive_max_pool1d
        adaptive_max_pool2d adaptive_max_pool3d bincount binary_cross_entropy binary_cross_entropy_with_logits
        count_nonzero cross_entropy cummax cummin cumprod cumsum dist histc kl_div kthvalue l1_loss log_softmax
        _log_softmax logcumsumexp logsumexp lp_pool2d max_pool1d max_pool2d max_pool3d max_pool2d_with_indices mean
        median mode mse_loss nanmean nanmedian nansum nll_loss nll_loss_forward nonzero norm linalg_vector_norm
        vector_norm matrix_norm prod quantile searchsorted bucketize smooth_l1_loss huber_loss softmax _softmax
        softmin sort std std_mean sum sum_to_size topk trace trapezoid unique _unique2 unique_consecutive var
        var_mean cosine_similarity pairwise_distance cdist max min logits_loss equal allclose""",
    "view": """alias as_strided broadcast_tensors broadcast_to chunk detach dim diagonal expand expand_as flatten
        imag adjoint lift_fresh_copy mH mT movedim moveaxis narrow ndimension numel permute real reshape reshape_as
        select set shape size split split_with_sizes squeeze stride swapaxes swapdims sym_size sym_stride
        sym_numel sym_storage_offset t tensor_split transpose T unbind unflatten unfold unsqueeze view view_as
        view_as_complex view_as_real _unsafe_view H is_contiguous slice getitem_tuple hsplit vsplit dsplit
        ravel atleast_1d atleast_2d atleast_3d storage_offset pixel_shuffle pixel_unshuffle getattr sym_constrain_range""",
    "movement": """affine_grid arange as_tensor block_diag bool cat chunk_cat clone column_stack combinations concat
        concatenate constant_pad_nd contiguous copy cpu cuda diag diag_embed double embedding embedding_bag empty
        empty_like empty_strided eye fill flip fliplr flipud float full full_like gather getitem grid_sample half
        bfloat16 hstack dstack index index_add index_copy index_fill index_put index_select int interpolate item
        linspace logspace long masked_fill masked_scatter masked_select meshgrid new_empty new_full new_ones
        new_tensor new_zeros nan_to_num_copy one_hot ones ones_like pad put repeat repeat_interleave resize roll
        rot90 scalar_tensor scatter scatter_add scatter_reduce setitem slice_scatter select_scatter diagonal_scatter
        slice_backward select_backward embedding_dense_backward stack take take_along_dim tensor tile to tolist
        _to_copy to_dense to_sparse tril tril_indices triu triu_indices type type_as upsample_bilinear2d
        upsample_nearest2d vander vstack where zero zeros zeros_like convert_element_type _local_scalar_dense
        data_ptr lift_fresh cartesian_prod hann_window iota pin_memory numpy _index_put_impl index_reduce
        all_gather_into_tensor all_reduce reduce_scatter_tensor wait_tensor broadcast all_to_all_single""",
    "random": """alpha_dropout bernoulli dropout dropout1d dropout2d dropout3d feature_alpha_dropout multinomial
        native_dropout normal poisson rand rand_like randint randint_like randn randn_like randperm rrelu
        uniform exponential geometric cauchy log_normal gumbel_softmax inductor_random inductor_seeds
        manual_seed seed rng_prims""",
    "elementwise": """abs acos acosh absolute add addcdiv addcmul and angle asin asinh atan atan2 atanh bitwise_and
        bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max
        clamp_min clip complex conj conj_physical copysign cos cosh deg2rad digamma div divide elu eq erf erfc
        erfinv exp exp2 expm1 float_power floor floor_divide floordiv fma fmax fmin fmod frac ge gelu gelu_backward
        glu greater greater_equal gt hardshrink hardsigmoid hardswish hardtanh heaviside hypot i0 igamma invert
        isclose isfinite isinf isnan isneginf isposinf ldexp le leaky_relu lerp less less_equal lgamma log log10
        log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit logsigmoid lshift lt
        maximum minimum mish mod mul multiply mvlgamma nan_to_num ne neg negative nextafter not not_equal or polar
        polygamma pos positive pow prelu quick_gelu rad2deg radd rdiv reciprocal relu relu6 remainder rmul rpow
        round rshift rsqrt rsub rtruediv selu sgn sigmoid sigmoid_backward sign signbit silu silu_backward sin sinc
        sinh softplus softshrink softsign sqrt square sub subtract swish tan tanh tanh_backward tanhshrink
        threshold threshold_backward true_divide truediv trunc truncate xlogy xor sym_max sym_min sym_sum sym_not
        sym_float sym_int sym_ite fake_quantize_per_tensor_affine quantize_per_tensor dequantize mul_scalar is_ not_
        and_ or_ floor_div quantize_per_channel special_expit expit ndtr erfcx entr""",
}
_KIND_OF = {name: kind for kind, names in _NAMES.items() for name in names.split()}

_TORCH_SPACES = frozenset(
    {"aten", "prims", "inductor", "inductor_prims", "quantized", "quantized_decomposed"}
)
_KNOWN_ROOTS = frozenset(
    {"torch", "_operator", "operator", "builtins", "math", "torch_library", *_TORCH_SPACES}
)
_COLLECTIVES = frozenset({"_c10d_functional", "c10d_functional", "_dtensor", "c10d"})
_CONTROL = re.compile(
    r"(^|\.)(higher_order|_higher_order_ops|_functorch|functorch)\.|torch\.autograd|grad_mode|(^|\.)(cond|while_loop|scan"
    r"|associative_scan|map_impl|invoke_subgraph|tag_activation_checkpoint|wrap_with_set_grad_enabled|autograd_function_apply"
    r"|_set_grad_enabled|_enter_autocast|_exit_autocast|_assert_scalar|_assert_async|_check|_check_is_size"
    r"|_vmap_increment_nesting|_vmap_decrement_nesting|call_torchbind|print)$"
)
_DUNDER = re.compile(r"^__(i|r)?(\w+?)__$")


def node_kind(node: NodeRecord) -> str:
    """The node's kind: a key of `KINDS`."""
    if node.op in ("placeholder", "output"):
        return "input"
    if node.op == "get_attr":
        return "control" if node.body is not None else "input"
    if node.op == "call_module" or node.body is not None:
        return "control" if node.body is not None else "custom"
    return target_kind(node.target, method=node.op == "call_method")


@lru_cache(maxsize=4096)
def target_kind(target: str, *, method: bool = False) -> str:
    """The kind of a target: its last name decides, its namespace whether the op is torch's own."""
    parts = target.removeprefix("torch._ops.").removeprefix("torch.ops.").split(".")
    if method:
        return _KIND_OF.get(_plain(parts[-1]), "other")
    name = parts[1] if len(parts) > 1 and parts[0] in (_TORCH_SPACES | _COLLECTIVES) else parts[-1]
    if "flex_attention" in target:
        return "attention"
    if _CONTROL.search(target):
        return "control"
    if parts[0] not in _KNOWN_ROOTS and parts[0] not in _COLLECTIVES:
        return "custom"
    return _KIND_OF.get(name) or _KIND_OF.get(_plain(name), "other")


def _plain(name: str) -> str:
    """``add_``, ``__add__``, ``iadd`` and ``linalg_norm`` as ``add``, ``add``, ``add``, ``norm``."""
    dunder = _DUNDER.match(name)
    if dunder:
        return dunder.group(2)
    name = name.rstrip("_") or name
    for prefix in ("linalg_", "special_", "fft_", "i"):
        if name not in _KIND_OF and name.startswith(prefix) and name[len(prefix) :] in _KIND_OF:
            return name[len(prefix) :]
    return name
