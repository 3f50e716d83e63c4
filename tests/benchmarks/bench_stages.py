"""What reading every stage adds to a cold compile with Inductor: a training step of a Llama, in alternating processes.

Each process has empty caches of its own. Time is CPU seconds of the process and of the C++ compilers that it starts, as wall time
on a shared machine says more about the others; the process's own part stands beside it. Peak memory is the process's own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from .harness import Row

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("STAGES_ROUNDS", "3"))


def main() -> list[Row]:
    found: dict[str, list[dict]] = {"off": [], "live": [], "log": []}
    for i in range(ROUNDS):
        for what in list(found) if i % 2 == 0 else reversed(list(found)):
            found[what].append(cold(what))
    rows = []
    for what in ("live", "log"):
        for name, key, limit in (
            ("CPU time", "cpu", 1.10),
            ("the process's own part", "own", None),
            ("wall time", "wall", None),
            ("peak memory", "peak", 1.10),
        ):
            on, off = (statistics.median(run[key] for run in found[w]) for w in (what, "off"))
            unit = "MB" if key == "peak" else "s"
            note = f"median of {ROUNDS}: {on:.1f} over {off:.1f} {unit}, {found[what][0]['nodes']:,} nodes in all stages"
            rows.append(Row(f"{name}, all stages from {what} / none", on / off, "×", limit, note))
    return rows


def cold(what: str) -> dict:
    """One cold step in a process of its own."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache}
        done = subprocess.run(
            [sys.executable, "-m", __name__, what],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def measured(what: str) -> dict:
    """In the child: one training step; CPU and wall seconds, and peak megabytes, from the first compile on."""
    import resource
    import time

    import torch

    import peek_backend
    from tests.stages.helpers import llama_loss, tiny_llama

    def compilers() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    model = tiny_llama()
    options = {"inner": "inductor", "quiet": True}
    if what != "off":
        options |= {"stages": "all", "stages_from": what}
    before, start = (time.process_time(), compilers()), time.perf_counter()
    with peek_backend.session() as session:
        llama_loss(torch.compile(model, backend="peek", options=options)).backward()
    wall = time.perf_counter() - start
    own, theirs = time.process_time() - before[0], compilers() - before[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    nodes = sum(len(g.nodes) for g in session.record.graphs)
    return {"cpu": own + theirs, "own": own, "wall": wall, "peak": peak, "nodes": nodes}


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1])))
