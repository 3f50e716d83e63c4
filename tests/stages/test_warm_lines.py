"""Lines of graphs that come out of torch's caches, after the program was edited or moved since they were filled."""

from __future__ import annotations

import json
import linecache
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from peek_backend.capture.moved import at_lines_of, at_todays_lines, frame_today
from peek_backend.model import GraphRecord, NodeRecord, Source, StackFrame

RUN = """
import json, os, sys
import peek_backend

def told(source):
    torch._dynamo.reset()
    options = {"inner": "inductor", "stages": "all", "stages_from": source, "quiet": True}
    with peek_backend.session() as session:
        torch.compile(Net(), backend="peek", options=options)(torch.randn(4, 8)).sum().backward()
    record = session.record
    nodes = [(g, n) for g in record.graphs for n in g.nodes]
    return {
        "caches": {c.cache: c.outcome for g in record.graphs if g.lowering for c in g.lowering.caches},
        "lines": {
            f"{g.key} {n.name}": [os.path.basename(n.source.file), n.source.line, n.source.function, n.source.code]
            for g, n in nodes if n.source and n.source.line
        },
        "inputs": {f"{g.key} {n.name}": n.source.input for g, n in nodes if n.source and n.source.input},
        "bare": [f"{g.key} {n.name}" for g, n in nodes if g.stage == "joint" and not n.origins and n.source],
    }

print(json.dumps([told(source) for source in sys.argv[1:]]))
"""
AT_FIRST = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def twice(self, x):
        x = torch.tanh(x)
        x = torch.tanh(x)
        return x

    def forward(self, x):
        x = self.twice(x)
        return self.fc(x).relu()
"""
# Lines were added, one has a remark, a method has another name and another place.
EDITED = """
# A remark.
import torch

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x):
        x = self.two(x)
        return self.fc(x).relu()  # no bias

    def two(self, x):
        x = torch.tanh(x)
        # And again.
        x = torch.tanh(x)
        return x

Net = Layer
"""
# Values have other names, among them those that others had, and a line is three: AOTAutograd's cache does not know it.
RENAMED = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, y):
        relu = torch.tanh(y)
        linear = torch.tanh(relu)
        x = self.layer(linear)
        x = x.relu()
        return x
"""
ROOT = Path(__file__).parents[2]


def told_of(file: Path, program: str, caches: Path, *sources: str) -> list[dict]:
    """What captures of a program in a process of its own say, one for each source of the stages."""
    file.write_text(program + RUN)
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(caches), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(file), *sources],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    """Caches that another program filled."""
    folder = tmp_path_factory.mktemp("first")
    told_of(folder / "first.py", AT_FIRST, folder / "caches", "log")
    return folder / "caches"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("program", "aot", "functions"),
    [
        pytest.param(EDITED, "hit", {"forward", "two"}, id="edited"),
        pytest.param(RENAMED, "miss", {"forward"}, id="renamed"),
    ],
)
def test_caches_that_another_program_filled(program, aot, functions, caches, tmp_path):
    """What comes out of the caches has the lines, code, functions and inputs that the program has now."""
    log, live = told_of(tmp_path / "today.py", program, caches, "log", "live")
    assert log["caches"] == {"FX graph": "hit", "AOTAutograd": aot}
    assert live["caches"] == {"FX graph": "hit", "AOTAutograd": "bypass"}
    assert log["bare"] == live["bare"] == []
    code = (tmp_path / "today.py").read_text().splitlines()
    for file, line, function, text in [*log["lines"].values(), *live["lines"].values()]:
        assert (file, text) == ("today.py", code[line - 1].strip())
        assert function in functions
    for part in ("lines", "inputs"):
        assert log[part] == live[part]
    joint = {name.split()[-1]: line for name, line in live["lines"].items() if name.startswith("0/0 joint ")}
    later = {n: line for n, line in log["lines"].items() if " post_grad " in n and n.split()[-1] in joint}
    assert later
    assert later == {name: joint[name.split()[-1]] for name in later}


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
        ("d a b", [2, 3], "d b", [2], [None, 2]),
        # The same code in another function of the file, which the graph is not of.
        ("d a b d a b", [2, 3], "d a b d a b", [5, 6], [5, 6]),
    ],
)
def test_where_lines_went(was, told, now, known, expected, tmp_path):
    """Lines are found by their code and their order, in the program as it is now."""
    file = tmp_path / "m.py"
    file.write_text("\n".join(now.split()))
    linecache.checkcache(str(file))
    found = at_todays_lines(graph(str(file), was, *told), graph(str(file), now, *known))
    assert [n.source and n.source.line for n in found.nodes] == expected
    if len(told) == len(known):
        assert {n.source.code for n in found.nodes} == {now.split()[at - 1] for at in expected}


def test_lines_in_the_order_in_which_they_run():
    """A method that stands elsewhere in the file now is still called where it was."""
    told, today = graph("/a/m.py", "d a b", 2, 3), graph("/a/m.py", "b d a", 3, 1)
    assert at_todays_lines(told, today).nodes == today.nodes


def named(graph: GraphRecord, *names: str) -> GraphRecord:
    """The graph with these names for its nodes."""
    return replace(
        graph, nodes=tuple(replace(n, name=name) for n, name in zip(graph.nodes, names, strict=True))
    )


@pytest.mark.parametrize(
    ("told", "names", "expected"),
    [
        # By name, in whatever order; what a pass made is where the others of its line are.
        ([3, 2, 3], "mm add made", [6, 5, 6]),
        # A line of which nothing else is left: of a program that is another one, it is not told.
        ([3, 4], "mm made", [6, None]),
        # One line that is two today: which, nobody says.
        ([2, 2, 2], "add mm made", [5, 6, None]),
    ],
)
def test_later_graphs_follow_names(told, names, expected):
    """Nodes of a later graph are at the lines of those that have their names in the graph before."""
    half = named(graph("/b/m.py", "d d d d a b", 5, 6), "add", "mm")
    found = at_lines_of(named(graph("/a/m.py", "d a b c", *told), *names.split()), [half])
    assert [n.source and n.source.line for n in found.nodes] == expected
    assert {n.source.file for n in found.nodes if n.source} == {"/b/m.py"}


@pytest.mark.parametrize(
    ("frame", "lines", "expected"),
    [
        (StackFrame("/a/m.py", 2, "f", "a"), ("d a b", 2, 3), 2),
        # Elsewhere now; one of two that read the same; none of them.
        (StackFrame("/old/m.py", 2, "f", "a"), ("d d a b", 3, 4), 3),
        (StackFrame("/old/m.py", 2, "f", "a"), ("d a a", 2, 3), None),
        (StackFrame("/old/m.py", 2, "f", "c"), ("d a b", 2, 3), None),
    ],
)
def test_the_line_of_a_reason(frame, lines, expected):
    """A line that a cached reason quotes is today's, or is not told."""
    found = frame_today(frame, graph("/a/m.py", *lines))
    assert (found and found.line) == expected
    assert found is None or (found.file, found.code) == ("/a/m.py", frame.code)


def test_lines_of_the_same_program_stay():
    """In a text of today's program a node that a pass made keeps its line, though no other is on it."""
    text = named(graph("/b/m.py", "d d c d a b", 5, 3), "add", "made")
    half = named(graph("/b/m.py", "d d c d a b", 5, 6), "add", "mm")
    assert at_lines_of(text, [half]) == text


def test_a_program_in_another_place():
    """Another folder, file or function: the nodes are those of today's program all the same."""
    told = graph("/a/m.py", "d a b", 2, 3)
    for today in (
        graph("/b/m.py", "# d a b", 3, 4),
        graph("/a/other.py", "d a b", 2, 3),
        graph("/a/m.py", "# d a b", 3, 4, function="start"),
    ):
        assert at_todays_lines(told, today).nodes == today.nodes
