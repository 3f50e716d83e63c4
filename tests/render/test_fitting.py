"""Tables and lines in a terminal's width."""

from __future__ import annotations

import pytest

from peek_backend.render.fitting import fitted, wrapped

HEADERS = ("module", "class", "FLOPs", "takes")
ROWS = [[f"model.layers.{i}.self_attn.q_proj", "LlamaAttention", "1.25 TFLOP", "768 MiB"] for i in range(3)]


@pytest.mark.parametrize("columns", [30, 40, 50, 60, 80])
def test_a_table_fits(columns):
    """Columns that matter least go first, then the middle of long cells; rows and numbers stay."""
    text = fitted(HEADERS, ROWS, "simple", columns, drop=("takes", "class"), shorten=("module",))
    assert max(map(len, text.splitlines())) <= columns
    assert text.count("1.25 TFLOP") == 3
    assert text.count("q_proj") + text.count("…") >= 3


def test_a_table_that_fits_or_is_for_programs_is_whole():
    """Nothing is left out without need, in a pipe, and in formats that programs read."""
    how = {"drop": ("takes",), "shorten": ("module",)}
    whole = fitted(HEADERS, ROWS, "simple", None, **how)
    assert fitted(HEADERS, ROWS, "simple", 200, **how) == whole
    assert "takes" in fitted(HEADERS, ROWS, "tsv", 20, **how)


def test_lines_break_between_words_and_keep_units():
    """A number and its unit stay together; what follows is indented, and no word is lost."""
    line = "  parameters 787 KiB, optimizer state 1.5 MiB, gradients 778 KiB, inputs 1.0 KiB, outputs 320 B"
    for columns in range(30, 100):
        lines = wrapped(line, columns).split("\n")
        assert max(map(len, lines)) <= columns
        assert " ".join(part.strip() for part in lines) == line.strip()
        assert not any(part.split()[0] in {"KiB", "MiB", "KiB,", "MiB,", "B"} for part in lines)
    assert wrapped(line, None) == line


def test_columns_of_nothing_are_left_out():
    """A column without a cell says nothing to a person; programs find every column where it was."""
    rows = [["linear", "", "4 FLOP", ""], ["relu", "", "0", ""]]
    assert fitted(HEADERS, rows, "simple", 80).splitlines()[0].split() == ["module", "FLOPs"]
    assert fitted(HEADERS, rows, "tsv", 80).splitlines()[0].split() == list(HEADERS)
    assert fitted(HEADERS, [], "simple", 80).split()[:4] == list(HEADERS)
