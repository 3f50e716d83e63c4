"""Fused ops of ATen that are whole layers, written out as the ops that their kernels run, so that they can be metered.

torch's modules take them in inference (``nn.TransformerEncoderLayer``, ``nn.MultiheadAttention``); torch's own counter has no
formula for them. After ATen's CPU code: native/transformers/transformer.cpp and native/transformers/attention.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_ATEN = torch.ops.aten


def _attention(  # noqa: PLR0913, PLR0917  # the op's own arguments
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    width: int,
    heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average: bool = True,
    _mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """``_native_multi_head_attention``: one product for query, key and value, plain attention, the projection."""
    if query is key and key is value:
        qkv = query @ qkv_weight.t()
    else:
        weights = qkv_weight.split(width)
        qkv = torch.cat([x @ w.t() for x, w in zip((query, key, value), weights, strict=True)], 2)
    batch, length, _ = qkv.shape
    split = torch.empty(3, batch, heads, length, width // heads, dtype=qkv.dtype, device=qkv.device)
    del qkv
    q, k, v = split.unbind(0)
    scores = torch.matmul(q, k.transpose(-2, -1)).softmax(-1)
    context = torch.matmul(scores, v)
    if not need_weights:
        scores = None
    elif average:
        scores = scores.mean(1)
    del split, q, k, v
    rows = context.transpose(1, 2).reshape(batch * length, width)
    return torch.addmm(bias, rows, weight.t()).view(batch, length, width), scores


def _encoder_layer(  # noqa: PLR0913, PLR0917  # the op's own arguments
    source: torch.Tensor,
    width: int,
    heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    gelu: bool,
    norm_first: bool,
    eps: float,
    *rest: Any,
) -> torch.Tensor:
    """``_transformer_encoder_layer_fwd``: attention and a feed-forward, each with its sum and norm before or after."""
    weight_1, bias_1, weight_2, bias_2, up, up_bias, down, down_bias, mask, *_ = (*rest, None)

    def normed(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.layer_norm(x, (width,), weight, bias, eps)

    x = normed(source, weight_1, bias_1) if norm_first else source
    x, _ = _attention(x, x, x, width, heads, qkv_weight, qkv_bias, weight, bias, mask, need_weights=False)
    x.add_(source)
    if not norm_first:
        x = normed(x, weight_1, bias_1)
    before, x = x, (normed(x, weight_2, bias_2) if norm_first else x)
    hidden = _ATEN._addmm_activation(up_bias, x.reshape(-1, width), up.t(), use_gelu=gelu)
    x = torch.addmm(down_bias, hidden, down.t()).view(source.shape).add_(before)
    return x if norm_first else normed(x, weight_2, bias_2)


def _euclidean_dist(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``_euclidean_dist``: squares and ones beside the rows, then one product gives squared distances (native/Distance.cpp)."""
    a_norm = a.pow(2).sum(-1, keepdim=True)
    a_ones = torch.ones_like(a_norm)
    b_norm = b.pow(2).sum(-1, keepdim=True)
    b_ones = torch.ones_like(b_norm)
    left = torch.cat([a.mul(-2), a_norm, a_ones], -1)
    right = torch.cat([b, b_ones, b_norm], -1)
    del a_norm, a_ones, b_norm, b_ones
    return left.matmul(right.mT).clamp_min_(0).sqrt_()


_WRITTEN_OUT: dict[Any, Callable[..., Any]] = {
    getattr(_ATEN, name): function
    for name, function in (
        ("_native_multi_head_attention", _attention),
        ("_transformer_encoder_layer_fwd", _encoder_layer),
        ("_euclidean_dist", _euclidean_dist),
    )
    if hasattr(_ATEN, name)
}


def written_out(func: Any, args: Any) -> Callable[..., Any] | None:
    """A function of the same arguments that runs a fused op's parts; None for an op that is no such, and for nested tensors."""
    if getattr(func, "_overloadname", "") != "default" or any(getattr(a, "is_nested", False) for a in args):
        return None
    return _WRITTEN_OUT.get(func.overloadpacket)
