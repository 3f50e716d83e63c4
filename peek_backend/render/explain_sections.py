"""The parts of the report, each a few lines on a page: what to mend, the story of each recompile, frames, times, symbols, guards.

Comes in: a Page and a record. Goes out: lines on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from ..analysis import breaks as breaks_of
from ..analysis.stats import captured_graphs, stats
from ..analysis.story import Story, cause, stories
from ..analysis.times import PHASES, by_phase, recompile_share, spent
from ..analysis.values import Failure, Value
from ..analysis.why import Why, of_symbol
from ..model import (
    NOT_CALLED,
    NOTHING_CAPTURED,
    BreakInfo,
    CaptureRecord,
    Fact,
    FailedGuard,
    FrameRecord,
    GraphRecord,
    GuardInfo,
    RecompileInfo,
    StackFrame,
    SymbolInfo,
)
from .labels import name_text, place_text, plural
from .pages import Page

ASKED = "Call to `torch._dynamo.graph_break()`"  # its explanation says no more than that
FEW_BREAKS = 10
FEW_RECOMPILES = 4
FEW_TIMES = 8
FEW_GUARDS = 40
FEW_FACTS = 8


def summary(page: Page, record: CaptureRecord) -> None:
    """Counts in a line, what went wrong in the next, and where the compile time went."""
    counts = stats(record)
    parts = [plural(counts.graphs, "graph"), plural(counts.ops, "op")]
    parts.append(plural(counts.breaks, "graph break"))
    if counts.break_locations != counts.breaks:
        parts[-1] += f" at {plural(counts.break_locations, 'place')}"
    parts.append(plural(counts.recompiles, "recompile"))
    if counts.resume_recompiles:
        parts[-1] += f" ({counts.resume_recompiles} of resumed frames)"
    page.add(", ".join(parts), "bold")
    worse = [
        (counts.skipped, "frame", "left in eager by a break"),
        (counts.given_up, "function", "no longer compiled: recompile limit"),
        (counts.failed, "frame", "failed"),
        (counts.never_ran, "graph", "captured but never run"),
        (counts.problems, "thing", "that peek could not read"),
    ]
    bad = [f"{plural(count, word)} {what}" for count, word, what in worse if count]
    if bad:
        page.add(", ".join(bad), "red")
    _time_line(page, record)


def _time_line(page: Page, record: CaptureRecord) -> None:
    rows = spent(record)
    if not rows:
        return
    sums = by_phase(rows)
    parts = [
        f"{PHASES[name]} {_seconds(sums[name])}"
        for name in PHASES
        if sums.get(name, 0) >= 0.05 * sums["total"]
    ]
    parts = [f"of which {p}" if p.startswith("codegen") else p for p in parts]
    again = recompile_share(rows)
    tail = f"; recompiles took {again:.0%} of it" if again >= 0.005 else ""
    page.add(f"compiling took {_seconds(sums['total'])}: {', '.join(parts)}{tail}", "dim")


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"


def nothing(page: Page, record: CaptureRecord) -> None:
    """Why there is no graph, one reason a line; the capture's other notes as they are."""
    reasons = [
        note.removeprefix(NOTHING_CAPTURED) for note in record.notes if note.startswith(NOTHING_CAPTURED)
    ]
    if not record.graphs and not reasons and not record.problems:
        reasons = [f"{NOT_CALLED} in this process"]
    if reasons:
        page.head("Nothing was captured")
    for reason in reasons:
        page.add(f"· {reason}", "yellow", indent=1)
    for note in record.notes:
        if not note.startswith(NOTHING_CAPTURED):
            page.add(note, "yellow")


def problems(page: Page, record: CaptureRecord) -> None:
    """What peek itself could not read, of a graph too; those of later stages first, as whole graphs are missing."""
    of_graphs = [(g.stage == "dynamo", p) for g in record.graphs for p in g.problems]
    found = [*record.problems, *(p for _, p in sorted(of_graphs, key=lambda pair: pair[0]))]
    for problem in found[:FEW_FACTS]:
        why = f" ({problem.why})" if problem.why else ""
        page.add(f"{problem.where}: {problem.what}{why}", "red", indent=1)
    if len(found) > FEW_FACTS:
        page.add(f"… {len(found) - FEW_FACTS} more", "red", indent=1)


def failures(page: Page, record: CaptureRecord) -> None:
    """Frames that ended with an error: why, the line, what mends it."""
    failed = [f for f in record.frames if f.outcome == "failed"]
    if not failed:
        return
    page.head("Failed")
    ran = {g.compile_id for g in record.graphs if g.never_ran is None}
    for frame in failed:
        bad = tuple([i for i in frame.compile_ids if i not in ran]) or frame.compile_ids
        _frame_line(page, msgspec.structs.replace(frame, compile_ids=bad), indent=1)
        page.add(frame.reason, "red", indent=3, hang=0)
        if frame.user is not None:
            page.pair(frame.user.code, place_text(frame.user.file, frame.user.line), indent=5)
        if any(g.never_ran for g in record.graphs if g.frame is not None and record.frames[g.frame] is frame):
            page.add("the graph was captured before the error, and never ran", indent=3)
        fix(page, frame.fix, indent=3)


def eager_runs(page: Page, record: CaptureRecord) -> None:
    """Functions that a stance kept from being compiled for some calls."""
    found = [f for f in record.frames if f.eager_calls]
    if found:
        page.head("Run in eager by a stance")
    for frame in found:
        _frame_line(page, frame, indent=1)
        page.add(_eager_words(frame), "yellow", indent=3)


def _eager_words(frame: FrameRecord) -> str:
    return f"{plural(frame.eager_calls, 'call')} ran in eager: {frame.eager_why}"


def resets(page: Page, record: CaptureRecord) -> None:
    """Functions whose compiled code was dropped and made anew: no recompile, though it costs as much."""
    found = [f for f in record.frames if f.resets and f.resume_of is None]
    if not found:
        return
    page.head("Compiled anew after a reset")
    for frame in found:
        left = f"{name_text(frame.name)}: {_reset_words(frame)}"
        page.pair(left, place_text(frame.file, frame.line), indent=1)
    page.add("torch._dynamo.reset() drops compiled code; what follows is no recompile", "dim", indent=1)


def _reset_words(frame: FrameRecord) -> str:
    return f"compiled code dropped {plural(frame.resets, 'time')}, and made anew"


def fix(page: Page, text: str, *, indent: int) -> None:
    """An arrow and the advice; a stub of several lines keeps its layout."""
    first, *more = text.splitlines() or [""]
    if first:
        page.add(f"→ {first}", "green", indent=indent)
    page.code("\n".join(more), indent=indent + 2, whole=True)


def mend(page: Page, record: CaptureRecord, limit: int | None) -> None:
    """The places where the program breaks, by what mending them is worth; None shows all."""
    places = breaks_of.ranked(record)
    if not places:
        return
    page.head("Breaks, the first to mend first")
    for number, row in enumerate(places[:limit], 1):
        break_lines(page, record, number, row, advice=1)
    if limit is not None and len(places) > limit:
        page.add(
            f"and {plural(len(places) - limit, 'more place')}: peek explain {page.file} breaks",
            "dim",
            indent=1,
        )


def break_lines(
    page: Page, record: CaptureRecord, number: int, row: breaks_of.BreakPlace, *, advice: int
) -> None:
    """One place: the reason, the line, what it does to the frame, and the first ``advice`` rewrites."""
    first = row.first
    page.add(f"{number:>2}. {reason(row)}", hang=4)
    if row.place is not None:
        page.code(f"{place_text(row.place.file, row.place.line)}  {row.place.code}", indent=4)
    if first.user is not None:
        page.code(f"from {place_text(first.user.file, first.user.line)}  {first.user.code}", indent=4)
    page.add(consequence(record, row), indent=4)
    if first.intent != "user" and first.explanation and not first.reason.startswith(ASKED):
        page.add(_first_sentence(first.explanation), "dim", indent=4, hang=0)
    for text in row.rewrites[:advice]:
        fix(page, text, indent=4)


def reason(row: breaks_of.BreakPlace) -> str:
    """The reason in few words, with torch's id."""
    id = f" ({row.first.id})" if row.first.id else ""
    return f"{_asked(row.first)}{row.reason.replace('`', '')}{id}"


def _asked(event: BreakInfo) -> str:
    """Who wants the break, where somebody does."""
    if event.intent == "user":
        return "asked for: "
    if event.intent != "skiplist":
        return ""
    listed = "intentionally marked" in event.explanation or event.reason.startswith("Skip inlining")
    return "torch's skip list: " if listed else f"asked for by {event.library}: "


def consequence(record: CaptureRecord, row: breaks_of.BreakPlace) -> str:
    """``splits Model.forward, 3 times; leaves Model.loss in eager; 120 ops come after``: what it does to each frame."""
    frames: dict[tuple[str, str], list[str]] = {}
    for event in row.events:
        frames.setdefault(_effect(record, event), []).append(_frame_name(record, event.frame))
    parts = [f"{verb} {_named_frames(names)}{rest}{_times(names)}" for (verb, rest), names in frames.items()]
    if row.ops_after:
        where = "after it" if any(e.split and e.resumes for e in row.events) else "in what it calls"
        parts.append(f"{plural(row.ops_after, 'op')} {where}")
    return "; ".join(parts)


def _effect(record: CaptureRecord, event: BreakInfo) -> tuple[str, str]:
    """What a break does to its frame, as the words before its name and those behind it."""
    frame = record.frames[event.frame] if event.frame is not None else None
    if event.split and event.resumes:
        return "splits", ""
    if event.split:
        line = _line_in(event, frame)
        return "runs the rest of", f" in eager, from line {line} on" if line else " in eager"
    if frame is not None and frame.outcome == "failed":
        return "ends", " with an error"
    return "leaves", " in eager"


def _line_in(event: BreakInfo, frame: FrameRecord | None) -> int:
    """The line of a frame that led to the break; 0 where the stack does not have it."""
    if frame is None:
        return 0
    own = (frame.file, frame.function)
    return next((f.line for f in reversed(event.stack) if (f.file, f.function) == own), 0)


def _named_frames(names: Sequence[str]) -> str:
    known = list(dict.fromkeys(names))
    return f"{', '.join(known[:3])}{' …' if len(known) > 3 else ''}"


def _times(events: Sequence[str]) -> str:
    return f", {len(events)} times" if len(events) > 1 else ""


def _first_sentence(text: str) -> str:
    return re.split(r"(?<!e\.g)(?<!i\.e)(?<=\.)\s+(?=[A-Z])", text.replace("\n", " "), maxsplit=1)[0]


def _frame_name(record: CaptureRecord, index: int | None) -> str:
    return name_text(record.frames[index].name) if index is not None and index < len(record.frames) else "?"


# Of the advice for one function, where a summary is asked for; the newest recompiles are the likeliest to go on.
MOST_ADVICE = 2


def recompiles(page: Page, record: CaptureRecord, limit: int | None) -> None:
    """A story a function; its resume frames, which mostly recompile along with it, a line each."""
    found = stories(record)
    if not found:
        return
    page.head("Recompiles")
    groups: dict[int, list[Story]] = {}
    for story in found:
        groups.setdefault(story.index if story.frame.resume_of is None else story.frame.resume_of, []).append(
            story
        )
    for root, group in list(groups.items())[:limit]:
        _group_lines(page, record.frames[root], group, limit)
    if limit is not None and len(groups) > limit:
        page.add(
            f"and {plural(len(groups) - limit, 'more function')}: peek explain {page.file} recompiles",
            "dim",
            indent=1,
        )


def _group_lines(page: Page, root: FrameRecord, group: Sequence[Story], limit: int | None) -> None:
    own = [s for s in group if s.frame is root]
    for story in own:
        story_lines(page, story, limit)
    if not own:
        page.pair(name_text(root.name), place_text(root.file, root.line), "yellow", indent=1)
    for story in sorted((s for s in group if s.frame is not root), key=lambda s: s.frame.resume):
        if limit is None:
            story_lines(page, story, limit)
            continue
        refused = ", then refused" if story.refused is not None else ""
        causes = dict.fromkeys(g.text for r in story.recompiles if (g := cause(r)) is not None)
        left = f"▸ resume#{story.frame.resume}: {plural(story.variants, 'variant')}{refused}: {'; '.join(causes)}"
        page.pair(left, place_text(story.frame.file, story.frame.line), indent=3)
    told = {text for story in own for text in story.advice}
    for text in _distinct([t for s in group if limit is not None for t in s.advice if t not in told]):
        fix(page, text, indent=3)


def _distinct(texts: Sequence[str]) -> list[str]:
    """Each advice once; of two of which one only says more, that one."""
    known = list(dict.fromkeys(texts))
    return [t for t in known if not any(o != t and o.startswith(t) for o in known)]


def story_lines(page: Page, story: Story, limit: int | None) -> None:
    """One code object: each variant and the guard that failed, the values seen, the advice."""
    page.pair(
        f"{name_text(story.frame.name)}: {plural(story.variants, 'variant')}",
        place_text(story.frame.file, story.frame.line),
        "yellow",
        indent=1,
    )
    shown = _some(story.recompiles, limit)
    told: set[FailedGuard] | None = None if limit is None else set()
    for recompile in shown[0]:
        _recompile_line(page, recompile, told)
    if shown[1]:
        page.add(f"… {plural(shown[1], 'more recompile')}", "dim", indent=3)
    for recompile in shown[2]:
        _recompile_line(page, recompile, told)
    if story.refused is not None:
        _recompile_line(page, story.refused, told)
        page.add(_since(story), "red", indent=3)
    for seen in story.seen if limit is None else story.seen[:3]:
        page.add(f"seen: {seen.source} = {_values(seen.values)}", "dim", indent=3)
    advice = _distinct(story.advice)
    left = 0 if limit is None else max(len(advice) - MOST_ADVICE, 0)
    for text in advice[left:]:
        fix(page, text, indent=3)
    if left:
        page.add(f"and {left} more: peek explain {page.file} recompiles", "dim", indent=3)


def _since(story: Story) -> str:
    """From when on calls are no longer compiled."""
    refused = story.refused
    assert refused is not None
    at = f" at {place_text(refused.user.file, refused.user.line)}" if refused.user is not None else ""
    call = f"call {refused.call}{at}" if refused.call is not None else f"the call{at}" if at else "then"
    end = "ends with an error" if story.frame.outcome == "failed" else "runs in eager"
    return f"since {call}, a call that fits none of the {story.variants} variants {end}"


def _some(items: Sequence[RecompileInfo], limit: int | None) -> tuple[Sequence, int, Sequence]:
    """The first ones, how many are left out (more than one: that takes a line as well), and the last."""
    if limit is None or len(items) <= limit + 1:
        return items, 0, ()
    return items[: limit - 1], len(items) - limit, items[-1:]


def _values(values: Sequence[str]) -> str:
    return ", ".join(values) if len(values) <= 8 else f"{', '.join(values[:6])}, … {values[-1]}"


def _recompile_line(page: Page, recompile: RecompileInfo, told: set[FailedGuard] | None) -> None:
    """A recompile and its cause, what failed for the other variants where that is another source, and not in ``told`` yet.

    Without ``told`` all that failed, and what changed in the graph.
    """
    guard = cause(recompile)
    text = guard.text if guard is not None else "no guard is known to have failed"
    place = (
        place_text(guard.user.file, guard.user.line) if guard is not None and guard.user is not None else ""
    )
    mark = "refused" if recompile.refused else f"#{recompile.variant}"
    page.pair(f"{mark}  {text}", place, indent=3)
    for other in recompile.failed[1:]:
        if told is None or (guard is not None and other.source != guard.source and other not in told):
            page.add(f"nor {other.variant or 'another'}: {other.text}", "dim", indent=7)
    if told is not None:
        told.update(recompile.failed)
        return
    for change in recompile.changed:
        page.add(f"changed: {change}", indent=7)


def narrow_symbols(page: Page, record: CaptureRecord) -> None:
    """Sizes that were meant to be dynamic and have one value left."""
    found = [
        of_symbol(g, s, s.sources[0] if s.sources else s.name)
        for g in captured_graphs(record)
        for s in g.symbols
        if s.lower is not None and s.lower == s.upper
    ]
    found = merged({(w.graph, w.subject): w for w in found}.values())
    if not found:
        return
    page.head("Sizes with one value left")
    for row in found[:FEW_FACTS]:
        why_lines(page, row, facts=2)


def value_lines(page: Page, record: CaptureRecord, value: Value) -> None:
    """The guards on a value, the recompiles in which they failed, what it was, and what to do."""
    told: set[StackFrame] = set()
    graphs: dict[str, list[str]] = {}
    lines: dict[str, StackFrame | None] = {}
    for guard, found in value.guards:
        text = _guard_text(guard)
        graphs.setdefault(text, []).extend(g.compile_id or g.key for g in found)
        lines.setdefault(text, guard.user)
    for text, keys in graphs.items():
        page.pair(f"guard: {text}", f"graph {_ids(list(dict.fromkeys(keys)))}", indent=1)
        _line_once(page, lines[text], told)
    for recompile, failed in _first_of_each(value.failures):
        mark = "refused" if recompile.refused else f"#{recompile.variant}"
        page.pair(
            f"{mark}  {failed.text}", f"made {_frame_name(record, recompile.frame)} compile again", indent=1
        )
        _line_once(page, failed.user, told)
    for one in value.seen:
        page.add(f"seen: {one.source} = {_values(one.values)}", "dim", indent=1)
    for text in value.advice:
        fix(page, text, indent=1)


def _first_of_each(failures: Sequence[Failure]) -> list[Failure]:
    """Of each recompile the first failure, where it is the one that explains it; variants further back fail along with it."""
    found = {f.recompile: f for f in reversed(failures)}
    return [f for f in reversed(found.values()) if f.guard is f.recompile.failed[0]] or list(
        reversed(found.values())
    )


def _line_once(page: Page, frame: StackFrame | None, told: set[StackFrame]) -> None:
    if frame is not None and frame not in told:
        told.add(frame)
        page.pair(frame.code or frame.function, place_text(frame.file, frame.line), "dim", indent=3)


def why_lines(page: Page, row: Why, *, facts: int | None = None) -> None:
    """One dim: what it is, the first ``facts`` of the chain, and the change."""
    page.pair(f"{row.subject} {row.verdict}", f"graph {row.graph}", indent=1)
    for fact in row.chain[:facts]:
        _fact_line(page, fact)
    if row.change:
        fix(page, row.change, indent=3)


def _fact_line(page: Page, fact: Fact) -> None:
    if fact.user is None:
        page.add(f"· {fact.text}", indent=3)
        return
    page.pair(f"· {fact.text}", place_text(fact.user.file, fact.user.line), indent=3)
    if fact.user.code:
        page.code(fact.user.code, indent=7)


def earlier(page: Page, record: CaptureRecord) -> None:
    """Functions that were compiled before the capture began."""
    if not record.earlier:
        return
    page.head("Compiled before the capture began")
    for frame in record.earlier[:FEW_TIMES]:
        left = f"{name_text(frame.name)}: {plural(len(frame.variants), 'variant')}"
        page.pair(left, place_text(frame.file, frame.line), indent=1)
    page.add("their graphs, breaks and recompiles are gone; only their guards can be read", "dim", indent=1)


def more(page: Page, record: CaptureRecord, *, details: bool) -> None:
    """How to ask for the rest."""
    if details or not record.frames:
        return
    page.lines.append("")
    page.add(
        f"more: peek explain {page.file} [frames | guards | symbols | times | break 1 | FRAME | VALUE]", "dim"
    )


# ---- sections for one topic ------------------------------------------------------------------------------------------


def _frame_line(page: Page, frame: FrameRecord, *, indent: int) -> None:
    ids = f" [{_ids(frame.compile_ids)}]" if frame.compile_ids else ""
    page.pair(
        f"{name_text(frame.name)}{ids}: {OUTCOMES.get(frame.outcome, frame.outcome)}",
        place_text(frame.file, frame.line),
        indent=indent,
    )


def _ids(ids: Sequence[str]) -> str:
    return ", ".join(ids) if len(ids) <= 3 else f"{ids[0]} … {ids[-1]}"


def frames(page: Page, record: CaptureRecord) -> None:
    """The ledger: each frame with what became of it, its resume frames below it."""
    page.head("Frames")
    if not record.frames:
        page.add("Dynamo looked at none", indent=1)
    ops = breaks_of.ops_by_frame(record)
    for index, frame in enumerate(record.frames):
        if frame.resume_of is None:
            frame_tree(page, record, index, ops)


def frame_tree(page: Page, record: CaptureRecord, index: int, ops: Sequence[int]) -> None:
    """A frame and the resume frames below it, with ops and calls."""
    resumed = sorted(
        (i for i, f in enumerate(record.frames) if f.resume_of == index),
        key=lambda i: record.frames[i].resume,
    )
    for i in (index, *resumed):
        one = record.frames[i]
        name = name_text(one.name) if i == index else f"▸ resume#{one.resume}"
        count = f", {plural(ops[i], 'op')}" if ops[i] else ""
        ids = f" [{_ids(one.compile_ids)}]" if one.compile_ids else ""
        left = f"{name}{ids}: {OUTCOMES.get(one.outcome, one.outcome)}{count}{_calls(one)}"
        page.pair(left, place_text(one.file, one.line), indent=1 if i == index else 4)
        if one.reason and one.outcome != "compiled":
            page.add(one.reason.replace("`", ""), "dim", indent=5 if i == index else 8, hang=0)
        if one.eager_calls:
            page.add(_eager_words(one), "dim", indent=5 if i == index else 8, hang=0)
        if one.resets:
            page.add(_reset_words(one), "dim", indent=5 if i == index else 8, hang=0)


# Words for an outcome; the others stand as they are.
OUTCOMES = {"limit": "over the recompile limit", "empty": "nothing to compile", "skipped": "left in eager"}


def _calls(frame: FrameRecord) -> str:
    """How often each variant ran, where calls were counted."""
    if not frame.calls:
        return ""
    ids = list(dict.fromkeys(frame.compile_ids))
    if len(ids) == 1:
        return f", called {frame.calls.get(ids[0], 0)}×"
    return ", called " + ", ".join(f"{i} {frame.calls.get(i, 0)}×" for i in ids)


def times(page: Page, record: CaptureRecord, limit: int | None = FEW_TIMES) -> None:
    """Compiles by their seconds, with the phases; None shows all."""
    rows = spent(record)
    page.head("Where the compile time went")
    if not rows:
        page.add("torch noted no compile", indent=1)
        return
    for row in rows[:limit]:
        parts = [f"{PHASES[p.name]} {_seconds(p.seconds)}" for p in row.phases if p.name in PHASES]
        again = ", a recompile" if row.recompile else ""
        page.pair(
            f"{_seconds(row.seconds):>8}  {name_text(row.name)} [{row.compile_id}]{again}",
            ", ".join(parts),
            indent=1,
        )
    if limit is not None and len(rows) > limit:
        page.add(f"and {plural(len(rows) - limit, 'more compile')}", "dim", indent=1)


def symbols(page: Page, record: CaptureRecord) -> None:
    """Every symbol with its facts, equal ones of several graphs once."""
    page.head("Symbols")
    graphs = [g for g in captured_graphs(record) if g.symbols]
    if not graphs:
        page.add("none: every size in the graphs is a constant", indent=1)
    rows = [_symbol_row(graph, symbol) for graph in graphs for symbol in graph.symbols]
    for row in merged(rows):
        page.pair(f"{row.subject} {row.verdict}", f"graph {row.graph}", indent=1)
        for fact in row.chain[:FEW_FACTS]:
            _fact_line(page, fact)
    relations = dict.fromkeys(text for graph in graphs for text in graph.relations)
    if relations:
        page.add("relations: " + "; ".join(relations), indent=1)


def _symbol_row(graph: GraphRecord, symbol: SymbolInfo) -> Why:
    sources = f" ({', '.join(symbol.sources)})" if symbol.sources else ""
    static = symbol.replaced_by is not None and symbol.replaced_by == str(symbol.hint)
    hint = f", was {symbol.hint}" if symbol.hint is not None and not static else ""
    row = of_symbol(graph, symbol, f"{symbol.name}{sources}")
    return row._replace(verdict=row.verdict + hint)


def guards(page: Page, record: CaptureRecord, *, by_line: bool = False) -> None:
    """The guards of every graph, by source in the order of cost, or by the user's line."""
    if not any(graph.guards for graph in record.graphs):
        page.add("no guards are recorded")
    for graph in captured_graphs(record):
        if graph.guards:
            page.head(f"Guards of {name_text(graph.name)} [{graph.compile_id}]")
            _guards_by_line(page, graph.guards) if by_line else guard_lines(page, graph.guards)
            _ambient_line(page, graph.guards)


def guard_lines(page: Page, guards: Sequence[GuardInfo], limit: int | None = FEW_GUARDS) -> None:
    """By source, the costliest check first."""
    grouped: dict[str, list[GuardInfo]] = {}
    for guard in guards:
        if not guard.ambient:
            grouped.setdefault(guard.source or guard.text, []).append(guard)
    ranked = sorted(grouped.items(), key=lambda item: -sum(_COST.get(g.type, 1) for g in item[1]))
    for _, group in ranked[:limit]:
        line = next((g.user for g in group if g.user is not None), None)
        page.pair(_guard_words(group), place_text(line.file, line.line) if line is not None else "", indent=1)
    if limit is not None and len(ranked) > limit:
        page.add(f"and {plural(len(ranked) - limit, 'more source')}", "dim", indent=1)


def _guards_by_line(page: Page, guards: Sequence[GuardInfo]) -> None:
    """Every line of the program that guards come from, in order, with the guards below it; those without a line last."""
    grouped: dict[StackFrame | None, list[GuardInfo]] = {}
    for guard in guards:
        if not guard.ambient:
            grouped.setdefault(guard.user, []).append(guard)
    lines = sorted((line for line in grouped if line is not None), key=lambda line: (line.file, line.line))
    for line in lines:
        page.pair(line.code or line.function, place_text(line.file, line.line), "bold", indent=1)
        page.add(_guard_words(grouped[line]), indent=3)
    if None in grouped:
        page.add("of no line of the program", "bold", indent=1)
        page.add(_guard_words(grouped[None]), indent=3)


def _guard_words(group: Sequence[GuardInfo]) -> str:
    """Guards in a row: ``k == 3; x: float32 [4]``, each once."""
    return "; ".join(dict.fromkeys(_guard_text(g) for g in group))


def _guard_text(guard: GuardInfo) -> str:
    """A guard with the source that it is about, which its text may name already."""
    named = re.search(rf"(?<![\w.]){re.escape(guard.source)}(?!\w)", guard.text)
    return guard.text if named else f"{guard.source}: {guard.text}"


def _ambient_line(page: Page, guards: Sequence[GuardInfo]) -> None:
    """What belongs to the process rather than to an argument: one line."""
    ambient = dict.fromkeys(g.text for g in guards if g.ambient)
    if ambient:
        page.add("of the process: " + ", ".join(ambient), "dim", indent=1)


# What one check costs, in dict lookups: a tensor's compares dtype, device, sizes, strides and dispatch keys.
_COST = {"TENSOR_MATCH": 8, "SHAPE_ENV": 6, "DICT_KEYS_MATCH": 4, "DYNAMIC_INDICES": 2, "SEQUENCE_LENGTH": 2}


def stack(page: Page, stack: Iterable[StackFrame]) -> None:
    """Frames of a stack, each with its place and code."""
    for frame in stack:
        page.pair(f"{frame.function}", place_text(frame.file, frame.line, full=page.width is None), indent=3)
        if frame.code:
            page.code(frame.code, indent=7)


def merged(rows: Iterable[Why]) -> list[Why]:
    """Rows that say the same of several graphs as one."""
    graphs: dict[Why, list[str]] = {}
    for row in rows:
        graphs.setdefault(row._replace(graph=""), []).append(row.graph)
    return [row._replace(graph=_ids(list(dict.fromkeys(found)))) for row, found in graphs.items()]
