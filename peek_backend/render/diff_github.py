"""Verdicts as GitHub workflow commands: annotations on the user's lines, or on the snapshot where no line is known.

GitHub shows ten errors and ten warnings of a step, so at most ten commands are written, worst first, one a group.
https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..diff.verdict import LEVELS, Finding, Verdict
from .diff_lines import change, group_place, notes, place_text, subject, where, words
from .escape import visible

MAX_COMMANDS = 10
_COMMANDS = {"fail": "error", "warn": "warning"}


def render_github(
    verdicts: Iterable[tuple[Verdict, str]],
    *,
    path_of: Callable[[str], str] = str,
    limit: int = MAX_COMMANDS,
) -> str:
    """The commands, one a line; empty when nothing fails or warns.

    Each verdict comes with its snapshot's path in the repository, empty where it has none. ``path_of`` gives the path in the
    repository of a source file, empty for a file of another package: the snapshot is annotated then, and the message says where.
    """
    found = [
        (finding, verdict.name, snapshot)
        for verdict, snapshot in verdicts
        for finding in verdict.findings
        if finding.level in _COMMANDS
    ]
    found.sort(key=lambda entry: LEVELS.index(entry[0].level))
    lines = [_command(finding, name, snapshot, path_of) for finding, name, snapshot in found[:limit]]
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding, name: str, snapshot: str, path_of: Callable[[str], str]) -> str:
    group, place = finding.group, group_place(finding.group)
    source = path_of(place.file) if place is not None and place.file else ""
    file = source or snapshot
    properties = [f"file={_property(file)}"] if file else []
    if source and place is not None and place.line:
        properties.append(f"line={place.line}")
    properties.append(f"title={_property(f'{name}: {words(finding)}')}")
    elsewhere = "" if source else place_text(place, code=True)
    parts = [where(group), subject(group), change(group), *notes(group), elsewhere]
    message = "  ".join(part for part in parts if part) or words(finding)
    return f"::{_COMMANDS[finding.level]} {','.join(properties)}::{_data(message)}"


def _data(text: str) -> str:
    """A message: percent signs and line ends are GitHub's escapes, other control characters are spelled out."""
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
