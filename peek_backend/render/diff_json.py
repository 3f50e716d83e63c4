"""A diff and its verdict as JSON: the stable contract for tools.

    {"format": "peek-diff", "version": 1, "name": "test_mlp[dynamic]",
     "level": "fail" | "warn" | "info" | "same", "strict": false, "confounded": "torch 2.13 → 2.15",
     "environment": [{"key": "torch", "old": "2.13", "new": "2.15"}],
     "stats": {"old": {"frames": 1, "graphs": 1, "ops": 3, "breaks": 0, "recompiles": 0}, "new": {…}},
     "findings": [{"level": "fail" | "warn" | "allowed" | "info", "kind": "op:added", "words": "op added", "count": 24,
                   "module": "layers.*.mlp", "text": "operator.mul(%gelu, 1.0001)", "old": "", "new": "", "follows": 0,
                   "sample": "",
                   "leads_to": [{"kind": "graph:added", "text": "graph split: f ▸ resume#1"}],
                   "allowed_by": "", "note": "",
                   "edits": [{"graph": "MLP.forward", "module": "layers.0.mlp", "target": "operator.mul",
                              "text": …, "old": …, "new": …, "file": "model.py", "line": 18, "function": "forward",
                              "code": "…", "node": 7, "old_node": null, "count": 1, "follows": 0, "delta": null,
                              "inside": []}]}],
     "unused_allowances": []}

``inside`` of a module that came or went whole are the edits of its ops and inputs, each with its kind. Every key is always there.
A line is null where only a file knew the place. New keys may come; ``version`` is raised when
one goes or changes.
"""

from __future__ import annotations

import json
import math

from ..diff.edits import KINDS, Diff, Edit
from ..diff.verdict import Finding, Verdict
from ..model.snapshot import Place

VERSION = 1


def diff_data(verdict: Verdict, diff: Diff) -> dict:
    """The same as plain data, for several diffs in one document."""
    return {
        "format": "peek-diff",
        "version": VERSION,
        "name": verdict.name,
        "level": verdict.level,
        "strict": verdict.strict,
        "confounded": verdict.confounded,
        "environment": [{"key": key, "old": old, "new": new} for key, old, new in diff.env],
        "stats": {"old": diff.old_stats, "new": diff.new_stats},
        "findings": [_finding(finding) for finding in verdict.findings],
        "unused_allowances": list(verdict.unused_allowances),
    }


def render_json(verdict: Verdict, diff: Diff) -> str:
    """The document in ASCII, ending in a newline."""
    return json.dumps(diff_data(verdict, diff), indent=1) + "\n"


def _finding(finding: Finding) -> dict:
    group = finding.group
    return {
        "level": finding.level,
        "kind": group.kind,
        "words": KINDS[group.kind],
        "count": group.count,
        "module": group.module,
        "text": group.text,
        "old": group.old,
        "new": group.new,
        "follows": group.follows,
        "sample": next((edit.sample for edit in group.edits if edit.sample), ""),
        "leads_to": [{"kind": kind, "text": text} for kind, text in group.leads_to],
        "allowed_by": finding.allowed_by,
        "note": finding.note,
        "edits": [_edit(edit) for edit in group.edits],
    }


def _edit(edit: Edit) -> dict:
    place = edit.place or Place()
    known = edit.delta is not None and math.isfinite(edit.delta)
    return {
        "graph": edit.graph,
        "module": edit.module,
        "target": edit.target,
        "text": edit.text,
        "old": edit.old,
        "new": edit.new,
        "file": place.file,
        "line": place.line or None,
        "function": place.function,
        "code": place.code,
        "node": edit.node,
        "old_node": edit.old_node,
        "count": edit.count,
        "follows": edit.follows,
        "delta": edit.delta if known else None,
        "inside": [{"kind": part.kind, **_edit(part)} for part in edit.inside],
    }
