"""The block of the program around a line: a loop, ``try`` or ``with``, inside which a break leaves the whole frame in eager.

Dynamo splits a function at a break where it can begin a function of its own with what comes after. That it cannot do in the
middle of a loop, nor with a handler or an unknown context manager open.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap

_BLOCKS: dict[type, str] = {
    ast.For: "loop",
    ast.AsyncFor: "loop",
    ast.While: "loop",
    ast.Try: "try",
    ast.With: "with",
    ast.AsyncWith: "with",
}
_ORDER = ("loop", "try", "with")


def block_around(file: str, first: int, line: int) -> str:
    """``loop``, ``try``, ``with`` or nothing: what of these ``line`` is inside, in the function that begins at line ``first``.

    Of several the one named first here, since a loop alone is enough. Nothing where the source cannot be read.
    """
    try:
        tree = ast.parse(textwrap.dedent("".join(_lines(file, first))))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    found = {_BLOCKS[type(node)] for node in ast.walk(tree) if _holds(node, line - first + 1)}
    return next((name for name in _ORDER if name in found), "")


def is_inside(file: str, first: int, line: int) -> bool:
    """Whether a line is one of the function that begins at line ``first``; False where the source cannot be read."""
    return first <= line < first + len(_lines(file, first))


def _lines(file: str, first: int) -> list[str]:
    """The source of the function that begins at line ``first``; none where it cannot be read."""
    try:
        return inspect.getblock(linecache.getlines(file)[first - 1 :])
    except (SyntaxError, IndexError):
        return []


def _holds(node: ast.AST, line: int) -> bool:
    """Whether a line is in the body of a block. The handlers of a ``try`` are open as long as its body runs."""
    if type(node) not in _BLOCKS:
        return False
    body: list[ast.stmt] = node.body  # type: ignore[attr-defined]
    return body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)
