"""What a notebook gets of a capture."""

from __future__ import annotations

import html

import pytest
from msgspec.structs import replace

from peek_backend.render.html import notebook_bundle, page
from peek_backend.render.text import render_text
from tests.page.hostile import hostile_capture
from tests.page.synthetic import capture


def test_a_small_capture_is_a_tree_and_the_page_in_a_frame():
    """The plain text is a tree of modules; the HTML is the whole page, sandboxed without same-origin."""
    bundle = notebook_bundle(capture(100), svg="<svg/>")
    assert set(bundle) == {"text/plain", "image/svg+xml", "text/html"}
    assert "embed_tokens" in bundle["text/plain"]
    assert 'sandbox="allow-scripts allow-downloads"' in bundle["text/html"]
    inside = bundle["text/html"].partition('srcdoc="')[2].partition('"')[0]
    assert html.unescape(inside) == page(capture(100))


def test_a_big_page_is_a_link_to_its_file(monkeypatch):
    """Over the limit the cell links to the written file, or shows the plain overview."""
    import sys

    monkeypatch.setattr(sys.modules["peek_backend.render.html.page"], "MAX_INLINE", 1000)
    assert (
        'href="out/page.html"'
        in notebook_bundle(capture(20), write=lambda html: "out/page.html")["text/html"]
    )
    assert "What to mend first" in notebook_bundle(capture(20))["text/html"]


def test_the_text_of_many_graphs_has_an_end():
    """A notebook file keeps the first lines of the tree and says how to have the rest."""
    record = capture(100)
    many = replace(record, graphs=record.graphs * 50)
    lines = notebook_bundle(many)["text/plain"].splitlines()
    whole = render_text(many, format="tree", width=120).splitlines()
    assert (len(lines), lines[:200]) == (201, whole[:200])
    assert lines[-1] == f"… {len(whole) - 200:,} more lines: print(record.table(format='tree'))"


@pytest.mark.parametrize("limit", [1, 10**9])
def test_hostile_text_stays_inside_the_frame(monkeypatch, limit):
    """No tag of a capture's text is markup of the notebook, framed or plain."""
    import sys

    monkeypatch.setattr(sys.modules["peek_backend.render.html.page"], "MAX_INLINE", limit)
    shown = notebook_bundle(hostile_capture())["text/html"]
    assert "<img" not in shown
    assert "<script>window.pwned" not in shown
