"""A capture or one graph as text for a terminal or a file: title, table or tree, symbols, how it ended, notes.

Comes in: records. Goes out: one string. ``render_text`` is for a whole capture, ``graph_text`` for one graph as soon
as it is there.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

from ..analysis.stats import Stats, stats
from ..errors import PeekError, nearest
from ..model import BreakInfo, CaptureRecord, FrameRecord, GraphRecord, Problem
from . import labels
from .escape import cell_escape, cut_middle, visible, width
from .escape import width as text_width
from .stages import outcome_lines
from .table import Layout, table_text
from .view import GraphView


def render_text(record: CaptureRecord, *, graph: str | None = None, totals: bool = True, **layout) -> str:
    """Every graph of a capture, or the one that ``graph`` names by key (``"0/0"``), as text.

    ``layout`` are the fields of ``Layout`` (``format``, ``columns``, ``width``, ``color``, ``all_rows`` …). ``totals``
    ends with the counts of the whole capture.
    Raises PeekError for a graph or a column that is not there.
    """
    chosen = Layout(**layout)
    keys = labels.graph_keys(record.graphs)
    wanted = range(len(keys)) if graph is None else [find_graph(record, graph)]
    parts = [graph_text(record.graphs[i], chosen, key=keys[i]) for i in wanted]
    if graph is None:
        parts.append("\n".join(_after(record, chosen, totals=totals)))
    return "\n\n".join(part for part in parts if part) + "\n"


def graph_list(record: CaptureRecord, *, width: int | None = None, color: bool = False) -> str:
    """One line a graph, in order: key, name, place, counts, how it ended. ``width`` cuts the names."""
    dress = Dress(Layout(width=width, color=color))
    rows = [
        _list_row(key, graph)
        for key, graph in zip(labels.graph_keys(record.graphs), record.graphs, strict=True)
    ]
    widths = [max((text_width(row[i]) for row in rows), default=0) for i in range(5)]
    if width is not None:
        widths[1] = max(12, min(widths[1], width - sum(widths) + widths[1] - 2 * len(widths) + 1))
    lines = [dress.line(_how_many(record), "bold")]
    for row in rows:
        name, gap = cut_middle(row[1], widths[1]), widths[1]
        cells = [row[0], name, *row[2:]]
        padded = [
            c + " " * (w - text_width(c)) for c, w in zip(cells, (widths[0], gap, *widths[2:]), strict=True)
        ]
        lines.append((" " + "  ".join(padded)).rstrip())
    if outcomes := dress.lines(outcome_lines(record)):
        lines += ["", *outcomes]
    return "\n".join(lines) + "\n"


def _how_many(record: CaptureRecord) -> str:
    """``3 graphs``; with the graphs of later stages, which are the same code again, ``3 graphs, 12 with later stages``."""
    captured, listed = stats(record).graphs, len(record.graphs)
    if captured in (0, listed):
        return labels.plural(listed, "graph")
    return f"{labels.plural(captured, 'graph')}, {listed} with later stages"


def _list_row(key: str, graph: GraphRecord) -> tuple[str, str, str, str, str]:
    ops = sum(n.op.startswith("call") for n in graph.nodes)
    ended = "never ran" if graph.never_ran else _break_words(graph.ended_by)
    name = visible(labels.code_text(graph.name))
    return visible(key), name, labels.place_text(graph.file, graph.line), labels.plural(ops, "op"), ended


def _break_words(event: BreakInfo | None) -> str:
    """``break: GB0059``; torch gives no id to some, which go by their line."""
    if event is None:
        return ""
    if event.id or not event.stack:
        return f"break: {event.id}" if event.id else "break"
    return f"break at {labels.place_text(event.stack[-1].file, event.stack[-1].line)}"


def find_graph(record: CaptureRecord, key: str) -> int:
    """Position of the graph that is named ``key``; raises PeekError with the nearest one."""
    keys = labels.graph_keys(record.graphs)
    for position, graph in enumerate(record.graphs):
        if key in (keys[position], graph.key):
            return position
    close = nearest(key, keys)
    hint = f"did you mean {close!r}? " if close else ""
    raise PeekError(f"no graph {key!r} in this capture", "", f"{hint}it has: {', '.join(keys) or 'none'}")


def graph_text(graph: GraphRecord, layout: Layout | None = None, *, key: str | None = None) -> str:
    """One graph: title, nodes, symbols, ending, notes; then the bodies of its higher-order ops, each once.

    ``key`` is what to call it, the graph's own key without it.
    """
    layout = layout or Layout()
    key = labels.graph_keys([graph])[0] if key is None else key
    parts = [_section(GraphView(graph), layout, graph_title(key, graph))]
    for child in graph.children:
        title = f"{key} ▸ {labels.name_text(child.name or 'body')}"
        parts.append(_section(GraphView(child, graph.children), layout, title, body=True))
    return "\n\n".join(parts)


def graph_title(key: str, graph: GraphRecord) -> str:
    """``0/0 MLP.forward``: the key and the code's name, each once."""
    return key if graph.name in ("", key) else f"{key} {labels.code_text(graph.name)}"


def _section(view: GraphView, layout: Layout, name: str, *, body: bool = False) -> str:
    """One table with its title, and what is said under it."""
    dress = Dress(layout)
    title = dress.title(name, *title_parts(view, body=body))
    under = list(_under(view, dress))
    return "\n".join([title, _body(view, layout), *(["", *under] if under else [])])


def _body(view: GraphView, layout: Layout) -> str:
    if layout.format == "tree":
        from .tree import tree_text

        return tree_text(view, layout)
    return table_text(view, layout)


def title_parts(view: GraphView, *, body: bool = False) -> list[str]:
    """What a title says after the name: ``model.py:12``, ``on cpu``, how it ended, ``15 nodes, 6 ops …``."""
    graph = view.graph
    devices = sorted(filter(None, view.devices), key=lambda name: -view.devices[name])
    device = f"on {', '.join(devices)}" if devices else ""
    ending = "" if body else view.ending
    parts = (labels.place_text(graph.file, graph.line), device, ending, ", ".join(view.counts))
    return [part for part in parts if part]


# --- under the table ---


def _under(view: GraphView, dress: Dress) -> Iterator[str]:
    yield from dress.lines(symbol_lines(view, dress.layout))
    graph = view.graph
    if graph.ended_by is not None:
        yield from dress.lines(break_lines(graph.ended_by), "yellow")
    if graph.never_ran:
        yield from dress.lines([f"never ran: {graph.never_ran}"], "yellow")
    yield from dress.lines([f"note: {note}" for note in graph.notes])
    yield from dress.lines(problem_lines(graph.problems), "red")


MAX_SYMBOLS = 24
"""Symbols that a terminal lists; a file gets all."""


def symbol_lines(view: GraphView, layout: Layout = Layout()) -> Iterator[str]:  # noqa: B008  # Layout is frozen
    """``s0 = 8  in [2, ∞]  from x.shape[0], y.shape[0]``, in columns, then the relations between them."""
    rows = view.symbols
    if layout.width is not None and not layout.all_rows:
        rows = rows[:MAX_SYMBOLS]
    heads = [(f"{row.name} = {row.hint}" if row.hint else row.name, row.range) for row in rows]
    widths = [max((width(head[i]) for head in heads), default=0) for i in range(2)]
    for row, head in zip(rows, heads, strict=True):
        columns = [text + " " * (w - width(text)) for text, w in zip(head, widths, strict=True)]
        sources = f"from {row.sources}" if row.sources else ""
        note = f"({row.note})" if row.note else ""
        line = "  ".join(part for part in (*columns, note, sources) if part).rstrip()
        if layout.width is not None and sources and width(line) > layout.width and not layout.markup:
            yield line.removesuffix(sources).rstrip()
            line = f"  {sources}"
        yield line
    if len(rows) < len(view.symbols):
        yield f"… {labels.plural(len(view.symbols) - len(rows), 'more symbol')}; {layout.how_all}"
    yield from view.graph.relations


def break_lines(event: BreakInfo) -> Iterator[str]:
    """Why a graph ended: reason with its id, the line that caused it, and the first hint."""
    first, *more = (event.reason or "graph break").splitlines()
    name = f" ({event.id})" if event.id else ""
    yield f"graph break: {first}{name}"
    yield from (f"  {line.strip()}" for line in more if line.strip())
    if event.stack:
        frame = event.stack[-1]
        yield f"  at {labels.place_text(frame.file, frame.line)}  {frame.code.strip()}".rstrip()
    yield from (f"  hint: {hint}" for hint in event.hints[:1])


def problem_text(problem: Problem) -> str:
    """``problem at 0/0 linear_3: no value; why; fix``."""
    parts = [f"problem at {problem.where}: {problem.what}", problem.why, problem.fix]
    return "; ".join(part for part in parts if part)


# --- after the last graph ---


def _after(record: CaptureRecord, layout: Layout, *, totals: bool) -> Iterator[str]:
    dress = Dress(layout)
    counts = stats(record)
    if not record.graphs:
        yield from dress.lines(nothing_captured(record))
    elif totals and (
        len(record.graphs) > 1 or counts.breaks or counts.recompiles or counts.skipped or counts.given_up
    ):
        yield dress.line(totals_text(counts), "bold")
    yield from dress.lines(outcome_lines(record))
    yield from dress.lines([f"note: {note}" for note in record.notes])
    yield from dress.lines(problem_lines(record.problems), "red")


MOST_PLACES = 4


def problem_lines(problems: Sequence[Problem]) -> Iterator[str]:
    """Problems that say the same are one line that names their first places."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for problem in problems:
        places.setdefault((problem.what, problem.why, problem.fix), []).append(problem.where)
    for (what, why, fix), where in places.items():
        distinct = list(dict.fromkeys(where))
        more = f", … {len(distinct) - MOST_PLACES} more" if len(distinct) > MOST_PLACES else ""
        yield problem_text(Problem(", ".join(distinct[:MOST_PLACES]) + more, what, why, fix))


def totals_text(counts: Stats) -> str:
    """``3 graphs, 41 ops, 2 graph breaks (1 place), 1 recompile``: the counts of a capture in one line."""
    texts = [labels.plural(counts.graphs, "graph"), labels.plural(counts.ops, "op")]
    texts.append(labels.plural(counts.breaks, "graph break"))
    if counts.break_locations not in (0, counts.breaks):
        texts[-1] += f" ({labels.plural(counts.break_locations, 'place')})"
    texts.append(labels.plural(counts.recompiles, "recompile"))
    if counts.resume_recompiles:
        texts[-1] += f" ({counts.resume_recompiles} of resumed frames)"
    if counts.skipped:
        texts.append(f"{labels.plural(counts.skipped, 'frame')} left in eager")
    if counts.given_up:
        texts.append(f"{labels.plural(counts.given_up, 'function')} over the recompile limit")
    return ", ".join(texts)


NO_FRAME = "Dynamo saw no frame: nothing compiled was called, or it was compiled already"


def nothing_captured(record: CaptureRecord) -> list[str]:
    """That there is no graph, and for every frame that Dynamo looked at why."""
    lines = ["no graph was captured"]
    if not record.frames:
        lines.append(f"  {NO_FRAME}")
    return lines + [f"  {frame_text(frame)}" for frame in record.frames]


def frame_text(frame: FrameRecord) -> str:
    """``f  model.py:3  skipped: Failed to trace builtin operator``."""
    place = labels.place_text(frame.file, frame.line)
    outcome = f"{frame.outcome}: {frame.reason}" if frame.reason else frame.outcome
    return "  ".join(part for part in (labels.name_text(frame.name), place, outcome) if part)


# --- what stands around a table, in the words of its format ---

_TITLES: dict[str, str] = {
    "github": "### {}\n", "pipe": "### {}\n", "html": "<h3>{}</h3>", "unsafehtml": "<h3>{}</h3>", "rst": "{}\n",
    "jira": "h3. {}", "textile": "h3. {}\n", "mediawiki": "=== {} ===", "moinmoin": "=== {} ===",
    "asciidoc": "=== {}\n", "orgtbl": "*** {}", "youtrack": "### {}\n", "tsv": "# {}",
}  # fmt: skip
_LINES: dict[str, str] = {
    "github": "- {}", "pipe": "- {}", "youtrack": "- {}", "html": "<p>{}</p>", "unsafehtml": "<p>{}</p>", "rst": "* {}",
    "jira": "* {}", "textile": "* {}", "mediawiki": "* {}", "moinmoin": " * {}", "asciidoc": "* {}", "orgtbl": "- {}",
    "tsv": "# {}",
}  # fmt: skip


class Dress:
    """Titles and lines around the tables of one layout: escaped, marked up, wrapped and coloured as it asks."""

    def __init__(self, layout: Layout):
        self.layout = layout
        latex = layout.format.startswith("latex")
        self.heading = "% {}" if latex else _TITLES.get(layout.format, "{}")
        self.item = "% {}" if latex else _LINES.get(layout.format, "{}")
        self.escape = _around_escape(layout.format)

    def title(self, *parts: str) -> str:
        """The parts on one line; where a terminal is too narrow, the last ones go into the next lines."""
        texts = [self.escape(part) for part in parts]
        lines = [" · ".join(texts)]
        room = self.layout.width or 0
        if self._wraps and width(lines[0]) > room:
            heads = [" · ".join(texts[:end]) for end in range(1, len(texts))]
            end = max((i for i, head in enumerate(heads, 1) if width(head) <= room), default=1)
            lines = [*_wrapped(heads[end - 1], room), *_wrapped(" · ".join(texts[end:]), room)]
        painted = [self._paint(lines[0], "bold"), *(self._paint(line, "dim") for line in lines[1:])]
        return self.heading.format("\n".join(painted))

    @property
    def _wraps(self) -> bool:
        return self.layout.width is not None and not self.layout.markup

    def line(self, text: str, color: str = "") -> str:
        """One line, on a narrow terminal as many as it takes; the further ones are indented."""
        before, after = self.item.split("{}")
        shown = self.escape(text)
        lines = [shown]
        if self._wraps and width(shown) > (self.layout.width or 0):
            lines = _folded(shown, self.layout.width or 0)
        return f"{before}{chr(10).join(self._paint(line, color) for line in lines)}{after}"

    def lines(self, texts: Sequence[str] | Iterator[str], color: str = "") -> list[str]:
        """Several lines."""
        return [self.line(text, color) for text in texts]

    def _paint(self, text: str, color: str) -> str:
        if not self.layout.colored or not color:
            return text
        return f"\x1b[{_CODES[color]}m{text}\x1b[0m"


def _folded(line: str, room: int) -> list[str]:
    """The line in several, torn between words, each further one indented by two more than the first."""
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line, max(room, 20), subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False
    )


def _wrapped(line: str, room: int) -> list[str]:
    """The line, torn after commas and dots where it is longer than ``room``."""
    glued = re.sub(r"(?<![,·]) (?!·)", "\0", line)
    lines = textwrap.wrap(glued, max(room, 20), break_long_words=False, break_on_hyphens=False)
    return [part.replace("\0", " ") for part in lines]


_CODES = {"bold": 1, "dim": 2, "yellow": 33, "red": 31}


def _around_escape(table_format: str) -> Callable[[str], str]:
    """The escape for text around a table: tabulate, which escapes the cells of HTML, does not see it."""
    if table_format == "html":
        return cell_escape("unsafehtml")
    return visible if table_format == "tree" else cell_escape(table_format)
