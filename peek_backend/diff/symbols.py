"""Which symbol of the old graph is which of the new one, and what became of sizes.

Symbols are numbered by the inputs that carry them, so one that becomes static renumbers those after it. Matched inputs say
which is which; the old graph is then read in the new one's names, and only what really differs is left.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from ..analysis.dims import same
from ..model.snapshot import (
    Graph,
    Input,
    NoneType,
    OpaqueType,
    Place,
    ScalarType,
    SizeType,
    Symbol,
    SymType,
    TensorType,
    TupleType,
    Type,
)
from ..model.values import Dim
from ..passes.expressions import Expressions
from ..passes.volatile import VOLATILE
from ..snapshot.graphfile_symbols import IN_TEMPLATE, symbols_in_text
from ..snapshot.graphfile_text import SYMBOL
from .edits import Edit

_BOUNDS = re.compile(
    r"(?:(?P<lower>-?[0-9]+) (?P<left><=?|>=?) )?(?P<name>[su][0-9]+)(?: (?P<right><=?|>=?) (?P<upper>-?[0-9]+))?"
)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NUMBER = re.compile(r"-?\d+")


class SymbolMap:
    """The old graph's symbols in the new graph's terms: a symbol's name, or the number that it became.

    ``old`` maps the old graph's symbols, ``new`` those of the new graph that were a number before. Unbacked symbols are
    joined later, as matched nodes bring them (``learn``). ``split`` holds each (old, new) pair of an old symbol that is several
    now beyond that in ``old``: a size that went from one to the other is told by the split.
    """

    def __init__(self, old: dict[str, str], new: dict[str, str], split: Collection[tuple[Dim, Dim]] = ()):
        self._old, self._new, self._split = old, new, frozenset(split)
        self._equal: dict[tuple[Dim, Dim], bool] = {}
        self._texts: dict[tuple[str, bool], str] = {}
        self.is_identity = not new and all(a == b for a, b in old.items())

    def of(self, symbol: str) -> str:
        return self._old.get(symbol, symbol)

    def learn(self, old: str, new: str) -> None:
        """Notes that a matched node brings unbacked symbol ``new`` where the old one brought ``old``."""
        if old != new and old not in self._old:
            self._old[old] = new
            self.is_identity = False
            self._equal.clear()
            self._texts.clear()

    def expr(self, text: str, is_old: bool = True) -> str:
        """An expression of one side in common terms."""
        key = (text, is_old)
        found = self._texts.get(key)
        if found is None:
            names = self._old if is_old else self._new
            found = self._texts[key] = Expressions(names).text(text) if names else text
        return found

    def same_dim(self, old: Dim, new: Dim) -> bool:
        """Whether two sizes are one in common terms."""
        if old == new and self.is_identity:
            return True
        key = (old, new)
        found = self._equal.get(key)
        if found is None:
            a = _number(self.expr(old)) if isinstance(old, str) else old
            b = _number(self.expr(new, False)) if isinstance(new, str) else new
            found = self._equal[key] = a == b or key in self._split or same(a, b) is True
        return found

    def template(self, text: str, is_old: bool = True, *, open_unbacked: bool = False) -> str:
        """A call's template in common terms; ``open_unbacked`` for matching, before it is known which is which."""

        def swap(match: re.Match) -> str:
            word = match[0]
            if word[0] in '"`':
                return word
            if match[1] is not None:
                expr = self.expr(match[1], is_old)
                return f'sym("{_open(expr) if open_unbacked else expr}")'
            return "u?" if word[0] == "u" and open_unbacked else self.expr(word, is_old)

        return IN_TEMPLATE.sub(swap, text) if _has_symbol(text) else text


@lru_cache(maxsize=65_536)
def _has_symbol(text: str) -> bool:
    return bool(IN_TEMPLATE.search(text))


def _open(text: str) -> str:
    return re.sub(r"\bu[0-9]+\b", "u?", text)


def _number(text: str) -> Dim:
    try:
        return int(text)
    except ValueError:
        return text


def _sizes(kind: Type) -> Sequence[Dim]:
    """The sizes that can carry a symbol, in order."""
    if isinstance(kind, (TensorType, SizeType)):
        return kind.shape
    if isinstance(kind, SymType):
        return (kind.expr,)
    if isinstance(kind, ScalarType) and kind.type == "int" and kind.text:
        return (_number(kind.text),)
    return ()


def _renamed(source: str, names: Mapping[str, str]) -> str:
    """A symbol's source with its input under the new name."""
    for old, new in names.items():
        if source == old or source.startswith((f"{old}.", f"{old}[")):
            return new + source[len(old) :]
    return source


def _by_source(graph: Graph) -> dict[str, str]:
    """Each size's symbol: a size is of the first that claims it, whatever a file says of a second."""
    found: dict[str, str] = {}
    for symbol in graph.symbols:
        for source in symbol.sources:
            found.setdefault(source, symbol.name)
    return found


def _pairs(old: Graph, new: Graph, inputs: Sequence[tuple[Input, Input]]) -> Iterator[tuple[Dim, Dim, str]]:
    """Sizes that stand at the same place of both graphs, with the name of that place; symbols of equal source first."""
    names = {a.name: b.name for a, b in inputs if a.name != b.name}
    old_by_source, new_by_source = _by_source(old), _by_source(new)
    for source, symbol in old_by_source.items():
        found = new_by_source.get(_renamed(source, names))
        if found is not None:
            yield symbol, found, source
    for a, b in inputs:
        left, right = _sizes(a.type), _sizes(b.type)
        if len(left) == len(right):
            for dim, (x, y) in enumerate(zip(left, right, strict=True)):
                where = f"{b.name}.shape[{dim}]" if isinstance(b.type, TensorType) else b.name
                yield x, y, where


def match_symbols(
    old: Graph, new: Graph, inputs: Sequence[tuple[Input, Input]]
) -> tuple[SymbolMap, list[Edit]]:
    """The map between two graphs' symbols and the edits of sizes, from inputs that were matched already."""
    old_to_new: dict[str, str] = {}
    new_to_old: dict[str, str] = {}
    edits: list[Edit] = []
    said: set[tuple[str, str]] = set()
    split: set[tuple[Dim, Dim]] = set()

    fixed = dict(new.fixed)

    def say(kind: str, symbol: str, where: str, was: str, now: str) -> None:
        if (kind, symbol) not in said:
            said.add((kind, symbol))
            place = fixed.get(where) if kind == "dim:static" else None
            edits.append(Edit(kind, new.title, target=where, text=where, old=was, new=now, place=place))

    before, after = _ranges(old.symbols), _ranges(new.symbols)
    for a, b, where in _pairs(old, new, inputs):
        left, right = _is_symbol(a), _is_symbol(b)
        if left and right:
            known, back = old_to_new.setdefault(a, b), new_to_old.setdefault(b, a)
            if known != b and _is_symbol(known):
                split.add((a, b))
                say("dim:split", b, where, a, f"{known} and {b}")
            if back != a and _is_symbol(back):
                say("dim:joined", a, where, f"{back} and {a}", b)
        elif left and isinstance(b, int):
            if old_to_new.setdefault(a, str(b)) == str(b):
                say("dim:static", a, where, f"{a} {before.get(a, '')}".strip(), str(b))
        elif right and isinstance(a, int) and new_to_old.setdefault(b, str(a)) == str(a):
            say("dim:dynamic", b, where, str(a), f"{b} {after.get(b, '')}".strip())
    numbers = {symbol: value for symbol, value in new_to_old.items() if not _is_symbol(value)}
    backed = {a: b for a, b in old_to_new.items() if not a.startswith("u")}
    edits += range_edits(old, new, backed)
    return SymbolMap(old_to_new, numbers, split), edits or list(_name_edits(old, new))


def _is_symbol(dim: Dim) -> bool:
    return isinstance(dim, str) and bool(SYMBOL.fullmatch(dim))


def _range_text(symbol: Symbol) -> str:
    lower = "-∞" if symbol.lower is None else symbol.lower
    return f"[{lower}, {'∞' if symbol.upper is None else symbol.upper}]"


def _ranges(symbols: Iterable[Symbol]) -> dict[str, str]:
    return {symbol.name: _range_text(symbol) for symbol in symbols}


def _name_edits(old: Graph, new: Graph) -> Iterator[Edit]:
    """For information: symbols with another number, or with other inputs that carry them."""
    before, after = ({(symbol.name, symbol.sources) for symbol in graph.symbols} for graph in (old, new))
    if before != after:
        yield Edit("symbol", new.title, text="symbols", count=len(after - before) or len(before - after))


def range_edits(old: Graph, new: Graph, names: Mapping[str, str]) -> Iterator[Edit]:
    """Symbols that may take fewer values, or more; ``names`` maps the old graph's symbols to the new one's.

    One that is used and not declared is taken as unbounded.
    """
    before, after = ({symbol.name: symbol for symbol in graph.symbols} for graph in (old, new))
    for name, partner in names.items():
        if _is_symbol(partner) and (name in before or partner in after):
            a, b = before.get(name) or Symbol(name), after.get(partner) or Symbol(partner)
            yield from _range_edit(a, b, new)


def _range_edit(old: Symbol, new: Symbol, graph: Graph) -> Iterator[Edit]:
    where = next(iter((*new.sources, *old.sources)), new.name)
    if old.type != new.type:
        yield Edit("type:other", graph.title, target=where, text=where, old=old.type, new=new.type)
    a, b = _bounds(old), _bounds(new)
    if a == b:
        return
    narrower = b[0] > a[0] or b[1] < a[1]
    tight = [bound for bound, is_new in ((b[0], b[0] > a[0]), (b[1], b[1] < a[1])) if is_new]
    place, why = _cause(new, graph, tight) if narrower else (None, "")
    kind = "range:narrowed" if narrower else "range:widened"
    yield Edit(
        kind, graph.title, target=where, text=where, old=_range_text(old), new=_range_text(new), place=place,
        leads_to=(("", why),) if why else (),
    )  # fmt: skip


def _bounds(symbol: Symbol) -> tuple[float, float]:
    infinity = float("inf")
    return (
        -infinity if symbol.lower is None else symbol.lower,
        infinity if symbol.upper is None else symbol.upper,
    )


def _cause(symbol: Symbol, graph: Graph, bounds: Iterable[float]) -> tuple[Place | None, str]:
    """The line that gave a symbol its new bounds, and the condition that it asked for; known of a fresh capture only."""
    mine = [reason for reason in graph.reasons if reason.symbol == symbol.name]
    near = {str(int(n) + step) for n in bounds for step in (-1, 0, 1)}  # s0 > 3 gives the bound 4
    spoken = [reason for reason in mine if near & set(_NUMBER.findall(reason.text))]
    for reason in [*spoken, *mine]:
        return reason.place, f"because {reason.text}{f', asked by {reason.by}' if reason.by else ''}"
    return None, ""


def unbacked_range_edits(old: Graph, new: Graph, symbols: SymbolMap) -> Iterator[Edit]:
    """The same for symbols that nodes bring, once matched nodes have said which is which."""
    names = {s.name: symbols.of(s.name) for s in old.symbols if s.name.startswith("u")}
    known = {symbol.name for symbol in new.symbols}
    yield from range_edits(old, new, {name: other for name, other in names.items() if other in known})


def guard_edits(old: Graph, new: Graph, symbols: SymbolMap) -> Iterator[Edit]:
    """Conditions on sizes that are new or gone.

    One whose symbol became a number is told by that already, and a bound that a symbol's range holds by the range.
    """
    before = {symbols.expr(text): text for text in old.guards if not _is_in_range(text, old)}
    after = {symbols.expr(text, False): text for text in new.guards if not _is_in_range(text, new)}
    for key, text in after.items():
        if key not in before and symbols_in_text(key):
            place = next((reason.place for reason in new.reasons if reason.text == text), None)
            yield Edit("guard:added", new.title, target=text, text=text, place=place)
    for key, text in before.items():
        if key not in after and symbols_in_text(key):
            yield Edit("guard:removed", new.title, target=text, text=text)


def _is_in_range(guard: str, graph: Graph) -> bool:
    """Whether a guard bounds one symbol, no tighter than the symbol's range: ``s0 >= 3``, ``3 <= s0 <= 64``."""
    found = _BOUNDS.fullmatch(guard)
    symbol = found and next((s for s in graph.symbols if s.name == found["name"]), None)
    if found is None or symbol is None:
        return False
    low, high = _bounds(symbol)
    relations = [(found["right"], found["upper"])] if found["right"] else []
    if found["left"]:
        relations.append((_MIRRORED[found["left"]], found["lower"]))
    return bool(relations) and all(
        {"<=": high <= int(n), "<": high < int(n), ">=": low >= int(n), ">": low > int(n)}[sign]
        for sign, n in relations
    )


class TypeComparer:
    """What differs between two types in common terms: the kinds of edit, from ``type:dtype`` to ``type:stride``."""

    def __init__(self, symbols: SymbolMap):
        self._symbols = symbols
        self._found: dict[tuple[int, int], tuple[str, ...]] = {}
        self._kept: list[Type] = []  # so that an id stays that of its type

    def compare(self, old: Type, new: Type) -> tuple[str, ...]:
        """Kinds of edit, worst first; empty when the types are one."""
        key = (id(old), id(new))
        found = self._found.get(key)
        if found is None:
            self._kept += [old, new]
            found = self._found[key] = tuple(dict.fromkeys(self._kinds(old, new)))
        return found

    def forget(self) -> None:
        """Starts over, after the symbols learned something."""
        self._found.clear()

    def _kinds(self, old: Type, new: Type) -> Iterator[str]:
        if old is None and new is None:
            return
        if type(old) is not type(new):
            if not self._same_number(old, new):
                yield "type:other"
        elif isinstance(old, TensorType):
            yield from self._tensor(old, new)
        elif isinstance(old, TupleType):
            yield from self._tuple(old, new)
        elif isinstance(old, SizeType):
            if not self._same_dims(old.shape, new.shape):
                yield "type:shape"
        elif isinstance(old, SymType):
            if old.type != new.type or not self._symbols.same_dim(old.expr, new.expr):
                yield "type:shape" if old.type == new.type else "type:other"
        elif isinstance(old, ScalarType) and old.type == new.type and VOLATILE in (old.text, new.text):
            return
        elif isinstance(old, (ScalarType, OpaqueType, NoneType)) and old != new:
            yield "type:other"

    def _same_number(self, old: Type, new: Type) -> bool:
        """Whether a symbolic number became the plain one that its symbol stands for, or the other way."""
        a, b = _sizes(old), _sizes(new)
        return (
            len(a) == len(b) == 1
            and isinstance(old, (SymType, ScalarType))
            and self._symbols.same_dim(a[0], b[0])
        )

    def _same_dims(self, old: Sequence[Dim], new: Sequence[Dim]) -> bool:
        return len(old) == len(new) and all(map(self._symbols.same_dim, old, new))

    def _tensor(self, old: TensorType, new: TensorType) -> Iterator[str]:
        if old.dtype != new.dtype:
            yield "type:dtype"
        if not self._same_dims(old.shape, new.shape):
            yield "type:shape"
        if old.device != new.device:
            yield "type:device"
        if old.grad != new.grad:
            yield "type:requires_grad"
        if (old.layout, old.flags, old.subclass) != (new.layout, new.flags, new.subclass):
            yield "type:other"
        yield from self._inner(old, new)
        if self._strides_differ(old, new):
            yield "type:stride"

    def _inner(self, old: TensorType, new: TensorType) -> Iterator[str]:
        if [k for k, _ in old.inner] != [k for k, _ in new.inner]:
            yield "type:other"
            return
        for (_, a), (_, b) in zip(old.inner, new.inner, strict=True):
            yield from self.compare(a, b)

    def _strides_differ(self, old: TensorType, new: TensorType) -> bool:
        if len(old.shape) != len(new.shape):
            return False
        if (old.stride is None) != (new.stride is None) or not self._symbols.same_dim(old.offset, new.offset):
            return True
        return old.stride is not None and not self._same_dims(old.stride, new.stride)

    def _tuple(self, old: TupleType, new: TupleType) -> Iterator[str]:
        if len(old.items) != len(new.items) or (old.type, old.fields) != (new.type, new.fields):
            yield "type:other"
            return
        for a, b in zip(old.items, new.items, strict=True):
            yield from self.compare(a, b)
