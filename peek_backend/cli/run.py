"""``peek run``: a program with every torch.compile in it observed, and a report when it ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..errors import PeekError
from ..model import CaptureRecord
from ..snapshot import read
from ..snapshot.atomic import os_error
from ..snapshot.journal import SUFFIX
from .output import View, document, options_of, report_view, tell, visible
from .program import Program
from .recorder import Recorder, children_of, observe_children, own_root

FOLDER = "peek-out"
MOST_TABLES = 3  # graphs; of more the report lists names, unless asked
MOST_CHILDREN = 20  # lines that a report spends on child processes


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("-m", "module", is_flag=True, help="SCRIPT is a module's name, as in python -m.")
@click.option("-o", "--output", metavar="FILE", help=f"Capture to write [{FOLDER}/SCRIPT{SUFFIX}].")
@click.option(
    "-q", "--quiet", is_flag=True, default=None, help="No report; the capture is written all the same."
)
@click.option("--format", metavar="NAME", help="Format of the report: a tabulate format, or tree.")
@click.option("--columns", metavar="A,B,…", help="Columns of the tables, in order.")
@click.option("--all/--fold", "all_rows", default=None, help="Every row, or long graphs folded by module.")
@click.option(
    "--tables/--list",
    "tables",
    default=None,
    help=f"Every graph's table, or a line a graph [--list above {MOST_TABLES}].",
)
@click.option("--count-calls", is_flag=True, help="Count how often each compiled variant is called.")
@click.option(
    "--trace", is_flag=True, help="Read torch's structured trace too; compiling takes 4 to 5 % longer."
)
@click.option("--open", "browse", is_flag=True, help="Write the page as well and open it in the browser.")
@click.option("--stages", metavar="A,B,…", help="Stages to record: dynamo, joint, forward, …, or all.")
@click.option(
    "--stages-from", metavar="WHERE", help="live (AOTAutograd's cache is off) or log (all caches are kept)."
)
@click.option("--color", metavar="WHEN", help="auto, always or never.")
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(  # noqa: PLR0913, PLR0917 - one for each switch, by name from click
    module: bool,
    output: str | None,
    script: str,
    args: tuple[str, ...],
    count_calls: bool,
    trace: bool,
    stages: str | None,
    stages_from: str | None,
    tables: bool | None,
    browse: bool,
    **display: Any,
) -> Callable[[], int]:
    """Run SCRIPT with ARGS as python would, and report every graph that torch.compile captured.

    Every backend that the program names is observed and still runs. All that follows SCRIPT belongs to it, and the
    exit code is its own. The report goes to stderr when the program ends, also after an error. The capture is
    written while the program runs, so that a killed one leaves what peek show reads. Child processes (forks,
    multiprocessing, Python programs that it starts) write their own beside it. A run replaces the files of the one
    before.
    """
    view = report_view(sys.stderr, **display)
    if tables is None and any(display[name] is not None for name in ("format", "columns", "all_rows")):
        tables = True  # who asks how tables look wants them
    program = Program(script, args, module)
    program.check()
    root = own_root(Path(output) if output else _default_output(program))
    for stale in children_of(root):
        stale.unlink(missing_ok=True)
    chosen = options_of(stages=stages, stages_from=stages_from)
    watching = {"count_calls": count_calls, "trace": trace}
    watching |= {"stages": chosen.stages, "stages_from": chosen.stages_from}
    recorder = Recorder(root.absolute(), root.absolute(), **watching)
    return lambda: _run(program, recorder, _Report(str(root), program.target, view, tables, browse))


def _default_output(program: Program) -> Path:
    """``peek-out/NAME.peek.jsonl``, in a folder that git ignores by a file in it, as pytest's cache does."""
    folder = Path(FOLDER)
    try:
        folder.mkdir(exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
    except OSError as error:
        refusal = os_error("write", folder / ".gitignore", error)
        raise PeekError(refusal.problem, refusal.why, "name the capture with -o FILE") from None
    return folder / f"{program.name}{SUFFIX}"


def _run(program: Program, recorder: Recorder, report: _Report) -> int:
    """Run the program. The report comes from atexit, after its threads and what it registered there itself."""
    observe_children(recorder.root, recorder.watching)
    recorder.start()
    atexit.register(_finish, recorder, report, os.getpid())
    try:
        loaded = program.load()
    except PeekError as error:
        report.silent = True
        recorder.journal.path.unlink(missing_ok=True)  # nothing ran that it could be about
        tell(str(error))
        return 2
    loaded.execute()
    return 0


def _finish(recorder: Recorder, report: _Report, pid: int) -> None:
    """Close the capture and print the report; a forked child that came here too has nothing to print."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stdout.flush()
    recorder.finish()
    if os.getpid() == pid:
        if not report.silent:
            report.print(recorder)
        report.open(recorder)


class _Report:
    """What is printed to stderr when the program has ended."""

    def __init__(
        self, path: str, program: str, view: View, tables: bool | None = None, browse: bool = False
    ) -> None:
        self.path, self.program, self.view, self.tables = path, program, view, tables
        self.browse = browse
        self.silent = view.options.quiet
        self.stream = sys.stderr  # the program may put another in its place

    def print(self, recorder: Recorder) -> None:
        """Print; a stream that the program closed gets nothing, and no failure reaches the program's exit."""
        try:
            text = "".join(f"{line}\n" for line in self._lines(recorder))
        except Exception as error:
            text = f"peek: the report could not be made: {visible(f'{type(error).__name__}: {error}')}\n"
        with contextlib.suppress(AttributeError, OSError, ValueError):
            encoding = getattr(self.stream, "encoding", None) or "utf-8"
            self.stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            self.stream.flush()

    def open(self, recorder: Recorder) -> None:
        """Write the page and open it, where that was asked for; a failure is told, and the program's exit stays its own."""
        if not self.browse or recorder.session is None:
            return
        from .opening import open_page, page_path

        try:
            open_page(recorder.record, page_path(Path(self.path)))
        except Exception as error:
            tell(f"the page could not be written: {error}")

    def _lines(self, recorder: Recorder) -> Iterator[str]:
        children = children_of(recorder.root)
        yield ""
        if recorder.session is not None or recorder.problems:
            yield from self._captured(recorder.record)
        elif children:
            yield "no graph was captured in this process: its child processes used torch.compile"
        else:
            yield "no graph was captured: the program did not use torch.compile"
        yield ""
        yield f"peek: capture of {visible(self.program)}: {visible(self.path)}"
        for child in children[:MOST_CHILDREN]:
            shown = visible(str(Path(self.path).with_name(child.name)))
            yield f"peek: child process: {shown} ({_what_is_in(child)})"
        if len(children) > MOST_CHILDREN:
            yield f"peek: … and {len(children) - MOST_CHILDREN} more"
        yield f"peek: look again with: peek show {visible(self.path)}"

    def _captured(self, record: CaptureRecord) -> Iterator[str]:
        """The graphs as tables, or as a list where there are many, and what to mend."""
        explained = list(_explained(record, self.view, visible(self.path)))
        many = len(record.graphs) > MOST_TABLES if self.tables is None else not self.tables
        if many:
            from ..render.text import graph_list

            yield graph_list(record, width=self.view.width, color=self.view.color).rstrip("\n")
        else:
            yield document(record, replace(self.view, totals=not explained)).rstrip("\n")
        yield from explained


def _explained(record: CaptureRecord, view: View, path: str) -> Iterator[str]:
    """What to mend; nothing where all went into one graph, or where the report is markup."""
    from ..analysis.stats import stats
    from ..render.explain import explain_text
    from ..render.table import Layout

    counts = stats(record)
    if not any((counts.breaks, counts.recompiles, counts.failed, counts.given_up, not counts.graphs)):
        return
    if not Layout(format=view.format).markup:
        yield ""
        yield explain_text(record, width=view.width, color=view.color, file=path).rstrip("\n")


def _what_is_in(path: Path) -> str:
    """``2 graphs, 5 ops, …``: the counts of a child's capture, which it may still be writing."""
    from ..analysis.stats import stats
    from ..render.text import totals_text

    try:
        return totals_text(stats(read(path)))
    except PeekError as error:
        return error.why or error.problem
