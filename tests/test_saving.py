"""When the file of a growing capture is written again."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from peek_backend import saving
from peek_backend.saving import Pace

PATH = Path("/nowhere/capture.json")


def write(pace: Pace, graphs: int, log: list[str], seconds: float = 0.0, path: Path = PATH) -> None:
    def now() -> None:
        time.sleep(seconds)
        log.append(f"{graphs} now")

    pace.run(path, graphs, now, lambda: log.append(f"{graphs} late"))


def test_small_captures_are_written_at_once():
    """A write that takes little is never put off, however fast the graphs come."""
    pace, log = Pace(), []
    for graphs in range(1, 20):
        write(pace, graphs, log)
    assert log == [f"{n} now" for n in range(1, 20)]


def test_a_slow_first_write_says_nothing():
    """The first write loads the renderer: the second is done at once all the same."""
    pace, log = Pace(), []
    write(pace, 1, log, seconds=0.1)
    write(pace, 2, log)
    assert log == ["1 now", "2 now"]


def test_a_costly_write_waits_and_only_the_last_is_done(monkeypatch):
    """What comes while a costly file waits for its time is written once, by the timer."""
    monkeypatch.setattr(saving, "LONGEST", 0.2)
    pace, log = Pace(), []
    write(pace, 1, log, seconds=0.06)
    write(pace, 2, log, seconds=0.3)
    for graphs in (3, 4, 5):
        write(pace, graphs, log)
    assert log == ["1 now", "2 now"]
    deadline = time.monotonic() + 20
    while len(log) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert log == ["1 now", "2 now", "5 late"]


def test_flush_writes_what_waits():
    """After a flush nothing waits, and nothing is written twice."""
    pace, log = Pace(), []
    write(pace, 1, log, seconds=0.06)
    write(pace, 2, log, seconds=0.3)
    write(pace, 3, log)
    pace.flush()
    pace.flush()
    assert log == ["1 now", "2 now", "3 late"]


def test_paths_do_not_wait_for_each_other():
    """A costly file does not hold up a cheap one."""
    pace, log = Pace(), []
    write(pace, 1, log, seconds=0.06)
    write(pace, 2, log, seconds=0.3)
    write(pace, 7, log, path=Path("/nowhere/other.json"))
    assert log[-1] == "7 now"


def test_a_failed_write_is_raised_at_once():
    """An error of a write that is due goes to the caller."""

    def fail() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Pace().run(PATH, 1, fail, fail)


def test_what_waits_is_written_when_python_exits(tmp_path):
    """A program that ends right after its last graph leaves a file with all of them, and stays silent."""
    program = """
        import sys, peek_backend.saving as saving
        from peek_backend.options import resolve
        from peek_backend.report import Report
        from tests.builders import graph
        saving.CHEAP, saving.SHARE = 0.0, 10**6
        report, (options, _) = Report(), resolve({"save": sys.argv[1], "quiet": True})
        for number in range(9):
            report.show(graph(compile_id=f"{number}/0"), options)
    """
    target = tmp_path / "capture.json"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(target)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    import peek_backend

    assert [g.compile_id for g in peek_backend.load(target).graphs] == [f"{n}/0" for n in range(9)]
