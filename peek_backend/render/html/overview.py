"""The overview: what happened in one glance, and what to mend first. Once as data for the page, once as plain HTML.

Comes in: a record. Goes out: dicts of texts and numbers (``facts``), and HTML that needs no JavaScript (``plain_html``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from peek_backend.analysis.stats import Stats, break_place, captured_graphs, stats
from peek_backend.analysis.totals import dynamic_symbols, is_op
from peek_backend.model import BreakInfo, CaptureRecord, GraphRecord, RecompileInfo

from .. import labels, table
from ..escape import html_text as esc
from ..labels import plural
from ..view import GraphView
from .payload import clean

MAX_ROWS = 500
"""Rows of all tables together that the page shows without JavaScript."""


def facts(record: CaptureRecord) -> dict[str, Any]:
    """The verdict, the numbers with what they mean, and what to mend, worst first."""
    counts = stats(record)
    tone, headline = verdict(record, counts)
    return {
        "tone": tone,
        "headline": headline,
        "numbers": list(numbers(record, counts)),
        "mend": mend(record),
    }


def verdict(record: CaptureRecord, counts: Stats) -> tuple[str, str]:
    """``good``, ``warn``, ``bad`` or empty where only graphs were recorded, and one sentence."""
    if not counts.graphs:
        return "bad", "Nothing was captured"
    captured = "One graph" if counts.graphs == 1 else f"{counts.graphs:,} graphs"
    bad = [
        counts.failed and plural(counts.failed, "frame") + " failed",
        counts.given_up and plural(counts.given_up, "frame") + " given up at the recompile limit",
        counts.skipped and plural(counts.skipped, "frame") + " left in eager",
    ]
    warn = [
        counts.breaks and plural(counts.breaks, "graph break"),
        counts.recompiles and plural(counts.recompiles, "recompile"),
        counts.problems and plural(counts.problems, "problem") + " while looking",
    ]
    said = [text for text in (*warn[:2], *bad, warn[2]) if text]
    if not said:
        # without frames nobody looked for breaks, so their absence says nothing
        return ("good", f"{captured}, no breaks, no recompiles") if record.frames else ("", captured)
    return "bad" if any(bad) else "warn", f"{captured}, {', '.join(said)}"


def numbers(record: CaptureRecord, counts: Stats) -> Iterator[dict[str, Any]]:
    """Each number of the overview: label, value, tone, the view that shows more, and a note."""
    asked = f"{counts.requested_breaks} asked for" if counts.requested_breaks else ""
    resumed = f"{counts.resume_recompiles} of resumed frames" if counts.resume_recompiles else ""
    rows = [
        ("graphs", counts.graphs, "", "graph", plural(counts.ops, "op")),
        ("graph breaks", counts.breaks, "warn", "timeline", asked),
        ("recompiles", counts.recompiles, "warn", "timeline", resumed),
        ("left in eager", counts.skipped + counts.given_up, "bad", "timeline",
         f"{counts.given_up} at the recompile limit" if counts.given_up else ""),
        ("dynamic dims", counts.dynamic_dims, "", "symbols", ", ".join(_symbols(record))),
        ("problems", counts.problems, "warn", "timeline", "what peek could not read" if counts.problems else ""),
    ]  # fmt: skip
    for label, value, tone, view, note in rows:
        yield {"label": label, "value": value, "tone": tone if value else "", "view": view, "note": note}


def _symbols(record: CaptureRecord) -> list[str]:
    found = dict.fromkeys(name for graph in captured_graphs(record) for name in dynamic_symbols(graph))
    return list(found)[:6]


def mend(record: CaptureRecord) -> list[dict[str, Any]]:
    """Breaks and recompiles grouped by place and reason, ranked by occurrences × ops that follow."""
    found = [*_broken(record), *_recompiled(record), *_problems(record)]
    found.sort(key=lambda item: (-item["weight"], item["title"], item["place"]))
    return found


def _broken(record: CaptureRecord) -> Iterator[dict[str, Any]]:
    groups: dict[tuple[str, str], list[BreakInfo]] = {}
    for event in record.breaks:
        if event.intent != "user":
            groups.setdefault((break_place(event), event.reason), []).append(event)
    for events in groups.values():
        first = events[0]
        after = sum(ops_after(record, event) for event in events)
        yield {
            "kind": "graph break" if first.split else "frame left in eager",
            "title": clean(first.reason), "times": len(events), "weight": max(1, after) * (2 if not first.split else 1),
            "place": clean(labels.place_text(first.stack[-1].file, first.stack[-1].line)) if first.stack else "",
            "code": clean(first.stack[-1].code) if first.stack else "",
            "why": clean(first.explanation), "fix": [clean(hint) for hint in first.hints], "id": first.id or "",
            "note": f"{plural(after, 'op')} after it" if after else "",
        }  # fmt: skip


def ops_after(record: CaptureRecord, event: BreakInfo) -> int:
    """Ops of the graphs that continue the broken frame: its resume frames, theirs, and so on."""
    if event.frame is None:
        return 0
    chain, frames = {event.frame}, record.frames
    for index, frame in enumerate(frames):
        if frame.resume_of in chain:
            chain.add(index)
    ids = {i for index in chain - {event.frame} if index < len(frames) for i in frames[index].compile_ids}
    return sum(is_op(n) for g in captured_graphs(record) if g.compile_id in ids for n in g.nodes)


def _recompiled(record: CaptureRecord) -> Iterator[dict[str, Any]]:
    groups: dict[tuple[int | None, str], list[RecompileInfo]] = {}
    for event in record.recompiles:
        reason = event.failed[0].source or event.failed[0].text if event.failed else "unknown guard"
        groups.setdefault((event.frame, reason), []).append(event)
    sizes = {g.compile_id: sum(is_op(n) for n in g.nodes) for g in record.graphs}
    for (frame, reason), events in groups.items():
        first, guard = events[0], events[0].failed[0] if events[0].failed else None
        name = (
            record.frames[frame].name
            if frame is not None and frame < len(record.frames)
            else first.compile_id
        )
        refused = any(event.refused for event in events)
        yield {
            "kind": "given up" if refused else "recompile", "title": clean(f"{name}: {reason} changed"), "times": len(events),
            "weight": max(1, sum(sizes.get(e.compile_id, 1) for e in events)) * (4 if refused else 1),
            "place": clean(labels.place_text(guard.user.file, guard.user.line)) if guard and guard.user else "",
            "code": clean(guard.user.code) if guard and guard.user else "",
            "why": clean(" · ".join(guard_words(e) for e in events[:4])), "fix": [clean(first.advice)] if first.advice else [],
            "id": "", "note": "the frame runs uncompiled since" if refused else "",
        }  # fmt: skip


def guard_words(event: RecompileInfo) -> str:
    """``expected 4, got 6`` or the guard's text."""
    if not event.failed:
        return event.compile_id
    guard = event.failed[0]
    return f"expected {guard.expected}, got {guard.got}" if guard.expected and guard.got else guard.text


def _problems(record: CaptureRecord) -> Iterator[dict[str, Any]]:
    for problem in record.problems:
        yield {"kind": "problem", "title": clean(problem.what), "times": 1, "weight": 0, "place": clean(problem.where), "code": "",
               "why": clean(problem.why), "fix": [clean(problem.fix)] if problem.fix else [], "id": "", "note": ""}  # fmt: skip


# --- without JavaScript ---


def plain_html(record: CaptureRecord, overview: dict[str, Any]) -> str:
    """Overview and folded tables as HTML: the page without JavaScript, and what a search engine or printer sees."""
    parts = [f'<p class="verdict {overview["tone"]}">{esc(overview["headline"])}</p>', "<ul>"]
    parts += [
        f"<li>{esc(n['label'])}: <b>{n['value']:,}</b> {esc(n['note'])}</li>" for n in overview["numbers"]
    ]
    parts.append("</ul>")
    if overview["mend"]:
        parts.append("<h2>What to mend first</h2><ol>")
        parts += [f"<li>{_mend_html(item)}</li>" for item in overview["mend"][:50]]
        parts.append("</ol>")
    parts.extend(_tables(record.graphs))
    return "\n".join(parts)


def _mend_html(item: dict[str, Any]) -> str:
    words = [
        item["title"],
        item["place"],
        f"×{item['times']}" if item["times"] > 1 else "",
        item["why"],
        *item["fix"],
    ]
    return f"{esc(item['kind'])}: {' · '.join(esc(w) for w in words if w)}"


def _tables(graphs: Sequence[GraphRecord]) -> Iterator[str]:
    """A folded table for each graph while rows are left; tabulate escapes the cells."""
    left = MAX_ROWS
    for key, graph in zip(labels.graph_keys(graphs), graphs, strict=True):
        left -= min(len(graph.nodes), table.MAX_ROWS)
        if left < 0:
            yield "<p>More graphs are shown with JavaScript.</p>"
            return
        layout = table.Layout(format="html", columns=("name", "target", "args", "value"), width=1_000)
        text = table.table_text(GraphView(graph), layout)
        name = "" if graph.name == key else labels.name_text(graph.name)
        yield f"<h2>{esc(clean(f'{key} {name}'))}</h2>{clean_lines(text)}"


def clean_lines(text: str) -> str:
    """A table whose cells are at most MAX_CELL characters each, and encodable."""
    return "\n".join(map(_short_cells, text.encode("utf-8", "replace").decode("utf-8").split("\n")))


MAX_CELL = 400
_CELL = re.compile(r"(<t[dh][^>]*>)([^<]{%d})[^<]*" % MAX_CELL)


def _short_cells(line: str) -> str:
    """One row; a cut entity (``&am``) goes with what is cut."""
    return (
        _CELL.sub(lambda m: f"{m[1]}{re.sub(r'&[#0-9a-z]*$', '', m[2])}…", line)
        if len(line) > MAX_CELL
        else line
    )
