"""Titles, symbols and what is said around the tables, of one graph and of a capture."""

from __future__ import annotations

import re

import pytest
import tabulate

from peek_backend.errors import PeekError
from peek_backend.model import BreakInfo, FrameRecord, Problem, RecompileInfo, StackFrame, SymInt
from peek_backend.render.escape import width
from peek_backend.render.table import Layout
from peek_backend.render.text import graph_text, render_text
from tests.builders import HOSTILE, GraphBuilder, capture, graph, node, symbol, tensor, transformer

BREAK = BreakInfo(
    "Call to `torch._dynamo.graph_break()`\n  Explanation: asked for",
    id="GB0025",
    hints=("Remove the call", "or not"),
    stack=(
        StackFrame("/src/main.py", 1, "main", "f(x)"),
        StackFrame("/src/model.py", 5, "f", "  graph_break()"),
    ),
    intent="user",
)


def broken_graph():
    """``x.sin()`` that ends in a graph break."""
    g = GraphBuilder("main.<locals>.f", file="/src/model.py", line=3)
    g.output(g.method("sin", g.input("x", tensor("s0", 4)), value=tensor("s0", 4)))
    symbols = (
        symbol("s0", "x.shape[0]", "y.shape[1]", hint=8),
        symbol("s1", "n", hint=4, lower=4, upper=4, replaced_by="4"),
        symbol("u0", lower=0, upper=9, unbacked=True),
        symbol("s2", "z.shape[0]", hint=16, replaced_by="2*s0"),
    )
    return g.graph(
        symbols=symbols,
        relations=("s2 = 2*s0",),
        ended_by=BREAK,
        notes=("captured under no_grad",),
        problems=(Problem("sin_1", "no stride", "its layout has none", "none needed"),),
    )


def test_one_graph_tells_all_that_is_known():
    """Title, table, symbols with range, hint and all sources, relations, the break, notes and problems."""
    head, *under = graph_text(broken_graph()).split("\n\n")
    assert (
        head.splitlines()[0]
        == "0/0 f · model.py:3 · on cpu · ends in a graph break · 3 nodes, 1 op, 1 input, 1 dynamic dim"
    )
    assert under[0].splitlines() == [
        "s0 = 8   in [2, ∞]  from x.shape[0], y.shape[1]",
        "s1 = 4   always 4   from n",
        "u0       in [0, 9]  (unbacked)",
        "s2 = 16  in [2, ∞]  (became 2*s0)  from z.shape[0]",
        "s2 = 2*s0",
        "graph break: Call to `torch._dynamo.graph_break()` (GB0025)",
        "  Explanation: asked for",
        "  at model.py:5  graph_break()",
        "  hint: Remove the call",
        "note: captured under no_grad",
        "problem at sin_1: no stride; its layout has none; none needed",
    ]


def test_a_title_names_every_device():
    """The devices of a graph are in its title, the most used one first."""
    nodes = [node(i, f"n{i}", value=tensor(2, device="cuda:0" if i else "cpu")) for i in range(3)]
    assert "on cuda:0, cpu" in graph_text(graph(*nodes)).splitlines()[0]


def test_bodies_follow_their_parent_once():
    """The bodies of higher-order ops are tables after the parent's, named under its key."""
    body = graph(node(0, "y", "placeholder", "y"), name="cond_true_0")
    parent = graph(
        node(0, "t", "get_attr", "cond_true_0", body=0),
        node(1, "u", "get_attr", "cond_true_0", body=0),
        children=(body,),
    )
    text = graph_text(parent)
    assert re.findall(r"^\S+ ▸ \S+", text, re.M) == ["0/0 ▸ cond_true_0"]
    assert "body cond_true_0" in text


def test_a_graph_that_never_ran_says_so():
    """A capture whose compile failed later is marked, with the reason."""
    text = graph_text(graph(node(0, "x"), never_ran="ConstraintViolationError"))
    assert "never ran" in text.splitlines()[0]
    assert text.splitlines()[-1] == "never ran: ConstraintViolationError"


@pytest.mark.parametrize("columns", [40, 60, 80, 100])
def test_titles_and_symbols_fit_a_terminal(columns):
    """In a terminal a long title goes on in the next line, a long source stands on its own."""
    text = graph_text(transformer(30), Layout(width=columns))
    assert max(width(line) for line in text.splitlines()) <= max(columns, 62)
    title = graph_text(broken_graph(), Layout(width=60)).splitlines()
    assert title[0] == "0/0 f · model.py:3 · on cpu · ends in a graph break"
    assert title[1] == "3 nodes, 1 op, 1 input, 1 dynamic dim"


def test_many_symbols_are_cut_in_a_terminal_only():
    """A terminal lists the first symbols and how many more there are; a file lists all."""
    used = tensor(*(f"s{i}" for i in range(100)))
    many = graph(node(0, "x", value=used), symbols=tuple(symbol(f"s{i}") for i in range(100)))
    assert "… 76 more symbols" in graph_text(many, Layout(width=80))
    assert graph_text(many).count("in [2, ∞]") == 100


def test_several_graphs_end_with_totals():
    """A capture of several graphs ends with its counts; resumed recompiles and skipped frames are told apart."""
    record = capture(
        transformer(1),
        graph(node(0, "x"), compile_id="1/0"),
        breaks=(BREAK, BREAK, BreakInfo("Other", split=False, frame=1)),
        recompiles=(
            RecompileInfo("1/1", variant=2, resume=True),
            RecompileInfo("1/8", frame=3, refused=True),
        ),
    )
    assert render_text(record).splitlines()[-1] == (
        "2 graphs, 17 ops, 3 graph breaks (2 places), 1 recompile (1 of resumed frames), 1 frame left in eager, "
        "1 function over the recompile limit"
    )


def test_one_clean_graph_needs_no_totals():
    """A single graph without breaks is its table alone."""
    record = capture(transformer(1))
    assert render_text(record) == graph_text(record.graphs[0]) + "\n"


def test_one_graph_by_key():
    """A graph is picked by its key, with or without the attempt; an unknown key names the nearest."""
    record = capture(graph(node(0, "first")), graph(node(0, "second"), compile_id="1/0", attempt=1))
    for key in ("1/0", "1/0 attempt 1"):
        text = render_text(record, graph=key)
        assert "second" in text and "first" not in text
    with pytest.raises(PeekError, match="did you mean '1/0'"):
        render_text(record, graph="1/1")


def test_nothing_captured_comes_with_the_reasons():
    """Without a graph every frame says what became of it; without a frame, why there can be none."""
    frames = (FrameRecord("f", "/src/model.py", 3, "skipped", "Failed to trace builtin print"),)
    assert render_text(capture(frames=frames)).splitlines() == [
        "no graph was captured",
        "  f  model.py:3  skipped: Failed to trace builtin print",
    ]
    assert "Dynamo saw no frame" in render_text(capture())


def test_capture_notes_and_problems_are_shown():
    """What peek could not do is said at the end."""
    record = capture(graph(node(0, "x")), notes=("two ranks",), problems=(Problem("option", "ignored"),))
    assert render_text(record).splitlines()[-2:] == ["note: two ranks", "problem at option: ignored"]


@pytest.mark.parametrize("table_format", [*tabulate.tabulate_formats, "tree"])
def test_hostile_text_tears_no_line(table_format):
    """Names, notes, sources and problems of any kind keep to their line in every format."""
    plain = len(_surrounded("plain", table_format).splitlines())
    for name, text in HOSTILE.items():
        if name != "newline":
            assert len(_surrounded(text, table_format).splitlines()) == plain


def _surrounded(text, table_format):
    record = graph(
        node(0, "x", "placeholder", "x", value=SymInt("s0", 3)),
        name=text,
        file=text,
        symbols=(symbol(text[:50], text),),
        relations=(text,),
        notes=(text,),
        problems=(Problem(text, text),),
    )
    return graph_text(record, Layout(format=table_format))


def test_html_around_the_table_is_escaped():
    """Titles and notes of the HTML formats hold no tag of a name."""
    for table_format in ("html", "unsafehtml"):
        text = _surrounded("<script>", table_format)
        assert "<script>" not in text
        assert text.startswith("<h3>") and "<p>note: &lt;script&gt;</p>" in text


def test_colour_marks_titles_breaks_and_problems():
    """Colour adds codes and nothing else."""
    colored = graph_text(broken_graph(), Layout(color=True))
    assert "\x1b[33mgraph break" in colored and "\x1b[31mproblem" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == graph_text(broken_graph())


def test_only_a_graph_whose_end_is_known_is_said_to_return():
    """While a program compiles, nothing is known of a graph's end; afterwards its frame is, and it returns or breaks."""
    assert "returns" not in graph_text(graph(node(0, "x")))
    assert "returns" in graph_text(graph(node(0, "x"), frame=0)).splitlines()[0]
    assert "returns" not in graph_text(graph(node(0, "x"), frame=0, ended_by=BREAK))
