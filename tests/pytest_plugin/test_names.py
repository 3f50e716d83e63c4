"""Where a snapshot lies: parametrised ids, classes, modules, several checks in a test."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peek_backend.snapshot.store import MAX_STEM, safe_stem

pytest_plugins = ["pytester"]


def test_ids_classes_and_modules(project):
    """The file is named by class, test and parameter, in a folder of the test's module."""
    project.write(
        test_a="""
            @pytest.mark.parametrize("kind", ["dynamic", "f32[2, 3]", "a/b", "x:y", "läuft"])
            def test_one(graph_snapshot, kind):
                graph_snapshot.check(record())

            class TestOuter:
                class TestInner:
                    def test_two(self, graph_snapshot):
                        graph_snapshot.check(record())
        """,
        test_b="def test_one(graph_snapshot):\n    graph_snapshot.check(record())\n",
    )
    project.run("--peek-update").assert_outcomes(passed=7)
    files = project.files()
    assert "__graphs__/test_a/test_one[dynamic].graph" in files
    assert "__graphs__/test_a/TestOuter.TestInner.test_two.graph" in files
    assert "__graphs__/test_b/test_one.graph" in files
    assert len(files) == 7
    assert all(set(name) <= set(string.ascii_letters + string.digits + "_-.[]=,+@~/") for name in files)
    project.run().assert_outcomes(passed=7)


def test_the_header_has_the_whole_name(project):
    """However the file is called, its header names the test."""
    project.write(
        test_a="""
            @pytest.mark.parametrize("kind", ["a/b"])
            def test_one(graph_snapshot, kind):
                graph_snapshot.check(record())
        """
    )
    project.run("--peek-update")
    assert "\nname   test_one[a/b]\n" in project.text(project.files()[0])


def test_several_checks_of_one_test(project):
    """Each check has a file of its own: the first the test's, further ones a count or the name they are given."""
    project.write(
        test_a="""
            def test_one(graph_snapshot):
                graph_snapshot.check(record(1))
                graph_snapshot.check(record(2))
                graph_snapshot.check(record(3), name="decode")
        """
    )
    project.run("--peek-update").assert_outcomes(passed=1)
    assert [f.rpartition("/")[2] for f in project.files()] == [
        "test_one.graph",
        "test_one@2.graph",
        "test_one@decode.graph",
    ]
    project.run().assert_outcomes(passed=1)


def test_one_name_twice_is_refused(project):
    """Two checks of a test with one name fail: the second would compare with the first's snapshot."""
    project.write(
        test_a="""
            def test_one(graph_snapshot):
                graph_snapshot.check(record(), name="x")
                graph_snapshot.check(record(), name="x")
        """
    )
    result = project.run("--peek-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*two checks are called 'x'*"])


def test_dir_can_be_one_folder_for_all(project):
    """A path in ``dir`` puts all snapshots into one folder that mirrors the tests'."""
    (project.path / "pyproject.toml").write_text('[tool.peek]\ndir = "data/graphs"\n')
    (project.path / "unit").mkdir()
    project.write(test_a="def test_one(graph_snapshot):\n    graph_snapshot.check(record())\n")
    (project.path / "test_a.py").rename(project.path / "unit/test_a.py")
    (project.path / "layers").rename(project.path / "unit/layers")
    (project.path / "captures.py").rename(project.path / "unit/captures.py")
    project.run("--peek-update", "-c", "pyproject.toml", "--rootdir", ".").assert_outcomes(passed=1)
    assert project.files() == ["data/graphs/unit/test_a/test_one.graph"]


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_are_safe_and_do_not_collide(one, other):
    """Every name becomes a file name of harmless characters and bounded length; two names never become one."""
    stem = safe_stem(one)
    assert stem
    assert len(stem) <= MAX_STEM
    assert not stem.startswith(".")
    assert set(stem) <= set(string.ascii_letters + string.digits + "_-.[]=,+@~")
    assert one == other or stem != safe_stem(other)


@pytest.mark.parametrize("name", ["con", "NUL", "aux.x", "", "..", "a" * 500, "../up", "a\0b", ".hidden"])
def test_names_that_systems_refuse(name):
    """Device names, long names, paths and control characters all become plain files of one folder."""
    stem = safe_stem(name)
    assert "/" not in stem
    assert stem.partition(".")[0].lower() not in ("con", "nul", "aux", "")
    assert len(stem) <= MAX_STEM


def test_names_that_differ_in_capitals_alone_have_files_that_differ_in_more(project):
    """Two parameters, two functions, two checks: on a file system that ignores capitals they stay apart."""
    names = [
        "test_a[A]",
        "test_a[a]",
        "test_A",
        "test_a",
        "test_a@Decode",
        "test_a@decode",
        "TestB.test_a[N]",
    ]
    stems = [safe_stem(name) for name in names]
    assert len({stem.lower() for stem in stems}) == len(names)
    assert safe_stem("TestDecoder.test_step[prefill]") == "TestDecoder.test_step[prefill]"
    project.write(
        test_a="""
            @pytest.mark.parametrize("kind", ["A", "a"])
            def test_one(graph_snapshot, kind):
                graph_snapshot.check(record())
        """
    )
    project.run("--peek-update").assert_outcomes(passed=2)
    assert len({name.lower() for name in project.files()}) == 2
    project.run().assert_outcomes(passed=2)
