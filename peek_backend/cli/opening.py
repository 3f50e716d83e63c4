"""``peek open``: the page of a capture, in the browser. Nothing is served."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from shlex import quote

import click

from ..api import load
from ..errors import PeekError
from ..export import comparison_page, write
from ..model import CaptureRecord
from ..snapshot.atomic import write_text
from .output import tell


@click.command("open")
@click.option("-o", "--output", metavar="FILE", help="Page to write [beside FILE, with the suffix .html].")
@click.option(
    "--against", metavar="OLD", help="An older capture: the page has a view of what changed, and marks it."
)
@click.option("--browser/--no-browser", default=True, help="Open it, or only write it.")
@click.argument("file")
def open_(file: str, output: str | None, against: str | None, browser: bool) -> None:
    """Write the page of FILE, a capture or a .pt2 file, and open it in the browser.

    The page is one file that needs no network and no server.
    """
    path = _page_for(output) if output else page_path(Path(file))
    record = load(file)
    if against is None:
        open_page(record, path, browser=browser)
    else:
        write_text(path, _compared(load(against), record, (against, file)))
        _show(path, browser=browser)


def _page_for(output: str) -> Path:
    """The path of the page; PeekError for a name that no browser takes for one, as that of the capture itself is."""
    path = Path(output)
    if path.suffix.lower() not in (".html", ".htm"):
        why = "a browser opens a file as a page by its suffix, .html"
        raise PeekError(
            f"peek open cannot write the page to {output!r}", why, f"-o {quote(path.stem or 'page')}.html"
        )
    return path


def _compared(old: CaptureRecord, new: CaptureRecord, files: tuple[str, str]) -> str:
    """The page of ``new`` with what changed since ``old``, judged by the project's policy."""
    from ..diff import compare, verdict
    from ..passes.canonical import canonicalise
    from ..pinned import project_policy, project_root

    root = project_root(Path.cwd())
    before, after = (canonicalise(record, root=str(root)) for record in (old, new))
    found = compare(before, after)
    return comparison_page(verdict(found, project_policy(root)), found, new, old, files)


def page_path(capture: Path) -> Path:
    """``train.html`` beside ``train.peek.jsonl``."""
    name = capture.name.removesuffix(".jsonl").removesuffix(".peek")
    return capture.with_name(name).with_suffix(".html")


def open_page(record: CaptureRecord, path: Path, *, browser: bool = True) -> None:
    """Write the page of ``record`` to ``path`` and open it; where there is no browser, say where it is."""
    write(record, path, kind="html")
    _show(path, browser=browser)


def _show(path: Path, *, browser: bool) -> None:
    opened = browser and webbrowser.open(path.absolute().as_uri())
    tell(f"page: {path}" + ("" if opened or not browser else " (no browser could be opened; open the file)"))
