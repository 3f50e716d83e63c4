"""The symbols that a graph's types, arguments and guards speak of, so that none is used that no ``sym`` line declares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ..model.snapshot import (
    Body,
    Graph,
    SizeType,
    SymType,
    TensorType,
    TupleType,
    Type,
)

# A symbol as a word of an expression, of which attributes and calls are none.
_IN_EXPRESSION = re.compile(r"(?<![\w.])[su][0-9]+(?![\w(])")
# In a template: a symbol or an expression, but not what a string or a quoted keyword says.
IN_TEMPLATE = re.compile(
    r'sym\("((?:[^"\\]|\\.)*)"\)|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`|(?<![\w.])[su][0-9]+(?![\w.=(])'
)
# In a line of a file; labels, bodies, names and strings are passed over, a sym("…") is not.
_IN_LINE = re.compile(
    r'(?<!sym\()"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`|[%@][\w.]+|(?<![\w.])([su][0-9]+)(?![\w(:=])'
)


def expressions(kind: Type) -> Iterator[str]:
    """The symbolic texts of a type: sizes, strides, offsets, numbers."""
    if isinstance(kind, TensorType):
        yield from [d for d in (*kind.shape, *(kind.stride or ()), kind.offset) if isinstance(d, str)]
        for _, inner in kind.inner:
            yield from expressions(inner)
    elif isinstance(kind, SizeType):
        yield from [d for d in kind.shape if isinstance(d, str)]
    elif isinstance(kind, SymType):
        yield kind.expr
    elif isinstance(kind, TupleType):
        for item in kind.items:
            yield from expressions(item)


def symbols_in_text(text: str) -> list[str]:
    """The symbols of an expression or guard."""
    return _IN_EXPRESSION.findall(text)


def symbols_in_template(template: str) -> Iterator[str]:
    """The symbols of written arguments."""
    for match in IN_TEMPLATE.finditer(template):
        if match[1] is not None:
            yield from symbols_in_text(match[1])
        elif match[0][0] not in '"`':
            yield match[0]


def symbols_used(graph: Graph) -> set[str]:
    """Every symbol that a graph or one of its bodies speaks of."""
    found: set[str] = set()
    sections: Sequence[Graph | Body] = (graph, *graph.bodies)
    kinds = {id(entry.type): entry.type for part in sections for entry in (*part.inputs, *part.nodes)}
    for kind in kinds.values():
        for text in expressions(kind):
            found.update(symbols_in_text(text))
    templates = {node.template for part in sections for node in part.nodes}
    for template in templates | {part.output.template for part in sections}:
        found.update(symbols_in_template(template))
    for guard in graph.guards:
        found.update(symbols_in_text(guard))
    return found


def first_use(lines: Iterable[str], symbols: set[str]) -> tuple[int, int, str] | None:
    """Line (from 0) and column (from 1) of the first word in a graph's lines that is one of ``symbols``, and that word."""
    for at, line in enumerate(lines):
        if line.startswith(("  guard ", "  in   ", "  %", "  out  ")):
            for match in _IN_LINE.finditer(line):
                if match[1] in symbols:
                    return at, match.start(1) + 1, match[1]
    return None
