"""When a snapshot is written, put aside, compared or left alone."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

ONE = "def test_one(graph_snapshot):\n    graph_snapshot.check(record())\n"
FILE = "__graphs__/test_a/test_one.graph"
WAITING = "__graphs__/.pending/test_a/test_one.graph"


@pytest.fixture
def accepted(project):
    """A project with one snapshot, of one layer."""
    project.write(test_a=ONE)
    project.run("--peek-update").assert_outcomes(passed=1)
    return project


def test_a_missing_snapshot_fails_and_waits(project):
    """Without an option a new test fails, writes no snapshot, and says how to accept."""
    project.write(test_a=ONE)
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*there is no snapshot yet*", "*accept: pytest test_a.py::test_one --peek-update=new*"]
    )
    assert project.files() == []
    assert project.files(pending=True) == [WAITING]
    assert project.text("__graphs__/.pending/.gitignore") == "*\n"


@pytest.mark.parametrize("option", ["--peek-update", "--peek-update=new", "--peek-update=all"])
def test_every_update_writes_what_is_missing(project, option):
    """A missing snapshot is written by each form of the option, and the run says that nothing was compared."""
    project.write(test_a=ONE)
    result = project.run(option)
    result.assert_outcomes(passed=1)
    assert project.files() == [FILE]
    assert project.files(pending=True) == []
    result.stdout.fnmatch_lines([f"{FILE}: written, new", "*1 written without a comparison*"])


def test_an_accepted_snapshot_holds(accepted):
    """The next run compares, passes, and changes no byte."""
    before = accepted.text(FILE)
    accepted.run().assert_outcomes(passed=1)
    assert accepted.text(FILE) == before


def test_a_changed_graph_fails_and_waits(accepted):
    """A changed graph fails with its diff and the command that accepts; the snapshot stays, the change is put aside."""
    before = accepted.text(FILE)
    accepted.layers(2)
    result = accepted.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "FAIL test_one: 1 failing change*",
            "*✗ module added*",
            "*accept: pytest test_a.py::test_one --peek-update*review: peek review*",
        ]
    )
    assert accepted.text(FILE) == before
    assert accepted.files(pending=True) == [WAITING]


def test_update_takes_a_changed_graph_and_tells_it(accepted):
    """--peek-update replaces the snapshot, drops what waited, and shows what was accepted."""
    accepted.layers(2)
    accepted.run()
    result = accepted.run("--peek-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*✗ module added*", f"{FILE}: written, changed as above", "1 compared (1 changed)"]
    )
    assert accepted.files(pending=True) == []
    accepted.run().assert_outcomes(passed=1)


def test_update_new_leaves_changed_ones(accepted):
    """--peek-update=new writes what is missing and still fails what changed."""
    before = accepted.text(FILE)
    accepted.layers(2)
    accepted.write(test_a=ONE + "\n\ndef test_two(graph_snapshot):\n    graph_snapshot.check(record())\n")
    accepted.run("--peek-update=new").assert_outcomes(passed=1, failed=1)
    assert accepted.text(FILE) == before
    assert "__graphs__/test_a/test_two.graph" in accepted.files()


def test_the_option_swallows_no_path(accepted):
    """A path behind a bare --peek-update is a path."""
    accepted.write(test_b="def test_two():\n    pass\n")
    accepted.run("--peek-update", "test_b.py").assert_outcomes(passed=1)


def test_a_wrong_value_is_refused(accepted):
    """--peek-update takes new or all and nothing else."""
    result = accepted.run("--peek-update=some")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_equal_graphs_in_other_words_are_left_alone(accepted):
    """A file that says the same in other words is not rewritten, except by --peek-update=all."""
    path = accepted.path / FILE
    path.write_text(path.read_text().replace("%layers.0.mlp.silu", "%layers.0.mlp.renamed"), encoding="utf-8")
    renamed = path.read_text()
    accepted.run("--peek-update").assert_outcomes(passed=1)
    assert path.read_text() == renamed
    accepted.run("--peek-update=all").stdout.fnmatch_lines(["*same graphs in new words*"])
    assert "%layers.0.mlp.renamed" not in path.read_text()


def test_ci_writes_nothing(accepted, monkeypatch):
    """With CI set neither a snapshot nor a waiting change is written."""
    monkeypatch.setenv("CI", "true")
    accepted.layers(2)
    accepted.write(test_a=ONE + "\n\ndef test_two(graph_snapshot):\n    graph_snapshot.check(record())\n")
    accepted.run().assert_outcomes(failed=2)
    assert accepted.files() == [FILE]
    assert accepted.files(pending=True) == []


def test_an_accept_flag_beats_ci(accepted, monkeypatch):
    """With CI set an explicit --peek-update writes all the same."""
    monkeypatch.setenv("CI", "true")
    before = accepted.text(FILE)
    accepted.layers(2)
    accepted.run("--peek-update").assert_outcomes(passed=1)
    assert accepted.text(FILE) != before


def test_a_change_undone_no_longer_waits(accepted):
    """Once the graph is again that of the snapshot, nothing waits any more, not even the folder."""
    accepted.layers(2)
    accepted.run()
    accepted.layers(1)
    accepted.run().assert_outcomes(passed=1)
    assert not (accepted.path / "__graphs__/.pending").exists()


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda text: text.replace("peek-graph 1\n", "<<<<<<< HEAD\npeek-graph 1\n"), "conflict"),
        (lambda text: text[: len(text) // 2], "test_one.graph:"),
        (lambda text: "", "test_one.graph"),
    ],
)
def test_a_damaged_snapshot_is_no_pass(accepted, damage, word):
    """A conflict marker, a cut file and an empty one fail with their place, and --peek-update writes them anew."""
    path = accepted.path / FILE
    path.write_text(damage(path.read_text()), encoding="utf-8")
    result = accepted.run()
    result.assert_outcomes(failed=1)
    assert word in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    result = accepted.run("--peek-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*nothing was compared*"])
    accepted.run().assert_outcomes(passed=1)


def test_a_newer_format_is_never_overwritten(accepted):
    """A file of a newer format fails by name, also with --peek-update=all, and stays as it is."""
    path = accepted.path / FILE
    path.write_text(path.read_text().replace("peek-graph 1", "peek-graph 9"), encoding="utf-8")
    newer = path.read_text()
    for option in ((), ("--peek-update=all",)):
        result = accepted.run(*option)
        result.assert_outcomes(failed=1)
        assert "newer" in result.stdout.str()
    assert path.read_text() == newer


def test_strict_makes_an_improvement_fail(project):
    """Fewer breaks pass with a warning, and fail under --peek-strict, so that they are accepted."""
    project.write(
        test_a="""
            from msgspec.structs import replace
            from pathlib import Path
            from peek_backend.model import BreakInfo, StackFrame

            def test_one(graph_snapshot):
                found = record(1)
                if Path(__file__).with_name("layers").read_text() == "1":
                    info = BreakInfo("no", stack=(StackFrame("m.py", 3, "f", "print()"),), compile_id="0/0", id="GB0059")
                    found = replace(found, breaks=(info,))
                graph_snapshot.check(found)
        """
    )
    project.run("--peek-update").assert_outcomes(passed=1)
    project.layers(2)
    result = project.run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*! graph break is gone*"])
    project.run("--peek-strict").assert_outcomes(failed=1)


def test_the_policy_of_the_project_counts(accepted):
    """[tool.peek] of pyproject.toml decides what fails; a wrong key fails every test that asks."""
    accepted.layers(2)
    (accepted.path / "pyproject.toml").write_text('[tool.peek]\nfail_on = ["break:added"]\n')
    accepted.run("-c", "pyproject.toml", "--rootdir", ".").assert_outcomes(passed=1)
    (accepted.path / "pyproject.toml").write_text('[tool.peek]\nfail_onn = ["break:added"]\n')
    result = accepted.run("-c", "pyproject.toml", "--rootdir", ".")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*did you mean 'fail_on'*"])
