"""Run in a process of its own: one training step with Inductor, with stages or without, and what it left.

``python -m tests.stages.inductor_step WHAT MODEL [STAGES] [FROM]``: WHAT is ``plain`` or ``peek``, MODEL ``small`` or ``llama``.
Prints one line of JSON: losses and gradients as hex digests, torch's cache counters, the stages captured.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.utils

import peek_backend
from peek_backend.api import Record

from .helpers import Small, llama_loss, run_backward, tiny_llama, unexplained


def main(what: str, model: str, stages: str = "all", source: str = "live") -> None:
    options = {"inner": "inductor", "stages": stages, "stages_from": source, "quiet": True}
    how = {"backend": "inductor"} if what == "plain" else {"backend": "peek", "options": options}
    with peek_backend.session() as session:
        module, results, saved = step(model, lambda m: torch.compile(m, **how))
    counters = torch._dynamo.utils.counters
    print(
        json.dumps(
            {
                "digest": digest([*results, *(p.grad for p in module.parameters())]),
                "fx": {k: v for k, v in counters["inductor"].items() if k.startswith("fxgraph_cache")},
                "aot": {k: v for k, v in counters["aot_autograd"].items() if k.startswith("autograd_cache")},
                "saved": saved,
                **told(session.record),
            }
        )
    )


def step(model: str, compile: Callable[[Any], Any]) -> tuple[Any, list[torch.Tensor], list[int]]:
    """The module, its results, and the bytes that the compiled function saved."""
    torch.manual_seed(0)
    module: Any = Small() if model == "small" else tiny_llama()
    compiled = compile(module)
    results = list(compiled(torch.randn(4, 8))) if model == "small" else [llama_loss(compiled)]
    saved = sorted(t.numel() * t.element_size() for t in results[0].grad_fn.saved_tensors)
    run_backward(results)
    return module, [r.detach() for r in results], saved


def digest(tensors: list[torch.Tensor]) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def told(record: Record) -> dict[str, Any]:
    """What the capture says."""
    kernels = [n for g in record.graphs if g.stage == "kernels" for n in g.nodes if n.op == "call_function"]
    return {
        "keys": [g.key for g in record.graphs],
        "problems": [p.why for g in record.graphs for p in g.problems],
        "unexplained": unexplained(record),
        "caches": {
            g.key: [[c.cache, c.outcome] for c in g.lowering.caches]
            for g in record.graphs
            if g.lowering and g.lowering.caches
        },
        "listed": [sorted(s.nbytes for s in v.saved if s.nbytes is not None) for v in record.autograd],
        "linked kernels": sum(bool(n.origins) for n in kernels),
        "kernels": len(kernels),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
