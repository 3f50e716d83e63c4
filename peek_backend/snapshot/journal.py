"""A capture written while the program runs: one JSON object a line, each record as it is made.

The first line is the header, then come ``{"kind": "graph", "data": {…}}`` and the like, patches for what
became known later, and ``{"kind": "end"}`` when the program closed the file, or ``{"kind": "stopped"}`` with
a Problem when the system refused a line and had room for this one. A program that is killed leaves all that it
had written: each line goes to the system at once, and the reader leaves out a last line that was cut.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from pathlib import Path
from typing import Any, Union

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

try:
    import fcntl
except ImportError:  # Windows, where no two runs are told apart
    fcntl = None  # type: ignore[assignment]

from ..errors import PeekError
from ..model import (
    SCHEMA_VERSION,
    BreakInfo,
    CaptureRecord,
    EarlierFrame,
    Environment,
    FrameRecord,
    GraphRecord,
    Problem,
    RecompileInfo,
)
from .atomic import os_error, read_bytes, write_all
from .jsonfile import bad_value, check, check_version, collector_paused, encode, malformed, plain_text

SUFFIX = ".peek.jsonl"

FOLDER = "peek-out"
"""Where captures are written and looked for when no other place is named."""

KINDS: dict[str, type] = {
    "graph": GraphRecord,
    "frame": FrameRecord,
    "break": BreakInfo,
    "recompile": RecompileInfo,
    "problem": Problem,
    "note": str,
    "earlier": EarlierFrame,
}
"""What a line holds, by its ``kind``; ``header``, ``environment``, ``end`` and ``stopped`` come beside them."""

MOST_OPEN_FRAMES = 1_000
"""Compiles that can be under way, in threads or nested, when a program is killed; more is a damaged file."""

_KIND_OF = {cls: kind for kind, cls in KINDS.items()}


_NULL = Raw(b"null")


class Line(Struct, frozen=True, omit_defaults=True):
    """One line of a journal.

    ``index`` marks a patch: ``data`` holds the fields that changed of the record at that position among those
    of its kind.
    """

    kind: str
    data: Raw = _NULL
    index: int | None = None
    schema_version: int | None = None


_line_decoder = msgspec.json.Decoder(Line)


class InUse(PeekError):
    """Another process is writing the journal."""


class Journal:
    """A journal being written. Safe to use from several threads; after a fork the child must ``detach`` it.

    The file is created, or emptied, at once; with ``lazy`` when the first record comes, so that a process
    that captures nothing leaves no file. Creating it raises PeekError where the system refuses, and InUse where
    another process holds it: a journal is locked from then until ``detach``. Later writes never raise, since they
    happen inside the user's program: the first refusal ends the journal and is kept in ``problem``. ``saved``
    counts the records in the file by kind.
    """

    def __init__(self, path: str | os.PathLike[str], environment: Environment, *, lazy: bool = False) -> None:
        self.path = Path(os.path.abspath(path))
        self.problem: Problem | None = None
        self._environment = environment
        self._lock = threading.RLock()  # a signal handler may compile while this thread writes
        self._counts = dict.fromkeys(KINDS, 0)
        self.saved = dict.fromkeys(KINDS, 0)
        self._descriptor: int | None = None
        self._closed = False
        self.begun = False  # whether there is a file
        if not lazy:
            self._open()

    def append(self, record: Struct | str) -> int:
        """Write a record (a str is a note); its index among those of its kind, which ``patch`` takes."""
        kind = _KIND_OF[type(record)]
        line = _line(kind, record)
        with self._lock:
            self.saved[kind] += self._write(line)
            self._counts[kind] += 1
            return self._counts[kind] - 1

    def patch(self, kind: str, index: int, **fields: Any) -> None:
        """Write fields that became known, or changed, after the record was appended."""
        self._write(_line(kind, fields, index=index))

    def set_environment(self, environment: Environment) -> None:
        """Replace what the header said (torch's version is known once the program imported it)."""
        with self._lock:
            self._environment = environment
            if self._descriptor is not None:
                self._write(_line("environment", environment))

    def end(self) -> None:
        """Mark the capture as complete and write no more; the file stays locked. Again does nothing."""
        with self._lock:
            if self._descriptor is not None:
                self._write(_line("end", None))
            self._closed = True

    def close(self) -> None:
        """``end`` it and let go of the file; again does nothing."""
        with self._lock:
            self.end()
            self.detach()

    def detach(self) -> None:
        """Let go of the file without marking its end: for a fork's child, whose parent goes on writing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._closed = None, True
        self._lock = threading.RLock()  # another thread of the parent may have held it

    def remove(self) -> None:
        """Close the journal and delete its file, where it is one."""
        with self._lock:
            if self._descriptor is not None and _is_file(self._descriptor):
                with contextlib.suppress(OSError):
                    os.unlink(self.path)
            self.begun = False
            self.detach()

    def _open(self) -> None:
        header = _line("header", self._environment, schema_version=SCHEMA_VERSION)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = _locked(self.path)
            self.begun = True
            write_all(self._descriptor, header)
        except (OSError, ValueError) as error:
            self.remove()
            raise os_error("write", self.path, error) from None

    def _write(self, line: bytes) -> bool:
        """Whether the line is in the file now."""
        with self._lock:
            if self._closed:
                return False
            start = 0
            try:
                if self._descriptor is None:
                    self._open()
                start = os.fstat(self._descriptor).st_size
                write_all(self._descriptor, line)
            except (OSError, PeekError) as error:
                refusal = error if isinstance(error, PeekError) else os_error("write", self.path, error)
                self.problem = Problem(str(self.path), refusal.problem, refusal.why, refusal.fix)
                self._stop(start)
                return False
            return True

    def _stop(self, start: int) -> None:
        """Give up. The line that began at ``start`` was cut: what it took is room to say why, on a full disk too."""
        self._closed = True
        if self._descriptor is None or not _is_file(self._descriptor):
            return
        graphs = self.saved["graph"]
        what = f"the capture stops here, after {graphs} graph{'' if graphs == 1 else 's'}"
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, start)
            write_all(self._descriptor, _line("stopped", Problem("capture", what, self.problem.why)))


def _locked(path: Path) -> int:
    """A descriptor of the emptied file at ``path``, locked for this process. Raises InUse, or OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
    while True:
        descriptor = os.open(path, flags, 0o666)
        try:
            if not _is_file(descriptor):
                return descriptor
            _lock(descriptor, path)
            if _is_at(descriptor, path):
                os.ftruncate(descriptor, 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its writer put the whole capture in its place meanwhile


def _lock(descriptor: int, path: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUse(f"{path} is in use", "another peek run is writing it", "name another with -o") from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise  # a file system without locks tells no two runs apart


def _is_file(descriptor: int) -> bool:
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether ``path`` still names the open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _line(kind: str, data: Any, **fields: Any) -> bytes:
    raw = Raw(encode(data).rstrip(b"\n"))
    return msgspec.json.encode(Line(kind, raw, **fields)) + b"\n"


def encode_record(record: CaptureRecord) -> bytes:
    """A whole capture as the journal that a program would have written that ended well."""
    lines = [_line("header", record.environment, schema_version=SCHEMA_VERSION)]
    for name in ("frames", "graphs", "breaks", "recompiles", "problems", "notes", "earlier"):
        lines.extend(_line(_KIND_OF[type(item)], item) for item in getattr(record, name))
    lines.append(_line("end", None))
    return b"".join(lines)


def child_path(path: str | os.PathLike[str], name: str) -> Path:
    """The journal of a child process, beside its parent's: ``train.pid-12.peek.jsonl``."""
    path = Path(path)
    stem = path.name.removesuffix(SUFFIX) if path.name.endswith(SUFFIX) else path.stem
    return path.with_name(f"{stem}.{name}{SUFFIX}")


def is_journal(data: bytes) -> bool:
    """Whether ``data`` begins with a journal's header line."""
    return data.removeprefix(b"\xef\xbb\xbf").startswith(b'{"kind":"header"')


def read_journal(path: str | os.PathLike[str]) -> CaptureRecord:
    """The capture in the journal at ``path``; PeekError as for ``decode``."""
    return decode(read_bytes(path), os.fspath(path))


def decode(data: bytes, where: str) -> CaptureRecord:
    """The capture that the lines of a journal add up to; ``where`` names it in errors.

    A journal without its end gives a Problem in the record, since its program was killed or still runs.
    Lines of a kind that this version does not know are left out and counted in a note. Raises PeekError for a
    damaged line.
    """
    reader = _Reader(where)
    lines = plain_text_until_cut(data, where).split(b"\n")
    with collector_paused():
        for number, line in enumerate(lines, 1):
            if line.strip() and not reader.take(line, number, last=number == len(lines)):
                break
    record = reader.record()
    check(record, where)
    return record


def plain_text_until_cut(data: bytes, where: str) -> bytes:
    """``plain_text``, but a last line may end in the middle of a character."""
    whole = data.rfind(b"\n") + 1 or len(data)
    return plain_text(data[:whole], where) + data[whole:]


class _Reader:
    """Adds up the lines of one journal."""

    def __init__(self, where: str):
        self.where = where
        self.environment = Environment()
        self.records: dict[str, list[Any]] = {kind: [] for kind in KINDS}
        self.unknown: dict[str, int] = {}
        self.ended = False
        self.stopped = False

    def take(self, text: bytes, number: int, *, last: bool) -> bool:
        """Add one line; False when it is the last one and was cut."""
        where = f"{self.where}: line {number}"
        try:
            line = _line_decoder.decode(text)
            self._add(line, where)
        except msgspec.ValidationError as error:
            raise bad_value(where, error) from None
        except (msgspec.DecodeError, RecursionError) as error:
            if last and number > 1 and not isinstance(error, RecursionError):
                return False
            raise malformed(text, self.where, error, number) from None
        return True

    def _add(self, line: Line, where: str) -> None:
        if line.kind == "header":
            check_version(line.schema_version or 0, self.where)
        if line.kind in ("header", "environment"):
            self.environment = msgspec.json.decode(line.data, type=Environment)
        elif line.kind == "end":
            self.ended = True
        elif line.kind == "stopped":
            self.stopped = True
            self.records["problem"].append(_decoders["problem"].decode(line.data))
        elif line.kind not in KINDS:
            self.unknown[line.kind] = self.unknown.get(line.kind, 0) + 1
        elif line.index is None:
            self.records[line.kind].append(_decoders[line.kind].decode(line.data))
        else:
            self._patch(line, where)

    def _patch(self, line: Line, where: str) -> None:
        known = self.records[line.kind]
        if line.kind not in _patch_decoders or not 0 <= line.index < len(known):
            what = f"changes {line.kind} {line.index}, which is not in the file"
            raise PeekError(f"{where}: {what}", "lines are missing or out of order", "capture again")
        patch = _patch_decoders[line.kind].decode(line.data)
        fields = {n: v for n in patch.__struct_fields__ if (v := getattr(patch, n)) is not UNSET}
        known[line.index] = msgspec.structs.replace(known[line.index], **fields)

    def record(self) -> CaptureRecord:
        frames = self._frames()
        return CaptureRecord(
            schema_version=SCHEMA_VERSION,
            environment=self.environment,
            graphs=tuple(self.records["graph"]),
            frames=frames,
            breaks=tuple(self.records["break"]),
            recompiles=tuple(self.records["recompile"]),
            problems=(*self.records["problem"], *(() if self.ended or self.stopped else (_not_ended(),))),
            notes=(*self.records["note"], *self._left_out()),
            earlier=tuple(self.records["earlier"]),
        )

    def _frames(self) -> tuple[FrameRecord, ...]:
        """The frames, and a stand-in for each that other records name and whose line was never written."""
        frames = tuple(self.records["frame"])
        named = [r.frame for kind in ("graph", "break", "recompile") for r in self.records[kind]]
        named += [index for f in frames for index in (f.resume_of, f.outer)]
        missing = max((i for i in named if i is not None), default=-1) + 1 - len(frames)
        if self.ended or missing > MOST_OPEN_FRAMES:
            return frames  # ``check`` says which index is wrong
        return frames + (FrameRecord("?", outcome="failed", reason="the program ended meanwhile"),) * missing

    def _left_out(self) -> list[str]:
        return [
            f"{n} {kind} record{'s' if n > 1 else ''} left out: a newer peek wrote them"
            for kind, n in self.unknown.items()
        ]


def _not_ended() -> Problem:
    what = "the program ended before its capture was complete; what it had captured is here"
    return Problem(
        "capture", what, "it was killed, ran out of memory or disk space, left by os._exit, or still runs"
    )


def _patch_type(record: type[Struct]) -> type[Struct]:
    """``record`` with every field optional."""
    fields = [(f.name, Union[f.type, UnsetType], UNSET) for f in msgspec.structs.fields(record)]
    return msgspec.defstruct(f"{record.__name__}Patch", fields)


_decoders = {kind: msgspec.json.Decoder(cls) for kind, cls in KINDS.items()}
_patch_decoders = {k: msgspec.json.Decoder(_patch_type(c)) for k, c in KINDS.items() if c is not str}
