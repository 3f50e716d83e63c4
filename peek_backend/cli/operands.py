"""What ``peek diff`` compares: a file, a folder of snapshots, or either of them in a git revision."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ..errors import PeekError
from ..model.snapshot import Snapshot
from ..pinned import mirror_of, project_policy, project_root, shown
from ..snapshot.atomic import read_bytes
from ..snapshot.graphfile import decode_graph
from ..snapshot.store import PENDING, SUFFIX, bases_below

GIT = "git:"


class Missing(PeekError):
    """A snapshot that is not there."""


@dataclass(frozen=True)
class Side:
    """One operand. ``files`` maps the path within a folder to what reads it; a single file has the path ``""``.

    ``at`` is the folder or file as it is called in the working tree, ``capture`` where a single file's whole capture is read
    from, where it has one, ``revision`` what git calls the commit that it is read from, empty for the working tree.
    """

    label: str
    at: Path
    files: Mapping[str, Callable[[], Snapshot]] = field(default_factory=dict)
    capture: Path | None = None
    revision: str = ""

    @property
    def is_folder(self) -> bool:
        return "" not in self.files


def sides(old: str, new: str | None) -> tuple[Side, Side]:
    """Both operands. Without ``new``: a revision against the working tree, or a path against its last commit.

    Raises Missing for a file that is not there, PeekError for what else cannot be compared.
    """
    if new is None:
        if old.startswith(GIT):
            _, path = _split(old)
            return side(old), side(path or ".", snapshots_only=True)
        now = side(old)  # first, so that a name of nothing is not said to be missing in the revision
        return side(f"{GIT}HEAD:{old}"), now
    left, right = side(old), side(new)
    if left.is_folder != right.is_folder:
        why = f"{left.label} is a {_kind(left)}, {right.label} a {_kind(right)}"
        raise PeekError("a file and a folder cannot be compared", why, "name two files or two folders")
    return left, right


def _kind(operand: Side) -> str:
    return "folder" if operand.is_folder else "file"


def side(text: str, *, snapshots_only: bool = False) -> Side:
    """One operand: a path, or ``git:REV`` with ``:PATH`` behind it; with ``snapshots_only`` of a folder its snapshot folders."""
    if text.startswith(GIT):
        return _in_git(text)
    path = Path(text)
    if path.is_dir():
        return Side(text, path, _in_folder(path, snapshots_only))
    if not path.exists():
        raise Missing(
            f"there is no {text}", "the snapshot is missing", "write it with pytest … --peek-update=new"
        )
    capture = None if path.suffix == SUFFIX else path
    return Side(text, path, {"": lambda: read_snapshot(path)}, capture)


def _in_folder(folder: Path, snapshots_only: bool) -> dict[str, Callable[[], Snapshot]]:
    """Every snapshot of a folder by its path from there, without what waits for a review."""
    found = {}
    for top in _tops(folder) if snapshots_only else [folder]:
        for path in sorted(top.rglob(f"*{SUFFIX}")):
            if PENDING not in path.parts and path.is_file():
                found[path.relative_to(folder).as_posix()] = lambda path=path: read_snapshot(path)
    return found


def _tops(folder: Path) -> list[Path]:
    """The snapshot folders below ``folder``."""
    root = project_root(folder.resolve())
    policy = project_policy(root)
    mirror = mirror_of(root.resolve(), policy)
    if mirror is None:
        return bases_below([folder], policy.dir)
    if folder.resolve().is_relative_to(mirror):
        return [folder]
    return [folder / mirror.relative_to(folder.resolve())] if mirror.is_relative_to(folder.resolve()) else []


def _pinned(names: Sequence[str]) -> list[str]:
    """Of the files that git lists below the current folder those that are in a snapshot folder of the project."""
    here = Path.cwd().resolve()
    root = project_root(here)
    policy = project_policy(root)
    mirror = mirror_of(root, policy)
    if mirror is None:
        return [name for name in names if policy.dir in PurePosixPath(name).parts]
    return [name for name in names if (here / name).is_relative_to(mirror)]


def read_snapshot(path: Path) -> Snapshot:
    """The snapshot in a file: a .graph, or a capture (.json, .peek.jsonl, .pt2). Raises PeekError when it is none."""
    if path.suffix == ".pt2":
        from .show import load

        return _of_record(load(str(path)), path.stem)
    return decode_any(read_bytes(path), shown(path), path.name)


def decode_any(data: bytes, where: str, name: str) -> Snapshot:
    """The snapshot that bytes hold, a .graph's or a capture's. Raises PeekError when they hold none."""
    if name.endswith(SUFFIX) or data.removeprefix(b"\xef\xbb\xbf").startswith(b"peek-graph"):
        return decode_graph(data, where)
    from ..snapshot import decode

    stem = name.removesuffix(".jsonl").removesuffix(".peek").removesuffix(".json")
    return _of_record(decode(data, where), stem)


def _of_record(record, name: str) -> Snapshot:
    from ..passes.canonical import canonicalise

    return canonicalise(record, name=name, root=str(project_root(Path.cwd())))


def _split(text: str) -> tuple[str, str]:
    """Revision and path of ``git:REV:PATH``. Raises PeekError for an empty revision."""
    revision, _, path = text.removeprefix(GIT).partition(":")
    if not revision or revision.startswith("-"):
        raise PeekError(
            f"{text!r} names no revision", "", "write git:HEAD, git:main or git:v1.2:path/to/file.graph"
        )
    return revision, path


def _in_git(text: str) -> Side:
    """A file or folder of a revision, paths from the current folder."""
    revision, path = _split(text)
    commit = (
        git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"], revision)
        .decode()
        .strip()
    )
    path = Path(os.path.relpath(path)).as_posix() if path else "."
    listed = git(["ls-tree", "-r", "-z", "--name-only", commit, "--", path], revision).decode(
        "utf-8", "surrogateescape"
    )
    names = [name for name in listed.split("\0") if name]
    if names == [path]:
        return Side(text, Path(path), {"": _blob(commit, path, f"{revision}:{path}")}, revision=commit)
    if path != "." and not names:
        raise Missing(
            f"there is no {path} in {revision}",
            "the snapshot is missing there",
            "compare with another revision",
        )
    prefix = "" if path == "." else f"{path}/"
    wanted = [name for name in names if name.endswith(SUFFIX) and f"{PENDING}/" not in name]
    if path == ".":
        wanted = _pinned(wanted)
    files = {n.removeprefix(prefix): _blob(commit, n, f"{revision}:{n}") for n in wanted}
    return Side(text, Path(path), files, revision=commit)


def _blob(commit: str, path: str, where: str) -> Callable[[], Snapshot]:
    return lambda: decode_any(
        git(["cat-file", "blob", f"{commit}:./{path}"], where), where, PurePosixPath(path).name
    )


def git(args: Sequence[str], what: str) -> bytes:
    """What a git command prints. Raises PeekError without git, outside of a repository and for an unknown revision."""
    try:
        done = subprocess.run(["git", *args], capture_output=True, check=False)
    except OSError as error:
        raise PeekError("git cannot be run", str(error), "install git, or compare two files") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().removeprefix("fatal: ")
        fix = "check the name: git log --oneline"
        if "not a git repository" in said:
            fix = "run it inside of the repository, or compare two files"
        raise PeekError(f"git has no {what}", said or "there is no such revision", fix)
    return done.stdout
