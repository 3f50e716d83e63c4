"""Types in a ``.graph`` file: ``f32[s0, 16] grad``, ``SymInt(s0)``, ``(f32[2], i64[2])``, written and read.

tensor   f32[s0, 16] grad stride=(1, 8) offset=4 device=cuda:0 layout=sparse_coo flag=conj sub=DTensor inner={a: …}
symbol   SymInt(2*s0)   SymFloat(…)   SymBool(…)
scalar   scalar(int, 3)   scalar(str, "mean")   scalar(float)
size     Size[2, s0]
tuple    (f32[2], None)   tuple(list, f32[2])   tuple(topk, values: f32[2], indices: i64[2])
other    None   opaque(DeviceMesh, "text")   ?  inside a tuple, for a part that torch did not record
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..model.snapshot import (
    NoneType,
    OpaqueType,
    ScalarType,
    SizeType,
    SymType,
    TensorType,
    TupleType,
    Type,
)
from ..model.values import Dim
from .graphfile_text import MAX_DEPTH, QUOTED, STRING, Malformed, quoted, string, unquote

_NAME = re.compile(r"[^\W\d](?:[\w.-]|:(?=\w))*")
_INT = re.compile(r"-?(?:0|[1-9][0-9]*)")
# An expression that needs no quotes; its brackets must balance besides.
_EXPR = re.compile(r"[A-Za-z0-9_~(\-](?:[\w+\-*/().,<>=!&|~^%]| (?! ))*(?<! )", re.ASCII)
# An expression without a symbol, such as 016 or 4. or 2*8: quoted, so that no reader takes it for the number.
_NO_SYMBOL = re.compile(r"[^A-Za-z]*")
_DTYPE = re.compile(r"[^\W\d]\w*")
_FIELD = re.compile(rf"(?:{_NAME.pattern}|{QUOTED.pattern}): ")
_NONE = re.compile(r"None(?![\w\[])")
_SYM_TYPES = ("SymInt", "SymFloat", "SymBool")


def _name(text: str) -> str:
    return text if _NAME.fullmatch(text) else quoted(text)


def dim_text(dim: Dim) -> str:
    """One size: an int, a bare expression, or a quoted one when it could not be read back."""
    if type(dim) is int:
        return str(dim)
    return quoted(dim) if _NO_SYMBOL.fullmatch(dim) else _expression(dim)


def _expression(text: str) -> str:
    return text if _EXPR.fullmatch(text) and _comma_depth(text) else quoted(text)


def _comma_depth(text: str) -> bool:
    """Whether brackets balance and commas stand only inside them."""
    depth = 0
    for char in text:
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth < 0:
                return False
        elif char == "," and depth == 0:
            return False
    return depth == 0


def _dims(dims: tuple[Dim, ...]) -> str:
    return ", ".join([str(d) if type(d) is int else dim_text(d) for d in dims])


def _tensor(t: TensorType) -> str:
    dtype = t.dtype if _DTYPE.fullmatch(t.dtype) and t.dtype != "Size" else quoted(t.dtype)
    parts = [f"{dtype}[{_dims(t.shape)}]"]
    if t.grad:
        parts.append("grad")
    if t.stride is not None:
        parts.append(f"stride=({_dims(t.stride)})")
    if t.offset != 0:
        parts.append(f"offset={t.offset}" if type(t.offset) is int else f"offset=({dim_text(t.offset)})")
    if t.device is not None:
        parts.append(f"device={_name(t.device)}")
    if t.layout:
        parts.append(f"layout={_name(t.layout)}")
    parts += [f"flag={_name(f)}" for f in t.flags]
    if t.subclass:
        parts.append(f"sub={_name(t.subclass)}")
    if t.inner:
        inner = ", ".join([f"{_name(k)}: {_part(v)}" for k, v in t.inner])
        parts.append(f"inner={{{inner}}}")
    return " ".join(parts)


def _tuple(t: TupleType) -> str:
    if t.type == "tuple" and not t.fields:
        return f"({', '.join(map(_part, t.items))})"
    parts = [_name(t.type)]
    names = t.fields or (None,) * len(t.items)
    for name, item in zip(names, t.items, strict=True):
        parts.append(_part(item) if name is None else f"{_name(name)}: {_part(item)}")
    return f"tuple({', '.join(parts)})"


def _part(t: Type) -> str:
    """A type within another; one that is unknown needs a word there."""
    return "?" if t is None else _WRITERS[type(t)](t)


_WRITERS: dict[type, Callable] = {
    TensorType: _tensor,
    TupleType: _tuple,
    SymType: lambda t: f"{t.type}({_expression(t.expr)})",
    ScalarType: lambda t: f"scalar({_name(t.type)}{', ' + string(t.text) if t.text else ''})",
    SizeType: lambda t: f"Size[{_dims(t.shape)}]",
    NoneType: lambda t: "None",
    OpaqueType: lambda t: f"opaque({_name(t.name)}{', ' + string(t.text) if t.text else ''})",
}


def type_text(t: Type) -> str:
    """A type as the file shows it; empty for one that torch did not record."""
    return "" if t is None else _WRITERS[type(t)](t)


class _Reader:
    """Reads one type by recursive descent."""

    def __init__(self, text: str):
        self.text, self.at = text, 0

    def fail(self, why: str) -> Malformed:
        return Malformed(why, self.at)

    def eat(self, token: str) -> bool:
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def need(self, token: str) -> None:
        if not self.eat(token):
            raise self.fail(f"expected {token!r} in a type")

    def match(self, pattern: re.Pattern) -> str | None:
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found[0]

    def name(self) -> str:
        text = self.match(QUOTED)
        if text is not None:
            return unquote(text)
        text = self.match(_NAME)
        if text is None:
            raise self.fail("expected a name in a type")
        return text

    def string(self) -> str:
        text = self.match(STRING)
        if text is None:
            raise self.fail("expected a string in a type")
        return unquote(text)

    def type(self, depth: int = 0) -> Type:
        if depth > MAX_DEPTH:
            raise self.fail(f"types nested deeper than {MAX_DEPTH} levels")
        if self.eat("("):
            return TupleType(tuple(self.items(")", lambda: self.type(depth + 1))))
        if self.eat("?"):
            return None
        for head, read in self.heads(depth):
            if self.eat(head):
                return read()
        if self.match(_NONE):
            return NoneType()
        return self.tensor(depth)

    def heads(self, depth: int) -> tuple[tuple[str, Callable[[], Type]], ...]:
        return (
            ("tuple(", lambda: self.tuple(depth)),
            ("scalar(", lambda: ScalarType(*self.named())),
            ("opaque(", lambda: OpaqueType(*self.named())),
            ("Size[", lambda: SizeType(tuple(self.items("]", self.dim)))),
            *[(f"{kind}(", lambda kind=kind: self.symbolic(kind)) for kind in _SYM_TYPES],
        )

    def symbolic(self, kind: str) -> SymType:
        expr = self.expression()
        self.need(")")
        return SymType(kind, expr)

    def named(self) -> tuple[str, str]:
        """A name and a string, if there is one, up to the closing bracket."""
        name = self.name()
        text = self.string() if self.eat(", ") else ""
        self.need(")")
        return name, text

    def items(self, close: str, read: Callable[[], object]) -> list:
        found: list = []
        while not self.eat(close):
            if found:
                self.need(", ")
            found.append(read())
        return found

    def pair(self, depth: int) -> tuple[str, Type]:
        name = self.name()
        self.need(": ")
        return name, self.type(depth + 1)

    def tuple(self, depth: int) -> TupleType:
        kind = self.name()
        if self.eat(")"):
            return TupleType((), kind)
        self.need(", ")
        if not _FIELD.match(self.text, self.at):
            return TupleType(tuple(self.items(")", lambda: self.type(depth + 1))), kind)
        pairs = self.items(")", lambda: self.pair(depth))
        return TupleType(tuple([t for _, t in pairs]), kind, tuple([n for n, _ in pairs]))

    def dim(self) -> Dim:
        start = self.at
        text = self.expression()
        if self.text[start] == "`":
            return text
        if _INT.fullmatch(text) and len(text) < 4000:
            return int(text)
        if _NO_SYMBOL.fullmatch(text):
            self.at = start
            raise self.fail("expected a size")
        return text

    def expression(self) -> str:
        text = self.match(QUOTED)
        if text is not None:
            return unquote(text)
        end = self.end_of_expression()
        text = self.text[self.at : end]
        if not _EXPR.fullmatch(text):
            raise self.fail("expected a size or an expression")
        self.at = end
        return text

    def end_of_expression(self) -> int:
        """Where a bare expression ends: at a comma or closing bracket of the level around it."""
        depth = 0
        for at in range(self.at, len(self.text)):
            char = self.text[at]
            if char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
                if depth < 0:
                    return at
            elif depth == 0 and char in ",]}":
                return at
        return len(self.text)

    def tensor(self, depth: int) -> TensorType:
        text = self.match(QUOTED)
        dtype = unquote(text) if text is not None else self.match(_DTYPE)
        if dtype is None:
            raise self.fail("expected a type")
        self.need("[")
        found: dict = {"dtype": dtype, "shape": tuple(self.items("]", self.dim))}
        order = -1
        while self.eat(" "):
            order = self.attribute(found, order, depth)
        return TensorType(**found)

    def attribute(self, found: dict, order: int, depth: int) -> int:
        """Reads one word after the shape; each stands at most once and in the order of _ATTRIBUTES."""
        for place, (head, read) in enumerate(_ATTRIBUTES):
            if not self.eat(head):
                continue
            if place < order or (place == order and head != "flag="):
                raise self.fail("words of a type that are twice there or out of order")
            read(self, found, depth)
            return place
        raise self.fail("expected grad, stride=, offset=, device=, layout=, flag=, sub= or inner=")

    def stride(self, found: dict, depth: int) -> None:
        self.need("(")
        found["stride"] = tuple(self.items(")", self.dim))

    def offset(self, found: dict, depth: int) -> None:
        if not self.eat("("):
            text = self.match(_INT)
            if text is None:
                raise self.fail("expected an int, or an expression in parentheses")
            found["offset"] = int(text)
            return
        found["offset"] = self.dim()
        self.need(")")

    def inner(self, found: dict, depth: int) -> None:
        self.need("{")
        found["inner"] = tuple(self.items("}", lambda: self.pair(depth)))


def _named_attribute(key: str) -> Callable[[_Reader, dict, int], None]:
    def read(reader: _Reader, found: dict, depth: int) -> None:
        found[key] = reader.name()

    return read


def _flag(reader: _Reader, found: dict, depth: int) -> None:
    found["flags"] = (*found.get("flags", ()), reader.name())


_ATTRIBUTES: tuple[tuple[str, Callable[[_Reader, dict, int], None]], ...] = (
    ("grad", lambda reader, found, depth: found.update(grad=True)),
    ("stride=", _Reader.stride),
    ("offset=", _Reader.offset),
    ("device=", _named_attribute("device")),
    ("layout=", _named_attribute("layout")),
    ("flag=", _flag),
    ("sub=", _named_attribute("subclass")),
    ("inner=", _Reader.inner),
)


def read_type(text: str) -> Type:
    """The type that ``text`` shows; raises Malformed."""
    if not text:
        return None
    reader = _Reader(text)
    found = reader.type()
    if reader.at != len(text):
        raise reader.fail("text after the end of a type")
    return found
