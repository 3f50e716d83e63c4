"""Files read and written whole: the new content or the old, never half; one clear error for a refusal."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from secrets import token_hex

from ..errors import PeekError

_WHY = {
    errno.EACCES: ("permission denied", "write to a folder that is yours, or change its permissions"),
    errno.EPERM: ("the system forbids it", "write to a folder that is yours, or change its permissions"),
    errno.EROFS: ("the file system is read-only", "write to another folder"),
    errno.ENOSPC: ("the disk is full", "make room, or write to another disk"),
    errno.EDQUOT: ("your disk quota is used up", "make room, or write to another disk"),
    errno.EFBIG: ("the file would be larger than the system allows", "raise the limit: ulimit -f unlimited"),
    errno.EISDIR: ("it is a folder", "name a file in it"),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "check the path"),
    errno.EEXIST: ("a part of the path is a file, not a folder", "check the path"),
    errno.ENOENT: ("there is no such file", "check the path"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one"),
    errno.ELOOP: ("its symbolic links go in a circle", "check the links"),
}


def os_error(doing: str, path: str | os.PathLike[str], error: OSError | ValueError) -> PeekError:
    """The PeekError for what the system answered to ``doing`` (``read``, ``write``) ``path``."""
    if isinstance(error, OSError):
        why, fix = _WHY.get(error.errno or 0, (os.strerror(error.errno) if error.errno else str(error), ""))
    else:
        why, fix = str(error), "check the path"
    return PeekError(f"cannot {doing} {os.fspath(path)!r}", why, fix)


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file; PeekError where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise os_error("read", path, error) from None


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Put ``data`` in the place of the file at ``path``, making the folders that are missing.

    A reader sees the old content or the new. Permissions of an existing file are kept, a new one gets the
    umask's; symbolic links are followed; a device or pipe is written to directly. Raises PeekError and leaves
    nothing behind when the system refuses.

    Not synced to the disk: the promise covers a killed process and a full disk, not a power cut, since the
    backend writes while the user's program waits, and a capture can be made again.
    """
    try:
        target = Path(os.path.realpath(path))
        mode = _mode(target)
        if mode is not None and not stat.S_ISREG(mode):
            _write_through(target, data)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if mode is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, "read-only file")
        _replace(target, data, mode)
    except (OSError, ValueError) as error:
        raise os_error("write", path, error) from None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """``write_bytes`` in UTF-8; a lone surrogate (a file name that is no UTF-8) is written as its escape."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def _mode(target: Path) -> int | None:
    try:
        return target.stat().st_mode
    except FileNotFoundError:
        return None


def _write_through(target: Path, data: bytes) -> None:
    with open(target, "wb", buffering=0) as out:
        write_all(out.fileno(), data)


def _replace(target: Path, data: bytes, mode: int | None) -> None:
    temporary = target.with_name(f".{target.name[:64]}.{os.getpid()}.{token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        try:
            if mode is not None:
                os.chmod(temporary, stat.S_IMODE(mode))
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def write_all(descriptor: int, data: bytes) -> None:
    """``os.write`` until nothing is left: one call may take less than it is given."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def ignore_in_git(folder: Path) -> None:
    """Have git ignore a folder by a file in it, as pytest's cache does. Raises PeekError where the system refuses."""
    ignore = folder / ".gitignore"
    if not os.path.exists(ignore):
        write_bytes(ignore, b"*\n")
