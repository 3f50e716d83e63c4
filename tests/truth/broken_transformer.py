"""A small Llama around which everything goes wrong: breaks of every common kind, sizes and constants that change."""

import logging

import torch
from transformers import LlamaConfig, LlamaForCausalLM

log = logging.getLogger("train")
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
)


class Wrapped(torch.nn.Module):
    def __init__(self, i):
        super().__init__()
        self.inner = LlamaForCausalLM(config)
        self.layer_idx = i

    def forward(self, ids, scale):
        h = self.inner.model.embed_tokens(ids)
        print("embedded", h.shape)
        for layer in self.inner.model.layers:
            h = layer.mlp(h) + h
        if h.sum() > 1000:
            h = h / 2
        n = int(ids[0, 0])
        h = h * n
        log.warning("step %s", self.layer_idx)
        h = torch.relu(h) * scale
        torch._dynamo.graph_break()
        out = self.inner.lm_head(h)
        mask = out > 0
        rows = torch.nonzero(mask)
        return out.sum() + rows.shape[0] * 0.1


@torch.compiler.disable
def metric(x):
    return float(x)


def step(model, ids, scale):
    loss = model(ids, scale)
    metric(loss)
    return loss * 2


if __name__ == "__main__":
    models = [Wrapped(i).eval() for i in range(2)]
    run = torch.compile(step, backend="eager")
    with torch.no_grad():
        for length in (4, 6, 8):
            run(models[0], torch.randint(0, 64, (2, length)), 1.0)
        run(models[1], torch.randint(0, 64, (2, 8)), 2.0)
