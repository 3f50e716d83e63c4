"""What public models cost, from their configurations alone: no weights, no GPU, a few hundred MB of memory.

Each factory builds a model at full size; a dry run traces it on tensors that are not there. Run it with names to pick some, and
with --train for a training step: python samples/16_price_of_models.py llama_70b --train
The same on the command line: peek dryrun samples/16_price_of_models.py:llama_8b --input 'i64[1, 4096]' --on h100-80gb
"""

import sys

import torch
import torch.nn.functional as F
import transformers as hf

import peek_backend

LLAMA_3 = {
    "vocab_size": 128_256,
    "rope_theta": 500_000.0,
    "max_position_embeddings": 8192,
    "use_cache": False,
}


def bf16(make, config):
    """A model in bfloat16, as these are published and served."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        return make(config)
    finally:
        torch.set_default_dtype(before)


def llama_8b(layers=32):
    config = hf.LlamaConfig(
        **LLAMA_3, hidden_size=4096, intermediate_size=14_336, num_hidden_layers=layers, num_attention_heads=32,
        num_key_value_heads=8,
    )  # fmt: skip
    return bf16(hf.LlamaForCausalLM, config)


def llama_70b(layers=80):
    config = hf.LlamaConfig(
        **LLAMA_3, hidden_size=8192, intermediate_size=28_672, num_hidden_layers=layers, num_attention_heads=64,
        num_key_value_heads=8,
    )  # fmt: skip
    return bf16(hf.LlamaForCausalLM, config)


class EvenExperts(torch.nn.Module):
    """Mixtral's experts when the router sends every one of them equally many rows.

    Which rows go where depends on data, which a dry run has none of; how many there are in all does not: each row goes to
    ``top_k`` experts.
    """

    def __init__(self, block):
        super().__init__()
        self.gate, self.experts, self.top_k = block.gate, block.experts, block.top_k

    def forward(self, hidden):
        rows = hidden.view(-1, hidden.shape[-1])
        logits = self.gate(rows)
        weights, _ = torch.topk(F.softmax(logits, dim=1, dtype=torch.float), self.top_k, dim=-1)
        share = rows.shape[0] * self.top_k // len(self.experts)
        scale = weights.to(rows.dtype).reshape(-1, 1)
        repeated = rows.repeat_interleave(self.top_k, 0)
        parts = [expert(repeated[i * share : (i + 1) * share]) for i, expert in enumerate(self.experts)]
        mixed = (torch.cat(parts) * scale).view(-1, self.top_k, rows.shape[-1]).sum(1)
        return mixed.view_as(hidden), logits


def mixtral_8x7b(layers=32):
    model = bf16(hf.MixtralForCausalLM, hf.MixtralConfig(num_hidden_layers=layers, use_cache=False))
    for layer in model.model.layers:
        layer.block_sparse_moe = EvenExperts(layer.block_sparse_moe)
    return model


def vit_large():
    config = hf.ViTConfig(
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        num_labels=1000,
    )
    return hf.ViTForImageClassification(config)


def whisper_large():
    config = hf.WhisperConfig(
        vocab_size=51_866, num_mel_bins=128, d_model=1280, encoder_layers=32, decoder_layers=32, encoder_attention_heads=20,
        decoder_attention_heads=20, encoder_ffn_dim=5120, decoder_ffn_dim=5120, use_cache=False,
    )  # fmt: skip
    return hf.WhisperForConditionalGeneration(config)


TOKENS = {"input_ids": "i64[1, 4096]"}
MODELS = {
    "llama_8b": (llama_8b, TOKENS, "h100-80gb"),
    "llama_70b": (llama_70b, TOKENS, "h100-80gb"),
    "mixtral_8x7b": (mixtral_8x7b, TOKENS, "h100-80gb"),
    "vit_large": (vit_large, {"pixel_values": "f32[64, 3, 224, 224]"}, "a100-40gb"),
    "whisper_large": (
        whisper_large,
        {"input_features": "f32[8, 128, 3000]", "decoder_input_ids": "i64[8, 448]"},
        "a100-40gb",
    ),
}


def main(names, train):
    for name in names:
        make, inputs, gpu = MODELS[name]
        record = peek_backend.dryrun(make, keywords=inputs, train=train, eval_mode=train)
        print(f"\n== {name}, {', '.join(inputs.values())}, {'training step' if train else 'inference'}")
        print(record.cost)
        fits = record.cost.roofline(gpu)
        print(
            f"on {gpu}: {'does not fit' if fits.short > 0 else 'fits'}, at least {fits.seconds:.3f} s op by op"
        )


if __name__ == "__main__":
    chosen = [a for a in sys.argv[1:] if not a.startswith("-")]
    main(chosen or ["llama_8b", "vit_large"], "--train" in sys.argv)
