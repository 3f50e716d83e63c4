"""Runs the benchmarks and prints their numbers: ``python -m tests.benchmarks.run [NAME …]``, also ``make bench``.

Each ``bench_NAME.py`` runs in a process of its own, so that none measures what another has loaded. Ends with 1 when a number is
over its limit or a benchmark fails.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from tabulate import tabulate

from .harness import Row

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def names() -> list[str]:
    """The benchmarks there are."""
    return sorted(p.stem.removeprefix("bench_") for p in HERE.glob("bench_*.py"))


def main(chosen: list[str]) -> int:
    unknown = [name for name in chosen if name not in names()]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    print(machine())
    failed = [name for name in chosen or names() if not run(name)]
    print(f"\nover a limit or failed: {', '.join(failed)}" if failed else "\nall within their limits")
    return 1 if failed else 0


def machine() -> str:
    """What the numbers were measured on, in a line."""
    versions = []
    for module in ("torch", "transformers"):
        from importlib.metadata import version

        versions.append(f"{module} {version(module)}")
    python, cores = platform.python_version(), os.cpu_count() or 1
    line = f"{cores} cores, {platform.system()} {platform.machine()}, Python {python}, {', '.join(versions)}"
    busy = os.getloadavg()[0]
    return line if busy < cores / 2 else f"{line}\nload {busy:.1f}: the machine is busy, times are too long"


def run(name: str) -> bool:
    """Run one benchmark, print its table, and say whether every number holds."""
    print(f"\n{name} …", flush=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "rows.json"
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, "--one", name, str(result)], cwd=ROOT, check=False
        )
        rows = [Row(**r) for r in json.loads(result.read_text())] if result.exists() else []
    print(table(rows))
    print(f"({time.monotonic() - start:.0f} s)")
    return done.returncode == 0 and all(row.holds for row in rows)


def table(rows: list[Row]) -> str:
    """The rows as text, those over their limit marked."""
    cells = [
        [row.what, f"{row.value:.3g} {row.unit}", limit_text(row), "" if row.holds else "OVER", row.note]
        for row in rows
    ]
    return tabulate(
        cells,
        headers=["", "measured", "at most", "", "how"],
        colalign=("left", "right", "right", "left", "left"),
        disable_numparse=True,
    )


def limit_text(row: Row) -> str:
    return "" if row.limit is None else f"{row.limit:g} {row.unit}"


def run_one(name: str, result: str) -> None:
    """In a process of its own: the rows of one benchmark as JSON into a file."""
    os.environ["TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO"] = "0"
    module = importlib.import_module(f"{__package__}.bench_{name}")
    rows = module.main()
    Path(result).write_text(json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
