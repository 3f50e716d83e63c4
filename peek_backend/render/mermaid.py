"""A graph as a Mermaid flowchart, as GitHub shows it in Markdown.

Comes in: a GraphRecord. Goes out: the text of a diagram that stays within GitHub's limits. What is open and what is
folded is chosen in ``passes.picture``; here it gets words.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model import GraphRecord
from ..passes.hierarchy import Module
from ..passes.kinds import node_kind
from ..passes.picture import Box, Cluster, Picture, draw
from ..passes.repeats import Repeat
from ..passes.selection import Choice
from . import labels
from .escape import mermaid
from .theme import LIGHT

MAX_NODES, MAX_EDGES, MAX_CHARACTERS = 150, 400, 40_000
"""What GitHub still draws in a reasonable time; above, it shows an error instead of the diagram.

Mermaid's own limits are 500 edges (maxEdges) and 50,000 characters (maxTextSize).
"""
_LINE = 40
"""Characters of one line in a box."""
_TYPE = labels.Style(layout=False, grad=False)
_COLORED = ("matmul", "attention", "norm", "control", "custom")


def mermaid_text(graph: GraphRecord) -> str | None:
    """The diagram, folded as far as the limits ask; None for a graph that is too large even then."""
    for choice in (Choice(), Choice(depth=2), Choice(depth=1), Choice(depth=0)):
        picture = draw(graph, choice)
        if len(picture.boxes) > MAX_NODES or len(picture.edges) > MAX_EDGES:
            continue
        text = "\n".join(_Chart(picture).lines())
        if len(text) <= MAX_CHARACTERS:
            return text
    return None


class _Chart:
    """Writes one Picture."""

    def __init__(self, picture: Picture):
        self.picture = picture
        self.kinds: dict[str, list[str]] = {}

    def lines(self) -> Iterator[str]:
        """Boxes in their clusters, the edges between them, then colours."""
        yield "flowchart TD"
        yield from self._members(self.picture.root, "  ")
        for edge in self.picture.edges:
            arrow = "-.->" if edge.kind in ("tag", "body") else "-->"
            yield f"  {edge.source} {arrow} {edge.target}"
        for kind, keys in self.kinds.items():
            yield f"  classDef {kind} stroke:{LIGHT.inks[kind].border},stroke-width:2px"
            yield f"  class {','.join(keys)} {kind}"

    def _members(self, cluster: Cluster, indent: str) -> Iterator[str]:
        for member in cluster.members:
            if isinstance(member, Cluster):
                yield f'{indent}subgraph {member.key}["{mermaid(self._cluster(member))}"]'
                yield from self._members(member, f"{indent}  ")
                yield f"{indent}end"
            else:
                yield indent + self._box(member)

    def _cluster(self, cluster: Cluster) -> str:
        graph = self.picture.graph_of(cluster.view)
        if cluster.body:
            return labels.name_text(graph.name or "body")
        return group_title(cluster.module, cluster.repeat)

    def _box(self, box: Box) -> str:
        """``n3["linear<br/>f32[8, 4]"]``; ends of the graph are round."""
        node = self.picture.graph_of(box.view).nodes[box.nodes[0]]
        kind = node_kind(node)
        if not box.closed and not box.tag and kind in _COLORED:
            self.kinds.setdefault(kind, []).append(box.key)
        text = "<br/>".join(mermaid(labels.shorten(line, _LINE)) for line in self._words(box) if line)
        rounded = box.tag or node.op in ("placeholder", "output")
        return f'{box.key}(["{text}"])' if rounded and not box.closed else f'{box.key}["{text}"]'

    def _words(self, box: Box) -> tuple[str, ...]:
        """The lines of a box: what it is, and what it hands on."""
        graph = self.picture.graph_of(box.view)
        node, last = graph.nodes[box.nodes[0]], graph.nodes[box.nodes[-1]]
        if box.tag:
            return (f"◂ {node.name}",)
        kind = labels.value_text(last.value, _TYPE)
        if box.closed and box.module is not None:
            title = group_title(box.module, box.repeat) or graph.name or "body"
            return title, labels.plural(box.module.size, "op"), kind
        if node.op in ("placeholder", "output"):
            return (labels.node_target_text(node), kind)
        title = labels.node_target_text(node).rpartition(".")[2]
        times = f" ×{len(box.nodes)}" if len(box.nodes) > 1 else ""
        module = f"{box.module.name} · " if box.module is not None else ""
        return f"{module}{title}{times}", kind


def group_title(module: Module, repeat: Repeat | None) -> str:
    """``layers.0–31 · LlamaDecoderLayer ×32``."""
    name, times = module.name, ""
    if repeat is not None:
        last = repeat.paths[-1].rpartition(".")[2]
        name, times = f"{name}–{last}", f" ×{len(repeat.paths)}"
    return f"{name} · {module.class_name}{times}" if module.class_name else f"{name}{times}"
