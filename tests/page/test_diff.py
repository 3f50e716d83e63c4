"""A verdict's edits lead to the right nodes of the two captures."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from peek_backend.diff.compare import compare
from peek_backend.diff.edits import Diff, Edit, Group
from peek_backend.diff.verdict import Finding, Verdict, verdict
from peek_backend.model import CaptureRecord, Leaf
from peek_backend.passes.canonical import canonicalise
from peek_backend.render.html import page
from peek_backend.render.html.edits import PageDiff
from peek_backend.render.html.from_diff import page_diff
from tests.page.synthetic import capture


def changed(record: CaptureRecord, old: str, new: str) -> CaptureRecord:
    """The capture with one target in place of another."""
    graph = record.graphs[0]
    nodes = tuple(replace(n, target=new) if n.target == old else n for n in graph.nodes)
    return replace(record, graphs=(replace(graph, nodes=nodes), *record.graphs[1:]))


def without(record: CaptureRecord, target: str) -> CaptureRecord:
    """The capture without the nodes of one target: their users read what they read."""
    graph = record.graphs[0]
    gone = {n.index: n.args[0].node for n in graph.nodes if n.target == target}
    at, kept = {}, []
    for node in graph.nodes:
        if node.index not in gone:
            at[node.index] = len(kept)
            kept.append(node)
    for index, source in gone.items():
        at[index] = at[source]

    def moved(arg):
        if isinstance(arg, tuple):
            return tuple(map(moved, arg))
        return Leaf(node=at[arg.node]) if isinstance(arg, Leaf) and arg.node is not None else arg

    nodes = tuple(replace(n, index=at[n.index], args=tuple(map(moved, n.args))) for n in kept)
    return replace(record, graphs=(replace(graph, nodes=nodes), *record.graphs[1:]))


def diff_of(old: CaptureRecord, new: CaptureRecord) -> PageDiff:
    diff = compare(canonicalise(old), canonicalise(new))
    return page_diff(verdict(diff), diff, new, old, ("before.json", "after.json"))


def test_a_changed_op_leads_to_its_node_before_and_after():
    """Every silu that became a gelu is marked in both captures."""
    old = capture(200)
    new = changed(old, "torch.nn.functional.silu", "torch.nn.functional.gelu")
    found = diff_of(old, new)
    (edit,) = [e for e in found.edits if e.level == "fail"]
    silu = [n.index for n in old.graphs[0].nodes if n.target.endswith("silu")]
    assert [edit.node, *[node for _, node in edit.more]] == silu
    assert [edit.before_node, *[node for _, node in edit.before_more]] == silu
    assert edit.kind == "changed"
    assert found.tone == "bad"


def test_a_removed_op_leads_to_the_old_capture():
    """Ops that are gone are marked where they were."""
    old = capture(200)
    new = without(old, "torch.nn.functional.silu")
    removed = [e for e in diff_of(old, new).edits if e.kind == "removed"]
    assert removed
    silu = {n.index for n in old.graphs[0].nodes if n.target.endswith("silu")}
    assert {n for e in removed for n in (e.before_node, *[node for _, node in e.before_more])} == silu


@pytest.mark.parametrize(
    ("kind", "text", "old", "new", "told"),
    [
        ("input:added", "x", "", "f32[4, 8]", "input added · x: f32[4, 8]"),
        ("input:removed", "x", "i64[4]", "", "input removed · x: i64[4]"),
        ("recompile:added", "f ▸ variant#2", "", "k: not 3", "new recompile · f ▸ variant#2: because k: not 3"),
        ("note", "no longer:", "x and y share a symbol", "", "another note · no longer: x and y share a symbol"),
    ],
)  # fmt: skip
def test_what_only_came_or_went_is_told_whole(kind, text, old, new, told):
    """What has one side only is told with it, as in the text report: the input's type, the reason, the note."""
    edit = Edit(kind, "f", text=text, old=old, new=new)
    found = Verdict("f", "fail", (Finding("fail", Group(kind, "", text, old, new, (edit,))),))
    (row,) = page_diff(found, Diff("f", (), (), (), {}, {}), capture(20)).edits
    assert (row.text, row.before, row.after) == (told, "", "")


def test_equal_captures_have_no_edit():
    """Nothing is listed where nothing changed."""
    found = diff_of(capture(200), capture(200))
    assert found.edits == ()
    assert found.headline == "No change"


def test_the_diff_view_opens_the_old_node(open_page):
    """A click on a removal shows the graph before, with the node marked."""
    old = capture(200)
    new = without(old, "torch.nn.functional.silu")
    opened = open_page(new, diff=diff_of(old, new))
    opened.tab.click(".edit.removed .link >> nth=0")
    assert opened.js("[app.graph.side, app.graph.label(app.state.selected)]") == ["before", "F.silu"]
    assert opened.js("app.graphView.current.mark(app.state.selected)") == "removed"


def test_the_two_captures_are_named(open_page):
    """The view of what changed says between which two files, the old one first."""
    opened = open_page(capture(200), diff=diff_of(capture(200), capture(200)))
    assert opened.tab.inner_text(".diff .sides") == "before.json → after.json"


def test_every_changed_op_is_counted_once(open_page):
    """Of twelve ops that became others the view counts twelve, not those of both sides."""
    old = capture(800)
    new = changed(old, "torch.nn.functional.silu", "torch.nn.functional.gelu")
    silu = sum(n.target.endswith("silu") for n in old.graphs[0].nodes)
    opened = open_page(new, diff=diff_of(old, new))
    assert opened.tab.inner_text(".number.changed b") == str(silu)


@pytest.mark.parametrize(("before", "after"), [(200, 800), (800, 200)])
def test_the_numbers_add_up_to_the_verdict(open_page, before, after):
    """Layers that came or went with their parameters, which are no ops: what the numbers count is what the headline counts."""
    opened = open_page(capture(after), diff=diff_of(capture(before), capture(after)))
    headline = opened.tab.inner_text(".verdict")
    told = [int(n) for n in re.findall(r"(\d+) (?:failing|warning|allowed)", headline.replace(",", ""))]
    shown = [int(n.replace(",", "")) for n in opened.tab.locator(".number b").all_inner_texts()]
    assert sum(shown) == sum(told) > 0


def test_the_diff_fits_a_phone(open_page):
    """At 390 px every word of every edit stands inside the window."""
    old = capture(200)
    new = without(old, "torch.nn.functional.silu")
    opened = open_page(new, diff=diff_of(old, new), width=390)
    right = opened.tab.evaluate(
        "Math.max(...[...document.querySelectorAll('.diff *')].map((e) => e.getBoundingClientRect().right))"
    )
    assert right <= 390
    assert opened.js("probe.overlaps()") == []


def test_a_diff_shows_without_javascript(chromium, tmp_path):
    """The verdict and each edit are plain HTML, above the overview."""
    old = capture(200)
    new = changed(old, "torch.nn.functional.silu", "torch.nn.functional.gelu")
    path = tmp_path / "diff.html"
    path.write_text(page(new, diff=diff_of(old, new)), encoding="utf-8")
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(path.as_uri())
    text = tab.inner_text("body")
    assert "op changed" in text
    assert "F.gelu" in text
    assert text.index("op changed") < text.index("graph breaks")
    context.close()


def test_the_page_of_two_snapshots_fits_a_phone(open_page):
    """What peek diff writes of snapshots, which have no graphs to look at, is read at 390 px without scrolling sideways."""
    from peek_backend.render.diff_html import render_html

    old = capture(200)
    new = changed(old, "torch.nn.functional.silu", "torch.nn.functional.gelu")
    found = compare(canonicalise(old), canonicalise(new))
    text = render_html([(verdict(found), found, "")]).replace("<html ", '<html data-ready="true" ')
    opened = open_page(html=text, width=390)
    right = opened.tab.evaluate(
        "Math.max(...[...document.querySelectorAll('td, p, h1')].map((e) => e.getBoundingClientRect().right))"
    )
    assert right <= 390
    assert opened.tab.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("hash_", ["#v=graph", "#v=graph&m=bytes"])
def test_the_legend_tells_edits_from_kinds(open_page, hash_):
    """What a diff did to a node is a ring, as on its box, whatever fills the boxes; kinds are full squares."""
    old = capture(200)
    new = changed(old, "torch.nn.functional.silu", "torch.nn.functional.gelu")
    opened = open_page(new, hash_, diff=diff_of(old, new))
    assert opened.tab.locator(".legend span:has(.ring)").all_inner_texts() == ["added", "removed", "changed"]
    rings = opened.tab.evaluate(
        "[...document.querySelectorAll('.legend .ring')].map((r) => getComputedStyle(r).backgroundColor)"
    )
    assert set(rings) == {"rgba(0, 0, 0, 0)"}
