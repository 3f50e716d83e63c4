"""What the backend prints and saves for each graph: the only part of the backend that touches streams and files."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .errors import PeekError
from .export import PER_GRAPH, as_problem, graph_paths, unique_name, write, write_graph
from .model import SCHEMA_VERSION, CaptureRecord, GraphRecord, Problem
from .options import Options, SaveTarget, wants_color
from .saving import Pace


class _Shown(NamedTuple):
    """What was said of a later stage's compile, and its record where a file holds it."""

    line: str
    record: GraphRecord | None


class Report:
    """Shows graphs as they come; remembers, for each path that ``save`` names, what it has written there.

    ``reset`` forgets that, as ``torch._dynamo.reset()`` makes compile ids start again.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._saved: dict[Path, list[GraphRecord]] = {}
        self._told: set[Problem] = set()
        self._stages: dict[tuple[int, str], _Shown] = {}
        self._printed = False
        self._notes: list[str] = []  # of the pictures just saved, until they are told
        self._pace = Pace()

    def reset(self) -> None:
        with self._lock:
            self._pace.flush()
            self._saved.clear()
            self._told.clear()
            self._printed = False
            self._stages.clear()

    def show(self, graph: GraphRecord, options: Options, problems: Sequence[Problem] = ()) -> None:
        """Print the graph and save it. A file that cannot be written is a Problem that is told; ``strict`` raises it."""
        problems = list(problems)
        with self._lock:
            if not options.quiet and "dynamo" in options.stages:
                self._print(graph, options)
            if options.save is not None:
                problems.extend(self._save(graph, options.save, options))
            self._tell(problems, options)

    def show_stage(self, place: tuple[int, str], graph: GraphRecord, options: Options) -> None:
        """Print a graph of a later stage when it first comes, and save it; what becomes known later is a line of its own.

        What could not be read of it stands below its table, or is told where that is not shown; with ``quiet`` it is in the
        record alone, as that of a first graph.
        """
        from .render.stages import outcome_line

        with self._lock:
            before = self._stages.get(place)
            line = outcome_line(graph)
            self._stages[place] = _Shown(line, graph if options.save is not None else None)
            if not options.quiet and graph.stage in options.stages:
                self._print_stage(before, line, graph, options)
            problems = [] if options.quiet else list(graph.problems)
            if options.save is not None:
                old = before.record if before is not None else None
                problems += self._save(graph, options.save, options, old)
            self._tell(problems, options)

    def _print_stage(self, before: _Shown | None, line: str, graph: GraphRecord, options: Options) -> None:
        from .render.stages import stage_lines

        if before is None:
            self._print(graph, options)
            self._told.update(graph.problems)
            lines = list(stage_lines(graph))
        else:
            lines = [line] if line != before.line else []
        _write(_stream(options), "".join(f"{line}\n" for line in lines if line))

    def _print(self, graph: GraphRecord, options: Options) -> None:
        from .render.table import Layout
        from .render.text import graph_text

        stream = _stream(options)
        width = terminal_width(stream)
        layout = Layout(
            format=options.format,
            columns=options.columns,
            width=width,
            color=wants_color(options.color, stream),
            all_rows=width is None,
            how_all="save='graphs.txt' or PEEK_SAVE=graphs.txt writes every row",
        )
        text = graph_text(graph, layout)
        _write(stream, ("\n" if self._printed else "") + text + "\n")
        self._printed = True

    def _tell(self, problems: Sequence[Problem], options: Options) -> None:
        """Each problem once, ``quiet`` or not: what was asked for and did not happen must not go unsaid. Notes can."""
        if options.save is not None and not options.quiet:
            for note in dict.fromkeys(self._notes):
                _write(_stream(options), _note_text(note, options.save.path) + "\n")
        self._notes.clear()
        new = [p for p in problems if p not in self._told]
        self._told.update(new)
        for problem in new:
            _write(_stream(options), problem_text(problem) + "\n")

    def _save(
        self, graph: GraphRecord, target: SaveTarget, options: Options, before: GraphRecord | None = None
    ) -> list[Problem]:
        """Write the capture with ``graph``, which takes the place of ``before``; a new one gets files of its own too."""
        graphs = self._saved.setdefault(target.path.absolute(), [])
        at = next((i for i, g in enumerate(graphs) if g is before), None)
        if at is None:
            graphs.append(graph)
        else:
            graphs[at] = graph
        try:
            if target.kind not in PER_GRAPH:
                self._save_whole(graphs, target, options)
            return self._save_new(graphs, target) if at is None else []
        except Exception as error:
            if options.strict:
                raise
            return [as_problem(str(target.path), error)]

    def _save_whole(self, graphs: list[GraphRecord], target: SaveTarget, options: Options) -> None:
        """Write the capture so far, at once or at its time; an error is raised, or told when it comes late."""
        path, kind = target.path, target.kind
        if kind == "folder":
            path, kind = _capture_file(graphs, path), "json"

        def work() -> None:
            self._notes += write(_capture(graphs), path, kind=kind).notes

        def late() -> None:
            with self._lock:
                problems = []
                try:
                    work()
                except Exception as error:
                    problems = [as_problem(str(path), error)]
                self._tell(problems, options)

        if options.strict:
            work()
        else:
            self._pace.run(path.absolute(), len(graphs), work, late)

    def _save_new(self, graphs: list[GraphRecord], target: SaveTarget) -> list[Problem]:
        """The files of the last graph alone: its diagram; in a folder its table too, and DOT where nothing can draw it."""
        if target.kind in PER_GRAPH:
            self._notes += write_graph(graphs[-1], graph_paths(graphs, target.path)[-1], target.kind)
        if target.kind != "folder":
            return []
        picture = target.path / f"{unique_name(graphs)}.svg"
        write(_capture(graphs[-1:]), picture.with_suffix(".txt"))
        try:
            self._notes += write_graph(graphs[-1], picture, "svg")
        except PeekError as error:
            write_graph(graphs[-1], picture.with_suffix(".dot"), "dot")
            what = f"wrote DOT instead of SVG: {error.problem}"
            return [Problem(str(target.path), what, error.why, error.fix)]
        return []


def _note_text(note: str, path: Path) -> str:
    """A renderer's note; it names arguments that a picture saved by the backend does not have, so the way to have them."""
    more = f"see more with: peek show CAPTURE.json -o {path.name or 'graph.svg'} --full, or --expand GLOB"
    return f"peek: {path}: {more if note.startswith('see more with') else note}"


def _capture(graphs: Sequence[GraphRecord]) -> CaptureRecord:
    from .capture.environment import read_environment

    return CaptureRecord(SCHEMA_VERSION, read_environment(), tuple(graphs))


def _capture_file(graphs: Sequence[GraphRecord], folder: Path) -> Path:
    """The file of the whole capture in a folder, one a rank."""
    rank = graphs[-1].rank
    return folder / ("capture.json" if rank is None else f"capture.rank{rank}.json")


def _stream(options: Options) -> Any:
    return options.file if options.file is not None else sys.stderr


def _write(stream: Any, text: str) -> None:
    """Write whole; a stream that cannot take a character gets an escape for it, a closed one nothing."""
    if stream is None:
        return
    try:
        stream.write(text)
    except UnicodeEncodeError as error:
        stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))
    stream.flush() if hasattr(stream, "flush") else None


def terminal_width(stream: Any) -> int | None:
    """Columns of the terminal behind ``stream``; None for a file or a pipe, where nothing is cut."""
    isatty = getattr(stream, "isatty", None)
    if not (callable(isatty) and isatty()):
        return None
    return shutil.get_terminal_size().columns


def problem_text(problem: Problem) -> str:
    """A problem as one line a part."""
    lines = [f"peek: {problem.where}: {problem.what}"]
    if problem.why:
        lines.append(f"  why: {problem.why}")
    if problem.fix:
        lines.append(f"  fix: {problem.fix}")
    return "\n".join(lines)
