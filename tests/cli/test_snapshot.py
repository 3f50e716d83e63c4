"""``peek snapshot`` and the second run of ``peek check``: a program taken, changed, accepted."""

from __future__ import annotations

import json

import pytest

from .conftest import python

PROGRAM = """
import sys
import torch

@torch.compile(backend="eager")
def step(x):
    return torch.sin(x) * FACTOR

if "none" not in sys.argv:
    step(torch.ones(4))
print("ran", *sys.argv[1:])
"""
FILE = "__graphs__/train.graph"


@pytest.fixture
def tree(tmp_path):
    """A project with one program."""
    (tmp_path / "pyproject.toml").write_text("")
    write(tmp_path, 2)
    return tmp_path


def write(folder, factor: int) -> None:
    (folder / "train.py").write_text(PROGRAM.replace("FACTOR", str(factor)))


def peek(tree, *args: str, ci: str | None = None):
    return python("-m", "peek_backend", *args, cwd=tree, CI=ci)


def test_a_program_is_taken_changed_and_accepted(tree):
    """The first run writes the snapshot, a changed program exits with 1 and waits, --update accepts; the program prints."""
    first = peek(tree, "snapshot", "python", "train.py", "--fast")
    assert (first.returncode, b"ran --fast" in first.stdout) == (0, True)
    text = (tree / FILE).read_text(encoding="utf-8")
    assert "run=`train.py --fast`" in text
    write(tree, 3)
    changed = peek(tree, "check")
    assert changed.returncode == 1
    assert "operator.mul(%sin, 2) → operator.mul(%sin, 3)" in changed.stdout.decode()
    assert (tree / FILE).read_text(encoding="utf-8") == text
    assert peek(tree, "snapshot", "--update", "train.py", "--fast").returncode == 0
    assert peek(tree, "check").returncode == 0


def test_what_a_checked_program_prints_is_no_part_of_the_answer(tree):
    """stdout of a check is one JSON document; the program's own goes to stderr."""
    assert peek(tree, "snapshot", "train.py").returncode == 0
    write(tree, 3)
    done = peek(tree, "check", "--format", "json")
    assert json.loads(done.stdout)["diffs"][0]["level"] == "fail"
    assert b"ran" in done.stderr


def test_ci_writes_nothing_and_tells_what_is_missing(tree):
    """With CI set a missing snapshot exits with 3 and no file is written."""
    done = peek(tree, "snapshot", "--name", "my run", "--dir", "pins", "train.py", ci="true")
    assert done.returncode == 3
    assert b"accept: peek snapshot --update --name 'my run' --dir pins train.py\n" in done.stdout
    assert not (tree / "__graphs__").exists() and not (tree / "pins").exists()


def test_nothing_captured_is_5(tree):
    """A program that compiles nothing exits with 5, whatever is asked for, and writes nothing."""
    done = peek(tree, "snapshot", "--update", "train.py", "none")
    assert done.returncode == 5
    assert not (tree / FILE).exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere.py"], b"does not exist"),
        (["python", "-c", "pass"], b"names no script or module"),
        (["train.py.bak"], b"does not exist"),
        ([], b"CMD"),
    ],
    ids=["missing", "no script", "near", "empty"],
)
def test_no_program_is_2(tree, args, words):
    """What is no program is refused with 2 and a message."""
    done = peek(tree, "snapshot", *args)
    assert done.returncode == 2
    assert words in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_program_that_fails_is_2(tree):
    """A program that ends with an error leaves no snapshot."""
    (tree / "train.py").write_text("raise SystemExit(7)\n")
    done = peek(tree, "snapshot", "train.py")
    assert (done.returncode, b"exit code 7" in done.stderr) == (2, True)
    assert not (tree / FILE).exists()
