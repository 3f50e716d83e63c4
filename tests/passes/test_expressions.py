"""Symbolic expressions in an order that does not depend on names."""

from __future__ import annotations

import random

import pytest

from peek_backend.analysis.dims import same
from peek_backend.passes.expressions import MAX_TEXT, Expressions

SWAPPED = Expressions({"s0": "s1", "s1": "s0"})
PLAIN = Expressions({})


@pytest.mark.parametrize(
    ("torch_text", "text"),
    [
        ("s27*s77", "s0*s1"),
        ("1 + s27", "s1 + 1"),
        ("4*s77*s27", "4*s0*s1"),
        ("-s27*s77 + 4", "4 - s0*s1"),
        ("(-s77)//4", "(-s0)//4"),
        ("-(s77//4)", "-(s0//4)"),
        ("2*(s77//2)", "2*(s0//2)"),
        ("Max(1, s27, s77)", "Max(s0, s1, 1)"),
        ("4 <= s77", "s0 >= 4"),
        ("Eq(s27, s77)", "Eq(s0, s1)"),
        ("s77**2/s27", "s0**2/s1"),
        ("Mod(s77, s27)", "Mod(s0, s1)"),
        ("0.250000000000000*s27", "0.25*s1"),
        ("s77 and", "s0 and"),
        ("", ""),
    ],
)
def test_torchs_texts_in_our_order(torch_text: str, text: str):
    """Symbols are renamed first and operands sorted afterwards, constants last; what does not parse keeps its order."""
    assert Expressions({"s77": "s0", "s27": "s1"}).text(torch_text) == text


def expression(rng: random.Random, depth: int) -> str:
    """A random expression of + - * // % ** and Max over s0, s1 and numbers."""
    if not depth or rng.random() < 0.2:
        return rng.choice(["s0", "s1", "3", "7", "-2"])
    a, b = expression(rng, depth - 1), expression(rng, depth - 1)
    forms = [
        "({0} + {1})",
        "({0})*({1})",
        "({0}) - ({1})",
        "({0})//({1})",
        "({0})%({1})",
        "-({0})",
        "Max({0}, {1})",
        "({0})**2",
    ]
    return rng.choice(forms).format(a, b)


def test_the_value_stays_and_the_order_is_of_no_name():
    """2,000 random expressions keep their value, are stable, and come out the same when names are swapped and swapped back."""
    rng = random.Random(0)
    for _ in range(2000):
        text = expression(rng, 4)
        found = PLAIN.text(text)
        if len(found) == MAX_TEXT or "…" in found:
            continue
        assert same(text, found) is not False, text
        assert PLAIN.text(found) == found, text
        assert SWAPPED.text(SWAPPED.text(text)) == found, text


def test_an_endless_expression_is_cut_and_still_told_apart():
    """An expression of 100,000 characters becomes at most 400 with a hash of the whole; deep nesting is no error."""
    long = " + ".join(f"s{k}" for k in range(20_000))
    assert len(PLAIN.text(long)) <= MAX_TEXT
    assert PLAIN.text(long) != PLAIN.text(long + "*2")
    assert len(PLAIN.text("(" * 3000 + "s0" + ")" * 3000)) <= MAX_TEXT
