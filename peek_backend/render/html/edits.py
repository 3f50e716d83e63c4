"""A diff of two captures as the page shows it, whatever worked it out: edits in words, each with the nodes it is about."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, to_builtins

from ...model import CaptureRecord
from ..escape import html_text as esc
from .payload import clean, plain


class PageEdit(Struct, frozen=True):
    """One edit. ``graph`` and ``node`` name the node in the new capture (graph key, index), ``before_…`` in the old.

    ``before`` and ``after`` are what a changed thing read; ``count`` how many equal edits it stands for, which the text
    says too; ``more`` and ``before_more`` are the nodes of these.
    """

    kind: Literal["added", "removed", "changed", "info"]
    text: str
    level: Literal["fail", "warn", "info"] = "fail"
    graph: str | None = None
    node: int | None = None
    before_graph: str | None = None
    before_node: int | None = None
    before: str = ""
    after: str = ""
    place: str = ""
    count: int = 1
    more: tuple[tuple[str, int], ...] = ()
    before_more: tuple[tuple[str, int], ...] = ()


class PageDiff(Struct, frozen=True):
    """All edits, worst first, with the verdict. ``base`` is the old capture: with it removed nodes can be looked at.

    ``files`` are the names of the old and the new capture.
    """

    headline: str
    tone: Literal["good", "warn", "bad"]
    edits: tuple[PageEdit, ...]
    base: CaptureRecord | None = None
    files: tuple[str, str] | None = None


def diff_payload(graphs: list[dict[str, Any]], diff: PageDiff) -> dict[str, Any]:
    """The diff as the page reads it; ``graphs`` are the payload's, those of the old capture marked ``before``."""
    at: dict[tuple[bool, str], int] = {}
    for position, graph in enumerate(graphs):
        if graph["parent"] is None:
            at[graph.get("side") == "before", graph["key"]] = position
    edits = [_edit(edit, at) for edit in diff.edits]
    return plain({"headline": diff.headline, "tone": diff.tone, "files": diff.files, "edits": edits})


MAX_PLAIN = 300
"""Edits that show without JavaScript."""


def diff_html(diff: PageDiff) -> str:
    """The verdict and the edits as HTML that needs no JavaScript."""
    rows = [f"<li>{esc(clean(_edit_text(edit)))}</li>" for edit in diff.edits[:MAX_PLAIN]]
    files = f"<p>{esc(clean(' → '.join(diff.files)))}</p>\n" if diff.files else ""
    rows += [f"<li>{len(diff.edits) - MAX_PLAIN} more</li>"] if len(diff.edits) > MAX_PLAIN else []
    return (
        f'<p class="verdict {diff.tone}">{esc(clean(diff.headline))}</p>\n{files}<ul>{"".join(rows)}</ul>\n'
    )


def _edit_text(edit: PageEdit) -> str:
    change = f"{edit.before} → {edit.after}" if edit.before or edit.after else ""
    return " · ".join(filter(None, (f"{edit.level}: {edit.text}", change, edit.place)))


def _edit(edit: PageEdit, at: dict[tuple[bool, str], int]) -> dict[str, Any]:
    """An edit with graphs by position; what names an unknown graph loses its link."""
    row = to_builtins(edit)
    row["graph"], row["before_graph"] = (
        at.get((False, edit.graph or "")),
        at.get((True, edit.before_graph or "")),
    )
    row["node"] = edit.node if row["graph"] is not None else None
    row["before_node"] = edit.before_node if row["before_graph"] is not None else None
    more = [(at.get((False, key)), node) for key, node in edit.more]
    more += [(at.get((True, key)), node) for key, node in edit.before_more]
    row["more"] = [place for place in more if place[0] is not None]
    del row["before_more"]
    return row
