"""``.graph`` files: what a snapshot looks like in a repository.

Comes in: a Snapshot. Goes out: UTF-8 text that reviews well without any tool, and back without loss:
``parse_graph(print_graph(s)) == s`` for every snapshot without line numbers. Any other text is a PeekError with line and column.

* ``graphfile_text``   words, strings and call templates
* ``graphfile_types``  types
* ``graphfile_print``, ``graphfile_parse``  whole files
"""

from __future__ import annotations

from pathlib import Path

from ..errors import PeekError
from ..model.snapshot import Call, Node, Snapshot
from .graphfile_parse import parse_graph
from .graphfile_print import FORMAT, fill, print_graph
from .graphfile_text import Operand, read_template
from .graphfile_types import type_text

__all__ = [
    "FORMAT",
    "Operand",
    "arguments",
    "decode_graph",
    "fill",
    "parse_graph",
    "print_graph",
    "read_graph",
    "type_text",
]


def decode_graph(data: bytes, where: str = "<graph>") -> Snapshot:
    """The snapshot in a file's bytes; raises PeekError for anything else, non-UTF-8 by its name."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        problem = f"{where}:{line}:{column}: the file is not UTF-8"
        raise PeekError(
            problem, f"byte 0x{data[error.start]:02x}: {error.reason}", "save it as UTF-8"
        ) from None
    return parse_graph(text, where)


def read_graph(path: Path | str) -> Snapshot:
    """The snapshot in a file. Raises PeekError when it cannot be opened or read."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise PeekError(f"cannot open {path}", error.strerror or str(error), "check the path") from None
    return decode_graph(data, str(path))


def arguments(call: Call | Node) -> list[tuple[str | None, object]]:
    """A call's arguments as (keyword or None, value); see ``graphfile_text.read_template`` for the values."""
    return read_template(call.template)
