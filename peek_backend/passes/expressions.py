"""Symbolic expressions in an order that does not depend on the symbols' names.

sympy prints commutative operands sorted by name (``s27*s77``), so renaming the symbols in the text alone would leave
``s1*s0``. Here the symbols are renamed first and the operands sorted afterwards.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

MAX_EXPRESSION = 4000
"""Characters of an expression that are still taken apart; a longer one keeps its order."""
MAX_TEXT = 400
"""Characters of an expression that a snapshot shows; a longer one shows its start and a hash of the whole."""

_WORD = re.compile(r"[A-Za-z_]\w*")
_DIGITS = re.compile(r"(\d+)")
_COMMUTATIVE = frozenset({"Max", "Min", "And", "Or", "Eq", "Ne"})
_FLIPPED = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_INFIX = {ast.FloorDiv: "//", ast.Mod: "%", ast.LShift: " << ", ast.RShift: " >> "}
# How tightly each construct binds; one that binds less than its place needs gets parentheses.
_OR, _AND, _NOT, _RELATION, _BIT_OR, _BIT_AND, _SHIFT, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(12)
_Found = tuple[str, int]


class _Unknown(Exception):
    """A construct that is not taken apart."""


class Expressions:
    """Rewrites the expressions of one graph; ``names`` maps torch's symbol names to the snapshot's."""

    def __init__(self, names: Mapping[str, str]):
        self._names = names
        self._found: dict[str, str] = {}

    def text(self, expr: str) -> str:
        """The canonical text of ``expr``; what cannot be parsed keeps its order and has its symbols renamed."""
        found = self._found.get(expr)
        if found is None:
            found = self._found[expr] = _shown(self._canonical(expr))
        return found

    def _canonical(self, expr: str) -> str:
        if len(expr) <= MAX_EXPRESSION:
            try:
                return self._read(ast.parse(expr.strip(), mode="eval").body)[0]
            except (SyntaxError, ValueError, RecursionError, MemoryError, _Unknown):
                pass
        return _WORD.sub(lambda m: self._names.get(m[0], m[0]), expr)

    def _read(self, node: ast.expr) -> _Found:
        read = self._READERS.get(type(node))
        if read is None:
            raise _Unknown
        return read(self, node)

    def _at_least(self, node: ast.expr, level: int) -> str:
        text, binds = self._read(node)
        return text if binds >= level else f"({text})"

    def _constant(self, node: ast.Constant) -> _Found:
        return repr(node.value), _ATOM

    def _name(self, node: ast.Name) -> _Found:
        return self._names.get(node.id, node.id), _ATOM

    def _attribute(self, node: ast.Attribute) -> _Found:
        return f"{self._at_least(node.value, _ATOM)}.{node.attr}", _ATOM

    def _subscript(self, node: ast.Subscript) -> _Found:
        return f"{self._at_least(node.value, _ATOM)}[{self._read(node.slice)[0]}]", _ATOM

    def _call(self, node: ast.Call) -> _Found:
        if node.keywords:
            raise _Unknown
        args = [self._read(arg)[0] for arg in node.args]
        if isinstance(node.func, ast.Name) and node.func.id in _COMMUTATIVE:
            args.sort(key=_order)
        return f"{self._read_function(node.func)}({', '.join(args)})", _ATOM

    def _read_function(self, func: ast.expr) -> str:
        return func.id if isinstance(func, ast.Name) else self._at_least(func, _ATOM)

    def _binary(self, node: ast.BinOp) -> _Found:
        if isinstance(node.op, (ast.Add, ast.Sub)):
            return self._sum(node)
        if isinstance(node.op, (ast.Mult, ast.Div)):
            return self._product(node)
        if isinstance(node.op, ast.Pow):
            return f"{self._at_least(node.left, _ATOM)}**{self._at_least(node.right, _SIGN)}", _POWER
        if isinstance(node.op, (ast.BitAnd, ast.BitOr)):
            return self._bits(node)
        sign = _INFIX.get(type(node.op))
        if sign is None:
            raise _Unknown
        level = _SHIFT if " " in sign else _PRODUCT
        left = self._at_least(node.left, level)
        # A leading minus always negates all that follows: -(a//4) and (-a)//4 are two numbers.
        left = f"({left})" if left[0] == "-" else left
        return f"{left}{sign}{self._at_least(node.right, level + 1)}", level

    def _bits(self, node: ast.BinOp) -> _Found:
        level, sign = (_BIT_AND, " & ") if isinstance(node.op, ast.BitAnd) else (_BIT_OR, " | ")
        parts = [self._at_least(part, level + 1) for part in _flat(node, type(node.op))]
        return sign.join(sorted(parts, key=_order)), level

    def _sum(self, node: ast.expr) -> _Found:
        """Positive terms first, constants last among each."""
        terms = sorted(self._terms(node, 1), key=lambda term: (term[0] < 0, _order(term[1])))
        sign, text, binds = terms[0]
        if sign < 0:
            text, binds = f"-{text}", min(binds, _SIGN)
        for sign, term, _ in terms[1:]:
            text += f" {'-' if sign < 0 else '+'} {term}"
        return text, _SUM if len(terms) > 1 else binds

    def _terms(self, node: ast.expr, sign: int) -> Iterator[tuple[int, str, int]]:
        """The terms of a sum, nested ones too: sign, text and how tightly it binds."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            yield from self._terms(node.left, sign)
            yield from self._terms(node.right, -sign if isinstance(node.op, ast.Sub) else sign)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield from self._terms(node.operand, -sign)
        else:
            yield self._term(node, sign)

    def _term(self, node: ast.expr, sign: int) -> tuple[int, str, int]:
        text, binds = self._read(node)
        if binds >= _PRODUCT and text[0] == "-":
            sign, text = -sign, text[1:]
        floor = isinstance(node, ast.BinOp) and type(node.op) in _INFIX
        if binds < _PRODUCT or (floor and sign < 0):
            return sign, f"({text})", _ATOM
        return sign, text, binds

    def _product(self, node: ast.BinOp) -> _Found:
        above: list[str] = []
        below: list[str] = []
        sign = self._factors(node, above, below)
        above.sort(key=lambda text: (not _is_number(text), _order(text)))
        below.sort(key=_order)
        text = "/".join(["*".join(above), *below])
        return text if sign > 0 else f"-{text}", _PRODUCT

    def _factors(self, node: ast.expr, above: list[str], below: list[str]) -> int:
        """Collects what is multiplied and what divides; gives the sign of the whole."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            return self._factors(node.left, above, below) * self._factors(node.right, above, below)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            below.append(self._at_least(node.right, _POWER))
            return self._factors(node.left, above, below)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._factors(node.operand, above, below)
        above.append(self._at_least(node, _POWER))
        return 1

    def _unary(self, node: ast.UnaryOp) -> _Found:
        if isinstance(node.op, ast.USub):
            return self._sum(node)
        if isinstance(node.op, ast.Not):
            return f"not {self._at_least(node.operand, _NOT)}", _NOT
        if isinstance(node.op, ast.Invert):
            return f"~{self._at_least(node.operand, _SIGN)}", _SIGN
        raise _Unknown

    def _logic(self, node: ast.BoolOp) -> _Found:
        level, sign = (_AND, " and ") if isinstance(node.op, ast.And) else (_OR, " or ")
        return sign.join(sorted([self._at_least(v, level + 1) for v in node.values], key=_order)), level

    def _compare(self, node: ast.Compare) -> _Found:
        """A single relation with its constant on the right, else its operands in order."""
        sides = [self._at_least(side, _BIT_OR) for side in (node.left, *node.comparators)]
        kinds = [type(op) for op in node.ops]
        if any(kind not in _COMPARE for kind in kinds):
            raise _Unknown
        if len(kinds) == 1 and _order(sides[0]) > _order(sides[1]):
            sides, kinds = sides[::-1], [_FLIPPED[kinds[0]]]
        text = sides[0]
        for kind, side in zip(kinds, sides[1:], strict=True):
            text += f" {_COMPARE[kind]} {side}"
        return text, _RELATION

    _READERS: ClassVar[dict[type, Callable]] = {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.Call: _call,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.BoolOp: _logic,
        ast.Compare: _compare,
    }


def _flat(node: ast.expr, kind: type) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, kind):
        yield from _flat(node.left, kind)
        yield from _flat(node.right, kind)
    else:
        yield node


def _is_number(text: str) -> bool:
    return text.lstrip("-")[:1].isdigit()


def _order(text: str) -> tuple:
    """Sorts constants last and ``s2`` before ``s10``."""
    return (_is_number(text), [(int(p), "") if p.isdigit() else (-1, p) for p in _DIGITS.split(text) if p])


def _shown(text: str) -> str:
    """At most MAX_TEXT characters; what is left out still counts by its hash."""
    if len(text) <= MAX_TEXT:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{text[: MAX_TEXT - 60].rstrip()} … {len(text)} characters, sha256 {digest}"


def symbols_in(expr: str, known: Mapping[str, object]) -> list[str]:
    """Those of ``known`` that an expression names, each once, in order of the text."""
    return list(dict.fromkeys(word for word in _WORD.findall(expr) if word in known))
