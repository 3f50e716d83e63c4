"""Later stages on the page: what is kept for the backward, how a graph came about, and links into bodies."""

from __future__ import annotations

import re

from msgspec.structs import replace

from peek_backend.model import (
    SCHEMA_VERSION,
    CacheOutcome,
    CaptureRecord,
    Environment,
    GraphRecord,
    Leaf,
    NodeRecord,
    Source,
    StageInfo,
    TensorMeta,
)
from peek_backend.model.graph import body_key
from peek_backend.render.html.payload import capture_payload


def tensor(*shape: int) -> TensorMeta:
    return TensorMeta(shape, "float32", None, "cpu", requires_grad=False)


def node(index: int, name: str, op: str, target: str, *args, shape=(8, 4), **more) -> NodeRecord:
    source = more.pop(
        "source", Source(file="/src/model.py", line=7, code="h = x * 2") if op == "call_function" else None
    )
    return NodeRecord(
        index, name, op, target, args, {}, None if op == "output" else tensor(*shape), source, **more
    )


def forward_and_backward() -> CaptureRecord:
    """y = sin(x * 2): the product is kept for the backward, which reads it in one op."""
    key = "0/0 forward"
    forward = GraphRecord(
        "0/0",
        "forward",
        (
            node(0, "primals_1", "placeholder", "primals_1"),
            node(1, "mul", "call_function", "aten.mul.Tensor", Leaf(node=0), 2),
            node(2, "sin", "call_function", "aten.sin.default", Leaf(node=1)),
            node(3, "output", "output", "output", (Leaf(node=2), Leaf(node=1))),
        ),
        (),
        name="f",
        lowering=StageInfo(
            "as AOTAutograd would", forward_outputs=1, caches=(CacheOutcome("FX graph", "miss"),)
        ),
    )
    backward = GraphRecord(
        "0/0",
        "backward",
        (
            node(0, "mul", "placeholder", "mul", origins=((key, 1),)),
            node(1, "tangents_1", "placeholder", "tangents_1", no_origin="a gradient comes from outside"),
            node(2, "cos", "call_function", "aten.cos.default", Leaf(node=0), origins=((key, 2),)),
            node(
                3,
                "mul_1",
                "call_function",
                "aten.mul.Tensor",
                Leaf(node=1),
                Leaf(node=2),
                origins=((key, 2),),
            ),
            node(4, "output", "output", "output", (Leaf(node=3),)),
        ),
        (),
        name="f",
        lowering=StageInfo("as AOTAutograd would", compiled=False, tangents=(0,), gradients=(0,)),
    )
    return CaptureRecord(SCHEMA_VERSION, Environment(), (forward, backward))


def test_the_overview_lists_what_is_kept_for_the_backward(open_page):
    """The kept value with its bytes, the user's line and the backward op that reads it; each a link."""
    opened = open_page(forward_and_backward())
    text = re.sub(r"\s+", " ", opened.tab.inner_text("main"))
    assert "Kept for the backward of 0/0 forward f" in text
    assert "128 B in 1 value, 128 B of it not inputs" in text
    assert "h = x * 2 model.py:7 cos" in text
    assert "compiles when it first runs" in text
    assert "FX graph cache: miss" in text
    opened.tab.click("text=/^cos$/")
    assert opened.js("[app.graph.stage, app.graph.name(app.state.selected)]") == ["backward", "cos"]


def test_the_overview_has_a_row_a_captured_graph_with_its_later_stages(open_page):
    """Later stages are links under the graph they came from; what is said of several is said once, with whose it is."""
    stages = forward_and_backward()
    captured = replace(stages.graphs[0], stage="dynamo", lowering=None)
    other = replace(captured, compile_id="1/0", name="g")
    opened = open_page(replace(stages, graphs=(captured, other, *stages.graphs)))
    rows = opened.tab.evaluate(
        "[...document.querySelectorAll('.graphs tbody tr')].map((row) => row.innerText.replace(/\\s+/g, ' ').trim())"
    )
    assert [row[:5] for row in rows] == ["0/0 f", "forwa", "1/0 g"]
    assert rows[1].startswith(
        "forward 2 ops backward 2 ops as AOTAutograd would forward: FX graph cache: miss backward: "
    )
    opened.tab.click(".later >> text=/^backward$/")
    assert opened.js("[app.state.view, app.graph.stage]") == ["graph", "backward"]


def test_a_stage_is_named_once_in_its_title(open_page):
    """The choice of graphs says the stage, then the compile and the name, without the stage again."""
    opened = open_page(forward_and_backward(), "#v=stages")
    titles = opened.tab.locator(".column option").all_inner_texts()
    assert "forward · 0/0 f" in titles
    assert not any(title.count("forward") > 1 for title in titles)


def test_a_node_without_origin_says_why(open_page):
    """The panel gives the reason where a later stage's node came from nowhere."""
    opened = open_page(forward_and_backward(), "#v=graph&g=1&s=1")
    assert "a gradient comes from outside" in opened.tab.inner_text(".panel")


def test_origins_lead_into_bodies():
    """A body of a higher-order op is found by its root's key and its own name."""
    record = forward_and_backward()
    forward, backward = record.graphs
    body = replace(forward, stage="forward", name="cond_true", children=())
    nodes = tuple(replace(n, origins=((body_key(forward.key, "cond_true"), 1),)) for n in backward.nodes[2:3])
    later = replace(backward, nodes=(*backward.nodes[:2], *nodes, *backward.nodes[3:]))
    payload = capture_payload(replace(record, graphs=(replace(forward, children=(body,)), later)))
    assert [2, 1, 1] in payload["graphs"][2]["nodes"]["origins"]
