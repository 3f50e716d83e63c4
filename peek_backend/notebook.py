"""What a notebook shows of a record; the pictures and files that rendering alone must not make."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .errors import PeekError
from .export import draw, source_texts
from .model import CaptureRecord
from .snapshot.journal import FOLDER


def bundle(record: CaptureRecord) -> dict[str, str]:
    """The record by MIME type. Never raises for want of Graphviz or of a place to write: what cannot be made is left out."""
    from .render.html import notebook_bundle

    return notebook_bundle(record, svg=_picture(record), write=_write, sources=source_texts(record))


def _picture(record: CaptureRecord) -> str | None:
    """The first graph, folded; None without a graph or an engine."""
    if not record.graphs:
        return None
    try:
        return draw(record.graphs[0], "svg")[0].decode()
    except PeekError:
        return None


def _write(html: str) -> str:
    """Keep a page that is too big for a cell; equal pages share a file. Returns its name, relative to the notebook."""
    from .snapshot.atomic import ignore_in_git, write_text

    path = Path(FOLDER) / f"record-{hashlib.sha256(html.encode()).hexdigest()[:10]}.html"
    try:
        write_text(path, html)
        ignore_in_git(path.parent)
    except PeekError as error:
        return f"#{error.problem}"
    return path.as_posix()
