"""Runs the gallery in samples/ and compares what it prints with tests/samples/expected/, volatile parts aside.

The expected files hold real output. ``make readme`` writes them anew; look at the difference before you commit it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLES = ROOT / "samples"
EXPECTED = Path(__file__).resolve().parent / "expected"

NUMBERED = sorted(SAMPLES.glob("[0-9][0-9]_*.py"))
"""The gallery in reading order."""

_VOLATILE = (
    # times, shares of time and file sizes: 0.31 s, 28%, 12,345 bytes
    (re.compile(r"\b[\d,.]+ ?(µs|ms|s|seconds|bytes)\b"), r"# s"),
    (re.compile(r"\b[\d.]+ ?%"), "# %"),
    # versions of torch, peek and Python
    (re.compile(r"\b\d+\.\d+\.\d+[+\w.]*"), "#.#.#"),
    (re.compile(r"\b0x[0-9a-f]+\b"), "0x#"),
    # rules under table headings are as long as the widest cell, which may hold one of the above
    (re.compile(r"-{3,}"), "---"),
    (re.compile(r" {2,}"), "  "),
)


def run(sample: Path, folder: Path) -> str:
    """What ``python samples/NAME`` prints on both streams, run in this process with ``folder`` as its working directory.

    Compile ids start at 0/0, as they would in a process of its own.
    """
    import torch

    torch._dynamo.reset()
    torch.manual_seed(0)
    output = io.StringIO()
    streams = contextlib.redirect_stdout(output), contextlib.redirect_stderr(output)
    with _working_in(folder), _arguments(str(sample)), streams[0], streams[1]:
        runpy.run_path(str(sample), run_name="__main__")
    return tidy(output.getvalue())


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _arguments(*argv: str) -> Iterator[None]:
    before, sys.argv = sys.argv, list(argv)
    try:
        yield
    finally:
        sys.argv = before


def tidy(text: str) -> str:
    """The output as it may be kept: no path of this machine, no blanks at line ends."""
    text = text.replace(f"{SAMPLES}{os.sep}", "").replace(f"{ROOT}{os.sep}", "")
    text = re.sub(r"[^\s\"'(]*/site-packages/", "", text)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"


def normalise(text: str) -> str:
    """The output with what may differ between two runs or machines replaced: times, sizes, versions, addresses, widths."""
    for pattern, replacement in _VOLATILE:
        text = pattern.sub(replacement, text)
    return text


def expected(sample: Path) -> Path:
    """The file that holds a sample's output."""
    return EXPECTED / f"{sample.stem}.txt"
