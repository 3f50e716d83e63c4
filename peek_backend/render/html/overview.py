"""The overview: what happened in one glance, and what to mend first. Once as data for the page, once as plain HTML.

Comes in: a record. Goes out: dicts of texts and numbers (``facts``), and HTML that needs no JavaScript (``plain_html``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...analysis.breaks import BreakPlace, ops_by_frame, ranked
from ...analysis.stats import Stats, captured_graphs, failed, stats
from ...analysis.story import Story, cause, stories
from ...analysis.totals import dynamic_symbols, with_children
from ...model import CaptureRecord, FrameRecord, Problem
from .. import labels, table
from ..escape import html_text as esc
from ..labels import plural
from ..text import NO_FRAME
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
        "empty": "" if record.graphs or record.frames else NO_FRAME,
    }


def verdict(record: CaptureRecord, counts: Stats) -> tuple[str, str]:
    """``good``, ``warn``, ``bad`` or empty where only graphs were recorded, and one sentence.

    Nothing that went wrong is good: a frame that failed and what peek could not read count as breaks do.
    """
    warn = [
        (counts.breaks, "graph break", ""),
        (counts.recompiles, "recompile", ""),
        (counts.problems, "thing", " that peek could not read"),
    ]
    bad = [
        (counts.skipped, "frame", " left in eager"),
        (counts.given_up, "function", " given up at the recompile limit"),
        (counts.failed, "frame", " failed"),
        (counts.never_ran, "graph", " that never ran"),
    ]
    captured = "One graph" if counts.graphs == 1 else f"{counts.graphs:,} graphs"
    captured = captured if counts.graphs else "Nothing was captured"
    said = [plural(count, word) + tail for count, word, tail in (*warn, *bad) if count]
    if said or not counts.graphs:
        worst = not counts.graphs or any(count for count, *_ in bad)
        return "bad" if worst else "warn", ", ".join([captured, *said])
    # without frames nobody looked for breaks, so their absence says nothing
    return ("good", f"{captured}, no breaks, no recompiles") if record.frames else ("", captured)


def numbers(record: CaptureRecord, counts: Stats) -> Iterator[dict[str, Any]]:
    """Each number of the overview: label, value (None: nobody looked), tone, the view that shows more, and a note."""
    looked = bool(record.frames or record.breaks or record.recompiles)
    asked = f"{counts.requested_breaks} asked for" if counts.requested_breaks else ""
    resumed = f"{counts.resume_recompiles} of resumed frames" if counts.resume_recompiles else ""
    limit = f"{counts.given_up} at the recompile limit" if counts.given_up else ""
    eager = counts.skipped + counts.given_up
    rows = [
        ("graphs", counts.graphs, "", "graph", plural(counts.ops, "op")),
        ("graph breaks", counts.breaks if looked else None, "warn", "breaks", asked),
        ("recompiles", counts.recompiles if looked else None, "warn", "breaks", resumed),
        ("left in eager", eager if looked else None, "bad", "breaks", limit),
        *([("failed", counts.failed, "bad", "breaks", "with an error")] if counts.failed else []),
        ("dynamic dims", counts.dynamic_dims, "", "symbols", ", ".join(_symbols(record))),
        (
            "problems",
            counts.problems,
            "warn",
            "problems",
            "what peek could not read" if counts.problems else "",
        ),
    ]
    for label, value, tone, view, note in rows:
        said = "not recorded" if value is None else note
        yield {"label": label, "value": value, "tone": tone if value else "", "view": view, "note": said}


def _symbols(record: CaptureRecord) -> list[str]:
    found = dict.fromkeys(name for graph in captured_graphs(record) for name in dynamic_symbols(graph))
    return list(found)[:6]


def mend(record: CaptureRecord) -> list[dict[str, Any]]:
    """Failures, then breaks that nobody asked for and recompiles by function, by how much work they cost: occurrences × ops."""
    places = [row for row in ranked(record) if row.first.intent != "user" and not _only_failed(record, row)]
    work = ops_by_frame(record)
    found = [*map(_broken, places), *(_recompiled(story, work) for story in stories(record))]
    found.sort(key=lambda item: -item["weight"])
    return [*(_failed(frame) for frame in record.frames if frame.outcome == "failed"), *found]


def _failed(frame: FrameRecord) -> dict[str, Any]:
    """A frame that ended with an error: nothing of it ran compiled, so it stands before all else."""
    user = frame.user
    place = (user.file, user.line) if user is not None else (frame.file, frame.line)
    return {
        "kind": "failed",
        "title": clean(labels.name_text(frame.name)),
        "times": 1,
        "weight": 0,
        "place": clean(labels.place_text(*place)) if place[0] else "",
        "code": clean(user.code) if user is not None else "",
        "why": clean(frame.reason),
        "fix": [clean(frame.fix)] if frame.fix else [],
        "id": "",
        "note": f"compile {', '.join(frame.compile_ids)}" if frame.compile_ids else "",
    }


def _only_failed(record: CaptureRecord, row: BreakPlace) -> bool:
    """Whether a place only ended frames with an error, as under ``fullgraph=True``: those are told as failed."""
    return all(
        not event.split and event.frame is not None and failed(record, event.frame) for event in row.events
    )


def _broken(row: BreakPlace) -> dict[str, Any]:
    first, place = row.first, row.place
    after = (
        f"{plural(row.ops_after, 'op')} {'after it' if first.split else 'in what it calls'}"
        if row.ops_after
        else ""
    )
    return {
        "kind": "graph break" if first.split else "frame left in eager",
        "title": clean(row.reason.replace("`", "")),
        "times": len(row.events),
        "weight": max(row.weight, 1),
        "place": clean(labels.place_text(place.file, place.line)) if place else "",
        "code": clean(place.code) if place else "",
        "why": clean(first.explanation),
        "fix": [clean(text) for text in row.rewrites[:3]],
        "id": clean(first.id or ""),
        "note": after,
    }


def _recompiled(story: Story, work: Sequence[int]) -> dict[str, Any]:
    events = [*story.recompiles, *([story.refused] if story.refused else [])]
    guard = next((g for event in events if (g := cause(event)) is not None), None)
    user = guard.user if guard else None
    seen = [f"{row.source} = {', '.join(row.values[:6])}" for row in story.seen[:3]]
    return {
        "kind": "given up" if story.refused else "recompile",
        "title": clean(f"{labels.name_text(story.frame.name)} was compiled {story.variants} times"),
        "times": 1,
        "weight": max(work[story.index], 1) * len(events),
        "place": clean(labels.place_text(user.file, user.line)) if user else "",
        "code": clean(user.code) if user else "",
        "why": clean("; ".join(seen) or (guard.text if guard else "")),
        "fix": [clean(text) for text in story.advice[:3]],
        "id": "",
        "note": "since then it runs in eager where no variant fits" if story.refused else "",
    }


# --- without JavaScript ---


def plain_html(record: CaptureRecord, overview: dict[str, Any], views: Sequence[GraphView] = ()) -> str:
    """Overview and folded tables as HTML: the page without JavaScript. ``views`` are those of the graphs, if at hand."""
    parts = [f'<p class="verdict {overview["tone"]}">{esc(overview["headline"])}</p>', "<ul>"]
    parts += [
        f"<li>{esc(n['label'])}: <b>{_count(n['value'])}</b> {esc(n['note'])}</li>"
        for n in overview["numbers"]
    ]
    parts.append("</ul>")
    if overview["empty"]:
        parts.append(f"<p>{esc(overview['empty'])}</p>")
    if overview["mend"]:
        parts.append("<h2>What to mend first</h2><ol>")
        parts += [f"<li>{_mend_html(item)}</li>" for item in overview["mend"][:50]]
        parts.append("</ol>")
    told = [f"<li>{esc(clean(text))}</li>" for text in problem_texts(record)[:50]]
    if told:
        parts.append(f"<h2>What peek could not read</h2><ul>{''.join(told)}</ul>")
    parts.extend(_tables(views or [GraphView(graph) for graph in record.graphs]))
    return "\n".join(parts)


def problem_texts(record: CaptureRecord) -> list[str]:
    """Every problem of the capture, of its graphs and of their bodies, in one line each."""
    graphs = [body for graph in record.graphs for body in with_children(graph)]
    found: list[Problem] = [*record.problems, *(p for graph in graphs for p in graph.problems)]
    return [" · ".join(filter(None, (p.where, p.what, p.why, p.fix))) for p in found]


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _mend_html(item: dict[str, Any]) -> str:
    words = [
        item["title"],
        item["place"],
        f"×{item['times']}" if item["times"] > 1 else "",
        item["why"],
        *item["fix"],
    ]
    return f"{esc(item['kind'])}: {' · '.join(esc(w) for w in words if w)}"


def _tables(views: Sequence[GraphView]) -> Iterator[str]:
    """A folded table for each graph while rows are left; tabulate escapes the cells."""
    left = MAX_ROWS
    keys = labels.graph_keys([view.graph for view in views])
    for key, view in zip(keys, views, strict=True):
        graph = view.graph
        left -= min(len(graph.nodes), table.MAX_ROWS)
        if left < 0:
            yield "<p>More graphs are shown with JavaScript.</p>"
            return
        layout = table.Layout(
            format="html", columns=("name", "target", "args", "value"), width=1_000, how_all=""
        )
        rows, end, note = table.table_text(view, layout).rpartition("</table>")
        name = "" if graph.name == key else labels.name_text(graph.name)
        yield f"<h2>{esc(clean(f'{key} {name}'))}</h2>{clean_lines(rows + end)}"
        if note.strip():
            yield f"<p>{esc(note.strip())}</p>"  # no bare text: a style sheet hides elements only


def clean_lines(text: str) -> str:
    """A table whose cells are at most MAX_CELL characters each, encodable, and not padded with spaces."""
    text = _PADDING.sub("", text)
    return "\n".join(map(_short_cells, text.encode("utf-8", "replace").decode("utf-8").split("\n")))


MAX_CELL = 400
_PADDING = re.compile(r" +(?=</t[dh]>)")
_CELL = re.compile(rf"(<t[dh][^>]*>)([^<]{{{MAX_CELL}}})[^<]*")


def _short_cells(line: str) -> str:
    """One row; a cut entity (``&am``) goes with what is cut."""
    return (
        _CELL.sub(lambda m: f"{m[1]}{re.sub(r'&[#0-9a-z]*$', '', m[2])}…", line)
        if len(line) > MAX_CELL
        else line
    )
