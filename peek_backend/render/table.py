"""A graph as a table, in any format of tabulate.

Comes in: a GraphView and a ``Layout``. Goes out: text. In a terminal (``Layout.width``) a big graph is folded by
module, the least useful columns give way and wide cells are cut; in a file every row and every character stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ..errors import unknown_name
from . import labels
from .escape import MARKUP, cell_escape, cut, cut_middle, width
from .fit import NEVER, share
from .fold import Shown, first_op, fold, group_name, last_op
from .view import COLUMNS, GraphView

DEFAULT_COLUMNS = ("index", "op", "name", "target", "args", "shape", "dtype", "device")
HEADERS = {"index": "#", "args": "arguments", "label": "name"}
MAX_ROWS = 200
"""Rows that a terminal gets; a file gets all."""


class Layout(Struct, frozen=True):
    """How a text is laid out.

    ``format`` is a tabulate format or ``tree``, ``columns`` the table's (None: the default ones; these may give
    way in a narrow terminal), ``width`` the terminal's columns (None: a file), ``color`` allows ANSI colours,
    ``all_rows`` shows every row, ``max_rows`` limits them elsewhere than in a terminal too, ``links`` makes
    file names clickable (OSC 8), ``how_all`` is what a folded table tells its reader.
    """

    format: str = "simple"
    columns: tuple[str, ...] | None = None
    width: int | None = None
    color: bool = False
    all_rows: bool = False
    max_rows: int | None = None
    links: bool = False
    how_all: str = "--all shows every row"

    @property
    def markup(self) -> bool:
        """Whether a program reads the result: then nothing is cut or coloured."""
        return self.format in MARKUP

    @property
    def row_limit(self) -> int | None:
        """Rows after which a table is folded; None for never."""
        if self.all_rows:
            return None
        return MAX_ROWS if self.max_rows is None and self.width is not None else self.max_rows

    @property
    def colored(self) -> bool:
        """Whether ANSI colours are written."""
        return self.color and not self.markup


def table_text(view: GraphView, layout: Layout) -> str:
    """The table of a graph's nodes; under a folded one a line says how many rows there are and how to see all.

    Raises PeekError for an unknown column.
    """
    from tabulate import tabulate  # 70 ms to import, so only where a table is made

    grid = _Grid(view, layout)
    chosen = check_columns(layout.columns or DEFAULT_COLUMNS)
    if not grid.rows:
        return "no nodes"
    columns, widths = _fit(grid, chosen, layout)
    cells = [grid.shown(column, limit) for column, limit in zip(columns, widths, strict=True)]
    text = tabulate(
        list(zip(*cells, strict=True)),
        headers=[HEADERS.get(column, column) for column in columns],
        tablefmt=layout.format,
        disable_numparse=True,
        colalign=["right" if column in _RIGHT else "left" for column in columns],
    )
    return f"{text}\n{_folded_note(grid, layout)}" if grid.folded else text


_RIGHT = frozenset({"index", "bytes", "offset"})


def check_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns, or a PeekError that names the nearest right one."""
    for column in columns:
        if column not in COLUMNS:
            raise unknown_name("column", column, COLUMNS)
    return tuple(columns)


class _Grid:
    """The rows to show, read column by column when a column is first asked for."""

    def __init__(self, view: GraphView, layout: Layout):
        self.view, self.layout = view, layout
        limit = layout.row_limit
        self.folded = limit is not None and len(view) > limit
        if limit is not None and self.folded:
            self.rows = fold(view, limit)
        else:
            self.rows = [Shown(0, node=i) for i in range(len(view))]
        self.escape = cell_escape(layout.format)
        self.columns: dict[str, list[str]] = {}

    def column(self, name: str) -> list[str]:
        """The escaped cells of one column."""
        if name not in self.columns:
            self.columns[name] = [self.escape(self._cell(row, name)) for row in self.rows]
        return self.columns[name]

    def widths(self, name: str) -> list[int]:
        """What the header and each cell take uncut; tabulate pads a header by 2 (its MIN_PADDING)."""
        return [len(HEADERS.get(name, name)) + 2, *map(width, self.column(name))]

    def shown(self, name: str, limit: int | None) -> list[str]:
        """The cells as they are printed: cut to ``limit`` columns, coloured if that is wanted."""
        cells = self.column(name)
        if limit is not None:
            cells = [self._cut(row, name, cell, limit) for row, cell in zip(self.rows, cells, strict=True)]
        if self.layout.colored:
            cells = [self._painted(row, name, cell) for row, cell in zip(self.rows, cells, strict=True)]
        return cells

    def _cut(self, row: Shown, name: str, cell: str, limit: int) -> str:
        """Paths keep their ends, calls their start."""
        if len(cell) <= limit and cell.isascii():
            return cell
        path = name in _TAILS or (name == "call" and self._is_input(row))
        return cut_middle(cell, limit, _TAILS.get(name, 2 / 3)) if path else cut(cell, limit)

    def _is_input(self, row: Shown) -> bool:
        return row.node is not None and self.view.graph.nodes[row.node].op in ("placeholder", "get_attr")

    def _cell(self, row: Shown, name: str) -> str:
        if row.node is None:
            text = _GROUP_CELLS.get(name, _no_text)(self.view, row)
        else:
            text = self.view.cell(row.node, name, within=row.within)
        return f"{'│' * row.depth} {text}" if row.depth and name in ("name", "label") else text

    def _painted(self, row: Shown, name: str, cell: str) -> str:
        """Groups bold, inputs dim, targets of ops cyan: light, and nothing is told by colour alone."""
        if not cell:
            return cell
        if row.node is None:
            return f"\x1b[1m{cell}{_END}"
        if self._is_input(row):
            return f"\x1b[2m{cell}{_END}"
        return f"\x1b[36m{cell}{_END}" if name in ("target", "type") else cell


_END = "\x1b[0m"


def _folded_note(grid: _Grid, layout: Layout) -> str:
    rows, nodes = labels.plural(len(grid.rows), "row"), labels.plural(len(grid.view), "node")
    note = f"{rows} for {nodes}, folded by module"
    if not layout.how_all:
        return note
    fits = layout.width is None or len(note) + 2 + len(layout.how_all) <= layout.width
    return f"{note}; {layout.how_all}" if fits else f"{note}\n{layout.how_all}"


# --- the cells of a group ---


def _no_text(view: GraphView, row: Shown) -> str:
    return ""


def _group_index(view: GraphView, row: Shown) -> str:
    """The first node of a closed group; an open one shows it in the next row."""
    return str(first_op(view, row.module)) if row.run and not row.inside else ""


def _group_name(view: GraphView, row: Shown) -> str:
    if row.hidden:
        return f"… {labels.plural(row.hidden, 'op')} more"
    return f"{'▾' if row.inside else '▸'} {group_name(row.run)}"


def _group_size(view: GraphView, row: Shown) -> str:
    """``13 ops ×32``: how much one instance computes, and how many there are."""
    if not row.run:
        return ""
    size = labels.plural(row.module.size, "op")
    return f"{size} ×{len(row.run)}" if len(row.run) > 1 else size


def _group_call(view: GraphView, row: Shown) -> str:
    """``LlamaDecoderLayer · 61 ops ×4``."""
    return (
        " · ".join(part for part in (row.module.class_name, _group_size(view, row)) if part)
        if row.run
        else ""
    )


def _group_output(name: str) -> Callable[[GraphView, Shown], str]:
    """The cell of the node whose value the group hands on."""
    return lambda view, row: view.cell(last_op(view, row.run[-1]), name) if row.run else ""


_GROUP_CELLS: dict[str, Callable[[GraphView, Shown], str]] = {
    "index": _group_index,
    "op": lambda view, row: row.module.kind if row.run else "",
    "name": _group_name,
    "label": _group_name,
    "target": lambda view, row: row.module.class_name if row.run else "",
    "args": _group_size,
    "call": _group_call,
    "module": lambda view, row: row.module.module if row.run else "",
    **{name: _group_output(name) for name in ("shape", "dtype", "type", "value", "device", "stride")},
}


# --- fitting into a terminal ---

# Columns that may be cut, with the least that still reads well.
_FLEXIBLE = {
    "name": 18, "label": 18, "target": 16, "args": 24, "call": 24, "code": 16, "users": 12, "module": 14,
    "shape": 18, "type": 20, "value": 20,
}  # fmt: skip
_TYPES = frozenset({"shape", "type", "value"})
"""Columns that are cut last: half a shape tells nothing."""
_TAILS = {"name": 1 / 2, "label": 1 / 2, "target": 2 / 3, "module": 2 / 3}
"""Columns whose texts are cut in the middle, and how much of them is kept at the end: paths differ there."""
_SPACED = frozenset({"simple", "plain", "rst"})

# What the default table does in a narrow terminal, in this order: it goes without the device, which the title
# says, and the op, which the target shows; then a node is one expression and one type (`f32[s0, 16] cuda:0`).
_NARROWER: tuple[Callable[[tuple[str, ...]], tuple[str, ...]], ...] = (
    lambda columns: tuple(c for c in columns if c != "device"),
    lambda columns: tuple(c for c in columns if c != "op"),
    lambda columns: ("index", "label", "call", "type"),
)


def _fit(
    grid: _Grid, columns: tuple[str, ...], layout: Layout
) -> tuple[tuple[str, ...], Sequence[int | None]]:
    """The columns to show and how wide: default ones give way first, then cells are cut."""
    if layout.width is None or layout.markup:
        return columns, [None] * len(columns)
    for narrower in _narrower(grid.view) if columns == DEFAULT_COLUMNS else ():
        if _least(grid, columns) <= _room(layout, len(columns)):
            break
        columns = narrower(columns)
    floors = [_FLEXIBLE.get(c, NEVER) for c in columns]
    hard = [floor if c in _TYPES else floor // 2 for c, floor in zip(columns, floors, strict=True)]
    return columns, share([grid.widths(c) for c in columns], floors, _room(layout, len(columns)), hard)


def _narrower(view: GraphView) -> Sequence[Callable[[tuple[str, ...]], tuple[str, ...]]]:
    """The steps for this graph: the device stays as long as it can where it is not the same for all."""
    return _NARROWER if len(view.devices) <= 1 else _NARROWER[1:]


def _least(grid: _Grid, columns: Sequence[str]) -> int:
    """The width under which the table would read badly."""
    return sum(min(max(grid.widths(c)), _FLEXIBLE.get(c, NEVER)) for c in columns)


def _room(layout: Layout, count: int) -> int:
    """Characters for the cells of ``count`` columns, without what the format puts between them."""
    return (layout.width or 0) - between(layout.format, count)


def between(format: str, count: int) -> int:
    """Characters that a format puts around and between ``count`` columns."""
    return 2 * (count - 1) if format in _SPACED else 3 * count + 1
