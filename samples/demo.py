"""make demo: a transformer from its configuration, random weights, compiled with ``backend="peek"``.

Nothing is downloaded. The table below is what peek prints; it also writes the graph as SVG,
PNG, JSON and an HTML page to peek-out/.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import peek_backend

OUT = Path("peek-out")


def small_llama() -> LlamaForCausalLM:
    """Llama as it is, four layers deep and narrow: 0.2 million parameters."""
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_cache=False,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


def main() -> None:
    model = small_llama()
    tokens = torch.randint(0, 256, (2, 16))
    options = {"file": sys.stdout}
    with torch.no_grad(), peek_backend.session() as session:
        eager = model(input_ids=tokens).logits
        compiled = torch.compile(model, backend="peek", options=options)(input_ids=tokens).logits

    record = session.record
    written = []
    for name in ("llama.svg", "llama.png", "llama.json", "llama.html"):
        written += record.save(OUT / name).paths
    print(f"\n{record.stats.graphs} graph of {record.stats.nodes} nodes, {record.stats.breaks} graph breaks")
    print(f"the compiled model computes what the model computes: {torch.equal(eager, compiled)}")
    print("\nwrote")
    for path in written:
        print(f"  {path.resolve()}  ({path.stat().st_size:,} bytes)")
    print(f"\nopen the page or the picture, or: peek show {OUT}/llama.json --format tree")


if __name__ == "__main__":
    main()
