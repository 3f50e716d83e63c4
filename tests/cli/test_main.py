"""The command as a whole: start, help, unknown verbs, and where output can break."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

import pytest

from peek_backend._version import __version__
from peek_backend.cli.entry import VERBS

from .conftest import ROOT, python

HEAVY = {"torch", "tabulate", "rich", "importlib.metadata", "click", "msgspec"}
LOADED = (
    "import sys, json; from peek_backend.cli import main; main({args}); print(json.dumps(list(sys.modules)))"
)


def loaded(*args):
    """The modules that a command line loads."""
    done = python("-c", LOADED.format(args=list(args)))
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version_loads_nothing_heavy(option):
    """``peek --version`` imports no dependency at all."""
    assert loaded(option) & HEAVY == set()


def test_version_is_fast():
    """``peek --version`` takes at most 150 ms of CPU (median of five; 30 ms measured)."""
    times = []
    for _ in range(5):
        before = os.times()
        done = python("-m", "peek_backend", "--version")
        after = os.times()
        times.append(
            after.children_user - before.children_user + after.children_system - before.children_system
        )
        assert done.stdout.decode() == f"peek {__version__}\n"
    assert statistics.median(times) <= 0.15


def test_help_lists_every_verb_without_loading_one(peek):
    """``peek --help`` names every verb and how to complete them, and imports none."""
    text = peek("--help").out
    assert all(f"  {verb} " in text for verb in VERBS)
    assert "_PEEK_COMPLETE" in text
    modules = loaded("--help")
    assert {m for m in modules if m.startswith("peek_backend.cli.")} == {
        "peek_backend.cli.entry",
        "peek_backend.cli.output",
    }
    assert modules & {"torch", "tabulate", "rich"} == set()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(peek, verb):
    """Each verb that is listed can be loaded and explains itself."""
    done = peek(verb, "--help")
    assert done.code == 0
    assert f"Usage: peek {verb}" in done.out


def test_unknown_verb_names_the_nearest(peek):
    """A mistyped verb is one message with the right one, and exit code 2."""
    done = peek("shwo")
    assert (done.code, done.out) == (2, "")
    assert "unknown command 'shwo'" in done.err and "did you mean 'show'?" in done.err


def test_unknown_option_names_the_nearest(peek):
    """A mistyped option too."""
    done = peek("show", "--fromat", "x", "f")
    assert done.code == 2
    assert "Did you mean '--format'?" in done.err


def test_completion_completes_verbs():
    """The shell completion that the help describes gives the verbs."""
    done = python("-m", "peek_backend", _PEEK_COMPLETE="bash_complete", COMP_WORDS="peek d", COMP_CWORD="1")
    assert "plain,doctor" in done.stdout.decode()


def test_control_characters_in_a_message_are_visible(peek):
    """A file name cannot steer the terminal through an error message."""
    done = peek("show", "a\x1b[31m\nb")
    assert done.code == 2
    assert "\x1b" not in done.err


def test_closed_pipe_ends_in_silence(saved):
    """``peek show … | head`` ends like any other program whose reader has gone: no traceback."""
    read, write = os.pipe()
    os.close(read)
    args = [sys.executable, "-m", "peek_backend", "show", saved]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(args, stdout=write, stderr=subprocess.PIPE, env=env, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_full_disk_behind_stdout_is_one_message(saved):
    """Output redirected to a full disk is one message and exit code 2."""
    args = [sys.executable, "-m", "peek_backend", "show", saved]
    with open("/dev/full", "wb") as full:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(args, stdout=full, stderr=subprocess.PIPE, env=env, check=False)
    assert done.returncode == 2
    assert b"the disk is full" in done.stderr and b"Traceback" not in done.stderr


def test_full_disk_behind_the_version_is_one_message():
    """So is that of ``peek --version``, which loads nothing that could tell before it is needed."""
    with open("/dev/full", "wb") as full:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        args = [sys.executable, "-m", "peek_backend", "--version"]
        done = subprocess.run(args, stdout=full, stderr=subprocess.PIPE, env=env, check=False)
    assert done.returncode == 2
    assert b"the disk is full" in done.stderr and b"Traceback" not in done.stderr
