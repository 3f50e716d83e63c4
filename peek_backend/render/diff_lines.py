"""What a finding says, in pieces that each output lays out for itself. Nothing is escaped here."""

from __future__ import annotations

from collections.abc import Iterator

from ..diff.edits import KINDS, Edit, Group
from ..diff.verdict import Finding, Verdict
from ..model.snapshot import Place
from .labels import plural

_COUNTED = {
    "name": "{} renamed",
    "module": "{} moved to another module path",
    "order": "{} reordered, with no effect",
    "source": "{} changed in text",
    "symbol": "{} with another name or other sources",
}
_WHOLE = frozenset({"op:changed", "op:constant", "op:rewired"})
"""Kinds whose old and new text is the whole call."""


def words(finding: Finding) -> str:
    """What happened: ``op added ×24``, ``dim became static``, ``20 nodes renamed``."""
    group = finding.group
    if group.kind in _COUNTED:
        return _COUNTED[group.kind].format(plural(group.count, group.text.removesuffix("s")))
    count = f" ×{len(group.edits)}" if len(group.edits) > 1 else ""
    return KINDS[group.kind] + count


def subject(group: Group) -> str:
    """What it happened to: an op's call, an input, a size; empty for what is told as a number."""
    if group.kind in _COUNTED or group.kind in _WHOLE or group.kind == "output:changed":
        return ""
    return group.text


def change(group: Group) -> str:
    """What was before and after: ``s0 [2, ∞] → 4``; empty when the subject says all."""
    if group.old and group.new:
        return f"{group.old} → {group.new}"
    if group.kind.startswith("input:"):
        return group.new or group.old
    if group.kind == "recompile:added" and group.new:
        return f"because {group.new}"
    return group.old or group.new


def place_text(place: Place | None, *, code: bool = False) -> str:
    """``model.py:31`` with a known line, ``model.py:forward`` without; with ``code`` the line's text too."""
    if place is None or not place.file:
        return ""
    text = f"{place.file}:{place.line or place.function}".rstrip(":")
    return f"{text}  {place.code}" if code and place.code else text


def group_place(group: Group) -> Place | None:
    """The user's line of a group's first edit that has one."""
    return next((edit.place for edit in group.edits if edit.place is not None), None)


def follows_text(group: Group) -> str:
    """``3 downstream types follow (f32[s0, 8] → f32[4, 8])``; empty when none do."""
    count = group.follows
    if not count:
        return ""
    sample = next((edit.sample for edit in group.edits if edit.sample), "")
    return f"{plural(count, 'downstream type')} follow{'s' if count == 1 else ''}{f' ({sample})' if sample else ''}"


def notes(group: Group) -> list[str]:
    """What follows from a group of edits, each a line below it: types further down, graphs that a break split."""
    return [text for text in (follows_text(group), *[text for _, text in group.leads_to]) if text]


def remarks(finding: Finding) -> list[str]:
    """Why a finding's level is not the usual one, then the notes on its group."""
    allowed = f"allowed: {finding.allowed_by}" if finding.allowed_by else ""
    return [text for text in (finding.note, allowed, *notes(finding.group)) if text]


def where(group: Group) -> str:
    """The module, and the graph where that says more than the module: a resume function, a body, a variant."""
    graphs = list(dict.fromkeys(edit.graph for edit in group.edits))
    graph = (
        graphs[0]
        if len(graphs) == 1 and ("▸" in graphs[0] or "/" in graphs[0]) and graphs[0] != group.text
        else ""
    )
    return "  ".join(part for part in (graph, group.module) if part)


def counts(verdict: Verdict) -> str:
    """``2 failing changes, 1 warning, 1 info``; ``no change`` when there is none."""
    parts = [
        text
        for level, text in (
            ("fail", plural(verdict.count("fail"), "failing change")),
            ("warn", plural(verdict.count("warn"), "warning")),
            ("allowed", f"{verdict.count('allowed'):,} allowed"),
            ("info", f"{verdict.count('info'):,} info"),
        )
        if verdict.count(level)  # type: ignore[arg-type]
    ]
    return ", ".join(parts) or "no change"


def sizes_that_became_static(verdict: Verdict) -> Iterator[Edit]:
    """The edits for which ``peek explain`` has an answer."""
    for finding in verdict.findings:
        if finding.group.kind == "dim:static":
            yield from finding.group.edits
