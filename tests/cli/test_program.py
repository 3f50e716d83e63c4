"""``peek run`` beside plain Python on programs that compile nothing: same output, same errors, same exit code."""

from __future__ import annotations

import errno
import os
import re
import zipfile

import pytest

from .conftest import python

NAMES = """
import sys
print(sys.argv, sys.path[0], __name__, __file__, __package__, __doc__, __builtins__.__name__)
print(type(__loader__).__name__, getattr(__spec__, "name", None), sorted(globals()))
print(sys.modules["__main__"].__dict__ is globals())
"""

SCRIPTS = {
    "names.py": NAMES,
    "exits.py": "import sys; sys.exit(7)",
    "exits_text.py": "import sys; print('out'); sys.exit('said at exit')",
    "exits_none.py": "raise SystemExit",
    "raises.py": "def f():\n    raise ValueError('boom')\nf()\n",
    "chained.py": "try:\n    1 / 0\nexcept Exception as e:\n    raise KeyError('k') from e\n",
    "interrupted.py": "raise KeyboardInterrupt",
    "eof.py": "raise EOFError",
    "pipe.py": "raise BrokenPipeError(32, 'Broken pipe')",
    "syntax.py": "x = (1\n",
    "indent.py": "if 1:\nx\n",
    "hook.py": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1 / 0\n",
    "atexits.py": "import atexit; atexit.register(print, 'bye'); print('hi')",
    "threads.py": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.05), print('late'))).start()\n",
    "reads.py": "print(input())",
    "clicks.py": "import click\n@click.command()\n@click.option('--n')\ndef c(n): print(n); raise EOFError\nc()",
    "bytes.py": "# -*- coding: latin-1 -*-\nprint(len('\xe9'))",
    "pickles.py": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)",
    "warns.py": "import warnings; warnings.warn('old', DeprecationWarning)",
    "futures.py": "from __future__ import annotations\nprint(__annotations__)",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The scripts, a package, a folder and a zip file with a ``__main__``."""
    folder = tmp_path_factory.mktemp("programs")
    for name, text in SCRIPTS.items():
        (folder / name).write_text(text, encoding="latin-1")
    package = folder / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("print('init', __name__)")
    (package / "__main__.py").write_text(NAMES)
    (package / "sub.py").write_text("from . import sub2\n" + NAMES)
    (package / "sub2.py").write_text("")
    (package / "broken.py").write_text("import no_such_thing")
    (folder / "other").mkdir()
    (folder / "other" / "__main__.py").write_text(NAMES)
    with zipfile.ZipFile(folder / "app.zip", "w") as archive:
        archive.writestr("__main__.py", NAMES)
    (folder / "link.py").symlink_to(folder / "other" / "__main__.py")
    return folder


LINES = [
    *([name] for name in SCRIPTS),
    ["names.py", "--format", "x", "-m", "--", "-q"],
    ["clicks.py", "--n", "3"],
    ["-m", "pkg", "-m", "--help"],
    ["-m", "pkg.sub", "a"],
    ["-m", "pkg.broken"],
    ["other", "a"],
    ["app.zip", "a"],
    ["link.py"],
]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_runs_as_python_does(folder, line):
    """Output, error output and exit code are those of ``python`` on the same command line."""
    plain = python(*line, cwd=folder)
    ours = python("-m", "peek_backend", "run", "--quiet", *line, cwd=folder)
    assert ours.returncode == plain.returncode
    assert ours.stdout == plain.stdout
    assert ours.stderr == re.sub(rb'  File "[^"]*runpy[^"]*".*\n(    .*\n)*', b"", plain.stderr)


def test_torch_is_not_loaded_for_a_program_without_it(folder):
    """A program that does not import torch runs without it, and the report says that nothing was compiled."""
    (folder / "light.py").write_text("import sys; print('torch' in sys.modules)")
    done = python("-m", "peek_backend", "run", "light.py", cwd=folder)
    assert done.stdout == b"False\n"
    assert b"the program did not use torch.compile" in done.stderr
    assert b"peek-out/light.peek.jsonl" in done.stderr


@pytest.fixture
def hollow_torch(tmp_path):
    """A folder with a torch that has nothing in it and says when it is imported."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("")
    (tmp_path / "torch" / "_dynamo.py").write_text("import os; print('imported with', os.environ.get('X'))")
    return tmp_path


def test_settings_made_before_torch_count(hollow_torch):
    """What a script sets before it imports torch is set when torch is imported; a failure to observe is only told."""
    script = "import os; os.environ['X'] = '1'\nimport torch._dynamo as d\nprint(type(d.__loader__).__name__)"
    (hollow_torch / "sets.py").write_text(script)
    done = python("-m", "peek_backend", "run", "sets.py", cwd=hollow_torch)
    assert done.stdout == b"imported with 1\nSourceFileLoader\n"
    assert done.returncode == 0
    assert b"torch.compile could not be observed" in done.stderr


def test_child_in_another_environment_is_left_alone(hollow_torch):
    """A child process whose environment lacks what peek needs runs as it would."""
    child = "import sys; sys.modules['msgspec'] = None; import torch._dynamo; print('well')"
    (hollow_torch / "starts.py").write_text(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])"
    )
    done = python("-m", "peek_backend", "run", "-q", "starts.py", cwd=hollow_torch)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"imported with None\nwell\n", b"")


def test_sitecustomize_of_the_user_still_runs(folder, tmp_path):
    """Children import the user's own sitecustomize, and nothing of ours shows in their path."""
    (tmp_path / "sitecustomize.py").write_text("print('custom')")
    code = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import sys; print(len(sys.path))'])"
    )
    (folder / "starts.py").write_text(code)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", ""), os.getcwd()])
    plain = python("starts.py", cwd=folder, PYTHONPATH=path)
    ours = python("-m", "peek_backend", "run", "-q", "starts.py", cwd=folder, PYTHONPATH=path)
    assert ours.stdout == plain.stdout
    assert b"custom" in plain.stdout


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (["nmaes.py"], "did you mean 'names.py'?"),
        (["no/such.py"], "there is no folder 'no'"),
        (["pkg/../empty"], "is a folder, not a script"),
        (["-m", "no_such_module"], "no module named 'no_such_module'"),
        (["-m", "pkg.nothing"], "no module named 'pkg.nothing'"),
        (["-m", "names.py.x-y"], "is no module's name"),
        (["binary"], "it is a binary file"),
        (["-o", "names.py/x", "names.py"], "a part of the path is a file"),
        (["-o", "/dev/full", "names.py"], "the disk is full"),
        (["-o", "empty", "names.py"], "it is a folder"),
        (["--format", "gihub", "names.py"], "did you mean 'github'?"),
    ],
)
def test_what_cannot_run_is_one_message(folder, line, says):
    """A program or output that cannot be is one message and exit code 2, before anything of it has run."""
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "binary").write_bytes(b"\x7fELF\0\0\0")
    done = python("-m", "peek_backend", "run", *line, cwd=folder)
    assert done.returncode == 2
    assert says in done.stderr.decode() and b"Traceback" not in done.stderr
    assert done.stdout.replace(b"init pkg\n", b"") == b""


def test_read_only_folder_is_one_message(folder):
    """Where the default output cannot be, the message says how to put it elsewhere."""
    (folder / "occupied").mkdir()
    (folder / "occupied" / "peek-out").write_text("a file in the way")
    (folder / "occupied" / "x.py").write_text("print(1)")
    done = python("-m", "peek_backend", "run", "x.py", cwd=folder / "occupied")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"-o FILE" in done.stderr


def test_output_folder_is_ignored_by_git(folder, tmp_path):
    """The default folder holds a file that has git ignore it."""
    python("-m", "peek_backend", "run", "-q", folder / "names.py", cwd=tmp_path)
    assert (tmp_path / "peek-out" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("args", [["syntax.py"], ["indent.py"], ["-m", "syntax"], ["-m", "no_such_module"]])
def test_a_program_that_never_ran_has_no_report(folder, tmp_path, args):
    """A script that does not compile, or is not there, gets its error, no report about torch.compile, and no file."""
    for name in ("syntax.py", "indent.py"):
        (tmp_path / name).write_text(SCRIPTS[name])
    done = python("-m", "peek_backend", "run", *args, cwd=tmp_path)
    assert done.returncode in (1, 2)
    assert b"no graph was captured" not in done.stderr and b"peek show" not in done.stderr
    assert not (tmp_path / "peek-out").exists()


@pytest.mark.parametrize(
    ("output", "fix"),
    [
        ("c.svg", "write -o c.peek.jsonl, then: peek show c.peek.jsonl -o c.svg"),
        ("out/page.html", "write -o page.peek.jsonl, then: peek show page.peek.jsonl -o out/page.html"),
        (
            "my page.html",
            "write -o 'my page.peek.jsonl', then: peek show 'my page.peek.jsonl' -o 'my page.html'",
        ),
        ("exits.py", "write -o exits.peek.jsonl"),
    ],
)
def test_output_that_is_no_capture_is_refused(folder, peek, monkeypatch, output, fix):
    """-o with the suffix of a picture, a page or a program is refused before anything is written or run."""
    monkeypatch.chdir(folder)
    before = (folder / "exits.py").read_text()
    done = peek("run", "-o", output, "exits.py")
    assert done.code == 2
    assert "a .jsonl or .json file" in done.err and done.err.rstrip().endswith(fix)
    assert (folder / "exits.py").read_text() == before and not (folder / "c.svg").exists()


@pytest.mark.parametrize("module", ["atomic", "journal"])
def test_full_folder_is_left_as_it_was(tmp_path, peek, monkeypatch, module):
    """Where the first file or the second does not fit on the disk, one error says so and nothing of ours stays behind."""

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"peek_backend.snapshot.{module}.write_all", full)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "light.py").write_text("")
    done = peek("run", "light.py")
    assert done.code == 2
    assert "the disk is full" in done.err
    assert os.listdir(tmp_path) == ["light.py"]
