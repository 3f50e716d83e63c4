"""The walk through samples/ci: its commands run in order in a copy of the folder, and what they print written into its README.

A block stands between two comments:

    <!-- run: COMMAND -->          what bash prints for it; a command may fail
    <!-- keys KEYS: COMMAND -->    the same in a terminal of 80 columns where somebody types KEYS
    <!-- end -->
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import terminal

from . import gallery

FOLDER = gallery.SAMPLES / "ci"
README = FOLDER / "README.md"

_BLOCK = re.compile(r"(<!-- (run|keys (\w+)): (.*?) -->\n).*?(<!-- end -->)", re.S)
_SECONDS = re.compile(r"in \d+\.\d\ds( \(\d:\d\d:\d\d\))?")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def filled(text: str, folder: Path) -> str:
    """``text`` with every block written anew; its commands run in a copy of the sample, a git repository, below ``folder``."""
    copy = folder / "ci"
    ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache", ".pending", "*.egg-info")
    shutil.copytree(FOLDER, copy, ignore=ignored)
    (copy / ".gitignore").write_text("__pycache__/\n.pytest_cache/\nsummary.md\npeek-out/\n")
    for command in ("git init -q", "git add -A", "git commit -qm first"):
        bash(command, copy)
    return _BLOCK.sub(lambda m: f"{m[1]}{block(m[4], m[3], copy)}\n{m[5]}", text)


def block(command: str, keys: str | None, folder: Path) -> str:
    """A command and what it prints, without what differs between runs."""
    text = bash(command, folder) if keys is None else typed(command, keys, folder)
    text = _SECONDS.sub("in 1.00s", text).replace(f"{folder}{os.sep}", "")
    fence = "````" if "```" in text else "```"
    lines = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    return f"{fence}text\n$ {command}\n{lines}".rstrip() + f"\n{fence}"


def environment() -> dict[str, str]:
    """This interpreter's commands, this checkout of peek, git without anybody's settings, and no CI."""
    quiet = {k: v for k, v in os.environ.items() if not k.startswith(("CI", "GITHUB_", "PYTEST_", "PEEK_"))}
    return {
        **quiet,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(gallery.ROOT),
        "PYTHONHASHSEED": "0",
        "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "0",
        "PYTHONWARNINGS": "ignore",
        "COLUMNS": "80",
        "TERM": "xterm",
        **{f"GIT_{who}_{what}": "reader" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        "GIT_CONFIG_GLOBAL": os.devnull,
    }


def bash(command: str, folder: Path) -> str:
    """What a command prints on both streams."""
    done = subprocess.run(
        ["bash", "-c", f"{command} 2>&1"],
        cwd=folder, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    return done.stdout


def typed(command: str, keys: str, folder: Path) -> str:
    """What a command shows in a terminal where ``keys`` are typed."""
    _, shown = terminal.typed(["bash", "-c", command], keys, folder=folder, env=environment())
    return _ESCAPES.sub("", shown).replace("\r\n", "\n")


def write() -> bool:
    """Write the sample's README anew; whether anything in it changed."""
    before = README.read_text()
    with tempfile.TemporaryDirectory() as folder:
        after = filled(before, Path(folder))
    if before == after:
        return False
    README.write_text(after)
    return True


if __name__ == "__main__":
    print(f"wrote {README.relative_to(gallery.ROOT)}" if write() else "nothing changed")
