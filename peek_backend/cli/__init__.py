"""The command ``peek``, one file a verb.

Comes in: the command line. Goes out: text on stdout, messages on stderr, an exit code: 0, 1 (a check found
something), 2 (one clear message says what to mend), or the user's script's own. Imports everything, each
verb its part.

``peek --version`` answers before click is imported; ``entry`` holds the rest.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> int:
    """Run ``peek`` with ``args`` (default ``sys.argv[1:]``) and return its exit code."""
    args = sys.argv[1:] if args is None else list(args)
    if args in (["--version"], ["-V"]):
        from .._version import __version__

        with contextlib.suppress(OSError):
            sys.stdout.write(f"peek {__version__}\n")
            sys.stdout.flush()
            return 0
    from .entry import run  # which also says why nothing could be written

    return run(args)
