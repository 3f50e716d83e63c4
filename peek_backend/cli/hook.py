"""Runs an action right after a module was imported. Standard library only: every child process of a run loads this."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def after_import(name: str, action: Callable[[], Any]) -> None:
    """Call ``action`` once, when ``name`` has been imported: now, if it is. Replaces an earlier action for ``name``."""
    sys.meta_path[:] = [f for f in sys.meta_path if not (isinstance(f, _Finder) and f.name == name)]
    if name in sys.modules:
        action()
    else:
        sys.meta_path.insert(0, _Finder(name, action))


class _Finder:
    """Finds one module as the import system would, and adds the action to its loader's last step."""

    def __init__(self, name: str, action: Callable[[], Any]):
        self.name, self.action = name, action

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:  # an editable install brings its own
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                self._add_action(spec.loader)
                return spec
        sys.meta_path.insert(0, self)
        return None

    def _add_action(self, loader: Any) -> None:
        """Set ``exec_module`` on this one loader object, so that the module's ``__loader__`` stays what it is."""

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            loader.exec_module(module)
            self.action()

        loader.exec_module = exec_module
