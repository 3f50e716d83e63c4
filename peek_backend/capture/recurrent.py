"""Recurrent layers as cuDNN and oneDNN run them: an op a layer, however long the sequence.

A compile leaves ``nn.LSTM`` and its kin to eager, where one kernel runs a whole layer. Told to trace them, torch writes every
step out (torch/_decomp/decompositions.py): 23,000 nodes and three minutes for a training step over 200 tokens. Within ``whole``
each layer and direction is ``peek::recurrent_layer`` instead. FLOPs are those of the steps. For its backward a layer keeps what
ATen's fused cells do (aten/src/ATen/native/cuda/RNN.cu), as cuDNN does not document its own: ``_KEPT``.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._decomp import decompositions
from torch.utils.flop_counter import register_flop_formula

from .within import kernels, replaced

_KEPT = {1: 0, 3: 5, 4: 5}
"""Values of the hidden size that a layer keeps for each row and step, by its number of gates: an LSTM its four gates and the
cell, a GRU the five of its ``workspace``, a plain RNN nothing beside its result."""

_LIBRARY = torch.library.Library("peek", "FRAGMENT")
_LIBRARY.define(
    "recurrent_layer(Tensor x, Tensor[] weights, Tensor hx, Tensor? cx, bool reverse, int kept)"
    " -> (Tensor y, Tensor hy, Tensor cy, Tensor reserve)"
)
_LIBRARY.define(
    "recurrent_layer_backward(Tensor? grad_y, Tensor? grad_hy, Tensor? grad_cy, Tensor x, Tensor[] weights, Tensor hx,"
    " Tensor? cx, Tensor y, Tensor cy, Tensor reserve, bool reverse, bool[] wants) -> (Tensor, Tensor[], Tensor, Tensor)"
)


@torch.library.register_fake("peek::recurrent_layer", lib=_LIBRARY)
def _layer_fake(x: Any, weights: Any, hx: Any, cx: Any, reverse: bool, kept: int) -> tuple[Any, ...]:
    """``x`` is (steps, rows, features), ``hx`` (rows, outputs), ``cx`` (rows, cells) of an LSTM."""
    steps, rows, _ = x.shape
    cell = x.new_empty(0) if cx is None else torch.empty_like(cx)
    return x.new_empty(steps, rows, hx.shape[-1]), torch.empty_like(hx), cell, x.new_empty(steps, rows, kept)


@torch.library.register_fake("peek::recurrent_layer_backward", lib=_LIBRARY)
def _backward_fake(
    grad_y: Any, grad_hy: Any, grad_cy: Any, x: Any, weights: Any, hx: Any, cx: Any, *rest: Any
) -> tuple[Any, ...]:
    """``wants``, the last argument: whether gradients of ``x``, of the weights and of the first state are asked for."""
    *_, (of_x, of_weights, of_state) = rest

    def grad(tensor: Any, asked: bool) -> Any:
        return torch.empty_like(tensor) if asked and tensor is not None else x.new_empty(0)

    return grad(x, of_x), [grad(w, of_weights) for w in weights], grad(hx, of_state), grad(cx, of_state)


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, weights, hx, cx, ctx.reverse, _kept = inputs
    y, _hy, cy, reserve = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(reserve)
    ctx.save_for_backward(x, hx, cx, y, cy, reserve, *weights)


def _gradients(ctx: Any, grad_y: Any, grad_hy: Any, grad_cy: Any, _grad_reserve: Any) -> tuple[Any, ...]:
    x, hx, cx, y, cy, reserve, *weights = ctx.saved_tensors
    of_x, of_weights, of_hx, of_cx, *_ = ctx.needs_input_grad
    wants = [of_x, any(of_weights), of_hx or of_cx]
    grads = torch.ops.peek.recurrent_layer_backward(
        grad_y, grad_hy, grad_cy, x, weights, hx, cx, y, cy, reserve, ctx.reverse, wants
    )
    grad_x, grad_weights, grad_hx, grad_cx = grads
    of_all = [grad if wants[1] else None for grad in grad_weights]
    return (
        grad_x if of_x else None,
        of_all,
        grad_hx if of_hx else None,
        grad_cx if of_cx else None,
        None,
        None,
    )


torch.library.register_autograd("peek::recurrent_layer", _gradients, setup_context=_setup, lib=_LIBRARY)


@register_flop_formula(torch.ops.peek.recurrent_layer)
def _layer_flops(x: Any, weights: Sequence[Any], *_rest: Any, **_kw: Any) -> Any:
    """Two operations a weight, row and step; biases, the 1-d ones, are added. Works on shapes."""
    return 2 * math.prod(x[:-1]) * sum(map(math.prod, _matrices(weights)))


@register_flop_formula(torch.ops.peek.recurrent_layer_backward)
def _backward_flops(
    _gy: Any, _ghy: Any, _gcy: Any, x: Any, weights: Sequence[Any], *rest: Any, **_kw: Any
) -> Any:
    """A product for the gradient of each matrix, and one for that of what it was multiplied with, where it is asked for."""
    *_, (of_x, of_weights, of_state) = rest
    steps, rows, _ = x
    of_input, of_hidden, *of_outputs = map(math.prod, _matrices(weights))
    states = (steps if of_state else steps - 1) * of_hidden + steps * sum(of_outputs)
    # A bool times a symbolic size is an error on torch 2.8.
    products = 2 * rows * ((steps * of_input if of_x else 0) + states)
    return products + _layer_flops(x, weights) if of_weights else products


def _matrices(weights: Sequence[Any]) -> list[Any]:
    """The shapes of those for input, state and, where there is one, projection."""
    return [shape for shape in weights if len(shape) == 2]


@contextlib.contextmanager
def whole(device: torch.device) -> Iterator[None]:
    """Within, recurrent modules are one op a layer, where ``device`` has such a kernel: traced, priced, and called on fakes.

    The CPU's, oneDNN's, runs an LSTM without projections; its other layers run step by step, in eager too.
    """
    with_steps = device.type == "cpu"
    functions = {"select_one_layer_lstm_function": _lstm_on_cpu if with_steps else _lstm_anywhere}
    if not with_steps:
        functions["one_layer_rnn"] = _plain
    # By torch's Python code everywhere, not in a compile alone.
    with replaced(decompositions, **functions), kernels("CompositeImplicitAutograd", _DECOMPOSITIONS):
        yield


_DECOMPOSITIONS = {
    "lstm.input": decompositions.lstm_impl,
    "gru.input": decompositions.gru_impl,
    "rnn_tanh.input": decompositions.rnn_tanh_input,
    "rnn_relu.input": decompositions.rnn_relu_input,
}
_SELECT = decompositions.select_one_layer_lstm_function
_STEPS = decompositions.one_layer_lstm


def _lstm_anywhere(input: Any, hx: Any, params: Any) -> Callable[..., Any]:
    return _lstm


def _lstm_on_cpu(input: Any, hx: Any, params: Any) -> Callable[..., Any]:
    """Torch's choice, but for what it writes out in training while eager runs it whole."""
    chosen = _SELECT(input, hx, params)
    known = input.dtype in (torch.float32, torch.bfloat16, torch.float16)
    projects = hx[0].shape[-1] != hx[1].shape[-1]
    return _lstm if chosen is _STEPS and known and not projects else chosen


def _plain(
    inp: Any, hidden: Any, params: Any, has_biases: bool, hidden_fn: Any, reverse: bool = False
) -> tuple[Any, Any]:
    """``decompositions.one_layer_rnn``: a GRU or RNN."""
    y, hy, *_ = _layer(inp, params, hidden, None, reverse=reverse)
    return y, hy


def _lstm(
    inp: Any, hidden: Any, params: Any, has_biases: bool, reverse: bool = False
) -> tuple[Any, tuple[Any, Any]]:
    """``decompositions.one_layer_lstm``."""
    y, hy, cy, _ = _layer(inp, params, *hidden, reverse=reverse)
    return y, (hy, cy)


def _layer(x: Any, weights: Any, hx: Any, cx: Any, *, reverse: bool) -> Any:
    x, hx, cx, *weights = _cast([x, hx, cx, *weights])
    learns = torch.is_grad_enabled() and any(t.requires_grad for t in (x, hx, *weights))
    hidden = hx.shape[-1] if cx is None else cx.shape[-1]
    gates = weights[0].shape[0] // hidden
    return torch.ops.peek.recurrent_layer(x, weights, hx, cx, reverse, _KEPT[gates] * hidden if learns else 0)


def _cast(tensors: list[Any]) -> list[Any]:
    """All in autocast's dtype, where it is on: aten/src/ATen/cudnn/AutocastRNN.cpp, and ``mkldnn_rnn_layer`` on the CPU."""
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return [t.to(dtype) if t is not None and t.is_floating_point() else t for t in tensors]
