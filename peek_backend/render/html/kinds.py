"""Kinds of op and colours for the page: the names of ``passes.kinds``, the colours of ``render.theme`` as CSS variables."""

from __future__ import annotations

from functools import lru_cache

from peek_backend.model import GraphRecord
from peek_backend.passes import kinds

from ..theme import DARK, LIGHT, SPAN, Theme

KINDS = [{"name": name, "title": title} for name, title in kinds.KINDS.items()]
HEAT = {"light": LIGHT.heat.scale, "dark": DARK.heat.scale, "span": SPAN}
"""The scale of the overlays, which is that of pictures."""
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


# A picture tells these greys apart by dashes and dots; bars and legends have only colour. Views are faint: they cost nothing.
_GREYS = {"view": ("#b4bdc8", "#566270"), "other": ("#47505c", "#c4ccd5")}


def _variables(theme: Theme) -> str:
    colors = {name: ink.border for name, ink in theme.inks.items()}
    colors |= {name: pair[theme is DARK] for name, pair in _GREYS.items()}
    return "".join(f"--op-{name}:{color};" for name, color in colors.items())
