"""A dry run of Llama-3 70B at sequence 4096: how long, how much memory, and what pricing adds to tracing.

Each pass is tried in a process of its own, so that the memory measured is its own.
"""

from __future__ import annotations

import json
import resource
import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .harness import Row

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "samples" / "16_price_of_models.py"
PARAMETERS = 70.6e9
"""Of Llama-3 70B, by its model card."""


def main() -> list[Row]:
    forward, step = _measured("inference"), _measured("training")
    how = "Llama-3 70B, 80 layers, bf16[1, 4096]"
    return [
        Row("Dynamo graph and its price", forward["seconds"], "s", 40, f"{how}, {forward['nodes']:,} nodes"),
        Row(
            "  resident",
            forward["resident"],
            "MB",
            1000,
            "ru_maxrss of the process, torch and transformers included",
        ),
        Row(
            "  pricing, of tracing", forward["overhead"], "%", 5, "seconds inside the pricer over all others"
        ),
        Row(
            "  parameters, off the model card",
            abs(forward["parameters"] / PARAMETERS - 1) * 100,
            "%",
            0.1,
            "70.6 B",
        ),
        Row(
            "training: joint, forward, backward",
            step["seconds"],
            "s",
            150,
            f"{how}, {step['nodes']:,} nodes in all",
        ),
        Row("  resident", step["resident"], "MB", 1500, "ru_maxrss of the process"),
        Row("  pricing, of tracing", step["overhead"], "%", 5, "seconds inside the pricer over all others"),
    ]


def _measured(what: str) -> dict[str, Any]:
    """What ``one`` says, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, what], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def one(what: str) -> dict[str, Any]:
    """Seconds, resident MB, nodes and parameters of one dry run; ``overhead`` is what pricing takes of the rest, in percent."""
    import peek_backend
    from peek_backend.capture import cost

    pricing = _Clock()
    cost.GraphPricer.price = pricing.around(cost.GraphPricer.price)  # type: ignore[method-assign]
    make = runpy.run_path(str(SAMPLE))["llama_70b"]
    start = time.perf_counter()
    record = peek_backend.dryrun(make, keywords={"input_ids": "i64[1, 4096]"}, train=what == "training")
    seconds = time.perf_counter() - start
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    priced = record.cost
    return {
        "seconds": seconds,
        "resident": resident,
        "overhead": 100 * pricing.seconds / (seconds - pricing.seconds),
        "nodes": sum(len(g.nodes) for g in record.graphs),
        "parameters": priced.parameters,
        "flops": priced.flops,
        "peak": priced.peak_memory,
        "told": str(priced),
        "memory": dict(priced.memory.by_kind()),
    }


class _Clock:
    """Adds up the seconds inside a function."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Any) -> Any:
        def timed(*args: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args)
            finally:
                self.seconds += time.perf_counter() - start

        return timed


if __name__ == "__main__":
    print(json.dumps(one(sys.argv[1])))
