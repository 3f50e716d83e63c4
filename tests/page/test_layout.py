"""The layout's properties on random graphs, run by Node where it is there, else in Chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from peek_backend.render.html.bundler import bundle, modules
from tests.page.synthetic import late_mask

PROPERTIES = Path(__file__).parent / "properties.js"
SEEDS = 400


def script(seeds: int = SEEDS) -> str:
    """The page's layout modules and the property loop as one script."""
    sources = modules() | {"properties.js": PROPERTIES.read_text("utf-8")}
    return f"globalThis.layoutSeeds = {seeds};\n{bundle(sources, 'properties.js')}"


@pytest.fixture(scope="session")
def run_script(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Runs a script and gives its ``layoutFailures``."""
    node = shutil.which("node")
    if node is not None:
        path = tmp_path_factory.mktemp("node") / "properties.js"

        def with_node(text: str) -> list[str]:
            path.write_text(text, encoding="utf-8")
            done = subprocess.run([node, str(path)], capture_output=True, text=True, timeout=120, check=True)
            return json.loads(done.stdout)

        return with_node
    browser = request.getfixturevalue("chromium")

    def with_chromium(text: str) -> list[str]:
        tab = browser.new_page()
        tab.evaluate(f"() => {{ {text} }}")
        failures = tab.evaluate("globalThis.layoutFailures")
        tab.close()
        return failures

    return with_chromium


def test_layout_properties_hold_on_random_graphs(run_script):
    """No boxes overlap, edges go down and pass no box, opening moves nothing above, the same input gives the same picture."""
    assert run_script(script()) == []


def test_what_is_made_early_stands_just_above_what_reads_it(open_page):
    """A mask of two ops that is made first and read last stands beside the last steps, not at the top."""
    record = late_mask(steps=8)
    opened = open_page(record, "#v=graph")
    names = [node.name for node in record.graphs[0].nodes]
    at = {name: opened.js(f"app.graphView.current.layout.find({i}).y") for i, name in enumerate(names)}
    assert at["unsqueeze"] == at["tanh_7"]
    assert at["arange"] == at["tanh_6"]


BUGS = {
    "boxes overlap": ("Math.max(0, size.right[a] - half(a) - free / 2)", "0"),
    "edges pass under boxes": ("x > at[i] - left[i] - LANE && x < at[i] + right[i] + LANE", "false"),
    "opening moves the box": ("shift = -left.reduce((s, v) => s + v, 0)", "shift = 0"),
    "what only feeds stands at the top of its row": ("hangs[i] && size.leaf[i]", "false"),
    "edges do not go down": ("rank[b] = Math.max(rank[b], rank[i] + 1);", ""),
}


@pytest.mark.parametrize("bug", BUGS)
def test_the_properties_see_a_broken_layout(run_script, bug):
    """Each of these mistakes in the layout makes a property fail."""
    right, wrong = BUGS[bug]
    sources = modules() | {"properties.js": PROPERTIES.read_text("utf-8")}
    assert sources["layers.js"].count(right) == 1
    sources["layers.js"] = sources["layers.js"].replace(right, wrong)
    assert run_script(f"globalThis.layoutSeeds = 60;\n{bundle(sources, 'properties.js')}")
