"""The words of a ``.graph`` file: names, strings, fields and call templates, written and read.

Two spaces never stand inside a word, so they separate columns everywhere; what holds two, or a control or
invisible character, is quoted. Names quote with backticks, strings with double quotes; both escape as Python does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ..model.snapshot import SLOT

MAX_DEPTH = 64
"""Levels of nesting in an argument or type."""

SYMBOL = re.compile(r"[su][0-9]+")
_RESERVED = frozenset({"None", "True", "False", "nan", "inf"})

# A name that needs no quotes as an operand: fc1.weight, x, batch[0]['ids'].
_PATH = r"[^\W\d]\w*(?:\.\w+|\[\d+\]|\['[\w.:/-]*'\])*"
PATH = re.compile(_PATH)
LABEL = re.compile(r"\w+(?:\.\w+)*")
# A target: F.linear, .view, aten.mm, get_attr[scale], f.<locals>.g.
TARGET = re.compile(r"[\w.<>:+*|$-]+(?:\[[\w.]+\])?")
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|inf)|nan")
_DTYPE = re.compile(r"torch\.\w+")
_ESCAPE = r"\\(?:[\"`\\nrt]|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4})"
STRING = re.compile(rf'"(?:[^"\\\x00-\x1f]|{_ESCAPE})*"')
QUOTED = re.compile(rf"`(?:[^`\\\x00-\x1f]|{_ESCAPE})*`")
_WORD = re.compile(r"[^\W\d]\w*")
_TAG = re.compile(r"(device|layout|memory_format|complex|sym|function|repr)\(")

OPERAND = re.compile(rf"{STRING.pattern}|%[\w.]+|@\w+|[%@]?{QUOTED.pattern}|(?<![\w.@%]){_PATH}(?![\w.=\[(])")
"""Finds what may be an operand in written arguments; strings and quoted keywords are matched so as to be passed over."""


class Malformed(Exception):
    """Text that is not what a file holds: ``at`` is the offset in the word, ``why`` what was expected."""

    def __init__(self, why: str, at: int = 0):
        super().__init__(why)
        self.why, self.at = why, at


_SHORT = {"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
_LONG = {short[1]: char for char, short in _SHORT.items()} | {'"': '"', "`": "`"}


def _escape(text: str, quote: str) -> str:
    """Python's escapes for the quote, backslashes and all that does not print, and for the second of two spaces."""
    if not text.isprintable():
        text = "".join([_char(c) for c in text])
    elif "\\" in text:
        text = text.replace("\\", r"\\")
    if quote in text:
        text = text.replace(quote, "\\" + quote)
    return text.replace("  ", r" \u0020") if "  " in text else text


def _char(c: str) -> str:
    if c.isprintable() and c != "\\":
        return c
    return _SHORT.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}")


def _unescape(match: re.Match) -> str:
    code = match[0][1:]
    return chr(int(code[1:], 16)) if code[0] in "uU" else _LONG[code]


def string(text: str) -> str:
    """A string in double quotes."""
    return f'"{_escape(text, chr(34))}"'


def quoted(name: str) -> str:
    """A name in backticks."""
    return f"`{_escape(name, '`')}`"


def unquote(text: str) -> str:
    """The value of a whole quoted name or string."""
    pattern = QUOTED if text[:1] == "`" else STRING
    if not pattern.fullmatch(text):
        raise Malformed("a quoted name that is not closed, or an unknown escape in it")
    return re.sub(_ESCAPE, _unescape, text[1:-1])


def operand_name(name: str) -> str:
    """An input's name as it is written where it is used."""
    if (
        PATH.fullmatch(name)
        and name not in _RESERVED
        and not SYMBOL.fullmatch(name)
        and not name.startswith("torch.")
    ):
        return name
    return quoted(name)


def label_name(label: str) -> str:
    """A node's label behind its ``%``, a body's name behind its ``@``."""
    return label if LABEL.fullmatch(label) else quoted(label)


def body_name(name: str) -> str:
    return name if _WORD.fullmatch(name) else quoted(name)


def target_name(target: str) -> str:
    return target if TARGET.fullmatch(target) else quoted(target)


def keyword(name: str) -> str:
    """A keyword argument's name."""
    return name if _WORD.fullmatch(name) else quoted(name)


def field(text: str) -> str:
    """One column of a line: bare when that can be read back, ``-`` when empty, else quoted."""
    if not text:
        return "-"
    return text if is_plain(text) and text != "-" else quoted(text)


def is_plain(text: str) -> bool:
    """Whether text can stand in a column without quotes."""
    return text.isprintable() and "  " not in text and text.strip(" ") == text and text[:1] != "`"


def read_field(text: str) -> str:
    """The value of one column."""
    if text[:1] == "`":
        return unquote(text)
    if not text or not is_plain(text):
        raise Malformed("a column that is empty or needs quotes")
    return "" if text == "-" else text


def operand_text(text: str) -> str:
    """The canonical spelling of a reference, so that `` %`a` `` finds what is written ``%a``."""
    mark = text[0] if text[0] in "%@" else ""
    name = text[len(mark) :]
    if name[:1] != "`":
        return text
    name = unquote(name)
    if not mark:
        return operand_name(name)
    return mark + (label_name(name) if mark == "%" else body_name(name))


class _Template:
    """Checks one template by recursive descent."""

    def __init__(self, text: str):
        self.text, self.at = text, 0

    def fail(self, why: str) -> Malformed:
        return Malformed(why, self.at)

    def eat(self, token: str) -> bool:
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def match(self, pattern: re.Pattern) -> str | None:
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found[0]

    def arguments(self) -> Iterator[tuple[str | None, object]]:
        """Each argument of a call with its keyword; raises Malformed at the first that is none."""
        while self.at < len(self.text):
            yield self.keyword(), self.value(0)
            if self.at < len(self.text) and not self.eat(", "):
                raise self.fail("expected a comma and one space between arguments")
            if self.at == len(self.text) and self.text.endswith(", "):
                raise self.fail("expected an argument after the comma")

    def keyword(self) -> str | None:
        start = self.at
        name = self.match(_WORD) or self.match(QUOTED)
        if name is not None and self.eat("="):
            return unquote(name) if name[0] == "`" else name
        self.at = start
        return None

    def value(self, depth: int) -> object:
        if depth > MAX_DEPTH:
            raise self.fail(f"arguments nested deeper than {MAX_DEPTH} levels")
        if self.eat(SLOT):
            return Operand
        if self.eat("["):
            return self.items("]", lambda: self.value(depth + 1))
        if self.eat("{"):
            return {"dict": self.items("}", lambda: self.pair(depth + 1))}
        if self.eat("slice("):
            return {"slice": self.items(")", lambda: self.value(depth + 1), 3)}
        return self.leaf()

    def items(self, close: str, read: Callable[[], object], count: int | None = None) -> tuple:
        found: list = []
        while not self.eat(close):
            if found and not self.eat(", "):
                raise self.fail(f"expected a comma and one space, or {close}")
            found.append(read())
        if count is not None and len(found) != count:
            raise self.fail(f"expected {count} items")
        return tuple(found)

    def pair(self, depth: int) -> tuple[object, object]:
        key = self.value(depth)
        if not self.eat(": "):
            raise self.fail("expected a colon and one space after a key")
        return key, self.value(depth)

    def leaf(self) -> object:
        start = self.at
        tag = self.match(_TAG)
        if tag is not None:
            text = self.match(STRING)
            if text is None or not self.eat(")"):
                raise self.fail(f"expected one string in {tag}…)")
            return {tag[:-1]: unquote(text)}
        text = self.match(STRING)
        if text is not None:
            return unquote(text)
        for pattern, read in _LEAVES:
            text = self.match(pattern)
            if text is not None and not self.text[self.at : self.at + 1].isidentifier():
                return read(text)
            self.at = start
        raise self.fail(f"expected an argument, not {_excerpt(self.text[start:])}")


def _excerpt(text: str) -> str:
    text = text.replace(SLOT, "%")
    return repr(text if len(text) <= 30 else text[:29] + "…") if text else "the end"


class Operand:
    """Stands for an operand among the values that ``read_template`` gives."""


def _number(text: str) -> object:
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text) if len(text) < 4000 else {"repr": text}
    return float(text)


_LEAVES: tuple[tuple[re.Pattern, Callable[[str], object]], ...] = (
    (re.compile(r"None|True|False"), {"None": None, "True": True, "False": False}.__getitem__),
    (_NUMBER, _number),
    (re.compile(r"\.\.\."), lambda text: ...),
    (_DTYPE, lambda text: {"dtype": text.removeprefix("torch.")}),
    (SYMBOL, lambda text: {"sym": text}),
)


def read_template(template: str) -> list[tuple[str | None, object]]:
    """The arguments of a template as (keyword or None, value).

    Values are Python's; an operand is the class Operand, what Python has no type for a dict with one key that names
    the type (``{"dtype": "float32"}``). Raises Malformed.
    """
    return list(_Template(template).arguments())


def argument_texts(template: str) -> list[str]:
    """The text of each argument of a template, its keyword included. Raises Malformed."""
    reader, found, start = _Template(template), [], 0
    for _ in reader.arguments():
        found.append(template[start : reader.at])
        start = reader.at + len(", ")
    return found
