"""The page in a real Chromium: it loads, opens, searches, explains, keeps its state, and asks for nothing."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from msgspec.structs import replace

from peek_backend.model import FailedGuard, Leaf, node_refs
from peek_backend.render.html import page
from peek_backend.render.html.edits import PageDiff, PageEdit
from peek_backend.render.html.page import default_title
from peek_backend.render.theme import contrast
from tests.builders import GraphBuilder, tensor
from tests.builders import capture as of_graphs
from tests.page.hostile import TEXTS, hostile_capture, hostile_diff, hostile_sources
from tests.page.synthetic import capture

VIEWS = ("overview", "graph", "table", "source", "stages", "breaks", "symbols")


def closed(opened) -> int:
    """The first closed container that shows."""
    return next(s["item"] for s in opened.js("probe.shown()") if s["group"] and not s["open"])


def test_the_page_opens_on_the_verdict(open_page):
    """Without a hash the overview shows: the verdict, the numbers, what to mend first."""
    opened = open_page()
    assert "2 graph breaks" in opened.tab.inner_text(".verdict")
    text = opened.tab.inner_text(".mend")
    assert "Failed to trace builtin operator" in text
    assert "step was compiled 3 times" in text
    assert "mark_dynamic(x, 0)" in text


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 780)])
def test_nothing_overlaps_in_any_view(open_page, width, height, theme):
    """At desktop and phone width, in both themes, no control covers another and nothing leaves the window."""
    opened = open_page(width=width, height=height, theme=theme)
    for view in VIEWS:
        opened.js(f"(app.select(30), app.go({view!r}))")
        opened.tab.wait_for_timeout(60)
        assert opened.js("probe.overlaps()") == [], view


@pytest.mark.parametrize("nodes", [20, 800, 10_000])
def test_every_view_shows_at_every_size(open_page, nodes):
    """Each view has something to show for 20, 800 and 10,000 nodes."""
    opened = open_page(capture(nodes))
    for view in VIEWS:
        opened.tab.click(f'.tabs button[data-view="{view}"]')
        assert opened.tab.locator("main > section").count() == 1
        if view != "graph":
            assert opened.tab.inner_text("main").strip()
    assert opened.js("app.graphView.canvas.paints") > 0


def test_the_canvas_paints_boxes(open_page):
    """The canvas is not blank: it holds many colours."""
    opened = open_page(hash_="#v=graph")
    assert opened.js("probe.colours()") > 50


def test_a_click_on_the_chevron_opens_and_closes(open_page):
    """The chevron of a closed container opens it in place; the title stays where it was."""
    opened = open_page(hash_="#v=graph")
    group = closed(opened)
    x, y = opened.js(f"probe.bring({group})")
    opened.tab.mouse.click(x + 11, y + 13)
    assert opened.js(f"app.graphView.current.layout.open.has({group})")
    assert abs(opened.js(f"probe.where({group})")[1] - y) < 1
    opened.js(f"app.graphView.toggle({group})")
    assert not opened.js(f"app.graphView.current.layout.open.has({group})")


def test_one_of_each_repeated_layer_is_open(open_page):
    """At first layer 0 is open and the eleven others are one box ×11."""
    opened = open_page(hash_="#v=graph")
    found = {s["title"]: (s["times"], s["open"]) for s in opened.js("probe.shown()") if s["group"]}
    assert found["layers.0"] == (0, True)
    assert found["layers.1 … 11"] == (11, False)


def test_bodies_open_from_their_op(open_page):
    """A higher-order op shows its bodies as chips; a body is a graph of its own, a link away."""
    record = capture(20)
    graph = record.graphs[0]
    body = replace(graph, name="true_body", children=())
    last = graph.nodes[-1]
    at = last.index
    attribute = replace(last, name="true_body", op="get_attr", target="true_body", args=(), body=0)
    op = replace(
        last,
        index=at + 1,
        name="cond",
        op="call_function",
        target="torch.ops.higher_order.cond",
        args=(Leaf(node=at),),
    )
    output = replace(last, index=at + 2)
    parent = replace(graph, nodes=(*graph.nodes[:-1], attribute, op, output), children=(body,))
    opened = open_page(replace(record, graphs=(parent,)), f"#v=graph&s={at}")
    assert opened.js(f"app.graphView.current.tree.chips({at + 1})") == [at]
    opened.tab.click("text=true_body, 16 nodes")
    assert opened.js("[app.graph.parent, app.graph.title]") == [0, "true_body"]


def test_a_fold_says_what_differs(open_page):
    """The panel of a fold says that its members are built alike."""
    opened = open_page(hash_="#v=graph")
    fold = next(s["item"] for s in opened.js("probe.shown()") if s["fold"])
    opened.js(f"app.select({fold})")
    text = opened.tab.inner_text(".panel")
    assert "11 times" in text
    assert "Built exactly like layers.0" in text


def test_search_finds_by_field(open_page):
    """op:, dtype:, module:, shape:, file: and plain words find what they name, and a minus takes away."""
    record = capture(800)
    graph = record.graphs[0]
    linear = sum("linear" in n.target for n in graph.nodes)
    opened = open_page(record, "#v=table")
    found = lambda query: opened.js(f"(app.search({query!r}, true), app.hitList.length)")  # noqa: E731
    assert found("op:linear") == linear
    assert found("op:linear module:layers.3.") == 7
    assert found("op:linear -module:layers") == linear - 84
    assert found("dtype:i64") == sum(getattr(n.value, "dtype", "") == "int64" for n in graph.nodes)
    assert found("shape:[1,s0,1376]") == 12 * 4
    assert found("shape:[1,*,1376]") == 12 * 4
    assert found("module:layers.1 op:linear") == 7
    assert found("file:modeling_llama.py:254") == 12
    assert found("module:layers.*.mlp.gate_proj") == 12
    assert found('"modeling_llama" op:nothing') == 0
    assert found("bytes:>10M") == 2
    in_file = sum(bool(n.source and n.source.file and "modeling_llama" in n.source.file) for n in graph.nodes)
    named = [n.name for n in graph.nodes]
    for query, want in (
        ("file:modeling_llama.py", in_file),
        ("file:nothing.py", 0),
        (f"name:{named[-2]}", sum(named[-2] in name for name in named)),
        (f"-name:{named[-2]}", sum(named[-2] not in name for name in named)),
        ("name:nothing", 0),
    ):
        assert found(query) == want, query


@pytest.mark.parametrize("width", [1280, 390])
def test_a_field_that_does_not_exist_is_named(open_page, width):
    """``foo:bar`` is told as no field, with those that there are, inside the window; a colon in what was found is text."""
    record = capture(100)
    first, *others = record.graphs
    nodes = [replace(n, source=replace(n.source, code="pick = lambda x: x")) for n in first.nodes[:9]]
    first = replace(first, nodes=(*nodes, *first.nodes[9:]))
    opened = open_page(replace(record, graphs=(first, *others)), "#v=table", width=width)
    note = opened.tab.locator(".nofield")
    for query in ("foo:bar", "foo:", "op:linear foo:bar", "-foo:bar"):
        opened.tab.fill(".search input", query)
        assert note.inner_text().startswith("There is no field foo. Fields: op, dtype, module, shape"), query
        rect = note.bounding_box()
        assert rect["x"] >= 0
        assert rect["x"] + rect["width"] <= width
    for query in ("op:linear", "op:", '"dim=-1)"', "lambda x:", "nothing-like-it", ""):
        opened.tab.fill(".search input", query)
        assert note.is_hidden(), query


def test_typing_a_search_and_walking_its_hits(open_page):
    """Slash goes to the field, Enter walks from hit to hit and opens what hides them."""
    opened = open_page(hash_="#v=graph")
    opened.tab.keyboard.press("/")
    opened.tab.keyboard.type("op:silu")
    assert "12 found" in opened.tab.inner_text(".found")
    opened.tab.keyboard.press("Enter")
    opened.tab.keyboard.press("Enter")
    assert "2 of 12" in opened.tab.inner_text(".found")
    assert "silu" in opened.tab.inner_text(".panel h2")
    assert opened.js("app.graphView.current.layout.find(app.state.selected).item === app.state.selected")


def test_the_panel_tells_all_of_a_node(open_page):
    """Shape, dtype, stride, device, arguments, users, module, line with code, symbols with range and source."""
    record = capture(800)
    node = next(n for n in record.graphs[0].nodes if n.target.endswith("scaled_dot_product_attention"))
    opened = open_page(record, f"#v=graph&s={node.index}")
    text = opened.tab.inner_text(".panel")
    for part in (
        "[1, 8, s0, 64]", "f32", "(8*s0*64, s0*64, 64, 1)", "cpu", "layers.0.self_attn", "LlamaAttention",
        "modeling_llama.py:254", "attn_output = sdpa(query", "in [2, 4096], 16 while tracing", "input_ids.shape[1]",
        "attention_mask",
    ):  # fmt: skip
        assert part in text, part
    opened.tab.click(".panel .args .link >> nth=0")
    assert "add" in opened.tab.inner_text(".panel h2")


def test_the_panel_shows_guards_of_an_input(open_page):
    """The guards on an input are listed at its node."""
    opened = open_page(hash_="#v=graph&s=1")
    assert "2 <= input_ids.shape[1] <= 4096" in opened.tab.inner_text(".panel")


def test_the_graph_cannot_be_lost(open_page):
    """However far the graph is moved, some of it stays in view, and the mini-map shows where."""
    opened = open_page(hash_="#v=graph&c=0,1000000,0.5")
    opened.js("app.graphView.paint()")
    box = opened.js("app.graphView.current.layout.box(app.graphView.current.tree.root).height")
    assert opened.js("app.graphView.canvas.view.y0") < box
    assert opened.tab.locator(".mini").is_visible()
    opened.tab.keyboard.press("0")
    opened.until("app.graphView.miniEl.hidden")


def test_levels_open_and_close(open_page):
    """Expanding a level opens what is closed in view, collapsing closes the innermost."""
    opened = open_page(hash_="#v=graph")
    count = lambda: opened.js("probe.shown().filter((s) => s.open).length")  # noqa: E731
    before = count()
    opened.tab.keyboard.press("e")
    more = count()
    assert more > before
    opened.tab.keyboard.press("c")
    assert 1 <= count() < more


def test_chips_lead_to_their_parameter(open_page):
    """A click on a parameter inside a box selects it, and the panel names its users."""
    record = capture(20)
    node = next(n for n in record.graphs[0].nodes if n.target == "torch.nn.functional.embedding")
    opened = open_page(record, f"#v=graph&s={node.index}")
    for group in opened.js(f"app.graphView.current.tree.path({node.index})"):
        opened.js(f"app.graphView.current.layout.open.has({group}) || app.graphView.toggle({group})")
    x, y = opened.js(f"probe.bring({node.index})")
    scale = opened.js("app.graphView.canvas.camera.k")
    opened.tab.mouse.click(x + 40 * scale, y + 45 * scale)
    assert opened.tab.inner_text(".panel h2") == "embed_tokens.weight"
    assert "embedding" in opened.tab.inner_text(".panel")


def test_ancestors_and_descendants_are_lit(open_page):
    """Ancestors are all that a node depends on, descendants all that depends on it; the rest is dimmed."""
    record = capture(100)
    graph = record.graphs[0]
    opened = open_page(record, "#v=graph&s=20&r=up")
    mask = opened.js("Array.from(app.graphView.current.mask)")
    wanted, todo = set(), [20]
    from peek_backend.model import node_refs

    while todo:
        i = todo.pop()
        if i not in wanted:
            wanted.add(i)
            todo.extend(node_refs(graph.nodes[i]))
    assert {i for i, on in enumerate(mask) if on} == wanted
    opened.js("app.reach('down')")
    assert opened.js("app.graphView.current.mask[app.graph.n - 1]") == 1


def test_keyboard_alone_reaches_everything(open_page):
    """Digits switch views, arrows walk along edges, Enter opens, Escape clears."""
    opened = open_page(hash_="#v=graph")
    press = opened.tab.keyboard.press
    press("ArrowDown")
    start = opened.js("app.state.selected")
    press("ArrowDown")
    assert opened.js(
        f"app.graphView.current.tree.isGroup(app.state.selected) || app.graph.users({start}).includes(app.state.selected)"
    )
    group = closed(opened)
    opened.js(f"app.select({group})")
    press("Enter")
    assert opened.js(f"app.graphView.current.layout.open.has({group})")
    press("Escape")
    assert opened.js("app.state.selected") is None
    for digit, view in enumerate(VIEWS, 1):
        press(str(digit))
        assert opened.js("app.state.view") == view
    press("?")
    assert opened.tab.locator("dialog[open]").count() == 1


def test_the_table_walks_by_keyboard_and_sorts(open_page):
    """Arrow keys move the selected row, a click on a column sorts by it both ways."""
    opened = open_page(hash_="#v=table")
    opened.tab.focus(".grid .scroll")
    opened.tab.keyboard.press("ArrowDown")
    opened.tab.keyboard.press("ArrowDown")
    assert opened.js("app.state.selected") == 1
    opened.tab.click("text=bytes")
    opened.tab.click("text=bytes")
    top = opened.js("app.views.table.rows[0]")
    assert opened.js(f"app.graph.value({top}).bytes") == 32000 * 512 * 4
    assert opened.tab.get_attribute(".head [aria-sort=descending]", "role") == "columnheader"


def test_the_table_opens_at_the_selection(open_page):
    """A link to a node opens the table scrolled to its row."""
    opened = open_page(hash_="#v=table&s=600")
    assert opened.tab.locator('.rows .row.on[data-node="600"]').is_visible()


def test_the_table_keeps_few_rows_in_the_document(open_page):
    """10,000 rows are virtual: a screen of them is in the document, all are counted for screen readers."""
    opened = open_page(capture(10_000), "#v=table")
    assert opened.tab.locator(".rows .row").count() < 80
    assert int(opened.tab.get_attribute("[role=table]", "aria-rowcount")) > 9_000


def test_the_table_copies_as_markdown_and_csv(open_page):
    """Both copies have a row for each node, and cells that neither format reads as marks or formulas."""
    record = capture(20)
    opened = open_page(record, "#v=table")
    markdown = opened.js("app.views.table.text('markdown')")
    csv = opened.js("app.views.table.text('csv')")
    assert markdown.count("\n") == len(record.graphs[0].nodes) + 2
    assert csv.count("\r\n") == len(record.graphs[0].nodes) + 1
    assert '"f32[1, s0, 512]"' in csv


def test_the_hash_opens_the_same_view(open_page):
    """View, graph, selection, search, open containers, overlay and theme come back from the address alone."""
    opened = open_page(hash_="#v=graph")
    group = closed(opened)
    opened.js(f"(app.graphView.toggle({group}), app.select(40), app.search('op:mul', true))")
    opened.js("(app.set({ overlay: 'bytes' }), app.switchTheme())")
    opened.until("probe.isSaved()")
    hash_, camera = opened.js("location.hash"), opened.js("app.graphView.canvas.camera")
    again = opened.go(hash_)
    assert again.js(f"app.graphView.current.layout.open.has({group})")
    assert again.js(
        "[app.state.view, app.state.selected, app.state.query, app.state.overlay, document.documentElement.dataset.theme]"
    ) == ["graph", 40, "op:mul", "bytes", "dark"]
    assert again.js("app.graphView.canvas.camera.k") == pytest.approx(camera["k"], rel=0.01)
    assert again.js("app.graphView.canvas.camera.y") == pytest.approx(camera["y"], abs=3)


@pytest.mark.parametrize(
    "hash_",
    ["#v=nowhere&g=99&s=1e9&o=zz-zzzz.%&c=NaN,1,2", "#%E0%A4%A", "#v=graph&s=g99999&c=0,0,0", "#&&==&"],
)
def test_a_broken_hash_is_harmless(open_page, hash_):
    """What the hash names and the capture lacks is left out."""
    opened = open_page(hash_=hash_)
    assert opened.tab.locator("main > section").count() == 1


def test_overlays_colour_nodes_and_say_what_colours_mean(open_page):
    """Bytes, dtype and device colour boxes, each with a legend."""
    opened = open_page(hash_="#v=graph")
    for name, legend in (("bytes", "MiB"), ("dtype", "f32"), ("device", "cpu")):
        opened.tab.select_option(".tools select", name)
        assert legend in opened.tab.inner_text(".legend")
        assert opened.js("app.graphView.current.fill(30)").startswith("#")


def test_the_panel_never_hides_the_selection(open_page):
    """On a phone the panel takes half the window; the selected box stays in the other half."""
    opened = open_page(hash_="#v=graph", width=390, height=780)
    x, y = opened.js(f"probe.bring({closed(opened)})")
    opened.tab.mouse.click(x + 40, y + 8)
    opened.tab.locator(".panel").wait_for()
    opened.until("probe.where(app.state.selected)[1] < app.panel.element.getBoundingClientRect().top - 20")


def test_the_theme_follows_the_system_and_the_switch(open_page):
    """Dark where the system asks for it; the switch changes page and canvas alike."""
    opened = open_page(hash_="#v=graph", theme="dark")
    dark = opened.js("app.graphView.canvas.colours.canvas")
    opened.tab.keyboard.press("t")
    assert opened.js("app.graphView.canvas.colours.canvas") != dark
    assert opened.js("document.documentElement.dataset.theme") == "light"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read_on_its_ground(open_page, theme):
    """Each colour of text has contrast 4.5 on every ground that it stands on, and lines between boxes 3 (WCAG 1.4.3, 1.4.11)."""
    opened = open_page(capture(20), "#v=graph", theme=theme)
    opened.js("(app.graphView.paint(), 0)")
    texts = {
        "bg": ("ink", "ink2", "ink3", "accent", "good", "warn", "bad"),
        "fill": ("ink", "ink2", "ink3", "accent"),
        "canvas": ("ink", "ink2", "ink3"),
        "group": ("ink", "ink2", "ink3"),
        "group2": ("ink", "ink2", "ink3"),
        "card": ("ink", "ink2", "ink3", "param", "port"),
        "raised": ("ink", "ink2", "ink3", "accent"),
    }
    names = {*texts, *(name for all_of in texts.values() for name in all_of), "edge"}
    found = opened.tab.evaluate(
        """(names) => { const e = document.createElement('i'); document.body.append(e);
             const read = (n) => { e.style.color = `var(--${n})`; return getComputedStyle(e).color; };
             return Object.fromEntries(names.map((n) => [n, read(n)])); }""",
        sorted(names),
    )
    colours = {
        name: "#{:02x}{:02x}{:02x}".format(*map(int, re.findall(r"\d+", rgb))) for name, rgb in found.items()
    }
    pairs = [(name, ground, 4.5) for ground, all_of in texts.items() for name in all_of]
    pairs += [("edge", ground, 3) for ground in ("canvas", "group", "group2")]
    ratios = {(name, ground): contrast(colours[name], colours[ground]) for name, ground, _ in pairs}
    assert [pair for *pair, least in pairs if ratios[tuple(pair)] < least] == []


def test_a_long_name_shows_whole_in_its_box_or_under_the_pointer(open_page):
    """A box has room for the longest names of ATen; one that is longer still loses its middle, and the tooltip has all of it."""
    long = "aten._scaled_dot_product_flash_attention_for_cpu_backward"
    longer = f"{long}_{'x' * 40}"
    record = capture(20)
    first, *others = record.graphs
    named = {6: f"{long}.default", 7: longer}
    nodes = [replace(n, target=named.get(n.index, n.target)) for n in first.nodes]
    first = replace(first, nodes=tuple(nodes))
    opened = open_page(replace(record, graphs=(first, *others)), "#v=graph")
    title = lambda i: opened.js(f"app.graphView.current.sizes.leafText({i}).title")  # noqa: E731
    shown = lambda i: opened.js(  # noqa: E731
        f"(({{ sizes, layout }}) => sizes.width(sizes.leafText({i}).title, '600 12px system-ui') + 18 <="
        f" layout.find({i}).box.right + layout.find({i}).box.left)(app.graphView.current)"
    )
    assert title(6) == long
    assert "…" in title(7)
    assert shown(6)
    x, y = opened.js("probe.bring(7)")
    opened.tab.mouse.move(x + 20, y + 8)
    assert longer in opened.tab.locator(".tip").inner_text()


def test_export_gives_svg_png_and_dot(open_page, tmp_path):
    """Each export is a file of its kind with the visible boxes in it; the SVG is well-formed XML."""
    from xml.etree import ElementTree

    opened = open_page(hash_="#v=graph")
    for kind in ("svg", "png", "dot"):
        opened.tab.click(".menu summary")
        with opened.tab.expect_download() as download:
            opened.tab.click(f".menu button >> text={kind.upper()}")
        data = tmp_path / f"out.{kind}"
        download.value.save_as(data)
        if kind == "png":
            assert data.read_bytes().startswith(b"\x89PNG")
        elif kind == "svg":
            assert "embed_tokens" in " ".join(ElementTree.parse(data).getroot().itertext())
        else:
            assert "subgraph cluster_" in data.read_text("utf-8")
            assert "->" in data.read_text("utf-8")


def test_an_exported_dot_has_the_edges_of_ports(open_page):
    """A value with many users is a port in the drawing; in the DOT an edge leads to each of them."""
    g = GraphBuilder("f")
    x = g.call("torch.sin", g.input("x", tensor(4)), value=tensor(4))
    y = x
    for k, op in enumerate(
        ("tanh", "cos", "exp", "log", "neg", "abs", "ceil")
    ):  # no two experts fold into one
        for target, args in ((f"torch.{op}", [y]), ("operator.add", [y, x])):
            y = g.call(target, *args, value=tensor(4), module=f"experts.e{k}")
    g.output(y)
    opened = open_page(of_graphs(g.graph()), "#v=graph")
    assert "→ 8" in opened.tab.evaluate("window.peek.svg()")
    opened.tab.keyboard.press("0")
    opened.tab.wait_for_timeout(300)
    text = opened.tab.evaluate("window.peek.dot()")
    (sin,) = re.findall(r'n(\d+) \[label="(?:torch\.)?sin', text)
    assert len(re.findall(rf"n{sin} -> ", text)) == 8  # the open expert reads it twice


def test_an_exported_svg_has_its_words_whole(open_page):
    """The words of an edge that runs beside all boxes are inside of the picture."""
    g = GraphBuilder("f")
    x = g.input("x", tensor(128, 1024, 4096))
    skip = g.call("torch.sin", x, value=tensor(128, 1024, 4096))
    y = x
    for _ in range(4):
        y = g.call("torch.tanh", y, value=tensor(128, 1024, 4096))
    g.output(g.call("operator.add", y, skip, value=tensor(128, 1024, 4096)))
    opened = open_page(of_graphs(g.graph()), "#v=graph")
    beyond = opened.js(
        """(() => {
          const holder = document.body.appendChild(document.createElement("div"));
          holder.innerHTML = window.peek.svg();
          const svg = holder.firstChild, { x, width } = svg.viewBox.baseVal;
          const found = [...svg.querySelectorAll("text")].map((text) => text.getBBox())
            .filter((box) => box.x < x || box.x + box.width > x + width).length;
          holder.remove();
          return found;
        })()"""
    )
    assert beyond == 0


def test_source_and_nodes_point_at_each_other(open_page):
    """A node opens its line; a line's chip opens its node or a search for all it made."""
    record = capture(800)
    node = next(n.index for n in record.graphs[0].nodes if n.target == "torch.outer")
    opened = open_page(record, f"#v=source&s={node}")
    assert opened.tab.inner_text(".line.on .no") == "90"
    opened.tab.click('.line[data-line="93"] .chip')
    assert opened.js("app.graph.name(app.state.selected)") == "sin"
    opened.tab.click('.line[data-line="254"] .chip')
    assert opened.js("[app.state.view, app.hitList.length]") == ["graph", 12]


def with_stages():
    """A capture whose forward graph came node by node from its Dynamo graph."""
    record = capture(200)
    graph = record.graphs[0]
    nodes = tuple(replace(n, origins=((graph.key, n.index),)) for n in graph.nodes)
    return replace(record, graphs=(graph, replace(graph, stage="forward", nodes=nodes), *record.graphs[1:]))


def test_stages_stand_side_by_side_with_provenance(open_page):
    """Hovering a node lights what it came from and what it became in the other graph; the panel lists both."""
    opened = open_page(with_stages(), "#v=stages")
    opened.tab.hover('.column:first-child .row[data-node="4"]')
    lit = opened.tab.locator(".column .row.lit")
    assert [row.get_attribute("data-node") for row in lit.all()] == ["4", "4"]
    opened.tab.click('.column:first-child .row[data-node="4"]')
    assert "Became" in opened.tab.inner_text(".panel")
    assert "forward" in opened.tab.inner_text(".panel")


def test_the_timeline_tells_why(open_page):
    """Frames with their outcome, breaks with hints, recompiles with what was expected and what came."""
    text = re.sub(r"\s+", " ", open_page(hash_="#v=timeline").tab.inner_text("main"))
    for part in (
        "given up at the recompile limit",
        "generate ▸ resume#1",
        "x.shape[0] expected 4, got 6",
        "Move print out of the compiled region.",
        "variant 2",
        "break asked for",
    ):
        assert part in text, part


def test_symbols_tell_their_chain(open_page):
    """A symbol's range, sources, and the facts that made it static, with the user's line."""
    text = open_page(hash_="#v=symbols").tab.inner_text("main")
    for part in (
        "2 … 4096",
        "static: 1",
        "specialised to 1 by the guard",
        "if seq_len > self.max_seq_len_cached",
        "is 1: it was s1, and became static",
        "drop the comparison",
    ):
        assert part in text, part


def test_a_diff_is_listed_and_marked(open_page):
    """Edits are listed with their verdict; a click opens the node, which the graph marks, and so its containers."""
    edits = (
        PageEdit("added", "op added ×24: operator.mul", graph="0/0", node=30, count=24, place="model.py:18"),
        PageEdit(
            "changed", "dim became static", graph="0/0", node=60, before_graph="0/0", before_node=60,
            before="f32[s0]", after="f32[4]",
        ),
        PageEdit("removed", "op removed: F.dropout", before_graph="0/0", before_node=44),
        PageEdit("info", "20 nodes renamed", "info", graph="9/9", node=3),
    )  # fmt: skip
    diff = PageDiff("3 failing changes", "bad", edits, capture(200))
    opened = open_page(capture(200), diff=diff)
    assert opened.js("app.state.view") == "diff"
    assert "3 failing changes" in opened.tab.inner_text(".verdict")
    opened.tab.click("text=op added ×24: operator.mul")
    assert opened.js("[app.state.view, app.state.selected]") == ["graph", 30]
    assert opened.js("app.graphView.current.mark(30)") == "added"
    assert opened.js("app.graphView.current.mark(app.graphView.current.tree.path(30)[0])") == "added"
    opened.js("app.go('diff')")
    opened.tab.click("text=op removed: F.dropout")
    assert opened.js("app.graph.side") == "before"
    assert opened.js("app.graphView.current.mark(44)") in ("removed", "changed")


DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def test_hostile_text_is_only_text(open_page):
    """Tags, quotes, separators, control characters and 100 kB of text show as text in every view and export."""
    record = hostile_capture()
    opened = open_page(record, sources=hostile_sources(record), diff=hostile_diff())
    for view in (*VIEWS, "diff"):
        opened.js(f"(app.go({view!r}), app.select(8))")
        opened.tab.wait_for_timeout(30)
        assert opened.js("probe.overlaps()") == [], view
        assert not DIRECTIONS.search(opened.tab.inner_text("body")), (
            f"{view} lets a mark turn what follows it"
        )
    assert r"\u202egnirts lanoitceridib\u202c" in opened.js("app.capture.strings.join()")
    for text in ("svg", "dot"):
        assert opened.tab.evaluate(f"window.peek.{text}().length") > 100
    from xml.etree import ElementTree

    ElementTree.fromstring(opened.tab.evaluate("(window.peek.app.go('graph'), window.peek.svg())"))
    assert opened.tab.evaluate("window.pwned") is None
    assert opened.tab.locator("img, iframe, script[src], a[href^=javascript]").count() == 0


def test_hostile_text_without_javascript(chromium, tmp_path):
    """The plain HTML shows hostile texts as text too, and has no image or script of theirs."""
    path = tmp_path / "hostile.html"
    path.write_text(page(hostile_capture(), diff=hostile_diff()), encoding="utf-8")
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(path.as_uri())
    assert tab.locator("img, iframe").count() == 0
    assert tab.locator("script").count() == 3
    assert TEXTS[1] in tab.inner_text("body")
    assert not DIRECTIONS.search(tab.inner_text("body"))
    context.close()


def test_cells_without_javascript_are_cut_only_where_they_are_long(chromium, tmp_path):
    """One long name does not make every other cell of its column end in an ellipsis."""
    record = capture(100)
    graph = record.graphs[0]
    nodes = (replace(graph.nodes[0], name="n" * 300), *graph.nodes[1:])
    path = tmp_path / "plain.html"
    path.write_text(page(replace(record, graphs=(replace(graph, nodes=nodes),))), encoding="utf-8")
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(path.as_uri())
    cut = tab.evaluate(
        "[...document.querySelectorAll('td, th')].filter((c) => c.scrollWidth > c.clientWidth + 1).map((c) => c.textContent)"
    )
    context.close()
    assert cut
    assert min(len(text) for text in cut) > 60


def test_the_panel_keeps_a_comma_beside_its_name(open_page):
    """A name that fills the panel's width leaves the comma after it on its own last line."""
    record = capture(20)
    graph = record.graphs[0]
    at = next(n.index for n in graph.nodes if n.op == "call_function" and len(node_refs(n)) > 1)
    nodes = tuple(
        replace(n, name=f"{n.name}_{'long_' * 20}") if n.op == "placeholder" else n for n in graph.nodes
    )
    opened = open_page(replace(record, graphs=(replace(graph, nodes=nodes),)), f"#v=graph&s={at}")
    room = opened.tab.evaluate(
        """[...document.querySelectorAll('.args .link')].filter((a) => a.getBoundingClientRect().height > 30).map(
             (a) => a.parentElement.getBoundingClientRect().right - a.getBoundingClientRect().right)"""
    )
    assert room
    assert min(room) > 6


def test_what_a_broken_call_gave_has_words(open_page):
    """Dynamo's own name for the result of a broken call stands nowhere on the page."""
    record = capture(20)
    recompiles = tuple(
        replace(r, failed=(FailedGuard("___stack0 == 1.5", "___stack0", "1.5", "2.5"),))
        for r in record.recompiles
    )
    opened = open_page(replace(record, recompiles=recompiles), "#v=breaks")
    text = opened.tab.inner_text("main")
    assert "the broken call's result" in text
    assert "___stack" not in text


def test_a_title_names_the_program_without_its_folder():
    """The header has room for a name, not for where a command is installed; its arguments stay."""
    record = capture(20)
    for argv, title in (
        (("/opt/venv/bin/peek", "dryrun", "llama:make"), "peek dryrun llama:make"),
        (("train.py", "--lr", "data/x"), "train.py --lr data/x"),
        (("C:\\code\\train.py",), "train.py"),
    ):
        environment = replace(record.environment, argv=argv)
        assert default_title(replace(record, environment=environment)) == title


def test_inputs_without_a_type_are_only_named(open_page):
    """The overview puts no colon behind an input of which nothing is known, and no comma where an output has no type."""
    record = capture(20)
    graph = record.graphs[0]
    bare = tuple(replace(node, value=None) for node in graph.nodes)
    opened = open_page(replace(record, graphs=(replace(graph, nodes=bare),)))
    cells = opened.tab.locator(".graphs td.mono").all_inner_texts()
    assert any(text.strip() for text in cells)
    assert not any(re.search(r":\s*(,|$)|^,|, ,|,$", text) for text in cells)


def test_without_javascript_there_is_an_overview_and_tables(chromium, tmp_path):
    """The verdict, what to mend, and folded tables of at most 500 rows are plain HTML."""
    path = tmp_path / "plain.html"
    path.write_text(page(capture(10_000)), encoding="utf-8")
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(path.as_uri())
    text = tab.inner_text("body")
    assert "2 graph breaks" in text
    assert "Failed to trace builtin operator" in text
    assert "F.embedding" in text
    assert 10 < tab.locator("tr").count() <= 500 + 10
    context.close()


def test_references_to_nowhere_are_no_edges(open_page):
    """A record whose nodes refer to nodes that are not there opens like any other."""
    record = capture(100)
    graph = record.graphs[0]
    wrong = tuple(
        replace(n, args=(Leaf(node=9_999), *n.args), origins=(("0/0", 9_999), ("gone", 1)))
        if n.index == 20
        else n
        for n in graph.nodes
    )
    opened = open_page(replace(record, graphs=(replace(graph, nodes=wrong),)), "#v=graph&s=20")
    for view in VIEWS:
        opened.js(f"app.go({view!r})")
    opened.js("app.go('graph', 20)")
    assert opened.js("app.graphView.canvas.paints") > 0


def test_a_damaged_capture_leaves_the_plain_page(open_page, tmp_path):
    """Data that cannot be read give one sentence, above the overview and tables that need no script."""
    opened = open_page()
    broken = re.sub(r'(id="capture">)[A-Za-z0-9+/]{40}', r"\1" + "A" * 40, page(capture(20)))
    path = tmp_path / "broken.html"
    path.write_text(broken, encoding="utf-8")
    opened.tab.goto(path.as_uri())
    opened.tab.wait_for_selector("#broken:not([hidden])")
    assert "could not read its capture" in opened.tab.inner_text("#broken")
    assert "What to mend first" in opened.tab.inner_text("body")
    opened.errors.clear()
    opened.requests.clear()


def test_a_browser_that_is_too_old_shows_the_plain_page(open_page):
    """Without the colours that the page is drawn with it says which browser it needs, above what needs no script."""
    opened = open_page()
    opened.tab.add_init_script("CSS.supports = () => false")
    opened.tab.goto("about:blank")
    opened.tab.goto(opened.url)
    opened.tab.wait_for_selector("#broken:not([hidden])")
    assert "it needs a browser of 2024 or later" in opened.tab.inner_text("#broken")
    assert "What to mend first" in opened.tab.inner_text("body")
    opened.errors.clear()


def test_the_policy_allows_no_request(open_page):
    """A script that tries to fetch, open a socket, load an image or evaluate text is refused by the page's policy."""
    opened = open_page()
    refused = opened.tab.evaluate("probe.refused()")
    assert refused == ["fetch", "eval", "image"]
    assert all("Content Security Policy" in e for e in opened.errors), "only refusals are logged"
    assert opened.refused == opened.outside(), "what was tried never left the browser"
    opened.errors.clear()
    opened.requests.clear()


def test_the_page_works_in_a_sandboxed_frame(open_page):
    """As in a notebook: srcdoc, sandbox without same-origin; the graph shows and nothing throws."""
    from peek_backend.render.html.page import frame

    html = f'<!DOCTYPE html><html data-ready="1"><body>{frame(page(capture(100)))}</body></html>'
    opened = open_page(html=html)
    inner = opened.tab.frames[1]
    inner.wait_for_selector("html[data-ready]", timeout=10_000)
    inner.click('.tabs button[data-view="graph"]')
    assert inner.evaluate("window.peek.app.state.view") == "graph"


def test_the_overview_prints(open_page, tmp_path):
    """Printing gives the overview without the page's controls."""
    opened = open_page()
    opened.tab.emulate_media(media="print")
    assert opened.tab.locator(".tabs").is_hidden()
    assert opened.tab.locator("main .verdict").is_visible()
    assert opened.tab.evaluate("getComputedStyle(document.querySelector('.page')).overflow") == "visible"


def test_the_graph_and_the_table_print(open_page, tmp_path):
    """Paper gets the picture that is on the screen, light and undistorted, and the table's rows beyond those in sight."""
    opened = open_page(capture(100), "#v=graph", theme="dark")
    opened.tab.emulate_media(media="print")
    opened.tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    shape = opened.js(
        """(({ width, height }, { width: w, height: h }) => ({ drawn: width / height, shown: w / h, h }))(
               app.graphView.canvasEl, app.graphView.canvasEl.getBoundingClientRect())"""
    )
    assert shape["h"] > 200
    assert shape["shown"] == pytest.approx(shape["drawn"], rel=0.02)
    assert min(opened.js("[...app.graphView.canvasEl.getContext('2d').getImageData(2, 2, 1, 1).data]")) > 230
    opened.js("app.go('table')")
    opened.tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    tops = opened.tab.evaluate(
        "[...document.querySelectorAll('.grid .rows .row')].map((r) => r.getBoundingClientRect().top)"
    )
    assert len(tops) == opened.js("app.graph.n")
    assert all(after - before > 20 for before, after in pairwise(tops))


def test_wide_tables_of_the_overview_print_whole(open_page):
    """No cell of the overview's tables is beyond the edge of A4 paper."""
    opened = open_page(capture(800), width=720)
    opened.tab.emulate_media(media="print")
    assert opened.tab.locator(".list").count() > 0
    assert (
        opened.tab.evaluate(
            "Math.max(...[...document.querySelectorAll('.list td')].map((c) => c.getBoundingClientRect().right))"
        )
        <= 721
    )


def test_empty_and_tiny_captures_open(open_page):
    """A capture without graphs, and a graph without nodes, show that there is nothing, in every view."""
    record = capture(20)
    for one in (replace(record, graphs=()), replace(record, graphs=(replace(record.graphs[0], nodes=()),))):
        opened = open_page(one)
        for view in VIEWS:
            opened.js(f"app.go({view!r})")
        assert opened.tab.locator("main").inner_text().strip()


def test_the_overlap_check_sees_an_overlap(open_page):
    """A tab pushed over its neighbour is reported: the checks above can fail."""
    opened = open_page()
    opened.js("app.tabs.children[1].style.setProperty('margin-left', '-30px')")
    assert opened.js("probe.overlaps()") != []


def test_the_benchmark_probes_measure(open_page):
    """Every measure that the benchmark asks for is a time."""
    opened = open_page(capture(200), "#v=graph")
    for name in ("pan", "search", "expand", "expandAll", "panZooms"):
        assert 0 < opened.js(f"probe.{name}()") < 10_000, name
    assert all("getImageData" in e for e in opened.errors), "only the probes' own reading back is remarked on"
    opened.errors.clear()


def test_an_op_of_a_later_torch_is_drawn_as_a_call():
    """A record in memory whose node has an op that no torch had yet still gives a page."""
    record = capture(20)
    first, *others = record.graphs
    nodes = (replace(first.nodes[0], op="call_later"), *first.nodes[1:])
    assert "</html>" in page(replace(record, graphs=(replace(first, nodes=nodes), *others)))
