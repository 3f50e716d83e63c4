"""Everything that a pointer does the keys do too."""

from __future__ import annotations

from tests.page.synthetic import capture
from tests.page.test_page import with_stages


def test_stages_are_walked_by_keys(open_page):
    """Down walks a column, right goes to what the node became, left back, Enter opens a node of the other graph."""
    opened = open_page(with_stages(), "#v=stages")
    opened.tab.locator(".column .scroll").first.focus()
    opened.tab.keyboard.press("ArrowDown")
    opened.tab.keyboard.press("ArrowDown")
    first = opened.js("app.state.selected")
    assert opened.tab.locator(f'.column:first-child .row.on[data-node="{first}"]').is_visible()
    opened.tab.keyboard.press("ArrowRight")
    assert opened.js("app.views.stages.right.cursor") == first
    opened.tab.keyboard.press("ArrowDown")
    second = opened.js("app.views.stages.right.cursor")
    assert second != first
    opened.tab.keyboard.press("Enter")
    assert opened.js("[app.graph.stage, app.state.selected]") == ["forward", second]


def test_all_that_can_be_clicked_can_be_reached(open_page):
    """In no view a control lies outside of the order of Tab; what is a list has keys of its own."""
    opened = open_page(capture(100))
    for view in ("overview", "graph", "table", "source", "stages", "breaks", "symbols"):
        opened.js(f"app.go({view!r})")
        stray = opened.tab.evaluate(
            """[...document.querySelectorAll('[onclick], button, a, summary, select, input')]
                 .filter((e) => e.tabIndex < 0 || (e.disabled ?? false)).map((e) => e.outerHTML.slice(0, 80))"""
        )
        assert stray == [], view


def test_the_table_is_walked_by_keys(open_page):
    """Down and End move the selection, and the panel tells it."""
    opened = open_page(capture(100), "#v=table")
    opened.tab.locator(".grid .scroll").focus()
    opened.tab.keyboard.press("ArrowDown")
    assert opened.js("app.state.selected") == 0
    opened.tab.keyboard.press("End")
    assert opened.js("app.state.selected") == opened.js("app.graph.n - 1")


def test_no_motion_where_none_is_wanted(open_page):
    """With reduced motion nothing moves by itself: no transition, no animation, no smooth scrolling."""
    opened = open_page(capture(100))
    opened.tab.emulate_media(reduced_motion="reduce")
    moving = opened.tab.evaluate(
        """[...document.querySelectorAll('*')].filter((e) => {
             const css = getComputedStyle(e);
             return css.transitionDuration !== '0s' || css.animationName !== 'none' || css.scrollBehavior === 'smooth';
           }).length"""
    )
    assert moving == 0


def test_paper_is_light(open_page):
    """A page that is dark on the screen prints dark on light, and is dark again after."""
    opened = open_page(capture(100), theme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = opened.tab.evaluate(ground)
    opened.tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.tab.evaluate(ground) == "rgb(255, 255, 255)"
    opened.tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.tab.evaluate(ground) == dark
