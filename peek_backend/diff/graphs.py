"""Edits between two graphs whose nodes are matched.

An edit is what a person did; what torch worked out from it (types further down, operands that now come through an
inserted op) is folded under it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from ..model.snapshot import Body, Call, Graph, Input, Node, Type
from ..passes.volatile import is_same_but_volatile
from ..snapshot.graphfile_print import fill
from ..snapshot.graphfile_types import type_text
from .edits import Edit, GraphDiff, Pairs
from .inputs import is_argument, match_inputs
from .match import Interner, Matching, Side, longest_increasing
from .modules import renamed_modules, renamed_path
from .outputs import paired_gradients, read_outputs
from .symbols import SymbolMap, TypeComparer, guard_edits, match_symbols, unbacked_range_edits
from .texts import call_text, change, delta, few, operand_texts, owner, place_key, short

_UNBACKED = re.compile(r"u[0-9]+")


def compare_graphs(old: Graph, new: Graph) -> GraphDiff:
    """Two graphs of the same frame: their matched nodes and all edits, those of their bodies too."""
    modules = renamed_modules(old.inputs, new.inputs)
    inputs = match_inputs(old.inputs, new.inputs, by_position=new.resume > 0, modules=modules)
    pairs = [(old.inputs[i], new.inputs[j]) for i, j in inputs]
    symbols, edits = match_symbols(old, new, pairs)
    edits = [*edits, *guard_edits(old, new, symbols)]
    edits += [Edit("module:renamed", new.title, owner(b), b, "", a, b) for a, b in modules.items()]
    words = Interner()
    root = _Comparison(old, new, new.title, inputs, symbols, words, edits, modules)
    found, bodies = list(root.edits()), []
    todo, seen = list(root.body_pairs()), set()
    while todo:
        a, b = todo.pop(0)
        if (a, b) in seen or a >= len(old.bodies) or b >= len(new.bodies):
            continue
        seen.add((a, b))
        left, right = old.bodies[a], new.bodies[b]
        inputs = match_inputs(left.inputs, right.inputs, by_position=True)
        title = f"{new.title}/{right.name}"
        inner = _Comparison(left, right, title, inputs, symbols, words, [], modules)
        found += inner.edits()
        bodies.append((a, b, inner.pairs(), tuple(inputs)))
        todo += inner.body_pairs()
    found += unbacked_range_edits(old, new, symbols)
    return GraphDiff(new.title, old, new, root.pairs(), tuple(bodies), tuple(found), tuple(root.inputs))


class _Comparison:
    """The edits of one pair of graphs or bodies."""

    def __init__(
        self,
        old: Graph | Body,
        new: Graph | Body,
        title: str,
        inputs: Sequence[tuple[int, int]],
        symbols: SymbolMap,
        words: Interner,
        known: list[Edit],
        modules: Mapping[str, str],
    ):
        self.modules = modules
        self.old_graph, self.new_graph, self.title, self.inputs = old, new, title, inputs
        self.symbols = symbols
        self.is_later = isinstance(new, Graph) and new.stage != "dynamo"
        left, right = (
            _open_unbacked if symbols.is_identity else partial(_common, symbols, is_old)
            for is_old in (True, False)
        )
        self.m = Matching(Side(old, words, left, modules), Side(new, words, right), inputs)
        self.old, self.new = self.m.old, self.m.new
        self.types = TypeComparer(symbols)
        self.learn_unbacked()
        # Edits under which later changes fold, by list index; new position -> that index.
        self.found: list[Edit] = known
        self.cause: dict[int, int] = {}
        self.sized = next(
            (
                k
                for k, e in enumerate(known)
                if e.kind in ("dim:static", "dim:dynamic", "dim:split", "dim:joined")
            ),
            None,
        )
        self.follows: dict[int, int] = {}
        self.samples: dict[int, tuple[Type, Type]] = {}
        self._old_names: list[str] | None = None
        self._new_names: list[str] | None = None

    def learn_unbacked(self) -> None:
        """Joins the unbacked symbols that matched nodes bring, in order."""
        for position in range(self.new.first, self.new.size):
            i = self.m.old_of[position]
            if i < 0:
                continue
            a, b = self.old.nodes[i - self.old.first].type, self.new.nodes[position - self.new.first].type
            if a is b or a is None or b is None or a == b:
                continue
            before, after = _UNBACKED.findall(type_text(a)), _UNBACKED.findall(type_text(b))
            if len(before) == len(after):
                for x, y in zip(before, after, strict=True):
                    self.symbols.learn(x, y)
        self.types.forget()

    # What others need

    def pairs(self) -> Pairs:
        first_old, first_new = self.old.first, self.new.first
        return tuple(
            [(i - first_old, j - first_new) for j, i in enumerate(self.m.old_of) if j >= first_new and i >= 0]
        )

    def body_pairs(self) -> Iterator[tuple[int, int]]:
        """Bodies at the same place of matched nodes."""
        for i, j in self.pairs() if self.old_graph_has_bodies() else ():
            left = [-1 - o for o in self.old.nodes[i].operands if o < 0]
            right = [-1 - o for o in self.new.nodes[j].operands if o < 0]
            yield from zip(left, right, strict=False)

    def old_graph_has_bodies(self) -> bool:
        return any(
            len(node.operands) != len(operands)
            for node, operands in zip(self.old.nodes, self.old.operands, strict=True)
        )

    # Edits

    def edits(self) -> Iterator[Edit]:
        """All edits, roots in order of the new graph, each with what follows from it."""
        self.inputs_edits()
        self.nodes_edits()
        self.order_edits()
        self.output_edits()
        self.labels_edits()
        for index, edit in enumerate(self.found):
            count = self.follows.get(index, 0)
            if not count:
                yield edit
                continue
            before, after = self.samples[index]
            yield replace(edit, follows=count, sample=change(before, after))

    def add(self, edit: Edit, position: int | None = None) -> int:
        self.found.append(edit)
        if position is not None:
            self.cause.setdefault(position, len(self.found) - 1)
        return len(self.found) - 1

    def follow(self, cause: int, old: Type, new: Type) -> None:
        self.follows[cause] = self.follows.get(cause, 0) + 1
        self.samples.setdefault(cause, (old, new))

    def inputs_edits(self) -> None:
        """Inputs whose type, name, presence or order changed."""
        old, new = self.old.inputs, self.new.inputs
        for i, j in self.inputs:
            self.input_edits(old[i], new[j], j)
        matched_old, matched_new = {i for i, _ in self.inputs}, {j for _, j in self.inputs}
        for i, entry in enumerate(old):
            if i not in matched_old:
                self.add(self.input_edit("input:removed", entry, old=type_text(entry.type)))
        for j, entry in enumerate(new):
            if j not in matched_new:
                self.add(self.input_edit("input:added", entry, new=type_text(entry.type)), j)
        self.order_of_inputs()

    def order_of_inputs(self) -> None:
        """Arguments in another order are another calling convention.

        A module's own parameters are handed over by torch, and so is all that a graph of a later stage takes.
        """
        order = [j for _, j in self.inputs]
        arguments = [] if self.is_later else [j for j in order if is_argument(self.new.inputs[j])]
        kept = {arguments[k] for k in longest_increasing(arguments)}
        names = [self.new.inputs[j].name for j in arguments if j not in kept]
        if names:
            self.add(
                Edit("input:order", self.title, target=names[0], text=f"{few(names)} moved", count=len(names))
            )
        elif moved := len(order) - len(longest_increasing(order)):
            self.add(Edit("order", self.title, text="inputs", count=moved))

    def input_edits(self, before: Input, after: Input, position: int) -> None:
        for kind in self.types.compare(before.type, after.type):
            self.add(self.input_edit(kind, after, type_text(before.type), type_text(after.type)), position)
        if renamed_path(before.name, self.modules) != after.name and isinstance(self.new_graph, Graph):
            self.add(
                Edit(
                    "input:renamed",
                    self.title,
                    target=after.name,
                    text=after.name,
                    old=before.name,
                    new=after.name,
                )
            )

    def input_edit(self, kind: str, entry: Input, old: str = "", new: str = "") -> Edit:
        return Edit(kind, self.title, owner(entry.name), entry.name, entry.name, old, new)

    def nodes_edits(self) -> None:
        for position in range(self.new.first, self.new.size):
            i = self.m.old_of[position]
            if i < 0:
                node = self.new.nodes[position - self.new.first]
                self.add(self.op_edit("op:added", node, position=position), position)
            else:
                self.pair_edits(i, position)
        for i in self.m.free_old():
            node = self.old.nodes[i - self.old.first]
            self.add(self.op_edit("op:removed", node, old_position=i))

    def op_edit(
        self,
        kind: str,
        node: Node,
        *,
        position: int | None = None,
        old_position: int | None = None,
        old: str = "",
        new: str = "",
    ) -> Edit:
        names = self.new_names if position is not None else self.old_names
        return Edit(
            kind, self.title, node.module, node.target, call_text(node, names), old, new, node.place,
            None if position is None else position - self.new.first,
            None if old_position is None else old_position - self.old.first,
        )  # fmt: skip

    def pair_edits(self, i: int, j: int) -> None:
        """The edits of one matched node: its op, its constants, its operands, its type."""
        a, b = self.old.nodes[i - self.old.first], self.new.nodes[j - self.new.first]
        before = len(self.found)
        if a.target != b.target:
            self.add(
                self.op_edit(
                    "op:changed",
                    b,
                    position=j,
                    old_position=i,
                    old=call_text(a, self.old_names),
                    new=call_text(b, self.new_names),
                ),
                j,
            )
        elif a.template != b.template and not self.same_constants(a.template, b.template):
            self.constant_edit(i, j, a, b)
        if len(self.found) == before and self.rewired(i, j):
            text_old, text_new = call_text(a, self.old_names), call_text(b, self.new_names)
            self.add(self.op_edit("op:rewired", b, position=j, old_position=i, old=text_old, new=text_new), j)
        self.type_edits(i, j, a, b)

    def same_constants(self, old: str, new: str) -> bool:
        return is_same_but_volatile(self.symbols.template(old), self.symbols.template(new, False))

    def constant_edit(self, i: int, j: int, a: Node, b: Node) -> None:
        """Another constant; where an operand came or went, as in a longer list, the operands changed."""
        same_number = len(a.operands) == len(b.operands)
        edit = self.op_edit(
            "op:constant" if same_number else "op:rewired",
            b,
            position=j,
            old_position=i,
            old=call_text(a, self.old_names),
            new=call_text(b, self.new_names),
        )
        self.add(
            replace(
                edit,
                delta=delta(self.symbols.template(a.template), self.symbols.template(b.template, False)),
            ),
            j,
        )

    def type_edits(self, i: int, j: int, a: Node, b: Node) -> None:
        if a.type is b.type:
            return
        kinds = self.types.compare(a.type, b.type)
        if not kinds:
            if (
                self.sized is not None
                and a.type != b.type
                and a.type is not None
                and b.type is not None
                and not self.symbols.is_identity
            ):
                self.follow(self.sized, a.type, b.type)
            return
        cause = self.cause.get(j)
        if cause is None:
            cause = next((self.cause[o] for o in self.causes_above(i, j) if o in self.cause), None)
        if cause is None:
            self.add(
                replace(
                    self.op_edit(kinds[0], b, position=j, old_position=i),
                    old=type_text(a.type),
                    new=type_text(b.type),
                ),
                j,
            )
            return
        self.cause[j] = cause
        self.follow(cause, a.type, b.type)

    def causes_above(self, i: int, j: int) -> Iterator[int]:
        """New positions from which a changed type may come: the operands, and what a removed op between gave."""
        yield from self.new.operands_of(j)
        yield from self.new.state[j - self.new.first]

    # Operands

    def rewired(self, i: int, j: int) -> bool:
        """Whether an operand is another value, not explained by ops added, removed or changed between."""
        left, right = self.old.operands_of(i), self.new.operands_of(j)
        if len(left) != len(right):
            return True
        new_of = self.m.new_of
        return any(new_of[a] != b and not self.same_operand(a, b) for a, b in zip(left, right, strict=True))

    def same_operand(self, a: int, b: int) -> bool:
        m = self.m
        if m.new_of[a] == b or m.old_down[a] == m.new_down[b]:
            return True
        if m.new_of[a] < 0 and m.old_of[b] < 0:
            return True  # an op that is gone against one that is new: their own edits tell of it
        return self.through_new(a, b) or self.through_old(a, b)

    def through_new(self, a: int, b: int) -> bool:
        """Whether new operand ``b`` is a chain of added ops on top of what was operand ``a``."""
        goal = self.m.new_of[a]
        return goal >= 0 and _reaches(
            b, goal, lambda p: self.new.operands_of(p) if p >= self.new.first and self.m.old_of[p] < 0 else ()
        )

    def through_old(self, a: int, b: int) -> bool:
        """Whether old operand ``a`` was a chain of ops, removed now, on top of ``b``."""
        goal = self.m.old_of[b]
        return goal >= 0 and _reaches(
            a, goal, lambda p: self.old.operands_of(p) if p >= self.old.first and self.m.new_of[p] < 0 else ()
        )

    # Order

    def order_edits(self) -> None:
        m = self.m
        impure = [
            (j, i)
            for j, i in enumerate(m.old_of)
            if i >= self.old.first and j >= self.new.first and self.new.impure[j - self.new.first]
        ]
        kept = {impure[k][0] for k in longest_increasing([i for _, i in impure])}
        moved = set()
        for j, i in impure:
            if j not in kept:
                moved.add(j)
                self.add(
                    self.op_edit("op:order", self.new.nodes[j - self.new.first], position=j, old_position=i)
                )
        for j in range(self.new.first, self.new.size):
            i = m.old_of[j]
            if (
                i >= 0
                and j not in moved
                and (self.new.state[j - self.new.first] or self.old.state[i - self.old.first])
                and self.state_moved(i, j, moved)
            ):
                self.add(
                    self.op_edit("op:order", self.new.nodes[j - self.new.first], position=j, old_position=i)
                )
        pure = [
            i
            for j, i in enumerate(m.old_of)
            if i >= self.old.first and j >= self.new.first and not self.new.impure[j - self.new.first]
        ]
        count = len(pure) - len(longest_increasing(pure))
        if count:
            self.add(Edit("order", self.title, text="pure ops", count=count))

    def state_moved(self, i: int, j: int, moved: set[int]) -> bool:
        """Whether a node reads memory before a write that it read after, or the other way round.

        Writers that were themselves edited or moved tell of it already. Where the order is the same, only what shares
        memory changed, by an edit above.
        """
        m = self.m
        before = {m.new_of[w] for w in self.old.state[i - self.old.first] if m.new_of[w] >= 0}
        after = {w for w in self.new.state[j - self.new.first] if m.old_of[w] >= 0}
        writers = {w for w in before ^ after if w not in moved and w not in self.cause}
        return any((m.old_of[w] < i) != (w < j) for w in writers)

    # Outputs and labels

    def output_edits(self) -> None:
        old, new = read_outputs(self.old.output), read_outputs(self.new.output)
        if (
            self.same_call(old.given, new.given)
            and self.same_set(old.saved, new.saved)
            and all(itertools.starmap(self.same_call, paired_gradients(old, new)))
        ):
            return
        before, after = (
            short(fill(side.output, names))
            for side, names in ((self.old, self.old_names), (self.new, self.new_names))
        )
        self.add(Edit("output:changed", self.title, text="out", old=before, new=after))

    def same_call(self, old: Call, new: Call) -> bool:
        left, right = [o for o in old.operands if o >= 0], [o for o in new.operands if o >= 0]
        same = len(left) == len(right) and self.same_constants(old.template, new.template)
        return same and all(map(self.same_operand, left, right))

    def same_set(self, old: Call, new: Call) -> bool:
        """Whether two calls have the same operands in any order."""
        partners = Counter([self.m.new_of[o] for o in old.operands])
        alike = partners == Counter(new.operands) and self.same_constants(old.template, new.template)
        return alike or self.same_call(old, new)

    def labels_edits(self) -> None:
        """What is told for information only: labels, modules, source lines."""
        names = modules = 0
        lines = set()
        for i, j in self.pairs():
            a, b = self.old.nodes[i], self.new.nodes[j]
            if a.label != b.label:
                if a.module == b.module:
                    names += 1
                elif renamed_path(a.module, self.modules) != b.module:
                    modules += 1
            if a.place is not b.place and place_key(a.place) != place_key(b.place):
                lines.add((place_key(a.place), place_key(b.place)))
        for kind, count, text in (
            ("name", names, "nodes"),
            ("module", modules, "nodes"),
            ("source", len(lines), "source lines"),
        ):
            if count:
                self.add(Edit(kind, self.title, text=text, count=count))

    @property
    def old_names(self) -> list[str]:
        if self._old_names is None:
            self._old_names = operand_texts(self.old_graph)
        return self._old_names

    @property
    def new_names(self) -> list[str]:
        if self._new_names is None:
            self._new_names = operand_texts(self.new_graph)
        return self._new_names


def _common(symbols: SymbolMap, is_old: bool, text: str) -> str:
    """A template in common terms, for matching."""
    return symbols.template(text, is_old, open_unbacked=True)


def _open_unbacked(text: str) -> str:
    """A template whose unbacked symbols are left open; most have none."""
    return _ANY_UNBACKED.sub("u?", text) if "u" in text and _ANY_UNBACKED.search(text) else text


_ANY_UNBACKED = re.compile(r"(?<![\w.])u[0-9]+(?![\w.=(])")


def _reaches(start: int, goal: int, above: Callable[[int], Sequence[int]], limit: int = 256) -> bool:
    """Whether ``goal`` is among what ``above`` leads to from ``start``, in at most ``limit`` steps."""
    todo, seen = [start], {start}
    while todo and len(seen) < limit:
        for position in above(todo.pop()):
            if position == goal:
                return True
            if position not in seen:
                seen.add(position)
                todo.append(position)
    return False
