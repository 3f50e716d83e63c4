"""Which modules are shown as one line: numbered siblings that are alike.

Two are alike when their classes, their own parameters and all that is inside them agree. ``layers.0`` and ``layers.1`` of a
transformer are ``layers.*``; the members of a Sequential of different layers keep their numbers, those of them that are alike
share a line: ``net.0,2``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..model import CaptureRecord, HeldTensor

MOST_RUNS = 3
"""Runs of numbers that a label names; the others are ``…``."""


class Folding:
    """Labels of module paths. ``classes`` maps paths to class names, ``held`` are the parameters; ``paths`` may name more."""

    def __init__(
        self, classes: Mapping[str, str], held: Iterable[HeldTensor] = (), paths: Iterable[str] = ()
    ):
        self._classes = classes
        self._own: dict[str, list[tuple[str, int]]] = {}
        self._children: dict[str, dict[str, None]] = {}
        for tensor in held:
            owner, _, name = tensor.name.rpartition(".")
            self._own.setdefault(owner, []).append((name, tensor.numel))
            self._add(owner)
        for path in (*classes, *paths):
            self._add(path)
        self._kinds: dict[str, int] = {}
        self._numbers: dict[Any, int] = {}
        self._labels: dict[str, str] = {"": ""}

    @classmethod
    def of(cls, record: CaptureRecord, held: Iterable[HeldTensor]) -> Folding:
        """That of a capture; ``held`` are the parameters of its model."""
        classes = {path: kind for graph in record.graphs for path, kind in graph.modules.items()}
        if record.dryrun is not None:
            classes |= record.dryrun.modules
        sources = {n.source.module for g in record.graphs for n in g.nodes if n.source is not None}
        return cls(classes, held, sources)

    def _add(self, path: str) -> None:
        while path:
            parent, _, name = path.rpartition(".")
            known = self._children.setdefault(parent, {})
            if name in known:
                return
            known[name] = None
            path = parent

    def label(self, path: str) -> str:
        """The path under which a module is shown."""
        known = self._labels.get(path)
        if known is None:
            parent, _, name = path.rpartition(".")
            if name.isdecimal() and name in self._children.get(parent, ()):
                self._label_numbered(parent)
                return self._labels[path]
            known = self._labels[path] = _under(self.label(parent), name)
        return known

    def _label_numbered(self, parent: str) -> None:
        """Labels all numbered children: ``*`` where they are all alike, else the numbers of those that are."""
        above = self.label(parent)
        numbered = [c for c in self._children[parent] if c.isdecimal()]
        alike: dict[int, list[str]] = {}
        for child in numbered:
            alike.setdefault(self._kind(_under(parent, child)), []).append(child)
        for members in alike.values():
            label = "*" if len(members) == len(numbered) > 1 else _numbers(members)
            for member in members:
                self._labels[_under(parent, member)] = _under(above, label)

    def _kind(self, path: str) -> int:
        """A number that alike modules share."""
        known = self._kinds.get(path)
        if known is None:
            inside = sorted([(name, self._kind(_under(path, name))) for name in self._children.get(path, ())])
            shape = (self._classes.get(path, ""), tuple(sorted(self._own.get(path, ()))), tuple(inside))
            known = self._kinds[path] = self._numbers.setdefault(shape, len(self._numbers))
        return known


def _under(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name


def _numbers(members: list[str]) -> str:
    """``0,2`` or ``1-4``: runs of numbers, the first few."""
    runs: list[list[int]] = []
    for number in sorted(map(int, members)):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [f"{r[0]}-{r[-1]}" if len(r) > 2 else ",".join(map(str, r)) for r in runs]
    return ",".join(texts[:MOST_RUNS]) + (",…" if len(texts) > MOST_RUNS else "")


__all__ = ["Folding"]
