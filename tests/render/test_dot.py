"""DOT: every graph gives text that dot reads, shows what is there, and takes no name for syntax."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from peek_backend.errors import PeekError
from peek_backend.model import Leaf, Source, SymInt, TupleInfo
from peek_backend.passes.selection import Choice
from peek_backend.render.dot import dot, drawing
from peek_backend.render.escape import visible
from peek_backend.render.image import find_engine, render_image
from peek_backend.render.labels import shorten
from tests.builders import HOSTILE, GraphBuilder, graph, node, symbol, tensor, transformer
from tests.passes.test_hierarchy import graphs
from tests.passes.test_picture import cond

needs_dot = pytest.mark.skipif(find_engine("svg") is None, reason="needs dot or graphviz-pure")
X = tensor("s0", 16)


def svg_texts(text):
    """What a reader of the picture sees, line by line, and the tooltips."""
    tree = ET.fromstring(render_image(text, "svg"))
    shown = [e.text or "" for e in tree.iter("{http://www.w3.org/2000/svg}text")]
    hints = [v for e in tree.iter() for k, v in e.attrib.items() if k.endswith("}title")]
    return [t.replace("\xa0", " ") for t in shown], hints


def everywhere(text):
    """A graph with ``text`` in every place that a picture shows."""
    g = GraphBuilder(text, file=f"/x/{text[:50]}.py", line=3)
    g.modules = {"m": text, "m.0": text, "m.1": text}
    x = g.input(text, X)
    w = g.parameter(text, X)
    for i in (0, 1):
        where = Source(text, 1, text, text, module=f"m.{i}")
        x = g.add(
            text, "call_function", f"lib.{text}", (x, w, text), kwargs={text: text}, value=X, source=where
        )
        x = g.add(text, "call_method", text, (x,), value=tensor(text[:50], 2), source=where)
    g.add(text, "call_module", text, (x,), value=X)
    g.output(x)
    return g.graph(symbols=(symbol("s0", text, hint=3),))


@needs_dot
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("full", [False, True])
def test_hostile_text_is_shown_as_it_is(name, full):
    """dot takes a graph full of this text, and the text stands in the picture, cut at most in its middle."""
    text = HOSTILE[name]
    shown, _ = svg_texts(dot(everywhere(text), full=full))
    joined = re.sub(r"\s+", " ", " ".join(shown))
    assert re.sub(r"\s+", " ", visible(shorten(text, 46))) in joined or visible(text)[:14] in joined


@needs_dot
@given(st.text(max_size=12))
@example("]")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_passes_dot(text):
    """Whatever a name holds, dot reads the DOT and the SVG is well-formed."""
    svg_texts(dot(everywhere(text)))


@needs_dot
@given(graphs())
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_graph_passes_dot(g):
    """Whatever the wiring and the modules, folded or not, dot lays the picture out."""
    svg_texts(dot(g))
    svg_texts(dot(g, full=True))


@needs_dot
def test_the_arrow_of_einsum_is_literal():
    """``ij,jk->ik`` reads so in the box, and is no edge."""
    g = GraphBuilder()
    x = g.input("x", X)
    g.output(g.call("torch.functional.einsum", "a,a->a", x, x, value=X))
    text = dot(g.graph())
    assert "'a,a->a'" in svg_texts(text)[0]
    assert len(re.findall(r"^\s*\w+ -> \w+", text, re.MULTILINE)) == 2


def test_long_lists_are_shortened():
    """A cat of 600 inputs is one short box with one edge that counts 600 values."""
    g = GraphBuilder()
    x = g.input("x", X)
    ys = [g.call("torch.sin" if i % 2 else "torch.cos", x, value=X) for i in range(6)] * 100
    g.output(g.call("torch.cat", tuple(ys), value=X, dim=0))
    text = dot(g.graph())
    assert len(text) < 20_000
    assert text.count("×100") == 6
    assert "dim=0" in text


def test_edges_carry_types():
    """An edge says dtype and shape; an item of a tuple says which."""
    g = GraphBuilder()
    x = g.input("x", X)
    pair = g.call("torch.topk", x, 2, value=TupleInfo((X, tensor(2, dtype="int64"))))
    g.output(g.call("_operator.getitem", pair, 1, value=tensor(2, dtype="int64")))
    text = dot(g.graph())
    assert "f32[s0, 16]" in text
    assert "[1] i64[2]" in text


def test_sizes_are_written_where_they_are_used():
    """A size that is an input of the graph is no box; the op that takes it names it."""
    g = GraphBuilder()
    size = g.input("s7", SymInt("s7", 4), kind="size")
    x = g.input("x", X)
    g.output(g.method("reshape", x, size, -1, value=X))
    text = dot(g.graph())
    assert ">p_s7, -1<" in text
    assert len(re.findall(r"^\s*\w+ -> \w+", text, re.MULTILINE)) == 2


def test_repeats_and_parameters_are_shown():
    """32 layers are one cluster with ×32; parameters stand in their readers with their types."""
    text = dot(transformer(32))
    assert "×32" in text and "layers.0 … 31" in text
    assert "layers.1<" not in text
    assert re.search(r"weight f32\[64, 64\]", text)
    assert "p_layers_0" not in text


def test_what_differs_is_said():
    """A repeat with another constant says which, in which layer."""
    g = transformer(4)
    nodes = [
        replace(n, kwargs={"is_causal": False}) if n.kwargs and n.source.module == "layers.2.attn" else n
        for n in g.nodes
    ]
    text = dot(replace(g, nodes=tuple(nodes)))
    assert "is_causal: True in layers.0 and 2 more; False in layers.2" in text


def test_a_layer_that_is_built_otherwise_is_said():
    """A layer with one op more is drawn apart, and says so."""
    g = GraphBuilder()
    g.modules = {f"l.{i}": "Layer" for i in range(5)}
    x = g.input("x", X)
    for i in range(5):
        for target in ("torch.sin", "torch.cos", "torch.tan", *(["torch.relu"] if i == 3 else [])):
            x = g.call(target, x, module=f"l.{i}", value=X)
    g.output(x)
    assert "unlike l.0: +1 relu" in dot(g.graph())


def test_the_title_says_what_it_is():
    """Compile id, name, counts and symbols with their range stand at the top, and what was folded."""
    g = transformer(8)
    made = drawing(g)
    for words in (
        "0/0 Decoder.forward",
        f"{len(g.nodes)} nodes",
        "s0 = 4 in [2, ∞], from input_ids.shape[0]",
        *made.notes,
    ):
        assert words in made.text
    assert made.notes[0].startswith(f"folded {len(g.nodes)} nodes to ")


def test_the_legend_names_only_what_is_there():
    """A graph of one sin has elementwise in its legend and no attention; legend=False leaves it out."""
    g = GraphBuilder()
    g.output(g.call("torch.sin", g.input("x", X), value=X))
    assert ">elementwise<" in dot(g.graph()).replace(" ", "")
    assert "attention" not in dot(g.graph())
    assert ">elementwise<" not in dot(g.graph(), legend=False).replace(" ", "")


@needs_dot
def test_branches_are_clusters():
    """The branches of cond are dashed clusters that dot accepts, joined by two dashed edges."""
    text = dot(cond((0, 1)))
    assert text.count("lhead=cluster_") == 2
    assert {"torch.sin", "torch.cos"} <= set(svg_texts(text)[0])


@needs_dot
@pytest.mark.parametrize("nodes", [(), (node(0, "output", "output", "output", ()),)])
def test_an_empty_graph_is_drawn(nodes):
    """A graph without ops, or without any node, is a picture that says so."""
    shown, _ = svg_texts(dot(graph(*nodes)))
    assert "empty" in shown or "output" in shown


def test_changed_later_is_marked():
    """A value that a later op changes in place says so where it is made."""
    g = GraphBuilder()
    x = g.call("torch.clone", g.input("x", X), value=tensor(2, 3, became=tensor(3, 2)))
    g.output(g.method("transpose_", x, 0, 1, value=tensor(3, 2)))
    text = dot(g.graph())
    assert "changed in place later" in text
    assert "f32[2, 3] → f32[3, 2]" in text


def test_dot_is_deterministic():
    """The same graph gives the same text."""
    assert dot(transformer(5)) == dot(transformer(5))


def test_choices_reach_the_picture():
    """depth, expand and full unfold; a lone string is one pattern."""
    g = transformer(6)
    sizes = [dot(g, depth=1).count("\n"), dot(g).count("\n"), dot(g, full=True).count("\n")]
    assert sizes == sorted(sizes) and sizes[0] < sizes[2] / 4
    assert dot(g, expand="layers.2") == dot(g, expand=("layers.2",)) != dot(g)
    assert drawing(g, Choice(full=True)).notes == ()


def test_bad_choices_are_refused():
    """A module or theme that does not exist ends in a PeekError."""
    with pytest.raises(PeekError, match="names no module"):
        dot(transformer(1), expand="nothing")
    with pytest.raises(PeekError, match="unknown theme"):
        dot(transformer(1), theme="blue")


def test_references_to_nothing_do_no_harm():
    """A damaged record (a reference to a node or body that is not there) is drawn without it."""
    bad = (
        node(0, "x", "placeholder", "x", value=X),
        node(1, "y", "call_function", "torch.sin", Leaf(node=7), Leaf(node=1)),
        node(2, "b", "get_attr", "b", body=5),
        node(3, "z", "call_function", "cond", Leaf(node=2), Leaf(node=0)),
    )
    assert "cond" in dot(graph(*bad))


def test_a_large_graph_is_folded_quickly():
    """A model of 10,000 nodes becomes DOT of at most a page of boxes."""
    made = drawing(transformer(625))
    assert made.boxes <= 64
    assert len(made.text) < 60_000
