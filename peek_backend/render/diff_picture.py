"""A diff as one diagram: both graphs merged, added, removed and changed ops marked, unchanged regions folded.

Comes in: Diffs. Goes out: DOT text for ``image.render_image``. A mark has a sign, a line style and a colour of the Okabe-Ito
palette, so that it holds without colour, for any colour vision, and, as the colours are the theme's, on light and dark
backgrounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import graphviz

from ..diff.edits import Diff, pattern
from .diff_view import SIGNS, Panel, Row, folds, panels
from .dot_labels import FONT, SMALL, TITLE
from .escape import cut, cut_middle, html_text
from .labels import plural
from .theme import Theme, theme_named

MAX_CHANGES = 60
"""Changed ops that one graph opens; Graphviz draws some 200 boxes in a tenth of a second, thousands in minutes."""
MAX_PANELS = 40
LINE = 64
"""Characters of one line in a box."""

_INKS = {"added": "norm", "removed": "attention", "changed": "matmul", "same": "elementwise"}
_STYLES = {"added": "bold", "removed": "dashed", "changed": "bold", "same": "solid"}


def diff_dot(diffs: Sequence[Diff], *, theme: str = "auto") -> str:
    """DOT text of all graphs that changed; the others are counted. ``theme`` is ``auto``, ``light`` or ``dark``."""
    drawn = [(diff, panel) for diff in diffs for panel in panels(diff)]
    changed = [(diff, panel) for diff, panel in drawn if panel.changed]
    colors = theme_named(theme)
    graph = graphviz.Digraph("peek_diff", graph_attr=_style(colors, theme))
    graph.attr(
        "node", shape="box", style="rounded,filled", fontname=FONT, fontsize=str(TITLE), fontcolor=colors.text
    )
    graph.attr("node", margin="0.08,0.04", height="0.2", width="0.3")
    graph.attr(
        "edge", fontname=FONT, fontsize=str(SMALL), color=colors.edge, arrowsize="0.55", penwidth="0.9"
    )
    for number, (diff, panel) in enumerate(changed[:MAX_PANELS]):
        _Panel(graph, colors, panel, f"p{number}", diff.name if len(diffs) > 1 else "").draw()
    graph.attr(label=_title(drawn, changed, colors))
    return graph.source


def _style(colors: Theme, theme: str) -> dict[str, str]:
    return {
        "class": f"peek theme-{theme}",
        "nodesep": "0.2",
        "ranksep": "0.22",
        "pad": "0.2",
        "bgcolor": colors.page,
        "fontname": FONT,
        "fontcolor": colors.text,
        "labelloc": "t",
        "labeljust": "l",
        "tooltip": " ",
    }


def _title(drawn: Sequence, changed: Sequence, colors: Theme) -> str:
    """The names of what changed, how many graphs are not drawn, and what the marks mean."""
    names = list(dict.fromkeys(diff.name for diff, _ in changed or drawn if diff.name))
    head = (
        cut(", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else ""), LINE) or "diff"
    )
    rest = len(drawn) - len(changed)
    lines = [f"<B>{html_text(head)}</B>"]
    if not changed:
        lines.append("no graph changed")
    elif rest:
        lines.append(html_text(f"{plural(rest, 'graph')} unchanged, not drawn"))
    if len(changed) > MAX_PANELS:
        lines.append(html_text(f"{len(changed) - MAX_PANELS} more changed graphs are not drawn"))
    marks = [
        f'<FONT COLOR="{colors.inks[_INKS[m]].border}"><B>{SIGNS[m]}</B> {m}</FONT>'
        for m in ("added", "removed", "changed")
    ]
    lines.append("   ".join(marks))
    return f"<{_left(lines)}>"


def _left(lines: Sequence[str]) -> str:
    return "".join(f'{line}<BR ALIGN="LEFT"/>' for line in lines)


class _Panel:
    """Draws one pair of graphs as a cluster."""

    def __init__(self, graph: graphviz.Digraph, colors: Theme, panel: Panel, key: str, snapshot: str):
        self.graph, self.colors, self.panel, self.key, self.snapshot = graph, colors, panel, key, snapshot
        self.fold = self._beside(folds(panel, MAX_CHANGES))
        self.sizes = Counter(
            f for f, row in zip(self.fold, panel.rows, strict=True) if f is not None and not row.is_input
        )

    def _beside(self, fold: list[int | None]) -> list[int | None]:
        """Folds to which no edge leads, such as unused sizes, as one."""
        linked: set[int | None] = {fold[o] for o in (*self.panel.outputs, *self.panel.gone_outputs)}
        rows = self.panel.rows
        for place, row in enumerate(rows):
            for operand in (*row.operands, *row.gone):
                if not (rows[operand].is_input and fold[operand] is not None) and (
                    fold[place] is None or fold[operand] != fold[place]
                ):
                    linked |= {fold[place], fold[operand]}
        alone = [f for f in fold if f is not None and f not in linked]
        return [alone[0] if f is not None and f not in linked else f for f in fold] if alone else fold

    def draw(self) -> None:
        with self.graph.subgraph(name=f"cluster_{self.key}") as inner:
            inner.attr(**self._cluster())
            for place, row in enumerate(self.panel.rows):
                if self.fold[place] is None:
                    inner.node(self._box(place), **self._node(row))
            for fold in dict.fromkeys(f for f in self.fold if f is not None and self.sizes[f]):
                inner.node(f"{self.key}f{fold}", **self._folded(fold))
            inner.node(f"{self.key}out", label=self._small("out"), shape="plain", style="")
        for (source, target), style in self._edges().items():
            self.graph.edge(source, target, **style)

    def _cluster(self) -> dict[str, str]:
        title = f"{self.snapshot}: {self.panel.title}" if self.snapshot else self.panel.title
        lines = [f"<B>{html_text(f'{SIGNS[self.panel.mark]} {cut_middle(title, LINE)}'.strip())}</B>"]
        lines += [html_text(cut(note, LINE)) for note in self.panel.notes[:6]]
        if len(self.panel.notes) > 6:
            lines.append(html_text(f"… and {len(self.panel.notes) - 6} more"))
        ink = self.colors.inks[_INKS[self.panel.mark]]
        return {
            "label": f"<{_left(lines)}>",
            "labelloc": "t",
            "labeljust": "l",
            "style": f"rounded,filled{',dashed' if self.panel.mark == 'removed' else ''}",
            "fillcolor": self.colors.clusters[0],
            "color": self.colors.cluster_border if self.panel.mark == "same" else ink.border,
            "fontname": FONT,
            "fontsize": str(TITLE),
            "fontcolor": self.colors.text,
            "margin": "10",
            "tooltip": " ",
        }

    def _box(self, place: int) -> str:
        """The box in which a row is; empty for an input that is not drawn."""
        fold = self.fold[place]
        if fold is None:
            return f"{self.key}n{place}"
        return f"{self.key}f{fold}" if self.sizes[fold] else ""

    def _node(self, row: Row) -> dict[str, str]:
        ink = self.colors.inks[_INKS[row.mark]]
        sign = f"<B>{SIGNS[row.mark]}</B> " if row.mark != "same" else ""
        times = f" <B>×{row.times:,}</B>" if row.times > 1 else ""
        head = f"in {row.label}" if row.is_input else row.call
        lines = [f"{sign}{html_text(cut(head, LINE))}{times}"]
        if row.type and row.type != "-":
            lines.append(self._font(cut(row.type, LINE)))
        lines += [self._font(cut(note, LINE)) for note in row.notes if row.mark == "changed"]
        if row.mark != "same":
            where = [text for text in (row.module, row.place) if text]
            lines += [self._font(cut_middle(text, LINE)) for text in where]
        return {
            "label": f"<{'<BR/>'.join(lines)}>",
            "fillcolor": ink.fill,
            "color": ink.border,
            "style": f"rounded,filled,{_STYLES[row.mark]}",
            "penwidth": "1" if row.mark == "same" else "2",
            "class": f"mark-{row.mark}",
            "tooltip": graphviz.escape(cut(" ".join((row.label, *row.notes)), 200)),
        }

    def _folded(self, fold: int) -> dict[str, str]:
        """A region in one box: how many ops, of which modules, and how many of them changed as others that are shown."""
        rows = [
            row for f, row in zip(self.fold, self.panel.rows, strict=True) if f == fold and not row.is_input
        ]
        alike = sum(row.mark != "same" for row in rows)
        modules = Counter(".".join(pattern(row.module).split(".")[:3]) for row in rows if row.module)
        named = ", ".join(name for name, _ in modules.most_common(3))
        text = plural(len(rows) - alike, "unchanged op") if alike < len(rows) else ""
        lines = [html_text(text)] if text else []
        if alike:
            lines.append(html_text(f"{alike:,} changed like those shown"))
        if named:
            lines.append(self._font(cut(named, LINE)))
        return {
            "label": f"<{'<BR/>'.join(lines)}>",
            "fillcolor": self.colors.module.fill,
            "color": self.colors.inks[_INKS["changed" if alike else "same"]].border,
            "style": "rounded,filled,dotted",
            "peripheries": "2",
            "class": "folded",
            "tooltip": " ",
        }

    def _edges(self) -> dict[tuple[str, str], dict[str, str]]:
        """Edges between boxes, each once; what only the old graph read is dashed."""
        found: dict[tuple[str, str], dict[str, str]] = {}
        for source, target, mark in self._links():
            if source and target and source != target and (source, target) not in found:
                ink = self.colors.inks[_INKS[mark]].border
                found[source, target] = (
                    {} if mark == "same" else {"color": ink, "style": _STYLES[mark], "penwidth": "1.6"}
                )
        return found

    def _links(self) -> Iterator[tuple[str, str, str]]:
        for place, row in enumerate(self.panel.rows):
            mark = row.mark if row.mark in ("added", "removed") and row.first else "same"
            yield from [(self._box(o), self._box(place), mark) for o in row.operands]
            yield from [(self._box(o), self._box(place), "removed") for o in row.gone]
        yield from [(self._box(o), f"{self.key}out", "same") for o in self.panel.outputs]
        gone = [o for o in self.panel.gone_outputs if o not in self.panel.outputs]
        yield from [(self._box(o), f"{self.key}out", "removed") for o in gone]

    def _small(self, text: str) -> str:
        return f"<{self._font(text)}>"

    def _font(self, text: str) -> str:
        return f'<FONT POINT-SIZE="{SMALL}" COLOR="{self.colors.muted}">{html_text(text)}</FONT>'
