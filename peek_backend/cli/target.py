"""``MODULE:FN`` on the command line: import the module, find the function, module object, class or factory in it."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import PeekError, unknown_name


@dataclass(frozen=True)
class Target:
    """``module`` is a dotted name or a path to a .py file, ``expression`` names what to take from it."""

    module: str
    expression: ast.expr
    text: str

    def imported(self) -> ModuleType:
        """The module, imported now; its own errors pass."""
        return _import(self.module)

    def load(self, module: ModuleType | None = None) -> Any:
        """What the target names. Imports the module unless it is given; PeekError for a name that is not there."""
        return _Reader(self.imported() if module is None else module, self.module).read(self.expression)


def parse_target(text: str) -> Target:
    """``package.module:f``, ``path/to/file.py:Model(8, depth=2)``; PeekError for anything else. Imports nothing."""
    module, colon, expression = text.rpartition(":")
    if not colon or not module or not expression.strip():
        why = "it has to name a module and, after a colon, a function in it"
        raise PeekError(
            f"bad target {text!r}", why, "write for example model.py:forward or package.model:Net"
        )
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        mark = f"not an expression\n       {expression}\n       {' ' * ((error.offset or 1) - 1)}^"
        raise PeekError(f"bad target {text!r}", mark, "write a name, a.b, or a call such as Net(8)") from None
    for node in _parts(tree):
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            why = f"{ast.unparse(node)!r} is more than names, dots and calls"
            raise PeekError(f"bad target {text!r}", why, "give it a name in the module")
    _check_module(module)
    return Target(module, tree, text)


def _parts(tree: ast.expr) -> Iterator[ast.expr]:
    """The chain of attributes and calls, from the last to the name it begins with."""
    yield tree
    if isinstance(tree, ast.Attribute):
        yield from _parts(tree.value)
    elif isinstance(tree, ast.Call):
        yield from _parts(tree.func)


def _is_path(module: str) -> bool:
    return module.endswith(".py") or os.sep in module or "/" in module


def _check_module(module: str) -> None:
    if _is_path(module):
        if not os.path.isfile(module):
            why = "it is a folder" if os.path.isdir(module) else "there is no such file"
            raise PeekError(f"cannot read {module!r}", why, "check the path")
    elif not all(part.isidentifier() for part in module.split(".")):
        raise PeekError(
            f"{module!r} is no module's name", "", "write package.module, or a path that ends in .py"
        )


def _import(module: str) -> ModuleType:
    if _is_path(module):
        return _import_file(Path(module).resolve())
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # what the module itself imports is missing
        fix = "check the name; the current folder and PYTHONPATH are searched"
        raise PeekError(f"no module named {module!r}", "", fix) from None


def _import_file(path: Path) -> ModuleType:
    """The module in a file, under the file's name, so that what it defines can be pickled and printed."""
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise PeekError(f"cannot import {str(path)!r}", "it is no Python file", "name a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


class _Reader:
    """Evaluates a target's expression: names, dots, and calls with plain arguments."""

    def __init__(self, module: ModuleType, name: str):
        self.module, self.name = module, name

    def read(self, tree: ast.expr) -> Any:
        if isinstance(tree, ast.Name):
            return self.attribute(self.module, tree.id, self.name)
        if isinstance(tree, ast.Attribute):
            return self.attribute(self.read(tree.value), tree.attr, ast.unparse(tree.value))
        assert isinstance(tree, ast.Call)
        args = [self.literal(a) for a in tree.args]
        kwargs = {k.arg: self.literal(k.value) for k in tree.keywords if k.arg}
        return self.read(tree.func)(*args, **kwargs)

    def attribute(self, owner: Any, name: str, owner_name: str) -> Any:
        try:
            return getattr(owner, name)
        except AttributeError:
            public = [n for n in dir(owner) if not n.startswith("_") and callable(getattr(owner, n, None))]
            raise unknown_name(f"name in {owner_name}:", name, public) from None

    def literal(self, tree: ast.expr) -> Any:
        try:
            return ast.literal_eval(tree)
        except ValueError:
            why = f"{ast.unparse(tree)!r} is no plain value"
            raise PeekError(
                "bad argument in the target", why, "use numbers, texts, lists, True, False, None"
            ) from None
