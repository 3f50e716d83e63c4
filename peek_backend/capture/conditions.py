"""A condition on data in the program's words: ``n > 3`` for torch's ``u0 > 3``.

Comes in: torch's text of the condition, the line that asked, and where the symbols in it were made. Goes out: a condition that
can be copied into the program; what has no name there keeps torch's.
"""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ..model import StackFrame
from .symbols import user_line

_SYMBOL = re.compile(r"^(?:u|s|zf|zuf)\d+$")
_COMPARES: dict[str, type[ast.cmpop]] = {"Eq": ast.Eq, "Ne": ast.NotEq}
_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq,
}  # fmt: skip
# What makes a number of a tensor: the name that it is given is that of the symbol.
_NUMBERS = ("int", "float", "bool")


def in_program_words(condition: str, line: str = "", names: Mapping[str, str] = {}) -> str:
    """``condition`` as the program has it.

    As a comparison in ``line``, the code that asked, where one has its form; else with ``names`` for the symbols.
    """
    try:
        asked = _Plain().visit(ast.parse(condition, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return condition
    alike = [c for c in _comparisons(line) if any(_alike(asked, form, {}) for form in (c, _flipped(c)))]
    if len(alike) == 1:
        return ast.unparse(alike[0])
    return ast.unparse(_Named(names).visit(asked))


class _Plain(ast.NodeTransformer):
    """sympy's functions as Python's operators: ``u0 % 2 == 0`` for ``Eq(Mod(u0, 2), 0)``."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if len(node.args) == 2 and name in _COMPARES:
            return ast.Compare(node.args[0], [_COMPARES[name]()], [node.args[1]])
        if len(node.args) == 2 and name in ("Mod", "PythonMod"):
            return ast.BinOp(node.args[0], ast.Mod(), node.args[1])
        return node


class _Named(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Name(self.names.get(node.id, node.id))


def _comparisons(line: str) -> list[ast.Compare]:
    """The comparisons in a line of code, which may be the head of a block."""
    code = line.strip()
    code = code.removeprefix("el") if code.startswith("elif ") else code
    for whole in (code, f"{code} pass", f"{code}\n pass"):
        try:
            tree = ast.parse(whole)
        except (SyntaxError, ValueError, RecursionError):
            continue
        return [n for n in ast.walk(tree) if isinstance(n, ast.Compare) and len(n.ops) == 1]
    return []


def _flipped(node: ast.Compare) -> ast.Compare:
    """``n > 3`` for ``3 < n``."""
    flipped = _FLIPPED.get(type(node.ops[0]), type(node.ops[0]))
    return ast.Compare(node.comparators[0], [flipped()], [node.left])


def _alike(asked: ast.AST, written: ast.AST, found: dict[str, str]) -> bool:
    """Whether two expressions have one form, each symbol standing for an expression of its own throughout."""
    if isinstance(asked, ast.Name) and _SYMBOL.match(asked.id):
        text = ast.unparse(written)
        same = found.setdefault(asked.id, text) == text
        return same and list(found.values()).count(text) == 1 and _is_value(written)
    if type(asked) is not type(written):
        return False
    if isinstance(asked, ast.Constant) and isinstance(written, ast.Constant):
        return bool(asked.value == written.value)
    parts, others = list(ast.iter_child_nodes(asked)), list(ast.iter_child_nodes(written))
    return len(parts) == len(others) and all(_alike(a, b, found) for a, b in zip(parts, others, strict=True))


def _is_value(node: ast.AST) -> bool:
    """Whether an expression stands for one value wherever it is written: ``t.item()`` reads a new one each time."""
    calls = [n.func for n in ast.walk(node) if isinstance(n, ast.Call)]
    named = [f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in calls]
    return not isinstance(node, ast.Constant) and set(named) <= {"size", "len"}


def names_of(env: Any) -> dict[str, str]:
    """What the program calls the numbers that it made of data: ``{"u0": "n"}`` for ``n = t.sum().item()``."""
    made: dict[StackFrame, list[str]] = {}
    for symbol, places in (getattr(env, "var_to_range_sloc", None) or {}).items():
        unbacked = str(symbol).startswith(("u", "zuf"))
        line = user_line(getattr(places.lower, "maybe_user_loc", None)) if unbacked else None
        if line is not None:
            made.setdefault(line, []).append(str(symbol))
    return {symbol: name for line, symbols in made.items() for symbol, name in _given(line.code, symbols)}


def _given(code: str, symbols: list[str]) -> Iterator[tuple[str, str]]:
    """The names that a line gives to the symbols that it made; of a line that ran more than once, to the last ones."""
    try:
        (assigned,) = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError):
        return
    if not isinstance(assigned, ast.Assign) or not _is_number(assigned.value):
        return
    (target, *more) = assigned.targets
    names = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    if not more and len(names) <= len(symbols) and all(isinstance(name, ast.Name) for name in names):
        yield from zip(symbols[-len(names) :], map(ast.unparse, names), strict=True)


def _is_number(value: ast.expr) -> bool:
    """Whether an expression is ``t.item()``, ``t.tolist()``, ``int(t)``: the symbol itself, and nothing made of it."""
    if not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Attribute):
        return value.func.attr in ("item", "tolist")
    return isinstance(value.func, ast.Name) and value.func.id in _NUMBERS


def names_in(error: BaseException | None) -> dict[str, str]:
    """The same from the shape environment that an exception came through, or one that it was raised from."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if issubclass(type(env := frame.f_locals.get("self")), ShapeEnv):
                return names_of(env)
        error = error.__cause__ or error.__context__
    return {}
