"""Diffs as a picture and a page: what changed is drawn and marked, what did not is folded, nothing is torn by a hostile name."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from peek_backend.diff import Diff, compare, verdict
from peek_backend.model.snapshot import Snapshot
from peek_backend.render.diff_html import render_html
from peek_backend.render.diff_picture import diff_dot
from peek_backend.render.diff_view import Panel, folds, panels
from peek_backend.render.image import render_image
from peek_backend.snapshot.graphfile import read_graph
from tests.conftest import require
from tests.diff.transformer import transformer

GRAPHS = Path(__file__).resolve().parents[1] / "diff" / "graphs"
HOSTILE = '</script><b>"{|}->\\n\x1b[31m🔥]]>&amp;%s'


@cache
def snapshot(name: str) -> Snapshot:
    return read_graph(GRAPHS / f"{name}.graph")


def edited(old: Snapshot, place: int, **fields) -> Diff:
    """The diff to the same snapshot with one node of its first graph changed."""
    graph = old.graphs[0]
    nodes = list(graph.nodes)
    place %= len(nodes)
    nodes[place] = replace(nodes[place], **fields)
    changed = replace(graph, nodes=tuple(nodes))
    new = replace(old, entries=tuple([changed if e is graph else e for e in old.entries]))
    return compare(old, new)


def changed_panel(diff: Diff) -> Panel:
    return next(panel for panel in panels(diff) if panel.changed)


def test_one_change_in_a_large_graph_is_a_small_picture():
    """Of 8,400 nodes with one changed the picture draws the change, its neighbours and a few folds."""
    old = transformer(layers=400)
    diff = edited(old, 4000, target="torch.another")
    text = diff_dot([diff])
    assert "mark-changed" in text
    assert text.count("label=") < 40
    assert re.search(r"[\d,]{4,} unchanged ops", text)


@pytest.mark.parametrize("name", ["bert", "llama_dynamic", "mixtral", "cond"])
@pytest.mark.parametrize("place", [3, 20, -4])
def test_folds_make_no_cycle(name, place):
    """However a graph is folded, the boxes and their edges have no cycle."""
    diff = edited(snapshot(name), place, target="torch.another")
    panel = changed_panel(diff)
    fold = folds(panel, 60)
    box = [("fold", f) if f is not None else ("row", i) for i, f in enumerate(fold)]
    edges = {
        (box[o], box[i])
        for i, row in enumerate(panel.rows)
        for o in (*row.operands, *row.gone)
        if box[o] != box[i] and not (panel.rows[o].is_input and fold[o] is not None)
    }
    left = set(edges)
    while left:
        sources = {a for a, _ in left} - {b for _, b in left}
        assert sources, "a cycle"
        left = {(a, b) for a, b in left if a not in sources}


def test_every_row_is_shown_or_folded():
    """A change is never inside a fold unless it is like one that is shown."""
    diff = edited(snapshot("bert"), 20, target="torch.another")
    panel = changed_panel(diff)
    hidden = [
        r for f, r in zip(folds(panel, 60), panel.rows, strict=True) if f is not None and r.mark != "same"
    ]
    assert hidden == []


def test_equal_changes_are_drawn_once():
    """Four hundred layers that changed alike are one box with their number."""
    old = transformer(layers=400)
    graph = old.graphs[0]
    target = next(n.target for n in graph.nodes if "gelu" in n.target or "silu" in n.target)
    nodes = tuple(replace(n, target="F.mish") if n.target == target else n for n in graph.nodes)
    new = replace(old, entries=tuple([replace(graph, nodes=nodes) if e is graph else e for e in old.entries]))
    text = diff_dot([compare(old, new)])
    assert "×400" in text
    assert text.count("mark-changed") == 1
    assert "399 changed like those shown" in text.replace(",", "") or "changed like those shown" in text


def test_equal_graphs_say_so():
    """Nothing changed is a picture with these words."""
    one = snapshot("cond")
    assert "no graph changed" in diff_dot([compare(one, one)])


def test_the_title_names_what_changed():
    """Of a folder of snapshots those that are drawn are named, and not the equal ones before them."""
    one = snapshot("cond")
    diffs = [
        compare(replace(one, name="test_equal"), replace(one, name="test_equal")),
        edited(replace(one, name="test_changed"), 3, target="torch.another"),
    ]
    (title,) = re.findall(r"\tlabel=<<B>(.*?)</B>", diff_dot(diffs))
    assert title == "test_changed"


def test_a_new_graph_is_drawn_as_one():
    """A graph that is new as a whole, and one that is gone, are marked as such."""
    one = snapshot("cond")
    empty = replace(one, entries=())
    assert "mark-added" in diff_dot([compare(empty, one)])
    assert "mark-removed" in diff_dot([compare(one, empty)])


def test_hostile_names_are_text():
    """Names that hold DOT's and HTML's own signs are shown and tear neither."""
    require("dot")
    one = snapshot("cond")
    node = one.graphs[0].nodes[0]
    diff = edited(one, 0, target=HOSTILE, label=node.label)
    diff = replace(diff, name=HOSTILE)
    svg = render_image(diff_dot([diff]), "svg").decode()
    assert "<b>" not in svg
    page = render_html([(verdict(diff), diff, HOSTILE)])
    assert '<b>"{' not in page
    assert "</script>" not in page
    assert "\x1b" not in page + svg


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
def test_marks_have_signs_and_lines(theme):
    """In every theme a mark is told by a sign and a line style too, not by colour alone."""
    one = snapshot("cond")
    empty = replace(one, entries=())
    assert re.search(r"<B>\+</B>.*\n?.*", diff_dot([compare(empty, one)], theme=theme))
    removed = diff_dot([compare(one, empty)], theme=theme)
    assert "<B>−</B>" in removed
    assert "dashed" in removed


def test_the_page_stands_alone():
    """The page fetches and runs nothing, and holds the picture, the findings and every change."""
    require("dot")
    diff = edited(snapshot("bert"), 20, target="torch.another")
    page = render_html([(verdict(diff), diff, "a.graph")])
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert not re.search(r"(?:src|href)=\"(?!data:)", page)
    assert page.count('class="changed"') >= 1
    assert "data:image/svg+xml;base64," in page
    assert "unchanged ops</summary>" in page


def test_the_page_follows_what_changed():
    """The page of one change in 8,400 nodes is small: unchanged runs are cut in the middle."""
    old = transformer(layers=400)
    diff = edited(old, 4000, target="torch.another")
    assert len(render_html([(verdict(diff), diff, "")])) < 400_000
