"""Running ``peek`` in this process and in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from peek_backend.cli import main
from peek_backend.snapshot import jsonfile
from tests.builders import capture, transformer

ROOT = Path(__file__).resolve().parents[2]


class Done(NamedTuple):
    """What a command line gave."""

    code: int
    out: str
    err: str


@pytest.fixture
def peek(capsys):
    """``peek("show", file)`` in this process."""

    def call(*args) -> Done:
        code = main([str(a) for a in args])
        return Done(code, *capsys.readouterr())

    return call


def python(*args, cwd=None, **env: str | None) -> subprocess.CompletedProcess[bytes]:
    """``python ARGS`` in a process of its own that finds peek; a variable set to None is unset."""
    merged = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    merged = {k: v for k, v in merged.items() if v is not None}
    args = [sys.executable, *map(str, args)]
    return subprocess.run(args, cwd=cwd, env=merged, capture_output=True, check=False, timeout=120)


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """A saved capture of two transformer-shaped graphs."""
    path = tmp_path_factory.mktemp("saved") / "capture.json"
    tail = msgspec.structs.replace(transformer(1, name="Tail.forward"), compile_id="1/0")
    jsonfile.write(path, capture(transformer(2), tail))
    return path
