"""Line numbers for places that a snapshot's file knows by their text: looked up in the sources beside it, or in its revision."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from ..diff import Verdict
from ..errors import PeekError
from ..model.snapshot import Place
from .operands import git

Read = Callable[[str], "str | None"]
"""Gives a source file's text by its path from the project's top; None where there is none."""

_DEF = re.compile(r"\s*(?:async\s+)?(?:def|class)\s+(\w+)")


def working_tree(root: Path) -> Read:
    """Reads the files as they are now below ``root``."""

    def read(file: str) -> str | None:
        try:
            return (root / file).read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError):
            return None

    return read


def revision(name: str, root: Path) -> Read:
    """Reads the files below ``root`` as they are in a git revision, each once: it costs a process."""

    @cache
    def read(file: str) -> str | None:
        try:
            data = git(["-C", str(root), "cat-file", "blob", f"{name}:./{file}"], name)
        except PeekError:
            return None
        return data.decode("utf-8", "replace")

    return read


def located(verdict: Verdict, read: Read) -> Verdict:
    """The verdict with a line for each place whose text stands in its file, within its function where it stands there often."""
    files: dict[str, list[str] | None] = {}
    known: dict[Place, Place] = {}

    def place_of(place: Place | None) -> Place | None:
        if place is None or place.line or not place.file or not place.code:
            return place
        if place not in known:
            if place.file not in files:
                text = read(place.file)
                files[place.file] = None if text is None else text.splitlines()
            lines = files[place.file]
            known[place] = place if lines is None else replace(place, line=line_of(place, lines))
        return known[place]

    findings = []
    for finding in verdict.findings:
        edits = tuple([replace(edit, place=place_of(edit.place)) for edit in finding.group.edits])
        findings.append(replace(finding, group=replace(finding.group, edits=edits)))
    return replace(verdict, findings=tuple(findings))


def line_of(place: Place, lines: list[str]) -> int:
    """The line, from 1, whose text is a place's; 0 when none is."""
    start = place.code.removesuffix("…") if place.code.endswith("…") else ""
    function = place.function.rpartition(".")[2]
    found, inside, here = 0, 0, ""
    for number, line in enumerate(lines, 1):
        head = _DEF.match(line)
        here = head[1] if head else here
        text = " ".join(line.split())
        if text == place.code or (start and text.startswith(start)):
            found = found or number
            inside = inside or (number if here == function else 0)
    return inside or found
