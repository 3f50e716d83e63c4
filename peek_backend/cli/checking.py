"""What is wrong with a project's snapshots, looked at without running a test: unreadable, waiting, without a test of theirs.

Comes in: snapshot folders. Goes out: plain findings for ``peek check``, ``review`` and ``prune``. No torch.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from ..diff import Diff, Policy, Verdict, compare, verdict
from ..errors import PeekError
from ..model.snapshot import Snapshot
from ..pinned import bases_of, mirror_of, project_policy, project_root, without_unused
from ..snapshot.store import SUFFIX, Slot, pending_in, safe_stem, snapshots_in
from .operands import read_snapshot
from .places import located, working_tree

RUN = "run"


@dataclass(frozen=True)
class Project:
    """The project of the current folder: top, policy, snapshot folders; ``asked`` are the files and folders to look at."""

    root: Path
    policy: Policy
    bases: tuple[Path, ...]
    asked: tuple[Path, ...]

    @property
    def slots(self) -> list[Slot]:
        slots = [slot for base in self.bases for slot in snapshots_in(base)]
        return [slot for slot in slots if self._is_asked(slot) and not ("/" in slot.group and self.mirror)]

    @property
    def waiting(self) -> list[Slot]:
        return [slot for base in self.bases for slot in pending_in(base) if self._is_asked(slot)]

    @cached_property
    def mirror(self) -> Path | None:
        """The one folder of all snapshots, where the policy names one."""
        return mirror_of(self.root.resolve(), self.policy)

    def _is_asked(self, slot: Slot) -> bool:
        """Whether a snapshot, what waits for it, its folder or its test is below what was asked for."""
        places = [slot.base, slot.path, slot.pending]
        if self.mirror is not None:
            places.append(self.root.resolve() / slot.base.relative_to(self.mirror))
        return any(place.is_relative_to(asked) for asked in self.asked for place in places)


def project(paths: Sequence[str]) -> Project:
    """The project, looked at below ``paths`` (default: all of it). Raises PeekError for a path that is not there."""
    root = project_root(Path.cwd())
    policy = project_policy(root)
    for path in paths:
        if not Path(path).exists():
            raise PeekError(f"there is no {path}", "", "name a folder with tests, or a snapshot folder")
    tops = [Path(path).resolve() for path in paths] or [root.resolve()]
    folders = [top if top.is_dir() else top.parent for top in tops]
    asked = [top if top.suffix == SUFFIX else folder for top, folder in zip(tops, folders, strict=True)]
    return Project(root, policy, tuple(bases_of(folders, root.resolve(), policy)), tuple(asked))


@dataclass(frozen=True)
class Waiting:
    """A change that waits for a review. ``verdict`` is None for a snapshot that is new, ``error`` what cannot be read."""

    slot: Slot
    new: Snapshot | None = None
    diff: Diff | None = None
    verdict: Verdict | None = None
    error: PeekError | None = None

    @property
    def key(self) -> object:
        """Equal for changes that read the same but for what is only told: they are reviewed together."""
        if self.verdict is None:
            return str(self.slot.path)
        return tuple(
            (f.level, f.group.kind, f.group.module, f.group.text, f.group.old, f.group.new)
            for f in self.verdict.findings
            if f.level != "info"
        )


def waiting(slot: Slot, where: Project, *, strict: bool = False) -> Waiting:
    """What waits for ``slot``, against its snapshot as it is now, with lines of the project's sources."""
    try:
        new = read_snapshot(slot.pending)
        if not slot.path.exists():
            return Waiting(slot, new)
        diff = compare(read_snapshot(slot.path), new)
    except PeekError as error:
        return Waiting(slot, error=error)
    judged = without_unused(verdict(diff, where.policy, strict=strict))
    return Waiting(slot, new, diff, located(judged, working_tree(where.root)))


def why_obsolete(slot: Slot, found: Snapshot | None, where: Project) -> str:
    """Why no test can use a snapshot any more; empty when one may, or when nothing can be told from the source.

    Tests are found in the text of their module: parametrised cases are pytest's to judge.
    """
    if not slot.group:
        return _no_program(found, where.root)
    file = _test_file(slot, where)
    if file is None:
        return f"there is no {slot.group}.py"
    if found is None:
        return ""
    test = found.name.partition("[")[0].partition("@")[0]
    classes, _, function = test.rpartition(".")
    names = _names(file, file.stat().st_mtime_ns)
    if names is None or _is_there(names, classes, function):
        return ""
    return f"{file.name} has no {test}"


def _no_program(found: Snapshot | None, root: Path) -> str:
    """Why the program of a snapshot cannot be run again, where its header names one."""
    command = dict(found.env).get(RUN) if found is not None else None
    words = shlex.split(command) if command else []
    if not words or words[0] == "-m" or (root / words[0]).exists():
        return ""
    return f"there is no {words[0]}"


def _test_file(slot: Slot, where: Project) -> Path | None:
    """The test module of a snapshot: beside the snapshot folder, or at the same place below the project's top."""
    mirror = where.mirror
    folder = slot.base.parent if mirror is None else where.root / slot.base.relative_to(mirror)
    exact = folder / f"{slot.group}.py"
    if exact.exists():
        return exact
    return next((f for f in sorted(folder.glob("*.py")) if safe_stem(f.stem) == slot.group), None)


Names = dict[str, "frozenset[str] | None"]


@lru_cache(maxsize=256)
def _names(file: Path, mtime: int) -> Names | None:
    """What a module binds: each name, of a class without unknown bases what it binds itself; None when that cannot be told."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    return _bound(tree.body)


def _bound(body: Iterable[ast.stmt]) -> Names | None:
    found: Names = {}
    for node in ast.walk(ast.Module(list(body), [])):
        if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names):
            return None
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(a.asname or a.name).partition(".")[0]: None for a in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.setdefault(node.name, None)
        elif isinstance(node, ast.ClassDef):
            plain = (
                all(isinstance(b, ast.Name) and b.id == "object" for b in node.bases)
                and not node.decorator_list
            )
            found[node.name] = frozenset(_bound(node.body) or ()) if plain else None
    return found


def _is_there(names: Names, classes: str, function: str) -> bool:
    """Whether a module may hold a test. Names within functions and classes count as the module's: rather too many."""
    if not classes:
        return function in names
    first = classes.partition(".")[0]
    if first not in names:
        return False
    inside = names.get(classes.rpartition(".")[2])
    return inside is None or function in inside
