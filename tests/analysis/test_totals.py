"""Counts and sizes of a graph."""

from __future__ import annotations

import pytest

from peek_backend.analysis.totals import (
    ITEM_BYTES,
    dynamic_symbols,
    hints,
    nbytes,
    nbytes_at,
    users,
)
from peek_backend.model import Leaf, NoneInfo, ScalarInfo, SymInt, TupleInfo
from peek_backend.model.dtypes import DTYPES
from tests.builders import GraphBuilder, graph, node, symbol, tensor


def test_users_are_each_reader_once():
    """A node that is read twice by another, inside a list too, has one user; an unread one none."""
    g = graph(
        node(0, "x", "placeholder", "x"),
        node(1, "y", "call_function", "torch.cat", (Leaf(node=0), Leaf(node=0))),
        node(2, "z", "call_function", "torch.add", Leaf(node=0), kwargs={"other": Leaf(node=1)}),
    )
    assert users(g) == [[1, 2], [2], []]


def test_users_ignore_references_out_of_range():
    """A reference to a node that is not there, as a damaged file could hold, is nobody's use."""
    assert users(graph(node(0, "x", "output", "output", Leaf(node=7), Leaf(node=-1)))) == [[]]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (tensor(8, 4), 128),
        (tensor(), 4),
        (tensor(0, 4), 0),
        (tensor(8, dtype="bfloat16"), 16),
        (tensor(8, dtype="float8_e4m3fn"), 8),
        (tensor("s0", 16), "64*s0"),
        (tensor("s0 + 1", 2), "8*(s0 + 1)"),
        (TupleInfo((tensor(2), TupleInfo((tensor("s0"), NoneInfo())))), "4*s0 + 8"),
        (tensor(8, dtype="mystery"), None),
        (tensor(8, layout="sparse_coo"), None),
        (tensor(8, flags=("nested",)), None),
        (tensor(8, subclass="DTensor", inner={"local": tensor(2)}), 8),
        (SymInt("s0", 4), 0),
        (ScalarInfo("int", 3), 0),
        (None, 0),
    ],
)
def test_bytes(value, expected):
    """Bytes are elements times element size, symbolic where a size is, None where they do not follow from the shape."""
    assert nbytes(value) == expected


def test_bytes_with_hints():
    """A symbolic size is worked out with the hints; without one it stays unknown."""
    assert nbytes_at(tensor("s0", "s1"), {"s0": 3, "s1": 5}) == 60
    assert nbytes_at(tensor("u0"), {}) is None


def test_every_dtype_has_a_size():
    """Every dtype that has a short name has a size."""
    assert set(DTYPES) == set(ITEM_BYTES)


def test_hints_leave_out_unbacked_symbols():
    """A symbol without a hint has no value."""
    g = graph(symbols=(symbol("s0", hint=4), symbol("u0", unbacked=True)))
    assert hints(g) == {"s0": 4}


def test_dynamic_symbols_are_those_of_inputs():
    """Symbols of input shapes and symbolic inputs count, each once; those that only arise inside do not."""
    g = GraphBuilder()
    g.input("n", SymInt("s2", 3))
    x = g.input("x", tensor("s0", "s1*2", 4))
    g.input("y", tensor("s0"))
    g.call("torch.nonzero", x, value=tensor("u0", 1))
    assert dynamic_symbols(g.graph()) == ["s2", "s0", "s1"]
