"""What a diff is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ..model.snapshot import Graph, Place

FAIL: dict[str, str] = {
    "break:added": "new graph break",
    "frame:skipped": "frame left in eager",
    "capture:nothing": "nothing was captured",
    "graph:added": "new graph",
    "recompile:added": "new recompile",
    "dim:static": "dim became static",
    "dim:joined": "sizes are now one symbol",
    "op:added": "op added",
    "op:removed": "op removed",
    "op:changed": "op changed",
    "op:constant": "constant changed",
    "op:rewired": "operands changed",
    "op:order": "effects reordered",
    "type:dtype": "dtype changed",
    "type:device": "device changed",
    "type:requires_grad": "requires_grad changed",
    "type:shape": "shape changed",
    "type:other": "kind of value changed",
    "input:added": "input added",
    "input:removed": "input removed",
    "module:added": "module added",
    "module:removed": "module removed",
    "output:changed": "outputs changed",
    "range:narrowed": "range is narrower",
    "guard:added": "new guard",
    "ops:more": "more ops",
}
"""Kinds that fail by default, each with its words."""

WARN: dict[str, str] = {
    "type:stride": "strides changed",
    "constant:tolerance": "constant changed within tolerance",
    "input:order": "order of inputs changed",
    "module:renamed": "module renamed",  # the graph is the same, the keys of a state_dict are others
    "break:removed": "graph break is gone",
    "frame:captured": "frame is captured now",
    "graph:removed": "graph is gone",
    "recompile:removed": "recompile is gone",
    "dim:dynamic": "dim became dynamic",
    "dim:split": "sizes are no longer one symbol",
    "range:widened": "range is wider",
    "guard:removed": "guard is gone",
    "ops:fewer": "fewer ops",
}
"""Kinds that warn by default, and fail when strict."""

INFO: dict[str, str] = {
    "name": "renamed",
    "module": "moved to another module path",
    "order": "reordered",
    "source": "source text changed",
    "symbol": "symbol renamed",
    "input:renamed": "input renamed",
    "frame:renamed": "frame renamed",
    "break:reason": "another reason for a graph break",
    "frame:reason": "another reason for eager",
    "recompile:reason": "another reason for a recompile",
    "note": "another note",
}
"""Kinds that never fail."""

KINDS: dict[str, str] = FAIL | WARN | INFO
IMPROVEMENTS = frozenset(
    {
        "break:removed",
        "frame:captured",
        "graph:removed",
        "recompile:removed",
        "dim:dynamic",
        "dim:split",
        "range:widened",
        "guard:removed",
        "ops:fewer",
    }
)
"""Kinds by which a capture got better."""


class Edit(Struct, frozen=True, omit_defaults=True):
    """One change.

    ``graph`` is the title of the graph (``f ▸ resume#1``), with the body's name behind a slash. ``module`` and ``target`` are
    what an allowance is matched with. ``text`` says what it is about (``operator.mul(%gelu, 1.0001)``), ``old`` and ``new``
    what was before and after, where that says more. ``node`` and ``old_node`` index the nodes of the graph (of its body).
    ``follows`` counts the types that changed because of this, ``sample`` is one of them. ``count`` is more than 1 only for
    kinds that are told as a number (``20 nodes renamed``). ``delta`` is a constant's change, relative to the larger value.
    ``leads_to`` are the kinds of edits that follow from a break, each with what is told of it, or nothing. ``inside`` are the
    edits that a module which came or went whole stands for.
    """

    kind: str
    graph: str = ""
    module: str = ""
    target: str = ""
    text: str = ""
    old: str = ""
    new: str = ""
    place: Place | None = None
    node: int | None = None
    old_node: int | None = None
    follows: int = 0
    sample: str = ""
    count: int = 1
    delta: float | None = None
    leads_to: tuple[tuple[str, str], ...] = ()
    inside: tuple[Edit, ...] = ()


Pairs = tuple[tuple[int, int], ...]
"""Indices of what is the same, old and new."""


class GraphDiff(Struct, frozen=True):
    """Two graphs side by side; one is None when the other is new or gone.

    ``pairs`` are indices of nodes that are the same op, old and new, in order of the new one, ``inputs`` those of inputs;
    ``bodies`` the indices of each pair of bodies, old and new, with their pairs and inputs. ``edits`` are those of this graph,
    its bodies' among them.
    """

    title: str
    old: Graph | None
    new: Graph | None
    pairs: Pairs = ()
    bodies: tuple[tuple[int, int, Pairs, Pairs], ...] = ()
    edits: tuple[Edit, ...] = ()
    inputs: Pairs = ()


class Group(Struct, frozen=True):
    """Equal edits, told as one line: ``op added ×24   layers.*.mlp``. ``edits`` are in order of the graphs."""

    kind: str
    module: str
    text: str
    old: str
    new: str
    edits: tuple[Edit, ...]

    @property
    def count(self) -> int:
        return sum(edit.count for edit in self.edits)

    @property
    def follows(self) -> int:
        return sum(edit.follows for edit in self.edits)

    @property
    def leads_to(self) -> tuple[tuple[str, str], ...]:
        return tuple(dict.fromkeys([lead for edit in self.edits for lead in edit.leads_to]))

    @property
    def first(self) -> Edit:
        return self.edits[0]


class Diff(Struct, frozen=True):
    """All that changed between two snapshots. ``env`` holds (key, old, new) of what differs in the headers.

    ``graphs`` are all pairs of graphs, equal ones too; ``edits`` all edits in order of the new capture.
    """

    name: str
    env: tuple[tuple[str, str, str], ...]
    graphs: tuple[GraphDiff, ...]
    edits: tuple[Edit, ...]
    old_stats: dict[str, int]
    new_stats: dict[str, int]

    @property
    def is_empty(self) -> bool:
        """Whether the two are the same program; differences that are only told for information do not count."""
        return all(edit.kind in INFO for edit in self.edits)

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(group_edits(self.edits))


_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_LABEL = re.compile(r"(%\w[\w.]*)")
_COUNT = re.compile(r"_\d+$")
# A dotted path in a text: its numbers are left open, those of 0.5 are not.
_PATH = re.compile(r"[^\W\d]\w*(?:\.\w+)+")


def pattern(path: str) -> str:
    """A module path with its numbers as ``*``: ``layers.*.mlp``."""
    return _NUMBER.sub("*", path)


def _general(text: str) -> str:
    """A text in which only the counts behind labels and the numbers in paths are left open: ``%mul`` is the first ``%mul_*``."""
    counted = _LABEL.sub(lambda label: f"{_COUNT.sub('', label[0])}_*", text)
    return _PATH.sub(lambda path: pattern(path[0]), counted)


def _common(texts: Sequence[str]) -> str:
    """Texts of one general form as one: a label that all have stays as it is."""
    pieces = [_LABEL.split(text) for text in texts]
    if len({len(piece) for piece in pieces}) > 1:
        return _general(texts[0])
    columns = zip(*pieces, strict=True)
    return "".join([column[0] if len(set(column)) == 1 else _general(column[0]) for column in columns])


def group_edits(edits: Iterable[Edit]) -> list[Group]:
    """Edits that are equal but for the numbers in their paths, in order of each first one."""
    found: dict[tuple, list[Edit]] = {}
    for edit in edits:
        key = (
            edit.kind,
            pattern(edit.module),
            _general(edit.target),
            _general(edit.text),
            _general(edit.old),
            _general(edit.new),
        )
        found.setdefault(key, []).append(edit)
    return [_group(list_) for list_ in found.values()]


def _group(edits: list[Edit]) -> Group:
    first = edits[0]
    if len(edits) == 1:
        return Group(first.kind, first.module, first.text, first.old, first.new, (first,))
    same = all(e.module == first.module for e in edits)
    texts = [_common([getattr(edit, key) for edit in edits]) for key in ("text", "old", "new")]
    return Group(first.kind, first.module if same else pattern(first.module), *texts, tuple(edits))
