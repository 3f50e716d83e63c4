"""Nothing is lost: many workers write every snapshot, and a killed update leaves each file old or new."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from peek_backend.snapshot.graphfile import read_graph

pytest_plugins = ["pytester"]

MANY = """
@pytest.mark.parametrize("n", range({count}))
def test_one(graph_snapshot, n):
    graph_snapshot.check(record())
"""


def start(project, *args: str) -> subprocess.Popen:
    """pytest in a process group of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
    return subprocess.Popen(
        command, cwd=project.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )


def test_eight_workers_write_every_snapshot(project):
    """An update under 8 xdist workers writes all of 64 snapshots, whole, and tells so once."""
    project.write(test_a=MANY.format(count=64))
    run = start(project, "-n", "8", "--peek-update")
    out = run.communicate(timeout=200)[0].decode()
    assert run.returncode == 0, out
    files = project.files()
    assert len(files) == 64
    assert {len(read_graph(project.path / f).graphs) for f in files} == {1}
    assert "64 written without a comparison" in out
    project.run().assert_outcomes(passed=64)


def test_workers_judge_unused_once(project):
    """Under xdist the controller alone deletes, and a filter in the workers keeps it from that."""
    project.write(test_a=MANY.format(count=6))
    project.run("--peek-update").assert_outcomes(passed=6)
    project.write(test_a=MANY.format(count=4))
    filtered = start(project, "-n", "2", "--peek-update=all", "--deselect", "test_a.py::test_one[0]")
    assert filtered.wait(timeout=200) == 0
    assert len(project.files()) == 6
    complete = start(project, "-n", "2", "--peek-update=all")
    out = complete.communicate(timeout=200)[0].decode()
    assert complete.returncode == 0, out
    assert len(project.files()) == 4
    assert out.count("deleted, as no test used them:") == 1


@pytest.mark.slow
def test_a_plugin_that_deselects_in_workers_keeps_snapshots(project):
    """Tests that a conftest leaves out, which only workers see, keep the controller from judging."""
    project.write(test_a=MANY.format(count=3))
    project.run("--peek-update").assert_outcomes(passed=3)
    (project.path / "conftest.py").write_text(
        "def pytest_collection_modifyitems(config, items):\n"
        "    config.hook.pytest_deselected(items=[items.pop()])\n"
    )
    run = start(project, "-n", "2", "--peek-update=all")
    assert run.wait(timeout=200) == 0
    assert len(project.files()) == 3


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
def test_a_killed_update_leaves_old_or_new(project):
    """An update that is killed at any moment leaves each snapshot as it was or as it was to be, and none half."""
    project.write(test_a=MANY.format(count=40))
    project.run("--peek-update").assert_outcomes(passed=40)
    old = {f: (project.path / f).read_bytes() for f in project.files()}
    new_text = _new_text(project, old)
    rng = random.Random(7)
    written = set()
    for _ in range(3):
        for file, data in old.items():
            (project.path / file).write_bytes(data)
        run = start(project, "--peek-update")
        _wait_for_a_change(project, old)
        time.sleep(rng.random() / 10)
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        now = {f: (project.path / f).read_bytes() for f in project.files()}
        assert set(now) == set(old)
        assert all(now[f] in (old[f], new_text[f]) for f in now)
        written.add(sum(now[f] != old[f] for f in now))
    assert max(written) > 0


def _new_text(project, old: dict[str, bytes]) -> dict[str, bytes]:
    """What a whole update writes."""
    project.layers(30)
    project.run("--peek-update").assert_outcomes(passed=40)
    new = {f: (project.path / f).read_bytes() for f in project.files()}
    assert all(new[f] != old[f] for f in old)
    return new


def _wait_for_a_change(project, old: dict[str, bytes]) -> None:
    """Until the update has written its first file."""
    first = sorted(old)[0]
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if (project.path / first).read_bytes() != old[first]:
            return
        time.sleep(0.002)
    pytest.fail("the update wrote nothing in a minute")
