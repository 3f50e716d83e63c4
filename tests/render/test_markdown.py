"""The Markdown report and its Mermaid diagrams."""

from __future__ import annotations

import re

import pytest

from peek_backend.model import BreakInfo, FrameRecord, Leaf, RecompileInfo, StackFrame
from peek_backend.render.markdown import markdown
from peek_backend.render.mermaid import MAX_CHARACTERS, MAX_EDGES, MAX_NODES, mermaid_text
from tests.builders import HOSTILE, GraphBuilder, capture, graph, node, symbol, tensor, transformer


def sections(text):
    return re.findall(r"^#+ .*$", text, re.M)


def test_a_report_has_a_section_for_each_graph_and_body():
    """Each graph has a heading, facts, a diagram and a table; bodies have theirs below."""
    body = graph(node(0, "y", "placeholder", "y"), name="cond_true_0")
    text = markdown(
        capture(graph(node(0, "x"), name="f", children=(body,)), graph(node(0, "z"), compile_id="1/0"))
    )
    assert sections(text) == [
        "# What torch.compile captured",
        "## 0/0 f",
        "### 0/0 ▸ cond_true_0",
        "## 1/0",
    ]
    assert text.count("```mermaid") == 2
    assert text.count("|   # | op ") == 3


def test_breaks_are_ranked_and_linked():
    """Breaks are grouped by place and reason, the most frequent first, with code, id and hint."""
    rare = BreakInfo("Rare", stack=(StackFrame("/src/a.py", 1, "f", "print(x)"),))
    often = BreakInfo(
        "Often",
        id="GB0059",
        link="https://example.org/gb0059",
        hints=("Move it out",),
        stack=(StackFrame("/src/b.py", 2, "f", "x | y"),),
    )
    text = markdown(capture(graph(node(0, "x")), breaks=(rare, often, often)))
    rows = [line for line in text.splitlines() if "Often" in line or "Rare" in line]
    assert [row.split("|")[1].strip() for row in rows] == ["2", "1"]
    assert (
        "[GB0059](https://example.org/gb0059)" in rows[0]
        and "`x \\| y`" in rows[0]
        and "Move it out" in rows[0]
    )


def test_recompiles_and_eager_frames_have_their_tables():
    """Recompiles and frames that run in eager are listed; frames that compiled are not."""
    text = markdown(
        capture(
            graph(node(0, "x")),
            recompiles=(RecompileInfo("0/1", variant=2, advice="mark it dynamic"),),
            frames=(FrameRecord("f"), FrameRecord("g", outcome="skipped", reason="print")),
        )
    )
    assert "| 0/1 " in text and "mark it dynamic" in text
    assert re.search(r"\| g +\| +\| skipped +\| print", text) and not re.search(r"^\| f ", text, re.M)


def test_long_tables_are_closed_and_huge_ones_folded():
    """A table of more than 30 rows is closed until opened; one of 10,000 nodes is folded and says how to see all."""
    assert "<details>" not in markdown(capture(transformer(1)))
    text = markdown(capture(transformer(620)))
    assert "<details><summary>9,926 nodes</summary>" in text
    assert "`peek show FILE --format github --all`" in text
    assert len(text) < 60_000


def test_an_empty_capture_is_explained():
    """Without a graph the report says why."""
    assert "- no graph was captured" in markdown(capture())


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_adds_no_markup(text):
    """Names, reasons, code and hints of any kind add no heading, no tag and no table cell."""
    event = BreakInfo(text, id=text, link=text, hints=(text,), stack=(StackFrame(text, 1, text, text),))
    g = graph(
        node(0, text, "call_function", text, text), name=text, notes=(text,), symbols=(symbol("s0", text),)
    )
    report = markdown(capture(g, breaks=(event,), frames=(FrameRecord(text, text, 1, "failed", text),)))
    assert len(sections(report)) == 4
    outside_code = re.sub(r"(`+)(?!mermaid).*?\1", "", re.sub(r"\\.", "", report))
    assert not re.search(r"<(?!details|/details|summary|/summary|br/?>)\w", outside_code.replace("<br/>", ""))
    for table in re.findall(r"(?:^\|.*\n)+", report, re.M):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1


# --- Mermaid ---


def test_the_diagram_of_two_ops():
    """Inputs and the output are round, ops square with their type; arrows follow the data."""
    g = GraphBuilder()
    x, w = g.input("x", tensor(8, 16)), g.input("w", tensor(16, 4))
    g.output(g.call("torch.tanh", g.call("_operator.matmul", x, w, value=tensor(8, 4)), value=tensor(8, 4)))
    lines = [line.strip() for line in mermaid_text(g.graph()).splitlines()]
    boxes = dict(re.match(r'(\w+)\(?\["(.*)"\]\)?$', line).groups() for line in lines if '["' in line)
    names = {key: label.split("<br/>") for key, label in boxes.items()}
    assert list(names.values()) == [
        ["x", "f32[8, 16]"], ["w", "f32[16, 4]"], ["matmul", "f32[8, 4]"], ["tanh", "f32[8, 4]"], ["output"],
    ]  # fmt: skip
    arrows = [tuple(names[key][0] for key in line.split(" --> ")) for line in lines if " --> " in line]
    assert arrows == [("x", "matmul"), ("w", "matmul"), ("matmul", "tanh"), ("tanh", "output")]
    assert sum(line.startswith("x") or '(["x' in line for line in lines) == 1


def test_modules_are_boxes_within_boxes():
    """Repeated layers are one subgraph with ×N."""
    assert re.search(r'subgraph \w+\["layers\.0–29 · Block ×30"\]', mermaid_text(transformer(30)))


def wide(count):
    """One op that reads everything that comes before it."""
    g = GraphBuilder()
    parts = [g.call(f"torch.op{i}", g.input(f"x{i}", tensor(8)), value=tensor(8)) for i in range(count)]
    g.output(g.call("torch.cat", tuple(parts), value=tensor(8 * count)))
    return g.graph()


def dense(count):
    """Every op reads all that come before it."""
    nodes = [node(0, "x", "placeholder", "x", value=tensor(2))]
    for i in range(1, count):
        nodes.append(
            node(
                i,
                f"n{i}",
                "call_function",
                f"torch.op{i}",
                *(Leaf(node=j) for j in range(i)),
                value=tensor(2),
            )
        )
    return graph(*nodes)


@pytest.mark.parametrize(
    "record", [transformer(620), wide(600), dense(60), graph()], ids=["deep", "wide", "dense", "empty"]
)
def test_diagrams_keep_to_the_limits(record):
    """A diagram has at most so many nodes, edges and characters, or there is none."""
    text = mermaid_text(record)
    if text is not None:
        assert len(text) <= MAX_CHARACTERS
        assert len(re.findall(r'\["', text)) <= MAX_NODES + text.count("subgraph")
        assert len(re.findall(r"-->|-\.->", text)) <= MAX_EDGES


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_labels_stay_in_their_quotes(text):
    """Each line of a diagram is one statement, whatever the names are."""
    g = GraphBuilder()
    g.modules = {text: text}
    x = g.input(text, tensor(2))
    for _ in range(3):
        x = g.call(text, x, value=tensor(text), module=text, name=text)
    g.output(x)
    for line in mermaid_text(g.graph()).splitlines()[1:]:
        assert re.fullmatch(
            r' +(\w+\(?\["[^"]*"\]\)?|subgraph \w+\["[^"]*"\]|end|\w+ (-->|-\.->) \w+|classDef .*|class .*)',
            line,
        )
