"""Journals: what is left of a capture whatever ends the program, and what the program never notices."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from peek_backend import snapshot
from peek_backend.errors import PeekError
from peek_backend.model import BreakInfo, Environment, FrameRecord, GuardInfo, Problem, RecompileInfo
from peek_backend.snapshot import journal as journal_module
from peek_backend.snapshot.journal import InUse, Journal, child_path, read_journal
from tests.builders import capture, graph, node, transformer

ENVIRONMENT = Environment(peek="0.1.0", torch="2.13.0")


def record_of(path):
    return snapshot.read(path)


def small(name="x", **more):
    return graph(node(0, name, "placeholder", name), **more)


def full_journal(path):
    """A journal with every kind of line, closed."""
    journal = Journal(path, ENVIRONMENT)
    journal.append(FrameRecord("f"))
    key = journal.append(small(frame=0))
    journal.append(BreakInfo("print", frame=0))
    journal.append(RecompileInfo("0/1", frame=0))
    journal.append(Problem("0/0", "what"))
    journal.append("a note\nof two lines")
    journal.patch("graph", key, guards=(GuardInfo("T", "x"),), never_ran="guard failed")
    journal.patch("frame", 0, outcome="broken")
    journal.close()
    return capture(
        small(frame=0, guards=(GuardInfo("T", "x"),), never_ran="guard failed"),
        environment=ENVIRONMENT,
        frames=(FrameRecord("f", outcome="broken"),),
        breaks=(BreakInfo("print", frame=0),),
        recompiles=(RecompileInfo("0/1", frame=0),),
        problems=(Problem("0/0", "what"),),
        notes=("a note\nof two lines",),
    )


def test_records_and_patches_add_up(tmp_path):
    """What was appended and patched is read back as one capture, by content and not by the file's name."""
    path = tmp_path / "any.name"
    assert full_journal(path) == record_of(path) == read_journal(path)


def test_whole_record_as_a_journal(tmp_path):
    """A finished capture can be written as a journal and is read back equal."""
    record = full_journal(tmp_path / "j")
    assert snapshot.decode(journal_module.encode_record(record), "j") == record


def test_every_cut_reads_or_is_one_error(tmp_path):
    """Cut at any byte, a journal gives the lines before the cut and a problem; a cut header is one error."""
    whole = full_journal(tmp_path / "j")
    data = (tmp_path / "j").read_bytes()
    header = data.index(b"\n")
    for end in range(1, len(data)):
        if end < header:
            with pytest.raises(PeekError, match="cut short"):
                snapshot.decode(data[:end], "j")
            continue
        record = snapshot.decode(data[:end], "j")
        assert record.environment == whole.environment
        written = set(data[:end].split(b"\n")) & set(data.split(b"\n"))
        assert len(record.graphs) == sum(
            line.startswith(b'{"kind":"graph","data":{"comp') for line in written
        )
        ended = end == len(data) - 1  # only the last newline is missing
        assert [p.where for p in record.problems if p.where == "capture"] == ([] if ended else ["capture"])


@pytest.fixture
def program(tmp_path):
    """Starts a program that appends graphs to a journal and says after each; killed at the end."""
    code = (
        "import sys; from peek_backend.snapshot.journal import Journal; from tests.builders import transformer;"
        "from peek_backend.model import Environment; j = Journal(sys.argv[1], Environment(torch='2.13.0'))\n"
        "while True: print(j.append(transformer(20)), flush=True)"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "k.peek.jsonl"],
        stdout=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as process:
        yield process
        process.kill()


def test_killed_program_leaves_all_it_had_written(tmp_path, program):
    """After SIGKILL every graph that append had returned for is in the file, and the record says it was cut off."""
    for line in program.stdout:
        if int(line) >= 4:
            break
    program.send_signal(signal.SIGKILL)
    rest = program.stdout.read().split()
    record = record_of(tmp_path / "k.peek.jsonl")
    assert len(record.graphs) in (5 + len(rest), 6 + len(rest))
    assert all(g == transformer(20) for g in record.graphs)
    assert "ended before its capture was complete" in record.problems[-1].what


def test_threads_write_whole_lines(tmp_path):
    """Eight threads appending at once lose nothing and mix nothing up."""
    journal = Journal(tmp_path / "j", ENVIRONMENT)
    big = transformer(10)
    threads = [
        threading.Thread(target=lambda i=i: [journal.append(f"{i}"), journal.append(big)]) for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    record = record_of(tmp_path / "j")
    assert sorted(record.notes) == [str(i) for i in range(8)]
    assert record.graphs == (big,) * 8
    assert record.problems == ()


def test_full_disk_ends_the_journal_in_silence(tmp_path, monkeypatch):
    """When the disk fills up, append does not raise; the journal says why, and what was whole is still read."""
    journal = Journal(tmp_path / "j", ENVIRONMENT)
    journal.append("whole")
    real = os.write

    def half(descriptor, data):
        if len(data) < 30:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:20])

    monkeypatch.setattr(journal_module.os, "write", half)
    assert [journal.append("lost" * 10), journal.append("lost too")] == [1, 2]
    monkeypatch.undo()
    journal.close()
    assert journal.problem.why == "the disk is full"
    record = record_of(tmp_path / "j")
    assert (record.notes, len(record.problems)) == (("whole",), 1)


def test_real_full_device_is_refused_at_once():
    """A journal that cannot be begun is one error before the program starts."""
    with pytest.raises(PeekError, match="the disk is full"):
        Journal("/dev/full", ENVIRONMENT)


def test_folder_in_the_way_is_refused(tmp_path):
    """So is one whose path is a folder, or goes through a file."""
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(PeekError, match="it is a folder"):
        Journal(tmp_path, ENVIRONMENT)
    with pytest.raises(PeekError, match="a part of the path is a file"):
        Journal(tmp_path / "f" / "j", ENVIRONMENT)


def test_lazy_journal_without_records_leaves_no_file(tmp_path):
    """A child process that compiles nothing leaves no file behind; one that does has its environment in it."""
    lazy = Journal(tmp_path / "a" / "j", Environment(), lazy=True)
    lazy.close()
    assert os.listdir(tmp_path) == []
    lazy = Journal(tmp_path / "a" / "j", Environment(), lazy=True)
    lazy.set_environment(ENVIRONMENT)
    lazy.append("x")
    lazy.close()
    assert record_of(tmp_path / "a" / "j").environment == ENVIRONMENT


def test_environment_can_be_completed(tmp_path):
    """What becomes known of the environment later replaces the header's."""
    journal = Journal(tmp_path / "j", Environment(peek="0.1.0"))
    journal.set_environment(ENVIRONMENT)
    journal.close()
    assert record_of(tmp_path / "j").environment == ENVIRONMENT


def test_detached_child_writes_nothing(tmp_path):
    """After a fork, the child that detached cannot write into its parent's file."""
    journal = Journal(tmp_path / "j", ENVIRONMENT)
    pid = os.fork()
    if pid == 0:
        journal.detach()
        journal.append("child")
        journal.close()
        os._exit(0)
    os.waitpid(pid, 0)
    journal.append("parent")
    journal.close()
    record = record_of(tmp_path / "j")
    assert (record.notes, record.problems) == (("parent",), ())


def test_unknown_kinds_are_counted(tmp_path):
    """Lines of a kind that a later version added are left out, and a note says how many."""
    full_journal(tmp_path / "j")
    data = (
        (tmp_path / "j")
        .read_bytes()
        .replace(b'{"kind":"end"', b'{"kind":"kernel","data":{"x":1}}\n{"kind":"end"')
    )
    record = snapshot.decode(data, "j")
    assert record.notes[-1] == "1 kernel record left out: a newer peek wrote them"
    assert len(record.graphs) == 1


def test_frame_that_was_never_written_gets_a_stand_in():
    """A graph of a frame whose line had not come yet when the program died can still be shown."""
    data = b'{"kind":"header","data":{},"schema_version":1}\n'
    data += (
        b'{"kind":"graph","data":{"compile_id":"0/0","stage":"dynamo","nodes":[],"children":[],"frame":1}}\n'
    )
    frames = snapshot.decode(data, "j").frames
    assert [f.outcome for f in frames] == ["failed", "failed"]
    with pytest.raises(PeekError, match="frame 1 does not exist"):
        snapshot.decode(data + b'{"kind":"end"}\n', "j")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"oops", "j: not JSON at line 2, column"),
        (b'{"kind":"note","data":3}', "j: line 2: $: Expected str, got int"),
        (b'{"kind":"frame","data":{"line":1}}', "j: line 2: $: Object missing required field name"),
        (b'{"kind":"frame"}', "j: line 2"),
        (
            b'{"kind":"frame","data":{"line":1},"index":0}',
            "j: line 2: changes frame 0, which is not in the file",
        ),
        (b'{"kind":"note","data":{"line":1},"index":-1}', "j: line 2: changes note -1"),
        (b'{"data":3}', "j: line 2: $: Object missing required field kind"),
        (b"\xff", "is no UTF-8"),
        (b"<<<<<<< HEAD", "merge conflict"),
        (
            b'{"kind":"break","data":{"reason":"x","frame":1000000000000}}',
            "frame 1000000000000 does not exist",
        ),
    ],
)
def test_damaged_line_is_named(line, says):
    """A line that is wrong in the middle of a journal is named by its number."""
    data = b'{"kind":"header","data":{},"schema_version":1}\n' + line + b'\n{"kind":"end"}\n'
    with pytest.raises(PeekError) as caught:
        snapshot.decode(data, "j")
    assert says in str(caught.value)


def test_newer_journal_is_refused():
    """A journal of a newer version is refused with what to do."""
    with pytest.raises(PeekError, match="pip install --upgrade"):
        snapshot.decode(b'{"kind":"header","data":{},"schema_version":2}\n', "j")


def test_child_path_keeps_folder_and_suffix():
    """A child's journal lies beside its parent's and says whose it is."""
    assert child_path("out/train.peek.jsonl", "pid-12") == Path("out/train.pid-12.peek.jsonl")
    assert child_path("out/log.jsonl", "pid-12") == Path("out/log.pid-12.peek.jsonl")


def test_full_disk_is_told_by_the_file_itself(tmp_path, monkeypatch):
    """A line that the disk cut makes room for one that says so: the reader knows why, and does not guess at a kill."""
    room = len((full_journal(tmp_path / "j"), (tmp_path / "j").read_bytes())[1]) + 400
    journal = Journal(tmp_path / "k", ENVIRONMENT)
    real = os.write

    def limited(descriptor, data):
        left = room - os.fstat(descriptor).st_size
        if left <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:left])

    monkeypatch.setattr(journal_module.os, "write", limited)
    journal.append(small())
    while journal.problem is None:
        journal.append("x" * 300)
    journal.close()
    record = record_of(tmp_path / "k")
    assert record.problems == (
        Problem("capture", "the capture stops here, after 1 graph", "the disk is full"),
    )
    assert journal.saved["graph"] == len(record.graphs) == 1
    assert journal.saved["note"] == len(record.notes)


def test_a_journal_is_held_by_one_writer(tmp_path):
    """A second writer is refused until the first lets go, and the first one's lines stay."""
    first = Journal(tmp_path / "j", ENVIRONMENT)
    first.append("mine")
    with pytest.raises(InUse, match="another peek run is writing it"):
        Journal(tmp_path / "j", ENVIRONMENT)
    first.end()
    with pytest.raises(InUse):
        Journal(tmp_path / "j", ENVIRONMENT)
    first.close()
    assert record_of(tmp_path / "j").notes == ("mine",)
    Journal(tmp_path / "j", ENVIRONMENT).close()
    assert record_of(tmp_path / "j").notes == ()


def test_a_removed_journal_leaves_no_file(tmp_path):
    """``remove`` deletes the file and ends the journal; a device is left where it is."""
    journal = Journal(tmp_path / "j", ENVIRONMENT)
    journal.remove()
    journal.append("late")
    assert os.listdir(tmp_path) == []
    Journal(os.devnull, ENVIRONMENT).remove()
    assert os.path.exists(os.devnull)
