"""Run by torchrun: a DistributedDataParallel step on gloo with stages, small buckets, and what the capture of this rank holds.

``python -m torch.distributed.run --nproc-per-node 2 -m tests.stages.two_ranks FOLDER`` writes ``FOLDER/RANK.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import peek_backend

from .helpers import unexplained


class Layers(nn.Module):
    """Three layers of a bucket's size each; Dynamo does not look into a module of torch's own that is compiled whole."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(512, 512) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return x


def main(folder: str) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Layers()
    wrapped = DistributedDataParallel(model, bucket_cap_mb=1)
    options = {"inner": "aot_eager", "stages": "all", "quiet": True}
    with peek_backend.session() as session:
        compiled = torch.compile(wrapped, backend="peek", options=options)
        compiled(torch.ones(4, 512) * (dist.get_rank() + 1)).sum().backward()
    record = session.record
    told = {
        "keys": [g.key for g in record.graphs if g.rank == dist.get_rank()],
        "graphs": len(record.graphs),
        "calls": max(g.call for g in record.graphs) + 1,
        "stages": sorted({(g.call, g.stage) for g in record.graphs}),
        "problems": [p.why for g in record.graphs for p in g.problems],
        "unexplained": unexplained(record),
        "gradient": float(model.layers[0].weight.grad.sum()),
    }
    Path(folder, f"{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
