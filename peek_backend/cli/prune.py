"""``peek prune``: delete the snapshots that nothing can use any more."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import PeekError
from ..pinned import shown
from ..snapshot.graphfile import read_graph
from ..snapshot.store import Slot, delete, temporaries_in
from .checking import Project, project, why_obsolete
from .diff import OBSOLETE, SAME
from .output import write_stdout


@click.command()
@click.argument("paths", nargs=-1)
@click.option("-n", "--dry-run", is_flag=True, help="Only list them.")
def prune(paths: tuple[str, ...], dry_run: bool) -> int:
    """Delete snapshots below PATHS (default: the project) whose test or program is gone, and what killed writes left behind.

    Tests are looked for in the source; a parametrised case that is gone only a complete pytest run can tell: pytest
    --peek-update=all.

    Exit code: 0, or with --dry-run 4 when there is something to delete.
    """
    where = project(paths)
    found = 0
    for slot in where.slots:
        why = why_obsolete(slot, _read(slot), where)
        if why:
            found += 1
            _remove(slot.path, slot.base, why, dry_run=dry_run)
    for slot in where.waiting:
        why = why_obsolete(slot, None, where)
        if why:
            found += 1
            write_stdout(f"{_word(dry_run)} {shown(slot.pending)}: {why}\n")
            if not dry_run:
                slot.drop_pending()
    found += _leftovers(where, dry_run=dry_run)
    if not found:
        write_stdout("nothing to delete\n")
    return OBSOLETE if found and dry_run else SAME


def _read(slot: Slot):
    """The snapshot; None for one that cannot be read, which is kept as long as its module is there."""
    try:
        return read_graph(slot.path)
    except PeekError:
        return None


def _remove(path: Path, base: Path, why: str, *, dry_run: bool) -> None:
    write_stdout(f"{_word(dry_run)} {shown(path)}: {why}\n")
    if not dry_run:
        delete(path, base)


def _leftovers(where: Project, *, dry_run: bool) -> int:
    paths = dict.fromkeys(path for base in where.bases for path in temporaries_in(base))
    for path in paths:
        write_stdout(f"{_word(dry_run)} {shown(path)}: left by a write that was killed\n")
        if not dry_run:
            path.unlink(missing_ok=True)
    return len(paths)


def _word(dry_run: bool) -> str:
    return "would delete" if dry_run else "deleted"
