"""Kinds of op for the page: the names of ``passes.kinds`` and the colours of ``render.theme`` as CSS variables."""

from __future__ import annotations

from functools import lru_cache

from peek_backend.model import GraphRecord
from peek_backend.passes import kinds

from ..theme import DARK, LIGHT, Theme

KINDS = [{"name": name, "title": title} for name, title in kinds.KINDS.items()]
_NUMBER = {name: number for number, name in enumerate(kinds.KINDS)}


def kind_numbers(graph: GraphRecord) -> list[int]:
    """The kind of every node as its position in KINDS."""
    return [_NUMBER[kinds.node_kind(node)] for node in graph.nodes]


@lru_cache(maxsize=1)
def kind_css() -> str:
    """``--op-matmul: #0072b2`` and so on for light, for dark, and for dark where the reader's system asks for it."""
    light, dark = _variables(LIGHT), _variables(DARK)
    return (
        f'\n:root{{{light}}}\n:root[data-theme="dark"]{{{dark}}}\n'
        f'@media (prefers-color-scheme: dark){{:root:not([data-theme="light"]){{{dark}}}}}\n'
    )


def _variables(theme: Theme) -> str:
    return "".join(f"--op-{name}:{ink.border};" for name, ink in theme.inks.items())
