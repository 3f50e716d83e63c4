"""The containers of a graph as columns: the module tree, runs of equal siblings put into one fold.

Comes in: a graph with its ``Module`` tree. Goes out: a column a field, parents first. A container's nodes are ``seq[lo:hi]``,
where ``seq`` is the tree's depth-first order; ``hash`` is equal where structure is; ``note`` says in what the members of a fold
differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ...passes.hierarchy import Item, Module, walk
from ...passes.repeats import Difference, Repeat, describe_run
from .. import labels
from ..fold import equal_runs
from ..view import GraphView

MAX_NOTES = 12
"""Differences that a fold's note lists."""


class Row(NamedTuple):
    """One container: its row's parent, its nodes, its texts."""

    parent: int
    lo: int
    hi: int
    label: str
    type: str
    path: str
    kind: str
    hash: int
    note: str


def container_columns(view: GraphView, text: Callable[[str], int]) -> dict[str, list]:
    """One column for each field of Row (``type`` as ``class``), texts as the numbers that ``text`` gives them."""
    rows = list(_Walker(view).rows())
    return {
        "parent": [r.parent for r in rows],
        "lo": [r.lo for r in rows],
        "hi": [r.hi for r in rows],
        "label": [text(r.label) for r in rows],
        "class": [text(r.type) for r in rows],
        "path": [text(r.path) for r in rows],
        "kind": [r.kind for r in rows],
        "hash": [r.hash for r in rows],
        "note": [text(r.note) if r.note else -1 for r in rows],
    }


class Fold(NamedTuple):
    """A run of equal siblings; the first is shown by itself, the others are the fold."""

    parent: Module
    run: list[Module]


class _Walker:
    """Numbers the containers of one graph, parents first, folds included."""

    def __init__(self, view: GraphView):
        self.graph, self.root = view.graph, view.tree
        self.keys, self.reads, self.names = view.structure, view.reads, view.names
        self.lengths = _lengths(view.tree)
        self.count = 0

    def rows(self) -> Iterator[Row]:
        """Every container and fold in depth-first order."""
        stack: list[tuple[Module | Fold, int, int]] = [(self.root, -1, 0)]
        while stack:
            at, parent, lo = stack.pop()
            number, self.count = self.count, self.count + 1
            yield self._fold(at, parent, lo) if isinstance(at, Fold) else self._module(at, parent, lo)
            stack.extend(reversed(list(self._inside(at, number, lo))))

    def _inside(self, at: Module | Fold, number: int, lo: int) -> Iterator[tuple[Any, int, int]]:
        """Containers in ``at``; of a run of three or more the first stands alone, the others in a fold."""
        items: Iterable[Item | Fold] = at.run[1:] if isinstance(at, Fold) else self._folded(at)
        for item in items:
            if not isinstance(item, int):
                yield item, number, lo
            lo += 1 if isinstance(item, int) else self._length(item)

    def _length(self, item: Module | Fold) -> int:
        """Nodes in a container or fold."""
        return (
            sum(self.lengths[id(m)] for m in item.run[1:])
            if isinstance(item, Fold)
            else self.lengths[id(item)]
        )

    def _folded(self, module: Module) -> Iterator[Item | Fold]:
        for run in equal_runs(module.items, self.keys):
            if isinstance(run, int):
                yield run
            elif len(run) < 3:
                yield from run
            else:
                yield run[0]
                yield Fold(module, run)

    def _module(self, module: Module, parent: int, lo: int) -> Row:
        key = self.keys.get(module.path, -1)
        return Row(
            parent,
            lo,
            lo + self._length(module),
            _label(module),
            module.class_name,
            module.path,
            module.kind,
            key,
            "",
        )

    def _fold(self, fold: Fold, parent: int, lo: int) -> Row:
        second, last = fold.run[1], fold.run[-1]
        same = _label(second) == _label(last)
        label = (
            _label(second)
            if same
            else f"{_label(second)} … {last.name.removeprefix(second.name.rstrip('0123456789'))}"
        )
        note = self._note(describe_run(self.graph, fold.parent, fold.run, self.reads))
        key = self.keys.get(second.path, -1)
        return Row(parent, lo, lo + self._length(fold), label, second.class_name, "", "fold", key, note)

    def _note(self, repeat: Repeat) -> str:
        """One line a difference between the members, or that there is none."""
        if not repeat.differences:
            return f"Built exactly like {repeat.paths[0]}"
        lines = [self._difference(d) for d in repeat.differences[:MAX_NOTES]]
        more = len(repeat.differences) - MAX_NOTES
        return "\n".join(lines + ([f"{more} more differences"] if more > 0 else []))

    def _difference(self, difference: Difference) -> str:
        variants = [
            f"{self._value(difference.what, value)} in {_paths(paths)}"
            for value, paths in difference.values[:4]
        ]
        more = f", {len(difference.values) - 4} more" if len(difference.values) > 4 else ""
        return (
            f"{labels.name_text(self.names[difference.node])}, {difference.what}: {'; '.join(variants)}{more}"
        )

    def _value(self, what: str, value: Any) -> str:
        if what == "value":
            return labels.value_text(value)
        if what == "reads":
            return ", ".join(
                labels.name_text(self.names[i]) for i in (value if isinstance(value, tuple) else (value,))
            )
        return labels.arg_text(value, self.names)


def _label(module: Module) -> str:
    """The name, with the parent's before a mere number: ``layers.0``."""
    above = module.path.rpartition(".")[0].rpartition(".")[2]
    return f"{above}.{module.name}" if above and module.name[:1].isdigit() else module.name


def _paths(paths: tuple[str, ...]) -> str:
    return ", ".join(paths) if len(paths) <= 3 else f"{paths[0]}, {paths[1]} and {len(paths) - 2} more"


def _lengths(root: Module) -> dict[int, int]:
    """Nodes in every container, by ``id``."""
    found: dict[int, int] = {}
    for module in reversed(list(walk(root))):
        found[id(module)] = sum(1 if isinstance(item, int) else found[id(item)] for item in module.items)
    return found
