"""What torch.compile captures of the model: a graph break or a size that became static changes no result, only these."""

from __future__ import annotations

import pytest
import torch
from tinylm import TinyLM

IDS = torch.zeros(4, 16, dtype=torch.long)
SIZES = {"ids": {0: "batch", 1: ("length", 2, 64)}}


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_forward(graph_snapshot, mode):
    """One graph for all batch sizes and lengths, in training and in inference."""
    model = TinyLM().train(mode == "train")
    with torch.set_grad_enabled(mode == "train"):
        graph_snapshot.check(model, args=(IDS,), dynamic=SIZES)
    graph_snapshot.expect(breaks=0, graphs=1, dynamic=["batch", "length"], no_dtype="float64")
    graph_snapshot.expect(
        op_counts={"scaled_dot_product_attention": 4}, shapes={"out": ["batch", "length", 100]}
    )


def test_growing_batch(graph_snapshot):
    """Without marks, a second batch size compiles once more, for all sizes, and a third not at all."""
    batches = [IDS[:n] for n in (2, 3, 4)]
    graph_snapshot.check(TinyLM(layers=1).eval(), calls=[(ids,) for ids in batches])
    graph_snapshot.expect(recompiles=1)
