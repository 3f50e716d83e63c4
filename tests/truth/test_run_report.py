"""The report that peek run ends with, of a transformers model with many breaks and recompiles."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from tests.conftest import require

from .conftest import FIXED, ROOT


@pytest.mark.timeout(300)
@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="other versions break at other places")
def test_a_broken_transformer_reads_well_on_80_columns(tmp_path):
    """Sum, what to mend by rank, the story of each function: no line is wider than the terminal, and the order is kept."""
    require("transformers")
    program = ROOT / "tests" / "truth" / "broken_transformer.py"
    command = [sys.executable, "-m", "peek_backend", "run", "-o", "out.peek.jsonl", str(program)]
    env = {**FIXED, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = done.stderr[done.stderr.index("at 7 places") - 40 :]
    report = report[report.index("18 graphs") : report.index("peek: capture of")]
    assert max(len(line) for line in report.splitlines()) <= 80
    order = [
        "18 graph breaks at 7 places",
        "compiling took",
        "1. Failed to trace",
        "Recompiles",
        "more: peek explain",
    ]
    assert [report.index(words) for words in order] == sorted(report.index(words) for words in order)
    for words in (
        "asked for: Call to torch._dynamo.graph_break()",
        "torch.cond",
        "mark_dynamic(ids, 1)",
        "self.layer_idx",
    ):
        assert words in report
