"""Input specs: ``f32[batch=8, 16]``, ``3``, ``true``, ``'text'``, ``[f32[2], none]`` as text, and what they say.

    value  = tensor | "[" values "]" | "(" values ")" | "{" key ":" value, … "}" | number | text | true | false | none
    tensor = dtype "[" dims "]" ["grad"]          dim = size | name "=" size

Dtypes go by torch's short or long name. A dim with a name is dynamic. No torch here: the result is plain values
with ``TensorSpec`` where a tensor is meant.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from .errors import PeekError, nearest
from .model.dtypes import DTYPES, OTHER_NAMES
from .model.inputs import TensorSpec

_MADE_UP = re.compile(
    r"(float|bfloat|complex|int|uint|bool)"
)  # quantized and bit dtypes have no made-up data
NAMES: dict[str, str] = {
    **OTHER_NAMES,
    **{name: long for long, short in DTYPES.items() if _MADE_UP.match(long) for name in (long, short)},
}
"""Every name of a dtype that a spec can use, and torch's long name of it."""

_CONSTANTS = {"true": True, "false": False, "none": None, "nan": float("nan"), "inf": float("inf")}
_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf\b)")
_WORD = re.compile(r"[A-Za-z_][\w.]*")
_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_GRAD = re.compile(r"grad\b")
_SIZE = re.compile(r"[+-]?\d+")
_CLOSING = {"[": "]", "(": ")", "{": "}"}
_DEEPEST = 50


def parse_input(text: str) -> Any:
    """The value that a spec describes. PeekError with a mark under the column for one that does not parse."""
    return _Parser(text, "input").whole()


def parse_keyword(text: str) -> tuple[str, Any]:
    """``name=spec`` as name and value."""
    name, equals, spec = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise PeekError(
            f"bad keyword argument {text!r}", "it is no NAME=SPEC", "write for example mask='bool[8]'"
        )
    return name.strip(), _Parser(spec, f"argument {name.strip()!r}").whole()


def tensors_of(value: Any) -> Iterator[TensorSpec]:
    """Every tensor of a value, in order."""
    if isinstance(value, TensorSpec):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(item)
    elif isinstance(value, dict):
        yield from tensors_of(list(value.values()))


def check_names(values: list[Any]) -> None:
    """PeekError when one dynamic dim has two example sizes."""
    sizes: dict[str, int] = {}
    for tensor in tensors_of(values):
        for name, size in zip(tensor.names, tensor.shape, strict=True):
            if name is not None and sizes.setdefault(name, size) != size:
                why = f"it is {sizes[name]} in one place and {size} in another"
                raise PeekError(
                    f"dynamic dim {name!r} has two sizes", why, "give it one size, or use two names"
                )


class _Parser:
    """Reads one spec from left to right; ``at`` is where it is."""

    def __init__(self, text: str, what: str):
        self.text, self.what, self.at, self.depth = text, what, 0, 0

    def whole(self) -> Any:
        if not self.text.strip():
            raise PeekError(f"empty {self.what} spec", "", "write for example 'f32[8, 16]', 3, true or none")
        value = self.value()
        if self.peek():
            self.fail("nothing may follow here", "give each input its own --input")
        return value

    def value(self) -> Any:
        first = self.peek()
        if first not in _CLOSING:
            return self.plain(first)
        if self.depth == _DEEPEST:
            self.fail("nested too deep", "pass less, or write a function that makes the inputs")
        self.depth += 1
        value = self.container(first)
        self.depth -= 1
        return value

    def plain(self, first: str) -> Any:
        """A value that is no container."""
        start = self.at
        if (text := self.take(_TEXT)) is not None:
            return self.text_value(text, start)
        if (number := self.take(_NUMBER)) is not None:
            return self.number(number)
        if (word := self.take(_WORD)) is not None:
            return self.word(word, start)
        if first in ("'", '"'):
            self.fail("the text is not closed", f"add {first} at its end")
        self.fail(
            "an input is missing here" if first in ("", ",") else "no input begins like this", _EXAMPLES
        )

    def take(self, pattern: re.Pattern[str]) -> str | None:
        """What ``pattern`` matches here, passed over; None when it does not."""
        match = pattern.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match[0]

    def text_value(self, text: str, start: int) -> str:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # an escape that Python only warns of is no escape
                return ast.literal_eval(text)
        except (SyntaxError, ValueError, Warning):
            self.fail("the text has a wrong escape", "double each backslash that stands for itself", start)

    def number(self, text: str) -> int | float:
        return int(text) if _SIZE.fullmatch(text.replace("_", "")) else float(text)

    def word(self, word: str, start: int) -> Any:
        """A tensor if a bracket follows, else a constant."""
        if self.peek() == "[":
            return self.tensor(self.dtype(word, start))
        if word.lower() in _CONSTANTS:
            return _CONSTANTS[word.lower()]
        if word in NAMES:
            self.fail("the shape is missing", f"write {word}[8, 16], or {word}[] for a single number", start)
        close = nearest(word, [*NAMES, *_CONSTANTS])
        hint = f"did you mean {close!r}? " if close else ""
        self.fail(f"{word!r} is no value", f"{hint}text needs quotes: '{word}'", start)

    def dtype(self, word: str, start: int) -> str:
        name = word.removeprefix("torch.")
        if name not in NAMES:
            close = nearest(name, NAMES)
            hint = f"did you mean {close!r}? " if close else ""
            self.fail(f"no dtype is named {word!r}", f"{hint}known: {', '.join(_COMMON)}, …", start)
        return NAMES[name]

    def tensor(self, dtype: str) -> TensorSpec:
        dims = list(self.items("[", self.dim))
        self.peek()
        start, grad = self.at, self.take(_GRAD) is not None
        if grad and not re.match(r"(b?float|complex)", dtype):
            self.fail(f"{dtype} has no gradient", "drop 'grad', or use a float dtype", start)
        return TensorSpec(dtype, tuple(d for _, d in dims), tuple(n for n, _ in dims), grad)

    def dim(self) -> tuple[str | None, int]:
        """A size, with its name when it is dynamic."""
        self.peek()
        start, name = self.at, self.take(_WORD)
        if name is not None:
            if self.peek() != "=":
                self.fail(f"dim {name!r} has no size", f"give an example: {name}=8", start)
            self.at += 1
            self.peek()
        start, size = self.at, self.take(_SIZE)
        if size is None:
            self.fail("a size is missing here", "write a number, as in f32[8, 16], or name=number", start)
        return name, self.checked(int(size), start, dynamic=name is not None)

    def checked(self, size: int, start: int, *, dynamic: bool) -> int:
        if size < 0:
            self.fail("a size cannot be negative", "write the size itself; name=8 makes it dynamic", start)
        if dynamic and size < 2:
            self.fail(
                "0 and 1 are always compiled for themselves", "give a dynamic dim a size of 2 or more", start
            )
        return size

    def container(self, opening: str) -> Any:
        if opening == "{":
            return dict(self.items("{", self.pair))
        items = list(self.items(opening, self.value))
        return items if opening == "[" else tuple(items)

    def pair(self) -> tuple[Any, Any]:
        self.peek()
        start, key = self.at, self.key()
        if self.peek() != ":":
            self.fail("a key needs a value", "write {'name': f32[8]}", start)
        self.at += 1
        return key, self.value()

    def key(self) -> Any:
        """A bare word is a key as it stands, as in Python's ``dict(mask=…)``; else a number or a text."""
        start, word = self.at, self.take(_WORD)
        if word is not None:
            return word
        key = self.value()
        if not isinstance(key, (str, int, float)):
            self.fail("this is no key", "write a name, a text or a number", start)
        return key

    def items(self, opening: str, item: Callable[[], Any]) -> Iterator[Any]:
        """What stands between ``opening``, which is next, and the bracket that closes it."""
        start, closing = self.at, _CLOSING[opening]
        self.at += 1
        while self.peek() != closing:
            if not self.peek():
                self.fail(f"the {opening} at column {start + 1} is not closed", f"add {closing}")
            yield item()
            if self.peek() == ",":
                self.at += 1
            elif self.peek() not in (closing, ""):
                self.fail(f"expected a comma or {closing}", "separate with commas")
        self.at += 1

    def peek(self) -> str:
        """The next character that is no space, or nothing at the end."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def fail(self, why: str, fix: str, at: int | None = None) -> NoReturn:
        """The error, with a mark under the column."""
        at = self.at if at is None else at
        shown = "".join(c if c.isprintable() else "?" for c in self.text)
        mark = f"{why}\n       {shown}\n       {' ' * at}^"
        raise PeekError(f"bad {self.what} spec, column {at + 1}", mark, fix)


_EXAMPLES = "write for example f32[8, 16], 3, 2.5, true, 'text', none or [f32[8], f32[8]]"
_COMMON = ("f32", "f16", "bf16", "f64", "i64", "i32", "u8", "bool")
