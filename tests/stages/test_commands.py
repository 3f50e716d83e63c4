"""peek trace, and the stages that peek show, run and inspect take."""

from __future__ import annotations

import sys

import msgspec
import pytest
import torch

from peek_backend import load
from peek_backend.cli.entry import run
from peek_backend.errors import PeekError
from peek_backend.model import (
    CacheOutcome,
    CudagraphSkip,
    GraphRecord,
    Problem,
    StackFrame,
    StageInfo,
)
from peek_backend.options import STAGES, resolve
from peek_backend.render.image import find_engine
from peek_backend.render.markdown import markdown
from peek_backend.render.text import graph_list, render_text
from tests.builders import capture as capture_of

from .helpers import Small, staged


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """A saved capture with all AOT stages."""
    torch._dynamo.reset()
    path = tmp_path_factory.mktemp("capture") / "small.json"
    staged(Small(), torch.ones(4, 8)).save(path)
    return str(path)


def test_trace_of_a_node(capture, capsys):
    """peek trace FILE NODE prints its line, what it came from and what became of it, without torch."""
    assert run(["trace", capture, "0/0:linear"]) == 0
    out = capsys.readouterr().out
    assert "helpers.py" in out
    assert all(f"0/0 {stage}" in out for stage in ("joint", "forward", "backward"))
    assert "addmm" in out


def test_trace_of_an_unknown_node(capture, capsys):
    """A node that is not there ends with 2 and names the nearest."""
    assert run(["trace", capture, "lineer"]) == 2
    assert "did you mean 'linear'" in capsys.readouterr().err


@pytest.mark.parametrize(("node", "code"), [("0/0:linear", 0), ("lineer", 2)])
def test_trace_of_an_unfinished_capture(capture, capsys, tmp_path, node, code):
    """What a capture lacks is said beside the trail, or before the node that is unknown, and only on stderr."""
    record = load(capture)
    cut = msgspec.structs.replace(record, problems=(Problem("capture", "the program ended early"),))
    cut.save(tmp_path / "cut.json")
    assert run(["trace", str(tmp_path / "cut.json"), node]) == code
    out, err = capsys.readouterr()
    assert err.startswith("peek: problem at capture: the program ended early\n")
    assert "ended early" not in out


@pytest.mark.parametrize("asked", [("--stages", "dynamo,forward"), ("--saved",), ("--in-place",)])
def test_show_stages_of_an_unfinished_capture(capture, capsys, tmp_path, asked):
    """Two stages side by side, saved values and in-place ops say on stderr what the capture lacks."""
    record = load(capture)
    cut = msgspec.structs.replace(record, problems=(Problem("capture", "the program ended early"),))
    cut.save(tmp_path / "cut.json")
    run(["show", str(tmp_path / "cut.json"), *asked])
    assert capsys.readouterr().err.count("problem at capture: the program ended early") == 1


def test_show_two_stages(capture, capsys):
    """peek show --stages a,b aligns two stages in one table."""
    assert run(["show", capture, "--stages", "dynamo,forward"]) == 0
    head, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["0/0", "dynamo", "line", "0/0", "forward", "also", "from"]


def test_show_one_stage(capture, capsys):
    """peek show --stages backward shows that stage's table alone."""
    assert run(["show", capture, "--stages", "backward"]) == 0
    out = capsys.readouterr().out
    assert "0/0 backward" in out
    assert "0/0 joint" not in out


def test_show_what_is_saved(capture, capsys):
    """--saved and --in-place print the autograd view and the functionalisation view."""
    assert run(["show", capture, "--saved", "--in-place"]) == 0
    out = capsys.readouterr().out
    assert "for the backward: " in out
    assert "seen: copy_ in the graph" in out


def test_show_lacks_a_stage(capture, capsys):
    """A stage that the capture does not hold is told with those it has."""
    assert run(["show", capture, "--stages", "kernels"]) == 2
    assert "it holds: backward, dynamo, forward, joint" in capsys.readouterr().err


def test_a_picture_of_two_stages(capture, tmp_path):
    """Two stages in a picture are clusters, with dashed edges between the nodes that became one another."""
    assert run(["show", capture, "--stages", "dynamo,forward", "-o", str(tmp_path / "x.dot")]) == 0
    text = (tmp_path / "x.dot").read_text()
    assert text.count("subgraph cluster_") == 2
    assert "style=dashed" in text
    if find_engine("svg") is not None:
        assert run(["show", capture, "--stages", "dynamo,forward", "-o", str(tmp_path / "x.svg")]) == 0
        assert "0/0 forward" in (tmp_path / "x.svg").read_text()


def test_run_and_inspect_take_stages(tmp_path, capsys):
    """peek inspect --stages records the later stages of a function that it compiles."""
    (tmp_path / "mod.py").write_text("def f(x):\n    return (x * 2).relu().sum()\n")
    sys_path = list(sys.path)
    try:
        result = run(
            [
                "inspect",
                f"{tmp_path / 'mod.py'}:f",
                "--input",
                "f32[2, 3] grad",
                "--stages",
                "forward,backward",
            ]
        )
        result = result() if callable(result) else result
    finally:
        sys.path[:] = sys_path
    out = capsys.readouterr().out
    assert result == 0
    assert "0/0 forward" in out
    assert "0/0 backward" in out


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("all", STAGES),
        ("forward, joint", ("joint", "forward")),
        (["post-grad", "KERNELS"], ("post_grad", "kernels")),
        ({"dynamo"}, ("dynamo",)),
    ],
)
def test_stages_are_read(given, expected):
    """Comma text or a sequence, in any case and order, is the stages in the order of a compile."""
    assert resolve({"stages": given}, {})[0].stages == expected


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("stages", "forwrad", "did you mean 'forward'"),
        ("stages", "", "no stage is named"),
        ("stages", 3, "is no list of stages"),
        ("stages_from", "logs", "did you mean 'log'"),
        ("inner_options", "fast", "is no mapping of options"),
    ],
)
def test_bad_values_are_told(option, value, said):
    """A stage, source or option that does not exist is refused with the nearest right one."""
    with pytest.raises(PeekError) as error:
        resolve({option: value}, {})
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("stages", "flag", "said"),
    [
        ("all", "--in-place", "does not hold an in-place op"),
        ("dynamo", "--saved", "does not hold a forward with its backward; capture with --stages all"),
    ],
)
def test_nothing_to_show_says_why(stages, flag, said, tmp_path, capsys):
    """Where a view is empty, it says what is missing, and how to capture it when no later stage was."""
    torch._dynamo.reset()
    staged(lambda x: x.sin() + 1, torch.ones(2, requires_grad=True), stages=stages).save(tmp_path / "c.json")
    assert run(["show", str(tmp_path / "c.json"), flag]) == 0
    assert capsys.readouterr().out == f"nothing: the capture {said}\n"


def _half(stage, **lowering):
    return GraphRecord("0/0", stage, (), (), lowering=StageInfo(**lowering))


def test_reports_end_with_what_the_compiles_did():
    """Tables, the list of peek run and Markdown tell each cache's outcome, a lazy backward and skipped CUDA graphs once."""
    kept = (CacheOutcome("FX graph", "hit"), CacheOutcome("AOTAutograd", "bypass", reason="graphs are read"))
    skips = (CudagraphSkip("mutated inputs", StackFrame("/x/model.py", 3, "f", "x.add_(1)")),)
    halves = [
        _half("forward", compiled=True, caches=kept, cudagraphs=skips),
        _half("backward", compiled=False),
    ]
    halves += [_half("inference", compiled=True, caches=kept), _half("kernels", compiled=True, by="inductor")]
    record = capture_of(GraphRecord("0/0", "dynamo", (), ()), *halves)
    told = [
        "FX graph cache: hit: 0/0 forward, 0/0 inference",
        "AOTAutograd cache: bypass (graphs are read): 0/0 forward, 0/0 inference",
        "no CUDA graphs: mutated inputs at model.py:3: x.add_(1): 0/0 forward",
        "not compiled yet, as backward() has not run: 0/0 backward",
    ]
    assert graph_list(record).splitlines()[-4:] == told
    assert render_text(record).splitlines()[-4:] == told
    assert all(f"\n- {line[:20]}" in markdown(record) for line in told)
    assert graph_list(record).splitlines()[0] == "1 graph, 5 with later stages"
