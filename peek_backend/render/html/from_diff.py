"""A verdict on two captures as edits of the page: the words of the other reports, and the nodes that they are about.

Comes in: a Diff with its Verdict, and the two captures. Goes out: a PageDiff. A diff counts nodes as its snapshots do (no
placeholder, no output, no name of a body), the page as the records do; ``_Nodes`` leads from one to the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.stats import captured_graphs
from ...diff.edits import Diff, Edit, Group
from ...diff.verdict import Finding, Verdict
from ...model import CaptureRecord, GraphRecord
from ...passes.canonical import canonicalise
from .. import diff_lines as lines
from .edits import PageDiff, PageEdit

_TONES = {"fail": "bad", "warn": "warn", "info": "good", "same": "good"}


def page_diff(
    verdict: Verdict,
    diff: Diff,
    new: CaptureRecord,
    old: CaptureRecord | None = None,
    files: tuple[str, str] | None = None,
) -> PageDiff:
    """What the page shows of ``diff``, which was worked out on ``new`` and ``old``.

    ``files`` are the names of the old and the new one. Without ``old`` (only a snapshot's text was left of it) removed nodes
    are listed and cannot be looked at.
    """
    headline = lines.counts(verdict)
    if verdict.confounded:
        headline = f"{headline}; {verdict.confounded}"
    after, before = _Nodes(new), _Nodes(old) if old is not None else None
    edits = tuple(_edit(finding, after, before) for finding in verdict.findings)
    return PageDiff(headline[:1].upper() + headline[1:], _TONES[verdict.level], edits, old, files)


class _Nodes:
    """Where the nodes of a capture's snapshot stand in its record."""

    def __init__(self, record: CaptureRecord):
        kept = [g for g in captured_graphs(record) if g.never_ran is None]
        titles = [graph.title for graph in canonicalise(record).graphs]
        # A mismatch would mark wrong nodes; then none is marked.
        pairs = zip(titles, kept, strict=True) if len(titles) == len(kept) else ()
        self.graphs = {title: (graph.key, _ops(graph)) for title, graph in pairs}

    def find(self, title: str, node: int | None) -> tuple[str, int] | None:
        """The graph's key and the node's index in the record; None for a body's node and for what is not there."""
        key, ops = self.graphs.get(title, ("", ()))
        return (key, ops[node]) if node is not None and node < len(ops) else None


def _ops(graph: GraphRecord) -> list[int]:
    return [
        node.index
        for node in graph.nodes
        if node.op not in ("placeholder", "output") and (node.body is None or node.op != "get_attr")
    ]


def _edit(finding: Finding, after: _Nodes, before: _Nodes | None) -> PageEdit:
    """A group of equal edits as one; the first one's node is the link, all nodes are marked."""
    group = finding.group
    now = list(_places(group.edits, after))
    then = [] if before is None else list(_places(group.edits, before, old=True))
    details = [_told(group), lines.where(group), *lines.remarks(finding)]
    return PageEdit(
        kind=_kind(group.kind, finding.level),
        text=" · ".join([lines.words(finding), *[d for d in details if d]]),
        level="info" if finding.level == "allowed" else finding.level,
        graph=now[0][0] if now else None,
        node=now[0][1] if now else None,
        before_graph=then[0][0] if then else None,
        before_node=then[0][1] if then else None,
        before=group.old if group.new else "",
        after=group.new if group.old else "",
        count=group.count,
        place=lines.place_text(lines.group_place(group), code=True),
        more=tuple(now[1:]),
        before_more=tuple(then[1:]),
    )


def _told(group: Group) -> str:
    """What it happened to, with what came or went where that has one side only; both sides stand in a row of their own."""
    change = "" if group.old and group.new else lines.change(group)
    subject = lines.subject(group).removesuffix(":")
    return f"{subject}: {change}" if subject and change else subject or change


def _places(edits: tuple[Edit, ...], nodes: _Nodes, *, old: bool = False) -> Iterator[tuple[str, int]]:
    for edit in [part for whole in edits for part in whole.inside or (whole,)]:
        place = nodes.find(edit.graph, edit.old_node if old else edit.node)
        if place is not None:
            yield place


def _kind(kind: str, level: str) -> str:
    """``added``, ``removed`` or ``changed`` by the kind of edit; ``info`` for what never fails."""
    if level == "info":
        return "info"
    tail = kind.partition(":")[2]
    return tail if tail in ("added", "removed") else "changed"
