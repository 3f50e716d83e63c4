"""Six architectures from transformers, built from their configurations with random weights: nothing is downloaded.

Each is captured with dynamic shapes, summed up in a line, and saved to peek-out/ as SVG and JSON. One graph is a whole model;
Mixtral takes several, as its router picks the rows of each expert by their data.
Run it with names to pick some: python samples/13_models.py llama vit
"""

import sys
from pathlib import Path

import torch
import transformers as hf

import peek_backend

OUT = Path("peek-out")
TEXT = {"vocab_size": 256, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
DECODER = {**TEXT, "intermediate_size": 128, "num_key_value_heads": 2, "use_cache": False}
tokens = torch.randint(1, 256, (2, 16))


def llama():
    return hf.LlamaForCausalLM(hf.LlamaConfig(**DECODER)), {"input_ids": tokens}


def bert():
    return hf.BertModel(hf.BertConfig(**TEXT, intermediate_size=128)), {"input_ids": tokens}


def t5():
    config = hf.T5Config(
        vocab_size=256, d_model=64, d_kv=16, d_ff=128, num_layers=3, num_heads=4, use_cache=False
    )
    return hf.T5ForConditionalGeneration(config), {"input_ids": tokens, "decoder_input_ids": tokens[:, :8]}


def vit():
    size = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128}
    config = hf.ViTConfig(**size, image_size=32, patch_size=8)
    return hf.ViTModel(config), {"pixel_values": torch.randn(2, 3, 32, 32)}


def whisper():
    config = hf.WhisperConfig(
        vocab_size=256, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_mel_bins=20,
        max_source_positions=32, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    inputs = {"input_features": torch.randn(2, 20, 64), "decoder_input_ids": tokens[:, :8]}
    return hf.WhisperForConditionalGeneration(config), inputs


def mixtral():
    return hf.MixtralForCausalLM(hf.MixtralConfig(**DECODER, num_local_experts=4)), {"input_ids": tokens}


MODELS = {make.__name__: make for make in (llama, bert, t5, vit, whisper, mixtral)}

for name in sys.argv[1:] or MODELS:
    model, inputs = MODELS[name]()
    with torch.no_grad():
        record = peek_backend.inspect(model.eval(), dynamic=True, **inputs)
    stats = record.stats
    print(
        f"{name:8} {stats.graphs} graph{'s' * (stats.graphs > 1):1}  {stats.ops:4} operations  {stats.parameters:3} parameters"
    )
    for suffix in ("svg", "json"):
        record.save(OUT / f"{name}.{suffix}")

print(f"\npictures and captures are in {OUT}/")
