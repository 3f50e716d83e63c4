"""Symbolic sizes: what torch prints is worked out, what is not understood is None, nothing is run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peek_backend.analysis.dims import broadcast_dims, evaluate, memory_format, product, same, symbols_in
from tests.builders import contiguous

VALUES = {"s0": 8, "s1": 3, "u0": 5, "zf0": 1.5}

PRINTED = [
    ("s0*s1", 24),
    ("(s0//2)", 4),
    ("((s0*s1 + 1)//2)", 12),
    ("2*(((s0 + 2)//3)) - 1", 5),
    ("Mod(s0, 3)", 2),
    ("PythonMod(s0 - 9, 4)", 3),
    ("ModularIndexing(s0, 2, 3)", 1),
    ("Max(1, s0, s1)", 8),
    ("Min(s0, s1)", 3),
    ("FloorDiv(s0, s1)", 2),
    ("CeilToInt(zf0*s1)", 5),
    ("TruncToInt(-zf0)", -1),
    ("IntTrueDiv(s0, 16)", 0.5),
    ("PowByNatural(s0, 2)", 64),
    ("s0*(PowByNatural(2, s1))", 64),
    ("2*s0 + 1", 17),
    ("s0**2", 64),
    ("s0/2", 4),
    ("Eq(s0, 8)", True),
    ("Ne(s0, 8)", False),
    ("(s0 > 1) & (s1 < 2)", False),
    ("(s0 > 1) | (s1 < 2)", True),
    ("~(s0 > 1)", False),
    ("2 <= s0 and s0 < 9", True),
    ("Where(s0 > s1, s0, s1)", 8),
    ("ToFloat(s0)", 8.0),
    ("-s0", -8),
    ("7", 7),
]
"""Expressions as ``str()`` of torch 2.13's sympy functions prints them, and their values."""


@pytest.mark.parametrize(("text", "expected"), PRINTED)
def test_what_torch_prints_is_evaluated(text, expected):
    """Every form in which torch prints a size or a guard has its value."""
    assert evaluate(text, VALUES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "unknown", "IsNonOverlapping(s0)", "s0.real", "s0[0]", "'a'*3", "lambda: 1", "", "s0 +", "(" * 5000,
        "__import__('os').getcwd()", "s0//0", "oo", "s0 if s1 else 2", "Max(s0, key=1)", "Mod(s0)", "s0 in s1",
    ],
)  # fmt: skip
def test_what_is_not_known_is_none(text):
    """Unknown symbols and functions, other syntax, errors of arithmetic: None, no exception, nothing is run."""
    assert evaluate(text, VALUES) is None


def test_huge_powers_end():
    """A tower of powers is given up at once instead of filling the memory."""
    assert evaluate("s0**s0**s0**s0", VALUES) is None
    assert evaluate("10**10**10", {}) is None


def test_very_long_expression_is_given_up():
    """An expression of 100,000 characters is not parsed."""
    assert evaluate("s0" + " + s0" * 20_000, VALUES) is None


def test_symbols_are_names_not_functions():
    """The symbols of an expression are its names but not the functions it calls."""
    assert symbols_in("Max(s0, FloorDiv(s1, 2)) + u0") == {"s0", "s1", "u0"}
    assert symbols_in(16) == symbols_in("a b") == frozenset()


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("s0*s1", "s1*s0", True),
        ("s0*s1 + s1", "s1*(s0 + 1)", True),
        ("(s0//2)*2", "s0", False),
        ("s0", "s1", False),
        ("s0", 8, False),
        (8, 8, True),
        ("mystery(s0)", "s0", None),
    ],
)
def test_sizes_are_compared_by_value(left, right, expected):
    """Two sizes are the same when they agree whatever their symbols are; unknown ones are neither."""
    assert same(left, right) is expected


dims = st.lists(st.one_of(st.integers(1, 5), st.sampled_from(["s0", "s1", "(s0//2)", "s0 + 1"])), max_size=5)


@given(dims, st.integers(1, 9), st.integers(1, 9))
def test_product_is_the_product(shape, s0, s1):
    """A product of sizes has the value of the sizes' product."""
    values = {"s0": s0, "s1": s1}
    expected = 1
    for dim in shape:
        expected *= evaluate(dim, values)
    assert evaluate(product(shape), values) == expected


@given(dims)
def test_row_major_strides_are_contiguous(shape):
    """Strides made from any sizes, symbolic ones too, are seen to be contiguous."""
    assert memory_format(tuple(shape), contiguous(shape)) == "contiguous"


@pytest.mark.parametrize(
    ("shape", "stride", "expected"),
    [
        ((8, 3, 4, 5), (60, 1, 15, 3), "channels_last"),
        (("s0", 3, "s1", "s2"), ("3*s1*s2", 1, "3*s2", 3), "channels_last"),
        ((2, 3, 4, 5, 6), (360, 1, 90, 18, 3), "channels_last_3d"),
        ((4, 8), (1, 4), "strided"),
        ((4, 8), (0, 1), "strided"),
        ((1, 8), (77, 1), "contiguous"),
        ((0, 8), (3, 5), "contiguous"),
        ((), (), "contiguous"),
        ((8, 1, 4, 4), (16, 16, 4, 1), "contiguous"),
        (("f(s0)", 8), ("g(s0)", 1), None),
        ((2, "f(s0)"), ("f(s0)", 1), "contiguous"),
        ((2, "f(s0)"), ("g(s0)", 1), None),
    ],
)
def test_memory_format(shape, stride, expected):
    """The format follows from shape and stride alone, as torch has it; None when it cannot be told."""
    assert memory_format(shape, stride) == expected


def test_broadcast_dims_have_stride_zero():
    """A dim of stride 0 is a broadcast one unless its size is 1."""
    assert broadcast_dims((4, 1, "s0"), (0, 0, 0)) == (0, 2)
