"""``peek run``: a program with every torch.compile in it observed, and a report when it ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from ..errors import PeekError
from ..model import CaptureRecord
from ..snapshot import read
from ..snapshot.atomic import ignore_in_git
from ..snapshot.journal import FOLDER, SUFFIX, InUse
from .output import SUFFIXES, View, document, options_of, report_view, tell, visible
from .program import Program
from .recorder import Recorder, children_of, observe_children, own_root

MOST_TABLES = 3  # graphs; of more the report lists names, unless asked
MOST_CHILDREN = 20  # lines that a report spends on child processes
MOST_AT_ONCE = 100  # runs of one program at the same time, each with a name of its own
_NO_CAPTURES = frozenset({*SUFFIXES, ".txt", ".py", ".pt2"} - {".json"})


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
    before, and takes another name (SCRIPT-2) beside one that still runs.
    """
    view = report_view(sys.stderr, **display)
    if tables is None and any(display[name] is not None for name in ("format", "columns", "all_rows")):
        tables = True  # who asks how tables look wants them
    program = Program(script, args, module)
    program.check()
    _check_output(output)
    root = own_root(Path(output) if output else _default_output(program))
    chosen = options_of(stages=stages, stages_from=stages_from)
    watching = {"count_calls": count_calls, "trace": trace}
    watching |= {"stages": chosen.stages, "stages_from": chosen.stages_from}
    recorder, path = _recorder(root, watching)
    for stale in children_of(recorder.root):
        stale.unlink(missing_ok=True)
    return lambda: _run(program, recorder, _Report(str(path), program.target, view, tables, browse))


def _check_output(output: str | None) -> None:
    """PeekError for a FILE that is no capture by its suffix: a picture to draw, or a program that was meant to run."""
    suffix = Path(output or "").suffix.lower()
    if suffix in _NO_CAPTURES:
        name = Path(output or "").with_suffix(SUFFIX).name
        drawn = (
            f", then: {shlex.join(['peek', 'show', name, '-o', str(output)])}" if suffix in SUFFIXES else ""
        )
        why = "-o of peek run takes the capture, a .jsonl or .json file"
        raise PeekError(f"peek run cannot write a {suffix} file", why, f"write -o {shlex.quote(name)}{drawn}")


def _default_output(program: Program) -> Path:
    """``peek-out/NAME.peek.jsonl``, in a folder that git ignores."""
    folder = Path(FOLDER)
    try:
        ignore_in_git(folder)
    except PeekError as refusal:
        _tidy(folder)
        raise PeekError(refusal.problem, refusal.why, "name the capture with -o FILE") from None
    return folder / f"{program.name}{SUFFIX}"


def _tidy(folder: Path) -> None:
    """Remove our folder when it holds nothing but what makes git ignore it."""
    with contextlib.suppress(OSError):
        if folder.name == FOLDER and {entry.name for entry in folder.iterdir()} <= {".gitignore"}:
            (folder / ".gitignore").unlink(missing_ok=True)
            folder.rmdir()


def _recorder(root: Path, watching: dict[str, Any]) -> tuple[Recorder, Path]:
    """The recorder of this run and the file that it writes: ``root``, or the next name that no other run is writing."""
    for number in range(1, MOST_AT_ONCE + 1):
        path = root if number == 1 else _numbered(root, number)
        try:
            recorder = Recorder(path.absolute(), path.absolute(), **watching)
        except InUse:
            continue
        except PeekError:
            _tidy(root.parent)
            raise
        if number > 1:
            tell(f"another run is writing {root}; this one writes {path}")
        return recorder, path
    raise PeekError(f"{root} is in use", f"{MOST_AT_ONCE} runs are writing it and beside it", "add -o FILE")


def _numbered(path: Path, number: int) -> Path:
    """``train-2.peek.jsonl`` of ``train.peek.jsonl``."""
    suffix = SUFFIX if path.name.endswith(SUFFIX) else path.suffix
    return path.with_name(f"{path.name.removesuffix(suffix)}-{number}{suffix}")


def _run(program: Program, recorder: Recorder, report: _Report) -> int:
    """Run the program. The report comes from atexit, after its threads and what it registered there itself."""
    observe_children(recorder.root, recorder.watching)
    recorder.start()
    atexit.register(_finish, recorder, report, os.getpid())
    try:
        loaded = program.load().compiled()
    except PeekError as error:
        _forget(recorder, report)
        tell(str(error))
        return 2
    except (SyntaxError, ValueError):
        if recorder.session is None:  # importing the packages of a module may have compiled something
            _forget(recorder, report)
        raise
    loaded.execute()
    return 0


def _forget(recorder: Recorder, report: _Report) -> None:
    """Of a program that never ran there is nothing to say and nothing to keep."""
    report.nothing_ran = True
    recorder.forget()
    _tidy(recorder.root.parent)


def _finish(recorder: Recorder, report: _Report, pid: int) -> None:
    """Close the capture and print the report; a forked child that came here too has nothing to print."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stdout.flush()
    recorder.finish()
    if os.getpid() == pid and not report.nothing_ran:
        report.print(recorder)
        report.open(recorder)


class _Report:
    """What is printed to stderr when the program has ended."""

    def __init__(
        self, path: str, program: str, view: View, tables: bool | None = None, browse: bool = False
    ) -> None:
        self.path, self.program, self.view, self.tables = path, program, view, tables
        self.browse = browse
        self.quiet = view.options.quiet
        self.nothing_ran = False
        self.stream = sys.stderr  # the program may put another in its place

    def print(self, recorder: Recorder) -> None:
        """Print; a stream that the program closed gets nothing, and no failure reaches the program's exit."""
        lines = self._unsaved(recorder) if self.quiet else self._lines(recorder)
        try:
            text = "".join(f"{line}\n" for line in lines)
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
        yield from self._unsaved(recorder)
        yield f"peek: capture of {visible(self.program)}: {visible(self.path)}"
        for child in children[:MOST_CHILDREN]:
            shown = visible(str(Path(self.path).with_name(child.name)))
            yield f"peek: child process: {shown} ({_what_is_in(child)})"
        if len(children) > MOST_CHILDREN:
            yield f"peek: … and {len(children) - MOST_CHILDREN} more"
        yield f"peek: look again with: peek show {visible(shlex.quote(self.path))}"

    def _unsaved(self, recorder: Recorder) -> Iterator[str]:
        """That the file is not complete, said to quiet ones too: they want the file."""
        if recorder.unsaved:
            yield f"peek: {visible(recorder.unsaved)}"

    def _captured(self, record: CaptureRecord) -> Iterator[str]:
        """The graphs as tables, or as a list where there are many, and what to mend."""
        explained = list(_explained(record, self.view, self.path))
        if not record.graphs:
            explained = explained[1:]  # nothing stands before it that an empty line could set it off from
        many = len(record.graphs) > MOST_TABLES if self.tables is None else not self.tables
        if many:
            from ..render.text import graph_list

            yield graph_list(record, width=self.view.width, color=self.view.color).rstrip("\n")
        else:
            yield from self._tables(record, told_later=bool(explained))
        yield from explained

    def _tables(self, record: CaptureRecord, *, told_later: bool) -> Iterator[str]:
        """The graphs as tables; counts, notes and problems of the whole capture once, here or in what is told later."""
        if not told_later:
            yield document(record, self.view).rstrip("\n")
        elif record.graphs:
            bare = msgspec.structs.replace(record, notes=(), problems=())
            yield document(bare, replace(self.view, totals=False)).rstrip("\n")


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
