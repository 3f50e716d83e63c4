"""Symbolic sizes as torch prints them (``s0*s1``, ``(s0//2)``, ``Max(1, s0)``), worked out without sympy.

An expression is read by Python's own parser and walked node by node; nothing is ever run. What this
module does not know comes out as None, never as a guess.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Union

from ..model.values import Dim

Number = Union[int, float, bool]

MAX_TEXT = 20_000
"""Characters of an expression that are still parsed; torch can print 100,000 of them for one size."""
_MAX_BITS = 4096
"""Bits of a power that are still computed, so that ``s0**s0**s0`` ends."""


class _Unknown(Exception):
    """The expression holds something that has no known value."""


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and abs(exponent) * max(base.bit_length(), 1) > _MAX_BITS:
        raise _Unknown
    result = base**exponent
    if isinstance(result, complex):
        raise _Unknown
    return result


def _exact_ratio(a: Number, b: Number) -> Number:
    """sympy's ``a/b``: exact, so an int where it comes out even."""
    if isinstance(a, int) and isinstance(b, int) and a % b == 0:
        return a // b
    return a / b


def _where(condition: Number, then: Number, other: Number) -> Number:
    return then if condition else other


# torch/utils/_sympy/functions.py names these; sympy prints Eq, Ne, Max, Min, Abs.
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "CeilDiv": lambda a, b: -(-a // b),
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "ModularIndexing": lambda a, b, c: a // b % c,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "PowByNatural": _power,
    "Pow": _power,
    "FloatPow": lambda a, b: _power(float(a), float(b)),
    "LShift": lambda a, b: a * _power(2, b),
    "RShift": lambda a, b: a // _power(2, b),
    "Max": max,
    "Min": min,
    "max": max,
    "min": min,
    "Abs": abs,
    "abs": abs,
    "ToFloat": float,
    "TruncToFloat": lambda a: float(math.trunc(a)),
    "TruncToInt": math.trunc,
    "CeilToInt": math.ceil,
    "FloorToInt": math.floor,
    "RoundToInt": round,
    "RoundDecimal": round,
    "ceiling": math.ceil,
    "floor": math.floor,
    "Identity": lambda a: a,
    "Where": _where,
    "Eq": operator.eq,
    "Ne": operator.ne,
    "Not": operator.not_,
    "And": lambda *a: all(a),
    "Or": lambda *a: any(a),
    "BitwiseFn_bitwise_and": operator.and_,
    "BitwiseFn_bitwise_or": operator.or_,
    "BitwiseFn_bitwise_xor": operator.xor,
}
for _name in (
    "sqrt",
    "exp",
    "log",
    "log2",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "asin",
    "acos",
    "atan",
):
    _FUNCTIONS[f"OpaqueUnaryFn_{_name}"] = getattr(math, _name)

_BINARY: dict[type, Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _exact_ratio,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.LShift: lambda a, b: a * _power(2, b),
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: dict[type, Callable[[Any], Number]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.not_,  # sympy prints Not(x) of a condition as ~x
}
_COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@lru_cache(maxsize=16_384)
def _parse(text: str) -> ast.expr | None:
    """The parsed expression, or None for text that is none or is too long."""
    if len(text) > MAX_TEXT:
        return None
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _walk(node: ast.expr, values: Mapping[str, Number]) -> Number:
    """The value of a parsed expression; raises _Unknown for any part that has none."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise _Unknown
    return handler(node, values)


def _constant(node: ast.Constant, values: Mapping[str, Number]) -> Number:
    if not isinstance(node.value, (bool, int, float)):
        raise _Unknown
    return node.value


def _name(node: ast.Name, values: Mapping[str, Number]) -> Number:
    if node.id not in values:
        raise _Unknown
    return values[node.id]


def _binary(node: ast.BinOp, values: Mapping[str, Number]) -> Number:
    if type(node.op) not in _BINARY:
        raise _Unknown
    return _BINARY[type(node.op)](_walk(node.left, values), _walk(node.right, values))


def _unary(node: ast.UnaryOp, values: Mapping[str, Number]) -> Number:
    return _UNARY[type(node.op)](_walk(node.operand, values))


def _bool(node: ast.BoolOp, values: Mapping[str, Number]) -> bool:
    join = all if isinstance(node.op, ast.And) else any
    return join(_walk(part, values) for part in node.values)


def _compare(node: ast.Compare, values: Mapping[str, Number]) -> bool:
    left = _walk(node.left, values)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        if type(op) not in _COMPARE:
            raise _Unknown
        right = _walk(right_node, values)
        if not _COMPARE[type(op)](left, right):
            return False
        left = right
    return True


def _call(node: ast.Call, values: Mapping[str, Number]) -> Number:
    if not isinstance(node.func, ast.Name) or node.keywords or node.func.id not in _FUNCTIONS:
        raise _Unknown
    return _FUNCTIONS[node.func.id](*(_walk(arg, values) for arg in node.args))


_HANDLERS: dict[type, Callable[[Any, Mapping[str, Number]], Number]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool,
    ast.Compare: _compare,
    ast.Call: _call,
}


def evaluate(expr: Dim | float, values: Mapping[str, Number]) -> Number | None:
    """The number that ``expr`` stands for when each symbol has its value in ``values``; None when unknown."""
    if not isinstance(expr, str):
        return expr
    tree = _parse(expr)
    if tree is None:
        return None
    try:
        return _walk(tree, values)
    except (_Unknown, ArithmeticError, ValueError, TypeError, RecursionError):
        return None


@lru_cache(maxsize=16_384)
def _names(text: str) -> frozenset[str]:
    tree = _parse(text)
    if tree is None:
        return frozenset()
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called)


_LONG_FLOAT = re.compile(r"(?<![\w.])\d+\.\d{14,}(?:[eE][+-]?\d+)?(?![\w.])")


def short_floats(text: str) -> str:
    """``text`` with sympy's floats as Python writes them: ``1.00000000000000e-5`` and ``1.0000000000000001e-5`` are ``1e-05``."""
    return _LONG_FLOAT.sub(lambda match: repr(float(match[0])), text)


def symbols_in(expr: Dim) -> frozenset[str]:
    """Names of the symbols in an expression (``{"s0", "s1"}``); none in an int or in other text."""
    return _names(expr) if isinstance(expr, str) else frozenset()


# Three samples of each symbol's value, mixed in parity and size: two expressions that agree on all are
# taken for equal (Schwartz and Zippel's argument for polynomials; // and % are why parity is mixed).
_SAMPLES = (
    (7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47),
    (10, 12, 16, 18, 24, 30, 36, 40, 42, 48, 54, 60),
    (101, 64, 89, 128, 151, 96, 211, 75, 227, 84, 97, 100),
)


@lru_cache(maxsize=16_384)
def same(left: Dim, right: Dim) -> bool | None:
    """Whether two sizes are equal whatever their symbols are; None when one of them cannot be worked out."""
    if left == right:
        return True
    names = sorted(symbols_in(left) | symbols_in(right))
    for sample in _SAMPLES:
        if len(names) > len(sample):
            return None
        values = dict(zip(names, sample, strict=False))
        a, b = evaluate(left, values), evaluate(right, values)
        if a is None or b is None:
            return None
        if a != b:
            return False
    return True


def product(dims: Sequence[Dim]) -> Dim:
    """Sizes multiplied: an int where all are, else an expression (``8*s0``)."""
    number = math.prod(d for d in dims if isinstance(d, int))
    symbolic = [d for d in dims if isinstance(d, str)]
    if not symbolic or number == 0:
        return number
    if len(symbolic) == 1 and number == 1:
        return symbolic[0]
    texts = [d if d.isidentifier() else f"({d})" for d in symbolic]
    return "*".join([str(number), *texts] if number != 1 else texts)


# Order in which each format lays dims out, fastest first (c10/core/MemoryFormat.h).
_CHANNELS_LAST = {4: ("channels_last", (1, 3, 2, 0)), 5: ("channels_last_3d", (1, 4, 3, 2, 0))}


def _laid_out(shape: Sequence[Dim], stride: Sequence[Dim], order: Sequence[int]) -> bool | None:
    """Whether the strides are those of a dense tensor whose dims lie in ``order``, fastest first."""
    expected: list[Dim] = []
    for d in order:
        if shape[d] == 1:
            continue
        match = same(stride[d], product(expected))
        if not match:
            return match
        expected.append(shape[d])
    return True


@lru_cache(maxsize=16_384)
def memory_format(shape: tuple[Dim, ...], stride: tuple[Dim, ...]) -> str | None:
    """``contiguous``, ``channels_last``, ``channels_last_3d``, else ``strided``; None when unknown."""
    if 0 in shape:
        return "contiguous"
    plain = _laid_out(shape, stride, range(len(shape) - 1, -1, -1))
    if plain:
        return "contiguous"
    if len(shape) in _CHANNELS_LAST:
        name, order = _CHANNELS_LAST[len(shape)]
        if _laid_out(shape, stride, order):
            return name
    return None if plain is None else "strided"


def broadcast_dims(shape: Sequence[Dim], stride: Sequence[Dim]) -> tuple[int, ...]:
    """Dims whose entries all lie at one place (stride 0, as ``expand`` makes them); size 1 does not count."""
    return tuple(d for d, step in enumerate(stride) if step == 0 and shape[d] != 1)
