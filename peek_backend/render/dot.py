"""A graph as Graphviz DOT: modules as nested clusters, repeated layers once, colour by kind of op or by what it costs.

Comes in: a GraphRecord. Goes out: DOT text that every Graphviz reads (`image.py` makes pictures of it). What is shown is
chosen in ``passes.picture``; here it only gets words and colours. All text goes through HTML-like labels, where
we escape it, so that no name can be taken for DOT's own syntax.
"""

from __future__ import annotations

from collections.abc import Sequence

import graphviz
from msgspec import Struct

from ..analysis.heat import Amounts
from ..model import GraphRecord
from ..passes.kinds import node_kind
from ..passes.picture import Box, Cluster, Edge, Picture, draw
from ..passes.selection import Choice
from .dot_labels import FONT, SMALL, TITLE, LabelWriter
from .heat import HeatMap
from .theme import Ink, Theme, theme_named

_STRAIGHT = "100"
"""The weight of an edge on the main path; 1 is usual."""


class Drawing(Struct, frozen=True):
    """DOT text, what was folded to make it and how to unfold it, and the number of boxes in it."""

    text: str
    notes: tuple[str, ...]
    boxes: int


def dot(
    graph: GraphRecord,
    *,
    depth: int | None = None,
    expand: Sequence[str] = (),
    full: bool = False,
    heat: Amounts | None = None,
    theme: str = "auto",
    legend: bool = True,
) -> str:
    """``graph`` as DOT text.

    By default as many levels are open as fit on a page, one instance of each repeated layer. ``depth`` opens so
    many levels of modules, ``expand`` these modules too (paths, ``*`` and ``?`` allowed); both stop at 800 boxes
    and say so. ``full`` folds nothing, whatever that makes: the text is there at once, but an image of 2,000 boxes
    takes 15 seconds, and one of more than some 5,000 runs into the time-out of ``render_image``. ``heat`` colours
    boxes by what they cost (``analysis.heat.amounts``). ``theme`` is ``auto`` (an SVG follows the reader's light or
    dark mode), ``light`` or ``dark``.

    Raises PeekError for an ``expand`` that names no module and for an unknown theme.
    """
    choice = Choice(depth, (expand,) if isinstance(expand, str) else tuple(expand), full)
    return drawing(graph, choice, heat=heat, theme=theme, legend=legend).text


def drawing(
    graph: GraphRecord,
    choice: Choice | None = None,
    *,
    heat: Amounts | None = None,
    theme: str = "auto",
    legend: bool = True,
) -> Drawing:
    """As `dot`, with the notes that belong to it."""
    picture = draw(graph, choice)
    text = _Writer(picture, theme_named(theme), heat).write(theme, legend=legend)
    return Drawing(text, picture.notes, len(picture.boxes))


class _Writer:
    """Writes one Picture."""

    def __init__(self, picture: Picture, theme: Theme, heat: Amounts | None):
        self.picture, self.theme = picture, theme
        self.heat = None if heat is None else HeatMap(picture, heat, theme)
        self.labels = LabelWriter(picture, theme, self.heat)
        self.labelled: set[tuple[str, str]] = set()
        self.anchors: dict[str, str] = {}
        self.nearest = _nearest_sources(picture)

    def write(self, theme: str, *, legend: bool) -> str:
        """The whole DOT text."""
        graph = graphviz.Digraph("peek", graph_attr=self._graph_style(theme))
        colors = self.theme
        graph.attr("node", shape="box", fontname=FONT, fontsize=str(TITLE), fontcolor=colors.text)
        graph.attr("node", margin="0.07,0.03", height="0.2", width="0.3")
        graph.attr("edge", fontname=FONT, fontsize=str(SMALL), fontcolor=colors.muted, color=colors.edge)
        graph.attr("edge", arrowsize="0.55", penwidth="0.9")
        self._members(graph, self.picture.root, 0)
        for edge in self.picture.edges:
            self._edge(graph, edge)
        graph.attr(label=self.labels.title(legend=legend))
        return graph.source

    def _graph_style(self, theme: str) -> dict[str, str]:
        return {
            "class": f"peek theme-{theme}",
            "nodesep": "0.18",
            "ranksep": "0.16",
            "pad": "0.2",
            "compound": "true",
            "bgcolor": self.theme.page,
            "fontname": FONT,
            "fontcolor": self.theme.text,
            "labelloc": "t",
            "labeljust": "l",
            "tooltip": " ",
        }

    def _members(self, graph: graphviz.Digraph, cluster: Cluster, level: int) -> str:
        """Write what is in ``cluster``; returns the key of its first box, made up where it has none."""
        keys = []
        for member in cluster.members:
            if isinstance(member, Cluster):
                with graph.subgraph(name=f"cluster_{member.key}") as inner:
                    inner.attr(**self._cluster_style(member, level))
                    keys.append(self._members(inner, member, level + 1))
            else:
                graph.node(member.key, **self._box_style(member))
                keys.append(member.key)
        if not keys:
            keys.append(f"empty_{cluster.key}")
            graph.node(keys[0], label="empty", shape="plain", fontcolor=self.theme.muted)
        self.anchors[cluster.key] = keys[0]
        return keys[0]

    def _cluster_style(self, cluster: Cluster, level: int) -> dict[str, str]:
        theme = self.theme
        border = theme.accent if cluster.repeat else theme.cluster_border
        if cluster.body:
            border = theme.inks["control"].border
        return {
            "label": self.labels.cluster(cluster),
            "labelloc": "t",
            "labeljust": "l",
            "style": "rounded,filled,dashed" if cluster.body else "rounded,filled",
            "fillcolor": theme.clusters[level % 2],
            "color": border,
            "penwidth": "1.6" if cluster.repeat or cluster.body else "0.8",
            "margin": "8",
            "fontname": FONT,
            "fontsize": str(TITLE),
            "fontcolor": theme.text,
            "tooltip": self.labels.cluster_tooltip(cluster),
        }

    def _box_style(self, box: Box) -> dict[str, str]:
        ink, kind = self._ink(box)
        line = "" if ink.line in ("solid", "bold") else f",{ink.line}"
        heavy = ink.line == "bold" or box.repeat is not None
        style = {
            "label": self.labels.box(box),
            "tooltip": self.labels.box_tooltip(box),
            "class": f"kind-{kind}",
            "style": f"rounded,filled{line}",
            "fillcolor": ink.fill,
            "color": ink.border,
            "penwidth": "1.8" if heavy else "1",
        }
        if box.repeat is not None:
            style["color"] = self.theme.accent
        if box.closed:
            style["peripheries"] = "2"
        if self.heat is not None and not box.tag:
            style |= self._heat_style(box, self.heat)
        if kind == "custom":
            style["shape"] = "component"
            style["style"] = "filled"
        return style

    def _heat_style(self, box: Box, heat: HeatMap) -> dict[str, str]:
        """A box by what it costs; one that costs nothing is pale, one whose price is not known dashed."""
        level = heat.level(box)
        if level is not None:
            scale = self.theme.heat
            style = {
                "fillcolor": scale.scale[level],
                "fontcolor": scale.text_at(level),
                "style": "rounded,filled",
            }
            return style | {"class": f"heat-{level}", **_plain_border(box, self.theme)}
        unknown = heat.is_unknown(box)
        line = "rounded,filled,dashed" if unknown else "rounded,filled"
        name = "heat-unknown" if unknown else "heat-none"
        return {
            "fillcolor": self.theme.module.fill,
            "style": line,
            "class": name,
            **_plain_border(box, self.theme),
        }

    def _ink(self, box: Box) -> tuple[Ink, str]:
        if box.tag:
            return self.theme.tag, "tag"
        if box.loose:
            return self.theme.inks["other"], "loose"
        if box.closed:
            kind = self.labels.container_kind(box)
            return (self.theme.inks[kind] if kind else self.theme.module), kind or "module"
        kind = node_kind(self.picture.graph_of(box.view).nodes[box.nodes[0]])
        return self.theme.inks[kind], kind

    def _edge(self, graph: graphviz.Digraph, edge: Edge) -> None:
        """One edge; what a value is stands on the first edge that leaves its box."""
        style: dict[str, str] = {}
        target = edge.target
        if edge.kind == "body":
            control = self.theme.inks["control"].border
            style = {"style": "dashed", "color": control, "arrowhead": "open", "tooltip": "runs"}
            if target in self.anchors:
                style["lhead"], target = f"cluster_{target}", self.anchors[target]
        elif edge.kind == "tag":
            style = {"color": self.theme.tag.border, "arrowsize": "0.4", "tooltip": "reads"}
        else:
            text = self.labels.edge(edge)
            style["tooltip"] = self.labels.edge_tooltip(edge)
            if self.nearest.get(target) == edge.source:
                style["weight"] = _STRAIGHT
            if text and (edge.source, text) not in self.labelled:
                style["label"] = text
                self.labelled.add((edge.source, text))
        graph.edge(edge.source, target, **style)


def _plain_border(box: Box, theme: Theme) -> dict[str, str]:
    """A border that tells no kind of op."""
    return {} if box.repeat is not None else {"color": theme.edge}


def _nearest_sources(picture: Picture) -> dict[str, str]:
    """For each box the source that stands last: the path through it is drawn straight, others bend around."""
    place = {key: position for position, key in enumerate(picture.boxes)}
    nearest: dict[str, str] = {}
    for edge in picture.edges:
        if edge.kind == "data":
            nearest[edge.target] = max(
                edge.source, nearest.get(edge.target, edge.source), key=place.__getitem__
            )
    return nearest
