"""The one kind of error: what it says of a name that is not known."""

from __future__ import annotations

from peek_backend.errors import MOST_KNOWN, unknown_name


def test_few_names_are_all_listed():
    """Of a short list every right name is told, in order of the alphabet."""
    assert unknown_name("thing", "x", ["b", "c", "a"]).fix == "known: a, b, c"


def test_of_many_names_the_nearest_are_listed():
    """Of a list too long to read, the names most like the wrong one are told, and how many others there are."""
    names = [f"other{i}" for i in range(500)] + ["Linear", "LazyLinear", "Bilinear"]
    fix = unknown_name("thing", "Liner", names).fix
    assert fix.startswith("did you mean 'Linear'? known: ")
    assert {"Linear", "LazyLinear", "Bilinear"} <= set(fix.replace(",", "").split())
    assert fix.endswith(f" … and {len(names) - MOST_KNOWN} more")
    assert len(fix) < 250
