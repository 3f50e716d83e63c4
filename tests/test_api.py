"""Records as Python offers them, built by hand: no torch."""

from __future__ import annotations

import pytest

from peek_backend.api import as_record
from peek_backend.errors import PeekError
from tests.builders import GraphBuilder, capture, symbol, tensor, transformer


@pytest.fixture
def record():
    return as_record(capture(transformer(3)))


def test_a_prompt_prints_the_counts(record):
    """``repr`` and ``str`` of a record are one line, whatever its size."""
    assert repr(record) == str(record) == "<Record: 1 graph, 42 ops, 0 graph breaks, 0 recompiles>"


def test_expand_takes_one_module_or_several(record):
    """expand='layers.1' opens the same as expand=['layers.1']."""
    assert record.dot(expand="layers.1") == record.dot(expand=["layers.1"])
    assert record.dot(expand="layers.1") != record.dot()


def test_heat_is_drawn_by_the_record(tmp_path):
    """``dot`` and ``render`` colour by what boxes cost; a heat that there is not is refused."""
    record = as_record(capture(transformer(3), transformer(2)))
    assert "FLOPs of each box" in record.dot(heat="flops")
    assert record.dot(1, heat="bytes") != record.dot(0, heat="bytes") != record.dot()
    record.render(tmp_path / "g.dot", heat="flops")
    assert (tmp_path / "g.dot").read_text() == record.dot(heat="flops")
    with pytest.raises(PeekError, match="did you mean 'memory'"):
        record.render(tmp_path / "h.svg", heat="memry")


@pytest.mark.parametrize("depth", ["two", -1, True, 1.5])
def test_depth_is_a_count(record, depth):
    """A depth that is no number of levels is refused, on small graphs too."""
    with pytest.raises(PeekError, match="depth"):
        record.dot(depth=depth)


def test_graph_by_key_or_position(record):
    """A graph is found by key and by position; another key names those there are."""
    assert record.graph("0/0") is record.graph(0)
    with pytest.raises(PeekError, match="0/0"):
        record.graph("9/9")


def test_symbols_that_no_value_has_are_not_shown():
    """A symbol that torch made and nothing uses is in the record, not under the table; unbacked and fixed ones stay."""
    builder = GraphBuilder("f")
    builder.output(builder.input("x", tensor("s0", 4)))
    symbols = (symbol("s0", "x.shape[0]"), symbol("s8", "bn.num_batches_tracked.item()"))
    table = as_record(capture(builder.graph(symbols=symbols))).table()
    assert "x.shape[0]" in table
    assert "num_batches_tracked" not in table
