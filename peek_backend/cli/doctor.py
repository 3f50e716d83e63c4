"""``peek doctor``: what is installed, what is missing, and the command that brings it."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, util

import click

from .._version import __version__
from ..options import resolve
from .output import write_stdout

PACKAGES = ("torch", "tabulate", "graphviz", "msgspec", "click", "rich")
"""What peek needs, by distribution name."""


@dataclass(frozen=True)
class Check:
    """One line of the report. ``state`` is ``ok``, ``missing`` (exit code 1) or ``note`` (worth knowing)."""

    state: str
    name: str
    text: str
    fix: str = ""


@click.command()
def doctor() -> int:
    """Say what is installed, what is missing and the command that brings it.

    Exit code 0 when nothing is missing, else 1.
    """
    checks = list(_checks())
    write_stdout("".join(_lines(checks)))
    return int(any(check.state == "missing" for check in checks))


def _checks() -> Iterator[Check]:
    yield Check("ok", "peek", __version__)
    yield Check("ok", "python", f"{platform.python_version()} ({sys.executable})")
    for name in PACKAGES:
        yield _package(name)
    yield _entry_point()
    yield from _engines()
    yield _folder()
    yield from _variables()
    yield Check(
        "note", "completion", 'eval "$(_PEEK_COMPLETE=bash_source peek)" (also zsh_source, fish_source)'
    )


def _lines(checks: list[Check]) -> Iterator[str]:
    width = max(len(check.name) for check in checks)
    marks = {"ok": "✓", "missing": "✗", "note": "·"}
    for check in checks:
        yield f"{marks[check.state]} {check.name:{width}}  {check.text}\n"
        if check.fix:
            yield f"  {'':{width}}  → {check.fix}\n"


def _package(name: str) -> Check:
    """A distribution, looked up without importing it: torch alone takes seconds."""
    try:
        return Check("ok", name, metadata.version(name))
    except metadata.PackageNotFoundError:
        if util.find_spec(name) is not None:
            return Check("ok", name, "found, of unknown version")
        return Check("missing", name, "not installed", f"pip install {name}")


def _entry_point() -> Check:
    points = metadata.entry_points(group="torch_dynamo_backends")
    if any(point.name == "peek" and point.value.startswith("peek_backend.") for point in points):
        return Check("ok", "backend", 'torch.compile(f, backend="peek") finds it')
    text = 'torch.compile(f, backend="peek") does not find it: the package is on the path, but not installed'
    return Check("missing", "backend", text, "pip install peek-backend (in a checkout: pip install -e .)")


def _engines() -> Iterator[Check]:
    """System dot draws every kind; the wheel draws SVG and PNG."""
    from ..render.image import engine_version, engines, how_to_install

    found = {engine.name: (engine.path, engine_version(engine)) for engine in engines()}
    path, version = found.get("dot", ("", ""))
    draws = any(version for _, version in found.values())
    if version:
        yield Check("ok", "dot", f"{version} ({path})")
    else:
        what = f"{path} does not start" if path else "not found"
        without = (
            "graphviz-pure draws SVG and PNG, PDF needs dot" if draws else "no images; DOT text still works"
        )
        fix = how_to_install("pdf" if draws else None)
        yield Check("note" if draws else "missing", "dot", f"{what}: {without}", fix)
    path, version = found.get("graphviz-pure", ("", ""))
    text = f"{version} ({path})" if version else "does not start" if path else "not installed (optional)"
    yield Check("ok" if version else "note", "graphviz-pure", text)


def _folder() -> Check:
    here = os.getcwd()
    try:
        with tempfile.TemporaryFile(dir=here):
            return Check("ok", "folder", f"{here} can be written to")
    except OSError as error:
        return Check(
            "missing", "folder", f"{here} cannot be written to: {error.strerror}", "cd to a folder of yours"
        )


def _variables() -> Iterator[Check]:
    """The PEEK_ variables that are set, and whether they are understood."""
    _, problems = resolve({})
    bad = {problem.where: problem for problem in problems}
    for name in sorted(v for v in os.environ if v.startswith("PEEK_")):
        value = f"{os.environ[name]!r}"
        if name in bad:
            yield Check("missing", name, f"{value} {bad[name].what}", bad[name].fix)
        else:
            yield Check("ok", name, value)
