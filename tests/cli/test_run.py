"""``peek run`` on programs that compile: everything is captured, in every thread and process, whatever ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from peek_backend import snapshot

from .conftest import ROOT, python

pytest.importorskip("torch")

HEAD = """
import multiprocessing, os, subprocess, sys, threading, torch
@torch.compile(backend="eager")
def f(x): return x.sin() + 1
def g(n): return f(torch.ones(n))
"""

WORKS = f"""{HEAD}
if __name__ == "__main__":
    print(sorted(k for k in os.environ if k.startswith("PEEK")), flush=True)
    print(float(g(2).sum()) == float((torch.ones(2).sin() + 1).sum()), flush=True)
    h = torch.compile(lambda y: y * 2, backend=lambda gm, inputs: gm.forward)
    threads = [threading.Thread(target=lambda n=n: h(torch.ones(2, n))) for n in (3, 4)]
    for t in threads: t.start()
    for t in threads: t.join()
    for method in ("fork", "spawn"):
        child = multiprocessing.get_context(method).Process(target=g, args=(5,))
        child.start(); child.join(); print(method, child.exitcode, flush=True)
    pid = os.fork()
    if pid == 0:
        g(6); sys.exit(0)
    os.waitpid(pid, 0)
    code = "import torch; torch.compile(lambda z: z - 1, backend='eager')(torch.ones(7))"
    subprocess.run([sys.executable, "-c", code], check=True)
    subprocess.run([sys.executable, "-c", "import json"], check=True)
    sys.exit(3)
"""

RAISES = f"{HEAD}\ng(2)\nraise ValueError('boom')\n"
BROKEN = f"{HEAD}\n@torch.compile(backend='eager')\ndef h(x): print(x); return x + 1\nh(torch.ones(2))\n"
KILLED = f"""{HEAD}
g(2)
torch.compile(lambda y: y * 2, backend="eager")(torch.ones(3))
print("ready", flush=True)
while True: pass
"""
# No file may grow beyond what some of the eight graphs take.
LIMITED = """
import resource, torch
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))
def f(x):
    for _ in range(30): x = x.sin()
    return x
for backend in ("eager", lambda gm, inputs: gm.forward):
    for n in range(4): torch.compile(f, backend=backend, dynamic=False)(torch.ones(n + 2))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    for name, text in {
        "works.py": WORKS,
        "raises.py": RAISES,
        "broken.py": BROKEN,
        "killed.py": KILLED,
        "limited.py": LIMITED,
    }.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def worked(folder):
    """One run of the program with threads and children, its files and its report."""
    stale = folder / "peek-out" / "works.pid-1.peek.jsonl"
    stale.parent.mkdir()
    stale.write_text("left by a run before")
    done = python("-m", "peek_backend", "run", "works.py", cwd=folder)
    return done, {p.name: p for p in sorted(stale.parent.glob("works*"))}


def ops(path):
    """The ops of each graph, by target."""
    return [[n.target for n in g.nodes if n.op.startswith("call")] for g in snapshot.read(path).graphs]


def test_program_is_untouched(worked):
    """The program's own output and exit code are as without peek, its results right, its children well."""
    done, _ = worked
    assert done.returncode == 3
    assert done.stdout.decode().splitlines() == ["[]", "True", "fork 0", "spawn 0"]


def test_every_thread_is_captured(worked):
    """What the threads of the program compiled is in its capture, whatever the backend; the capture is complete."""
    _, files = worked
    record = snapshot.read(files["works.peek.jsonl"])
    assert record.problems == ()
    assert ops(files["works.peek.jsonl"])[:2] == [["sin", "operator.add"], ["operator.mul"]]
    assert record.environment.argv == ("works.py",)
    assert record.environment.torch


def test_every_child_writes_its_own(worked):
    """Every process that compiled has a complete capture; those of an earlier run are gone."""
    _, files = worked
    children = [path for name, path in files.items() if ".pid-" in name]
    assert len(children) == 4
    assert all(snapshot.read(path).problems == () for path in children)
    captured = sorted(targets for path in children for targets in ops(path))
    assert captured == [["operator.sub"], *[["sin", "operator.add"]] * 3]


def test_report_has_tables_and_places(worked):
    """The report on stderr has a table for each graph, names the capture and the children's, and how to look again."""
    done, files = worked
    text = done.stderr.decode()
    assert text.count("placeholder") >= 2
    assert "peek: capture of works.py: peek-out/works.peek.jsonl" in text
    assert "peek show peek-out/works.peek.jsonl" in text
    assert all(name in text for name in files)
    assert text.count("(1 graph, ") == 4


def test_commands_of_a_report_can_be_pasted(folder):
    """A capture whose name has a space is quoted wherever the report says what to run next."""
    done = python(
        "-m", "peek_backend", "run", "--format", "tree", "-o", "my run.jsonl", "broken.py", cwd=folder
    )
    text = done.stderr.decode()
    assert "peek: look again with: peek show 'my run.jsonl'" in text
    assert "more: peek explain 'my run.jsonl' [" in text


def test_report_after_an_error(folder):
    """A program that raises gets its traceback, then the report, and Python's exit code."""
    done = python("-m", "peek_backend", "run", "--format", "tree", "-o", "r.jsonl", "raises.py", cwd=folder)
    text = done.stderr.decode()
    assert done.returncode == 1
    assert text.index("ValueError: boom") < text.index("sin")
    assert "peek_backend" not in text
    assert len(snapshot.read(folder / "r.jsonl").graphs) == 1


def test_rank_is_in_the_name(folder):
    """Ranks that torchrun starts write files of their own."""
    (folder / "light.py").write_text("")
    python("-m", "peek_backend", "run", "-q", "-o", "t.peek.jsonl", "light.py", cwd=folder, RANK="3")
    assert snapshot.read(folder / "t.rank-3.peek.jsonl").graphs == ()
    assert not (folder / "t.peek.jsonl").exists()


def test_killed_program_leaves_a_capture(folder, peek):
    """After SIGKILL, ``peek show`` has all that was compiled, and says that the program was cut off."""
    args = [sys.executable, "-m", "peek_backend", "run", "-o", "k.peek.jsonl", "killed.py"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(args, cwd=folder, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    done = peek("show", folder / "k.peek.jsonl")
    assert done.code == 0
    assert done.out.count("placeholder") == 2
    assert "ended before its capture was complete" in done.out


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_report_says_what_could_not_be_saved(folder, peek, quiet):
    """When the system takes no more, the report says why and how much is in the file, -q or not; the file says it too."""
    args = ["-m", "peek_backend", "run", *quiet, "-o", "l.peek.jsonl", "limited.py"]
    done = python(*args, cwd=folder)
    assert done.returncode == 0
    saved = snapshot.read(folder / "l.peek.jsonl")
    assert 0 < len(saved.graphs) < 8
    said = (
        f"peek: the file would be larger than the system allows; {len(saved.graphs)} of 8 graphs were saved"
    )
    assert said in done.stderr.decode()
    (problem,) = saved.problems
    assert problem.what.startswith(f"the capture stops here, after {len(saved.graphs)} graph")
    assert problem.why in peek("show", folder / "l.peek.jsonl").out


WAITS = f"{HEAD}\ng(int(sys.argv[1]))\nprint('ready', flush=True)\ninput()\n"


def test_two_runs_at_once_lose_nothing(tmp_path):
    """A run beside one that still writes the same capture takes the next name and says so; a later one takes the first."""
    (tmp_path / "waits.py").write_text(WAITS)
    args = [sys.executable, "-m", "peek_backend", "run", "waits.py"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*args, "2"], cwd=tmp_path, env=env, **pipes) as first:
        assert first.stdout.readline() == b"ready\n"
        done = subprocess.run(
            [*args, "3"], cwd=tmp_path, env=env, input=b"\n", capture_output=True, check=True
        )
        first.communicate(b"\n")
    said = "another run is writing peek-out/waits.peek.jsonl; this one writes peek-out/waits-2.peek.jsonl"
    assert said in done.stderr.decode()
    for name, size in (("waits", 2), ("waits-2", 3)):
        record = snapshot.read(tmp_path / "peek-out" / f"{name}.peek.jsonl")
        assert [g.nodes[0].value.shape for g in record.graphs] == [(size,)]
        assert record.problems == ()
    again = subprocess.run([*args, "4"], cwd=tmp_path, env=env, input=b"\n", capture_output=True, check=True)
    assert b"another run" not in again.stderr
    assert len(list((tmp_path / "peek-out").glob("*.jsonl"))) == 2
