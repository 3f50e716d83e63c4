"""Kinds of op and colours for the page: the names of ``passes.kinds``, the colours of ``render.theme`` as CSS variables."""

from __future__ import annotations

from functools import lru_cache

from ...model import GraphRecord
from ...passes import kinds
from ..theme import DARK, LIGHT, SPAN

KINDS = [{"name": name, "title": title} for name, title in kinds.KINDS.items()]
HEAT = {"light": LIGHT.heat.scale, "dark": DARK.heat.scale, "span": SPAN}
"""The scale of the overlays, which is that of pictures."""
_NUMBER = {name: number for number, name in enumerate(kinds.KINDS)}


def kind_numbers(graph: GraphRecord) -> list[int]:
    """The kind of every node as its position in KINDS."""
    return [_NUMBER[kinds.node_kind(node)] for node in graph.nodes]


# A picture tells these greys apart by dashes and dots; bars and legends have only colour. Views are faint: they cost nothing.
_GREYS = {"view": ("#b4bdc8", "#566270"), "other": ("#47505c", "#c4ccd5")}


@lru_cache(maxsize=1)
def kind_css() -> str:
    """``--op-matmul:light-dark(#0072b2,#4aa8e0)`` and so on, for light and dark."""
    pairs = {name: (ink.border, DARK.inks[name].border) for name, ink in LIGHT.inks.items()} | _GREYS
    colors = "".join(f"--op-{name}:light-dark({light},{dark});" for name, (light, dark) in pairs.items())
    return f"\n:root{{{colors}}}\n"
