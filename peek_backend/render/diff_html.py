"""A diff as one offline HTML file: the verdict, the picture of both graphs merged, and every changed graph row by row.

Comes in: verdicts with their Diffs. Goes out: HTML text that fetches nothing and runs nothing: unchanged runs unfold with the
browser's own ``<details>``. Its size follows what changed, not how large the graphs are.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby

from ..diff.edits import Diff
from ..diff.verdict import Finding, Verdict
from ..errors import PeekError
from .diff_lines import change, counts, group_place, place_text, remarks, subject, where, words
from .diff_picture import diff_dot
from .diff_text import MARKS
from .diff_view import SIGNS, Panel, Row, panels
from .escape import html_text as esc
from .image import render_image
from .labels import plural
from .theme import DARK, LIGHT, Theme

CONTEXT = 3
"""Unchanged rows that are shown beside a changed one."""
MAX_FOLDED = 200
"""Rows of one unchanged run that can be unfolded; of a longer one the ends."""
MAX_ROWS = 5_000
"""Rows of one graph that are written out."""
MAX_PICTURES = 20
_TITLES = {"fail": "Fails", "warn": "Passes, with warnings", "info": "Passes", "same": "Same"}

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{hash}'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
"""

_RULES = """
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:1200px;padding:1.2rem;background:var(--page);color:var(--text)}
h1{font-size:1.35rem;margin:0 0 .3rem}h2{font-size:1.15rem;margin:2rem 0 .4rem}h3{font-size:1rem;margin:1.2rem 0 .3rem}
p{margin:.3rem 0}.muted{color:var(--muted)}code,td.code{font:13px/1.5 ui-monospace,monospace}
table{border-collapse:collapse;width:100%;margin:.4rem 0}th,td{text-align:left;vertical-align:top;padding:.15rem .6rem .15rem
.3rem} th{color:var(--muted);font-weight:normal;border-bottom:1px solid
var(--line)}td.code{white-space:pre-wrap;overflow-wrap:anywhere}
td.sign{width:1.2rem;text-align:center;font-weight:bold;white-space:nowrap} tr.added
td.sign,.added>b{color:var(--added)}tr.removed td.sign,.removed>b{color:var(--removed)}tr.changed
td.sign,.changed>b{color:var(--changed)}
tr.added{background:var(--added-fill)}tr.removed{background:var(--removed-fill)}tr.changed{background:var(--changed-fill)}
tr.removed td.code:nth-child(2){text-decoration:line-through} details>summary{cursor:pointer;color:var(--muted);padding:.1rem
.3rem}img{max-width:100%;height:auto}
.note{color:var(--muted);font-size:13px}.fail{color:var(--removed)}.picture{overflow:auto;border:1px solid
var(--line);border-radius:6px}
@media(max-width:700px){body{padding:.8rem}table,tbody{display:block}thead{display:none}
tr{display:grid;grid-template-columns:1.4rem minmax(0,1fr);padding:.3rem 0;border-bottom:1px solid var(--line)}
td,td.code{grid-column:2;padding:.05rem .2rem;overflow-wrap:anywhere}td.sign{grid-column:1;grid-row:1}td:empty{display:none}
.picture img{max-width:none;width:max(100%,640px)}}
"""


def render_html(found: Sequence[tuple[Verdict, Diff, str]], *, only: Sequence[tuple[str, str]] = ()) -> str:
    """The page. ``found`` are verdict, diff and path (empty for two single files); ``only`` paths on one side alone."""
    style = _variables(LIGHT) + "@media (prefers-color-scheme:dark){" + _variables(DARK) + "}" + _RULES
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    title = _title(found)
    parts = [
        _HEAD.format(hash=digest, title=esc(title), style=style),
        f"<h1>{esc(title)}</h1>\n",
        _overview(found, only),
    ]
    pictures = MAX_PICTURES
    for verdict, diff, path in found:
        if verdict.level == "same" and len(found) > 1:
            continue
        parts.append("".join(_section(verdict, diff, path, single=len(found) == 1, draw=pictures > 0)))
        pictures -= 1
    parts.append("</body>\n</html>\n")
    return "".join(parts)


def _title(found: Sequence[tuple[Verdict, Diff, str]]) -> str:
    if len(found) == 1:
        return f"{found[0][0].name or 'graph'}: {counts(found[0][0])}"
    changed = sum(verdict.level not in ("same", "info") for verdict, _, _ in found)
    return f"{changed} of {plural(len(found), 'snapshot')} changed"


def _variables(theme: Theme) -> str:
    """The theme's colours as CSS variables."""
    inks = theme.inks
    colors = {
        "page": theme.page, "text": theme.text, "muted": theme.muted, "line": theme.cluster_border,
        "added": inks["norm"].border, "added-fill": inks["norm"].fill,
        "removed": inks["attention"].border, "removed-fill": inks["attention"].fill,
        "changed": inks["matmul"].border, "changed-fill": inks["matmul"].fill,
    }  # fmt: skip
    return ":root{" + ";".join(f"--{name}:{color}" for name, color in colors.items()) + "}"


def _overview(found: Sequence[tuple[Verdict, Diff, str]], only: Sequence[tuple[str, str]]) -> str:
    """Of a folder: what is the same, new and gone."""
    lines = []
    same = sum(verdict.level in ("same", "info") for verdict, _, _ in found)
    if len(found) != 1:
        lines.append(f"<p>{plural(same, 'snapshot')} the same.</p>\n")
    for path, side in only:
        lines.append(f"<p>{'Removed' if side == 'old' else 'New'}: <code>{esc(path)}</code></p>\n")
    return "".join(lines)


def _section(verdict: Verdict, diff: Diff, path: str, *, single: bool, draw: bool) -> Iterator[str]:
    if not single:
        yield f"<h2>{esc(verdict.name or 'graph')}: {esc(counts(verdict))}</h2>\n"
    yield f'<p class="{verdict.level}">{_TITLES[verdict.level]}.</p>\n'
    if path:
        yield f"<p><code>{esc(path)}</code></p>\n"
    if verdict.confounded:
        yield f"<p><b>Confounded</b> ({esc(verdict.confounded)}): the environments differ.</p>\n"
    yield from _findings(verdict)
    changed = [panel for panel in panels(diff) if panel.changed]
    if changed and draw:
        yield _picture(diff)
    for panel in changed:
        yield from _panel(panel)


def _findings(verdict: Verdict) -> Iterator[str]:
    if not verdict.findings:
        return
    yield "<table><thead><tr><th></th><th>change</th><th>where</th><th>what</th><th>line</th></tr></thead><tbody>\n"
    yield from map(_finding, verdict.findings)
    yield "</tbody></table>\n"


def _finding(finding: Finding) -> str:
    group = finding.group
    what = "<br>".join(esc(part) for part in (subject(group), change(group)) if part)
    told = "".join(f'<br><span class="note">{esc(remark)}</span>' for remark in remarks(finding))
    place = esc(place_text(group_place(group), code=True))
    return (
        f'<tr><td class="sign {finding.level}">{MARKS[finding.level]}</td><td>{esc(words(finding))}</td>'
        f'<td class="code">{esc(where(group))}</td><td class="code">{what}{told}</td><td class="code">{place}</td></tr>\n'
    )


def _picture(diff: Diff) -> str:
    """The picture as an image of its own, which keeps its light and dark colours; a note where it cannot be drawn."""
    try:
        svg = render_image(diff_dot([diff]), "svg")
    except PeekError as error:
        return f'<p class="note">No picture: {esc(error.problem)}. {esc(error.fix)}</p>\n'
    data = base64.b64encode(svg).decode("ascii")
    alt = f"Both graphs of {diff.name or 'the diff'} as one diagram; the table below says the same in words"
    return f'<div class="picture"><img alt="{esc(alt)}" src="data:image/svg+xml;base64,{data}"></div>\n'


def _panel(panel: Panel) -> Iterator[str]:
    yield f'<h3 class="{panel.mark}"><b>{SIGNS[panel.mark]}</b> {esc(panel.title)}</h3>\n'
    for note in panel.notes:
        yield f"<p><code>{esc(note)}</code></p>\n"
    rows = [row for row in panel.rows if not row.is_input or row.mark != "same"][:MAX_ROWS]
    near = _near(rows)
    for shown, run in groupby(zip(rows, near, strict=True), key=lambda pair: pair[1]):
        lines = [row for row, _ in run]
        yield from _table(lines) if shown else _folded(lines)
    left = sum(not row.is_input or row.mark != "same" for row in panel.rows) - len(rows)
    if left > 0:
        yield f'<p class="note">… and {plural(left, "more row")}, left out.</p>\n'


def _near(rows: Sequence[Row]) -> list[bool]:
    """Whether a row changed or stands within CONTEXT rows of one that did."""
    near = [False] * len(rows)
    for place, row in enumerate(rows):
        if row.mark != "same":
            for i in range(max(0, place - CONTEXT), min(len(rows), place + CONTEXT + 1)):
                near[i] = True
    return near


def _folded(rows: Sequence[Row]) -> Iterator[str]:
    yield f"<details><summary>{plural(len(rows), 'unchanged op')}</summary>\n"
    if len(rows) <= MAX_FOLDED:
        yield from _table(rows)
    else:
        yield from _table(rows[: MAX_FOLDED // 2])
        yield f'<p class="note">… {len(rows) - MAX_FOLDED:,} more …</p>\n'
        yield from _table(rows[-MAX_FOLDED // 2 :])
    yield "</details>\n"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "<table><tbody>\n"
    for row in rows:
        head = f"in {row.label}" if row.is_input else f"{row.label} = {row.call}"
        notes = "".join(f'<br><span class="note">{esc(note)}</span>' for note in row.notes)
        yield (
            f'<tr class="{row.mark}"><td class="sign">{SIGNS[row.mark]}</td><td class="code">{esc(head)}</td>'
            f'<td class="code">{esc(row.type)}{notes}</td><td class="code">{esc(row.place)}</td></tr>\n'
        )
    yield "</tbody></table>\n"


__all__ = ["render_html"]
