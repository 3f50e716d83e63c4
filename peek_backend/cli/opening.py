"""``peek open``: the page of a capture, in the browser. Nothing is served."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from ..api import load
from ..export import write
from ..model import CaptureRecord
from .output import tell


@click.command("open")
@click.option("-o", "--output", metavar="FILE", help="Page to write [beside FILE, with the suffix .html].")
@click.option("--browser/--no-browser", default=True, help="Open it, or only write it.")
@click.argument("file")
def open_(file: str, output: str | None, browser: bool) -> None:
    """Write the page of FILE, a capture or a .pt2 file, and open it in the browser.

    The page is one file that needs no network and no server.
    """
    open_page(load(file), Path(output) if output else page_path(Path(file)), browser=browser)


def page_path(capture: Path) -> Path:
    """``train.html`` beside ``train.peek.jsonl``."""
    name = capture.name.removesuffix(".jsonl").removesuffix(".peek")
    return capture.with_name(name).with_suffix(".html")


def open_page(record: CaptureRecord, path: Path, *, browser: bool = True) -> None:
    """Write the page of ``record`` to ``path`` and open it; where there is no browser, say where it is."""
    write(record, path, kind="html")
    opened = browser and webbrowser.open(path.absolute().as_uri())
    tell(f"page: {path}" + ("" if opened or not browser else " (no browser could be opened; open the file)"))
