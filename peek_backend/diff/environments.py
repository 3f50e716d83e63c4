"""How the environments of two snapshots differ: torch, Python, device, and how a test asked for the capture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..model.snapshot import Snapshot
from .edits import GraphDiff
from .inputs import is_argument

# ``x:0`` and ``batch['ids']:1`` of ``mark(x:0,batch['ids']:1)``: the argument's own name, what is inside of it, the dim.
_MARK = re.compile(r"([^,\[\].:(]+)([^,]*?):(-?[0-9]+)(?=[,)])")


def differences(old: Snapshot, new: Snapshot, graphs: Sequence[GraphDiff]) -> Iterator[tuple[str, str, str]]:
    """(key, old, new) of each entry of the headers that differs.

    Marks are the same in any order, and under the new names of arguments: neither changes how a graph is made.
    """
    before, after = dict(old.env), dict(new.env)
    for key in dict.fromkeys([*before, *after]):
        left, right = before.get(key, ""), after.get(key, "")
        if left != right and not (key == "dynamic" and _same_marks(left, right, graphs)):
            yield key, left, right


def _same_marks(left: str, right: str, graphs: Sequence[GraphDiff]) -> bool:
    if not (left.startswith("mark(") and right.startswith("mark(")):
        return False
    return sorted(_marks(left, _renamed(graphs))) == sorted(_marks(right, {}))


def _marks(text: str, renamed: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [
        (renamed.get(name, name), inside, dim)
        for name, inside, dim in _MARK.findall(text.removeprefix("mark("))
    ]


def _renamed(graphs: Sequence[GraphDiff]) -> dict[str, str]:
    """Old to new name of the arguments of functions; a resume function's are locals, which no test marks."""
    found: dict[str, str] = {}
    for graph in graphs:
        if graph.old is None or graph.new is None or graph.new.resume:
            continue
        for i, j in graph.inputs:
            was, now = graph.old.inputs[i], graph.new.inputs[j]
            if is_argument(was) and is_argument(now):
                found.setdefault(_root(was.name), _root(now.name))
    return found


def _root(name: str) -> str:
    return name.partition("[")[0]
