"""Single keys from a terminal, each given once and none lost: also those typed before anybody asked."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

import click

if sys.platform == "win32":
    termios = None
else:
    import termios


@contextlib.contextmanager
def single_keys() -> Iterator[Callable[[], str]]:
    """Gives a function that waits for one key of stdin; empty when the terminal is closed. Ctrl-C is the key ``\\x03``.

    The terminal is switched without dropping what waits in it, which click.getchar does at every key.
    """
    if termios is None:
        yield click.getchar
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    now = termios.tcgetattr(terminal)
    now[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    now[6][termios.VMIN], now[6][termios.VTIME] = 1, 0
    termios.tcsetattr(terminal, termios.TCSADRAIN, now)
    try:
        yield lambda: os.read(terminal, 1).decode("latin-1")
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
