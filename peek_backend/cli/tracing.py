"""``peek trace``: a node or a user's line, followed through every stage of a capture."""

from __future__ import annotations

import sys

import click

from .output import options_of, tell_problems, width_of, write_stdout
from .show import load


@click.command()
@click.argument("file")
@click.argument("what", metavar="NODE|FILE.py:LINE")
@click.option("--format", metavar="NAME", help="A tabulate format.")
def trace(file: str, what: str, format: str | None) -> None:
    """Follow a node of the capture FILE, or all nodes of a line, back to the user's code and on to the kernels.

    NODE is a name (mm_3), with its graph where several have one ('0/0 joint:mm_3'). The capture must hold later stages:
    peek run --stages all, or the backend's option stages.
    """
    from ..analysis.provenance import Provenance
    from ..render.stages import trace_text

    options = options_of(format=format)
    record = load(file)
    tell_problems(record)  # first: what a capture lacks also explains an unknown node
    links = Provenance(record)
    found = links.trace(links.find(what))
    write_stdout(trace_text(found, links.graphs, options.format, width_of(sys.stdout)) + "\n")
