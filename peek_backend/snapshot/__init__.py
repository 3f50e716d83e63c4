"""Records <-> files.

Comes in: records to write, paths to read. Goes out: files written whole, records checked. Imports model.

* ``jsonfile``  a whole capture as one JSON object
* ``journal``   a capture written while the program runs, one line a record
* ``atomic``    files read and written whole, with clear errors
* ``graphfile`` the ``.graph`` text that people review
"""

from __future__ import annotations

import os

from ..model import CaptureRecord
from . import journal, jsonfile
from .atomic import read_bytes


def read(path: str | os.PathLike[str]) -> CaptureRecord:
    """The capture at ``path``, a JSON file or a journal, told apart by what is in it.

    Raises PeekError for what cannot be read or is no capture.
    """
    return decode(read_bytes(path), os.fspath(path))


def decode(data: bytes, where: str) -> CaptureRecord:
    """The capture in ``data``, JSON or a journal; ``where`` names it in errors."""
    return (journal if journal.is_journal(data) else jsonfile).decode(data, where)
