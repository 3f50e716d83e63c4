"""Memory over time as an SVG: bytes stacked by what they are for, one column a step, the peak marked.

Comes in: a Timeline. Goes out: one SVG text that follows the reader's light or dark setting. More steps than columns share
them, each column showing the fullest of its steps, so that no peak is lost.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from ..analysis.memory import KINDS, Timeline
from .escape import cut
from .labels import bytes_text, node_target_text, place_text, plural
from .theme import LIGHT, dark_style

WIDTH, HEIGHT = 960, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 24, 64, 92
_COLUMNS = 800
_CELL = 7.0
"""Width of a character of the legend, about."""

# One ink of the theme for each kind; what stays is below, what comes and goes is above.
_INKS = {
    "parameters": "matmul",
    "buffers": "movement",
    "optimizer state": "norm",
    "gradients": "attention",
    "gradients of outputs": "attention",
    "inputs": "input",
    "outputs": "elementwise",
    "saved activations": "reduction",
    "temporaries": "random",
    "scratch": "control",
}
_FAINT = "gradients of outputs"
"""The kind that shares its ink with another, and has the light shade of it."""


def memory_svg(memory: Timeline) -> str:
    """The picture; without a step only its title. Texts of the program are escaped."""
    chart = _Chart(memory)
    body = "".join(chart.parts()) if memory.steps else _text(_LEFT, 40, "no op was captured")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12">'
        f"<title>Memory over time, peak {bytes_text(memory.peak)}</title><style>{dark_style()}</style>"
        f'<rect width="100%" height="100%" fill="{LIGHT.page}"/>{body}</svg>\n'
    )


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = LIGHT.text, weight: str = ""
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"{bold}>{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    plain = "".join(c if c.isprintable() else "·" for c in text)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


class _Chart:
    """Scales, and the pieces of the picture in the order they are painted."""

    def __init__(self, memory: Timeline):
        self.memory = memory
        self.columns = _columns(memory)
        self.top = _round_up(memory.peak) or 1
        self.wide = WIDTH - _LEFT - _RIGHT
        self.high = HEIGHT - _TOP - _BOTTOM

    def x(self, step: float) -> float:
        return _LEFT + self.wide * step / max(len(self.memory.steps), 1)

    def y(self, size: float) -> float:
        return _TOP + self.high * (1 - size / self.top)

    def parts(self) -> Iterator[str]:
        yield _text(_LEFT, 24, f"Memory over time: peak {bytes_text(self.memory.peak)}", weight="600")
        yield from self.grid()
        yield from self.areas()
        yield from self.passes()
        yield from self.peak()
        yield from self.legend()

    def grid(self) -> Iterator[str]:
        for i in range(5):
            size = self.top * i / 4
            y = self.y(size)
            yield f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="{LIGHT.cluster_border}" fill="none"/>'
            yield _text(_LEFT - 8, y + 4, bytes_text(size), anchor="end", fill=LIGHT.muted)

    def areas(self) -> Iterator[str]:
        """Each kind as one outline of steps, standing on those before it."""
        series = _by_kind(self.memory)
        base = [0] * len(self.columns)
        for kind in KINDS:
            if kind not in series:
                continue
            top = [low + series[kind][step] for low, (_, step, _) in zip(base, self.columns, strict=True)]
            yield f'<path d="{self._outline(base, top)}" fill="{_fill(kind)}" fill-opacity="0.8"><title>{kind}</title></path>'
            base = top

    def _outline(self, base: Sequence[int], top: Sequence[int]) -> str:
        up = [
            f"{self.x(start):.1f} {self.y(h):.1f}H{self.x(end):.1f}"
            for (start, _, end), h in zip(self.columns, top, strict=True)
        ]
        down = [
            f"{self.x(end):.1f} {self.y(h):.1f}H{self.x(start):.1f}"
            for (start, _, end), h in zip(reversed(self.columns), reversed(base), strict=True)
        ]
        return f"M{'L'.join(up)}L{'L'.join(down)}Z"

    def passes(self) -> Iterator[str]:
        """Where each graph begins, with its name."""
        start = 0
        for key, count in self.memory.passes:
            x, wide = self.x(start), self.x(start + count) - self.x(start)
            if start:
                yield f'<path d="M{x:.1f} {_TOP}V{HEIGHT - _BOTTOM}" stroke="{LIGHT.muted}" stroke-dasharray="4 3" fill="none"/>'
            name = cut(f"{key}: {plural(count, 'op')}", max(int(wide / _CELL), 1))
            yield _text(x + wide / 2, HEIGHT - _BOTTOM + 18, name, anchor="middle", fill=LIGHT.muted)
            start += count

    def peak(self) -> Iterator[str]:
        node, at = self.memory.peak_node, self.memory.at
        if node is None or at is None:
            return
        x, y = self.x(at + 0.5), self.y(self.memory.peak)
        yield f'<path d="M{x:.1f} {y:.1f}V{_TOP - 14}" stroke="{LIGHT.text}" fill="none"/>'
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{LIGHT.text}"/>'
        source = node.source
        place = place_text(source.file, source.line) if source is not None else ""
        module = source.module if source is not None else ""
        label = ", ".join(filter(None, [f"{node.name} ({node_target_text(node)})", module, place]))
        anchor, at_x = ("end", x - 6) if x > WIDTH / 2 else ("start", x + 6)
        yield _text(at_x, _TOP - 10, cut(label, 90), anchor=anchor)

    def legend(self) -> Iterator[str]:
        """Every kind that is drawn, with its bytes at the peak."""
        x, y = float(_LEFT), HEIGHT - _BOTTOM + 44.0
        at_peak, drawn = self.memory.by_kind(), _by_kind(self.memory)
        for kind in [k for k in KINDS if k in drawn]:
            label = f"{kind} {bytes_text(at_peak[kind])}" if kind in at_peak else f"{kind}, none at the peak"
            wide = 30 + _CELL * len(label)
            if x + wide > WIDTH - _RIGHT:
                x, y = float(_LEFT), y + 20
            yield f'<rect x="{x:.1f}" y="{y - 10:.1f}" width="12" height="12" fill="{_fill(kind)}" fill-opacity="0.8"/>'
            yield _text(x + 18, y, label)
            x += wide


def _fill(kind: str) -> str:
    ink = LIGHT.inks[_INKS[kind]]
    return ink.fill if kind == _FAINT else ink.border


def _columns(memory: Timeline) -> list[tuple[int, int, int]]:
    """(first step, fullest step, end) of each column."""
    count = len(memory.steps)
    edges = (
        sorted({round(i * count / min(count, _COLUMNS)) for i in range(min(count, _COLUMNS) + 1)})
        if count
        else []
    )
    during = [s.during for s in memory.steps]
    return [(a, max(range(a, b), key=during.__getitem__), b) for a, b in itertools.pairwise(edges)]


def _by_kind(memory: Timeline) -> dict[str, list[int]]:
    """Bytes of each kind during each step."""
    count = len(memory.steps)
    changes: dict[str, list[int]] = {}
    for block in memory.blocks:
        if block.nbytes:
            change = changes.setdefault(block.kind, [0] * (count + 2))
            change[min(block.born, count)] += block.nbytes
            change[min(block.last, count) + 1] -= block.nbytes
    found = {}
    for kind, change in changes.items():
        alive, series = 0, []
        for step in range(count):
            alive += change[step]
            series.append(alive)
        found[kind] = series
    return found


_TOPS = (
    1,
    1.5,
    2,
    2.5,
    3,
    4,
    5,
    6,
    8,
    10,
    12,
    16,
    20,
    24,
    32,
    40,
    48,
    64,
    80,
    96,
    128,
    160,
    200,
    256,
    320,
    400,
    512,
    640,
    800,
    1024,
)


def _round_up(size: int) -> int:
    """The next size whose quarters read well."""
    if size <= 0:
        return 0
    unit = 2 ** (10 * max(math.floor(math.log2(size) / 10), 0))
    for step in _TOPS:
        if size <= step * unit:
            return int(step * unit)
    return 1024 * unit
