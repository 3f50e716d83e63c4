"""Lines of graphs that torch's caches keep as text.

Neither cache has lines in its key: after an edit, or from another checkout, the text of a hit names the lines of the program that
filled the cache. The Dynamo graph of the same call has those of today.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import msgspec

from ..model import GraphRecord, NodeRecord, Source
from ..model.graph import keyed


class Line(NamedTuple):
    """A line of code that made nodes."""

    file: str
    number: int
    function: str | None
    code: str | None


def at_todays_lines(record: GraphRecord, dynamo: GraphRecord) -> GraphRecord:
    """A graph that came as text, its nodes at the lines at which the Dynamo graph that it was made from has them.

    A line that the Dynamo graph does not know is left as it is.
    """
    told, known = _lines(record), _lines(dynamo)
    files = {line.file for line in known}
    if all(line.file in files and _stands(line) for line in told if line not in known):
        return record
    return _relocated(record, _moved([*told], [*known]))


def _lines(graph: GraphRecord) -> dict[Line, None]:
    """The lines of a graph, in the order of the code. Files are ordered by name first: another checkout has other folders."""
    found = {_line(n.source) for _, each in keyed(graph) for n in each.nodes if n.source is not None}
    return dict.fromkeys(
        sorted(
            (line for line in found if line is not None),
            key=lambda line: (os.path.basename(line.file), line[:2]),
        )
    )


def _line(source: Source | None) -> Line | None:
    if source is None or not source.file or not source.line:
        return None
    return Line(source.file, source.line, source.function, source.code)


def _stands(line: Line) -> bool:
    """Whether the program has this line now."""
    return linecache.getline(line.file, line.number).strip() == (line.code or "").strip()


def _moved(told: list[Line], known: list[Line]) -> dict[Line, Line]:
    """For each line what it is today: found by its code, in the order of the code.

    Where as many others stand between two that are found, those are the same ones with other names in them.
    """
    match = SequenceMatcher(
        None, [_text(line) for line in told], [_text(line) for line in known], autojunk=False
    )
    return dict(_pairs(match, told, known))


def _text(line: Line) -> tuple[str, str | None, str | None]:
    return os.path.basename(line.file), line.function, line.code


def _pairs(match: SequenceMatcher[Any], told: list[Line], known: list[Line]) -> Iterator[tuple[Line, Line]]:
    for _, a, end_a, b, end_b in match.get_opcodes():
        if end_a - a == end_b - b:
            yield from zip(told[a:end_a], known[b:end_b], strict=True)


def _relocated(record: GraphRecord, now: dict[Line, Line]) -> GraphRecord:
    nodes = tuple([_with_line(n, now.get(line)) if (line := _line(n.source)) else n for n in record.nodes])
    children = tuple([_relocated(child, now) for child in record.children])
    return msgspec.structs.replace(record, nodes=nodes, children=children)


def _with_line(node: NodeRecord, line: Line | None) -> NodeRecord:
    if line is None or node.source is None:
        return node
    source = msgspec.structs.replace(
        node.source, file=line.file, line=line.number, function=line.function, code=line.code
    )
    return msgspec.structs.replace(node, source=source)
