"""Attention with dropout as accelerators run it, while the CPU plays one.

The CPU's flash attention takes no dropout, so that torch falls back to plain mathematics there, which keeps all scores for
the backward. On accelerators the fused kernels take it, and draw the mask anew from a seed. Products, results and what is saved
are those of the kernel without dropout.
"""

from __future__ import annotations

import contextvars
from contextlib import AbstractContextManager
from typing import Any

import torch.nn.functional as F
from torch import fx

from .within import held

_PLAYED: contextvars.ContextVar[bool] = contextvars.ContextVar("accelerator_played", default=False)

# Where the probability stands among the arguments.
_PROBABILITY = {F.scaled_dot_product_attention: 4, F.multi_head_attention_forward: 10}


def fused_with_dropout() -> AbstractContextManager[None]:
    """Within, AOTAutograd traces attention with dropout as the fused kernel; the graph that Dynamo captures is as written."""
    return held(_PLAYED, True)


def as_accelerated(gm: fx.GraphModule) -> fx.GraphModule:
    """``gm``, a copy made for AOTAutograd, with its attention as an accelerator runs it, where the CPU plays one."""
    if _PLAYED.get():
        for module in gm.modules():
            if isinstance(module, fx.GraphModule):
                _drop_dropout(module)
    return gm


def _drop_dropout(gm: fx.GraphModule) -> None:
    for node in gm.graph.nodes:
        at = _PROBABILITY.get(node.target) if node.op == "call_function" else None
        if at is None:
            continue
        if len(node.args) > at:
            node.args = (*node.args[:at], 0.0, *node.args[at + 1 :])
        elif "dropout_p" in node.kwargs:
            kwargs: dict[str, Any] = {**node.kwargs, "dropout_p": 0.0}
            node.kwargs = kwargs
    gm.recompile()
