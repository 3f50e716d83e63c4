"""A small project under test, run by pytest in this process: its captures are hand-made records, so no run loads torch."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).resolve().parents[2]

HELP = """
from pathlib import Path

from tests.builders import capture, transformer


def record(layers=None):
    \"\"\"A capture of as many layers as the file ``layers`` says.\"\"\"
    return capture(transformer(layers or int(Path(__file__).with_name("layers").read_text())))
"""


class Project:
    """Tests in a folder of their own. ``run`` gives pytest's result."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
        self.pytester, self.monkeypatch = pytester, monkeypatch
        for name in ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "PYTEST_ADDOPTS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        pytester.syspathinsert(ROOT)
        pytester.makepyfile(captures=HELP)
        self.layers(1)

    @property
    def path(self) -> Path:
        return self.pytester.path

    def layers(self, count: int) -> None:
        """Change the model that every test captures."""
        (self.path / "layers").write_text(str(count))

    def write(self, **files: str) -> None:
        """Test modules by name."""
        head = "import pytest\nfrom captures import record\n"
        self.pytester.makepyfile(**{name: head + dedent(text) for name, text in files.items()})

    def run(self, *args: str) -> pytest.RunResult:
        """Run pytest in this process."""
        return self.pytester.runpytest_inprocess("-p", "no:cacheprovider", *args)

    def files(self, *, pending: bool = False) -> list[str]:
        """The snapshots there are, or those that wait, from the project's top."""
        found = [p for p in self.path.rglob("*.graph") if (".pending" in p.parts) == pending]
        return sorted(p.relative_to(self.path).as_posix() for p in found)

    def text(self, name: str) -> str:
        return (self.path / name).read_text(encoding="utf-8")
