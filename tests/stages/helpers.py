"""Small programs whose stages are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import peek_backend
from peek_backend.api import Record
from tests.models import small_llama


class Small(nn.Module):
    """A linear layer, a norm, an activation; a buffer that is written in place, an output that is a view."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = nn.functional.gelu(self.norm(self.fc(x)))
        self.seen.add_(y.detach().sum(0))
        return y.relu() * 2, y.view(-1)


def staged(
    fn: Callable[..., Any],
    *args: Any,
    stages: str = "all",
    inner: Any = None,
    backward: bool = True,
    dynamic: bool | None = None,
    **options: Any,
) -> Record:
    """What one call of ``fn`` under the peek backend leaves in a session, and its backward where an output needs one."""
    given = {"stages": stages, "quiet": True, "inner": inner, **options}
    with peek_backend.session() as session:
        results = torch.compile(fn, backend="peek", options=given, dynamic=dynamic)(*args)
        if backward:
            run_backward(results)
    return session.record


def run_backward(results: Any) -> None:
    """Sum every output that needs a gradient, and differentiate."""
    tensors = [t for t in torch.utils._pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
    losses = [t.sum() for t in tensors if t.requires_grad]
    if losses:
        sum(losses[1:], losses[0]).backward()


def unexplained(record: Record) -> list[str]:
    """Nodes of later stages with neither an origin nor a reason, and those whose origin the capture does not hold."""
    from peek_backend.analysis.provenance import Provenance

    links = Provenance(record)
    return [
        f"{graph.key}:{node.name}"
        for graph in record.graphs
        if graph.stage != "dynamo"
        for node in graph.nodes
        if (not node.origins and not node.no_origin)
        or (node.origins and not links.origins((graph.key, node.index)))
    ]


def tiny_llama() -> nn.Module:
    """A Llama of two layers with random weights."""
    torch.manual_seed(0)
    return small_llama(vocab_size=128, max_position_embeddings=64)


def llama_loss(model: Callable[..., Any]) -> torch.Tensor:
    """The loss of one training step on 2 × 16 tokens."""
    tokens = torch.arange(32).reshape(2, 16)
    return model(input_ids=tokens, labels=tokens).loss
