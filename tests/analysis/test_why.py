"""What is said of symbols that are no sizes: floats and ints that the program passes in."""

from __future__ import annotations

import pytest

from peek_backend.analysis.dims import short_floats
from peek_backend.analysis.why import of_symbol
from peek_backend.model import Fact, GraphRecord, StackFrame, SymbolInfo

LINE = StackFrame("f.py", 7, "f", "return F.layer_norm(x, (8,), eps=eps)")


def told(symbol: SymbolInfo):
    """The answer about a symbol of a graph that was traced with dynamic=True."""
    graph = GraphRecord("0/0", "dynamo", (), (), symbols=(symbol,), state={"dynamic": "on"})
    return of_symbol(graph, symbol, symbol.name)


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("zf93 == 1.0000000000000001e-5", "zf93 == 1e-05"),
        ("1.00000000000000e-5", "1e-05"),
        ("zf1*0.29999999999999999 + 2.0", "zf1*0.3 + 2.0"),
        ("s0 == 16", "s0 == 16"),
        ("v1.00000000000000000.x", "v1.00000000000000000.x"),
    ],
)
def test_floats_read_as_python_writes_them(text, short):
    """Sympy's twenty digits become the shortest that mean the same; nothing else changes."""
    assert short_floats(text) == short


@pytest.mark.parametrize(
    ("symbol", "begins"),
    [
        (SymbolInfo("zf93", ("eps",), 1e-5, type="float"), "every float that is passed in"),
        (SymbolInfo("s86", ("n",), 3), "every int that is passed in"),
        (SymbolInfo("s77", ("x.shape[0]",), 4), "every size"),
    ],
)
def test_a_symbol_begins_as_what_it_is(symbol, begins):
    """A float is not called a size, nor is an int argument."""
    (fact,) = told(symbol).chain
    assert fact.text == f"compiled with dynamic=True: {begins} begins as a symbol"


def test_a_float_that_an_op_pins_is_no_size():
    """The verdict has the short number, and the advice speaks of a plain number."""
    fact = Fact("specialised", "zf93 == 1.0000000000000001e-5 (asked by layer_norm)", LINE)
    found = told(SymbolInfo("zf93", ("eps",), 1e-5, type="float", replaced_by="1.00000000000000e-5", facts=(fact,)))  # fmt: skip
    assert found.verdict == "is 1e-05: it was zf93, and became static"
    assert found.static
    assert found.chain[-1].text == "zf93 == 1e-05 (asked by layer_norm)"
    assert found.change.startswith("layer_norm at line 7 takes a plain number")
    assert "size" not in found.change
