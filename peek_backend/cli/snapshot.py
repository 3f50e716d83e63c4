"""``peek snapshot``: run a program and pin down what it compiled."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from ..errors import PeekError
from ..model.snapshot import Snapshot
from ..pinned import Outcome, Update, in_ci, judge, project_policy, project_root, settle, shown
from ..snapshot.store import Slot
from .diff import FAILED, MISSING, NOTHING, SAME
from .output import write_stdout
from .program import Program

RUN = "run"
"""The key of a snapshot's header that holds the command to take it again."""
_PYTHON = re.compile(r"python(3(\.\d+)?)?(\.exe)?")


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("-m", "module", is_flag=True, help="CMD is a module's name, as in python -m.")
@click.option("--name", metavar="NAME", help="The snapshot's name; without it the program's.")
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    help="Folder of the snapshot; without it dir of [tool.peek], at the project's top.",
)
@click.option("--update", is_flag=True, help="Accept what changed.")
@click.option("--strict", is_flag=True, help="Warnings fail: improvements must be accepted too.")
@click.argument("command", metavar="CMD…", nargs=-1, required=True, type=click.UNPROCESSED)
def snapshot(
    module: bool, name: str | None, folder: str | None, update: bool, strict: bool, command: tuple[str, ...]
) -> int:
    """Run CMD (a script, or a module with -m, and its arguments) and compare what it compiled with its snapshot.

    A snapshot that is missing is written; one that changed waits for peek review, or is replaced with --update. With CI set
    nothing is written without --update. peek check runs the command again.

    Exit code: 0 same or written, 1 a failing difference, 2 the program failed, 3 the snapshot is missing (CI), 5 nothing was
    captured.
    """
    words, is_module = without_python(command, module)
    root = project_root(Path.cwd())
    taken = take(words, module=is_module, name=name, root=root)
    base = Path(folder) if folder else root / project_policy(root).dir
    wanted: Update = "changed" if update else "none" if in_ci() else "new"
    outcome = judge(
        Slot.named(base, "", taken.name), taken, project_policy(root), strict=strict, update=wanted
    )
    written = settle(outcome, wanted, read_only=in_ci())
    write_stdout(told(outcome, written, _accepting(command, module=module, name=name, folder=folder)))
    return code_of(outcome, written)


def _accepting(command: Sequence[str], *, module: bool, name: str | None, folder: str | None) -> str:
    """The command that accepts what this one found: the same one, of the same snapshot."""
    options = [*(["--name", name] if name else []), *(["--dir", folder] if folder else [])]
    return shlex.join(["peek", "snapshot", "--update", *options, *(["-m"] if module else []), *command])


def without_python(command: Sequence[str], module: bool) -> tuple[tuple[str, ...], bool]:
    """``train.py --epochs 1`` of ``python train.py --epochs 1``. Raises PeekError for an interpreter's other options."""
    words = tuple(command)
    if module or not _PYTHON.fullmatch(Path(words[0]).name):
        return words, module
    words = words[1:]
    if words[:1] == ("-m",) and len(words) > 1:
        return words[1:], True
    if not words or words[0].startswith("-"):
        why = f"python {words[0] if words else ''}".strip() + " names no script or module"
        raise PeekError(
            "no program to take a snapshot of",
            why,
            "peek snapshot train.py, or peek snapshot -m package.train",
        )
    return words, False


def take(
    words: Sequence[str],
    *,
    module: bool,
    root: Path,
    name: str | None = None,
    folder: Path | None = None,
    to_stderr: bool = False,
) -> Snapshot:
    """Run a program in a process of its own, in ``folder`` or here, and what it compiled as a snapshot.

    With ``to_stderr`` its output goes there, because stdout is for what is said about it.
    Raises PeekError when there is no such program and when it fails.
    """
    from ..passes.canonical import canonicalise
    from ..snapshot import read

    program = Program(words[0], tuple(words[1:]), module)
    program.check()
    with tempfile.TemporaryDirectory(prefix="peek-") as scratch:
        capture = Path(scratch, "capture.peek.jsonl")
        flags = ["-m"] if module else []
        done = subprocess.run(
            [sys.executable, "-m", "peek_backend", "run", "-q", "-o", str(capture), *flags, *words],
            check=False,
            cwd=folder,
            env=_environment(),
            stdout=2 if to_stderr else None,
        )
        if done.returncode:
            why = f"it ended with exit code {done.returncode}"
            raise PeekError(
                f"{shlex.join(words)} failed, so no snapshot was taken",
                why,
                "mend the program, then take it again",
            )
        record = read(capture)
    env = {RUN: shlex.join([*(["-m"] if module else []), *_from(root, words, module)])}
    return canonicalise(record, name=name or program.name, root=str(root), env=env)


def _environment() -> dict[str, str]:
    """Ours, without the memory of sizes that an earlier run saw: it would make this run's graphs other ones."""
    quiet = {name: value for name, value in os.environ.items() if name not in ("PEEK_SAVE", "PEEK_FORMAT")}
    return {**quiet, "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "0"}


def _from(root: Path, words: Sequence[str], module: bool) -> list[str]:
    """The command with its script's path from the project's top, so that it runs from there wherever the project lies."""
    if module:
        return list(words)
    return [Path(os.path.relpath(Path(words[0]).resolve(), root.resolve())).as_posix(), *words[1:]]


def told(outcome: Outcome, written: str, accept: str, *, width: int = 80, color: bool = False) -> str:
    """What came of a comparison, in lines."""
    from ..render.diff_text import render_text

    path = shown(outcome.slot.path)
    if outcome.state == "nothing":
        reasons = [entry.reason for entry in outcome.new.skipped if entry.state == "NOTHING"]
        return (
            "\n".join([f"FAIL {outcome.new.name}: nothing was captured", *(f"  {r}" for r in reasons)]) + "\n"
        )
    if outcome.verdict is None:
        if written in ("new", "changed"):
            return f"new {outcome.new.name}: {path}\n"
        return f"FAIL {outcome.new.name}: there is no snapshot yet\n  {path}\naccept: {accept}\n"
    hints = () if written == "changed" else (f"accept: {accept}", "review: peek review")
    text = render_text(outcome.verdict, width=width, color=color, where_is=path, hints=hints)
    return text + (f"written: {path}\n" if written == "changed" else "")


def code_of(outcome: Outcome, written: str) -> int:
    """The exit code of one comparison."""
    if outcome.state == "nothing":
        return NOTHING
    if written in ("new", "changed"):
        return SAME
    if outcome.state == "missing":
        return MISSING
    return FAILED if outcome.failed else SAME
