"""A capture as a Markdown report for GitHub: what happened, then each graph with its diagram and its table.

Comes in: a CaptureRecord. Goes out: one text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ..analysis.stats import Stats, break_place, stats
from ..model import BreakInfo, CaptureRecord, FrameRecord, GraphRecord, RecompileInfo
from . import labels
from .escape import markdown as escape
from .escape import markdown_code as code
from .mermaid import mermaid_text
from .stages import outcome_lines
from .table import Layout, table_text
from .text import graph_title, nothing_captured, problem_text, symbol_lines, title_parts
from .view import GraphView

_OPEN_ROWS = 30
"""A table of more rows is closed until the reader opens it."""
_TABLE = Layout(
    format="github", max_rows=400, how_all="`peek show FILE --format github --all` writes every row"
)


def markdown(record: CaptureRecord) -> str:
    """The report of a whole capture."""
    parts = ["# What torch.compile captured", *_summary(record)]
    for key, graph in zip(labels.graph_keys(record.graphs), record.graphs, strict=True):
        parts.extend(graph_section(graph, key))
    parts.extend(_breaks(record.breaks))
    parts.extend(_recompiles(record.recompiles))
    parts.extend(_frames(record.frames))
    told = [problem_text(problem) for problem in record.problems]
    parts.extend(_list("## Problems", told))
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(record: CaptureRecord) -> Iterator[str]:
    env = record.environment
    versions = [f"{name} {value}" for name, value in (("peek", env.peek), ("torch", env.torch)) if value]
    if env.python:
        versions.append(f"Python {env.python}")
    if versions:
        yield escape(", ".join(versions)) + "."
    if not record.graphs:
        yield "\n".join(f"- {escape(line.strip())}" for line in nothing_captured(record))
        return
    yield _table(("", "count"), _counts(stats(record)))
    yield from _list("", [*outcome_lines(record), *record.notes])


def _counts(counts: Stats) -> Iterator[tuple[str, str]]:
    """The rows of the first table; what can go wrong is listed also when it is zero."""
    yield "graphs", f"{counts.graphs:,}"
    yield "ops", f"{counts.ops:,}"
    yield "parameters", f"{counts.parameters:,}"
    yield "graph breaks", f"{counts.breaks:,} in {labels.plural(counts.break_locations, 'place')}"
    yield "recompiles", f"{counts.recompiles:,}"
    yield "frames left in eager", f"{counts.skipped:,}"
    yield "functions over the recompile limit", f"{counts.given_up:,}"
    yield "dynamic dims", f"{counts.dynamic_dims:,}"


def graph_section(graph: GraphRecord, key: str) -> Iterator[str]:
    """One graph: heading, facts, diagram, table, symbols, notes; then the bodies of its higher-order ops."""
    view = GraphView(graph)
    yield f"## {escape(graph_title(key, graph))}"
    yield escape(" · ".join(title_parts(view)))
    diagram = mermaid_text(graph)
    if diagram is not None:
        yield f"```mermaid\n{diagram}\n```"
    yield from _node_table(view)
    yield from _list("", symbol_lines(view))
    if graph.ended_by is not None:
        yield f"**Graph break:** {escape(_one_line(graph.ended_by.reason))}{_at(graph.ended_by)}"
    if graph.never_ran:
        yield f"**Never ran:** {escape(graph.never_ran)}"
    yield from _list("", [*graph.notes, *(problem_text(problem) for problem in graph.problems)])
    for child in graph.children:
        body = GraphView(child, graph.children)
        yield f"### {escape(key)} ▸ {escape(labels.name_text(child.name or 'body'))}"
        yield escape(" · ".join(title_parts(body, body=True)))
        yield from _node_table(body)


def _node_table(view: GraphView) -> Iterator[str]:
    if not view.graph.nodes:
        yield "No nodes."
        return
    table = table_text(view, _TABLE)
    if len(view) <= _OPEN_ROWS:
        yield table
        return
    yield f"<details><summary>{labels.plural(len(view), 'node')}</summary>"
    yield table
    yield "</details>"


def _breaks(events: Sequence[BreakInfo]) -> Iterator[str]:
    """Breaks by place and reason, the most frequent first."""
    counts = Counter((break_place(event), event.reason) for event in events)
    first = {(break_place(event), event.reason): event for event in reversed(events)}
    rows = []
    for spot, count in counts.most_common():
        event = first[spot]
        line = code(event.stack[-1].code.strip()) if event.stack else ""
        place = labels.place_text(event.stack[-1].file, event.stack[-1].line) if event.stack else ""
        hint = escape(_one_line(event.hints[0])) if event.hints else ""
        rows.append((str(count), escape(place), line, escape(_one_line(event.reason)) + _link(event), hint))
    if rows:
        yield "## Graph breaks"
        yield _table(("times", "place", "code", "reason", "hint"), rows)


def _recompiles(events: Sequence[RecompileInfo]) -> Iterator[str]:
    rows = [
        (
            escape(event.compile_id),
            "refused by the limit" if event.refused else str(event.variant or ""),
            "<br>".join(escape(_one_line(guard.text)) for guard in event.failed[:3]),
            escape(_one_line(event.advice)),
        )
        for event in events
    ]
    if rows:
        yield "## Recompiles"
        yield _table(("compile id", "variant", "guard that failed", "advice"), rows)


def _frames(frames: Sequence[FrameRecord]) -> Iterator[str]:
    """The frames that did not simply compile."""
    rows = [
        (
            escape(labels.name_text(frame.name)),
            escape(labels.place_text(frame.file, frame.line)),
            frame.outcome,
            escape(_one_line(frame.reason)),
        )
        for frame in frames
        if frame.outcome not in ("compiled", "broken")
    ]
    if rows:
        yield "## Frames that run in eager"
        yield _table(("frame", "place", "outcome", "reason"), rows)


def _at(event: BreakInfo) -> str:
    if not event.stack:
        return ""
    frame = event.stack[-1]
    text = f" at {escape(labels.place_text(frame.file, frame.line))}"
    return f"{text}: {code(frame.code.strip())}" if frame.code.strip() else text


def _link(event: BreakInfo) -> str:
    """`` (GB0059)``, a link where torch gave one."""
    if not event.id:
        return ""
    web = (
        event.link is not None and event.link.startswith("https://") and not set(event.link) & set("()<> |\n")
    )
    return f" ([{escape(event.id)}]({event.link}))" if web else f" ({escape(event.id)})"


def _one_line(text: str) -> str:
    return labels.shorten(" ".join(text.split()), 300)


def _list(heading: str, items: Iterable[str]) -> Iterator[str]:
    lines = [f"- {escape(_one_line(item))}" for item in items]
    if lines:
        yield "\n".join([heading, "", *lines] if heading else lines)


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose cells are escaped already."""
    from tabulate import tabulate  # 70 ms to import, so only where a table is made

    return tabulate(list(rows), headers=headers, tablefmt="github", disable_numparse=True)
