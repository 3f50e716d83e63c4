"""The user's program, run in this process as ``python SCRIPT`` or ``python -m MODULE`` would."""

from __future__ import annotations

import builtins
import difflib
import importlib.util
import io
import os
import sys
import types
import zipfile
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any, NoReturn

from ..errors import PeekError
from .traces import cut_our_frames


@dataclass(frozen=True)
class Program:
    """What is to run: a script's path, or a module's name, and its arguments."""

    target: str
    args: tuple[str, ...]
    module: bool = False

    @property
    def name(self) -> str:
        """A short name for files and titles: ``train`` for ``src/train.py``, ``pkg.train`` for a module."""
        return self.target if self.module else Path(self.target).resolve().stem

    def check(self) -> None:
        """PeekError when there is no such script or module; nothing of the program has run then."""
        if not self.module:
            _check_script(self.target)
        elif not all(part.isidentifier() for part in self.target.split(".")):
            fix = "write it as in an import: package.module"
            raise PeekError(f"{self.target!r} is no module's name", "", fix)

    def load(self) -> Loaded:
        """Find the program and make ``__main__``, ``sys.argv`` and ``sys.path`` what Python makes them for it.

        Raises PeekError when a module is not found; looking for one imports the packages it is in, as Python does.
        """
        if self.module:
            loaded = self._load_module()
        else:
            loaded = self._load_container() if _is_container(self.target) else self._load_script()
        sys.modules["__main__"] = loaded.module
        return loaded

    def _load_script(self) -> Loaded:
        path = os.path.abspath(self.target)
        self._set_argv(self.target, os.path.dirname(os.path.realpath(path)))
        module = _main_module(path, SourceFileLoader("__main__", path))
        with io.open_code(path) as source:
            return Loaded(module, source.read())

    def _load_container(self) -> Loaded:
        """The ``__main__`` of a folder or zip file."""
        folder = os.path.abspath(self.target)
        self._set_argv(self.target, folder)
        spec = PathFinder.find_spec("__main__", [folder])
        return self._load_spec(spec)

    def _load_module(self) -> Loaded:
        self._set_argv("-m", os.getcwd())
        spec = _find_main(self.target)
        sys.argv[0] = spec.origin or self.target
        return self._load_spec(spec)

    def _load_spec(self, spec: ModuleSpec | None) -> Loaded:
        code = spec.loader.get_code(spec.name) if spec is not None and spec.loader is not None else None
        if code is None:
            raise PeekError(f"{self.target!r} cannot be run", "there is no Python code in it", "name another")
        module = _main_module(spec.origin, spec.loader, spec)
        return Loaded(module, code)

    def _set_argv(self, first: str, folder: str) -> None:
        """``sys.argv``, and ``sys.path[0]`` unless Python was told to leave that out (-P, -I)."""
        sys.argv[:] = [first, *self.args]
        if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
            sys.path[0] = folder


def _main_module(path: str | None, loader: Any, spec: ModuleSpec | None = None) -> types.ModuleType:
    """A new ``__main__`` with the names that Python gives it."""
    module = types.ModuleType("__main__")
    module.__dict__.update(
        __file__=path,
        __builtins__=builtins,
        __loader__=loader,
        __spec__=spec,
        __package__=spec.parent if spec else None,
        __cached__=spec.cached if spec else None,
    )
    if sys.version_info < (3, 14):
        module.__annotations__ = {}
    return module


@dataclass(frozen=True)
class Loaded:
    """A program about to run: its ``__main__``, and its code or, for a script, its source."""

    module: types.ModuleType
    code: types.CodeType | bytes

    def compiled(self) -> Loaded:
        """The same with its code compiled; a script's SyntaxError is shown as Python shows it."""
        if isinstance(self.code, types.CodeType):
            return self
        try:
            path = self.module.__dict__["__file__"]
            return Loaded(self.module, compile(self.code, path, "exec", dont_inherit=True))
        except BaseException:
            cut_our_frames(lambda code: code is Loaded.compiled.__code__)
            raise

    def execute(self) -> None:
        """Compile and run. What it raises, SystemExit among it, is left to Python's own top level."""
        try:
            exec(self.compiled().code, self.module.__dict__)
        except BaseException:
            cut_our_frames(lambda code: code is Loaded.execute.__code__)
            raise


def _is_container(target: str) -> bool:
    return os.path.isdir(target) or zipfile.is_zipfile(target)


def _check_script(target: str) -> None:
    """PeekError when ``target`` is no script, and no folder or zip file with a ``__main__.py`` in it."""
    if not os.path.exists(target):
        _no_script(target)
    if os.path.isdir(target):
        if os.path.isfile(os.path.join(target, "__main__.py")):
            return
        raise PeekError(
            f"{target!r} is a folder, not a script", "it has no __main__.py", "name a .py file in it"
        )
    try:
        with open(target, "rb") as script:
            head = script.read(64)
    except OSError as error:
        raise PeekError(f"cannot read script {target!r}", str(error.strerror or error), "") from None
    if b"\0" in head and not zipfile.is_zipfile(target):
        raise PeekError(f"{target!r} is no Python script", "it is a binary file", "name a .py file")


def _no_script(target: str) -> NoReturn:
    folder, name = os.path.split(target)
    try:
        near = difflib.get_close_matches(name, os.listdir(folder or "."), n=1)
    except OSError:
        near = []
    why = f"there is no folder {folder!r}" if folder and not os.path.isdir(folder) else ""
    fix = (
        f"did you mean {os.path.join(folder, near[0])!r}?"
        if near
        else "check the path, or use -m for a module"
    )
    raise PeekError(f"script {target!r} does not exist", why, fix)


def _find_main(name: str) -> ModuleSpec:
    """The spec of a module, or of a package's ``__main__``. PeekError where Python says "No module named"."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name = f"{name}.__main__"
            spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # what a package of the program imports is missing: the program's own error
        spec = None
    if spec is None or not hasattr(spec.loader, "get_code"):
        fix = "check the name; the current folder and PYTHONPATH are searched"
        raise PeekError(f"no module named {name!r}", "", fix)
    return spec
