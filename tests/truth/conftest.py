"""Every case once without peek and once with it, in two subprocesses that the whole test run shares."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import filelock
import pytest

from peek_backend.api import as_record
from peek_backend.snapshot.jsonfile import decode

ROOT = Path(__file__).parents[2]
FACTS: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "cases" / "facts.json").read_text())
CASES = [name for name, facts in FACTS.items() if "graphs" in facts]
"""Cases of one process; the others start their own ranks."""

MEASURED = [name for name in CASES if not name.startswith("13")]
"""Cases whose facts hold here: those of 130 and up were taken with another release of transformers, whose code differs."""


FIXED = {**os.environ, "PYTHONHASHSEED": "0"}  # torch's guards come in the order of a set


class Ran(NamedTuple):
    """A folder for each way of running: ``plain`` without peek, ``peek`` with a session open."""

    folder: Path

    def outcome(self, mode: str, case: str) -> dict[str, Any]:
        """What torch did."""
        return json.loads((self.folder / mode / f"{case}.outcome.json").read_text())

    def record(self, case: str) -> Any:
        """What peek recorded."""
        path = self.folder / "peek" / f"{case}.json"
        return as_record(decode(path.read_bytes(), path.name))


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All cases, run both ways; the workers of pytest-xdist wait for the first of them.

    With CASES_RAN=FOLDER the runs are kept there and used again: half a minute less where only a test changed.
    """
    if kept := os.environ.get("CASES_RAN"):
        folder = Path(kept)
    else:
        shared = tmp_path_factory.getbasetemp()
        folder = (shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared) / "truth"
    with filelock.FileLock(str(folder) + ".lock"):
        if not folder.exists():
            _run_all(folder)
    return Ran(folder)


def _run_all(folder: Path) -> None:
    """Both ways at once, one process each."""
    with_transformers = importlib.util.find_spec("transformers") is not None
    names = [n for n in CASES if with_transformers or not n.startswith("13")]
    running = {}
    for mode in ("plain", "peek"):
        (folder / mode).mkdir(parents=True)
        command = [sys.executable, "-m", "tests.truth.worker", mode, str(folder / mode), *names]
        running[mode] = subprocess.Popen(
            command, cwd=ROOT, env=FIXED, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
    for mode, process in running.items():
        _, told = process.communicate(timeout=500)
        assert process.returncode == 0, f"{mode}: {told.decode(errors='replace')[-3000:]}"
