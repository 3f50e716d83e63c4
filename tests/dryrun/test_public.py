"""Public models from the sample: parameters as on their cards, FLOPs as in their papers, at full size and without memory."""

from __future__ import annotations

import pytest

import peek_backend
from tests import models
from tests.conftest import require

PARAMETERS = {
    "llama_8b": 8.03e9,  # Llama 3 model card: 8B, 8.03 B by its checkpoint
    "llama_70b": 70.6e9,  # Llama 3 model card: 70B, 70.6 B by its checkpoint
    "mixtral_8x7b": 46.7e9,  # "Mixtral of Experts" (2024): 47B in all, 46.7 B by its checkpoint
    "vit_large": 304.3e6,  # "An Image is Worth 16x16 Words" (2021), table 1: 307M; 304.3 M with a head for 1,000 classes
    "whisper_large": 1.543e9,  # Whisper large-v3 model card: 1550 M, 1.543 B by its checkpoint
}


@pytest.fixture
def sample():
    require("transformers")
    return models.sample()


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_the_model_card(name, sample):
    """A model built from its configuration, without memory, has as many parameters as its card says."""
    from peek_backend.capture.fakes import built_quietly, held_tensors

    held = held_tensors([built_quietly(getattr(sample, name))])
    count = sum({t.storage: t.numel for t in held if not t.buffer}.values())
    assert count == pytest.approx(PARAMETERS[name], rel=1e-3)


def test_a_decoder_costs_two_operations_a_parameter_and_token(sample):
    """Llama's forward takes 2 FLOPs for each multiplied weight and token, attention's on top (Kaplan et al. 2020, table 1)."""
    layers, tokens, width = 1, 4096, 4096
    cost = peek_backend.dryrun(
        lambda: sample.llama_8b(layers), keywords={"input_ids": f"i64[1, {tokens}]"}
    ).cost
    table = 128_256 * width  # looked up, not multiplied
    norms = (2 * layers + 1) * width
    attention = layers * 4 * tokens**2 * width
    rotary = 2 * tokens * 64
    assert cost.flops == 2 * (cost.parameters - table - norms) * tokens + attention + rotary


def test_experts_count_where_rows_go(sample):
    """Of Mixtral's eight experts each token pays for two."""

    def layer_flops(tokens: int) -> int:
        cost = peek_backend.dryrun(
            lambda: sample.mixtral_8x7b(1), keywords={"input_ids": f"i64[1, {tokens}]"}
        ).cost
        return sum(
            m.flops for m in cost.modules(fold=True) if m.path == "model.layers.0.block_sparse_moe.experts.*"
        )

    assert layer_flops(64) == 64 * 2 * (3 * 2 * 4096 * 14_336)
