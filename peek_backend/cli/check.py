"""``peek check``: whether the snapshots of a project hold, as far as can be told without its tests."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import click

from ..errors import PeekError
from ..model.snapshot import Snapshot
from ..pinned import in_ci, judge, settle, shown
from ..render.labels import plural
from ..snapshot.store import Slot
from .checking import RUN, Project, project, waiting, why_obsolete
from .diff import FAILED, MISSING, NOTHING, OBSOLETE, SAME, UNUSABLE, Pair, Show
from .operands import read_snapshot
from .output import tell, write_stdout

WORST = (UNUSABLE, FAILED, NOTHING, MISSING, OBSOLETE, SAME)
"""Exit codes, the one that hides the others first."""


@dataclass
class Report:
    """What was found: comparisons to show, lines to say, exit codes."""

    pairs: list[Pair]
    lines: list[str]
    codes: set[int]

    @property
    def code(self) -> int:
        return next(code for code in WORST if code in self.codes or code == SAME)


@click.command()
@click.argument("paths", nargs=-1)
@click.option(
    "--run/--no-run",
    default=True,
    help="Run the programs of peek snapshot again (default), or only look at files.",
)
@click.option("--strict", is_flag=True, help="Warnings fail: improvements must be accepted too.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(("text", "github", "markdown", "json", "html")),
    default="text",
    help="Of what changed.",
)
def check(paths: tuple[str, ...], run: bool, strict: bool, format_: str) -> int:
    """Check the snapshots below PATHS (default: the project) and write none.

    Each must be readable, have a test or program of its own, and no change of it may wait for a review. Programs that peek
    snapshot ran are run again and compared; tests are pytest's to run.

    Exit code: 0 all hold, 1 a failing difference, 2 one cannot be read, 3 one is missing, 4 one is obsolete, 5 nothing was
    captured. Where several apply it is the first of 2, 1, 5, 3, 4.
    """
    where = project(paths)
    report = Report([], [], set())
    for slot in where.slots:
        _look_at(slot, where, report, run=run, strict=strict)
    for slot in where.waiting:
        _look_at_waiting(slot, where, report, strict=strict)
    if report.pairs or format_ in ("json", "html"):
        color = format_ == "text" and sys.stdout.isatty()
        Show(format_, where.root, color=color, tally=False).write(report.pairs)
    say = (lambda line: write_stdout(f"{line}\n")) if format_ == "text" else tell
    for line in [*report.lines, *_tally(where)]:
        say(line)
    return report.code


def _tally(where: Project) -> Iterator[str]:
    """How many snapshots there are, and what to do about those that wait."""
    slots, waits = where.slots, where.waiting
    if waits:
        yield f"{plural(len(waits), 'change')} wait{'s' if len(waits) == 1 else ''}: peek review"
    folders = {slot.base for slot in (*slots, *waits)}
    yield f"{plural(len(slots), 'snapshot')} in {plural(len(folders), 'folder')}"


def _look_at(slot: Slot, where: Project, report: Report, *, run: bool, strict: bool) -> None:
    """One snapshot: that it reads, has its test, and, for a program, that it is what the program compiles now."""
    try:
        found = read_snapshot(slot.path)
    except PeekError as error:
        report.lines.append(str(error))
        report.codes.add(UNUSABLE)
        return
    why = why_obsolete(slot, found, where)
    if why:
        report.lines.append(f"obsolete: {shown(slot.path)}: {why} (peek prune deletes it)")
        report.codes.add(OBSOLETE)
    elif run and dict(found.env).get(RUN):
        _run_again(slot, found, where, report, strict=strict)


def _run_again(slot: Slot, found: Snapshot, where: Project, report: Report, *, strict: bool) -> None:
    """Take a program's snapshot again. What changed waits for a review, unless CI is set."""
    from .snapshot import take

    words = shlex.split(dict(found.env)[RUN])
    module = words[:1] == ["-m"]
    words = words[1:] if module else [str(where.root / words[0]), *words[1:]]
    try:
        taken = take(
            words, module=module, name=found.name, root=where.root, folder=where.root, to_stderr=True
        )
        outcome = judge(slot, taken, where.policy, strict=strict)
    except PeekError as error:
        report.lines.append(f"{shown(slot.path)}: {error}")
        report.codes.add(UNUSABLE)
        return
    settle(outcome, "none", read_only=in_ci())
    if outcome.state == "nothing":
        report.lines.append(f"{shown(slot.path)}: nothing was captured")
        report.codes.add(NOTHING)
    elif outcome.failed and in_ci():  # elsewhere it waits now, and is told with what waits
        report.codes.add(FAILED)
        report.pairs.append(Pair(shown(slot.path), outcome.verdict, outcome.diff, file=slot.path))


def _look_at_waiting(slot: Slot, where: Project, report: Report, *, strict: bool) -> None:
    one = waiting(slot, where, strict=strict)
    if one.error is not None:
        if str(one.error) not in report.lines:  # a broken snapshot was told already
            report.lines.append(str(one.error))
        report.codes.add(UNUSABLE)
    elif one.verdict is None:
        report.lines.append(f"missing: {shown(slot.path)}: its first version waits for peek review")
        report.codes.add(MISSING)
    else:
        if all(pair.path != shown(slot.path) for pair in report.pairs):
            report.pairs.append(Pair(shown(slot.path), one.verdict, one.diff, file=slot.path))
        report.codes.add(FAILED if one.verdict.failed else SAME)
