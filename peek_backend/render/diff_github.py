"""Verdicts as GitHub workflow commands: annotations on the user's lines, or on the snapshot where no line is known.

GitHub shows ten errors and ten warnings of a step, so at most ten commands are written, worst first, one a group.
https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Iterable

from peek_backend.diff.verdict import LEVELS, Finding, Verdict

from .diff_lines import change, group_place, notes, subject, where, words
from .escape import visible

MAX_COMMANDS = 10
_COMMANDS = {"fail": "error", "warn": "warning"}


def render_github(
    verdicts: Iterable[tuple[Verdict, str]], *, prefix: str = "", limit: int = MAX_COMMANDS
) -> str:
    """The commands, one a line; empty when nothing fails or warns.

    Each verdict comes with its snapshot's path in the repository, empty where it has none. ``prefix`` is the folder of the
    project within the repository, with a slash behind it.
    """
    found = [
        (finding, verdict.name, snapshot)
        for verdict, snapshot in verdicts
        for finding in verdict.findings
        if finding.level in _COMMANDS
    ]
    found.sort(key=lambda entry: LEVELS.index(entry[0].level))
    lines = [_command(finding, name, snapshot, prefix) for finding, name, snapshot in found[:limit]]
    return "".join(f"{line}\n" for line in lines)


def _command(finding: Finding, name: str, snapshot: str, prefix: str) -> str:
    group, place = finding.group, group_place(finding.group)
    has_place = place is not None and place.file
    file = prefix + place.file if has_place else snapshot
    properties = [f"file={_property(file)}"] if file else []
    if has_place and place.line:
        properties.append(f"line={place.line}")
    properties.append(f"title={_property(f'{name}: {words(finding)}')}")
    parts = [where(group), subject(group), change(group), *notes(group)]
    message = "  ".join(part for part in parts if part) or words(finding)
    return f"::{_COMMANDS[finding.level]} {','.join(properties)}::{_data(message)}"


def _data(text: str) -> str:
    """A message: percent signs and line ends are GitHub's escapes, other control characters are spelled out."""
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
