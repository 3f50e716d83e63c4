"""``peek explain``: which capture, which topic, and what it says of a slip."""

from __future__ import annotations

import pytest

from peek_backend.cli.entry import run
from peek_backend.model import BreakInfo, FrameRecord, StackFrame
from peek_backend.snapshot.journal import encode_record
from tests.builders import GraphBuilder, capture, tensor


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a capture in peek-out, as peek run leaves it."""
    g = GraphBuilder("Model.forward")
    g.output(g.call("torch.relu", g.input("x", tensor(4, 8)), value=tensor(4, 8)))
    line = StackFrame("/src/model.py", 31, "forward", "print(x)")
    record = capture(
        g.graph(frame=0),
        frames=(FrameRecord("Model.forward", "/src/model.py", 20, "broken", compile_ids=("0/0",)),),
        breaks=(BreakInfo("Failed to trace builtin operator", id="GB0059", stack=(line,), frame=0),),
    )
    (tmp_path / "peek-out").mkdir()
    (tmp_path / "peek-out" / "train.peek.jsonl").write_bytes(encode_record(record))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "1 graph break"),
        (["peek-out/train.peek.jsonl"], "1 graph break"),
        (["peek-out/train.peek.jsonl", "break", "1"], "Break 1: Failed to trace"),
        (["break", "1"], "Break 1: Failed to trace"),
        (["GB0059"], "Break 1: Failed to trace"),
        (["x.shape[1]"], "x.shape[1] is 8 in this graph: static"),
        (["0/0"], "Model.forward: broken"),
        (["--details"], "Frames"),
    ],
)
def test_a_capture_and_a_topic(folder, capsys, args, words):
    """Without a file the newest capture of peek-out is meant; the other words are the topic."""
    assert run(["explain", *args]) == 0
    assert words in capsys.readouterr().out


def test_the_report_names_the_file_to_ask_again(folder, capsys):
    """The recommended command can be copied as it stands."""
    run(["explain"])
    assert "peek explain peek-out/train.peek.jsonl" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "name",
    [
        "gone.jsonl",
        "gone.json",
        "gone.peek.jsonl",
        "gone.pt2",
        "gone.html",
        "sub/gone",
        "../gone",
        "sub\\gone",
    ],
)
def test_a_file_that_is_not_there(folder, capsys, name):
    """A name with the suffix of a file, or a path, is one: no topic of another capture."""
    assert run(["explain", name]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert name in told.replace("\\\\", "\\") and "no such file" in told and "nothing is named" not in told


@pytest.mark.parametrize("topic", ["3/7", "!0/1/0", "config['a/b']"])
def test_a_topic_with_slashes(folder, capsys, topic):
    """Compile ids and keys of dicts are topics."""
    assert run(["explain", topic]) == 2
    assert "nothing is named" in capsys.readouterr().err


def test_slips_are_told(folder, capsys):
    """An unknown topic, a missing file and an empty folder end with 2 and say what to do."""
    assert run(["explain", "Model.foward"]) == 2
    assert "did you mean 'Model.forward'" in capsys.readouterr().err
    assert run(["explain", "gone.peek.jsonl"]) == 2
    assert "gone.peek.jsonl" in capsys.readouterr().err
    (folder / "peek-out" / "train.peek.jsonl").unlink()
    assert run(["explain"]) == 2
    assert "peek run" in capsys.readouterr().err
