"""A snapshot as the text of a ``.graph`` file. Deterministic: equal snapshots print the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ..model.snapshot import (
    SKIPPED_STATES,
    SLOT,
    Body,
    Break,
    Call,
    Graph,
    Input,
    Node,
    Place,
    Skipped,
    Snapshot,
    Symbol,
    Type,
)
from .graphfile_text import body_name, field, label_name, operand_name, quoted, target_name
from .graphfile_types import type_text

FORMAT = 1
"""The version in a file's first line; raised when an older reader would misread a file."""

TYPE_COLUMN = 61
"""Characters before a node's type, where the call leaves room."""
MAX_NAME_COLUMN = 32
"""Longest input name that others are aligned with: a longer one must not shift every line."""
ARROW = " ▸ "


def print_graph(snapshot: Snapshot) -> str:
    """The file's text. ``Place.line`` and ``Place.path`` are left out; all else can be read back."""
    lines = [f"peek-graph {FORMAT}", f"name   {field(snapshot.name)}"]
    if snapshot.env:
        lines.append("env    " + " ".join(f"{env_word(k)}={env_word(v)}" for k, v in snapshot.env))
    lines.append("stats  " + " ".join(f"{k}={v}" for k, v in snapshot.stats.items()))
    if snapshot.cost:
        lines.append("cost   " + " ".join(f"{k}={v}" for k, v in snapshot.cost))
    lines += [f"note   {field(note)}" for note in snapshot.notes]
    for entry in snapshot.entries:
        if type(entry) is Graph:
            lines.append("")
        lines += _ENTRIES[type(entry)](entry)
    return "\n".join(lines) + "\n"


def env_word(text: str) -> str:
    """A key or value of the header: no space and no equals sign, else quoted."""
    return text if text.isprintable() and text and not set(text) & set(" =`") else quoted(text)


def place_text(place: Place) -> str:
    """``file:function``; both quoted where a colon or a space would mislead."""
    plain = all(_plain_place(part) for part in (place.file, place.function)) and ":" not in place.function
    if plain:
        return f"{place.file}:{place.function}"
    return f"{quoted(place.file)}:{quoted(place.function)}"


def _plain_place(part: str) -> bool:
    return part.isprintable() and "  " not in part and part.strip(" ") == part and "`" not in part


def frame_text(name: str) -> str:
    """A graph's frame; quoted when an arrow in it would read as a resume or variant."""
    return quoted(name) if "▸" in name else field(name)


def _skipped_name(name: str) -> str:
    """A skipped frame's name; quoted when it would seem to end at a state within it."""
    return quoted(name) if any(f" {state}: " in f"{name} " for state in SKIPPED_STATES) else field(name)


def _break(entry: Break) -> Iterator[str]:
    place = entry.place
    yield f"break {field(entry.id)}  {place_text(place)}  {field(place.code)}   {field(entry.reason)}"


def _skipped(entry: Skipped) -> Iterator[str]:
    where = ""
    if entry.place is not None:
        where = f"   at {place_text(entry.place)}" + (
            f"   {field(entry.place.code)}" if entry.place.code else ""
        )
    yield f"frame {_skipped_name(entry.frame)} {entry.state}: {field(entry.reason)}{where}"


def _graph(graph: Graph) -> Iterator[str]:
    title = ARROW.join([frame_text(graph.frame), *_suffixes(graph)])
    because = f"   because {field(graph.because)}" if graph.because else ""
    yield f"graph {title}{because}"
    yield from map(_symbol, graph.symbols)
    yield from [f"  guard {field(guard)}" for guard in graph.guards]
    bodies = ["@" + body_name(body.name) for body in graph.bodies]
    yield from _lines(graph, bodies)
    for body in graph.bodies:
        yield f"body {body_name(body.name)}"
        yield from _lines(body, bodies)


def _suffixes(graph: Graph) -> Iterator[str]:
    if graph.resume:
        yield f"resume#{graph.resume}"
    if graph.variant != 1:
        yield f"variant#{graph.variant}"
    if graph.call:
        yield f"call#{graph.call}"
    if graph.stage != "dynamo":
        yield f"stage {frame_text(graph.stage)}"


def _symbol(symbol: Symbol) -> str:
    sources = ", ".join(map(operand_name, symbol.sources)) or "-"
    kind = "" if symbol.type == "int" else f" {label_name(symbol.type)}"
    lower = "-∞" if symbol.lower is None else repr(symbol.lower)
    upper = "∞" if symbol.upper is None else repr(symbol.upper)
    return f"  sym  {label_name(symbol.name)} = {sources} in [{lower}, {upper}]{kind}"


def _lines(graph: Graph | Body, bodies: Sequence[str]) -> list[str]:
    """Inputs, nodes and output."""
    names = [operand_name(i.name) for i in graph.inputs]
    words = _Words()
    lines = _inputs(graph.inputs, names, words)
    labels = ["%" + label_name(node.label) for node in graph.nodes]
    # Bodies count from the end (operand -1 is body 0), so one list serves all.
    operands = [*names, *labels, *reversed(bodies)]
    lines += _nodes(graph.nodes, labels, operands, words)
    lines.append(f"  out  {fill(graph.output, operands)}".rstrip())
    return lines


def fill(call: Call | Node, operands: Sequence[str]) -> str:
    """A template with the text of each operand in its slot."""
    if not call.operands:
        return call.template
    pieces = call.template.split(SLOT)
    found = [pieces[0]]
    for index, piece in zip(call.operands, pieces[1:], strict=True):
        found.append(operands[index])
        found.append(piece)
    return "".join(found)


class _Words(dict):
    """Texts of types by identity and of targets: a graph has few of them and many nodes. Valid while the graph lives."""

    def of(self, t: Type) -> str:
        text = self.get(id(t))
        if text is None:
            text = self[id(t)] = type_text(t)
        return text

    def target(self, target: str) -> str:
        text = self.get(target)
        if text is None:
            text = self[target] = target_name(target)
        return text


def _inputs(inputs: Sequence[Input], names: Sequence[str], words: _Words) -> list[str]:
    width = max([len(n) for n in names if len(n) <= MAX_NAME_COLUMN], default=0) + 1
    return [
        f"  in   {name + ':':<{width}} {words.of(i.type)}{f' ({i.kind})' if i.kind else ''}".rstrip()
        for i, name in zip(inputs, names, strict=True)
    ]


def _nodes(nodes: Sequence[Node], labels: Sequence[str], operands: Sequence[str], words: _Words) -> list[str]:
    """One line a node, and one above each run of nodes that come from the same user line."""
    lines: list[str] = []
    places = _PlaceTexts()
    index, before = 0, ""
    for place, group in groupby(nodes, lambda node: places.of(node.place)):
        run = list(group)
        if place != before:
            lines.append(_comment(run[0].module, place))
        before = place
        width = max([len(label) for label in labels[index : index + len(run)]])
        for node in run:
            lines.append(_node(node, f"  {labels[index]:<{width}} = ", operands, words))
            index += 1
    return lines


def _node(node: Node, head: str, operands: Sequence[str], words: _Words) -> str:
    line = f"{head}{words.target(node.target)}({fill(node, operands)})"
    if node.type is None:
        return line
    return f"{line:<{TYPE_COLUMN - 2}}  {words.of(node.type)}"


class _PlaceTexts(dict):
    """Texts of places by identity, without the line number: two equal lines in a row are one."""

    def of(self, place: Place | None) -> str:
        if place is None:
            return ""
        text = self.get(id(place))
        if text is None:
            code = f"   {field(place.code)}" if place.code else ""
            text = self[id(place)] = place_text(place) + code
        return text


def _comment(module: str, place: str) -> str:
    """``  # fc1   model.py:forward   return self.fc2(x)``; a lone ``#`` where the source is unknown."""
    return f"  # {field(module) if module else ''}   {place}" if place else "  #"


_ENTRIES = {Graph: _graph, Break: _break, Skipped: _skipped}
