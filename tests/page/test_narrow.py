"""Geometry at 1280, 768 and 390 px: nothing is covered, cut or out of reach."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.page.synthetic import capture, fan_out

WIDTHS = [1280, 768, 390]


def box(opened, selector: str) -> dict[str, float]:
    """The first element's rectangle in the window."""
    return opened.tab.locator(selector).first.bounding_box()


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_lies_on_the_graph_but_the_map(open_page, width):
    """The toolbar and the legend stand above the canvas; the mini-map alone lies on it."""
    opened = open_page(capture(800), "#v=graph", width=width)
    board = box(opened, ".board")
    for part in (".tools", ".legend", ".tools select"):
        rect = box(opened, part)
        assert rect["y"] + rect["height"] <= board["y"] + 0.5, part
    assert box(opened, ".mini")["y"] > board["y"] + board["height"] / 2


@pytest.mark.parametrize("width", WIDTHS)
def test_the_toolbar_is_one_line(open_page, width):
    """Save stands level with its neighbours."""
    opened = open_page(capture(100), "#v=graph", width=width)
    middle = lambda rect: rect["y"] + rect["height"] / 2  # noqa: E731
    level = middle(box(opened, ".buttons .tool"))
    assert middle(box(opened, ".menu summary")) == pytest.approx(level, abs=0.6)
    assert middle(box(opened, ".tools select")) == pytest.approx(level, abs=0.6)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_header_is_the_same_in_every_view(open_page, width):
    """No control of the header moves when another view opens."""
    opened = open_page(capture(100), "#v=overview", width=width)
    first = [box(opened, s) for s in (".search", ".tabs", ".top")]
    for view in ("graph", "table", "stages"):
        opened.js(f"app.go({view!r})")
        assert [box(opened, s) for s in (".search", ".tabs", ".top")] == first, view


def test_tabs_that_do_not_fit_fade_and_can_be_reached(open_page):
    """On a phone the bar's end fades while there is more; the tab of the view is scrolled into sight."""
    opened = open_page(capture(100), width=390)
    if opened.js("app.tabs.scrollWidth > app.tabs.clientWidth + 2"):
        opened.until("app.tabs.dataset.more === 'right'")
        assert opened.js("getComputedStyle(app.tabs).maskImage") != "none"
    opened.js("app.go('symbols')")
    opened.until("app.tabs.dataset.more !== 'right'")
    tab = box(opened, '.tabs [data-view="symbols"]')
    assert tab["x"] >= 0
    assert tab["x"] + tab["width"] <= 390
    assert open_page(capture(100), width=1280).js("app.tabs.dataset.more") == ""


def test_a_wide_table_of_the_overview_fades_until_its_end_is_reached(open_page):
    """On a phone a table that goes on to the right says so, and the arrow keys bring its last column into sight."""
    opened = open_page(capture(100), width=390)
    table = ".graphs .wide"
    opened.until(f"document.querySelector('{table}').dataset.more === 'right'")
    assert opened.js(f"getComputedStyle(document.querySelector('{table}')).maskImage") != "none"
    opened.tab.focus(table)
    for _ in range(40):
        opened.tab.keyboard.press("ArrowRight")
    opened.until(f"document.querySelector('{table}').dataset.more === 'left'")


@pytest.mark.parametrize("width", [1280, 390])
def test_no_border_crosses_the_words_of_an_edge(open_page, width):
    """Where an edge's words are drawn stands no box, and no side of the container around them."""
    opened = open_page(capture(800), "#v=graph", width=width)
    labels = opened.js("probe.edgeLabels()")
    assert len(labels) > 3
    assert [one for one in labels if one["crossed"]] == []


def test_no_lane_crosses_the_words_of_another(open_page):
    """Of edges that run side by side each is named where no other runs through its words."""
    opened = open_page(fan_out(), "#v=graph")
    crossings = opened.js(
        """probe.edgeLabels(true).filter(({ content, at, width, y }) => content.routes.some((r) =>
               r.length === 8 && r[3] > at && r[3] < at + width &&
               Math.min(r[4], r[5]) < y && Math.max(r[4], r[5]) > y - 8)).length"""
    )
    assert opened.js("probe.edgeLabels().length") > 3
    assert crossings == 0


@pytest.mark.parametrize("nodes", [20, 800])
def test_no_edge_curves_through_words(open_page, nodes):
    """The words of an edge stand beside where it runs straight, or on the side that it turns away from."""
    labels = open_page(capture(nodes), "#v=graph").js("probe.edgeLabels()")
    assert len(labels) > 3
    assert [one for one in labels if one["curved"]] == []


def test_a_value_that_leaves_a_container_is_named_once(open_page):
    """Below an open container stands what leaves it; the same words do not stand above its border too."""
    opened = open_page(capture(800), "#v=graph", height=2400)
    opened.tab.keyboard.press("e")
    opened.tab.wait_for_timeout(500)
    assert len(opened.js("probe.edgeLabels()")) > 10
    inner = opened.js(
        """probe.edgeLabels(true).filter(({ content, at, y }) => content.links.some((l, e) => {
               const r = content.routes[e];
               return r.length < 8 && content.kids[l.b] === undefined &&
                 Math.abs(r[0] + 4 - at) < 1 && [r[1] + 11, r[2] + 11].some((ly) => Math.abs(ly - y) < 1);
             })).length"""
    )
    assert inner == 0


def test_the_table_spends_its_width_on_texts(open_page):
    """The number's column is as wide as its numbers; values and line numbers show whole at 1280 px."""
    opened = open_page(capture(800), "#v=table")
    assert box(opened, ".rows .row .cell")["width"] < 50
    cut = opened.tab.evaluate(
        """[...document.querySelectorAll('.rows .row')].flatMap((row) => [row.children[3], row.children[8]])
             .filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.title)"""
    )
    assert cut == []


def test_names_and_ops_come_before_arguments(open_page):
    """At 1280 px ops show whole and names are not cut while the arguments have room that they do not need."""
    opened = open_page(capture(800), "#v=table")
    rows = opened.tab.evaluate(
        """[...document.querySelectorAll('.rows .row')].map((row) => [...row.children].map((cell) => {
             const part = cell.querySelector('.start') ?? cell;
             return { text: cell.title, width: cell.clientWidth, cut: part.scrollWidth > part.clientWidth + 1 };
           }))"""
    )
    assert [row[2]["text"] for row in rows if row[2]["cut"]] == []
    names = [row[1]["text"] for row in rows if row[1]["cut"]]
    assert names == [] or rows[0][4]["width"] < 98


def test_a_cut_name_keeps_its_end(open_page):
    """Of a name that does not fit the middle goes: layers differ at the end."""
    opened = open_page(capture(800), "#v=table", width=390)
    cell = opened.tab.locator(".rows .row[data-node='11'] .cell").first
    assert cell.get_attribute("title").endswith(cell.locator(".tail").inner_text())
    tail, whole = cell.locator(".tail").bounding_box(), cell.bounding_box()
    assert tail["x"] + tail["width"] <= whole["x"] + whole["width"] + 1


@pytest.mark.parametrize("width", WIDTHS)
def test_a_guard_reads_in_whole_words(open_page, width):
    """However narrow the window, the kind of a guard and the line that it comes from are not broken, and nothing goes out."""
    opened = open_page(capture(100), "#v=symbols", width=width)
    rows = opened.tab.evaluate(
        """[...document.querySelectorAll('.conditions tbody tr')].map((row) => {
             const lines = (cell) => {
               const range = document.createRange();
               range.selectNodeContents(cell);
               return new Set([...range.getClientRects()].filter((r) => r.width).map((r) => Math.round(r.top / 8))).size;
             };
             const cells = [...row.children];
             return {
               broken: cells.slice(2).some((cell) => lines(cell) > 1),
               right: Math.max(...cells.map((cell) => cell.getBoundingClientRect().right)),
             };
           })"""
    )
    assert len(rows) >= 3
    assert [row for row in rows if row["broken"] or row["right"] > width] == []


def test_ops_of_two_stages_show_whole_on_a_phone(open_page):
    """Side by side at 390 px the names of ops are what a row shows: none of ATen's usual ones is cut."""
    before, _ = capture(100).graphs
    named = [
        replace(n, target="aten.var_mean.correction" if n.op == "call_function" else n.target)
        for n in before.nodes
    ]
    after = replace(before, stage="post_grad", nodes=tuple(named))
    opened = open_page(replace(capture(100), graphs=(before, after)), "#v=stages&b=1", width=390)
    opened.until("document.querySelectorAll('.column .row').length > 20")
    cut = opened.tab.evaluate(
        """[...document.querySelectorAll('.column .row .name')].filter((e) => e.scrollWidth > e.clientWidth + 1)
             .map((e) => e.textContent).filter((text) => text.length <= 24)"""
    )
    assert cut == []
