"""Autocast of a device that is not there: dtypes as on that device, and nothing left behind."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import peek_backend
from peek_backend.capture.autocast import autocast_played
from peek_backend.model import TensorMeta

HALF = {
    "linear": lambda x: nn.functional.linear(x, x),
    "bmm": lambda x: x[None] @ x[None],
    "conv": lambda x: nn.functional.conv1d(x[None], x[:, :, None]),
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
}
FLOAT32 = {
    "layer_norm": lambda x: nn.functional.layer_norm(x, (8,)),
    "group_norm": lambda x: nn.functional.group_norm(x, 2),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "cross_entropy": lambda x: nn.functional.cross_entropy(x, x.softmax(-1)),
    "mse_loss": lambda x: nn.functional.mse_loss(x, x),
    "exp": torch.exp,
    "log": torch.log,
    "pow": lambda x: x**2,
    "rsqrt": torch.rsqrt,
    "sum": torch.sum,
    "sum of a dim": lambda x: x.sum(0),
    "cumsum": lambda x: x.cumsum(0),
    "norm": torch.linalg.vector_norm,
}
AS_GIVEN = {"relu": torch.relu, "add": lambda x: x + x, "gelu": nn.functional.gelu, "mean": torch.mean}


def _dtypes(calls, dtype, given):
    """The dtypes of the calls' results under autocast of cuda that the CPU plays."""
    with (
        autocast_played(torch.device("cuda")),
        FakeTensorMode(),
        torch.autocast("cuda", dtype=dtype),
        torch.no_grad(),
    ):
        x = torch.empty(8, 8, dtype=given)
        return {name: call(x).dtype for name, call in calls.items()}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_cpu_casts_as_the_device_that_it_plays(dtype):
    """Results have the dtypes of the lists in torch's documentation (Automatic Mixed Precision, CUDA ops)."""
    for given in (torch.float32, dtype):
        assert _dtypes(HALF, dtype, given) == dict.fromkeys(HALF, dtype)
        assert _dtypes(FLOAT32, dtype, given) == dict.fromkeys(FLOAT32, torch.float32)
        assert _dtypes(AS_GIVEN, dtype, given) == dict.fromkeys(AS_GIVEN, given)


class Mixed(nn.Module):
    """The usual training code for CUDA: products in half precision, the norm in float32."""

    def __init__(self, dtype=torch.bfloat16):
        super().__init__()
        self.up, self.norm, self.dtype = nn.Linear(64, 256), nn.LayerNorm(256), dtype

    def forward(self, x):
        with torch.autocast("cuda", dtype=self.dtype):
            return self.norm(self.up(x)).sum()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("train", [False, True])
def test_autocast_for_cuda_counts_without_one(train, dtype):
    """Under ``torch.autocast("cuda")`` products are priced in its dtype, the norm in float32, with no warning from torch."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record = peek_backend.dryrun(lambda: Mixed(getattr(torch, dtype)), "f32[32, 64]", train=train)
    of = {n.name: n.value.dtype for n in record.graphs[0].nodes if isinstance(n.value, TensorMeta)}
    assert (of["linear"], of["layer_norm"]) == (dtype, "float32")
    assert record.cost.totals.forward_flops == 2 * 32 * 64 * 256


def test_autocast_is_as_before():
    """After a dry run, the CPU's autocast casts as torch has it, and that of CUDA is off again where there is none."""
    before = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.autocast.__enter__
    peek_backend.dryrun(Mixed, "f32[32, 64]")
    assert before == (
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.autocast.__enter__,
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert nn.functional.layer_norm(torch.ones(2, 8).bfloat16(), (8,)).dtype == torch.bfloat16
