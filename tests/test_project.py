"""The project as a whole: what is pinned, registered, packaged and told to users agrees with itself."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from peek_backend import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PINNED = dict(
    line.split("==")
    for line in (ROOT / "tests/requirements.txt").read_text().splitlines()
    if line and not line.startswith("#")
)


def run(*args: str) -> str:
    """What a command prints; it must succeed."""
    return subprocess.run(args, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def tracked() -> list[str]:
    """The files of the repository."""
    try:
        return run("git", "ls-files").splitlines()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")


def test_what_tests_use_is_pinned():
    """tests/requirements.txt pins one version of everything that the package needs to run."""
    needed = {re.split(r"[<>=\[ ]", d)[0] for d in PROJECT["project"]["dependencies"]}
    assert needed - set(PINNED) == set()
    assert PINNED["torch"] == "2.13.0"


def test_the_backend_is_registered():
    """torch finds the backend by name, and the shell the command."""
    backend = [e for e in entry_points(group="torch_dynamo_backends") if e.name == "peek"]
    command = [e for e in entry_points(group="console_scripts") if e.name == "peek"]
    assert backend[0].value == "peek_backend.backend:peek"
    assert command[0].value == "peek_backend.cli:main"


def test_every_file_of_the_package_is_packaged():
    """A file that is no Python matches a pattern of the package data, so that an installed peek has it."""
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["peek_backend"]
    files = [f.removeprefix("peek_backend/") for f in tracked() if f.startswith("peek_backend/")]
    assert [f for f in files if not f.endswith(".py") and not any(fnmatch(f, p) for p in patterns)] == []


def test_every_package_has_its_docstring():
    """Each package says what comes in, what goes out and what it may import."""
    packages = sorted((ROOT / "peek_backend").rglob("__init__.py"))
    assert [str(p) for p in packages if not re.match(r'"""[^"]{40,}', p.read_text())] == []


def test_make_help_lists_every_target():
    """``make help`` has a line for each target that a person can ask for."""
    text = (ROOT / "Makefile").read_text()
    phony = set(re.search(r"^\.PHONY: (.*)$", text, re.M)[1].split())
    assert set(re.findall(r"make ([a-z-]+)", run("make", "help"))) >= phony


def test_ci_calls_the_same_target():
    """.ci/run runs ``make test``, which runs pytest."""
    assert "exec make test" in (ROOT / ".ci/run").read_text()
    assert " -m pytest " in run("make", "-n", "test")


@pytest.mark.parametrize("script", [".ci/run", ".ci/setup"])
def test_scripts_are_whole(script):
    """The shell scripts parse, stop at the first error, and may be executed."""
    run("bash", "-n", script)
    assert "set -euo pipefail" in (ROOT / script).read_text()
    assert (ROOT / script).stat().st_mode & 0o111


def test_the_changelog_tells_of_this_version():
    """The newest entry of CHANGELOG.md is the version that ``peek --version`` prints."""
    newest = re.search(r"^## (\S+?),", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]
    assert newest == __version__


def test_no_file_names_a_place_on_somebodys_machine():
    """No tracked text names a home or work folder; such a path would not exist for the reader."""
    place = re.compile(rb"(?<![\w.])/(?:home/\w+|root|work/\w+|tmp/\w+/)")
    allowed = ("tests/",)
    named = [f for f in tracked() if not f.startswith(allowed) and place.search((ROOT / f).read_bytes())]
    assert named == []


def test_a_missing_tool_fails_under_ci_and_skips_elsewhere(monkeypatch):
    """A test that needs what is not installed is skipped on a person's machine and fails in CI, each with the command."""
    from tests.conftest import require

    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no-such-tool is not installed; to get it: pip install"):
        require("no-such-tool")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="no-such-tool"):
        require("no-such-tool")
