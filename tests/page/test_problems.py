"""What went wrong is told: in the verdict, and at the frame, graph or stage that it is about."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from peek_backend.analysis.stats import stats
from peek_backend.model import BreakInfo, FailedGuard, FrameRecord, Problem, RecompileInfo, StackFrame
from peek_backend.render.html.overview import facts, plain_html, verdict
from tests.page.synthetic import capture

PROBLEM = Problem(
    "0/0 joint", "the stage could not be read", "RuntimeError: no meta kernel", "register a meta kernel"
)
QUIET = {"breaks": (), "recompiles": (), "problems": ()}


def clean_capture():
    """A capture in which nothing went wrong."""
    record = capture(20)
    frames = (FrameRecord("f", "model.py", 3, compile_ids=("0/0",)),)
    return replace(record, frames=frames, graphs=record.graphs[:1], **QUIET)


def with_failed_stage():
    """The same, its joint stage not read."""
    record = clean_capture()
    stage = replace(record.graphs[0], stage="joint", nodes=(), problems=(PROBLEM,))
    return replace(record, graphs=(*record.graphs, stage))


def test_a_clean_capture_is_good():
    """The check on the others: without problems the verdict is good."""
    record = clean_capture()
    assert verdict(record, stats(record)) == ("good", "One graph, no breaks, no recompiles")


@pytest.mark.parametrize("where", ["record", "graph", "stage"])
def test_a_problem_anywhere_spoils_the_verdict(where):
    """A problem of the capture, of a graph or of a later stage is in the headline, and listed without JavaScript."""
    record = clean_capture()
    record = {
        "record": replace(record, problems=(PROBLEM,)),
        "graph": replace(record, graphs=(replace(record.graphs[0], problems=(PROBLEM,)),)),
        "stage": with_failed_stage(),
    }[where]
    tone, headline = verdict(record, stats(record))
    assert (tone, headline) == ("warn", "One graph, 1 thing that peek could not read")
    assert "RuntimeError: no meta kernel" in plain_html(record, facts(record))


def test_a_failed_frame_is_mended_first():
    """What failed stands before breaks and recompiles, with its reason, line and remedy."""
    user = StackFrame("model.py", 7, "f", "y = op(x)")
    failed = FrameRecord(
        "f", "model.py", 3, "failed", "RuntimeError: no", ("0/0",), fix="write op(x.float())", user=user
    )
    record = replace(capture(20), frames=(failed,))
    first = facts(record)["mend"][0]
    assert (first["kind"], first["why"], first["fix"]) == (
        "failed",
        "RuntimeError: no",
        ["write op(x.float())"],
    )
    assert (first["code"], first["place"]) == ("y = op(x)", "model.py:7")
    assert ("failed", 1) in [(n["label"], n["value"]) for n in facts(record)["numbers"]]


def test_a_failed_frame_is_told_once():
    """What ends a frame with an error is no frame left in eager; where another frame does run in eager there, it is told."""
    stack = (StackFrame("model.py", 7, "f", "y = op(x)"),)
    frames = (
        FrameRecord("f", "model.py", 3, "failed", "no op"),
        FrameRecord("g", "model.py", 9, "eager", "no op"),
    )
    events = [BreakInfo("no op", stack=stack, frame=frame, split=False) for frame in (0, 1)]
    record = replace(capture(20), frames=frames, **QUIET | {"breaks": tuple(events[:1])})
    assert [item["kind"] for item in facts(record)["mend"]] == ["failed"]
    record = replace(record, breaks=tuple(events))
    assert [item["kind"] for item in facts(record)["mend"]] == ["failed", "frame left in eager"]


@pytest.mark.parametrize("view", ["overview", "graph", "table", "symbols"])
def test_a_page_of_nothing_says_why(open_page, view):
    """A capture without frames and graphs: the reason stands in every view, and no table of no graphs."""
    opened = open_page(replace(capture(20), frames=(), graphs=(), **QUIET), f"#v={view}")
    assert "Nothing was captured" in opened.tab.inner_text("main")
    assert "nothing compiled was called" in opened.tab.inner_text("main")
    assert opened.tab.locator("main .graphs").count() == 0


def test_the_overview_lists_every_problem(open_page):
    """The reason and the remedy are a section of the overview; the tile of the count leads there."""
    opened = open_page(with_failed_stage())
    assert "1 thing that peek could not read" in opened.tab.inner_text(".verdict")
    opened.tab.click(".number >> text=problems")
    assert opened.js("app.state.view") == "overview"
    text = opened.tab.inner_text(".problems")
    assert "RuntimeError: no meta kernel" in text
    assert "register a meta kernel" in text


@pytest.mark.parametrize("view", ["graph", "table", "source", "stages", "symbols"])
def test_a_stage_that_could_not_be_read_says_why_in_every_view(open_page, view):
    """In place of an empty view stands the reason."""
    opened = open_page(with_failed_stage(), f"#v={view}&g=1")
    assert "RuntimeError: no meta kernel" in opened.tab.inner_text("main")


def test_the_column_of_an_unread_stage_says_why(open_page):
    """Beside the graph that was read stands the reason in place of the other's nodes."""
    opened = open_page(with_failed_stage(), "#v=stages")
    assert "RuntimeError: no meta kernel" in opened.tab.inner_text(".column:last-of-type")


def test_one_stage_is_compared_with_nothing(open_page):
    """Two graphs of different compiles are no stages of each other: the other side says how to record stages."""
    opened = open_page(capture(100), "#v=stages")
    right = opened.tab.locator(".column").nth(1)
    assert right.locator(".row").count() == 0
    assert "peek run --stages all" in right.inner_text()
    right.locator("select").select_option(label="dynamo · 1/0 generate ▸ resume#1")
    assert right.locator(".row").count() == 3


def test_advice_is_only_what_helps(open_page):
    """What Dynamo says of itself is no advice: rewrites stand there, and no request to report an issue."""
    hints = ("Please report an issue to PyTorch.", "Move print out.")
    event = BreakInfo(
        "Failed to trace builtin operator",
        "",
        hints,
        stack=(StackFrame("t.py", 3, "f", "print(1)"),),
        frame=0,
    )
    record = replace(capture(20), breaks=(event,))
    text = open_page(record, "#v=breaks").tab.inner_text("main")
    assert "report an issue" not in text
    assert "Move print out." in text


def test_a_failed_guard_is_told_once(open_page):
    """One guard that several variants failed is one line, without its source twice."""
    guards = (
        FailedGuard("x.shape[0]: expected 2, got 3", "x.shape[0]", "2", "3", variant="0/1"),
        FailedGuard("x.shape[0]: expected 2, got 3", "x.shape[0]", "2", "3", variant="0/0"),
        FailedGuard("len(self.layers) == 2", "self.layers", variant="0/0"),
    )
    record = replace(capture(20), recompiles=(RecompileInfo("0/2", 0, 3, guards),))
    opened = open_page(record, "#v=breaks")
    lines = opened.tab.locator(".guard").all_inner_texts()
    assert lines == ["x.shape[0] expected 2, got 3 of 0/1, 0/0", "len(self.layers) == 2 of 0/0"]


class _Bare(HTMLParser):
    """Collects the text that stands in no element."""

    def __init__(self) -> None:
        super().__init__()
        self.depth, self.text = 0, ""

    def handle_starttag(self, tag, attrs):
        self.depth += 1

    def handle_endtag(self, tag):
        self.depth -= 1

    def handle_data(self, data):
        self.text += "" if self.depth else data


def test_plain_page_is_of_elements():
    """The note under a folded table is a paragraph, which the page can hide, and names no option of a command."""
    parser = _Bare()
    record = capture(800)
    text = plain_html(record, facts(record))
    parser.feed(text)
    assert "folded by module</p>" in text
    assert parser.text.strip() == ""
    assert "--all" not in text
