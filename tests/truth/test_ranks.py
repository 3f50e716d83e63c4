"""Two ranks of one program, each a process that peek run follows."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from peek_backend.analysis.stats import stats
from peek_backend.snapshot import read

from .conftest import FACTS, FIXED, ROOT

CASE = "112_two_ranks_different_graphs"

PROGRAM = f"""
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("ranks", {str(ROOT / "tests" / "cases" / f"{CASE}.py")!r})
module = importlib.util.module_from_spec(spec)
sys.modules["ranks"] = module
spec.loader.exec_module(module)
if __name__ == "__main__":
    print(json.dumps(module.run()["n_graphs"]))
"""


@pytest.mark.timeout(300)
def test_each_rank_has_a_capture_of_its_own(tmp_path):
    """Rank 0 sees one size and compiles once, rank 1 three and compiles twice; each capture has its rank's graphs alone."""
    (tmp_path / "ranks.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "peek_backend", "run", "-q", "-o", "out.peek.jsonl", "ranks.py"]
    env = {**FIXED, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = FACTS[CASE]["n_graphs"]
    assert json.loads(done.stdout.splitlines()[-1]) == told
    found = {}
    for path in tmp_path.glob("out.pid-*.peek.jsonl"):
        record = read(path)
        ranks = {graph.rank for graph in record.graphs}
        assert len(ranks) == 1
        found[f"rank{ranks.pop()}"] = (stats(record).graphs, stats(record).recompiles)
    assert found == {rank: (graphs, graphs - 1) for rank, graphs in told.items()}
