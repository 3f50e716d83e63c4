"""One self-contained HTML file: data, script and style inside, nothing fetched, nothing evaluated.

The Content-Security-Policy allows this script and this style by their hashes and no request at all. The capture is
base64 of deflated JSON, so it holds no ``<``; every other text goes through one escape. Without JavaScript the file
shows the overview and folded tables as plain HTML.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from ...model import CaptureRecord
from .. import labels
from ..escape import html_text as esc
from ..view import GraphView
from . import bundler
from .edits import PageDiff, diff_html, diff_payload
from .kinds import HEAT, KINDS, kind_css
from .metrics import Metrics
from .overview import facts, plain_html
from .payload import capture_payload, clean, encode

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="peek-backend">
<meta name="color-scheme" content="light dark">
<title>{title} · peek</title>
<style>{style}</style>
<script>{first}</script>
</head>
<body>
<div id="app"></div>
<div id="plain"><h1>{title}</h1>
<p id="broken" role="alert" hidden></p>
{plain}
</div>
"""
_TAIL = """<script type="application/octet-stream" id="capture">{data}</script>
<script>{script}</script>
</body>
</html>
"""


# Hides the plain page before it is painted; the main script stands behind all that it needs.
_FIRST = 'document.documentElement.classList.add("js")'


def page(
    record: CaptureRecord,
    *,
    title: str | None = None,
    diff: PageDiff | None = None,
    sources: Mapping[str, str] | None = None,
) -> str:
    """The page of a capture as HTML text.

    ``diff`` adds the diff view and marks its edits in the graphs. ``sources`` are texts of source files by path: with
    them the source view shows whole files, without only the lines that made nodes; so for a file that is no longer as
    it was captured.
    """
    title = clean(title or default_title(record))
    overview = facts(record)
    views = [GraphView(graph) for graph in record.graphs]
    payload = capture_payload(record, sources, diff.base if diff is not None else None, views)
    metrics = Metrics(record)
    roots = [graph for graph in payload["graphs"] if graph["parent"] is None and "side" not in graph]
    for position, graph in enumerate(roots):
        graph["metrics"] = metrics.columns(position)
    overview["cost"] = metrics.facts()
    payload |= {"title": title, "overview": overview, "kinds": KINDS, "heat": HEAT}
    if diff is not None:
        payload["diff"] = diff_payload(payload["graphs"], diff)
    script, style = assets()
    head = _HEAD.format(
        first=_FIRST,
        policy=policy(script, style),
        title=esc(title),
        style=style,
        plain=(diff_html(diff) if diff is not None else "") + plain_html(record, overview, views),
    )
    return head + _TAIL.format(data=encode(payload), script=script)


def default_title(record: CaptureRecord) -> str:
    """The program and its arguments, without its folder, else the first graph's name, else ``capture``."""
    if record.environment.argv:
        program, *arguments = record.environment.argv
        return " ".join([labels.place_text(program, None), *arguments])[:120]
    return record.graphs[0].name if record.graphs and record.graphs[0].name else "capture"


@lru_cache(maxsize=1)
def assets() -> tuple[str, str]:
    """Script and style, the same for every page."""
    script = bundler.bundle(bundler.modules())
    style = (Path(__file__).parent / "page.css").read_text("utf-8") + kind_css()
    for name, text in (("script", script), ("style", style)):
        if f"</{name}" in text.lower() or "<!--" in text:
            raise ValueError(f"the page's own {name} would end its tag")
    return script, style


def policy(script: str, style: str) -> str:
    """Nothing may be loaded or sent; this script and this style may run; images the page itself makes may show."""
    return (
        f"default-src 'none'; script-src 'sha256-{_hash(_FIRST)}' 'sha256-{_hash(script)}'; style-src 'sha256-{_hash(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


MAX_INLINE = 1_500_000
"""Bytes of a page that a notebook keeps in its cell's output; a bigger one becomes a link to a file."""
MAX_LINES = 200
"""Lines of text that a notebook keeps beside the page, for readers that show neither frames nor pictures."""


def notebook_bundle(
    record: CaptureRecord,
    *,
    svg: str | None = None,
    write: Callable[[str], str] | None = None,
    sources: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What a notebook shows of a record, by MIME type: ``text/plain`` a folded tree, ``text/html`` the page in a sandboxed frame.

    ``svg``, a folded picture where Graphviz is at hand, is for readers that show no frames. ``write`` keeps a page over
    MAX_INLINE in a file and returns its name for a link; without it a big page shows as the plain overview. ``sources`` are
    those of ``page``.
    """
    from ..text import render_text

    html = page(record, sources=sources)
    bundle = {"text/plain": _first_lines(render_text(record, format="tree", width=120))}
    if svg is not None:
        bundle["image/svg+xml"] = svg
    if len(html) <= MAX_INLINE:
        bundle["text/html"] = frame(html)
    elif write is not None:
        bundle["text/html"] = (
            f'<p><a href="{esc(write(html))}" target="_blank">Open the page ({len(html) / 1e6:.1f} MB)</a></p>'
        )
    else:
        bundle["text/html"] = plain_html(record, facts(record))
    return bundle


def _first_lines(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= MAX_LINES:
        return text
    return "\n".join(
        [*lines[:MAX_LINES], f"… {len(lines) - MAX_LINES:,} more lines: print(record.table(format='tree'))"]
    )


def frame(html: str) -> str:
    """A page in a frame that can run its script and save files, and reach nothing of the notebook."""
    return (
        f'<iframe srcdoc="{html.replace("&", "&amp;").replace(chr(34), "&quot;")}" '
        'sandbox="allow-scripts allow-downloads" width="100%" height="640" loading="lazy"></iframe>'
    )
