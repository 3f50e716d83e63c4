"""``peek explain``: why a capture has the graphs it has: breaks, recompiles, guards, sizes."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import click

from ..errors import PeekError
from ..options import resolve, wants_color
from ..snapshot.journal import FOLDER, SUFFIX
from .output import SUFFIXES, write_stdout
from .show import load

_SUFFIXES = {".json", ".jsonl", ".pt2", *SUFFIXES}
_HAS_SLASHES = re.compile(r"^!?\d+(/\d+)+$|[\['\"]")


@click.command()
@click.option("--details", is_flag=True, help="Every frame, guard, symbol and compile time.")
@click.option("--color", metavar="WHEN", help="auto, always or never.")
@click.argument("file", required=False)
@click.argument("topic", nargs=-1)
def explain(file: str | None, topic: tuple[str, ...], details: bool, color: str | None) -> None:
    """Say what happened in FILE (a capture), or all about one TOPIC of it.

    TOPIC is a section (breaks, recompiles, frames, times, symbols, guards), a break (break 2, GB0059, model.py:31), a FRAME
    (Model.forward), a compile id (0/1), or a VALUE: a size (x.shape[1]), a tensor (x), a symbol (s0), or whatever else the
    report names (k, self.scale, x.dtype). Without FILE: the newest capture in peek-out.
    """
    from ..render.explain import explain_text

    path, words = _chosen(file, topic)
    options, _ = resolve({"color": color} if color is not None else {})
    text = explain_text(
        load(path),
        " ".join(words) or None,
        width=shutil.get_terminal_size().columns if sys.stdout.isatty() else _columns(),
        color=wants_color(options.color, sys.stdout),
        details=details,
        file=path,
    )
    write_stdout(text)


def _columns() -> int | None:
    """COLUMNS where it is set; else None: a pipe gets whole lines."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) else None


def _chosen(file: str | None, topic: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The capture and the topic. A first word that names no file is a topic of the newest capture."""
    if file is not None and (file == "-" or Path(file).exists() or _looks_like_a_file(file)):
        return file, topic
    newest = _newest()
    if newest is None:
        raise PeekError(
            f"no capture in {FOLDER}" + (f", and no file {file!r}" if file else ""),
            "peek explain reads what peek run wrote",
            "peek run SCRIPT, or name a capture",
        )
    return newest, topic if file is None else (file, *topic)


def _looks_like_a_file(text: str) -> bool:
    """By its suffix, or as a path: compile ids (``!0/1/0``) and keys of dicts (``config['a/b']``) have slashes too."""
    if Path(text).suffix in _SUFFIXES:
        return True
    return any(slash in text for slash in "/\\") and not _HAS_SLASHES.search(text)


def _newest() -> str | None:
    found = sorted(Path(FOLDER).glob(f"*{SUFFIX}"), key=lambda p: p.stat().st_mtime)
    return str(found[-1]) if found else None
