"""What a run says: the failure as the contract shows it, the summary, GitHub's annotations."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

ONE = "def test_one(graph_snapshot):\n    graph_snapshot.check(record())\n"


@pytest.fixture
def changed(project):
    """A project whose one snapshot no longer holds."""
    project.write(test_a=ONE)
    project.run("--peek-update")
    project.layers(2)
    return project


def test_a_failure_is_words_alone(changed):
    """A failing check shows its diff, no line of peek's code and no traceback, and ends with the accepting command."""
    lines = changed.run().stdout.lines
    start = next(i for i, line in enumerate(lines) if line.startswith("FAIL test_one"))
    end = next(i for i, line in enumerate(lines) if line.startswith("accept: "))
    assert "_ test_one _" in lines[start - 1]
    assert all(len(line) <= 80 for line in lines[start : end + 1])
    assert not any("peek_backend" in line or "Traceback" in line for line in lines)


def test_the_short_summary_has_the_first_line_alone(changed, monkeypatch):
    """In CI, where pytest does not cut its summary, the diff still stands once: in the failure's own section."""
    monkeypatch.setenv("CI", "true")
    text = changed.run().stdout.str()
    assert text.count("module added") == text.partition("short test summary")[0].count("module added") == 1
    assert "FAILED test_a.py::test_one - Failed: FAIL test_one: " in text


def test_a_missing_snapshot_fits_the_terminal(project):
    """The path of a snapshot that is not there yet stands beside the head where it fits, else below it."""
    project.write(
        test_a=f"def test_{'long_' * 12}name(graph_snapshot):\n    graph_snapshot.check(record())\n"
    )
    lines = project.run().stdout.lines
    start = next(i for i, line in enumerate(lines) if line.startswith("FAIL test_long"))
    assert lines[start + 1].startswith("  __graphs__/test_a/test_long")
    assert not lines[start].endswith(".graph")


def test_a_run_where_all_holds_says_nothing(project):
    """When every snapshot holds there is no section."""
    project.write(test_a=ONE)
    project.run("--peek-update")
    project.run().stdout.no_fnmatch_line("*graph snapshots*")


def test_no_colour_without_a_terminal(changed):
    """Output that no terminal reads has no escape."""
    assert "\x1b[" not in changed.run().stdout.str()
    assert "\x1b[31mFAIL" in changed.run("--color=yes").stdout.str()


def test_github_gets_annotations_and_a_summary(changed, monkeypatch, tmp_path):
    """In a GitHub workflow each group is an annotation, one that six tests share once, and the job's summary has the Markdown."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(changed.path.parent))
    many = "".join(f"def test_{n}(graph_snapshot):\n    graph_snapshot.check(record())\n\n" for n in range(6))
    changed.layers(1)
    changed.write(test_a=many, model="def forward(x):\n    return x\n")
    changed.run("--peek-update")
    changed.layers(3)
    result = changed.run()
    commands = [line for line in result.stdout.lines if line.startswith("::")]
    assert len(commands) == 1
    assert all(line.startswith("::error ") for line in commands)
    assert any(f"file={changed.path.name}/model.py,line=1,title=test_" in line for line in commands)
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert text.count("### ❌ test_") >= 6


def test_each_snapshot_gets_its_worst_annotation_first():
    """Ten places are shared: errors before warnings, every snapshot's first before any's second, equal ones once."""
    from peek_backend.pytest_session import worst_first

    one = [f"::error file=a.py,title=one::e{n}" for n in range(12)]
    two = ["::error file=a.py,title=two::e0", "::error file=b.py,title=two::f"]
    three = ["::warning file=c.py,title=three::w"]
    found = worst_first([one, two, three])
    assert len(found) == 10
    assert found[:3] == [one[0], one[1], two[1]]
    assert worst_first([three, two]) == [*two, *three]
    whole = [[f"::error file={name}.graph,title={name}::input added"] for name in "ab"]
    assert worst_first(whole) == whole[0]


def test_a_summary_stays_below_the_limit(tmp_path):
    """Markdown is cut below 1 MiB with what is already there, and says how much is left out."""
    from peek_backend.github import summarise_on_github

    path = tmp_path / "summary.md"
    path.write_text("x" * 500_000)
    summarise_on_github(["line of text\n" * 100_000], {"GITHUB_STEP_SUMMARY": str(path)})
    assert 900_000 < path.stat().st_size < 1_048_576
    assert "more lines are left out" in path.read_text(encoding="utf-8")[-60:]


def test_nothing_captured_fails_with_the_reason(project):
    """A capture of nothing fails, and no option writes it."""
    project.write(
        test_a="""
            from tests.builders import capture

            def test_one(graph_snapshot):
                graph_snapshot.check(capture(notes=("nothing was captured: no compiled function was called",)))
        """
    )
    for option in ((), ("--peek-update=all",)):
        result = project.run(*option)
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(
            ["FAIL test_one: nothing was captured*", "*no compiled function was called*"]
        )
    assert project.files() == project.files(pending=True) == []


def told_once(result, words: str) -> bool:
    """Whether a failure says something once in its own section, and nothing of another exception."""
    text = result.stdout.str().partition("short test summary")[0]
    return text.count(words) == 1 and "During handling" not in text


def test_a_mistake_is_told_once(project):
    """A broken snapshot, a wrong policy and a wrong call each fail a test with their message alone, once."""
    project.write(test_a=ONE)
    project.run("--peek-update")
    (file,) = project.files()
    (project.path / file).write_text("<<<<<<< ours\n")
    assert told_once(project.run(), "conflict marker")
    (project.path / file).unlink()
    (project.path / "pyproject.toml").write_text('[tool.peek]\nfail_on = ["nonsense"]\n')
    result = project.run()
    assert told_once(result, "unknown kind")
    assert "INTERNALERROR" not in result.stdout.str()
    (project.path / "pyproject.toml").unlink()
    project.write(test_a="def test_one(graph_snapshot):\n    graph_snapshot.expect(breaks=0)\n")
    assert told_once(project.run(), "nothing was captured yet")
