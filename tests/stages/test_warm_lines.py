"""Lines of graphs that come out of torch's caches, after the program was edited or moved since they were filled."""

from __future__ import annotations

import json
import linecache
import os
import subprocess
import sys
from pathlib import Path

import pytest

from peek_backend.capture.moved import at_todays_lines
from peek_backend.model import GraphRecord, NodeRecord, Source

PROGRAM = """\
import json, os, sys
import torch
import peek_backend
{above}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x):
        x = torch.tanh(x)
{between}
        x = torch.tanh(x)
        return self.fc(x).relu()

options = {{"inner": "inductor", "stages": "all", "stages_from": sys.argv[1], "quiet": True}}
with peek_backend.session() as session:
    torch.compile(Net(), backend="peek", options=options)(torch.randn(4, 8)).sum().backward()
caches = {{c.cache: c.outcome for g in session.record.graphs if g.lowering for c in g.lowering.caches}}
nodes = [(g, n) for g in session.record.graphs for n in g.nodes if n.op.startswith("call")]
lines = {{
    f"{{g.key}} {{n.name}}": [os.path.basename(os.path.dirname(n.source.file)), n.source.line]
    for g, n in nodes if n.source and n.source.line
}}
bare = [f"{{g.key}} {{n.name}}" for g, n in nodes if g.stage in ("joint", "forward") and not n.origins]
print(json.dumps([caches, lines, bare]))
"""
ROOT = Path(__file__).parents[2]
AT_FIRST = {"above": "", "between": ""}
EDITED = {"above": "# a remark\n" * 3, "between": "        # and one more"}


def lines_of(folder: Path, caches: Path, program: dict[str, str], source: str) -> tuple[dict, dict, list]:
    folder.mkdir(exist_ok=True)
    file = folder / "net.py"
    file.write_text(PROGRAM.format(**program))
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(caches), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(file), source], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return tuple(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.timeout(300)
def test_lines_are_todays_after_an_edit(tmp_path):
    """An edited program in another folder hits both caches; what comes out of them has the lines that the program has now."""
    first, today, caches = tmp_path / "first", tmp_path / "today", tmp_path / "caches"
    lines_of(first, caches, AT_FIRST, "log")
    found, log, bare = lines_of(today, caches, EDITED, "log")
    assert (found, bare) == ({"FX graph": "hit", "AOTAutograd": "hit"}, [])
    found, live, _ = lines_of(today, caches, EDITED, "live")
    assert found == {"FX graph": "hit", "AOTAutograd": "bypass"}
    assert {place for place, _ in [*log.values(), *live.values()]} == {"today"}
    stages = {name: place for name, place in live.items() if not name.startswith("0/0 post_grad")}
    assert stages == {name: place for name, place in log.items() if name in stages}
    assert log.keys() == live.keys()


def graph(file: str, lines: str, *numbers: int, function: str = "forward") -> GraphRecord:
    """A node for each of these lines of a program."""
    text = lines.split()
    nodes = [
        NodeRecord(i, f"n{i}", "call_function", "op", (), {}, None, Source(file, at, function, text[at - 1]))
        for i, at in enumerate(numbers)
    ]
    return GraphRecord("0/0", "dynamo", tuple(nodes), ())


@pytest.mark.parametrize(
    ("was", "told", "now", "known", "expected"),
    [
        ("d a b", [2, 3], "d a b", [2, 3], [2, 3]),
        ("d a b", [2, 3], "# # d a b", [4, 5], [4, 5]),
        # Two lines of the same code: one of them is right by chance.
        ("d a a", [2, 3], "# d a a", [3, 4], [3, 4]),
        # A line between, and one that the text does not have.
        ("d a b", [2, 3], "d a c b", [2, 3, 4], [2, 4]),
        # Right as they are, though one is not known to the graph.
        ("a d a z", [3, 4], "a d a z", [1, 3], [3, 4]),
        # Nodes out of order, and one line for several.
        ("d a b", [3, 2, 3], "# d a b", [4, 3], [4, 3, 4]),
        # The same line with another name in it.
        ("d a b c", [2, 3, 4], "d a B c", [2, 3, 4], [2, 3, 4]),
        ("d a b", [2, 3], "# d A b", [3, 4], [3, 4]),
        # Something else stands there now.
        ("d a b", [2, 3], "d b", [2], [2, 2]),
    ],
)
def test_where_lines_went(was, told, now, known, expected, tmp_path):
    """Lines are found by their code and their order, in the program as it is now."""
    file = tmp_path / "m.py"
    file.write_text("\n".join(now.split()))
    linecache.checkcache(str(file))
    found = at_todays_lines(graph(str(file), was, *told), graph(str(file), now, *known))
    assert [n.source.line for n in found.nodes] == expected
    if len(told) == len(known):
        assert {n.source.code for n in found.nodes} == {now.split()[at - 1] for at in expected}


def test_a_program_in_another_place():
    """Another folder, file or function: the nodes are those of today's program all the same."""
    told = graph("/a/m.py", "d a b", 2, 3)
    for today in (
        graph("/b/m.py", "# d a b", 3, 4),
        graph("/a/other.py", "d a b", 2, 3),
        graph("/a/m.py", "# d a b", 3, 4, function="start"),
    ):
        assert at_todays_lines(told, today).nodes == today.nodes
