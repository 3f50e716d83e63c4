"""Two graphs as one, for pictures: what is only old, only new, changed or equal."""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct

from ..model.snapshot import Graph, Node
from .edits import Diff, Edit, GraphDiff


class MergedNode(Struct, frozen=True):
    """A node of either graph or of both. ``mark`` is ``same``, ``added``, ``removed`` or ``changed``.

    ``operands`` are positions in the merged graph's ``inputs`` and ``nodes`` together; ``old_operands`` those that only the
    old graph had.
    """

    mark: str
    old: Node | None
    new: Node | None
    operands: tuple[int, ...]
    old_operands: tuple[int, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def node(self) -> Node:
        """The node as it is now, or as it was when it is gone."""
        return self.new if self.new is not None else self.old  # type: ignore[return-value]


class MergedInput(Struct, frozen=True):
    """An input of either graph or of both."""

    mark: str
    name: str
    edits: tuple[Edit, ...] = ()


class MergedGraph(Struct, frozen=True):
    """Both graphs in one order that keeps operands before their users."""

    title: str
    inputs: tuple[MergedInput, ...]
    nodes: tuple[MergedNode, ...]
    outputs: tuple[int, ...]
    old_outputs: tuple[int, ...] = ()


def merged_graph(old: Graph | None, new: Graph | None, diff: GraphDiff | Diff) -> MergedGraph:
    """Both graphs of one pair as one. ``diff`` is the pair's GraphDiff, or the whole Diff that holds it."""
    if isinstance(diff, Diff):
        diff = next(g for g in diff.graphs if g.old is old and g.new is new)
    return _Merge(old or Graph(""), new or Graph(""), diff).result()


class _Merge:
    def __init__(self, old: Graph, new: Graph, diff: GraphDiff):
        self.old, self.new, self.title = old, new, diff.title
        self.partner = {j: i for i, j in diff.pairs}
        self.new_input = dict(diff.inputs)
        self.by_node: dict[int, list[Edit]] = defaultdict(list)
        self.by_old: dict[int, list[Edit]] = defaultdict(list)
        self.by_input: dict[str, list[Edit]] = defaultdict(list)
        for edit in diff.edits:
            if edit.graph != diff.title:
                continue
            if edit.node is not None:
                self.by_node[edit.node].append(edit)
            elif edit.old_node is not None:
                self.by_old[edit.old_node].append(edit)
            elif edit.kind.startswith(("input", "type", "dim")):
                self.by_input[edit.target.partition(".shape[")[0]].append(edit)
        self.old_at: dict[int, int] = {}
        self.new_at: dict[int, int] = {}

    def result(self) -> MergedGraph:
        inputs = self.inputs()
        order = self.order()
        for place, (i, j) in enumerate(order, len(inputs)):
            if i is not None:
                self.old_at[len(self.old.inputs) + i] = place
            if j is not None:
                self.new_at[len(self.new.inputs) + j] = place
        nodes = tuple([self.node(i, j) for i, j in order])
        outputs = self.places(self.new.output.operands, self.new_at)
        return MergedGraph(
            self.title, inputs, nodes, outputs, self.places(self.old.output.operands, self.old_at)
        )

    def inputs(self) -> tuple[MergedInput, ...]:
        """The new graph's inputs, then those that are gone."""
        kept = set(self.new_input.values())
        found = []
        for k, entry in enumerate(self.new.inputs):
            self.new_at[k] = k
            edits = tuple(self.by_input.get(entry.name, ()))
            mark = "added" if k not in kept else "changed" if edits else "same"
            found.append(MergedInput(mark, entry.name, edits))
        for k, entry in enumerate(self.old.inputs):
            self.old_at[k] = self.new_input.get(k, len(found))
            if k not in self.new_input:
                found.append(MergedInput("removed", entry.name, tuple(self.by_input.get(entry.name, ()))))
        return tuple(found)

    def order(self) -> list[tuple[int | None, int | None]]:
        """Old and new node of each merged one: the new order, each removed node as early as its operands allow."""
        new_of = {i: j for j, i in self.partner.items()}
        first = len(self.old.inputs)
        after: dict[int, list[int]] = defaultdict(
            list
        )  # new index (-1: at the start) -> removed nodes behind it
        depth: dict[int, int] = {}
        for i, node in enumerate(self.old.nodes):
            if i in new_of:
                depth[i] = new_of[i]
                continue
            depth[i] = max([depth[o - first] for o in node.operands if o >= first], default=-1)
            after[depth[i]].append(i)
        order: list[tuple[int | None, int | None]] = [(i, None) for i in after[-1]]
        for j in range(len(self.new.nodes)):
            order.append((self.partner.get(j), j))
            order += [(i, None) for i in after[j]]
        return order

    def node(self, i: int | None, j: int | None) -> MergedNode:
        old = self.old.nodes[i] if i is not None else None
        new = self.new.nodes[j] if j is not None else None
        before = self.places(old.operands, self.old_at) if old is not None else ()
        if new is None:
            return MergedNode("removed", old, None, before, before, tuple(self.by_old[i]))
        now = self.places(new.operands, self.new_at)
        edits = tuple(self.by_node[j])
        mark = "added" if old is None else "changed" if edits else "same"
        return MergedNode(mark, old, new, now, tuple([p for p in before if p not in now]), edits)

    @staticmethod
    def places(operands: tuple[int, ...], at: dict[int, int]) -> tuple[int, ...]:
        return tuple([at[o] for o in operands if o >= 0])
