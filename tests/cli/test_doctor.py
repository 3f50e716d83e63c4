"""``peek doctor``: what it finds, what it says is missing, and its exit code."""

from __future__ import annotations

import sys
import types
from importlib import metadata

import pytest

from peek_backend.cli import doctor
from peek_backend.render import image

from .conftest import python


def has_engines(monkeypatch, **versions):
    """These programs draw; one of an empty version does not start."""
    here = [image.Engine(name.replace("_", "-"), f"/usr/bin/{name}", image.KINDS) for name in versions]
    monkeypatch.setattr(image, "engines", lambda: here)
    monkeypatch.setattr(image, "engine_version", lambda engine: versions[engine.name.replace("-", "_")])


@pytest.fixture
def healthy(monkeypatch):
    """An installation where nothing is missing."""
    point = types.SimpleNamespace(name="peek", value="peek_backend.backend:peek")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point])
    monkeypatch.setattr(metadata, "version", lambda name: "9.9")
    has_engines(monkeypatch, dot="12.2.1")


def test_healthy_installation(peek, healthy):
    """With everything there, every line has a tick and the exit code is 0."""
    done = peek("doctor")
    assert (done.code, done.err) == (0, "")
    assert "✗" not in done.out
    for name in (
        "peek",
        "python",
        "torch",
        "tabulate",
        "graphviz",
        "msgspec",
        "click",
        "rich",
        "backend",
        "dot",
    ):
        assert f"✓ {name} " in done.out


def test_torch_is_not_imported():
    """torch is looked up, not loaded."""
    code = "import sys; from peek_backend.cli import main; main(['doctor']); print('torch' in sys.modules)"
    assert python("-c", code).stdout.decode().splitlines()[-1] == "False"


def test_missing_package_has_its_command(peek, healthy, monkeypatch):
    """A package that is not there is marked, with the command that brings it, and the exit code is 1."""

    def version(name):
        if name == "tabulate":
            raise metadata.PackageNotFoundError(name)
        return "9.9"

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(doctor.util, "find_spec", lambda name: None)
    done = peek("doctor")
    assert done.code == 1
    assert "✗ tabulate" in done.out and "pip install tabulate" in done.out


def test_unregistered_backend_is_missing(peek, healthy, monkeypatch):
    """A checkout that is only on the path is told how to register the backend."""
    monkeypatch.setattr(metadata, "entry_points", lambda group: [])
    done = peek("doctor")
    assert done.code == 1
    assert "pip install -e ." in done.out


@pytest.mark.parametrize(
    ("engines", "code", "says"),
    [
        ({"dot": "12.2.1"}, 0, "✓ dot            12.2.1 (/usr/bin/dot)"),
        ({"graphviz_pure": "0.2.2"}, 0, "not found: graphviz-pure draws SVG and PNG, PDF needs dot"),
        ({"dot": "", "graphviz_pure": "0.2.2"}, 0, "/usr/bin/dot does not start: graphviz-pure draws"),
        ({}, 1, "not found: no images"),
        ({"dot": ""}, 1, "/usr/bin/dot does not start: no images"),
    ],
)
def test_engines(peek, healthy, monkeypatch, engines, code, says):
    """Without a dot that starts the wheel is enough, except for PDF; without both, images are missing."""
    has_engines(monkeypatch, **engines)
    done = peek("doctor")
    assert done.code == code
    assert says in done.out
    assert ("pip install 'peek-backend[images]'" in done.out) == bool(code)


def test_folder_that_cannot_be_written_to(peek, healthy, monkeypatch):
    """A working folder that refuses files is told with the system's reason."""

    def refuse(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    done = peek("doctor")
    assert done.code == 1
    assert "cannot be written to: Permission denied" in done.out


def test_variables(peek, healthy, monkeypatch):
    """Variables that are set are listed; one that is not understood counts as something to mend."""
    monkeypatch.setenv("PEEK_FORMAT", "github")
    assert "✓ PEEK_FORMAT" in peek("doctor").out
    monkeypatch.setenv("PEEK_FORMT", "github")
    done = peek("doctor")
    assert done.code == 1
    assert "did you mean PEEK_FORMAT?" in done.out


def test_this_interpreter_is_named(peek, healthy):
    """The Python that runs is shown by its path: the usual cause of "not installed"."""
    assert sys.executable in peek("doctor").out
