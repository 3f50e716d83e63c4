"""How much each box of a picture has of one measure: its colour, its words, and the legend.

Comes in: a Picture and the `Amounts` of its graph. Goes out: levels of the theme's scale, and plain texts. A box has what all the
nodes have that it stands for: those inside a closed container, and those of every instance of a repeat. The scale is that of
the page (overlays.js), over powers, up to the box that has most; memory, which hardly changes from one op to the next, has the
first colour where there is least.
"""

from __future__ import annotations

import math

from ..analysis.heat import Amounts
from ..passes.picture import Box, Cluster, Picture
from .cost import flops_text, size_text
from .labels import plural, shorten
from .theme import SPAN, Theme

_TITLES = {
    "flops": "FLOPs of each box, and its share of {whole} in all",
    "bytes": "bytes that each box reads and writes, and its share of {whole} in all",
    "memory": "memory alive while each box runs, and its share of the most that this graph needs at once, {whole}",
}
_REASONS = 3
_REASON = 90


class HeatMap:
    """The heat of one picture. A tag stands for no node and so has none."""

    def __init__(self, picture: Picture, amounts: Amounts, theme: Theme):
        self.amounts, self.scale = amounts, theme.heat
        self.nodes = picture.stands_for()
        self.of_box = {key: amounts.of(picture.boxes[key].view, nodes) for key, nodes in self.nodes.items()}
        seen = [n for n in self.of_box.values() if n]
        self.most = max(seen, default=0)
        self.least = self.most / SPAN if amounts.adds_up else max(min(seen, default=0), self.most / SPAN)
        self.repeats = any(box.repeat for box in picture.boxes.values()) or _has_repeat(picture.root)

    def level(self, box: Box) -> int | None:
        """The place of a box on the scale; None for one that has nothing, or whose price is not known."""
        amount = self.of_box.get(box.key)
        if not amount:
            return None
        if self.most <= self.least:
            return self.scale.level(1)
        return self.scale.level(
            math.log(max(amount, self.least) / self.least) / math.log(self.most / self.least)
        )

    def is_unknown(self, box: Box) -> bool:
        """Whether a box has work of which no price is known."""
        return not self.of_box.get(box.key) and bool(self._missing(box))

    def words(self, box: Box) -> str:
        """``1.1 TFLOP · 34 %``, with what is missing; empty for a box that has nothing."""
        return self._words(self.of_box.get(box.key), self._missing(box))

    def cluster_words(self, cluster: Cluster) -> str:
        """The same of an open container: all that is drawn inside it. Of a body that of one run."""
        boxes = list(_boxes_in(cluster, cluster.view))
        found = [n for n in map(self.of_box.get, boxes) if n is not None]
        if not found:
            return ""
        amount = sum(found) if self.amounts.adds_up else max(found)
        words = self._words(amount, 0)
        return f"{words} a run" if words and cluster.body else words

    def _words(self, amount: int | None, missing: int) -> str:
        if not amount:
            return f"{self._noun} unknown" if missing else ""
        more = f" + {missing} unknown" if missing else ""
        return f"{self._text(amount)}{more} · {share_text(amount, self.amounts.whole)}"

    @property
    def _noun(self) -> str:
        return "FLOPs" if self.amounts.heat == "flops" else self.amounts.heat

    def _text(self, amount: int) -> str:
        return flops_text(amount) if self.amounts.heat == "flops" else size_text(amount)

    def _missing(self, box: Box) -> int:
        return sum((box.view, node) in self.amounts.reasons for node in self.nodes.get(box.key, ()))

    # --- legend ---

    def head(self) -> str:
        """What is shown, of how much in all, and where the numbers come from."""
        if not self.amounts.whole:
            return f"{self._noun}: none is known of this graph"
        title = _TITLES[self.amounts.heat].format(whole=self._text(self.amounts.whole))
        return f"{title}; worked out from shapes" if self.amounts.worked_out else title

    def remarks(self) -> list[str]:
        """What the numbers do not say by themselves."""
        found = []
        if self.repeats and self.most:
            verb = "adds up" if self.amounts.adds_up else "is the most of"
            found.append(f"a box under ×N {verb} all N instances")
        reasons = self.amounts.unknown()
        for why, count in reasons[:_REASONS]:
            found.append(f"not counted: {plural(count, 'node')}: {shorten(why, _REASON)}")
        if len(reasons) > _REASONS:
            found.append(f"not counted: {plural(sum(n for _, n in reasons[_REASONS:]), 'more node')}")
        return found

    def ends(self) -> tuple[str, str]:
        """The figures at the two ends of the scale; empty where nothing is coloured, the second alone where all is alike."""
        if not self.most:
            return "", ""
        least = self._text(round(self.least)) if self.least < self.most else ""
        return f"≤ {least}" if least and self.amounts.adds_up else least, self._text(self.most)


def share_text(part: int, whole: int) -> str:
    """``34 %``, ``2.5 %``, ``under 0.1 %``."""
    share = 100 * part / whole if whole else 0.0
    if share < 0.1:
        return "under 0.1 %"
    return f"{share:.1f} %" if share < 9.95 else f"{share:.0f} %"


def _has_repeat(cluster: Cluster) -> bool:
    inner = [m for m in cluster.members if isinstance(m, Cluster)]
    return cluster.repeat is not None or any(map(_has_repeat, inner))


def _boxes_in(cluster: Cluster, view: int) -> list[str]:
    """Keys of the boxes in an open container that are of its own graph: a body's are in the op that runs it."""
    found = []
    for member in cluster.members:
        if isinstance(member, Cluster):
            found += _boxes_in(member, view)
        elif member.view == view and not member.tag:
            found.append(member.key)
    return found
