"""What snapshots cost: pytest's start with the plugin installed and unused, and pictures of a diff."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from ..diff.transformer import transformer
from .harness import Row, process_cpu, seconds

HEAVY = ("torch", "rich", "tabulate", "msgspec", "click", "graphviz")
LAYERS = 400


def main() -> list[Row]:
    return [*start(rounds=21), *picture()]


def start(*, rounds: int) -> list[Row]:
    """pytest on a folder with one empty test, with the plugin and without, in turns.

    pytest is alone but for that: other plugins take four times as long as all of pytest, and more by chance than this one.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_one.py").write_text("def test_one():\n    pass\n")
        alone = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", folder, folder]
        env = {"PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        with_it, without = [], []
        for _ in range(rounds):
            with_it.append(process_cpu([*alone, "-p", "peek_backend.pytest_plugin"], env=env)[0])
            without.append(process_cpu(alone, env=env)[0])
    low, more, high = statistics.quantiles(
        [1000 * (a - b) for a, b in zip(with_it, without, strict=True)], n=4
    )
    middle = 1000 * statistics.median(without)
    note = f"median of {rounds} pairs, CPU; quartiles {low:.0f} to {high:.0f}; pytest alone {middle:.0f} ms"
    return [Row("pytest start with the plugin, unused, more", more, "ms", 15, note), loaded()]


def loaded() -> Row:
    """Heavy modules in the process after a run in which nobody used the plugin."""
    code = (
        "import sys, pytest; pytest.main(['-q', '-p', 'no:cacheprovider', '--collect-only', sys.argv[1]]);"
        f"print('loaded', *sorted(set({HEAVY}) & set(sys.modules)))"
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_one.py").write_text("def test_one():\n    pass\n")
        done = subprocess.run(
            [sys.executable, "-c", code, folder], capture_output=True, text=True, check=True
        )
    heavy = done.stdout.splitlines()[-1].split()[1:]
    return Row("heavy modules it loads", len(heavy), "", 0, ", ".join(heavy) or f"none of {', '.join(HEAVY)}")


def picture() -> list[Row]:
    """DOT text and page of a diff of two graphs of some 10,000 nodes, one op inserted."""
    from peek_backend.diff import compare, verdict
    from peek_backend.render.diff_html import render_html
    from peek_backend.render.diff_picture import diff_dot

    old = transformer(layers=LAYERS)
    new = transformer(layers=LAYERS, dynamic=True)
    diff = compare(old, new)
    nodes = sum(len(graph.nodes) for graph in old.graphs)
    judged = verdict(diff)
    return [
        Row(f"diff of {nodes:,} nodes as DOT", seconds(lambda: diff_dot([diff]), repeat=3), "s", 2),
        Row(
            f"diff of {nodes:,} nodes as a page",
            seconds(lambda: render_html([(judged, diff, "")])),
            "s",
            10,
            "with Graphviz",
        ),
    ]
