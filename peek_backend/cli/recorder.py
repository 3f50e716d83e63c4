"""Observes every torch.compile of this process, and of its children, into journals."""

from __future__ import annotations

import atexit
import contextlib
import os
import platform
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .._version import __version__
from ..errors import PeekError
from ..model import SCHEMA_VERSION, CaptureRecord, Environment, Problem
from ..snapshot.atomic import write_bytes
from ..snapshot.journal import KINDS, SUFFIX, Journal, child_path, encode_record
from .hook import after_import

if TYPE_CHECKING:
    from ..capture.session import Session

VARIABLE = "_PEEK_RUN"
"""Tells child processes the path of the journal that theirs go beside."""

WATCHING = "_PEEK_RUN_WATCHING"
"""What the session there is to watch beside, as JSON: the keyword arguments of ``Session``."""

_CHILDREN = Path(__file__).with_name("children")
_WRITABLE = tuple(KINDS.values())


class Recorder:
    """Writes what this process compiles to a journal, each record as it is made.

    It starts when torch._dynamo is imported and not before, since torch reads settings on import that the
    program may still make. A forked child goes on in a journal of its own, beside ``root``. ``watching`` are
    keyword arguments of ``Session``.
    """

    def __init__(self, path: Path, root: Path, *, lazy: bool = False, **watching: Any) -> None:
        self.root = root
        self.watching = watching
        self.journal = Journal(path, _environment(), lazy=lazy)
        self.session: Session | None = None
        self.problems: list[Problem] = []
        self.unsaved = ""  # what the file lacks when it could not be completed, and why
        self.pid = os.getpid()

    def start(self) -> None:
        """Observe this process from now on, and its forks."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)
        after_import("torch._dynamo", self._open)

    def finish(self) -> None:
        """Stop observing. The journal, appended to until now, is replaced by the complete record."""
        if self.session is not None:
            with contextlib.suppress(Exception):
                self.session.settle()
                self.session.__exit__(None, None, None)
        self.journal.end()
        if self.journal.begun:
            self._write_whole()
        self.journal.detach()

    def forget(self) -> None:
        """Stop observing and leave no file: nothing ran that it could be about."""
        self.journal.remove()

    @property
    def record(self) -> CaptureRecord:
        """What was captured so far in this process."""
        if self.session is None:
            return CaptureRecord(SCHEMA_VERSION, _environment(), (), problems=tuple(self.problems))
        record = self.session.record
        return msgspec.structs.replace(record, problems=(*record.problems, *self.problems))

    def _open(self) -> None:
        """Open the session. Runs inside the program's import of torch, so nothing may escape from here."""
        try:
            from ..capture.session import Session

            session = Session(self._append, patch=self._patch, **self.watching)
            session.__enter__()
            self.session = session
            self.journal.set_environment(session.environment)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:500]
            self.problems.append(Problem("peek run", "torch.compile could not be observed", why))

    def _append(self, item: Any) -> None:
        if isinstance(item, _WRITABLE):
            self.journal.append(item)

    def _patch(self, kind: str, index: int, **fields: Any) -> None:
        self.journal.patch(kind, index, **fields)

    def _write_whole(self) -> None:
        """Put the complete record in the journal's place; where that fails, what the journal holds stays."""
        try:
            write_bytes(self.journal.path, encode_record(self.record))
        except PeekError as error:
            if self.journal.problem is not None:
                self.unsaved = f"{error.why}; {self._saved()}"
            else:  # it holds every record, though not in its last state
                self.problems.append(Problem(str(self.journal.path), error.problem, error.why, error.fix))

    def _saved(self) -> str:
        total = 0 if self.session is None else len(self.session.record.graphs)
        return f"{self.journal.saved['graph']} of {total} graphs were saved"

    def _after_fork(self) -> None:
        """In the child: leave the parent's file alone, and start over with nothing captured."""
        self.pid = os.getpid()
        self.problems = []
        self.journal.detach()
        self.journal = Journal(_own_path(self.root), _environment(), lazy=True)
        session, self.session = self.session, None
        if session is not None:
            with contextlib.suppress(Exception):
                session.__exit__(None, None, None)
            self._open()
        self._finish_with_multiprocessing()

    def _finish_with_multiprocessing(self) -> None:
        """Have multiprocessing, whose children skip atexit, call ``finish`` in this child after all else."""
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(self, _finalize_in_child)


def _finalize_in_child(recorder: Recorder) -> None:
    util = sys.modules["multiprocessing.util"]
    util.Finalize(recorder, recorder.finish, exitpriority=-1000)


def observe_children(root: Path, watching: dict[str, Any]) -> None:
    """Have Python programs that this process starts, with its environment, write journals beside ``root``."""
    os.environ[VARIABLE] = str(root)
    os.environ[WATCHING] = msgspec.json.encode(watching).decode()
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{_CHILDREN}{os.pathsep}{path}" if path else str(_CHILDREN)


def observe_child() -> None:
    """Observe this process, which a ``peek run`` started; ``sitecustomize`` calls it when torch is imported."""
    root = os.environ.get(VARIABLE)
    if not root:
        return
    watching = msgspec.json.decode(os.environ.get(WATCHING) or "{}")
    recorder = Recorder(_own_path(Path(root)), Path(root), lazy=True, **watching)
    recorder.start()
    atexit.register(recorder.finish)


def own_root(path: Path) -> Path:
    """The journal of a ``peek run``: under torchrun, which starts one a rank, with the rank in its name."""
    rank = os.environ.get("RANK")
    return child_path(path, f"rank-{rank}") if rank and rank.isdecimal() else path


def _own_path(root: Path) -> Path:
    rank = os.environ.get("RANK", "")
    ranked = rank.isdecimal() and f".rank-{rank}." not in root.name
    return child_path(root, f"rank-{rank}.pid-{os.getpid()}" if ranked else f"pid-{os.getpid()}")


def children_of(root: Path) -> list[Path]:
    """The journals that child processes wrote beside ``root``."""
    own = re.compile(
        re.escape(root.name.removesuffix(SUFFIX)) + r"\.(rank-\d+\.)?pid-\d+" + re.escape(SUFFIX)
    )
    with contextlib.suppress(OSError):
        return sorted(p for p in root.parent.iterdir() if own.fullmatch(p.name))
    return []


def _environment() -> Environment:
    """What is known before torch is imported."""
    return Environment(
        peek=__version__,
        python=platform.python_version(),
        platform=f"{sys.platform}-{platform.machine()}",
        argv=tuple(sys.argv),
    )
