"""Sums of symbolic sizes with like terms joined: ``4*s0 + 8*s0`` is ``12*s0``. No sympy.

An expression is read as a polynomial whose unknowns are symbols and whatever is no sum, product or power with a known exponent
(``(s0//2)``, ``Max(1, s0)``), told apart by its text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import lru_cache

from ..model import Dim
from .dims import MAX_TEXT

Monomial = tuple[tuple[str, int], ...]
"""Factors with their exponents, sorted; empty for a constant."""
Polynomial = dict[Monomial, int]

_MOST_TERMS = 200
_HIGHEST_POWER = 6


def total(sizes: Iterable[Dim]) -> Dim:
    """The sum: an int where all are, else an expression with like terms joined."""
    number, found = 0, {}
    for size in sizes:
        if isinstance(size, int):
            number += size
        else:
            found[size] = found.get(size, 0) + 1
    if not found:
        return number
    sum_: Polynomial = {(): number} if number else {}
    for text, times in found.items():
        for factors, factor in _polynomial(text).items():
            sum_[factors] = sum_.get(factors, 0) + factor * times
    return _text(sum_)


@lru_cache(maxsize=16_384)
def _polynomial(text: str) -> Polynomial:
    if len(text) > MAX_TEXT:
        return _unknown(text)
    try:
        return _read(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _unknown(text)


def _unknown(text: str) -> Polynomial:
    return {((f"({text})", 1),): 1}


def _read(node: ast.expr) -> Polynomial:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return {(): node.value} if node.value else {}
    if isinstance(node, ast.Name):
        return {((node.id, 1),): 1}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _times(_read(node.operand), {(): -1})
    if isinstance(node, ast.BinOp):
        return _binary(node)
    return _atom(node)


def _binary(node: ast.BinOp) -> Polynomial:
    if isinstance(node.op, ast.Add):
        return _plus(_read(node.left), _read(node.right))
    if isinstance(node.op, ast.Sub):
        return _plus(_read(node.left), _times(_read(node.right), {(): -1}))
    if isinstance(node.op, ast.Mult):
        left, right = _read(node.left), _read(node.right)
        return _times(left, right) if len(left) * len(right) <= _MOST_TERMS else _atom(node)
    exponent = (
        node.right.value if isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant) else None
    )
    if type(exponent) is int and 0 <= exponent <= _HIGHEST_POWER:
        return _power(_read(node.left), exponent)
    return _atom(node)


def _power(base: Polynomial, exponent: int) -> Polynomial:
    result: Polynomial = {(): 1}
    for _ in range(exponent):
        result = _times(result, base)
    return result


def _atom(node: ast.expr) -> Polynomial:
    text = ast.unparse(node)
    return {((text if isinstance(node, ast.Call) else f"({text})", 1),): 1}


def _plus(left: Polynomial, right: Polynomial) -> Polynomial:
    result = dict(left)
    for factors, factor in right.items():
        result[factors] = result.get(factors, 0) + factor
    return result


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    result: Polynomial = {}
    for a, x in left.items():
        for b, y in right.items():
            powers = dict(a)
            for name, power in b:
                powers[name] = powers.get(name, 0) + power
            factors = tuple(sorted(powers.items()))
            result[factors] = result.get(factors, 0) + x * y
    return result


def _text(sum_: Polynomial) -> Dim:
    """The highest degree first, as a person writes it: ``2*s0**2*s1 + 3*s0 + 5``."""
    terms = [(factors, factor) for factors, factor in sum_.items() if factor]
    if not terms:
        return 0
    terms.sort(key=lambda t: (-sum(power for _, power in t[0]), t[0]))
    if terms[0][0] == ():
        return terms[0][1]
    text = ""
    for factors, factor in terms:
        sign = " - " if factor < 0 else " + "
        text += (sign if text else "-" if factor < 0 else "") + _term(factors, abs(factor))
    return text


def _term(factors: Monomial, factor: int) -> str:
    parts = [name if power == 1 else f"{name}**{power}" for name, power in factors]
    return "*".join([str(factor), *parts] if factor != 1 or not parts else parts)
