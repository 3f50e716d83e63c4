"""The folded module tree for a terminal."""

from __future__ import annotations

import re

import pytest

from peek_backend.model import Source
from peek_backend.render.escape import width
from peek_backend.render.table import Layout
from peek_backend.render.tree import MAX_LINES, tree_text
from peek_backend.render.view import GraphView
from tests.builders import HOSTILE, GraphBuilder, graph, node, tensor, transformer


def tree(record, **layout):
    return tree_text(GraphView(record), Layout(format="tree", **layout))


def test_repeated_layers_are_one_branch():
    """Modules with class, ×N, ops and the type they hand on; ops between them share a line."""
    assert (
        tree(transformer(30), width=80)
        == """\
├─ l_input_ids_    input_ids                                   i64[s0, 16]
├─ embed           Embedding · embedding                       f32[s0, 16, 64]
├─ layers.0–29     Block ×30 · 13 ops                          f32[s0, 16, 64]
│  ├─ norm         RMSNorm · pow, mean, rsqrt, mul             f32[s0, 16, 64]
│  ├─ attn         Attention · linear, view, transpose, scal…  f32[s0, 16, 64]
│  │  ├─ q         Linear · linear                             f32[s0, 16, 64]
│  │  └─ 4 ops     view, transpose, scaled_dot_product_atten…  f32[s0, 16, 64]
│  ├─ add_102      embedding_92 + reshape_101                  f32[s0, 16, 64]
│  ├─ mlp          MLP · linear, silu                          f32[s0, 16, 64]
│  │  ├─ up        Linear · linear                             f32[s0, 16, 64]
│  │  └─ silu_104  F.silu(linear_103)                          f32[s0, 16, 64]
│  └─ add_105      add_102 + silu_104                          f32[s0, 16, 64]
├─ norm            RMSNorm · rsqrt                             f32[s0, 16, 64]
├─ head            Linear · linear                             f32[s0, 16, 1000]
└─ output          return linear_484"""
    )


def test_a_small_function_shows_every_op():
    """A graph without modules has a line for each op, as an expression."""
    g = GraphBuilder()
    x = g.input("x", tensor(8, 16))
    g.output(g.call("torch.tanh", g.call("_operator.matmul", x, x, value=tensor(8, 4), name="mm"), name="t"))
    assert [line.split() for line in tree(g.graph(), width=80).splitlines()] == [
        ["├─", "l_x_", "x", "f32[8,", "16]"],
        ["├─", "mm", "l_x_", "@", "l_x_", "f32[8,", "4]"],
        ["├─", "t", "torch.tanh(mm)"],
        ["└─", "output", "return", "t"],
    ]


def test_ops_beside_modules_share_a_line():
    """Where there are modules, neighbouring ops outside them are one line that counts and names them."""
    g = GraphBuilder()
    x = g.call("torch.sin", g.input("x", tensor(2)), module="a")
    for target in ("torch.cos", "torch.cos", "_operator.neg"):
        x = g.call(target, x, value=tensor(2))
    assert tree(g.graph(), width=80).splitlines()[-1].split() == [
        "└─",
        "3",
        "ops",
        "cos",
        "×2,",
        "neg",
        "f32[2]",
    ]


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_lines_fit_the_terminal(columns):
    """No line is wider than the terminal."""
    assert max(width(line) for line in tree(transformer(3), width=columns).splitlines()) <= columns


def different_layers(count):
    """Layers that all differ, so that none fold."""
    g = GraphBuilder()
    x = g.input("x", tensor(8))
    for i in range(count):
        for j in range(i % 7 + 2):
            x = g.call(f"torch.op{i}_{j}", x, value=tensor(8), module=f"layers.{i}.inner")
        x = g.call(f"torch.end{i}", x, value=tensor(8), module=f"layers.{i}")
        g.modules |= {f"layers.{i}": "Layer", f"layers.{i}.inner": "Inner"}
    g.output(x)
    return g.graph()


def test_a_terminal_gets_at_most_its_lines():
    """A tree that is too long stays closed at the lower levels and says so; a file gets all."""
    lines = tree(different_layers(150), width=100).splitlines()
    assert len(lines) <= MAX_LINES + 1
    assert lines[-1] == "modules folded; --all shows every row"
    assert len(tree(different_layers(150)).splitlines()) > MAX_LINES
    assert "folded" not in tree(different_layers(150), width=100, all_rows=True)


def test_links_only_when_asked_for():
    """File names are terminal links when wanted, with the address escaped."""
    where = Source("/src/my model.py", 7, "forward")
    g = graph(node(0, "x"), node(1, "y", value=tensor(2), source=where))
    assert "\x1b" not in tree(g, width=120)
    assert "\x1b]8;;file:///src/my%20model.py#7\x1b\\my model.py:7\x1b]8;;\x1b\\" in tree(
        g, width=120, links=True
    )


def test_colour_only_adds_colour():
    """Without its codes the coloured tree is the plain one."""
    colored = tree(transformer(2), width=80, color=True)
    assert "\x1b[1mlayers.0–1" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored).replace(" ", "") == tree(transformer(2), width=80).replace(
        " ", ""
    )


def test_an_empty_graph_says_so():
    """A graph without nodes is no empty text."""
    assert tree(graph()) == "no nodes"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_keep_their_line(text):
    """Names, classes and files of any kind stay on their line."""
    where = Source(text, 1, text, text, module=text, call=text)
    nodes = [node(i, text, "call_function", text, value=tensor(2), source=where) for i in range(3)]
    lines = tree(graph(*nodes, modules={text: text}), width=100).splitlines()
    assert all(line.startswith(("├─", "└─", "│", "   ")) for line in lines)
