"""The tree is the pipeline: who may import whom, checked on the source; and what must run without torch, run without it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from peek_backend.cli.entry import VERBS
from peek_backend.snapshot import jsonfile

from .builders import capture, transformer

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "peek_backend"

PIPELINE = ("errors", "model", "options", "specs", "snapshot", "passes", "analysis", "diff", "render")
"""Each imports only what stands before it. (The table of options holds Problem records, so it stands after ``model``.)"""

CAPTURE_USES = {"errors", "model", "options"}
TOP = (
    "export",
    "notebook",
    "saving",
    "report",
    "backend",
    "api",
    "cli",
    "github",
    "pinned",
    "pytest_plugin",
    "pytest_fixture",
    "pytest_session",
    "__init__",
    "__main__",
)
"""What joins the pipeline and capture, and speaks to other programs. It reaches capture inside functions only, so that no torch
is loaded to read a file."""

EVERYONE_USES = {"_version"}


class Import(NamedTuple):
    """One import: of which dotted module, in which file and line, and whether it runs when the file is loaded."""

    module: str
    file: Path
    line: int
    at_load: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def imports_of(file: Path) -> Iterator[Import]:
    """Every import of a file, relative ones resolved; those under ``if TYPE_CHECKING`` never run and are left out."""
    package = [*file.relative_to(ROOT).parent.parts]
    yield from _walk(ast.parse(file.read_text(), str(file)).body, file, package, at_load=True)


def _walk(body: list[ast.stmt], file: Path, package: list[str], *, at_load: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _walk(node.orelse, file, package, at_load=at_load)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for module in _modules(node, package):
                yield Import(module, file, node.lineno, at_load)
        else:
            later = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            for child in _bodies(node):
                yield from _walk(child, file, package, at_load=at_load and not later)


def _bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statement lists inside a statement: bodies of functions and classes, branches, handlers, match cases."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for inner in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield inner.body


def _modules(node: ast.Import | ast.ImportFrom, package: list[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = package[: len(package) - node.level + 1] if node.level else []
    module = ".".join([*base, *([node.module] if node.module else [])])
    for alias in node.names:
        yield f"{module}.{alias.name}" if module == "peek_backend" else module


def part_of(file: Path) -> str:
    """The piece of the layout that a file belongs to: ``render`` for ``peek_backend/render/table.py``."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def part_named(module: str) -> str | None:
    """The piece that a dotted module of ours names; None for other people's modules and for names of ``peek_backend`` itself."""
    names = module.split(".")
    if names[0] != "peek_backend" or len(names) == 1:
        return None
    return names[1] if (PACKAGE / names[1]).exists() or (PACKAGE / f"{names[1]}.py").exists() else "__init__"


def allowed(part: str) -> set[str]:
    """The pieces that ``part`` may import."""
    if part in PIPELINE:
        return {part, *PIPELINE[: PIPELINE.index(part)], *EVERYONE_USES}
    if part == "capture":
        return {part, *CAPTURE_USES, *EVERYONE_USES}
    return {"capture", *PIPELINE, *TOP, *EVERYONE_USES}


FILES = sorted(PACKAGE.rglob("*.py"))
ALL_IMPORTS = [i for file in FILES for i in imports_of(file)]


def test_the_package_names_itself_relatively():
    """Modules of the package name each other one way; the child's sitecustomize is loaded from outside of it."""
    named = [
        f"{file.relative_to(ROOT)}:{node.lineno} from {node.module}"
        for file in FILES
        if "children" not in file.parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith("peek_backend")
    ]
    assert named == []


def test_every_piece_has_its_place():
    """Every module and package directly under peek_backend is in the layout."""
    known = {*PIPELINE, "capture", *TOP, *EVERYONE_USES}
    assert {part_of(file) for file in FILES} - known == set()


def test_imports_follow_the_layout():
    """No piece imports one that stands after it, capture only model, options and errors."""
    wrong = [
        str(i) for i in ALL_IMPORTS if (to := part_named(i.module)) and to not in allowed(part_of(i.file))
    ]
    assert wrong == []


def test_capture_is_reached_inside_functions():
    """Loading any file outside capture loads none inside it."""
    outside = [i for i in ALL_IMPORTS if part_of(i.file) != "capture" and i.at_load]
    assert [str(i) for i in outside if part_named(i.module) == "capture"] == []


def test_torch_is_imported_in_capture_alone():
    """No file outside capture imports torch, not even inside a function."""
    outside = [i for i in ALL_IMPORTS if part_of(i.file) != "capture"]
    assert [str(i) for i in outside if i.module.split(".")[0] == "torch"] == []


def test_rich_and_click_stay_at_the_command_line():
    """What is on the backend's path needs neither click nor rich."""
    outside = [i for i in ALL_IMPORTS if part_of(i.file) not in ("cli", "__main__")]
    assert [str(i) for i in outside if i.module.split(".")[0] in ("click", "rich") and i.at_load] == []


def test_no_file_hides_a_module_of_the_standard_library():
    """No file has the name of a standard-library module, so that a traceback's file names tell which is meant."""
    special = {"__init__", "__main__"}
    everywhere = [*FILES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "samples").rglob("*.py")]
    assert [str(f) for f in everywhere if f.stem in sys.stdlib_module_names - special] == []


def test_top_level_folders():
    """The repository has the four folders of its layout and no other."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    folders = {line.split("/")[0] for line in tracked.stdout.splitlines() if "/" in line}
    assert folders <= {"peek_backend", "tests", "samples", ".ci", ".github"}


def test_the_walker_sees_what_it_must(tmp_path, monkeypatch):
    """Relative, nested, conditional and late imports are found with the right place, type-checking ones are not."""
    package = tmp_path / "peek_backend" / "render"
    package.mkdir(parents=True)
    file = package / "sample.py"
    file.write_text(
        "from .. import errors\nfrom ..model import graph\ntry:\n    import torch\nexcept ImportError:\n    pass\n"
        "def f():\n    from ..capture import session\nif TYPE_CHECKING:\n    from ..api import Record\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    found = {(i.module, i.at_load) for i in imports_of(file)}
    assert found == {
        ("peek_backend.errors", True),
        ("peek_backend.model", True),
        ("torch", True),
        ("peek_backend.capture", False),
    }


WITHOUT_TORCH = {
    "show": [["show", "FILE"], ["show", "FILE", "--format", "tree"], ["show", "FILE", "--format", "page"]],
    "diff": [["diff", "FILE", "FILE"]],
    "explain": [["explain", "FILE"]],
    "open": [["show", "FILE", "-o", "page.html"]],
}
"""Command lines that only read files, by verb."""

_COMMANDS = [(args) for verb, lines in WITHOUT_TORCH.items() if verb in VERBS for args in lines]


@pytest.mark.parametrize("args", _COMMANDS, ids=" ".join)
def test_reading_needs_no_torch(args, tmp_path):
    """Commands that only read files work in a process where ``import torch`` raises."""
    file = tmp_path / "capture.json"
    jsonfile.write(file, capture(transformer(2)))
    args = [str(file) if a == "FILE" else a for a in args]
    code = f"import sys; sys.modules['torch'] = None; from peek_backend.cli import main; sys.exit(main({args!r}))"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_package_loads_nothing_until_a_name_is_used():
    """``import peek_backend`` loads neither torch nor any dependency."""
    code = "import sys, peek_backend; print(*{'torch', 'msgspec', 'tabulate', 'click', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
