"""The action after an import: once, at the right time, whoever finds the module, and nothing left behind."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys

import pytest

from peek_backend.cli.hook import after_import

NAME = "module_that_is_hooked"


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A module to import, and what the action saw."""
    (tmp_path / f"{NAME}.py").write_text("value = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = list(sys.meta_path)
    yield []
    sys.modules.pop(NAME, None)
    sys.meta_path[:] = before


def test_runs_once_after_the_module_is_complete(calls):
    """The action runs when the module's code has run, once, and the import system is as before."""
    before = list(sys.meta_path)
    after_import(NAME, lambda: calls.append(sys.modules[NAME].value))
    assert calls == []
    module = importlib.import_module(NAME)
    assert calls == [1]
    assert sys.meta_path == before
    assert "exec_module" not in vars(module.__loader__)
    importlib.reload(module)
    assert calls == [1]


def test_runs_at_once_for_a_module_that_is_there(calls):
    """For a module that was imported already it runs now."""
    after_import("sys", lambda: calls.append("now"))
    assert calls == ["now"]


def test_later_action_replaces_the_earlier(calls):
    """A second action for the same module takes the place of the first."""
    after_import(NAME, lambda: calls.append("first"))
    after_import(NAME, lambda: calls.append("second"))
    importlib.import_module(NAME)
    assert calls == ["second"]


def test_module_found_by_another_finder(calls, tmp_path):
    """A module that only a finder of an editable install knows is seen too."""

    class Editable(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name == "module_elsewhere":
                return importlib.util.spec_from_file_location(name, tmp_path / f"{NAME}.py")
            return None

    sys.meta_path.append(Editable())
    after_import("module_elsewhere", lambda: calls.append("found"))
    importlib.import_module("module_elsewhere")
    del sys.modules["module_elsewhere"]
    assert calls == ["found"]


def test_module_that_is_not_there(calls):
    """A module that nobody finds fails as it would, and is still watched for."""
    after_import("no_such_module_at_all", lambda: calls.append("never"))
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("no_such_module_at_all")
    assert calls == []


def test_failing_module_runs_no_action(calls, tmp_path):
    """A module whose code raises is not there, so there is nothing to act on."""
    (tmp_path / f"{NAME}.py").write_text("1 / 0")
    after_import(NAME, lambda: calls.append("never"))
    with pytest.raises(ZeroDivisionError):
        importlib.import_module(NAME)
    assert calls == []
