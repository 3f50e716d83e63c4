"""How long the command line takes: ``peek --version``, and ``peek show`` of a capture of 10,000 nodes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peek_backend.snapshot import jsonfile

from ..builders import capture, transformer
from .harness import Row, process_cpu, terminal_seconds

PEEK = [str(Path(sys.executable).with_name("peek"))]
"""The command that pip installed."""
HEAVY = ("torch", "tabulate", "rich", "importlib.metadata")
LAYERS = 620  # of 16 nodes


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "capture.json"
        record = capture(transformer(LAYERS))
        jsonfile.write(file, record)
        nodes = len(record.graphs[0].nodes)
        return [*version(rounds=15), *show(str(file), nodes, rounds=5)]


def version(*, rounds: int) -> list[Row]:
    """CPU of ``peek --version``, and which of the heavy modules it loads."""
    cpu = statistics.median(process_cpu([*PEEK, "--version"])[0] for _ in range(rounds))
    bare = statistics.median(process_cpu([sys.executable, "-c", "pass"])[0] for _ in range(rounds))
    code = f"import sys; from peek_backend.cli import main; main(['--version']); print(*set({HEAVY}) & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = loaded.stdout.split("\n")[1].split()
    return [
        Row(
            "peek --version, CPU",
            1000 * cpu,
            "ms",
            150,
            f"median of {rounds}; python alone {1000 * bare:.0f} ms",
        ),
        Row("heavy modules it loads", len(heavy), "", 0, ", ".join(heavy) or f"none of {', '.join(HEAVY)}"),
    ]


def show(file: str, nodes: int, *, rounds: int) -> list[Row]:
    """Wall time of ``peek show`` in a terminal, folded and whole."""
    rows = []
    for name, args, limit in (("folded", [], 0.5), ("--all", ["--all"], 1.5)):
        taken = [terminal_seconds([*PEEK, "show", file, *args]) for _ in range(rounds)]
        seconds = statistics.median(time for time, _, _ in taken)
        cpu = statistics.median(cpu for _, cpu, _ in taken)
        note = f"median of {rounds}, CPU {cpu:.2f} s, prints {taken[0][2]:,} bytes"
        rows.append(Row(f"peek show, {nodes:,} nodes, {name}", seconds, "s", limit, note))
    return rows
