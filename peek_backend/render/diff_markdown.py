"""A verdict as Markdown for a pull request or a job summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..diff.verdict import Finding, Verdict
from .diff_lines import change, counts, group_place, place_text, remarks, subject, where, words
from .diff_text import MARKS
from .escape import markdown, markdown_code

_TITLES = {"fail": "❌", "warn": "⚠️", "info": "✅", "same": "✅"}


def render_markdown(verdict: Verdict, *, where_is: str = "") -> str:
    """A heading, then one row a group; ends in a newline. ``where_is`` is the snapshot's path."""
    lines = [f"### {_TITLES[verdict.level]} {markdown(verdict.name or 'graph')}: {counts(verdict)}", ""]
    if where_is:
        lines += [markdown_code(where_is), ""]
    if verdict.confounded:
        lines += [f"**Confounded** ({markdown(verdict.confounded)}): the environments differ.", ""]
    if verdict.findings:
        lines += ["| | change | where | what | line |", "|---|---|---|---|---|"]
        lines += [_row(finding) for finding in verdict.findings]
        lines.append("")
    for entry in verdict.unused_allowances:
        lines += [f"No change needed the allowance {markdown_code(entry)}.", ""]
    return "\n".join(lines)


def _row(finding: Finding) -> str:
    group = finding.group
    what = [markdown_code(part) for part in (subject(group), change(group)) if part]
    what += [markdown(remark) for remark in remarks(finding)]
    cells = [
        MARKS[finding.level],
        markdown(words(finding)),
        markdown_code(where(group)),
        "<br>".join(what),
        markdown_code(place_text(group_place(group), code=True)),
    ]
    return f"| {' | '.join(cells)} |"


def render_summary(texts: Iterable[str], limit: int = 1_000_000) -> str:
    """Markdown of several diffs in at most ``limit`` bytes (GitHub refuses a job summary above 1 MiB).

    Says how many lines are left out.
    """
    lines = [line for text in texts for line in text.split("\n")]
    kept = list(_within(lines, limit - 100))
    left = len(lines) - len(kept)
    tail = [f"\n… {left:,} more lines are left out"] if left else []
    return "\n".join([*kept, *tail]) + "\n"


def _within(lines: Iterable[str], limit: int) -> Iterator[str]:
    size = 0
    for line in lines:
        size += len(line.encode("utf-8", "replace")) + 1
        if size > limit:
            return
        yield line
