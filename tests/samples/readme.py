"""The blocks of README.md that a program writes, so that what it shows is what happens.

A block stands between two comments, the first of which says what fills it:

    <!-- output: COMMAND -->     what the command prints, run by bash in a scratch folder that holds samples/; the commands of
                                 one README share it. ``python samples/NN_…`` is taken from the gallery's expected files.
    <!-- source: PATH -->        a file, without its docstring
    <!-- options -->             the table of options, from peek_backend/options.py
    <!-- commands -->            the commands of ``peek``, from its command line
    <!-- end -->
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tabulate import tabulate

from peek_backend.cli.entry import VERBS
from peek_backend.options import OPTIONS, Options, variable_of

from . import gallery

README = gallery.ROOT / "README.md"

_BLOCK = re.compile(r"(<!-- (output|source|options|commands)(?:: (.*?))? -->\n).*?(<!-- end -->)", re.S)


def filled(text: str, folder: Path) -> str:
    """``text`` with every block written anew; commands run in ``folder``."""
    (folder / "samples").symlink_to(gallery.SAMPLES)
    writers: dict[str, Callable[[str], str]] = {
        "output": lambda command: fence("text", output(command, folder)),
        "source": lambda path: fence("python", source(gallery.ROOT / path)),
        "options": lambda _: options_table(),
        "commands": lambda _: commands_table(),
    }
    return _BLOCK.sub(lambda m: f"{m[1]}{writers[m[2]](m[3])}\n{m[4]}", text)


def fence(language: str, text: str) -> str:
    return f"```{language}\n{text.strip(chr(10))}\n```"


def output(command: str, folder: Path) -> str:
    """What a command prints on both streams. Raises RuntimeError when it fails."""
    sample = re.fullmatch(r"python samples/(\d\d_\w+)\.py", command)
    if sample:
        return (gallery.EXPECTED / f"{sample[1]}.txt").read_text()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(gallery.ROOT), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} 2>&1"],
        cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{command!r} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    if "problem at" in done.stdout:
        raise RuntimeError(f"{command!r} tells of a problem; it is no example:\n{done.stdout}")
    return gallery.tidy(done.stdout.replace(f"{folder}{os.sep}", ""))


def source(file: Path) -> str:
    """A Python file without its docstring."""
    text = file.read_text()
    docstring = ast.parse(text).body[0]
    return "\n".join(text.splitlines()[docstring.end_lineno or 0 :]).strip("\n")


def options_table() -> str:
    """Every option with its variable, its default and what it does."""
    defaults = Options()
    rows = [
        [
            f"`{o.name}`",
            f"`{variable_of(o.name)}`" if o.variable else "",
            _default(getattr(defaults, o.name)),
            o.help,
        ]
        for o in OPTIONS.values()
    ]
    return tabulate(
        rows, ["option", "variable", "default", "meaning"], tablefmt="github", disable_numparse=True
    )


def _default(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return f"`{','.join(map(str, value))}`"
    return "no" if value is False else f"`{value}`"


def commands_table() -> str:
    """Every command with its help line."""
    rows = [[f"`peek {name}`", text] for name, text in VERBS.items()]
    return tabulate(rows, ["command", "what it does"], tablefmt="github")


def write() -> bool:
    """Write README.md anew where more than volatile parts changed; whether it did."""
    before = README.read_text()
    with tempfile.TemporaryDirectory() as folder:
        after = filled(before, Path(folder))
    if gallery.normalise(before) == gallery.normalise(after):
        return False
    README.write_text(after)
    return True
