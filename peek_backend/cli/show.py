"""``peek show``: a saved capture, or an exported program, as a table, a tree, JSON or a picture."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import click

from ..errors import PeekError
from ..model import CaptureRecord
from .output import display_options, show_record, view_of
from .traces import unlogged


@click.command()
@click.argument("file")
@click.option(
    "--stages",
    metavar="A,B,…",
    help="Only these stages of each compile; two of them side by side (dynamo,forward).",
)
@click.option("--saved", is_flag=True, help="What each forward saves for its backward, and its gradients.")
@click.option("--in-place", is_flag=True, help="In-place ops, and what functionalisation made of each.")
@display_options
def show(
    file: str, output: str | None, stages: str | None, saved: bool, in_place: bool, **display: Any
) -> None:
    """Show FILE: a capture (.json, .peek.jsonl) or an exported program (.pt2). - reads a capture from stdin.

    A terminal gets cells cut to its width and long graphs folded by module; a file or pipe gets everything.
    COLUMNS sets the width. Only a .pt2 file needs torch.
    """
    view = view_of(output, **display)
    record = load(file)
    if saved or in_place or stages is not None:
        from .staged import show_stages

        show_stages(record, view, output, Asked(stages, saved, in_place))
        return
    show_record(record, view, output)


class Asked(NamedTuple):
    """What of the later stages is to be shown."""

    stages: str | None
    saved: bool
    in_place: bool


def load(file: str) -> CaptureRecord:
    """The capture that ``file`` names; PeekError where there is none."""
    if file == "-":
        from ..snapshot import decode

        return decode(sys.stdin.buffer.read(), "stdin")
    if Path(file).suffix == ".pt2":
        return _load_exported(file)
    from ..snapshot import read

    return read(file)


def _load_exported(file: str) -> CaptureRecord:
    from ..snapshot.atomic import read_bytes

    read_bytes(file)  # says what is wrong with the path before torch is imported
    try:
        from ..capture.exported import record_exported
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        why = "reading an exported program needs torch, which is not installed"
        raise PeekError(f"cannot read {file!r}", why, "pip install torch") from None
    with unlogged("torch.export"):  # it prints the traceback of each format that the file does not have
        return record_exported(file)
