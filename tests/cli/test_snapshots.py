"""``peek diff``, ``review``, ``check`` and ``prune`` on snapshots that were written by hand; none of it needs torch."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from peek_backend.passes.canonical import canonicalise
from peek_backend.snapshot import jsonfile
from peek_backend.snapshot.graphfile import print_graph
from peek_backend.snapshot.store import Slot
from tests.builders import capture, transformer

BASE = "__graphs__"


def graph(layers: int, name: str = "test_one") -> str:
    """A snapshot's text."""
    return print_graph(canonicalise(capture(transformer(layers)), name=name))


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A project with one test and its snapshot of one layer, as the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "test_a.py").write_text("def test_one(graph_snapshot):\n    pass\n")
    slot(tmp_path).write(graph(1))
    return tmp_path


def slot(tree, name: str = "test_one", group: str = "test_a") -> Slot:
    return Slot.named(tree / BASE, group, name)


def git(*args: str) -> None:
    identity = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", *args], check=True, capture_output=True, env=env)


@pytest.fixture
def committed(tree):
    """The same in a git repository with one commit."""
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "first")
    return tree


class TestDiff:
    """Exit codes and forms of ``peek diff``."""

    @pytest.fixture
    def pair(self, tree):
        """Two files: of one layer, of two."""
        (tree / "one.graph").write_text(graph(1), encoding="utf-8")
        (tree / "two.graph").write_text(graph(2), encoding="utf-8")
        return ["one.graph", "two.graph"]

    def test_equal_is_0(self, peek, pair):
        """Two equal files exit with 0 and say that nothing changed."""
        done = peek("diff", pair[0], pair[0])
        assert (done.code, done.out) == (0, "OK test_one: no change\n")

    def test_different_is_1(self, peek, pair):
        """A failing difference exits with 1, in lines of at most 80 columns without colour."""
        done = peek("diff", *pair)
        assert done.code == 1
        assert "✗ module added" in done.out
        assert max(map(len, done.out.splitlines())) <= 80
        assert "\x1b" not in done.out

    def test_unreadable_is_2(self, peek, pair, tree):
        """A damaged file exits with 2 and names line and column; so does what is no file of ours."""
        (tree / "bad.graph").write_text("peek-graph 1\nname x\nnonsense\n")
        done = peek("diff", pair[0], "bad.graph")
        assert done.code == 2
        assert "bad.graph:2:" in done.err or "bad.graph:3:" in done.err

    def test_missing_is_3(self, peek, pair):
        """A file that is not there exits with 3."""
        assert peek("diff", pair[0], "none.graph").code == 3

    def test_nothing_captured_is_5(self, peek, pair, tree):
        """A new capture of nothing exits with 5."""
        jsonfile.write(tree / "empty.json", capture())
        assert peek("diff", pair[0], "empty.json").code == 5

    def test_a_capture_and_a_snapshot_compare(self, peek, pair, tree):
        """A JSON capture and the snapshot of the same program differ in nothing."""
        jsonfile.write(tree / "same.json", capture(transformer(1)))
        assert peek("diff", pair[0], "same.json").code == 0
        assert peek("diff", "same.json", pair[1]).code == 1

    def test_json_is_one_document(self, peek, pair):
        """--format json prints the contract's document; for folders a list of them."""
        data = json.loads(peek("diff", *pair, "--format", "json").out)
        assert (data["format"], data["level"]) == ("peek-diff", "fail")
        folder = json.loads(peek("diff", BASE, BASE, "--format", "json").out)
        assert folder["format"] == "peek-diffs"
        assert [d["path"] for d in folder["diffs"]] == ["test_a/test_one.graph"]

    def test_github_and_markdown(self, peek, pair, monkeypatch, tree):
        """--format github prints commands and fills the job's summary; --format markdown prints what is in there."""
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tree / "summary.md"))
        out = peek("diff", *pair, "--format", "github").out
        assert 1 <= out.count("::error") <= 10
        assert (tree / "summary.md").read_text(encoding="utf-8") == peek(
            "diff", *pair, "--format", "markdown"
        ).out

    @pytest.mark.parametrize("suffix", ["svg", "png", "dot", "html", "json", "md", "txt"])
    def test_the_suffix_picks_the_form(self, peek, pair, tree, suffix):
        """-o writes the form that the file's suffix names, with the same exit code."""
        done = peek("diff", *pair, "-o", f"out.{suffix}")
        assert (done.code, done.out) == (1, "")
        starts = {
            "svg": b"<?xml",
            "png": b"\x89PNG",
            "dot": b"digraph",
            "html": b"<!DOCTYPE",
            "json": b"{",
            "md": b"###",
            "txt": b"FAIL",
        }
        assert (tree / f"out.{suffix}").read_bytes().startswith(starts[suffix])

    def test_a_file_and_a_folder_do_not_compare(self, peek, pair):
        """A file against a folder is refused."""
        assert peek("diff", pair[0], BASE).code == 2

    def test_folders_tell_what_is_new_and_gone(self, peek, tree):
        """A new snapshot is told and fails nothing; one that is gone is told, and ends with exit code 3."""
        Slot.named(tree / "other", "test_a", "test_one").write(graph(1))
        Slot.named(tree / "other", "test_a", "test_two").write(graph(1, "test_two"))
        more = peek("diff", BASE, "other")
        assert (more.code, "new: test_a/test_two.graph\n" in more.out) == (0, True)
        less = peek("diff", "other", BASE)
        assert (less.code, "removed: test_a/test_two.graph\n" in less.out) == (3, True)

    def test_folders_that_share_nothing_do_not_compare(self, peek, tree):
        """Two folders without a common path are refused: that nothing was compared must not read as success."""
        Slot.named(tree / "other", "test_a", "test_two").write(graph(1, "test_two"))
        done = peek("diff", BASE, "other")
        assert (done.code, "both sides" in done.err) == (2, True)


class TestGit:
    """``git:REV`` as an operand."""

    def test_a_path_alone_is_compared_with_its_last_commit(self, peek, committed):
        """``peek diff FILE`` and ``peek diff FOLDER`` compare with HEAD."""
        path = f"{BASE}/test_a/test_one.graph"
        assert peek("diff", path).code == peek("diff", BASE).code == 0
        slot(committed).write(graph(2))
        assert peek("diff", path).code == peek("diff", BASE).code == 1

    def test_a_revision_alone_is_compared_with_the_working_tree(self, peek, committed):
        """``peek diff git:HEAD`` compares every snapshot of the project, from any folder of it the same way."""
        slot(committed).write(graph(2))
        slot(committed, "test_two").write(graph(1, "test_two"))
        done = peek("diff", "git:HEAD")
        assert done.code == 1
        assert f"new: {BASE}/test_a/test_two.graph" in done.out

    def test_two_revisions(self, peek, committed):
        """Two revisions compare without the working tree."""
        slot(committed).write(graph(2))
        git("commit", "-qam", "second")
        slot(committed).write(graph(3))
        assert peek("diff", "git:HEAD~1", "git:HEAD").code == 1
        assert peek("diff", "git:HEAD~1:__graphs__", "git:HEAD~1:__graphs__").code == 0

    def test_annotations_have_lines_of_the_new_side(self, peek, committed):
        """GitHub's commands name the line where the text of an edit stands: in the working tree, or in its revision."""
        source = "def other(x):\n    return x.sin()\n\n\ndef f(x):\n    return x.sin()\n"
        head = "peek-graph 1\nname   a\nenv    torch=2.13 py=3.11 device=cpu grad=on\n"
        head += "stats  frames=1 graphs=1 ops={} breaks=0 recompiles=0\n"
        graph_ = "\ngraph f\n  in   x: f32[4]\n{}  out  x\n"
        (committed / "model.py").write_text(source)
        file = committed / BASE / "test_a" / "test_one.graph"
        file.write_text(head.format(0) + graph_.format(""))
        git("add", "-A")
        git("commit", "-qm", "without")
        file.write_text(
            head.format(1) + graph_.format("  #    model.py:f   return x.sin()\n  %sin = .sin(x)  f32[4]\n")
        )
        assert "file=model.py,line=6," in peek("diff", "git:HEAD", "--format", "github").out
        git("commit", "-qam", "with")
        (committed / "model.py").write_text("\n\n" + source)
        assert "file=model.py,line=6," in peek("diff", "git:HEAD~1", "git:HEAD", "--format", "github").out

    def test_an_edit_without_a_line_is_on_the_snapshot(self, peek, committed, monkeypatch):
        """GitHub's annotation of what no source line made names the snapshot, by its path in the checkout."""
        file = f"{BASE}/test_a/test_one.graph"
        record = capture(transformer(1))
        jsonfile.write(committed / "now.json", record)
        (committed / file).write_text(graph(1).replace("i64[s0, 16]", "i32[s0, 16]"))
        git("commit", "-qam", "changed")
        monkeypatch.setenv("GITHUB_WORKSPACE", str(committed.parent))
        for what in (
            ("git:HEAD~1",),
            ("git:HEAD~1", "git:HEAD"),
            (f"git:HEAD~1:{file}", file),
            ("now.json", file),
            (file, "now.json"),
        ):
            out = peek("diff", *what, "--format", "github").out
            assert f"::error file={committed.name}/{file},title=" in out, what
        slot(committed).keep_pending(graph(1))
        out = peek("check", "--format", "github").out
        assert f"::error file={committed.name}/{file},title=test_one%3A dtype changed" in out

    def test_an_edit_in_an_installed_package_is_on_the_snapshot(self, peek, committed):
        """GitHub has no such file to annotate: the snapshot is, and the message names the line of the package."""
        file = committed / BASE / "test_a" / "test_one.graph"
        line = "  #    package/model.py:f   return x.sin()\n"
        node = "  %sin = .sin(x)  f32[4]\n"
        head = "peek-graph 1\nname   a\nenv    torch=2.13 py=3.11 device=cpu grad=on\n"
        head += "stats  frames=1 graphs=1 ops=1 breaks=0 recompiles=0\n\ngraph f\n  in   x: f32[4]\n"
        file.write_text(head + line + node + "  out  %sin\n")
        git("commit", "-qam", "sin")
        file.write_text(head + (line + node).replace("sin", "cos") + "  out  %cos\n")
        out = peek("diff", "git:HEAD", "--format", "github").out
        assert out.startswith(f"::error file={BASE}/test_a/test_one.graph,title=a%3A op changed::")
        assert out.endswith("  package/model.py:f  return x.cos()\n")

    @pytest.mark.parametrize("name", ["git:nowhere", "git:", "git:--all"])
    def test_no_such_revision(self, peek, committed, name):
        """An unknown revision, an empty one and one that git would take for an option are refused with a message."""
        done = peek("diff", name)
        assert done.code == 2
        assert done.err.startswith("peek: ")

    def test_a_file_that_the_revision_lacks_is_3(self, peek, committed):
        """A snapshot that is not in the revision is a missing one."""
        slot(committed, "test_two").write(graph(1, "test_two"))
        assert peek("diff", f"{BASE}/test_a/test_two.graph").code == 3

    def test_outside_of_a_repository(self, peek, tree, monkeypatch):
        """Without a repository the message is git's."""
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tree.parent))
        done = peek("diff", "git:HEAD")
        assert done.code == 2
        assert "not a git repository" in done.err and "run it inside of the repository" in done.err

    def test_a_name_of_nothing(self, peek, committed):
        """A path that is nowhere is not said to be missing in the last commit alone."""
        done = peek("diff", "nowhere.graph")
        assert (done.code, done.err.splitlines()[0]) == (3, "peek: there is no nowhere.graph")


class TestReview:
    """``peek review`` without a terminal; with one, see test_review.py."""

    def test_nothing_waits(self, peek, tree):
        """Without a change there is nothing to do."""
        assert peek("review") == (0, "nothing waits for a review\n", "")

    def test_commands_are_printed(self, peek, tree):
        """Without a terminal each change is shown with the command that accepts it, and the exit code says that it waits."""
        slot(tree).keep_pending(graph(2))
        done = peek("review")
        assert done.code == 1
        assert f"peek review --accept '{BASE}/test_a/test_one.graph'" in done.out

    def test_equal_changes_are_shown_once(self, peek, tree):
        """Snapshots that changed alike share one text."""
        for name in ("test_one", "test_two", "test_three"):
            slot(tree, name).write(graph(1, name))
            slot(tree, name).keep_pending(graph(2, name))
        out = peek("review").out
        assert out.count("FAIL ") == 1
        assert "the same in 2 more: test_three, test_two" in out or "the same in 2 more: test_two" in out

    def test_accept_and_reject(self, peek, tree):
        """--accept makes what waits the snapshot, --reject forgets it; both leave no folder behind."""
        slot(tree).keep_pending(graph(2))
        assert peek("review", "--accept", "test_one").code == 0
        assert slot(tree).path.read_text(encoding="utf-8") == graph(2)
        slot(tree).keep_pending(graph(3))
        assert peek("review", "--reject", "*").code == 0
        assert slot(tree).path.read_text(encoding="utf-8") == graph(2)
        assert not (tree / BASE / ".pending").exists()

    def test_brackets_are_themselves(self, peek, tree):
        """A parametrised name is named as it is written."""
        one = Slot.named(tree / BASE, "test_a", "test_p[x]")
        one.keep_pending(graph(1, "test_p[x]"))
        assert peek("review", "--accept", "test_p[x]").code == 0
        assert one.path.exists()

    def test_the_name_that_is_shown_fits(self, peek, tree):
        """A test whose name is no file name is named as the review shows it."""
        one = Slot.named(tree / BASE, "test_a", "test_λ[a b]")
        one.keep_pending(graph(1, "test_λ[a b]"))
        assert "NEW test_λ[a b]:" in peek("review").out
        assert "there are: test_λ[a b]" in peek("review", "--accept", "other").err
        assert peek("review", "--accept", "*λ[a b]").code == 0
        assert one.path.exists()

    def test_a_pattern_that_fits_nothing(self, peek, tree):
        """A pattern that names no waiting change is refused, and nothing happens."""
        slot(tree).keep_pending(graph(2))
        assert peek("review", "--accept", "other").code == 2
        assert slot(tree).pending.exists()


class TestOneFolderForAll:
    """``dir = "path/of/all"``: the snapshots of all tests in one folder, which may be hidden."""

    @pytest.fixture(params=["data/graphs", ".ci/graphs"])
    def mirror(self, request, committed):
        """The folder, with snapshots of a test at the top and of one below, committed; and one that no test has, elsewhere."""
        name = request.param
        (committed / "pyproject.toml").write_text(f'[tool.peek]\ndir = "{name}"\n')
        (committed / "unit" / "deep").mkdir(parents=True)
        (committed / "unit" / "deep" / "test_b.py").write_text("def test_two(graph_snapshot):\n    pass\n")
        slot(committed / "other" / "graphs", "test_none", "test_c").write(graph(1, "test_none"))
        base = committed / name
        Slot.named(base, "test_a", "test_one").write(graph(1))
        Slot.named(base / "unit" / "deep", "test_b", "test_two").write(graph(1, "test_two"))
        git("add", "-A", "-f")
        git("commit", "-qm", "mirrored")
        return base

    def test_each_is_known_by_its_test(self, peek, mirror, committed):
        """All are found, also by the folder of their tests, and one without a test is obsolete."""
        assert peek("check") == (0, "2 snapshots in 2 folders\n", "")
        assert peek("check", "unit") == (0, "1 snapshot in 1 folder\n", "")
        assert peek("check", f"{mirror}/unit/deep/test_b").out == "1 snapshot in 1 folder\n"
        (committed / "unit" / "deep" / "test_b.py").unlink()
        done = peek("check")
        assert done.code == 4
        assert "there is no test_b.py" in done.out
        assert "test_two.graph" in peek("prune", "--dry-run").out

    def test_what_waits_below_is_found(self, peek, mirror):
        """A change of a test in a folder waits in the folder that mirrors it."""
        deep = Slot.named(mirror / "unit" / "deep", "test_b", "test_two")
        deep.keep_pending(graph(2, "test_two"))
        assert peek("check").code == 1
        assert "FAIL test_two" in peek("review").out
        assert peek("review", "--accept", "test_two").code == 0
        assert "1 of 2 snapshots are the same" in peek("diff", "git:HEAD").out

    def test_a_revision_has_the_same_ones(self, peek, mirror):
        """Of both sides the snapshots of that folder are compared, and no others."""
        assert peek("diff", "git:HEAD") == (0, "2 of 2 snapshots are the same\n", "")


class TestCheck:
    """``peek check``: exit codes."""

    def test_all_hold(self, peek, tree):
        """A project in order exits with 0."""
        assert peek("check") == (0, "1 snapshot in 1 folder\n", "")

    def test_a_part_of_a_snapshot_folder(self, peek, tree):
        """A module's folder or a single file is looked at alone: a broken file in it is no silent pass."""
        slot(tree, "test_two", "test_b").write(graph(1, "test_two"))
        (tree / "test_b.py").write_text("def test_two(graph_snapshot):\n    pass\n")
        slot(tree).path.write_text("<<<<<<< HEAD\n")
        slot(tree).keep_pending(graph(2))
        for part in ("test_b", "test_b/test_two.graph"):
            assert peek("check", f"{BASE}/{part}") == (0, "1 snapshot in 1 folder\n", "")
        for part in ("test_a", "test_a/test_one.graph", ""):
            assert peek("check", f"{BASE}/{part}").code == 2
        assert peek("review", f"{BASE}/test_b").out == "nothing waits for a review\n"

    def test_a_change_that_waits_is_1(self, peek, tree):
        """A failing change that nobody accepted or rejected exits with 1."""
        slot(tree).keep_pending(graph(2))
        done = peek("check")
        assert done.code == 1
        assert "1 change waits: peek review" in done.out

    def test_unreadable_is_2(self, peek, tree):
        """A conflict that was not resolved exits with 2 and is named as such."""
        slot(tree).write("<<<<<<< HEAD\n" + graph(1))
        done = peek("check")
        assert done.code == 2
        assert "conflict" in done.out

    def test_a_broken_snapshot_with_a_change_that_waits_is_told_once(self, peek, tree):
        """Its error stands there once, though two looks at the file meet it."""
        slot = Slot.named(tree / "__graphs__", "test_a", "test_one")
        slot.keep_pending(graph(2))
        slot.path.write_text("peek-graph 1\nnonsense\n")
        done = peek("check")
        assert done.code == 2
        assert (done.out + done.err).count("test_one.graph:2:1") == 1

    def test_missing_is_3(self, peek, tree):
        """A first version that waits is a missing snapshot."""
        slot(tree, "test_two").keep_pending(graph(1, "test_two"))
        assert peek("check").code == 3

    def test_obsolete_is_4(self, peek, tree):
        """A snapshot whose test is gone exits with 4."""
        slot(tree, "test_gone").write(graph(1, "test_gone"))
        done = peek("check")
        assert done.code == 4
        assert "test_a.py has no test_gone" in done.out


class TestPrune:
    """``peek prune``: what it deletes, and what it must not."""

    def test_deletes_what_has_no_test(self, peek, tree):
        """Snapshots of a module or test that is gone go, others stay; --dry-run deletes nothing and exits with 4."""
        slot(tree, "test_gone").write(graph(1, "test_gone"))
        slot(tree, "test_one", "test_b").write(graph(1))
        assert peek("prune", "--dry-run").code == 4
        assert slot(tree, "test_gone").path.exists()
        assert peek("prune").code == 0
        assert [p.name for p in tree.rglob("*.graph")] == ["test_one.graph"]
        assert not (tree / BASE / "test_b").exists()

    def test_keeps_what_may_have_a_test(self, peek, tree):
        """Parametrised cases, methods that a base class may have, imported tests and modules that do not parse are kept."""
        (tree / "test_a.py").write_text(
            "from elsewhere import test_imported\n"
            "class TestBase(Mixin):\n    pass\n"
            "class TestPlain:\n    def test_in(self, graph_snapshot): ...\n"
            "def test_one(graph_snapshot): ...\n"
        )
        (tree / "test_c.py").write_text("def broken(:\n")
        (tree / "test_d.py").write_text("from elsewhere import *\n")
        names = ["test_one[a.b@c]", "test_one@2", "TestBase.test_x", "TestPlain.test_in", "test_imported"]
        for name in names:
            slot(tree, name).write(graph(1, name))
        slot(tree, "test_x", "test_c").write(graph(1, "test_x"))
        slot(tree, "test_x", "test_d").write(graph(1, "test_x"))
        slot(tree, "TestPlain.test_out").write(graph(1, "TestPlain.test_out"))
        out = peek("prune").out
        assert out.count("deleted") == 1
        assert "TestPlain.test_out" in out

    def test_takes_what_a_killed_write_left(self, peek, tree):
        """A temporary file of a write that was killed is deleted; a file of the user's beside it is not."""
        left = tree / BASE / "test_a/.test_one.graph.123.0a1b2c3d.tmp"
        left.write_text("half")
        mine = tree / BASE / "notes.tmp"
        mine.write_text("mine")
        peek("prune")
        assert (left.exists(), mine.exists()) == (False, True)
