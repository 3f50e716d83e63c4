"""The page in Chromium: written, first frame, pan, search, expand, at 10,000 and 100,000 nodes; beside Graphviz, dagre and elkjs.

The graph is Llama-shaped (tests/page/synthetic.py). Frames are drawn at 1280×800 and read back, so that the time includes the
raster. Graphviz's SVG is that of ``--full``, of the same model with fewer layers, since ``dot`` needs minutes for
10,000 nodes. For dagre and elkjs set ``PEEK_BENCH_NODE_MODULES`` to a folder in which
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

from ..page.conftest import ARGUMENTS
from ..page.synthetic import capture
from .harness import Row, seconds

GRAPHVIZ_NODES = 800
PEER_NODES = 800
PEER_LIMIT = 60
"""Seconds after which another layout is given up."""

# A pan of 60 frames, each read back from the canvas; the slowest of 20 is what a user feels.
_PAN = """() => { const v = window.peek.app.graphView, c = v.canvas, times = [];
  for (let k = 0; k < 60; k++) { const t = performance.now(); c.camera.x += 7; c.camera.y -= 11; c.draw(); c.ctx.getImageData(0, 0, 1, 1); times.push(performance.now() - t); }
  times.sort((a, b) => a - b); return times[57]; }"""
_SEARCH = """() => { const a = window.peek.app, times = [];
  for (const q of ['op:linear', 'mul', 'module:layers.*.mlp', 'shape:[1,*,512]', 'dtype:f32 file:modeling']) { const t = performance.now(); a.search(q, true); a.graphView.paint(); times.push(performance.now() - t); }
  a.search('', true); return Math.max(...times); }"""
_EXPAND = """() => { const v = window.peek.app.graphView, s = v.current, found = [];
  s.layout.walk((item, x, y, box) => { if (s.tree.isGroup(item) && !box.content && s.tree.groups.kind[item - s.tree.N] !== 'fold') found.push(item); return true; });
  const times = found.map((item) => { const t = performance.now(); v.toggle(item); v.paint(); return performance.now() - t; });
  return Math.max(...times); }"""
_EXPAND_ALL = """() => { const v = window.peek.app.graphView, s = v.current, open = new Set(); for (let g = 0; g < s.tree.G; g++) open.add(s.tree.N + g);
  const t = performance.now(); s.layout.setOpen(open); s.layout.box(s.tree.root); v.canvas.fit(); v.canvas.draw(); return performance.now() - t; }"""
_PAN_ZOOMS = """() => { const c = window.peek.app.graphView.canvas, box = c.scene.layout.box(c.scene.tree.root), out = [];
  for (let z = 0.002; z < 1; z *= 1.7) { c.camera = { k: z, x: c.w / 2, y: -box.height * 0.4 * z }; const times = [];
    for (let k = 0; k < 10; k++) { const t = performance.now(); c.camera.y -= 11; c.draw(); c.ctx.getImageData(0, 0, 1, 1); times.push(performance.now() - t); }
    times.sort((a, b) => a - b); out.push(times[8]); }
  return Math.max(...out); }"""
_FRAME = """() => new Promise((ok) => requestAnimationFrame(() => requestAnimationFrame(() => ok(performance.now()))))"""


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
    rows = [
        Row(f"page of {label}, written", written, "s", limits.get("write")),
        Row(f"page of {label}, size", file.stat().st_size / 1e6, "MB", limits.get("size")),
        Row(f"page of {label}, first frame", first, "s", limits.get("frame"), "from navigation to the second frame with the graph"),
        Row("  pan frame", tab.evaluate(_PAN), "ms", limits.get("pan"), "95th percentile of 60, folded as at first"),
        Row("  search", tab.evaluate(_SEARCH), "ms", limits.get("search"), "slowest of 5 queries, with the redraw"),
        Row("  expand", tab.evaluate(_EXPAND), "ms", limits.get("expand"), "slowest of all closed containers, with the redraw"),
        Row("  expand everything", tab.evaluate(_EXPAND_ALL), "ms"),
        Row("  pan frame, all open", tab.evaluate(_PAN_ZOOMS), "ms", limits.get("pan"), "the slowest of 12 zooms"),
    ]  # fmt: skip
    tab.close()
    return rows


def first_frame(tab: Any, url: str) -> float:
    """Seconds from navigation to the second frame after the page is ready."""
    tab.goto(url, wait_until="commit")
    tab.wait_for_selector("html[data-ready]", timeout=60_000)
    return tab.evaluate(_FRAME) / 1000


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
    shown = tab.evaluate(_FRAME) / 1000
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
  edges: d.edges.map(([a, b], k) => ({ id: "e" + k, sources: ["n" + a], targets: ["n" + b] })) }).then(() => {}, () => process.exit(1));"""


def peers(folder: Path) -> Iterator[Row]:
    """Layout of the same graph by dagre and elkjs, flat and without parameters; nothing without their modules."""
    modules = os.environ.get("PEEK_BENCH_NODE_MODULES")
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
