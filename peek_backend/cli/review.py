"""``peek review``: accept or reject the changes that wait, one after the other."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase

import click

from ..errors import PeekError
from ..pinned import shown
from ..snapshot.graphfile import read_graph
from ..snapshot.store import Slot
from .checking import Project, Waiting, project, waiting
from .diff import FAILED, SAME
from .keys import single_keys
from .output import write_stdout

KEYS = "a accept   r reject   s skip   A R S the same for all the rest"
MAX_NAMED = 12


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--accept", metavar="GLOB", help="Accept those whose path or name fits, without asking.")
@click.option("--reject", metavar="GLOB", help="Reject those whose path or name fits, without asking.")
def review(paths: tuple[str, ...], accept: str | None, reject: str | None) -> int:
    """Show each change that waits below PATHS (default: the project), and accept (a), reject (r) or skip (s) it; A, R, S all
    the rest.

    Changes that read the same are shown once and decided together; 1 takes them one by one. Without a terminal the commands
    that decide are printed. An accepted change replaces the snapshot, a rejected one is forgotten.

    Exit code: 0 nothing waits any more, 1 something still does.
    """
    where = project(paths)
    if accept is not None or reject is not None:
        return _decide(where, accept, reject)
    found = [waiting(slot, where) for slot in where.waiting]
    if not found:
        write_stdout("nothing waits for a review\n")
        return SAME
    if sys.stdin.isatty() and sys.stdout.isatty():
        with single_keys() as key:
            _ask(_grouped(found), key)
    else:
        _print_commands(found)
    return FAILED if where.waiting else SAME


def _decide(where: Project, accept: str | None, reject: str | None) -> int:
    """Accept or reject by pattern. Raises PeekError when nothing that waits fits."""
    if accept is not None and reject is not None:
        raise PeekError("both --accept and --reject", "", "give one of them, then the other")
    pattern = accept if accept is not None else reject
    assert pattern is not None
    fitting = [slot for slot in where.waiting if _fits(slot, pattern)]
    if not fitting:
        names = ", ".join(_name(slot) for slot in where.waiting[:MAX_NAMED])
        raise PeekError(
            f"nothing that waits fits {pattern!r}", f"there are: {names}" if names else "nothing waits", ""
        )
    for slot in fitting:
        _settle(slot, accepted=accept is not None)
    return SAME


def _fits(slot: Slot, pattern: str) -> bool:
    """Whether a pattern names a snapshot; brackets in it are themselves, as they are in tests' names."""
    literal = pattern.replace("[", "[[]")
    names = (
        slot.stem,
        f"{slot.stem}.graph",
        shown(slot.path),
        shown(slot.pending),
        f"{slot.group}/{slot.stem}",
    )
    return any(fnmatchcase(name, literal) for name in names) or fnmatchcase(_name(slot), literal)


def _name(slot: Slot) -> str:
    """The name as it is shown: the test's own, which the file's may only resemble; the file's where that cannot be read."""
    try:
        return read_graph(slot.pending).name or slot.stem
    except PeekError:
        return slot.stem


def _settle(slot: Slot, *, accepted: bool) -> None:
    slot.accept() if accepted else slot.drop_pending()
    write_stdout(f"{'accepted' if accepted else 'rejected'}: {shown(slot.path)}\n")


def _grouped(found: Iterable[Waiting]) -> list[list[Waiting]]:
    """Changes that read the same, together, in order of each first one."""
    groups: dict[object, list[Waiting]] = {}
    for one in found:
        groups.setdefault(one.key, []).append(one)
    return list(groups.values())


def _print_commands(found: Sequence[Waiting]) -> None:
    """What waits, and the commands that decide about it."""
    for group in _grouped(found):
        write_stdout(_text(group, color=False))
        for one in group[:MAX_NAMED]:
            write_stdout(f"  peek review --accept '{shown(one.slot.path)}'\n")
        if len(group) > MAX_NAMED:
            write_stdout(f"  … and {len(group) - MAX_NAMED} more\n")
        write_stdout("\n")
    write_stdout(
        "all: peek review --accept '*'   none: peek review --reject '*'   (with a terminal peek review asks)\n"
    )


def _text(group: Sequence[Waiting], *, color: bool) -> str:
    """What one group changes, told once, and the names of the others."""
    first = group[0]
    if first.error is not None:
        text = f"{first.error}\n"
    elif first.verdict is None:
        assert first.new is not None
        stats = " ".join(f"{key}={value}" for key, value in first.new.stats.items())
        text = f"NEW {first.new.name}: {stats}\n  {shown(first.slot.path)}\n"
    else:
        from ..render.diff_text import render_text

        width = shutil.get_terminal_size().columns if color else 80
        text = render_text(
            first.verdict, width=max(width, 60), color=color, where_is=shown(first.slot.path), hints=()
        )
    others = [one.new.name if one.new is not None else one.slot.stem for one in group[1:]]
    if others:
        more = f" and {len(others) - MAX_NAMED} more" if len(others) > MAX_NAMED else ""
        text += f"  the same in {len(others)} more: {', '.join(others[:MAX_NAMED])}{more}\n"
    return text


def _ask(groups: list[list[Waiting]], key: Callable[[], str]) -> None:
    """Group by group until all are decided or skipped. Raises click.Abort where the terminal is closed."""
    rest = ""
    queue = list(groups)
    total = len(queue)
    while queue:
        group = queue.pop(0)
        if not rest:
            write_stdout(f"\n[{total - len(queue)}/{total}] " + _text(group, color=True))
        answer = rest or _key(group, key)
        if answer == "1":
            queue = [[one] for one in group] + queue
            total += len(group) - 1
            continue
        if answer.isupper():
            rest = answer
        for one in group:
            if answer in "aA" and one.error is None:
                _settle(one.slot, accepted=True)
            elif answer in "rR":
                _settle(one.slot, accepted=False)


def _key(group: Sequence[Waiting], key: Callable[[], str]) -> str:
    """One key, asked for until it is one that means something."""
    alone = len(group) == 1
    allowed = "arsARS" if alone else "arsARS1"
    write_stdout(f"  {KEYS}{'' if alone else '   1 one by one'} ")
    sys.stdout.flush()
    while True:
        char = key()
        if char in ("\x03", "\x04", ""):
            raise click.Abort
        if char in allowed:
            write_stdout(f"{char}\n")
            return char
