"""Lines of graphs that torch's caches keep as text.

Neither cache has lines in its key: after an edit, or from another program with the same graph, the text of a hit names the lines
of the program that filled the cache. The Dynamo graph of the same call has those of today, and so has every graph read before.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

import msgspec

from ..model import GraphRecord, NodeRecord, Source, StackFrame


class Line(NamedTuple):
    """A line of code that made nodes."""

    file: str
    number: int
    function: str | None
    code: str | None


def at_todays_lines(record: GraphRecord, dynamo: GraphRecord) -> GraphRecord:
    """The first graph that AOTAutograd traced, which came as text, at the lines that the Dynamo graph has for its nodes.

    It was traced in the order of the Dynamo graph, so lines are found by their order, and by their code. One that is neither
    found nor in the program is no longer told.
    """
    told, known = _lines(record), _lines(dynamo)
    if set(told) <= set(known):  # torch takes every line of an ATen graph from the Dynamo graph
        return record
    now = dict(_moved(told, known))
    return _relocated(record, {line: now.get(line) or (line if _stands(line) else None) for line in told})


def at_lines_of(record: GraphRecord, earlier: Sequence[GraphRecord]) -> GraphRecord:
    """A later graph that came as text, at the lines of the nodes that have the same names in ``earlier`` ones, the nearest first.

    A node that a pass made is where the named nodes of its line are; where the text is of another program, and there are none, it
    has no line.
    """
    sources = {place: source for graph in reversed(earlier) for place, source in _named(graph)}
    now: dict[Line, Line | None] = {}
    for place, source in _named(record):
        if (line := _line(source)) is not None and (today := _line(sources.get(place))) is not None:
            now[line] = today if now.get(line, today) == today else None
    if any(line != today for line, today in now.items()):
        now = {line: now.get(line) for line in _lines(record)}
    return _relocated(record, now, sources)


def frame_today(frame: StackFrame, dynamo: GraphRecord) -> StackFrame | None:
    """The line of the Dynamo graph that a cached text means: the same, else the only one of its code; None where that is open."""
    lines = _lines(dynamo)
    same = [
        line for line in lines if (line.file, line.number, line.code) == (frame.file, frame.line, frame.code)
    ]
    found = same or [line for line in lines if line.code == frame.code]
    if len(found) != 1:
        return None
    return StackFrame(found[0].file, found[0].number, found[0].function or "", found[0].code or "")


Place = tuple[str, str]
"""A node by the name of its body, empty for the graph's own, and its name."""


def _named(graph: GraphRecord) -> Iterator[tuple[Place, Source | None]]:
    for body, each in (("", graph), *((child.name, child) for child in graph.children)):
        yield from (((body, node.name), node.source) for node in each.nodes)


def _lines(graph: GraphRecord) -> list[Line]:
    """The lines of a graph, each once, in the order in which they run."""
    return list(dict.fromkeys(line for n in _running(graph, graph) if (line := _line(n.source)) is not None))


def _running(graph: GraphRecord, root: GraphRecord) -> Iterator[NodeRecord]:
    """The nodes of a graph, those of a body where it is named: AOTAutograd traces some in place."""
    for node in graph.nodes:
        yield node
        if node.body is not None and node.body < len(root.children):
            yield from _running(root.children[node.body], root)


def _line(source: Source | None) -> Line | None:
    if source is None or not source.file or not source.line:
        return None
    return Line(source.file, source.line, source.function, source.code)


def _stands(line: Line) -> bool:
    """Whether the program has this line now."""
    return linecache.getline(line.file, line.number).strip() == (line.code or "").strip()


def _moved(told: list[Line], known: list[Line]) -> Iterator[tuple[Line, Line]]:
    """Each line with what it is today: those that are the same, or, if these are more, those with the same code.

    Where as many others stand between two that are found, those are the same ones with other names in them.
    """
    same, alike = _matched(told, known, lambda line: line), _matched(told, known, lambda line: line.code)
    best = alike if _size(alike) > _size(same) else same
    for _, a, end_a, b, end_b in best.get_opcodes():
        if end_a - a == end_b - b:
            yield from zip(told[a:end_a], known[b:end_b], strict=True)


def _matched(told: list[Line], known: list[Line], by: Callable[[Line], object]) -> SequenceMatcher:
    return SequenceMatcher(None, [*map(by, told)], [*map(by, known)], autojunk=False)


def _size(match: SequenceMatcher) -> int:
    return sum(block.size for block in match.get_matching_blocks())


def _relocated(
    record: GraphRecord,
    now: Mapping[Line, Line | None],
    sources: Mapping[Place, Source | None] | None = None,
    body: str = "",
) -> GraphRecord:
    """Nodes with a line at that of ``sources``, else at what ``now`` has for theirs; as they are where it has nothing."""
    sources = sources or {}
    nodes = tuple([_placed(n, now, sources.get((body, n.name))) for n in record.nodes])
    children = tuple([_relocated(child, now, sources, child.name) for child in record.children])
    return msgspec.structs.replace(record, nodes=nodes, children=children)


def _placed(node: NodeRecord, now: Mapping[Line, Line | None], same: Source | None) -> NodeRecord:
    line = _line(node.source)
    if line is None:
        return node
    if same is not None and _line(same) is not None:
        source = elsewhere(same)
    elif (today := now.get(line, line)) is not None:
        source = Source(today.file, today.number, today.function, today.code)
    else:
        source = None
    return msgspec.structs.replace(node, source=source)


def elsewhere(source: Source) -> Source:
    """A source for a node of another graph, which has its own call stacks."""
    return msgspec.structs.replace(source, caller=None)
