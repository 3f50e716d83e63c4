"""The page in Chromium: written, first frame, pan, search, expand, at 10,000 and 100,000 nodes; beside Graphviz, dagre and elkjs.

The graph is Llama-shaped (tests/page/synthetic.py). Frames are drawn at 1280×800 and read back, so that the time includes the
raster. Graphviz's SVG is that of ``--full``, of the same model with fewer layers, since ``dot`` needs minutes for
10,000 nodes. For dagre and elkjs set ``BENCH_NODE_MODULES`` to a folder in which
``npm install @dagrejs/dagre elkjs`` ran.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peek_backend.model import GraphRecord, node_refs
from peek_backend.render.html import page

from ..page.conftest import ARGUMENTS, PROBES
from ..page.synthetic import capture
from .harness import Row, seconds

GRAPHVIZ_NODES = 2_000
PEER_NODES = 800
PEER_LIMIT = 60
"""Seconds after which another layout is given up."""


# Seconds from navigation to the second frame from now.
_FRAME = "new Promise((ok) => requestAnimationFrame(() => requestAnimationFrame(() => ok(performance.now() / 1000))))"


def main() -> list[Row]:
    from playwright.sync_api import sync_playwright

    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        rows += big_page(
            browser, Path(folder), 10_000, write=1, size=3, frame=1, pan=16, search=50, expand=50
        )
        rows += big_page(browser, Path(folder), 100_000, size=30, frame=4)
        rows += graphviz(browser, Path(folder))
        browser.close()
        rows += peers(Path(folder))
    return rows


def big_page(browser: Any, folder: Path, nodes: int, **limits: float) -> list[Row]:
    """The numbers of one size; ``limits`` in s, MB and ms."""
    record = capture(nodes)
    page(capture(20))  # the script and style are bundled once a process
    file = folder / f"page{nodes}.html"
    html = page(record)
    written = seconds(lambda: page(record), repeat=3 if nodes <= 10_000 else 1)
    file.write_text(html, encoding="utf-8")
    label = f"{len(record.graphs[0].nodes):,} nodes"
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    first = first_frame(tab, file.as_uri() + "#v=graph")
    ask = lambda what: tab.evaluate(f"probe.{what}()")  # noqa: E731
    most = limits.get
    rows = [
        Row(f"page of {label}, written", written, "s", most("write")),
        Row(f"page of {label}, size", file.stat().st_size / 1e6, "MB", most("size")),
        Row(
            f"page of {label}, first frame", first, "s", most("frame"), "from navigation, to the second frame"
        ),
        Row("  pan frame", ask("pan"), "ms", most("pan"), "median of 60, folded as at first"),
        Row("  search", ask("search"), "ms", most("search"), "slowest of 5 queries, with the redraw"),
        Row("  expand", ask("expand"), "ms", most("expand"), "slowest of all closed ones, with the redraw"),
        Row("  expand everything", ask("expandAll"), "ms"),
        Row("  pan frame, all open", ask("panZooms"), "ms", most("pan"), "the slowest of 12 zooms"),
    ]
    tab.close()
    return rows


def first_frame(tab: Any, url: str) -> float:
    """Seconds from navigation to the second frame after the page is ready."""
    tab.goto(url, wait_until="commit")
    tab.wait_for_selector("html[data-ready]", timeout=60_000)
    shown = tab.evaluate(_FRAME)
    tab.evaluate(PROBES.read_text("utf-8"))
    return shown


def graphviz(browser: Any, folder: Path) -> list[Row]:
    """The same model as a Graphviz SVG: layout, size, first frame and a pan by scrolling."""
    if shutil.which("dot") is None:
        return []
    from peek_backend.render.dot import dot

    graph = capture(GRAPHVIZ_NODES).graphs[0]
    source, svg = folder / "g.dot", folder / "g.svg"
    source.write_text(dot(graph, full=True), encoding="utf-8")
    layout = timed(["dot", "-Tsvg", str(source), "-o", str(svg)])
    if layout is None:
        return []
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.goto(svg.as_uri())
    shown = tab.evaluate(_FRAME)
    tab.close()
    label = f"Graphviz SVG of {len(graph.nodes):,} nodes"
    return [
        Row(f"{label}, layout", layout, "s"),
        Row(f"{label}, size", svg.stat().st_size / 1e6, "MB"),
        Row(f"{label}, first frame", shown, "s"),
    ]


def timed(command: list[str], **options: Any) -> float | None:
    """Wall seconds of a program; None when it fails or takes longer than PEER_LIMIT."""
    start = time.perf_counter()
    try:
        subprocess.run(command, check=True, timeout=PEER_LIMIT, capture_output=True, **options)
    except (subprocess.SubprocessError, OSError):
        return None
    return time.perf_counter() - start


_DAGRE = """const dagre = require("@dagrejs/dagre"), d = JSON.parse(require("fs").readFileSync(process.argv[1]));
const g = new dagre.graphlib.Graph(); g.setGraph({}); g.setDefaultEdgeLabel(() => ({}));
for (let i = 0; i < d.n; i++) g.setNode(i, { width: 120, height: 36 }); for (const [a, b] of d.edges) g.setEdge(a, b);
dagre.layout(g);"""
_ELK = """const ELK = require("elkjs"), d = JSON.parse(require("fs").readFileSync(process.argv[1]));
new ELK().layout({ id: "r", layoutOptions: { "elk.algorithm": "layered", "elk.direction": "DOWN" },
  children: Array.from({ length: d.n }, (_, i) => ({ id: "n" + i, width: 120, height: 36 })),
  edges: d.edges.map(([a, b], k) => ({ id: "e" + k, sources: ["n" + a], targets: ["n" + b] })) })
  .then(() => {}, () => process.exit(1));"""


def peers(folder: Path) -> Iterator[Row]:
    """Layout of the same graph by dagre and elkjs, flat and without parameters; nothing without their modules."""
    modules = os.environ.get("BENCH_NODE_MODULES")
    if not modules or shutil.which("node") is None:
        return
    graph = capture(PEER_NODES).graphs[0]
    data = folder / "flat.json"
    data.write_text(json.dumps(flat(graph)))
    environment = {**os.environ, "NODE_PATH": str(Path(modules) / "node_modules")}
    for name, script in (("dagre", _DAGRE), ("elkjs", _ELK)):
        took = timed(["node", "-e", script, str(data)], env=environment)
        note = "" if took is not None else f"not done after {PEER_LIMIT} s, or failed"
        yield Row(f"{name}, layout of {len(graph.nodes):,} nodes", took or PEER_LIMIT, "s", note=note)


def flat(graph: GraphRecord) -> dict[str, Any]:
    """Nodes and edges without parameters, as those layouts take them."""
    kept = [n.index for n in graph.nodes if n.source is None or n.source.input_kind != "parameter"]
    at = {index: k for k, index in enumerate(kept)}
    edges = {(at[r], at[i]) for i in kept for r in node_refs(graph.nodes[i]) if r in at}
    return {"n": len(kept), "edges": sorted(edges)}
