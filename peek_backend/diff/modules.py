"""Which submodule has another name: its parameters are known by paths, so each would read as removed and added.

A module counts as renamed when all inputs below its old path have a partner of equal type below the new one, and no other.
Parameters are matched by the rest of their path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from ..model.snapshot import Input


def renamed_modules(old: Sequence[Input], new: Sequence[Input]) -> dict[str, str]:
    """Old path to new path of renamed modules (or of a parameter alone), the outermost that fits."""
    gone, come = _left(old, new), _left(new, old)
    if not gone or not come:
        return {}
    paths = _Paths(old), _Paths(new)
    found: dict[str, str] = {}
    for a, b in _candidates(gone, come):
        if any(_below(a, path) or _below(b, found[path]) for path in found):
            continue
        if _is_rename(a, b, *paths):
            found[a] = b
    return found


def renamed_path(name: str, modules: Mapping[str, str]) -> str:
    """An input's or module's path under its new name."""
    if not modules:
        return name
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        path = ".".join(parts[:k])
        if path in modules:
            return ".".join([modules[path], *parts[k:]])
    return name


def _left(side: Sequence[Input], other: Sequence[Input]) -> list[Input]:
    """Parameters and buffers that the other side does not name."""
    names = {entry.name for entry in other}
    return [entry for entry in side if entry.name not in names and _is_path(entry.name)]


def _is_path(name: str) -> bool:
    return "." in name and "[" not in name


def _below(path: str, module: str) -> bool:
    return path == module or path.startswith(f"{module}.")


class _Paths:
    """The inputs of one graph by every module that they are in, as (rest of the path, type)."""

    def __init__(self, inputs: Iterable[Input]):
        self._found: dict[str, set[Hashable]] = defaultdict(set)
        for entry in inputs:
            parts = entry.name.split(".")
            for k in range(1, len(parts) + 1):
                self._found[".".join(parts[:k])].add((".".join(parts[k:]), entry.type))

    def under(self, module: str) -> set[Hashable]:
        return self._found.get(module, set())


def _candidates(gone: Iterable[Input], come: Iterable[Input]) -> Iterator[tuple[str, str]]:
    """Pairs of paths that one input's new name may come of, the outermost first: inputs of equal leaf and type in order."""
    places: dict[Hashable, list[Input]] = defaultdict(list)
    for entry in come:
        places[_key(entry)].append(entry)
    found: dict[tuple[str, str], None] = {}
    for entry in gone:
        partners = places[_key(entry)]
        if partners:
            found |= dict.fromkeys(_splits(entry.name, partners.pop(0).name))
    yield from sorted(found, key=lambda pair: pair[0].count("."))


def _key(entry: Input) -> Hashable:
    """What a renamed input keeps: its own name within its module, and its type."""
    return entry.name.rpartition(".")[2], entry.type


def _splits(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Where two paths differ, from the innermost modules to the outermost: ``a.b.w``, ``a.c.w`` give ``a.b``, ``a.c``."""
    a, b = old.split("."), new.split(".")
    tail = 0
    while tail < min(len(a), len(b)) - 1 and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    for shared in range(1, tail + 1):
        yield ".".join(a[: len(a) - shared]), ".".join(b[: len(b) - shared])


def _is_rename(a: str, b: str, old: _Paths, new: _Paths) -> bool:
    """Whether all that was below ``a``, and nothing else, is below ``b`` now, and neither path is on both sides."""
    below = old.under(a)
    return bool(below) and below == new.under(b) and not new.under(a) and not old.under(b)
