"""DOT text to SVG, PNG or PDF bytes, by whichever Graphviz is at hand.

Comes in: DOT text. Goes out: bytes; nothing is written here, so that a render that fails leaves no half file.
The engine is the system's ``dot``, else ``graphviz-pure`` (the extra ``peek-backend[images]``: one program in the
environment's scripts folder; SVG and PNG, no PDF), so that pictures need no root.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator

from msgspec import Struct

from ..errors import PeekError, unknown_name
from .theme import dark_style

KINDS = ("svg", "png", "pdf")
TIMEOUT = 120.0
"""Seconds that one render may take. 400 boxes take about 2, 10,000 one to three minutes."""

PNG_DPI = 120
PNG_INCHES = (60, 110)
"""A larger PNG is scaled down to this: 95 million pixels, 380 MB while it is drawn."""

_START = {"svg": b"<?xml", "png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF"}
_VERSION = re.compile(r"\d+(\.\d+)+")
_INSTALL = {
    "linux": "sudo apt-get install graphviz (or dnf, pacman, conda)",
    "darwin": "brew install graphviz",
    "win32": "winget install Graphviz.Graphviz",
}


class Engine(Struct, frozen=True):
    """A program that lays out graphs: ``name`` is ``dot`` or ``graphviz-pure``, ``kinds`` what it can write."""

    name: str
    path: str
    kinds: tuple[str, ...]


def find_engine(kind: str | None = None) -> Engine | None:
    """The engine that would draw (one that writes ``kind``, if given); None when there is none."""
    return next((engine for engine in engines() if kind is None or kind in engine.kinds), None)


def engine_version(engine: Engine) -> str:
    """The version that the engine tells (``12.2.1``); empty if it does not start."""
    try:
        done = subprocess.run([engine.path, "-V"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    told = _VERSION.search(done.stderr + done.stdout)
    return told[0] if told else ""


def how_to_install(kind: str | None = None) -> str:
    """The command that brings an engine for ``kind``."""
    system = _INSTALL.get(sys.platform, _INSTALL["linux"])
    return system if kind == "pdf" else f"pip install 'peek-backend[images]' or {system}"


def render_image(dot_text: str, kind: str, *, timeout: float = TIMEOUT) -> bytes:
    """``dot_text`` as an image: ``kind`` is svg, png or pdf, ``timeout`` in seconds.

    Raises PeekError for another kind, without an engine for it, for DOT that it refuses, and when it takes too
    long or is killed. The process has ended when this returns.
    """
    if kind not in KINDS:
        raise unknown_name("image kind", kind, KINDS)
    engine = find_engine(kind)
    if engine is None:
        raise _no_engine(kind)
    image = _run(engine, dot_text, kind, timeout)
    if not image.startswith(_START[kind]):
        raise PeekError(f"{engine.name} wrote no {kind}", f"{len(image)} bytes came out of {engine.path}")
    return _finish_svg(image, dot_text) if kind == "svg" else image


def engines() -> Iterator[Engine]:
    """The engines that are here, the preferred one first."""
    system = shutil.which("dot")
    if system:
        yield Engine("dot", system, KINDS)
    pure = shutil.which("graphviz-pure", path=os.pathsep.join(_script_folders()))
    if pure:
        yield Engine("graphviz-pure", pure, ("svg", "png"))


def _script_folders() -> list[str]:
    """Where pip puts programs: this environment's folder first, which need not be on PATH, and the user's."""
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    user = sysconfig.get_preferred_scheme("user")
    return [*folders, sysconfig.get_path("scripts", user), *os.environ.get("PATH", "").split(os.pathsep)]


def _no_engine(kind: str) -> PeekError:
    other = find_engine()
    if other is not None:
        why = f"{other.name} is here, which writes {' and '.join(other.kinds)} only"
        return PeekError(f"cannot draw a {kind}", why, f"{how_to_install(kind)}, or save as .svg")
    return PeekError(
        f"cannot draw a {kind}",
        "neither Graphviz's dot nor graphviz-pure was found",
        f"{how_to_install(kind)}; or save as .dot, which needs neither",
    )


def _run(engine: Engine, dot_text: str, kind: str, timeout: float) -> bytes:
    """The engine's output; subprocess.run kills and reaps it on a time-out and on any exception, Ctrl-C included."""
    command = [engine.path, f"-T{kind}", *(_png_size() if kind == "png" else ())]
    try:
        done = subprocess.run(
            command,
            input=dot_text.encode("utf-8", "backslashreplace"),
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _too_slow(engine, dot_text, kind, timeout) from None
    except OSError as error:
        raise PeekError(f"{engine.name} did not start: {error}", engine.path, how_to_install(kind)) from None
    if done.returncode:
        raise _failed(engine, kind, done.returncode, done.stderr)
    return done.stdout


def _png_size() -> tuple[str, ...]:
    width, height = PNG_INCHES
    return (f"-Gdpi={PNG_DPI}", f"-Gsize={width},{height}")


def _too_slow(engine: Engine, dot_text: str, kind: str, timeout: float) -> PeekError:
    boxes = len(re.findall(r"^\s*[a-z]\d+ \[", dot_text, re.MULTILINE))
    return PeekError(
        f"the {kind} was not ready after {timeout:g} seconds, and {engine.name} was stopped",
        f"laying out {boxes:,} boxes takes more than proportionally longer than a few hundred",
        "fold more: leave out full=True, or set a smaller depth; or save as .dot or .html, which are made at once",
    )


def _failed(engine: Engine, kind: str, code: int, stderr: bytes) -> PeekError:
    if code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        memory = ", as the system does when memory runs out" if name == "SIGKILL" else ""
        return PeekError(
            f"{engine.name} was killed by {name} while drawing the {kind}{memory}",
            "the picture may be too large",
            "fold more: leave out full=True, or set a smaller depth; or save as .svg instead of .png",
        )
    said = stderr.decode("utf-8", "replace").strip().splitlines()
    return PeekError(
        f"{engine.name} could not draw the {kind} (exit code {code})",
        said[0] if said else "it gave no reason",
        "save as .dot and look at it with another Graphviz",
    )


def _finish_svg(svg: bytes, dot_text: str) -> bytes:
    """Fonts that every system has, and for a picture in theme ``auto`` the colours of dark mode."""
    text = svg.decode("utf-8")
    text = re.sub(r'font-family="[^"]*"', 'font-family="Arial,Helvetica,sans-serif"', text)
    style = f"<style>{dark_style()}</style>" if 'class="peek theme-auto"' in dot_text else ""
    return re.sub(r"(<svg\b[^>]*>)", rf"\1\n{style}", text, count=1).encode("utf-8")
