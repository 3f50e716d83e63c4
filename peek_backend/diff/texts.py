"""How ops, inputs and changes read in an edit."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..model.snapshot import SLOT, Body, Graph, Node, Place, Type
from ..snapshot.graphfile_text import operand_name
from ..snapshot.graphfile_types import type_text

MAX_NAMED = 3
"""Names that one edit tells; of more the count."""
_FLOAT = re.compile(r"(?<![\w.])-?(?:[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|inf|nan)(?![\w.])")


def operand_texts(graph: Graph | Body) -> list[str]:
    """The text of each operand, labels without their module; bodies are named at the end."""
    found = [operand_name(entry.name) for entry in graph.inputs]
    found += ["%" + node.label.rpartition(".")[2] for node in graph.nodes]
    bodies = (
        [f"@{body.name}" for body in graph.bodies]
        if isinstance(graph, Graph)
        else [f"@{k}" for k in range(_bodies_in(graph))]
    )
    return [*found, *reversed(bodies)]


def _bodies_in(body: Body) -> int:
    return max([-o for node in body.nodes for o in node.operands if o < 0], default=0)


def call_text(node: Node, names: Sequence[str]) -> str:
    """``operator.mul(%gelu, 1.0001)``; inputs of the node's own module by their last part."""
    prefix = node.module + "."
    own = {o: names[o][len(prefix) :] for o in node.operands if prefix != "." and names[o].startswith(prefix)}
    pieces = node.template.split(SLOT)
    text = pieces[0]
    for operand, piece in zip(node.operands, pieces[1:], strict=True):
        text += own.get(operand, names[operand]) + piece
    return short(f"{node.target}({text})")


def few(names: Sequence[str]) -> str:
    """The first ``MAX_NAMED`` names, and how many more there are: ``a, b, c … and 2 more``."""
    more = f" … and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def short(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def owner(name: str) -> str:
    """The module that an input's name lies in: ``layers.0.fc1`` for its weight."""
    return name.rpartition(".")[0]


def place_key(place: Place | None) -> tuple[str, str, str]:
    return ("", "", "") if place is None else (place.file, place.function, place.code)


def delta(old: str, new: str) -> float | None:
    """The largest relative change of a number, when two templates differ in numbers alone."""
    if _FLOAT.sub("#", old) != _FLOAT.sub("#", new):
        return None
    worst = 0.0
    for a, b in zip(_FLOAT.findall(old), _FLOAT.findall(new), strict=True):
        if a != b:
            if "." not in a + b and "e" not in a + b:
                return None  # integers are sizes, dims and flags: there is no nearly
            worst = max(worst, _relative(float(a), float(b)))
    return worst


def _relative(a: float, b: float) -> float:
    if a == b:
        return 0.0
    size = max(abs(a), abs(b))
    return abs(a - b) / size if 0 < size < float("inf") else float("inf")


def change(old: Type, new: Type) -> str:
    return f"{short(type_text(old), 60)} → {short(type_text(new), 60)}"
