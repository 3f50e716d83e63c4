"""What the benchmarks compile: a stack of blocks of any length, eight nodes a block."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """Layer norm, linear, gelu, residual: four operations, four parameters."""

    def __init__(self, width: int):
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + nn.functional.gelu(self.fc(self.norm(x)))


class Stack(nn.Module):
    """As many blocks as make about ``nodes`` nodes of Dynamo's graph."""

    def __init__(self, nodes: int, width: int = 8):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(nodes // 8))
        self.width = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x

    def input(self, rows: int = 4) -> torch.Tensor:
        """An input of ``rows`` × width."""
        return torch.ones(rows, self.width)
