"""What happened, as a report: the sum first, then what to mend, then the story of each frame; or all about one thing.

Comes in: a record. Goes out: text. ``explain_text`` is the one door; a topic is a break (``break 2``, ``GB0059``), a frame, a
compile id, a value (``s0``, ``x.shape[1]``, ``k``, ``self.scale``), or one of ``TOPICS``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from ..analysis import breaks as breaks_of
from ..analysis import values
from ..analysis.stats import captured_graphs
from ..analysis.story import stories
from ..analysis.why import why
from ..errors import PeekError, nearest
from ..model import (
    CaptureRecord,
    GraphRecord,
)
from . import explain_sections as sections
from .escape import visible
from .labels import name_text, place_text
from .pages import Page


def explain_text(
    record: CaptureRecord,
    topic: str | None = None,
    *,
    width: int | None = None,
    color: bool = False,
    details: bool = False,
    file: str = "FILE",
) -> str:
    """The report, or all about ``topic``. ``width`` in columns, None wraps nothing; ``details`` adds every frame, guard and time.

    ``file`` names the capture in the commands that the report recommends. Raises PeekError, naming what there is, for a topic
    that the capture does not have.
    """
    page = Page(width, color, visible(shlex.quote(file)))
    if topic is None or not topic.strip():
        _report(page, record, details=details)
    else:
        _about(page, record, topic.strip())
    return page.text


# ---- the report ------------------------------------------------------------------------------------------------------


def _report(page: Page, record: CaptureRecord, *, details: bool) -> None:
    sections.summary(page, record)
    sections.problems(page, record)
    sections.nothing(page, record)
    sections.failures(page, record)
    sections.eager_runs(page, record)
    sections.mend(page, record, sections.FEW_BREAKS if not details else None)
    sections.recompiles(page, record, sections.FEW_RECOMPILES if not details else None)
    sections.resets(page, record)
    sections.narrow_symbols(page, record)
    if details:
        sections.frames(page, record)
        sections.times(page, record, None)
        sections.symbols(page, record)
        sections.guards(page, record)
    if details or not record.graphs:
        sections.earlier(page, record)
    sections.more(page, record, details=details)


# ---- topics ----------------------------------------------------------------------------------------------------------


def _all_breaks(page: Page, record: CaptureRecord) -> None:
    sections.mend(page, record, None) if record.breaks else page.add("no graph break")


def _all_recompiles(page: Page, record: CaptureRecord) -> None:
    sections.recompiles(page, record, None) if record.recompiles else page.add("nothing was compiled twice")


TOPICS: dict[str, Callable[[Page, CaptureRecord], None]] = {
    "breaks": _all_breaks,
    "recompiles": _all_recompiles,
    "frames": sections.frames,
    "times": lambda page, record: sections.times(page, record, None),
    "symbols": sections.symbols,
    "guards": sections.guards,
    "guards by line": lambda page, record: sections.guards(page, record, by_line=True),
}
"""What can be asked for by one word."""


def _about(page: Page, record: CaptureRecord, topic: str) -> None:
    for answer in (_section, _one_break, _one_frame, _one_value):
        if answer(page, record, topic):
            return
    raise _unknown(record, topic)


def _section(page: Page, record: CaptureRecord, topic: str) -> bool:
    section = TOPICS.get(" ".join(topic.lower().split()))
    if section is not None:
        section(page, record)
    return section is not None


def _one_break(page: Page, record: CaptureRecord, topic: str) -> bool:
    """``break 2`` by its rank, ``GB0059`` by torch's id, ``model.py:31`` by its place."""
    rows = breaks_of.ranked(record)
    number = re.fullmatch(r"break[ #]*(\d+)", topic, re.IGNORECASE)
    if number:
        wanted = [int(number[1]) - 1] if 0 < int(number[1]) <= len(rows) else []
    else:
        wanted = [
            i
            for i, r in enumerate(rows)
            if topic.upper() == (r.first.id or "")
            or (r.place is not None and topic == place_text(r.place.file, r.place.line))
        ]
    for i in wanted:
        _whole_break(page, record, i + 1, rows[i])
    return bool(wanted)


def _whole_break(page: Page, record: CaptureRecord, number: int, row: breaks_of.BreakPlace) -> None:
    page.head(f"Break {number}: {sections.reason(row)}")
    page.add(sections.consequence(record, row), indent=1)
    if row.first.explanation:
        page.add(row.first.explanation.replace("\n", " "), indent=1, hang=0)
    ended = list(dict.fromkeys(e.compile_id for e in row.events if e.compile_id))
    if ended:
        page.add(f"ended graph {', '.join(ended)}", indent=1)
    page.add("stack, innermost last:", indent=1)
    sections.stack(page, row.first.stack)
    for text in row.rewrites:
        sections.fix(page, text, indent=1)
    if row.first.link:
        page.add(row.first.link, "dim", indent=1)


def _one_frame(page: Page, record: CaptureRecord, topic: str) -> bool:
    """A frame by name (resume frames with it) or by compile id."""
    found = [i for i, f in enumerate(record.frames) if topic in f.compile_ids]
    if not found:
        found = [i for i, f in enumerate(record.frames) if f.name == topic]
        found = found or [i for i, f in enumerate(record.frames) if f.name.rpartition(".")[2] == topic]
    for index in found:
        _whole_frame(page, record, index)
    return bool(found)


def _whole_frame(page: Page, record: CaptureRecord, index: int) -> None:
    frame = record.frames[index]
    page.head(f"{name_text(frame.name)}: {sections.OUTCOMES.get(frame.outcome, frame.outcome)}")
    if frame.reason:
        page.add(frame.reason, indent=1, hang=0)
    sections.fix(page, frame.fix, indent=1)
    if frame.callers:
        page.add("called from:", indent=1)
        sections.stack(page, frame.callers)
    sections.frame_tree(
        page, record, index if frame.resume_of is None else frame.resume_of, breaks_of.ops_by_frame(record)
    )
    for number, row in enumerate(breaks_of.ranked(record), 1):
        if any(e.frame == index for e in row.events):
            sections.break_lines(page, record, number, row, advice=2)
    for story in stories(record):
        if story.index == index:
            sections.story_lines(page, story, None)
    for graph in _graphs_of(record, index)[-1:]:
        if graph.guards:
            page.head(f"Guards of its last variant [{graph.compile_id}]")
            sections.guard_lines(page, graph.guards)


def _graphs_of(record: CaptureRecord, index: int) -> list[GraphRecord]:
    return [g for g in captured_graphs(record) if g.frame == index]


def _one_value(page: Page, record: CaptureRecord, topic: str) -> bool:
    """A symbol, size or tensor, or any other value that a guard is about."""
    rows, value = why(record, topic), values.about(record, topic)
    if rows or value is not None:
        page.head(f"Why {topic} is what it is")
    for row in sections.merged(rows):
        sections.why_lines(page, row)
    if value is not None:
        sections.value_lines(page, record, value)
    return bool(rows or value)


def _unknown(record: CaptureRecord, topic: str) -> PeekError:
    known = [*TOPICS, *(f.name for f in record.frames), *(i for f in record.frames for i in f.compile_ids)]
    for graph in captured_graphs(record):
        known += [name for symbol in graph.symbols for name in (symbol.name, *symbol.sources)]
        known += [n.source.input for n in graph.nodes if n.source is not None and n.source.input]
    places = len(breaks_of.ranked(record))
    known += [f"break {i + 1}" for i in range(places)]
    guarded = values.names(record)
    close = nearest(topic, dict.fromkeys([*known, *guarded]))
    hint = f"did you mean {close!r}? " if close else ""
    frames = list(dict.fromkeys(f.name for f in record.frames))
    return PeekError(
        f"nothing is named {topic!r} in this capture",
        "it is no section, break, frame, compile id or value (symbol, size, tensor, or what a guard is about)",
        f"{hint}sections: {', '.join(TOPICS)}; frames: {_few(frames)}; values: {_few(guarded)}",
    )


def _few(names: Sequence[str], most: int = 8) -> str:
    return ", ".join([*names[:most], *(["…"] if len(names) > most else [])]) or "none"
