"""``peek review`` in a terminal: keys decide, one group of equal changes at a time."""

from __future__ import annotations

import os
import sys

import pytest

from peek_backend.snapshot.store import Slot

from .conftest import ROOT
from .test_snapshots import graph

terminal = pytest.importorskip("tests.terminal", reason="needs a terminal")

NAMES = ("test_a", "test_b", "test_c")


@pytest.fixture
def tree(tmp_path):
    """Three changes that wait: two read the same, the third not."""
    (tmp_path / "pyproject.toml").write_text("")
    for name, layers in zip(NAMES, (2, 2, 3), strict=True):
        slot = Slot.named(tmp_path / "__graphs__", "test_m", name)
        slot.write(graph(1, name))
        slot.keep_pending(graph(layers, name))
    return tmp_path


def review(folder, keys: str, early: str = "") -> tuple[int, str]:
    """Exit code and screen of ``peek review`` where ``keys`` are typed, and ``early`` before it asks."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-m", "peek_backend", "review"]
    return terminal.typed(command, keys, folder=folder, env=env, early=early)


def accepted(folder) -> str:
    """Which snapshots have their new content (a letter each)."""
    found = ""
    for name, layers in zip(NAMES, (2, 2, 3), strict=True):
        path = Slot.named(folder / "__graphs__", "test_m", name).path
        found += name[-1] if path.read_text(encoding="utf-8") == graph(layers, name) else ""
    return found


def waiting(folder) -> str:
    """Which still wait."""
    return "".join(n[-1] for n in NAMES if Slot.named(folder / "__graphs__", "test_m", n).pending.exists())


@pytest.mark.parametrize(
    ("keys", "code", "taken", "left"),
    [
        ("ar", 0, "ab", ""),
        ("sa", 1, "c", "ab"),
        ("A", 0, "abc", ""),
        ("R", 0, "", ""),
        ("S", 1, "", "abc"),
        ("1asr", 1, "a", "b"),
        ("xqa\x03", 130, "ab", "c"),
    ],
    ids=["accept then reject", "skip", "all", "none", "skip all", "one by one", "other keys, then Ctrl-C"],
)
def test_keys_decide(tree, keys, code, taken, left):
    """a, r, s decide about a group, A, R, S about all the rest, 1 takes a group apart; other keys do nothing, Ctrl-C stops."""
    got, screen = review(tree, keys)
    assert (got, accepted(tree), waiting(tree)) == (code, taken, left), screen


@pytest.mark.parametrize(("early", "keys"), [("a", "r"), ("ar", "")])
def test_a_key_typed_before_the_question_is_its_answer(tree, early, keys):
    """What is typed while the command starts is not lost, and several keys at once are several answers."""
    got, screen = review(tree, keys, early)
    assert (got, accepted(tree), waiting(tree)) == (0, "ab", ""), screen
