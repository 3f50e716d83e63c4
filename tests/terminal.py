"""A command in a terminal of its own, where somebody types."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

BETWEEN = 0.4
"""Seconds between two keys: a person is slower, and a program that reads several at once takes them for one."""


def typed(
    command: Sequence[str],
    keys: str,
    *,
    folder: Path,
    env: Mapping[str, str],
    seconds: float = 60,
    early: str = "",
) -> tuple[int, str]:
    """Exit code and screen of a command, each of ``keys`` typed when it waits for a key; killed after ``seconds``.

    ``early`` is typed at once, while the command starts.
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(command[0], list(command), dict(env))
    os.write(terminal, early.encode())
    shown, left, end, last = b"", list(keys), time.monotonic() + seconds, 0.0
    while time.monotonic() < end:
        if left and _waits(terminal) and time.monotonic() - last > BETWEEN:
            os.write(terminal, left.pop(0).encode())
            last = time.monotonic()
        if not select.select([terminal], [], [], 0.05)[0]:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:  # Linux reports the closed far side of a terminal as EIO
            break
        if not data:
            break
        shown += data
    else:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def _waits(terminal: int) -> bool:
    """Whether the far side reads single keys now."""
    return not termios.tcgetattr(terminal)[3] & termios.ICANON
