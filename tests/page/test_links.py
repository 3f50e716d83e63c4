"""The address: words that people type for views, and what is said where a link cannot be read."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from peek_backend.render.html.edits import PageDiff, PageEdit
from tests.page.synthetic import capture


@pytest.mark.parametrize(
    ("hash_", "view"),
    [
        ("#v=breaks", "breaks"),
        ("#v=timeline", "breaks"),
        ("#v=recompiles", "breaks"),
        ("#v=guards", "symbols"),
        ("#v=Table", "table"),
        ("#table", "table"),
        ("#view=source", "source"),
    ],
)
def test_a_view_opens_by_any_of_its_names(open_page, hash_, view):
    """The tab's own word works, so do older links, any case, and a bare word; nothing is complained of."""
    opened = open_page(hash_=hash_)
    assert opened.js("app.state.view") == view
    assert opened.tab.locator(".toast").is_hidden()


@pytest.mark.parametrize(
    ("hash_", "told"),
    [
        ("#v=nowhere", "no view nowhere; its views are overview, graph"),
        ("#v=diff", "no view diff"),
        ("#v=graph&g=99", "no graph 99"),
        ("#v=table&s=99999", "no node 99999"),
        ("#v=graph&zz=1", "no zz=1"),
    ],
)
def test_a_link_that_cannot_be_read_is_told(open_page, hash_, told):
    """What the link names and the page lacks is said, with the views that there are."""
    opened = open_page(capture(100), hash_)
    assert told in opened.tab.inner_text(".toast")


def test_the_diff_is_a_view_like_the_others(open_page):
    """With a diff there is a tab, a key and an address for it."""
    edits = (PageEdit("added", "op added: operator.mul", graph="0/0", node=30),)
    opened = open_page(capture(100), "#v=graph", diff=PageDiff("1 failing change", "bad", edits))
    opened.tab.click('.tabs button[data-view="diff"]')
    assert "1 failing change" in opened.tab.inner_text(".verdict")
    opened.tab.keyboard.press("1")
    opened.tab.keyboard.press("8")
    assert opened.js("app.state.view") == "diff"
    assert "op added" in opened.go("#v=diff").tab.inner_text("main")


def test_a_field_alone_finds_what_has_it_and_tells_how_to_go_on(open_page):
    """op: finds every node, module: those in a module, -module: the others; an example stands beside the box."""
    record = capture(100)
    nodes = record.graphs[0].nodes
    inside = sum(bool(n.source and n.source.module) for n in nodes)
    opened = open_page(record, "#v=table")
    found = lambda query: opened.js(f"(app.search({query!r}, true), app.hitList.length)")  # noqa: E731
    assert found("op:") == len(nodes)
    assert found("module:") == inside
    assert found("-module:") == len(nodes) - inside
    assert found("op:linear module:") == found("op:linear")
    found("op:")
    assert opened.tab.inner_text(".found") == "for example op:linear"
    found("bytes:>abc")
    assert opened.tab.inner_text(".found") == "for example bytes:>1M"
    found("op:linear flops:>")
    assert opened.tab.inner_text(".found") == "for example flops:>1G"
    found("bytes:>9TiB")
    assert opened.tab.inner_text(".found") == "nothing found"


def test_bytes_are_told_once(open_page):
    """A small count is not repeated; a large one has its exact number beside it."""
    record = capture(100)
    opened = open_page(record, "#v=table")
    small = next(n.index for n in record.graphs[0].nodes if n.name == "attention_mask")
    opened.js(f"app.select({small})")
    assert "256 B" in opened.tab.inner_text(".panel")
    assert opened.tab.inner_text(".panel").count("256") == 1
    large = next(n.index for n in record.graphs[0].nodes if "embed" in n.name)
    opened.js(f"app.select({large})")
    assert "65,536,000" in opened.tab.inner_text(".panel")


def test_only_an_address_of_the_web_is_a_link(open_page):
    """torch's page about a break opens in a tab of its own; any other text there stays text."""
    record = capture(20)
    events = [
        replace(record.breaks[0], link=link)
        for link in ("https://meta-pytorch.github.io/x/", "javascript:alert(1)")
    ]
    opened = open_page(replace(record, breaks=(events[0], replace(events[1], reason="other"))), "#v=breaks")
    links = opened.tab.locator(".timeline a")
    assert [a.get_attribute("href") for a in links.all()] == ["https://meta-pytorch.github.io/x/"]
    assert links.first.get_attribute("rel") == "noopener noreferrer"
    assert "javascript:alert(1)" in opened.tab.inner_text("main")
