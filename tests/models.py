"""Small models from transformers' configurations, as factories, with the inputs they take."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn


class Case(NamedTuple):
    """A model to try: how to make it and its keyword arguments, as real tensors; ``training`` where a step can have the
    modules so."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], dict[str, Any]]
    training: bool = True


def ids(rows: int = 2, columns: int = 16) -> torch.Tensor:
    return torch.ones(rows, columns, dtype=torch.long)


class Loss(nn.Module):
    """A model whose result is one number: the sum of what it computes."""

    def __init__(self, model: nn.Module, field: str):
        super().__init__()
        self.model, self.field = model, field

    def forward(self, **inputs: Any) -> torch.Tensor:
        return getattr(self.model(**inputs), self.field).float().pow(2).mean()


WIDTHS = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
DECODER = {**WIDTHS, "num_key_value_heads": 2, "vocab_size": 100, "use_cache": False}
UNDROPPED = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def small_llama(**sizes: int) -> nn.Module:
    """Llama of two narrow layers, or of other sizes where they are given."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**{**DECODER, **sizes}))


def llama() -> nn.Module:
    return Loss(small_llama(), "logits")


def bert() -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    return Loss(BertForMaskedLM(BertConfig(**WIDTHS, **UNDROPPED, vocab_size=100)), "logits")


def t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=100, dropout_rate=0.0, use_cache=False
    )  # fmt: skip
    return Loss(T5ForConditionalGeneration(config), "logits")


def vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(**WIDTHS, **UNDROPPED, image_size=32, patch_size=8, num_labels=10)
    return Loss(ViTForImageClassification(config), "logits")


def whisper() -> nn.Module:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
        decoder_ffn_dim=128, vocab_size=100, num_mel_bins=16, max_source_positions=32, max_target_positions=16, use_cache=False,
        dropout=0.0, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    return Loss(WhisperForConditionalGeneration(config), "logits")


@lru_cache(maxsize=1)
def sample() -> ModuleType:
    """The sample that prices public models, as a module."""
    path = Path(__file__).resolve().parents[1] / "samples" / "16_price_of_models.py"
    spec = importlib.util.spec_from_file_location("sample_of_prices", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Dynamo finds a function's globals by its module's name
    spec.loader.exec_module(module)
    return module


def routed_mixtral() -> nn.Module:
    """Mixtral as transformers has it: which expert gets how many rows depends on data."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(**DECODER, num_local_experts=4, num_experts_per_tok=2)
    return Loss(MixtralForCausalLM(config), "logits")


def mixtral() -> nn.Module:
    """The same with the sample's experts, which get equally many rows each."""
    made = routed_mixtral()
    for layer in made.model.model.layers:
        layer.block_sparse_moe = sample().EvenExperts(layer.block_sparse_moe)
    return made


class Convolutions(nn.Module):
    """Convolutions of several kinds, batch norm and pooling: no transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.deep = nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.down(x)))
        return self.up(nn.functional.gelu(self.deep(x))).pow(2).mean()


CASES: dict[str, Case] = {
    "llama": Case(llama, lambda: {"input_ids": ids()}),
    "bert": Case(bert, lambda: {"input_ids": ids(), "attention_mask": ids()}),
    "t5": Case(t5, lambda: {"input_ids": ids(), "decoder_input_ids": ids(2, 8)}),
    "vit": Case(vit, lambda: {"pixel_values": torch.ones(2, 3, 32, 32)}),
    # In training it draws a random number for each layer and branches on it.
    "whisper": Case(
        whisper,
        lambda: {"input_features": torch.ones(2, 16, 64), "decoder_input_ids": ids(2, 8)},
        training=False,
    ),
    "mixtral": Case(mixtral, lambda: {"input_ids": ids()}),
    "convolutions": Case(Convolutions, lambda: {"x": torch.ones(2, 3, 16, 16)}),
}
