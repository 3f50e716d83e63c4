"""The header of a ``.graph`` file: the keys that it must have, no others, each once.

A key that is misspelt would otherwise read as another environment, and a comparison between environments gates on less.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..errors import nearest
from .graphfile_text import QUOTED, Malformed, unquote

LINES = ("name", "env", "stats", "cost", "note")
"""The words with which lines of the header start, in their order."""

REQUIRED = ("torch", "py", "device", "grad")
"""Keys of the ``env`` line that each file has."""
OPTIONAL = ("dynamic", "run")
"""Keys that only some have: the sizes marked dynamic, the command that takes the snapshot again."""
UNKNOWN = "unknown"
"""The version of what a capture does not name."""

COSTS = ("flops", "bytes", "parameters", "peak_memory")
"""Keys of the ``cost`` line."""

_COUNT = re.compile(r"0|[1-9][0-9]{0,400}")
_VERSION = rf"[0-9]{{1,5}}\.[0-9]{{1,5}}|{UNKNOWN}"
_VALUES: dict[str, tuple[re.Pattern, str]] = {
    "torch": (re.compile(_VERSION), "two numbers, such as 2.13"),
    "py": (re.compile(_VERSION), "two numbers, such as 3.11"),
    "grad": (re.compile("on|off|mixed"), "on, off or mixed"),
    "dynamic": (re.compile(r"on|off|mark\(.+:-?[0-9]+\)", re.DOTALL), "on, off or mark(x:0)"),
}
_ENV = re.compile(rf"([^\s`=]+|{QUOTED.pattern})=([^\s`=]+|{QUOTED.pattern})(?: |$)")


def misspelt(word: str, known: Iterable[str]) -> str:
    """``did you mean 'torch'? known: device, …`` for a word that is none of ``known``."""
    close = nearest(word, known)
    return (f"did you mean {close!r}? " if close else "") + f"known: {', '.join(known)}"


def read_env(text: str) -> tuple[tuple[str, str], ...]:
    """Keys and values of an ``env`` line, in its order. Raises Malformed for a key that is unknown, twice there or missing."""
    pairs: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _ENV.match(text, at)
        if found is None:
            raise Malformed("expected key=value and one space between them", at)
        key, value = (unquote(word) if word[0] == "`" else word for word in found.groups())
        _check_pair(key, value, pairs, at)
        pairs[key] = value
        at = found.end()
    if text.endswith(" "):
        raise Malformed("expected key=value after the space", len(text) - 1)
    missing = [key for key in REQUIRED if key not in pairs]
    if missing:
        raise Malformed(f"there is no {missing[0]}=…: each file has {', '.join(REQUIRED)}", len(text))
    return tuple(pairs.items())


def _check_pair(key: str, value: str, before: Mapping[str, str], at: int) -> None:
    known = (*REQUIRED, *OPTIONAL)
    if key not in known:
        raise Malformed(f"unknown key {key!r}: {misspelt(key, known)}", at)
    if key in before:
        raise Malformed(f"{key}= is there twice", at)
    pattern, words = _VALUES.get(key, (None, ""))
    if pattern is not None and not pattern.fullmatch(value):
        raise Malformed(f"{key}={value[:40]} is none: expected {words}", at)


def read_cost(text: str) -> tuple[tuple[str, int], ...]:
    """Prices of a ``cost`` line. Raises Malformed for one that is unknown, twice there or no whole number."""
    found: dict[str, int] = {}
    at = 0
    for word in text.split(" "):
        key, equals, number = word.partition("=")
        if not equals or not _COUNT.fullmatch(number):
            raise Malformed("expected key=number", at)
        if key not in COSTS:
            raise Malformed(f"unknown price {key[:40]!r}: {misspelt(key, COSTS)}", at)
        if key in found:
            raise Malformed(f"{key}= is there twice", at)
        found[key] = int(number)
        at += len(word) + 1
    return tuple(found.items())


def check_stats(text: str, counts: Mapping[str, int]) -> None:
    """Raises Malformed unless ``text`` is the counts, key by key."""
    words, at = text.split(" "), 0
    seen: set[str] = set()
    for word in words:
        key = word.partition("=")[0]
        if key not in counts:
            raise Malformed(f"unknown count {key[:40]!r}: {misspelt(key, counts)}", at)
        if key in seen:
            raise Malformed(f"{key}= is there twice", at)
        seen.add(key)
        at += len(word) + 1
    missing = [key for key in counts if key not in seen]
    if missing:
        raise Malformed(f"there is no {missing[0]}=…", len(text))
    expected = " ".join(f"{key}={count}" for key, count in counts.items())
    if text != expected:
        why = f"the file is cut, edited by hand or merged: of the graphs below they are {expected}"
        raise Malformed(why)
