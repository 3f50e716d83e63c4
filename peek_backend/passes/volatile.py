"""Constants that differ between two captures of one program: a random number, a time, an id baked into the graph.

Comes in: two Snapshots of one program. Goes out: the first with ``repr("<volatile>")`` in the place of each.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from ..model.snapshot import Call, Entry, Graph, Node, ScalarType, Snapshot, Type

VOLATILE = '"<volatile>"'
_MARK = re.compile(r'repr\("<volatile>"\)')
_TOKENS = re.compile(r'("(?:[^"\\]|\\.)*"|[^\s,\[\]{}()=:"]+)')


def mark_volatile(first: Snapshot, second: Snapshot) -> Snapshot:
    """``first`` with the constants marked that are others in ``second``, where the two have the same ops in the same places."""
    partners = {graph.title: graph for graph in second.graphs}
    return replace(first, entries=tuple([_entry(entry, partners) for entry in first.entries]))


def is_same_but_volatile(one: str, other: str) -> bool:
    """Whether two templates are equal where neither has a mark: a marked constant may be any."""
    if VOLATILE not in one and VOLATILE not in other:
        return one == other
    left, right = (_TOKENS.split(_MARK.sub(VOLATILE, text)) for text in (one, other))
    return len(left) == len(right) and all(
        a == b or VOLATILE in (a, b) for a, b in zip(left, right, strict=True)
    )


def _entry(entry: Entry, partners: dict[str, Graph]) -> Entry:
    other = partners.get(entry.title) if isinstance(entry, Graph) else None
    if not isinstance(entry, Graph) or other is None:
        return entry
    bodies = {body.name: body for body in other.bodies}
    marked = [_section(body, bodies[body.name]) if body.name in bodies else body for body in entry.bodies]
    because = entry.because if entry.because == other.because else _texts(entry.because, other.because)
    return replace(_section(entry, other), bodies=tuple(marked), because=because)


def _section(one, other):
    """A graph or body with its nodes and output marked."""
    if len(one.nodes) != len(other.nodes):
        return one
    nodes = [_node(a, b) for a, b in zip(one.nodes, other.nodes, strict=True)]
    output = Call(_template(one.output.template, other.output.template), one.output.operands)
    return replace(one, nodes=tuple(nodes), output=output)


def _node(one: Node, other: Node) -> Node:
    if one == other or (one.target, one.operands) != (other.target, other.operands):
        return one
    return replace(one, template=_template(one.template, other.template), type=_type(one.type, other.type))


def _type(one: Type, other: Type) -> Type:
    if (
        isinstance(one, ScalarType)
        and isinstance(other, ScalarType)
        and one.type == other.type
        and one != other
    ):
        return ScalarType(one.type, VOLATILE)
    return one


def _template(one: str, other: str) -> str:
    """A call's constants where the two differ. Their order and number must be the same, else the calls are not the same."""
    if one == other:
        return one
    left, right = _TOKENS.split(one), _TOKENS.split(other)
    if len(left) != len(right) or left[::2] != right[::2]:
        return one
    return "".join(
        _marked(left, place) if place % 2 and a != right[place] else a for place, a in enumerate(left)
    )


def _marked(parts: list[str], place: int) -> str:
    """The mark for one constant; a text within ``repr(…)`` is replaced alone."""
    inside = parts[place].startswith('"') and parts[place - 1].endswith("(")
    return VOLATILE if inside else f"repr({VOLATILE})"


def _texts(one: str, other: str) -> str:
    """A reason's words, those that differ left open."""
    left, right = one.split(" "), other.split(" ")
    if len(left) != len(right):
        return one
    return " ".join(a if a == b else "<volatile>" for a, b in zip(left, right, strict=True))
