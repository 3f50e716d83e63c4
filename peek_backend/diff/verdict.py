"""A diff judged by a policy: what fails, what warns, what is only told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from .edits import IMPROVEMENTS, INFO, Diff, Edit, Group, group_edits
from .policy import Allowance, Policy

Level = Literal["fail", "warn", "allowed", "info"]
LEVELS: tuple[Level, ...] = ("fail", "warn", "allowed", "info")

CONFOUNDED_GATES = frozenset(
    {"break:added", "frame:skipped", "capture:nothing", "graph:added", "recompile:added", "dim:static"}
)
"""Kinds that still fail by default when the two environments differ."""
STATS_KINDS = CONFOUNDED_GATES | {
    "break:removed", "frame:captured", "graph:removed", "recompile:removed", "dim:dynamic", "ops:more", "ops:fewer",
}  # fmt: skip
"""Kinds that ``level = "stats"`` looks at."""
GROWTH = frozenset({"op:added", "module:added"})
"""Kinds that ``tolerance.ops`` lets pass, a module's where its ops alone would fail."""


class Finding(Struct, frozen=True):
    """One group of equal edits and its level.

    ``allowed_by`` names the entry that allows it, ``note`` says why the level is not the usual one.
    """

    level: Level
    group: Group
    allowed_by: str = ""
    note: str = ""


class Verdict(Struct, frozen=True):
    """The findings, worst first.

    ``level`` is that of the worst; ``confounded`` says how the environments differ (``torch 2.13 → 2.15``).
    """

    name: str
    level: Literal["fail", "warn", "info", "same"]
    findings: tuple[Finding, ...]
    confounded: str = ""
    strict: bool = False
    unused_allowances: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the gate is shut: the command line then exits with 1."""
        return self.level == "fail"

    def count(self, level: Level) -> int:
        """How many changes have ``level``; names and the like count as one each kind."""
        found = [finding for finding in self.findings if finding.level == level]
        return sum(len(finding.group.edits) for finding in found)


def verdict(diff: Diff, policy: Policy | None = None, *, strict: bool = False) -> Verdict:
    """Judges a diff. ``strict`` makes warnings fail, so that an improvement is ratcheted in."""
    policy = policy or Policy()
    judge = _Judge(diff, policy, strict)
    findings = sorted(judge.findings(), key=lambda finding: LEVELS.index(finding.level))
    levels = {finding.level for finding in findings}
    level = "fail" if "fail" in levels else "warn" if "warn" in levels else "info" if levels else "same"
    unused = tuple(str(entry) for entry in policy.allow if entry not in judge.used)
    return Verdict(diff.name, level, tuple(findings), judge.confounded, strict, unused)


class _Judge:
    def __init__(self, diff: Diff, policy: Policy, strict: bool):
        self.diff, self.policy, self.strict = diff, policy, strict
        self.confounded = ", ".join(f"{key} {old or 'none'} → {new or 'none'}" for key, old, new in diff.env)
        self.used: list[Allowance] = []

    def findings(self) -> Iterator[Finding]:
        """Groups of edits of one level, in order of their first edit."""
        sorted_out: dict[tuple[Level, str, str], list[Edit]] = {}
        for edit in self.edits():
            sorted_out.setdefault(self.level(edit), []).append(edit)
        for (level, allowed_by, note), edits in sorted_out.items():
            for group in group_edits(edits):
                yield Finding(level, group, allowed_by, note)

    def edits(self) -> Iterator[Edit]:
        """The edits that the policy's level looks at, constants within tolerance under their own kind."""
        stats = self.policy.level == "stats"
        if stats:
            yield from self.stats_edits()
        for edit in self.diff.edits:
            if stats and edit.kind not in STATS_KINDS:
                continue
            near = (
                edit.kind == "op:constant"
                and edit.delta is not None
                and edit.delta <= self.policy.float_tolerance
            )
            yield replace(edit, kind="constant:tolerance") if near else edit

    def stats_edits(self) -> Iterator[Edit]:
        old, new = self.diff.old_stats["ops"], self.diff.new_stats["ops"]
        if new > old * (1 + self.policy.ops_growth):
            yield Edit("ops:more", text="ops", old=str(old), new=str(new))
        elif new < old:
            yield Edit("ops:fewer", text="ops", old=str(old), new=str(new))

    def level(self, edit: Edit) -> tuple[Level, str, str]:
        """Level, the allowance that led to it, and a note where it is not the kind's usual one.

        A module that came or went whole is also allowed where all of its parts are, and fails for those that are not.
        """
        if edit.kind in INFO:
            return "info", "", ""
        allowed = [self.allowance(part) for part in (edit, *edit.inside)]
        if allowed[0] or (edit.inside and all(allowed[1:])):
            return "allowed", str(allowed[0] or allowed[1]), ""
        kinds = {edit.kind}
        kinds |= {part.kind for part, by in zip(edit.inside, allowed[1:], strict=True) if by is None}
        if edit.kind not in IMPROVEMENTS:  # what follows from a break must not pass because breaks do
            kinds |= {kind for kind, _ in edit.leads_to}
        failing = set(filter(self.policy.fails, kinds))
        if not failing:
            return ("fail" if self.strict else "warn"), "", ""
        if (
            self.confounded
            and self.policy.fail_on is None
            and CONFOUNDED_GATES.isdisjoint(kinds)
            and not self.strict
        ):
            return "warn", "", "environments differ"
        if edit.kind in GROWTH and failing <= GROWTH and self.within_growth():
            return ("fail" if self.strict else "warn"), "", "within tolerance.ops"
        return "fail", "", ""

    def allowance(self, edit: Edit) -> Allowance | None:
        """The entry that allows an edit, which is of use then."""
        found = self.policy.allowance(edit)
        if found is not None and found not in self.used:
            self.used.append(found)
        return found

    def within_growth(self) -> bool:
        """Whether the number of ops grew by no more than the policy lets it."""
        old, new = self.diff.old_stats["ops"], self.diff.new_stats["ops"]
        return self.policy.ops_growth > 0 and new <= old * (1 + self.policy.ops_growth)
