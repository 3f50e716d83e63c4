"""Which column gives way when a terminal is too narrow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from peek_backend.render.fit import NEVER, share


def test_columns_that_fit_are_left_alone():
    """With room enough every column has its widest cell."""
    assert share([[3, 5], [2, 8]], [1, 1], 20) == [5, 8]


def test_one_long_cell_does_not_keep_a_column_wide():
    """The column in which fewest cells are torn is cut first."""
    assert share([[10] * 9, [4] * 8 + [40]], [4, 4], 30) == [10, 20]


def test_a_floor_holds_while_another_can_give():
    """A column with a floor stays above it until every other is at its own."""
    assert share([[10, 10], [20, 20]], [NEVER, 8], 20) == [10, 10]
    assert share([[10, 10], [20, 20]], [NEVER, 8], 18) == [10, 8]
    assert sum(share([[10, 10], [20, 20]], [NEVER, 8], 12)) == 12


@given(
    st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=6), min_size=1, max_size=5),
    st.integers(0, 150),
)
def test_the_room_is_kept_or_nothing_is_left_to_cut(cells, room):
    """The widths fit, or every column is at the least that is ever shown; none is wider than its cells."""
    widths = share(cells, [12] * len(cells), room)
    assert sum(widths) <= room or all(w <= 4 for w in widths)
    assert all(w <= max(column) for w, column in zip(widths, cells, strict=True))
