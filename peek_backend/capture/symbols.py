"""The symbols of a graph, from the shape environment it was traced in. Reads only; asks torch nothing that adds a guard."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sympy
from sympy.printing.str import StrPrinter
from torch.utils._sympy.printers import PythonPrinter

from ..model import Fact, StackFrame, SymbolInfo
from .compat import backed_hints, source_text
from .sources import NO_POSITIONS, Positions, place, readable
from .values import capped

MOST_FACTS = 40
"""Facts kept of one symbol; a long model repeats the same comparison at every layer."""
_MOST_CHARACTERS = 300

# What a shape environment keeps of a user's line: ``if n > 3:  # model.py:12 in forward``.
_LOCATION = re.compile(r"^(?P<code>.*?)\s*# (?P<file>\S+?):(?P<line>\d+) in (?P<function>.+)$", re.DOTALL)


def read_symbols(
    shape_env: Any,
    used: Iterable[Any],
    receiver: str | None,
    files: Sequence[str] = (),
    positions: Positions = NO_POSITIONS,
) -> tuple[SymbolInfo, ...]:
    """Every symbol with a source, and every other that a value of the graph uses, by name order of creation.

    ``used`` are sympy symbols found in the graph's values, or their names. ``files`` completes torch's short paths.
    """
    if shape_env is None:
        return ()
    hints = backed_hints(shape_env)
    sources = shape_env.var_to_sources
    known = dict.fromkeys(s for s in hints if sources.get(s))
    known.update(dict.fromkeys(s for s in shape_env.var_to_range if _is_unbacked(s)))
    by_name = {str(s): s for s in shape_env.var_to_range}
    used = [by_name.get(s) if isinstance(s, str) else s for s in used]
    known.update(dict.fromkeys(sorted((s for s in used if s is not None), key=str)))
    reader = _FactReader(shape_env, files)

    def read(source: Any) -> str:
        return readable(source_text(source), receiver, positions)

    return tuple([_read_symbol(shape_env, symbol, hints, read, reader) for symbol in known])


def _read_symbol(
    shape_env: Any, symbol: Any, hints: dict[Any, Any], read: Callable[[Any], str], facts: _FactReader
) -> SymbolInfo:
    lower, upper = _bounds(shape_env.var_to_range.get(symbol))
    sources = [read(s) for s in shape_env.var_to_sources.get(symbol, ())]
    sources = list(dict.fromkeys(sources))
    replaced = shape_env.replacements.get(symbol)
    return SymbolInfo(
        name=str(symbol),
        sources=tuple(sources),
        hint=_plain(hints.get(symbol)),
        lower=lower,
        upper=upper,
        type="float" if str(symbol).startswith(("zf", "zuf")) else "int",
        unbacked=_is_unbacked(symbol),
        replaced_by=None if replaced is None else capped(_Printed().doprint(replaced)),
        facts=(*_duck(sources), *facts.read(symbol)),
    )


def _duck(sources: Sequence[str]) -> list[Fact]:
    """Equal sizes in the first call were taken for one and the same."""
    if len(sources) < 2:
        return []
    return [Fact("duck", f"{' and '.join(sources)} were equal when traced, so they share one symbol")]


class _FactReader:
    """Collects, for the symbols of one shape environment, what made each of them narrower, with the user's line."""

    def __init__(self, shape_env: Any, files: Sequence[str]):
        self.env, self.files = shape_env, files
        self._guards: dict[str, list[Fact]] = {}  # by name: nested ints have two sympy symbols of one name
        for guard in getattr(shape_env, "guards", ()):
            self._add(guard.expr, "guard", guard.sloc)
        for expr in getattr(shape_env, "divisible", ()):
            self._note(expr, Fact("divisible", f"{arithmetic(expr)} == 0"))

    def _add(self, expr: Any, kind: str, location: Any) -> None:
        self._note(expr, Fact(kind, arithmetic(expr) + _asked_by(location), self._user(location)))

    def _note(self, expr: Any, fact: Fact) -> None:
        for symbol in getattr(expr, "free_symbols", ()):
            kept = self._guards.setdefault(str(symbol), [])
            if len(kept) < MOST_FACTS and all(fact.text != k.text for k in kept):
                kept.append(fact)

    def _user(self, location: Any) -> StackFrame | None:
        return user_line(getattr(location, "maybe_user_loc", None), self.files)

    def read(self, symbol: Any) -> list[Fact]:
        """Specialisation first, then guards, bounds, and what is only checked at run time."""
        return [
            *self._replaced(symbol),
            *self._guards.get(str(symbol), ()),
            *self._bounds(symbol),
            *self._asserts(symbol),
        ]

    def _replaced(self, symbol: Any) -> list[Fact]:
        target = self.env.replacements.get(symbol)
        if target is None:
            return []
        location = getattr(self.env, "replacements_slocs", {}).get(symbol)
        kind = "specialised" if not getattr(target, "free_symbols", None) else "replaced"
        user = self._user(location) or self._specialised_at(symbol)
        return [Fact(kind, f"{symbol} == {arithmetic(target)}{_asked_by(location)}", user)]

    def _specialised_at(self, symbol: Any) -> StackFrame | None:
        stacks = getattr(self.env, "specialization_stacks", {})
        for source in self.env.var_to_sources.get(symbol, ()):
            stack = stacks.get(source)
            if stack:
                return place(stack[-1].filename, stack[-1].lineno, stack[-1].name)
        return None

    def _bounds(self, symbol: Any) -> list[Fact]:
        """The lines that set the lower and upper bound, where a line of the user's did."""
        found = getattr(self.env, "var_to_range_sloc", {}).get(symbol)
        lower, upper = _bounds(self.env.var_to_range.get(symbol))
        facts = []
        if lower == 2 and not _is_unbacked(symbol) and self.env.var_to_sources.get(symbol):
            facts.append(Fact("zero_one", f"{symbol} >= 2: sizes 0 and 1 are compiled on their own"))
            lower = None
        for text, value, side in (
            (f"{symbol} >= {lower}", lower, "lower"),
            (f"{symbol} <= {upper}", upper, "upper"),
        ):
            user = self._user(getattr(found, side, None))
            if value is not None and user is not None:
                facts.append(Fact("range", text, user))
        known = {f.text for f in self._guards.get(str(symbol), ())}
        return [f for f in facts if f.text not in known]

    def _asserts(self, symbol: Any) -> list[Fact]:
        """Conditions on unbacked symbols: not guards, but checks that run in the graph."""
        deferred = getattr(self.env, "deferred_runtime_asserts", {}).get(symbol, ())
        return [Fact("assert", arithmetic(a.expr), _assert_line(a)) for a in list(deferred)[:MOST_FACTS]]


def _assert_line(deferred: Any) -> StackFrame | None:
    """The user's line is in the message that torch will raise; the stack is torch's own."""
    found = re.search(r'File "(.*?)", line (\d+), in (\S+)', str(getattr(deferred, "msg", "")))
    return place(found[1], int(found[2]), found[3]) if found else None


def _asked_by(location: Any) -> str:
    """The op of torch that asked, in brackets; nothing for a comparison that the program wrote itself."""
    frame = getattr(location, "framework_loc", None)
    name = getattr(frame, "name", "")
    if not name or name in _COMPARED_BY_PROGRAM:
        return ""
    op = name.removeprefix("meta_").removeprefix("_meta_").removesuffix("_meta").strip("_")
    return f" (asked by {op})" if op else ""


# Functions of torch through which a comparison in the user's own code arrives.
_COMPARED_BY_PROGRAM = frozenset(
    {"evaluate_expr", "run_node", "_check", "_check_with", "wrap_fx_proxy", "__bool__"}
)


def relations(shape_env: Any) -> tuple[str, ...]:
    """What ties symbols to one another, in plain arithmetic: ``s0 + s1 == 10``, ``s2 % 8 == 0``; single bounds are ranges."""
    if shape_env is None:
        return ()
    found = [f"{symbol} == {arithmetic(target)}" for symbol, target in shape_env.replacements.items()]
    found += [
        arithmetic(guard.expr)
        for guard in shape_env.guards
        if len(guard.expr.free_symbols) > 1 or guard.expr.has(sympy.Mod) or "%" in arithmetic(guard.expr)
    ]
    found += sorted(f"{arithmetic(expr)} == 0" for expr in getattr(shape_env, "divisible", ()))
    return tuple(dict.fromkeys(_unbracketed(text) for text in found))


class _ShortFloats:
    """Floats as Python writes them, ``1e-05``; sympy and torch print 15 or 17 digits of each, ``1.00000000000000e-5``."""

    def _print_Float(self, expr: Any) -> str:
        return repr(float(expr))


class _Printed(_ShortFloats, StrPrinter):
    """``str(expr)``, with short floats."""


class _Arithmetic(_ShortFloats, PythonPrinter):
    """Python arithmetic, with short floats."""


def arithmetic(expr: Any) -> str:
    """A sympy expression as Python arithmetic: ``s0 == 5`` for ``Eq(s0, 5)``, ``s0 % 8`` for ``Mod(s0, 8)``."""
    try:
        text = _Arithmetic().doprint(expr)
    except Exception:  # an operator without a Python form
        text = str(expr)
    return capped(_unbracketed(text), _MOST_CHARACTERS)


def _unbracketed(text: str) -> str:
    """``(s0 % 8) == 0`` without the brackets around a simple side."""
    return re.sub(r"^\(([^()]*)\)( (?:==|!=|<=|>=|<|>) )", r"\1\2", minus(text))


def minus(text: str) -> str:
    """``10 + ((-1)*s27)``, as torch prints a difference, the way a person writes it: ``10 - s27``."""
    return re.sub(r"\+ \(\(-1\)\*([^()*]+)\)", r"- \1", text)


def user_line(text: str | None, files: Sequence[str] = ()) -> StackFrame | None:
    """``if n > 3:  # model.py:12 in forward`` as a StackFrame; a short path is completed to the one of ``files`` it ends."""
    found = _LOCATION.match(text or "")
    if found is None:
        return None
    path = found["file"]
    whole = next((f for f in files if f.endswith(path)), path)
    return StackFrame(whole, int(found["line"]), found["function"], found["code"].strip())


def _is_unbacked(symbol: Any) -> bool:
    return str(symbol).startswith(("u", "zuf"))


def _bounds(value_range: Any) -> tuple[int | float | None, int | float | None]:
    """Both ends of a torch ValueRanges; None where it is unbounded (infinite, or torch's own stand-ins for it)."""
    if value_range is None:
        return None, None
    return _bound(value_range.lower), _bound(value_range.upper)


def _bound(value: Any) -> int | float | None:
    if getattr(value, "is_infinite", False) or str(value).lstrip("-") in ("int_oo", "oo", "zoo"):
        return None
    plain = _plain(value)
    # sys.maxsize and its neighbour are how torch says "no limit" for sizes.
    return None if isinstance(plain, int) and abs(plain) >= 2**62 else plain


def _plain(value: Any) -> int | float | None:
    """A sympy number or Python number as a Python one; None for what is neither."""
    if value is None or isinstance(value, (int, float)):
        return value
    try:
        return int(value) if getattr(value, "is_integer", False) else float(value)
    except (TypeError, ValueError):  # nested ints and other hints that are no number
        return None
