"""Several stages in one picture: each graph a cluster, dashed edges from a node to what it became in the next stage shown.

Comes in: a capture with the graphs to draw. Goes out: DOT text. Every node is a box of its own, so this is for small graphs: more
than MOST_BOXES would take Graphviz minutes.
"""

from __future__ import annotations

from collections.abc import Iterator

import graphviz

from ..analysis.provenance import Place, Provenance, rank_of
from ..errors import PeekError
from ..model import CaptureRecord, GraphRecord, NodeRecord, node_refs
from ..passes.kinds import node_kind
from .labels import node_target_text, place_text, value_text
from .theme import theme_named

MOST_BOXES = 400


def stages_dot(record: CaptureRecord, links: Provenance | None = None, *, theme: str = "light") -> str:
    """The graphs of ``record`` as DOT clusters in the order of stages. ``links`` are the whole capture's, if it holds more.

    Raises PeekError for more than MOST_BOXES nodes.
    """
    count = sum(len(g.nodes) for g in record.graphs)
    if count > MOST_BOXES:
        raise PeekError(
            f"{count} nodes are too many for one picture of stages",
            f"it draws every node, at most {MOST_BOXES}",
            "pick one compile with --graph, or write the page: -o stages.html",
        )
    colors = theme_named(theme)
    graph = graphviz.Digraph(
        "stages", graph_attr={"class": f"peek theme-{theme}", "bgcolor": colors.page, "rankdir": "TB"}
    )
    graph.attr(
        "node", shape="box", fontname="Arial", fontsize="9", style="filled,rounded", fontcolor=colors.text
    )
    graph.attr("edge", color=colors.edge, arrowsize="0.5", fontname="Arial", fontsize="8")
    shown = sorted(record.graphs, key=lambda g: (g.compile_id or "", rank_of(g.stage), g.part))
    for number, each in enumerate(shown):
        with graph.subgraph(name=f"cluster_{number}") as cluster:
            cluster.attr(
                label=_title(each), color=colors.cluster_border, fontname="Arial", fontcolor=colors.text
            )
            for node in each.nodes:
                ink = colors.inks.get(node_kind(node), colors.inks["other"])
                cluster.node(
                    _key(number, node.index),
                    _label(node),
                    fillcolor=ink.fill,
                    color=ink.border,
                    tooltip=_escaped(_tip(node)),
                )
            for node in each.nodes:
                for ref in dict.fromkeys(node_refs(node)):
                    cluster.edge(_key(number, ref), _key(number, node.index))
    at = {g.key: i for i, g in enumerate(shown)}
    for (key, index), (later, became) in _links(shown, links or Provenance(record)):
        graph.edge(
            _key(at[key], index), _key(at[later], became), style="dashed", color=colors.accent, constraint="false",
            arrowhead="open",
        )  # fmt: skip
    return graph.source


def _links(shown: list[GraphRecord], links: Provenance) -> Iterator[tuple[Place, Place]]:
    """From each node to those of later graphs that name it, over stages that are not shown."""
    keys = {g.key for g in shown}
    for graph in shown:
        for node in graph.nodes:
            for origin in links.nearest((graph.key, node.index), keys):
                yield origin, (graph.key, node.index)


def _key(graph: int, node: int) -> str:
    return f"g{graph}n{node}"


def _title(graph: GraphRecord) -> str:
    name = graph.key if graph.stage != "dynamo" else f"{graph.key} dynamo"
    return _escaped(f"{name}  {graph.name}")


def _label(node: NodeRecord) -> str:
    target = node_target_text(node)
    lines = [node.name if target == node.name else f"{node.name}: {target}", value_text(node.value)]
    return _escaped("\n".join(line for line in lines if line))


def _tip(node: NodeRecord) -> str:
    source = node.source
    place = place_text(source.file, source.line) if source is not None and source.line else ""
    return " ".join(p for p in (place, source.code if source else "", node.no_origin or "") if p) or node.name


def _escaped(text: str) -> str:
    """Plain text as a DOT label: a backslash would start an escape of DOT's own, ``<…>`` HTML."""
    text = graphviz.escape(text)
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text).replace("\n", "\\n")
