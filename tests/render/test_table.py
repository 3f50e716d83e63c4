"""Tables: what they show, how they fit a terminal, how they fold, and that no format is broken by a name."""

from __future__ import annotations

import re
from itertools import zip_longest

import pytest
import tabulate
from hypothesis import given, settings
from hypothesis import strategies as st

from peek_backend.errors import PeekError
from peek_backend.model import Leaf, SizeInfo, Source, SymInt, TupleInfo
from peek_backend.render.escape import MARKUP, width
from peek_backend.render.table import MAX_ROWS, Layout, table_text
from peek_backend.render.view import COLUMNS, GraphView
from tests.builders import HOSTILE, GraphBuilder, graph, node, symbol, tensor, transformer

PLAIN_FORMATS = sorted(set(tabulate.tabulate_formats) - MARKUP)


def table(record, **layout):
    return table_text(GraphView(record), Layout(**layout))


def cells(text):
    """The cells of a tsv table, header first."""
    return [[cell.strip() for cell in line.split("\t")] for line in text.splitlines()]


def first_graph():
    """``tanh(x @ w)``: the graph of the first sample."""
    g = GraphBuilder("f")
    x, w = g.input("x", tensor(8, 16)), g.input("w", tensor(16, 4))
    product = g.call("_operator.matmul", x, w, value=tensor(8, 4), name="matmul")
    g.output(g.call("torch.tanh", product, value=tensor(8, 4), name="tanh"))
    return g.graph()


def test_the_first_graph():
    """Index, op, name, target, arguments, shape, dtype and device of every node, as written."""
    assert (
        table(first_graph())
        == """\
  #  op             name    target           arguments    shape    dtype    device
---  -------------  ------  ---------------  -----------  -------  -------  --------
  0  placeholder    l_x_    x                             [8, 16]  f32      cpu
  1  placeholder    l_w_    w                             [16, 4]  f32      cpu
  2  call_function  matmul  operator.matmul  l_x_, l_w_   [8, 4]   f32      cpu
  3  call_function  tanh    torch.tanh       matmul       [8, 4]   f32      cpu
  4  output         output  output           [tanh]"""
    )


def test_every_column():
    """Each column shows what its name says, for a tensor, a tuple, a symbol and a node without a value."""
    g = GraphBuilder(symbols=(symbol("s0", "x.shape[0]", hint=4),))
    x = g.input("x", tensor("s0", 4, stride=(1, "s0"), grad=True, storage_offset=2))
    pair = TupleInfo((tensor("s0", 4), tensor("s0", 4, dtype="int64")), "topk", ("values", "indices"))
    t = g.call("torch.topk", x, 4, value=pair, module="head", name="topk", line=7)
    s = g.method("size", x, 0, value=SymInt("s0", 4))
    g.output(t, s)
    rows = cells(table(g.graph(), format="tsv", columns=tuple(COLUMNS)))
    found = [dict(zip_longest(rows[0], row, fillvalue="")) for row in rows[1:]]
    assert found[0] | {"code": ""} == {
        "#": "0", "op": "placeholder", "name": "l_x_", "target": "x", "arguments": "", "shape": "[s0, 4]",
        "dtype": "f32", "device": "cpu", "stride": "(1, s0)", "offset": "2", "grad": "yes",
        "value": "f32[s0, 4] stride(1, s0) grad", "type": "f32[s0, 4]", "call": "x", "module": "", "source": "",
        "code": "", "users": "2: topk, size_2", "bytes": "16*s0 = 64",
    }  # fmt: skip
    assert found[1]["shape"] == "([s0, 4], [s0, 4])"
    assert (found[1]["dtype"], found[1]["device"], found[1]["bytes"]) == (
        "(f32, i64)",
        "cpu",
        "16*s0 + 32*s0 = 192",
    )
    assert (found[1]["module"], found[1]["source"], found[1]["code"]) == ("head", "model.py:7", "line 7")
    assert (found[2]["shape"], found[2]["dtype"], found[2]["bytes"]) == ("s0 = 4", "SymInt", "")
    assert (found[3]["arguments"], found[3]["value"], found[3]["call"]) == (
        "[topk, size_2]",
        "",
        "return topk, size_2",
    )


def test_other_values_show_in_the_shape_column():
    """A Size shows its sizes, a tensor changed later what it became, an unknown value nothing."""
    g = graph(
        node(0, "a", value=SizeInfo(("s0", 2))),
        node(1, "b", value=tensor(4, 5, became=tensor(5, 4))),
        node(2, "c"),
    )
    rows = cells(table(g, format="tsv", columns=("shape", "dtype", "name")))
    assert rows[1:] == [["Size[s0, 2]", "Size", "a"], ["[4, 5] → [5, 4]", "f32", "b"], ["", "", "c"]]


def test_an_unknown_column_is_refused():
    """A column that does not exist is an error that names the nearest one."""
    with pytest.raises(PeekError, match="did you mean 'shape'"):
        table(first_graph(), columns=("shap",))


def test_an_empty_graph_says_so():
    """A graph without nodes is no empty table."""
    assert table(graph()) == "no nodes"


def test_numbers_stay_as_written():
    """Text that looks like a number is not read as one."""
    g = graph(node(0, "1e3", "call_function", "0x10", 1e3, "007"))
    rows = cells(table(g, format="tsv", columns=("name", "target", "args")))
    assert rows[1] == ["1e3", "0x10", "1000.0, '007'"]


@pytest.mark.parametrize("table_format", tabulate.tabulate_formats)
def test_hostile_names_break_no_format(table_format):
    """In every format each hostile name, target, argument and class is one cell of one row."""
    plain = len(table(graph(node(0, "a"), node(1, "b")), format=table_format).splitlines())
    for text in HOSTILE.values():
        where = Source(text, 1, text, text, module=text, call=text)
        hostile = node(
            0, text, "call_function", text, text, kwargs={text: text}, source=where, value=tensor(text)
        )
        shown = table(graph(hostile, node(1, "b")), format=table_format, columns=tuple(COLUMNS))
        assert len(shown.splitlines()) == plain


@pytest.mark.parametrize("table_format", ["html", "unsafehtml"])
def test_html_cells_hold_no_tag_of_a_name(table_format):
    """A name that is HTML is shown as text, escaped once."""
    shown = table(graph(node(0, "<b>&", "call_function", "f")), format=table_format)
    assert "<b>" not in shown and "&lt;b&gt;&amp;<" in shown.replace(" ", "")


@pytest.mark.parametrize("table_format", ["latex", "latex_raw", "latex_booktabs"])
def test_latex_cells_are_escaped_once(table_format):
    """Underscores and braces have one backslash, and the arrow a form that LaTeX knows."""
    shown = table(graph(node(0, "a_{b}", value=tensor(2, became=tensor(3)))), format=table_format)
    assert r"a\_\{b\}" in shown and "→" not in shown and r"\\_" not in shown


# --- fitting ---


@pytest.mark.parametrize("columns", [40, 60, 79, 80, 100, 120, 200])
@pytest.mark.parametrize("table_format", ["simple", "grid", "plain", "rounded_outline", "presto", "psql"])
def test_no_line_is_wider_than_the_terminal(table_format, columns):
    """From 40 columns on every line of the table fits, folded or not."""
    for layers in (2, 30):
        text = table(transformer(layers), format=table_format, width=columns)
        assert max(width(line) for line in text.splitlines()) <= columns


def test_a_file_is_never_cut():
    """Without a terminal every character of every cell is there."""
    name = "n" * 70
    g = graph(node(0, name, "call_function", "torch.relu", "s" * 60))
    assert name in table(g) and "s" * 60 in table(g)


def test_a_small_graph_keeps_its_columns_where_they_fit():
    """A terminal that has room shows the whole default table."""
    assert table(first_graph(), width=90) == table(first_graph())


def test_a_narrow_terminal_goes_without_the_device_first():
    """The device, which the title says, is the first column to go."""
    assert table(first_graph(), width=80).splitlines()[0].split()[-2:] == ["shape", "dtype"]


def test_devices_that_differ_are_never_lost():
    """With tensors on two devices the device column stays, or the type names the uncommon one."""
    nodes = [node(i, f"n{i}", value=tensor(2, device="cuda:0" if i == 3 else "cpu")) for i in range(9)]
    wide = table(graph(*nodes), width=70)
    assert wide.splitlines()[0].split()[-1] == "device" and wide.count("cuda:0") == 1
    named = [node(i, "n" * 30, "call_function", "t" * 30, value=n.value) for i, n in enumerate(nodes)]
    narrow = table(graph(*named), width=60)
    assert narrow.splitlines()[0].split()[-1] == "type" and narrow.count("f32[2] cuda:0") == 1


def test_a_narrow_terminal_shows_expressions():
    """Where the columns would be torn, a node is one expression and one type."""
    lines = table(transformer(3), width=80).splitlines()
    assert lines[0].split() == ["#", "name", "call", "type"]
    assert re.search(
        r"^ +\d+ +linear_\d+ +F\.linear\(mul_\d+, layers\.0\S+ +f32\[s0, 16, 64\]$", "\n".join(lines), re.M
    )


def test_chosen_columns_do_not_give_way():
    """Columns that the user asked for are cut, never dropped."""
    head = table(transformer(3), width=60, columns=("index", "op", "name", "device", "args")).splitlines()[0]
    assert head.split() == ["#", "op", "name", "device", "arguments"]


def test_markup_is_never_cut_or_coloured():
    """A format that a program reads is the same in a terminal."""
    assert table(first_graph(), format="github", width=20, color=True) == table(
        first_graph(), format="github"
    )


def test_colour_only_adds_colour():
    """With colour the text without its ANSI codes is the same; without it there is none."""
    plain, colored = table(transformer(30), width=100), table(transformer(30), width=100, color=True)
    assert "\x1b" not in plain
    assert "\x1b[1m" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == plain


# --- folding ---


def test_a_big_graph_is_folded_by_module():
    """620 equal layers are one group that is open once, with ×620; the last line says how to see all."""
    text = table(transformer(620), width=120)
    lines = text.splitlines()
    assert len(lines) < 40
    assert re.search(r"module +▾ layers\.0–619 +Block +13 ops ×620 +\[s0, 16, 64\]", text)
    assert lines[-1] == "22 rows for 9,926 nodes, folded by module; --all shows every row"


def test_parameters_read_as_the_modules_code_has_them():
    """Inside a folded module its own parameters are ``self.…``, others keep their path."""
    text = table(transformer(30), width=140, columns=("index", "args"))
    assert "mul_96, self.q.weight" in text
    assert "rsqrt_483, embed.weight" in text


def test_all_rows_on_request():
    """With all_rows every node has its row, whatever the width."""
    text = table(transformer(30), width=80, all_rows=True)
    assert len(text.splitlines()) == 486 + 2


def test_a_graph_without_modules_shows_its_ends():
    """Ten thousand nodes in one function: the first, the last, and how many lie between."""
    g = GraphBuilder()
    x = g.input("x", tensor(8))
    for i in range(9_998):
        x = g.call(f"torch.op{i % 7}", x, value=tensor(8), name=f"n{i}")
    g.output(x)
    lines = table(g.graph(), width=100).splitlines()
    assert len(lines) <= MAX_ROWS + 3
    assert any(line.split()[:1] == ["1"] for line in lines)
    assert any(line.split()[:1] == ["9999"] for line in lines)
    assert any("more" in line for line in lines)


PATHS = st.sampled_from(["", "a", "a.b", "a.c", "b.0", "b.1", "b.2", "b.2.x"])


@given(st.lists(PATHS, min_size=1, max_size=60), st.integers(3, 30))
@settings(max_examples=150, deadline=None)
def test_folding_keeps_to_its_limit_and_loses_nothing(paths, limit):
    """Any graph folds into at most the limit's rows, and shown, folded and hidden ops add up to all of them."""
    nodes = [node(0, "x", "placeholder", "x", value=tensor(2))]
    for path in paths:
        where = Source("m.py", 1, "forward", module=path, call=path)
        nodes.append(
            node(
                len(nodes),
                f"n{len(nodes)}",
                "call_function",
                "torch.sin",
                Leaf(node=len(nodes) - 1),
                source=where,
            )
        )
    from peek_backend.render.fold import fold

    view = GraphView(graph(*nodes))
    rows = fold(view, limit)
    assert len(rows) <= limit
    assert _ops_of(view, [row for row in rows if row.depth == 0]) == len(paths)


def _ops_of(view, rows):
    """How many ops rows stand for: a node one, a group those of its instances."""
    total = 0
    for row in rows:
        total += row.hidden + sum(m.size for m in row.run)
        total += row.node is not None and view.graph.nodes[row.node].op == "call_function"
    return total
