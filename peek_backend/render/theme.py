"""Colours of pictures, for light and dark backgrounds.

Comes in: nothing. Goes out: a `Theme`, and the style sheet that lets one SVG follow the reader's setting. Borders are of
the Okabe-Ito palette (Okabe and Ito 2008, "Color Universal Design"), which people with any kind of colour vision can
tell apart, darkened where they would be too faint on white; fills are tints of them. Colour never
stands alone: every box names its op, and line styles differ too.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from ..errors import unknown_name

THEMES = ("auto", "light", "dark")


class Ink(Struct, frozen=True):
    """How one kind of box is drawn: fill and border as ``#rrggbb``, ``line`` one of solid, dashed, dotted, bold."""

    fill: str
    border: str
    line: str = "solid"


class Heat(Struct, frozen=True):
    """Colours from little to much. Text on the first half of them is in the first of ``text``, on the others in the second."""

    scale: tuple[str, ...]
    text: tuple[str, str]

    def level(self, share: float) -> int:
        """The place on the scale of a number from 0 to 1."""
        return round(min(max(share, 0.0), 1.0) * (len(self.scale) - 1))

    def text_at(self, level: int) -> str:
        """The colour in which text is read on a level's."""
        return self.text[2 * level >= len(self.scale)]


class Theme(Struct, frozen=True):
    """All colours of a picture as ``#rrggbb``. ``inks`` are by kind of node; ``module`` is a closed container."""

    page: str
    text: str
    muted: str
    edge: str
    clusters: tuple[str, str]
    cluster_border: str
    accent: str
    module: Ink
    tag: Ink
    inks: dict[str, Ink]
    heat: Heat

    def on(self, level: int) -> Theme:
        """This theme for text that stands on a level of heat: everything in the one colour that is read there."""
        color = self.heat.text_at(level)
        inks = {kind: Ink(ink.fill, color, ink.line) for kind, ink in self.inks.items()}
        tag = Ink(self.tag.fill, color)
        return replace(self, text=color, muted=color, accent=color, inks=inks, tag=tag)


VIRIDIS = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")
"""matplotlib's Viridis (Smith and van der Walt 2015) at eight points: its order survives every form of colour blindness and
greyscale. What is much stands out: dark on a light page, bright on a dark one."""

SPAN = 1000
"""The most is so many times what has the first colour: no tiny op makes all others look alike, and what is alike looks it."""

_NEAR_BLACK, _NEAR_WHITE = "#000001", "#fffffe"
"""Black and white for text on heat; the style sheet for dark mode tells them from those of the page."""

LIGHT = Theme(
    page="#ffffff",
    text="#1b1f24",
    muted="#57606a",
    edge="#6e7781",
    clusters=("#f6f8fa", "#eef1f5"),
    cluster_border="#c8d1da",
    accent="#0a62a8",
    module=Ink("#fcfcfd", "#424a53"),
    tag=Ink("#fffdf2", "#8c8250"),
    inks={
        "matmul": Ink("#d6e9f8", "#0072b2"),
        "attention": Ink("#fbe0d0", "#b03a00"),
        "norm": Ink("#d3f0e5", "#00805c"),
        "reduction": Ink("#fdeccb", "#b47c00"),
        "elementwise": Ink("#eceff2", "#75808b"),
        "view": Ink("#fefefe", "#76818c", "dashed"),
        "movement": Ink("#e2f3fc", "#2f8dc4"),
        "random": Ink("#faf6c4", "#857b00", "dotted"),
        "control": Ink("#f7e0ee", "#b14a86", "bold"),
        "custom": Ink("#fbfbfb", "#1c2025", "bold"),
        "input": Ink("#e4e8ed", "#24292f"),
        "other": Ink("#edf0f3", "#74808c", "dotted"),
    },
    heat=Heat(VIRIDIS[::-1], (_NEAR_BLACK, _NEAR_WHITE)),
)

DARK = Theme(
    page="#0d1117",
    text="#e6edf3",
    muted="#a3afbb",
    edge="#8b96a2",
    clusters=("#151b23", "#1c232c"),
    cluster_border="#3d4753",
    accent="#79b8ff",
    module=Ink("#10161d", "#b9c4cf"),
    tag=Ink("#29261a", "#b8ad6c"),
    inks={
        "matmul": Ink("#10314a", "#4aa8e0"),
        "attention": Ink("#4a2712", "#ff9a5c"),
        "norm": Ink("#0c392c", "#2fc79a"),
        "reduction": Ink("#41310a", "#e8b23a"),
        "elementwise": Ink("#262d36", "#8f9aa6"),
        "view": Ink("#12181f", "#8e99a5", "dashed"),
        "movement": Ink("#153646", "#7cc8f2"),
        "random": Ink("#3a370b", "#e3d94e", "dotted"),
        "control": Ink("#44203a", "#e79aca", "bold"),
        "custom": Ink("#0e131a", "#e4ebf1", "bold"),
        "input": Ink("#2c343d", "#cfd8e1"),
        "other": Ink("#272e37", "#8d98a4", "dotted"),
    },
    heat=Heat(VIRIDIS, (_NEAR_WHITE, _NEAR_BLACK)),
)


def theme_named(name: str) -> Theme:
    """The colours to draw with; ``auto`` draws in light ones, which `dark_style` turns dark where a reader wants it.

    Raises PeekError for another name.
    """
    if name not in THEMES:
        raise unknown_name("theme", name, THEMES)
    return DARK if name == "dark" else LIGHT


def dark_style() -> str:
    """A style sheet for an SVG drawn in light colours: each of them becomes its dark one in dark mode."""
    rules = [
        f'[{part}="{light}"]{{{part}:{dark}}}' for light, dark in _pairs() for part in ("fill", "stroke")
    ]
    return f"@media (prefers-color-scheme: dark){{{''.join(rules)}}}"


def _pairs() -> Iterator[tuple[str, str]]:
    """Every light colour with its dark one; no light colour stands for two."""
    yield from zip(_colors(LIGHT), _colors(DARK), strict=True)


def _colors(theme: Theme) -> list[str]:
    inks = [theme.module, theme.tag, *theme.inks.values()]
    plain = [
        theme.page,
        theme.text,
        theme.muted,
        theme.edge,
        *theme.clusters,
        theme.cluster_border,
        theme.accent,
        *theme.heat.scale,
        *theme.heat.text,
    ]
    return [*plain, *(color for ink in inks for color in (ink.fill, ink.border))]


def contrast(a: str, b: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2, "contrast ratio"); text wants 4.5, graphics 3."""
    bright, dim = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
