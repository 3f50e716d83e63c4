"""The folder in which a project keeps its snapshots: names, files, changes that wait, one writer a file.

::

    tests/
      test_model.py
      __graphs__/
        test_model/
          test_mlp[dynamic].graph
          TestDecoder.test_step@prefill.graph
        .pending/                        what waits for `peek review`; git ignores it
          test_model/
            test_mlp[dynamic].graph

Each snapshot is a file of its own, replaced whole, so that no number of processes can lose one, and one that is
killed leaves the old file or the new.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .atomic import ignore_in_git, os_error, read_bytes, write_bytes

SUFFIX = ".graph"
PENDING = ".pending"
MAX_STEM = 120
"""Characters of a file's name before its suffix: 120 of 4 bytes fail nowhere with the temporary name of a write."""

_UNSAFE = re.compile(r"[^\w\[\].@=,+-]+", re.ASCII)
# What Windows keeps for devices, whatever the suffix.
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
_TEMPORARY = re.compile(r"\..+\.\d+\.[0-9a-f]{8}\.tmp")
# Folders in which no project keeps its own snapshots.
_SKIPPED = frozenset(
    {"node_modules", "site-packages", "dist-packages", "__pycache__", "venv", "build", "dist"}
)


def safe_stem(name: str) -> str:
    """A file name, without suffix, that every system takes: ``test_mlp[dynamic]`` as it is.

    Letters, digits and ``_ - . [ ] = , + @`` stay; anything else becomes ``-``, and the name then ends in a hash of the whole,
    as a long one does, so that two names never share a file. So does one with a capital in a function's name or a
    parameter (``test_a[N]~1f0c9ab2``): some file systems do not tell it from ``test_a[n]``. A class keeps its capitals.
    """
    text = _UNSAFE.sub("-", name).lstrip(".")
    if _DEVICES.fullmatch(text):
        text = f"_{text}"
    if text == name and len(text) <= MAX_STEM and text and not _has_capitals(name):
        return text
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{text[: MAX_STEM - 9].rstrip('.-')}~{digest}"


def _has_capitals(name: str) -> bool:
    """Whether a name has a capital outside of a class's: ``TestDecoder.test_step`` has none."""
    head = name.partition("[")[0].partition("@")[0]
    classes = head.rpartition(".")[0]
    plain = name[len(classes) :]
    return plain != plain.lower()


@dataclass(frozen=True)
class Slot:
    """Where one snapshot lives: ``base/group/stem.graph``. ``group`` is the test module's name, or empty."""

    base: Path
    group: str
    stem: str

    @classmethod
    def named(cls, base: Path, group: str, name: str) -> Slot:
        """The place of the snapshot ``name``."""
        return cls(base, safe_stem(group) if group else "", safe_stem(name))

    @property
    def path(self) -> Path:
        return self.base / self.group / f"{self.stem}{SUFFIX}"

    @property
    def pending(self) -> Path:
        """Where a change waits to be accepted or rejected."""
        return self.base / PENDING / self.group / f"{self.stem}{SUFFIX}"

    def read(self) -> bytes | None:
        """The file's content; None without a file. Raises PeekError where the system refuses."""
        return read_bytes(self.path) if self.path.exists() else None

    def write(self, text: str) -> None:
        """Replace the snapshot; what waited is settled by it. Raises PeekError where the system refuses."""
        write_bytes(self.path, text.encode("utf-8"))
        self.drop_pending()

    def keep_pending(self, text: str) -> None:
        """Put a change aside for `peek review`, in a folder that git ignores by a file in it. Raises PeekError."""
        ignore_in_git(self.base / PENDING)
        write_bytes(self.pending, text.encode("utf-8"))

    def accept(self) -> None:
        """What waits becomes the snapshot. Raises PeekError where the system refuses."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(self.pending, self.path)
        except OSError as error:
            raise os_error("write", self.path, error) from None
        self._tidy()

    def drop_pending(self) -> None:
        """Forget the change that waits, if there is one."""
        with contextlib.suppress(OSError):
            self.pending.unlink()
            self._tidy()

    def _tidy(self) -> None:
        """Remove the folders of what waits when they are empty."""
        top = self.base / PENDING
        remove_empty(self.pending.parent, top)
        with contextlib.suppress(OSError):
            if [entry.name for entry in top.iterdir()] == [".gitignore"]:
                (top / ".gitignore").unlink()
                top.rmdir()


def remove_empty(folder: Path, top: Path) -> None:
    """Remove ``folder`` and its parents below ``top`` as far as they are empty."""
    while folder != top and top in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def delete(path: Path, base: Path) -> None:
    """Delete a snapshot's file and the folders that it leaves empty, ``base`` among them. Raises PeekError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise os_error("delete", path, error) from None
    remove_empty(path.parent, base.parent)


def snapshots_in(base: Path) -> list[Slot]:
    """Every snapshot of one folder, in order of its path."""
    return sorted(_slots(base, base), key=lambda slot: (slot.group, slot.stem))


def pending_in(base: Path) -> list[Slot]:
    """Every change that waits in one folder, in order."""
    return sorted(_slots(base / PENDING, base), key=lambda slot: (slot.group, slot.stem))


def _slots(folder: Path, base: Path) -> Iterator[Slot]:
    for path in _files(folder):
        group = path.parent.relative_to(folder).as_posix()
        yield Slot(base, "" if group == "." else group, path.name.removesuffix(SUFFIX))


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != PENDING]
        yield from [Path(root, name) for name in names if name.endswith(SUFFIX) and not name.startswith(".")]


def temporaries_in(base: Path) -> list[Path]:
    """Files that a killed write left behind; nothing reads them."""
    found = []
    for root, _, names in os.walk(base):
        found += [Path(root, name) for name in names if _TEMPORARY.fullmatch(name)]
    return sorted(found)


def bases_below(roots: Iterable[Path], name: str) -> list[Path]:
    """Every folder called ``name`` below ``roots``, or that is one of them (hidden folders and packages left out)."""
    found: dict[Path, None] = {}
    for root in roots:
        if root.name == name:
            found[root] = None
            continue
        for here, folders, _ in os.walk(root):
            if name in folders:
                found[Path(here, name)] = None
            folders[:] = sorted(
                f for f in folders if f != name and f not in _SKIPPED and not f.startswith(".")
            )
    return list(found)


def bases_mirrored(top: Path) -> list[Path]:
    """Where one folder mirrors those of the tests: ``top`` and each folder below it that has a module's snapshots, or changes
    that wait. Of its ``snapshots_in`` those with a slash in their group belong to another of them."""
    found: dict[Path, None] = {top: None} if top.is_dir() else {}
    for here, folders, names in os.walk(top):
        if PENDING in folders:
            found[Path(here)] = None
            folders.remove(PENDING)
        folders.sort()
        if Path(here) != top and any(name.endswith(SUFFIX) for name in names):
            found[Path(here).parent] = None
    return list(found)
