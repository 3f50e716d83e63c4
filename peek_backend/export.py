"""A record as a file of any kind: what ``save=``, ``record.save``, ``record.render`` and ``peek show -o`` share."""

from __future__ import annotations

import os
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .errors import PeekError, unknown_name
from .model import NOT_CALLED, NOTHING_CAPTURED, CaptureRecord, GraphRecord, Problem

if TYPE_CHECKING:
    from .analysis.heat import Amounts
    from .diff import Diff, Verdict

PER_GRAPH = ("dot", "svg", "png", "pdf")
"""Kinds that hold one graph a file."""

WHOLE = ("json", "txt", "md", "html")
"""Kinds that hold the whole capture."""


class Drawing(NamedTuple):
    """How much of a graph a diagram unfolds, and by what it is coloured; see ``render.dot.dot``.

    ``heat`` is ``flops``, ``bytes`` or ``memory``; None colours by kind of op.
    """

    depth: int | None = None
    expand: tuple[str, ...] = ()
    full: bool = False
    heat: str | None = None


AS_DEFAULT = Drawing()


class Written(NamedTuple):
    """Files that were written, and what the renderer had to leave out or fold."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def kind_of(path: str | Path) -> str:
    """The kind that a path's suffix names. Raises PeekError for an unknown one."""
    suffix = Path(path).suffix.lower().lstrip(".")
    kind = "dot" if suffix == "gv" else suffix
    if kind not in PER_GRAPH + WHOLE:
        raise unknown_name("file suffix", f".{suffix}", [f".{k}" for k in (*PER_GRAPH, "gv", *WHOLE)])
    return kind


def write(
    record: CaptureRecord,
    path: str | Path,
    *,
    kind: str | None = None,
    drawing: Drawing = AS_DEFAULT,
    whole: CaptureRecord | None = None,
) -> Written:
    """Write ``record`` to ``path`` by atomic replace; the suffix picks the kind.

    A kind that holds one graph a file writes the first graph to ``path`` and the others beside it, with their key in
    the name (``model-1_0.svg``). ``whole`` is the capture that the graphs were picked from, where it has more: a
    backward's memory is what its forward left.

    Raises PeekError when nothing was captured, a file cannot be written or drawn, or the heat is unknown.
    """
    path = Path(path)
    kind = kind or kind_of(path)
    if kind in WHOLE:
        return _write_whole(record, path, kind)
    if not record.graphs:
        raise no_graph(record, f"{path} was not written")
    notes: list[str] = []
    paths = graph_paths(record.graphs, path)
    for graph, target, heat in zip(record.graphs, paths, heats(record, drawing, whole), strict=True):
        notes.extend(write_graph(graph, target, kind, drawing, heat))
    return Written(tuple(paths), tuple(notes))


def no_graph(record: CaptureRecord, what: str) -> PeekError:
    """The error for a picture of no graph, ``what`` could not be done, with the record's own reasons where it has any."""
    reasons = [
        note.removeprefix(NOTHING_CAPTURED) for note in record.notes if note.startswith(NOTHING_CAPTURED)
    ]
    reasons = reasons or [f"{frame.name}: {frame.reason}" for frame in record.frames if frame.reason]
    reasons = reasons or [event.reason for event in record.breaks]
    reasons = reasons or [" ".join([p.what, p.why and f"({p.why})"]).rstrip() for p in record.problems]
    if reasons in ([], [NOT_CALLED]):
        why, fix = NOT_CALLED, "call the compiled function inside the session"
    else:
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        why, fix = f"{reasons[0]}{more}", "record.explain() or peek explain FILE says more"
    return PeekError(f"{what}: the capture holds no graph", why, fix)


def heats(
    record: CaptureRecord, drawing: Drawing, whole: CaptureRecord | None = None
) -> Sequence[Amounts | None]:
    """What each graph of ``record``, picked from ``whole``, is coloured by. Raises PeekError for an unknown heat."""
    if drawing.heat is None:
        return [None] * len(record.graphs)
    from .analysis.heat import amounts

    whole = record if whole is None else whole
    found = {id(g): heat for g, heat in zip(whole.graphs, amounts(whole, drawing.heat), strict=True)}
    return [found[id(graph)] for graph in record.graphs]


def write_graph(
    graph: GraphRecord, path: Path, kind: str, drawing: Drawing = AS_DEFAULT, heat: Amounts | None = None
) -> Sequence[str]:
    """Draw one graph to ``path``, coloured by its ``heat``; returns the renderer's notes."""
    from .snapshot.atomic import write_bytes

    data, notes = draw(graph, kind, drawing, heat)
    write_bytes(path, data)
    return notes


def draw(
    graph: GraphRecord, kind: str, drawing: Drawing = AS_DEFAULT, heat: Amounts | None = None
) -> tuple[bytes, Sequence[str]]:
    """One graph as DOT text or an image, with the renderer's notes; ``heat`` is that of ``heats``."""
    from .passes.selection import Choice
    from .render.dot import drawing as drawn

    picture = drawn(graph, Choice(drawing.depth, drawing.expand, drawing.full), heat=heat)
    if kind == "dot":
        return picture.text.encode(), picture.notes
    from .render.image import render_image

    return render_image(picture.text, kind), picture.notes


def whole_text(record: CaptureRecord, kind: str) -> str:
    """The whole capture as text of a kind of ``WHOLE`` other than json."""
    renderers: dict[str, Callable[[CaptureRecord], str]] = {"txt": _txt, "md": _markdown, "html": _page}
    return renderers[kind](record)


def _write_whole(record: CaptureRecord, path: Path, kind: str) -> Written:
    from .snapshot import jsonfile
    from .snapshot.atomic import write_text

    if kind == "json":
        jsonfile.write(path, record)
    else:
        write_text(path, whole_text(record, kind))
    return Written((path,))


def _txt(record: CaptureRecord) -> str:
    from .render.text import render_text

    return render_text(record, all_rows=True)


def _markdown(record: CaptureRecord) -> str:
    from .render.markdown import markdown

    return markdown(record)


def _page(record: CaptureRecord) -> str:
    from .render.html import page

    return page(record, sources=source_texts(record))


def comparison_page(
    verdict: Verdict, diff: Diff, new: CaptureRecord, old: CaptureRecord, files: tuple[str, str]
) -> str:
    """The page of ``new`` with what changed since ``old``: ``diff`` is that of the two, judged in ``verdict``.

    ``files`` are the names of the old and the new capture, which the page shows.
    """
    from .render.html import page
    from .render.html.from_diff import page_diff

    names = [os.path.basename(file) for file in files]
    shown = page_diff(verdict, diff, new, old, files)
    title = " → ".join(names if names[0] != names[1] else files)
    return page(new, title=title, sources=source_texts(new), diff=shown)


MAX_SOURCE = 400_000
MAX_SOURCES = 3_000_000
"""Characters of one source file, and of all of them, that a page carries."""


def source_texts(record: CaptureRecord) -> dict[str, str]:
    """The texts of the source files that the nodes name and that are there, those with most nodes first, up to a size."""
    counts = Counter(
        node.source.file
        for graph in record.graphs
        for part in (graph, *graph.children)
        for node in part.nodes
        if node.source is not None and node.source.file
    )
    found: dict[str, str] = {}
    left = MAX_SOURCES
    for path, _ in counts.most_common():
        text = _source_text(path)
        if text is not None and len(text) <= min(MAX_SOURCE, left):
            found[path] = text
            left -= len(text)
    return found


def _source_text(path: str) -> str | None:
    """A Python file's text in the encoding that it declares; None for what is no readable file."""
    try:
        if not Path(path).is_file() or Path(path).stat().st_size > 4 * MAX_SOURCE:
            return None
        with tokenize.open(path) as file:
            return file.read()
    except (OSError, SyntaxError, UnicodeError, ValueError):
        return None


def graph_paths(graphs: Sequence[GraphRecord], path: Path) -> list[Path]:
    """One path a graph: ``path`` itself for the first, then ``stem-KEY.suffix``."""
    others = [
        path.with_name(f"{path.stem}-{unique_name(graphs[: i + 1])}{path.suffix}")
        for i in range(1, len(graphs))
    ]
    return [path, *others]


def unique_name(graphs: Sequence[GraphRecord]) -> str:
    """A file name for the last of ``graphs``: its key, with a running number when an earlier one has the same."""
    name = file_name(graphs[-1])
    before = sum(file_name(g) == name for g in graphs[:-1])
    return f"{name}-{before + 1}" if before else name


def file_name(graph: GraphRecord) -> str:
    """A graph's key as part of a file name: ``0_0``, ``0_0-backward``."""
    return re.sub(r"[^\w.!-]+", "-", graph.key.replace("/", "_"))


def as_problem(where: str, error: Exception) -> Problem:
    """What went wrong while writing or showing, as a record."""
    if isinstance(error, PeekError):
        return Problem(where, error.problem, error.why, error.fix)
    return Problem(where, f"{type(error).__name__}: {error}"[:500])
