"""``peek show``: every format to stdout and to files, what fits where, and what is said about a wrong file."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys

import pytest
from msgspec.structs import replace

from peek_backend.cli.output import ALL_FORMATS, tell_notes
from peek_backend.snapshot import jsonfile, read
from peek_backend.snapshot.journal import encode_record
from tests.builders import HOSTILE, capture, graph, node, transformer
from tests.conftest import require

from .conftest import ROOT, python


def test_table_by_default(peek, saved):
    """A capture is shown as tables, one a graph, every row and every cell whole in a pipe."""
    done = peek("show", saved)
    assert (done.code, done.err) == (0, "")
    assert "0/0" in done.out and "1/0" in done.out
    assert done.out.count("scaled_dot_product_attention") >= 3
    assert "…" not in done.out


@pytest.mark.parametrize("name", [f for f in ALL_FORMATS if f not in ("svg", "png", "pdf", "mermaid")])
def test_every_text_format_shows(peek, saved, name):
    """Each format that is text shows both graphs and ends with a newline."""
    done = peek("show", saved, "--format", name)
    assert done.code == 0
    assert done.err == "" or name == "dot"  # which says how much it folded
    assert done.out.endswith("\n") and not done.out.endswith("\n\n\n")
    assert len(done.out) > 500


def test_mermaid_is_one_diagram(peek, saved):
    """Mermaid takes one graph, and says so when there are more."""
    assert peek("show", saved, "--format", "mermaid", "--graph", "0/0").out.startswith(
        ("flowchart", "%%", "---")
    )
    done = peek("show", saved, "--format", "mermaid")
    assert done.code == 2
    assert "the capture holds 2: 0/0, 1/0" in done.err and "--graph KEY" in done.err


@pytest.mark.parametrize("name", ["mermaid", "svg"])
def test_no_graph_is_no_choice_of_graphs(peek, saved, tmp_path, name):
    """What draws one graph says of a capture without any that there is none, and why, and does not ask for a key."""
    empty = tmp_path / "empty.json"
    empty.write_bytes(encode_record(replace(read(saved), graphs=(), breaks=(), problems=())))
    done = peek("show", empty, "--format", name)
    assert done.code == 2
    assert "the capture holds no graph" in done.err and "--graph" not in done.err


def test_json_is_the_file(peek, saved):
    """``--format json`` gives back what was saved, byte for byte."""
    assert peek("show", saved, "--format", "json").out.encode() == saved.read_bytes()


def test_journal_is_shown_as_its_json(peek, saved, tmp_path):
    """A journal shows as the JSON of the same capture does."""
    journal = tmp_path / "j.peek.jsonl"
    journal.write_bytes(encode_record(read(saved)))
    assert peek("show", journal) == peek("show", saved)


def test_graph_picks(peek, saved):
    """``--graph`` shows that graph alone; a wrong key names the nearest."""
    done = peek("show", saved, "--graph", "1/0", "--format", "json")
    assert [g.key for g in jsonfile.decode(done.out.encode(), "").graphs] == ["1/0"]
    wrong = peek("show", saved, "--graph", "1/00")
    assert wrong.code == 2
    assert "did you mean '1/0'?" in wrong.err


def test_selected_graphs_come_without_totals(peek, saved):
    """The counts of the whole capture end the whole capture, and not a graph of it."""
    assert "2 graphs, " in peek("show", saved).out
    assert "graphs, " not in peek("show", saved, "--graph", "1/0").out
    assert "graphs, " not in peek("show", saved, "--graph", "0/0", "--graph", "1/0").out


def test_columns_pick(peek, saved):
    """``--columns`` picks and orders; a wrong name is refused with the nearest."""
    head = peek("show", saved, "--columns", "name,index").out.splitlines()[1]
    assert head.split() == ["name", "#"]
    wrong = peek("show", saved, "--columns", "nam")
    assert wrong.code == 2
    assert "did you mean 'name'?" in wrong.err


def test_width_is_that_of_columns(peek, saved, monkeypatch):
    """COLUMNS, where it is set, cuts rows to that width."""
    monkeypatch.setenv("COLUMNS", "70")
    table = [line for line in peek("show", saved).out.splitlines() if "scaled_dot" in line or "call_" in line]
    assert table
    assert max(map(len, table)) <= 70


def test_terminal_folds_and_all_unfolds(tmp_path):
    """A terminal gets at most 200 rows of a long graph, and every row with ``--all``; ``--fold`` folds in a pipe."""
    path = tmp_path / "long.json"
    jsonfile.write(path, capture(transformer(40)))
    nodes = len(transformer(40).nodes)
    assert len(on_terminal("show", path).splitlines()) < 230
    assert len(on_terminal("show", path, "--all").splitlines()) > nodes
    folded = python("-m", "peek_backend", "show", path, "--fold", COLUMNS=None).stdout
    whole = python("-m", "peek_backend", "show", path, COLUMNS=None).stdout
    cut = python("-m", "peek_backend", "show", path, COLUMNS="80").stdout
    assert len(folded.splitlines()) < 230 < nodes < min(len(cut.splitlines()), len(whole.splitlines()))


def on_terminal(*args) -> str:
    """What a command prints to a terminal."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "peek_backend", *map(str, args)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    with subprocess.Popen(command, stdout=slave, stderr=slave, stdin=slave, env=env) as process:
        os.close(slave)
        text = b""
        while chunk := _chunk(master):
            text += chunk
    os.close(master)
    assert process.returncode == 0, text
    return text.decode()


def _chunk(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError:  # Linux's answer at the end of a terminal
        return b""


def test_image_is_refused_on_a_terminal_and_for_two_graphs(peek, saved, monkeypatch):
    """Binary output never lands in a terminal, and stdout takes one image."""
    done = peek("show", saved, "--format", "png")
    assert done.code == 2
    assert "the capture holds 2: 0/0, 1/0" in done.err
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    done = peek("show", saved, "--format", "png", "--graph", "0/0")
    assert done.code == 2
    assert "-o graph.png" in done.err


def test_image_to_a_pipe(saved):
    """One graph's image can be piped on."""
    require("dot")
    done = python("-m", "peek_backend", "show", saved, "--format", "png", "--graph", "1/0")
    assert done.stdout.startswith(b"\x89PNG")
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("o.dot", b"digraph"),
        ("o.gv", b"digraph"),
        ("o.svg", b"<"),
        ("o.json", b'{"schema_version"'),
        ("o.txt", b"0/0"),
        ("o.md", b"#"),
        ("o.html", b"<!DOCTYPE html>"),
        ("o.tsv", b"#"),
        ("deep/er/o.txt", b"0/0"),
    ],
)
def test_suffix_picks_the_format(peek, saved, tmp_path, name, begins):
    """``-o`` writes what the suffix names, in folders made for it, and prints nothing to stdout."""
    if name.endswith("svg"):
        require("dot")
    path = tmp_path / name
    done = peek("show", saved, "-o", path)
    assert (done.code, done.out) == (0, "")
    assert path.read_bytes().lstrip().startswith(begins)


def test_two_pictures_are_two_files(peek, saved, tmp_path):
    """A picture of each graph is written, and the names are told."""
    done = peek("show", saved, "-o", tmp_path / "o.dot")
    assert sorted(os.listdir(tmp_path)) == ["o-1_0.dot", "o.dot"]
    assert "wrote 2 files" in done.err


def test_notes_speak_of_options(capsys):
    """A renderer names settings as Python does; the command line names its options."""
    tell_notes(["see more with expand='a.b' or full=True"])
    assert capsys.readouterr().err == "peek: see more with --expand 'a.b' or --full\n"


def test_what_a_picture_folds_is_told(peek, tmp_path):
    """What is left out of a picture is said, and --full leaves nothing out."""
    jsonfile.write(tmp_path / "long.json", capture(transformer(40)))
    done = peek("show", tmp_path / "long.json", "-o", tmp_path / "o.dot")
    assert "folded 646 nodes" in done.err
    full = peek("show", tmp_path / "long.json", "--full", "-o", tmp_path / "full.dot")
    assert full.code == 0
    assert (tmp_path / "full.dot").stat().st_size > (tmp_path / "o.dot").stat().st_size


def test_format_beats_suffix(peek, saved, tmp_path):
    """``--format`` says what to write whatever the file is called."""
    peek("show", saved, "--format", "json", "-o", tmp_path / "o.data")
    assert (tmp_path / "o.data").read_bytes() == saved.read_bytes()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["-o", "o.sgvv"], "did you mean"),
        (["-o", "o"], "it has no suffix"),
        (["--format", "gihub"], "did you mean 'github'?"),
        (["--color", "sometimes"], "known: auto, always, never"),
        (["-o", "/dev/full", "--format", "json"], "the disk is full"),
        (["-o", "FILE/below.txt"], "a part of the path is a file"),
    ],
)
def test_bad_arguments_are_one_message(peek, saved, tmp_path, monkeypatch, args, says):
    """What cannot be meant or written is one message, exit code 2, and no file."""
    monkeypatch.chdir(tmp_path)
    done = peek("show", saved, *(a.replace("FILE", str(saved)) for a in args))
    assert (done.code, done.out, os.listdir(tmp_path)) == (2, "", [])
    assert says in done.err and done.err.count("peek: ") == 1


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.json", None, "there is no such file"),
        ("cut.json", b'{"schema_version":1,"gra', "cut short at line 1, column 25"),
        ("new.json", b'{"schema_version":7,"environment":{},"graphs":[]}', "pip install --upgrade"),
        ("x.png", b"\x89PNG\r\n", "a PNG picture"),
        ("x.pt2", None, "there is no such file"),
        ('a"b</script>|\n🔥.json', None, "there is no such file"),
    ],
)
def test_wrong_file_is_one_message(peek, tmp_path, name, content, says):
    """A file that is no capture is one message that says what it is and what to do."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = peek("show", tmp_path / name)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_folder_is_one_message(peek, tmp_path):
    """So is a folder."""
    assert "it is a folder" in peek("show", tmp_path).err


def test_stdin(saved):
    """``-`` reads a capture from stdin."""
    args = [sys.executable, "-m", "peek_backend", "show", "-", "--format", "json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(args, input=saved.read_bytes(), capture_output=True, env=env, check=True)
    assert done.stdout == saved.read_bytes()


def test_variables_hold_and_bad_ones_are_told(peek, saved, monkeypatch):
    """PEEK_ variables are the defaults of the command line too; a bad one is told and the default holds."""
    plain = peek("show", saved).out
    monkeypatch.setenv("PEEK_FORMAT", "github")
    assert peek("show", saved).out == peek("show", saved, "--format", "github").out != plain
    monkeypatch.setenv("PEEK_FORMAT", "gihub")
    done = peek("show", saved)
    assert (done.code, done.out) == (0, plain)
    assert "PEEK_FORMAT ignored" in done.err and "did you mean 'github'?" in done.err


def test_narrow_encoding_gets_escapes(saved):
    """A terminal that knows only ASCII gets escapes, not a traceback."""
    done = python("-m", "peek_backend", "show", saved, "--format", "tree", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.isascii() and b"\\u2514" in done.stdout


@pytest.mark.parametrize("attacks", sorted(HOSTILE))
def test_hostile_names_show(peek, tmp_path, attacks):
    """No name in a capture stops it from being shown, or steers the terminal."""
    text = HOSTILE[attacks]
    path = tmp_path / "c.json"
    jsonfile.write(path, capture(graph(node(0, text, "call_function", text, text), name=text), notes=(text,)))
    done = peek("show", path)
    assert done.code == 0
    assert "\x1b" not in done.out and "\u202e" not in done.out


def test_empty_capture_says_so(peek, tmp_path):
    """A capture without graphs says that there are none."""
    jsonfile.write(tmp_path / "c.json", capture())
    assert "no graph was captured" in peek("show", tmp_path / "c.json").out


def test_output_replaces_a_file_as_a_whole(peek, saved, tmp_path, monkeypatch):
    """An output file that cannot be finished stays as it was."""
    path = tmp_path / "o.json"
    path.write_text("old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    done = peek("show", saved, "-o", path)
    assert (done.code, path.read_text(), os.listdir(tmp_path)) == (2, "old", ["o.json"])


def test_stdout_may_be_any_text_stream(saved, monkeypatch):
    """A stream without an encoding, as a notebook's, is written to as it is."""
    from peek_backend.cli import main

    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["show", str(saved)]) == 0
    assert "0/0" in stream.getvalue()


def test_heat_colours_a_picture(peek, saved, tmp_path):
    """``--heat`` colours every picture of a capture by what its boxes cost, with the figures and a scale."""
    done = peek("show", saved, "-o", tmp_path / "g.dot", "--heat", "flops")
    assert done.code == 0
    texts = [path.read_text() for path in sorted(tmp_path.glob("g*.dot"))]
    assert len(texts) == 2
    assert all("FLOPs of each box" in text and "heat-7" in text for text in texts)
    assert "heat-7" not in peek("show", saved, "--format", "dot").out


def test_heat_that_colours_nothing_is_refused(peek, saved, tmp_path):
    """An unknown heat is told with the nearest, and heat of what is no picture with the way to one."""
    wrong = peek("show", saved, "-o", tmp_path / "g.svg", "--heat", "flop")
    assert wrong.code == 2 and "did you mean 'flops'?" in wrong.err
    for more in ((), ("--format", "tree"), ("-o", tmp_path / "page.html")):
        done = peek("show", saved, "--heat", "memory", *more)
        assert (
            done.code == 2 and "only a picture is coloured by heat" in done.err and "-o graph.svg" in done.err
        )
    assert not list(tmp_path.iterdir())


def test_memory_of_one_graph_is_that_of_the_whole_run(peek, tmp_path):
    """A backward picked with ``--graph`` is coloured by the memory that it has after its forward."""
    forward, backward = (replace(transformer(2), stage=stage) for stage in ("forward", "backward"))
    stored = [
        replace(
            g, nodes=tuple(replace(n, value=n.value and replace(n.value, storage=n.index)) for n in g.nodes)
        )
        for g in (forward, backward)
    ]
    file = tmp_path / "train.json"
    jsonfile.write(file, capture(*stored))
    alone = peek("show", file, "--graph", "0/0 backward", "--format", "dot", "--heat", "memory").out
    both = peek("show", file, "--format", "dot", "--heat", "memory").out
    assert alone and both.endswith(alone)
