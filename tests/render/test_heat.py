"""Heat on diagrams: boxes coloured by what they cost, the figure and its share in the label, what is unknown stated."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from msgspec.structs import replace

from peek_backend.analysis.heat import HEATS, amounts
from peek_backend.errors import PeekError
from peek_backend.model import NodeCost
from peek_backend.passes.selection import Choice
from peek_backend.render.dot import dot, drawing
from peek_backend.render.heat import share_text
from peek_backend.render.image import find_engine, render_image
from peek_backend.render.theme import DARK, LIGHT, VIRIDIS, contrast, dark_style
from tests.builders import HOSTILE, GraphBuilder, capture, node, tensor, transformer

needs_dot = pytest.mark.skipif(find_engine("svg") is None, reason="needs dot or graphviz-pure")
SVG = "{http://www.w3.org/2000/svg}"
WIDTH, TOKENS = 64, 4 * 16
LINEAR = 2 * TOKENS * WIDTH * WIDTH
"""FLOPs of one projection of ``transformer``: a multiply-add is two."""
BOTH = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


def boxes_of(text):
    """By the first words of its label each box of a DOT text: its attributes, with the label as plain words."""
    found = {}
    for key, attributes in re.findall(r"^\s*([nmt]\d+) \[(.*)\]$", text, re.MULTILINE):
        fields = dict(re.findall(r'(\w+)=(<<table.*?</table>>|"(?:[^"\\]|\\.)*"|[^\s"<]+)', attributes))
        words = re.sub(r"<[^>]*>", " ", fields["label"].replace("</tr>", "|")).replace("&#160;", " ")
        fields = {name: value.strip('"') for name, value in fields.items()}
        found[key] = fields | {"label": " ".join(words.split()).strip("<> |")}
    return found


def box(text, name):
    """The one box whose label starts with ``name``."""
    (found,) = [b for b in boxes_of(text).values() if b["label"].startswith(name)]
    return found


def hot(record, heat, **how):
    """The picture of the first graph, coloured."""
    return dot(record.graphs[0], heat=amounts(record, heat)[0], **how)


def shares(text):
    """The shares of all boxes, in percent."""
    return [float(s) for b in boxes_of(text).values() for s in re.findall(r"· ([\d.]+) %", b["label"])]


def priced(record, **costs):
    """The record with the price of each target that starts with a name of ``costs``."""

    def price(n):
        return next((c for name, c in costs.items() if n.target.rpartition(".")[2] == name), NodeCost())

    graph = record.graphs[0]
    return replace(
        record, graphs=(replace(graph, nodes=tuple(replace(n, cost=price(n)) for n in graph.nodes)),)
    )


@pytest.mark.parametrize("how", [{}, {"depth": 0}, {"depth": 1}, {"expand": ("layers.3",)}, {"full": True}])
@pytest.mark.parametrize("heat", ["flops", "bytes"])
def test_boxes_add_up_to_the_whole(heat, how):
    """However much is folded, the boxes share out all that the graph costs."""
    assert sum(shares(hot(capture(transformer(6)), heat, **how))) == pytest.approx(100, abs=2.5)


def test_a_box_under_a_repeat_counts_every_instance():
    """The projection that is drawn once for six layers has the FLOPs of all six, unfolded that of one."""
    record = capture(transformer(6))
    assert amounts(record, "flops")[0].whole > 0
    assert f"{6 * LINEAR / 1e6:.3g} MFLOP" in box(hot(record, "flops"), "q linear")["label"]
    assert hot(record, "flops", full=True).count(f"{LINEAR / 1e3:.0f} kFLOP") >= 12
    assert "a box under ×N adds up all N instances" in hot(record, "flops")
    assert "a box under ×N" not in hot(record, "flops", full=True)


def test_a_closed_module_has_what_is_inside_it():
    """A folded layer's figure is the sum of its nodes, and its colour that of the sum."""
    record = capture(transformer(6))
    found = amounts(record, "flops")[0]
    layer = inside(record.graphs[0], "layers.")
    text = hot(record, "flops", depth=0)
    assert (
        f"{found.of(-1, layer) / 1e6:.3g} MFLOP · {share_text(found.of(-1, layer), found.whole)}"
        in " ".join(b["label"] for b in boxes_of(hot(record, "flops", depth=1)).values())
    )
    assert all(b["class"].startswith(("heat-", "tag")) for b in boxes_of(text).values())


def test_more_is_further_along_the_scale():
    """Colours follow the order of the amounts, the dearest box has the last one, what costs nothing none."""
    record = capture(transformer(3))
    found = priced(record, linear=NodeCost(1000), add=NodeCost(10), mul=NodeCost(1))
    text = hot(found, "flops", full=True)
    place = {
        name: LIGHT.heat.scale.index(box_["fillcolor"]) for name, box_ in named(text, ("q", "add", "mul"))
    }
    assert place["q"] == len(VIRIDIS) - 1 > place["add"] > place["mul"] == 0
    assert {b["fillcolor"] for b in boxes_of(text).values() if b["label"].startswith("view")} == {
        LIGHT.module.fill
    }


def named(text, names):
    """(name, box) of the first box whose label starts with each of ``names`` as a word."""
    for name in names:
        yield name, next(b for b in boxes_of(text).values() if b["label"].split()[0] == name)


def test_what_is_alike_looks_alike():
    """Two boxes of about half of all each have one colour."""
    found = priced(capture(transformer(3)), linear=NodeCost(1000), add=NodeCost(900))
    text = hot(found, "flops", full=True)
    assert len({b["fillcolor"] for _, b in named(text, ("q", "add"))}) == 1


def test_one_tiny_op_does_not_make_all_others_alike():
    """The palest colour stands for a thousandth of the most and all below, and the legend says so."""
    found = priced(capture(transformer(3)), linear=NodeCost(10**9), add=NodeCost(10**8), mul=NodeCost(1))
    text = hot(found, "flops", full=True)
    place = {name: LIGHT.heat.scale.index(b["fillcolor"]) for name, b in named(text, ("q", "add", "mul"))}
    assert place == {"q": 7, "add": 5, "mul": 0}
    assert "≤ 1 MFLOP" in text


def test_recorded_prices_come_first():
    """Prices that a capture has are shown as they are; of others the head says that they follow from shapes."""
    record = capture(transformer(2))
    assert "worked out from shapes" in hot(record, "flops")
    text = hot(priced(record, linear=NodeCost("s0*1000")), "flops", full=True)
    assert "worked out from shapes" not in text
    assert "4 kFLOP · " in box(text, "head linear")["label"]


def test_an_unknown_price_is_stated():
    """A box without a price is dashed and says so, one with a part of it tells how many are missing; the head says why."""
    record = capture(transformer(4))
    found = priced(
        record, linear=NodeCost(8), scaled_dot_product_attention=NodeCost(unknown="no formula for <b>it</b>")
    )
    lone = box(hot(found, "flops", full=False), "scaled_dot_product_attention")
    assert "FLOPs unknown" in lone["label"] and "dashed" in lone["style"]
    assert lone["class"] == "heat-unknown" and lone["fillcolor"] == LIGHT.module.fill
    text = hot(found, "flops", depth=1)
    assert any("+ 4 unknown · " in b["label"] for b in boxes_of(text).values())
    assert "not counted: 4 nodes: no formula for &lt;b&gt;it&lt;/b&gt;" in text


def test_sizes_read_from_data_are_unknown():
    """FLOPs that depend on an unbacked size are no number, and the reason names the size."""
    text = hot(priced(capture(transformer(2)), linear=NodeCost("64*u0")), "flops", full=True)
    assert "FLOPs unknown" in box(text, "head linear")["label"]
    assert "it depends on a size that is read from data: 64*u0" in text


def test_memory_is_the_most_at_once():
    """Memory does not add up: a container has that of its hungriest node, and the dearest box is the whole graph's peak."""
    record = capture(stored(transformer(4)))
    found = amounts(record, "memory")[0]
    text = hot(record, "memory")
    assert max(shares(text)) == 100
    layers = inside(record.graphs[0], "layers.")
    assert found.of(-1, layers) == max(filter(None, (found.of(-1, [i]) for i in layers)))
    assert "is the most of all N instances" in text


def inside(graph, path):
    """The nodes of a module."""
    return [n.index for n in graph.nodes if n.source is not None and n.source.module.startswith(path)]


def stored(graph):
    """The graph with a storage of its own for each tensor."""
    nodes = [
        replace(n, value=replace(n.value, storage=n.index)) if n.value is not None else n for n in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))


def test_memory_of_a_graph_without_storages_is_not_made_up():
    """Where storages were not recorded, nothing is coloured by memory, and the head says so."""
    text = hot(capture(replace(transformer(2), stage="joint")), "memory")
    assert "memory: none is known of this graph" in text
    assert {b["class"] for b in boxes_of(text).values()} <= {"heat-none", "kind-tag"}


def test_a_body_is_told_by_the_run():
    """What a body costs is in the op that runs it: its cluster says that its figure is that of one run."""
    record = with_body()
    text = hot(record, "flops", full=True)
    assert re.search(r"100 FLOP · 100 % a run", text)
    assert amounts(record, "flops")[0].whole == 100


def with_body():
    """A graph whose one op runs a body with one linear; both have the price."""
    inner = GraphBuilder("wrap_body_0")
    inner.output(inner.call("torch.nn.functional.linear", inner.input("x", tensor(4)), value=tensor(4)))
    body = inner.graph()
    body = replace(
        body,
        nodes=tuple(replace(n, cost=NodeCost(100) if "linear" in n.target else None) for n in body.nodes),
    )
    g = GraphBuilder("outer")
    x = g.input("x", tensor(4))
    g.nodes.append(node(1, "wrap_body_0", "get_attr", "wrap_body_0", body=0))
    g.nodes.append(node(2, "wrap", "call_function", "torch.ops.higher_order.wrap", x, value=tensor(4),
                        cost=NodeCost(100), body=0))  # fmt: skip
    return capture(g.graph(children=(body,)))


@BOTH
def test_text_on_heat_is_readable(theme):
    """On each level text has a contrast of at least 4.5, also what is muted or coloured elsewhere."""
    for level, color in enumerate(theme.heat.scale):
        ground = theme.on(level)
        for ink in (ground.text, ground.muted, ground.accent, ground.tag.border, ground.inks["norm"].border):
            assert contrast(ink, color) >= 4.5, (level, ink)


@BOTH
def test_the_scale_goes_one_way(theme):
    """Lightness changes in one direction from little to much, away from the page: the order survives greyscale."""
    far = [contrast(color, theme.page) for color in theme.heat.scale]
    assert far == sorted(far)


def test_dark_mode_turns_the_scale_around():
    """In dark mode of an SVG each level and the text on it become those of the dark theme."""
    for level, color in enumerate(LIGHT.heat.scale):
        assert f'[fill="{color}"]{{fill:{DARK.heat.scale[level]}}}' in dark_style()
        assert f'[fill="{LIGHT.heat.text_at(level)}"]{{fill:{DARK.heat.text_at(level)}}}' in dark_style()


@needs_dot
@pytest.mark.parametrize("heat", HEATS)
def test_the_drawn_text_has_the_colours_of_its_box(heat):
    """In the SVG every text inside a coloured box is drawn in that level's colour for text."""
    svg = render_image(hot(capture(stored(transformer(6))), heat), "svg").decode()
    groups = [g for g in ET.fromstring(svg).iter(f"{SVG}g") if "heat-" in g.get("class", "")]
    levels = [(int(level), g) for g in groups if (level := g.get("class").rpartition("-")[2]).isdigit()]
    assert levels
    for level, group in levels:
        assert {text.get("fill") for text in group.iter(f"{SVG}text")} == {LIGHT.heat.text_at(level)}


@needs_dot
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_reason_is_text(name):
    """Why a price is unknown may hold anything, and dot takes it."""
    record = priced(capture(transformer(2)), linear=NodeCost(unknown=HOSTILE[name]))
    assert render_image(hot(record, "flops"), "svg").startswith(b"<?xml")


def test_an_unknown_heat_is_refused():
    """A heat that there is not ends in an error that names the nearest."""
    with pytest.raises(PeekError) as error:
        amounts(capture(transformer(1)), "flop")
    assert "'flop'" in str(error.value) and "did you mean 'flops'" in str(error.value)


def test_without_heat_nothing_changes():
    """A picture without heat is coloured by kind of op and has no figure."""
    graph = transformer(3)
    assert drawing(graph, Choice()).text == dot(graph)
    assert "FLOP" not in dot(graph) and not set(VIRIDIS) & set(re.findall(r"#\w{6}", dot(graph)))


def test_shares_are_short():
    """Two digits, and no zero for what is there."""
    assert [share_text(n, 10_000) for n in (10_000, 3_412, 999, 251, 5)] == [
        "100 %",
        "34 %",
        "10 %",
        "2.5 %",
        "under 0.1 %",
    ]
