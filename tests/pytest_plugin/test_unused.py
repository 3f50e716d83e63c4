"""Snapshots that no test uses: judged on complete runs, deleted when asked, never because of a filter."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TWO = """
@pytest.mark.parametrize("n", [1, 2])
def test_one(graph_snapshot, n):
    graph_snapshot.check(record())

def test_two(graph_snapshot):
    graph_snapshot.check(record())
"""
LESS = TWO.replace("[1, 2]", "[1]")
GONE = "__graphs__/test_a/test_one[[]2].graph"


@pytest.fixture
def shrunk(project):
    """Three snapshots, of which one belongs to a case that is gone."""
    project.write(test_a=TWO)
    project.run("--peek-update").assert_outcomes(passed=3)
    project.write(test_a=LESS)
    return project


def test_a_complete_run_warns(shrunk):
    """An unused snapshot is named, and the run passes."""
    result = shrunk.run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(["no test used these;*--peek-update=all*", f"  {GONE}"])
    assert len(shrunk.files()) == 3


def test_fail_fails_the_run(shrunk):
    """--peek-unused=fail ends a run of passing tests with 1."""
    assert shrunk.run("--peek-unused=fail").ret == 1


def test_ignore_says_nothing(shrunk):
    """--peek-unused=ignore names none."""
    result = shrunk.run("--peek-unused=ignore")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*no test used*")


def test_update_all_deletes(shrunk):
    """--peek-update=all deletes what no test used, and nothing else."""
    shrunk.run("--peek-update=all").stdout.fnmatch_lines(["deleted, as no test used them:"])
    assert [f.rpartition("/")[2] for f in shrunk.files()] == ["test_one[1].graph", "test_two.graph"]


@pytest.mark.parametrize(
    "narrow",
    [
        ["-k", "two"],
        ["-m", "not slow"],
        ["test_a.py::test_two"],
        ["--deselect", "test_a.py::test_two"],
        ["--ignore", "other"],
        ["--maxfail=1"],
        ["--lf"],
        ["--collect-only"],
    ],
    ids=lambda args: args[0].partition("::")[2] or args[0],
)
def test_a_narrowed_run_deletes_nothing(shrunk, narrow):
    """A run that may have left tests out calls no snapshot unused and deletes none, whatever is asked for."""
    shrunk.write(test_b="def test_three():\n    pass\n")
    if narrow == ["--maxfail=1"]:
        shrunk.write(test_0="def test_zero():\n    assert 0\n")
    if narrow == ["--lf"]:
        result = shrunk.pytester.runpytest_inprocess("--lf", "--peek-update=all")
    else:
        result = shrunk.run(*narrow, "--peek-update=all", "--peek-unused=fail")
    result.stdout.no_fnmatch_line("*no test used*")
    assert len(shrunk.files()) == 3


def test_other_modules_are_not_judged(shrunk):
    """A run of one module says nothing about the snapshots of another."""
    shrunk.write(test_b="def test_three(graph_snapshot):\n    graph_snapshot.check(record())\n")
    shrunk.run("test_b.py", "--peek-update=all").assert_outcomes(passed=1)
    assert len(shrunk.files()) == 4


@pytest.mark.parametrize(
    "change",
    ["pytest.skip('not here')", "assert 0", "pytest.xfail('known')"],
    ids=["skipped", "failed", "xfailed"],
)
def test_a_test_that_did_not_get_there_keeps_its_snapshot(project, change):
    """A test that was skipped or failed before its check keeps its snapshots, further ones too."""
    body = "def test_one(graph_snapshot):\n    {}\n    graph_snapshot.check(record())\n    graph_snapshot.check(record())\n"
    other = "def test_two(graph_snapshot):\n    graph_snapshot.check(record())\n"
    project.write(test_a=body.format("pass") + other)
    project.run("--peek-update")
    project.write(test_a=body.format(change) + other)
    project.run("--peek-update=all")
    assert len(project.files()) == 3


def test_a_module_that_does_not_load_keeps_its_snapshots(shrunk):
    """When a module fails to import, no snapshot of the run is judged."""
    shrunk.write(test_b="import nowhere\n")
    shrunk.run("--peek-update=all", "--continue-on-collection-errors")
    assert len(shrunk.files()) == 3
