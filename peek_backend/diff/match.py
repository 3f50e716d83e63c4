"""Which nodes of two graphs are the same op.

From the surest evidence to the weakest; each step only pairs what earlier ones left:

1. equal subgraphs above: a hash over target, constants and operands, down from the inputs (Merkle);
2. equal subgraphs below: the same over users, up from the outputs;
3. the same target, constants and module, as often on both sides;
4. spread from pairs to their operands and users;
5. runs of what is left: common ends, patience anchors on the longest increasing subsequence, then a longest common
   subsequence with a cap;
6. another target or other constants between the same operands and users: a *changed* op.

Each step is linear but for sorting, so a diff of n nodes takes about n log n. After HLO diff (openxla/xla, hlo_diff) and GumTree.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from ..model.snapshot import Body, Call, Graph, Input, Node, TupleType
from .effects import is_impure, is_view, writes_first
from .modules import renamed_path

GAP_CELLS = 40_000
"""Most table cells that one gap may cost; a larger gap is left to the steps after it."""
OUTPUT = -1
"""The user that stands for the graph's output."""


class Interner(dict):
    """Small numbers for keys: equal keys, equal numbers."""

    def of(self, key: Hashable) -> int:
        return self.setdefault(key, len(self))


class Side:
    """One graph taken apart for matching.

    Positions count inputs, then nodes, as operands do. ``calls`` and ``targets`` number each node's (target, template) and
    target, ``operands`` are without bodies. ``modules`` are new names of renamed modules. ``home`` is the position whose memory
    a position shares, ``state`` are the latest writers of what a node reads, where it does not name them.
    """

    def __init__(
        self,
        graph: Graph | Body,
        words: Interner,
        template: Callable[[str], str],
        modules: Mapping[str, str] | None = None,
    ):
        self._renamed = modules or {}
        self.inputs: Sequence[Input] = graph.inputs
        self.nodes: Sequence[Node] = graph.nodes
        self.output: Call = graph.output
        self.first = len(graph.inputs)
        self.size = self.first + len(graph.nodes)
        self.calls, self.targets, self.modules = self._words(words, template)
        self.operands = [
            n.operands if not n.operands or min(n.operands) >= 0 else _without_bodies(n.operands)
            for n in graph.nodes
        ]
        self.impure = [is_impure(n.target, n.template) for n in graph.nodes]
        self.state = self._state()
        self.users = self._users()

    def _words(
        self, words: Interner, template: Callable[[str], str]
    ) -> tuple[list[int], list[int], list[int]]:
        calls, targets, modules = [], [], []
        known: dict[tuple[str, str], int] = {}
        for node in self.nodes:
            target = node.target
            targets.append(words.setdefault(target, len(words)))
            key = (target, node.template)
            call = known.get(key)
            if call is None:
                call = known[key] = words.of((target, template(node.template)))
            calls.append(call)
            module = renamed_path(node.module, self._renamed)
            modules.append(words.setdefault(module, len(words)))
        return calls, targets, modules

    def _state(self) -> list[tuple[int, ...]]:
        """For each node the latest writers of the memory that it reads, where it does not name them as operands."""
        found: list[tuple[int, ...]] = [()] * len(self.nodes)
        self.home = home = list(range(self.size))
        if not any(writes_first(n.target, n.template) for n in self.nodes):
            return found
        writer: dict[int, int] = {}
        for index, node in enumerate(self.nodes):
            operands, position = self.operands[index], self.first + index
            late = {writer[home[o]] for o in operands if home[o] in writer}
            found[index] = tuple(sorted(late.difference(operands)))
            if operands and is_view(node.target, node.template) and not self._is_part(node, operands[0]):
                home[position] = home[operands[0]]
                if writes_first(node.target, node.template):
                    writer[home[position]] = position
        return found

    def _is_part(self, node: Node, operand: int) -> bool:
        """Whether a node takes one of several results of an op, each of which has memory of its own."""
        if operand < self.first or not node.target.endswith("getitem") or self.home[operand] != operand:
            return False
        return isinstance(self.nodes[operand - self.first].type, TupleType)

    def _users(self) -> list[list[tuple[int, int]]]:
        """For each position who uses it: (position of the user, which of its operands)."""
        users: list[list[tuple[int, int]]] = [[] for _ in range(self.size)]
        for index, operands in enumerate(self.operands, self.first):
            for place, operand in enumerate(operands):
                users[operand].append((index, place))
        for place, operand in enumerate(self.output.operands):
            if operand >= 0:
                users[operand].append((OUTPUT, place))
        return users

    def call(self, position: int) -> int:
        return self.calls[position - self.first]

    def module(self, position: int) -> int:
        return self.modules[position - self.first]

    def operands_of(self, position: int) -> tuple[int, ...]:
        return self.operands[position - self.first]


def _without_bodies(operands: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([o for o in operands if o >= 0])


class Matching:
    """The pairs found so far: ``new_of`` and ``old_of`` give a position's partner, -1 for none."""

    def __init__(self, old: Side, new: Side, inputs: Sequence[tuple[int, int]]):
        self.old, self.new = old, new
        self.new_of = [-1] * old.size
        self.old_of = [-1] * new.size
        for i, j in inputs:
            self.pair(i, j)
        self.old_down, self.new_down = self._downward()
        self.run()

    def pair(self, i: int, j: int) -> None:
        self.new_of[i] = j
        self.old_of[j] = i

    def free_old(self) -> list[int]:
        """Positions of old nodes without a partner."""
        first = self.old.first
        return [i for i, j in enumerate(self.new_of[first:], first) if j < 0]

    def free_new(self) -> list[int]:
        first = self.new.first
        return [j for j, i in enumerate(self.old_of[first:], first) if i < 0]

    def run(self) -> None:
        """All steps, surest first."""
        old, new = self.old, self.new
        down = (self.old_down, self.new_down)
        self.by_key(
            lambda i: (down[0][i], old.module(i)), lambda j: (down[1][j], new.module(j)), surplus=True
        )
        self.by_key(lambda i: down[0][i], lambda j: down[1][j], surplus=True)
        if not self.free_old() or not self.free_new():
            return
        up = self._upward()
        self.by_key(lambda i: (up[0][i], old.module(i)), lambda j: (up[1][j], new.module(j)))
        self.by_key(lambda i: up[0][i], lambda j: up[1][j], only=1)
        self.spread()
        self.by_key(lambda i: (old.call(i), old.module(i)), lambda j: (new.call(j), new.module(j)))
        self.spread()
        self.align(lambda i: (old.call(i), old.module(i)), lambda j: (new.call(j), new.module(j)))
        self.spread()
        self.align(old.call, new.call)
        self.spread()
        self.changed()

    # 1 and 2: hashes

    def _downward(self) -> tuple[list[int], list[int]]:
        """A number for each position: equal where the whole computation above is equal."""
        keys = Interner()
        return self._down(self.old, keys, old=True), self._down(self.new, keys, old=False)

    def _down(self, side: Side, keys: Interner, old: bool) -> list[int]:
        found = [keys.of(("input", self._input(p) if old else p)) for p in range(side.first)]
        seen: dict[tuple, int] = defaultdict(int)
        for index, operands in enumerate(side.operands):
            key: tuple = (side.calls[index], *[found[o] for o in operands])
            if side.state[index]:
                key = (*key, "after", *[found[o] for o in side.state[index]])
            if side.impure[index]:  # two random numbers of the same shape are not the same value
                seen[key] += 1
                key = (*key, "time", seen[key])
            found.append(keys.setdefault(key, len(keys)))
        return found

    def _input(self, position: int) -> int:
        """An old input's number: its partner's, or one that no new input has."""
        partner = self.new_of[position]
        return partner if partner >= 0 else -1 - position

    def _upward(self) -> tuple[list[int], list[int]]:
        """A number for each position: equal where all that is computed from it is equal."""
        keys = Interner()
        return self._up(self.old, keys), self._up(self.new, keys)

    @staticmethod
    def _up(side: Side, keys: Interner) -> list[int]:
        found = [0] * side.size
        for position in range(side.size - 1, side.first - 1, -1):
            uses = sorted(
                [(found[user] if user >= 0 else OUTPUT, place) for user, place in side.users[position]]
            )
            found[position] = keys.setdefault((side.calls[position - side.first], *uses), len(keys))
        return found

    def by_key(self, old_key: Callable, new_key: Callable, *, surplus: bool = False, only: int = 0) -> None:
        """Pairs nodes of equal key in order, where both sides have as many of it.

        With ``only`` where they have just so many, with ``surplus`` as far as they go.
        """
        groups: dict[Hashable, list[int]] = {}
        for i in self.free_old():
            groups.setdefault(old_key(i), []).append(i)
        others: dict[Hashable, list[int]] = {}
        for j in self.free_new():
            key = new_key(j)
            if key in groups:
                others.setdefault(key, []).append(j)
        for key, right in others.items():
            left = groups[key]
            if surplus or (len(left) == len(right) and (not only or len(left) == only)):
                for i, j in zip(left, right, strict=False):
                    self.pair(i, j)

    # 4: spread

    def spread(self) -> None:
        """Pairs free operands and users of pairs, where they are the same call at the same place."""
        todo = self._beside_free()
        while todo:
            i, j = todo.pop()
            for a, b in self._neighbours(i, j):
                if self.new_of[a] < 0 and self.old_of[b] < 0 and self.old.call(a) == self.new.call(b):
                    self.pair(a, b)
                    todo.append((a, b))

    def _beside_free(self) -> list[tuple[int, int]]:
        """The pairs that have a free new node as operand or user, each once."""
        beside: set[int] = set()
        for j in self.free_new():
            beside.update(self.new.operands_of(j))
            beside.update([user for user, _ in self.new.users[j]])
        beside.discard(OUTPUT)
        return [(self.old_of[j], j) for j in sorted(beside) if self.old_of[j] >= 0]

    def _neighbours(self, i: int, j: int) -> Iterator[tuple[int, int]]:
        old, new = self.old, self.new
        if i >= old.first:
            for a, b in zip(old.operands_of(i), new.operands_of(j), strict=False):
                if a >= old.first and b >= new.first:
                    yield a, b
        left = (
            [u for u in old.users[i] if u[0] >= 0 and self.new_of[u[0]] < 0] if len(old.users[i]) < 64 else []
        )
        if left:
            right = [u for u in new.users[j] if u[0] >= 0 and self.old_of[u[0]] < 0]
            yield from _only_pairs(
                left, right, lambda u: (old.call(u[0]), u[1]), lambda u: (new.call(u[0]), u[1])
            )

    # 5: runs

    def align(self, old_key: Callable, new_key: Callable) -> None:
        """Pairs what is left in the order in which it stands, by equal keys."""
        left, right = self.free_old(), self.free_new()
        a, b = [old_key(i) for i in left], [new_key(j) for j in right]
        for x, y in align(a, b):
            if self._agrees(left[x], right[y]):
                self.pair(left[x], right[y])

    def _agrees(self, i: int, j: int) -> bool:
        """Whether a neighbour of two nodes is a pair too, or none of their neighbours has a partner."""
        votes = [
            self.new_of[a] == b
            for a, b in zip(self.old.operands_of(i), self.new.operands_of(j), strict=False)
            if self.new_of[a] >= 0
        ]
        votes += [
            self.new_of[u] == v
            for (u, p), (v, q) in zip(self.old.users[i][:8], self.new.users[j][:8], strict=False)
            if p == q and u >= 0 and v >= 0 and self.new_of[u] >= 0
        ]
        return not votes or any(votes)

    # 6: changed ops

    def changed(self) -> None:
        """Pairs free nodes that stand between the same operands and users: their op or its constants changed."""
        for j in self.free_new():
            best = max(self._candidates(j), key=lambda found: found[0], default=None)
            if best is not None:
                self.pair(best[1], j)

    def _candidates(self, j: int) -> Iterator[tuple[int, int]]:
        """Free old nodes that new node ``j`` may have been, each with a score."""
        old, new = self.old, self.new
        seen: set[int] = set()
        for i in self._near(j):
            if i in seen or i < old.first or self.new_of[i] >= 0:
                continue
            seen.add(i)
            above, below = self._shared_operands(i, j), self._shared_users(i, j)
            same_target = old.targets[i - old.first] == new.targets[j - new.first]
            if above is False or below is False or (above is None and below is None and not same_target):
                continue
            if not same_target and not (above and (below or below is None)) and not (below and above is None):
                continue
            score = 4 * same_target + 2 * bool(above) + 2 * bool(below) + (old.module(i) == new.module(j))
            yield score, i

    def _near(self, j: int) -> Iterator[int]:
        """Old nodes beside the partners of ``j``'s neighbours."""
        old, new = self.old, self.new
        for operand in new.operands_of(j):
            i = self.old_of[operand]
            if i >= 0 and len(old.users[i]) < 64:
                yield from [u for u, _ in old.users[i] if u >= 0]
        for user, place in new.users[j]:
            operands = (
                old.output.operands
                if user == OUTPUT
                else old.operands_of(self.old_of[user])
                if self.old_of[user] >= 0
                else ()
            )
            if place < len(operands) and operands[place] >= 0:
                yield operands[place]

    def _shared_operands(self, i: int, j: int) -> bool | None:
        """Whether some operand of both is a pair and none is paired elsewhere; None when nothing is known."""
        left, right = self.old.operands_of(i), self.new.operands_of(j)
        partners = {self.new_of[a] for a in left if self.new_of[a] >= 0}
        known = {b for b in right if self.old_of[b] >= 0}
        if not partners and not known:
            return None
        return bool(partners & known)

    def _shared_users(self, i: int, j: int) -> bool | None:
        """The same for users; the output is a user that both may have."""
        partners = {
            (self.new_of[u] if u >= 0 else u, p) for u, p in self.old.users[i] if u < 0 or self.new_of[u] >= 0
        }
        known = {(v, q) for v, q in self.new.users[j] if v < 0 or self.old_of[v] >= 0}
        if not partners and not known:
            return None
        return bool(partners & known)


def _only_pairs(
    left: list, right: list, left_key: Callable, right_key: Callable
) -> Iterator[tuple[int, int]]:
    """Users that are alone with their key on both sides."""
    keys: dict[Hashable, list[int]] = {}
    for user in left:
        keys.setdefault(left_key(user), []).append(user[0])
    others: dict[Hashable, list[int]] = {}
    for user in right:
        others.setdefault(right_key(user), []).append(user[0])
    for key, found in others.items():
        if len(found) == 1 and len(keys.get(key, ())) == 1:
            yield keys[key][0], found[0]


def longest_increasing(values: Sequence[int]) -> list[int]:
    """Indices of a longest strictly increasing subsequence, in n log n."""
    tails: list[int] = []
    ends: list[int] = []
    before = [-1] * len(values)
    for index, value in enumerate(values):
        place = bisect_left(tails, value)
        before[index] = ends[place - 1] if place else -1
        if place == len(tails):
            tails.append(value)
            ends.append(index)
        else:
            tails[place], ends[place] = value, index
    found = []
    at = ends[-1] if ends else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return found[::-1]


def align(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """Pairs of indices of equal keys, increasing on both sides: common ends, patience, then a table in small gaps."""
    gaps = [(0, len(a), 0, len(b))]
    while gaps:
        i, n, j, k = gaps.pop()
        while i < n and j < k and a[i] == b[j]:
            yield i, j
            i, j = i + 1, j + 1
        while i < n and j < k and a[n - 1] == b[k - 1]:
            n, k = n - 1, k - 1
            yield n, k
        if i == n or j == k:
            continue
        anchors = list(_patience(a, b, i, n, j, k))
        if anchors:
            for x, y in [*anchors, (n, k)]:
                gaps.append((i, x, j, y))
                i, j = x, y
        elif (n - i) * (k - j) <= GAP_CELLS:
            yield from _common(a[i:n], b[j:k], i, j)


def _patience(a: Sequence, b: Sequence, i: int, n: int, j: int, k: int) -> Iterator[tuple[int, int]]:
    """Keys that stand once in each range, as far as they are in the same order."""
    places: dict[Hashable, list[int]] = {}
    for x in range(i, n):
        place = places.setdefault(a[x], [-1, -1])
        place[0] = x if place[0] == -1 else -2
    for y in range(j, k):
        if b[y] in places:
            place = places[b[y]]
            place[1] = y if place[1] == -1 else -2
    found = [(x, y) for x, y in places.values() if x >= 0 and y >= 0]
    found.sort()
    for index in longest_increasing([y for _, y in found]):
        yield found[index]


def _common(a: Sequence, b: Sequence, i: int, j: int) -> Iterator[tuple[int, int]]:
    """A longest common subsequence of two short runs, as pairs of indices from (i, j) on."""
    rows = [[0] * (len(b) + 1)]
    for x in range(len(a) - 1, -1, -1):
        below, row = rows[-1], [0] * (len(b) + 1)
        for y in range(len(b) - 1, -1, -1):
            row[y] = below[y + 1] + 1 if a[x] == b[y] else max(below[y], row[y + 1])
        rows.append(row)
    rows.reverse()
    x = y = 0
    while x < len(a) and y < len(b):
        if a[x] == b[y]:
            yield i + x, j + y
            x, y = x + 1, y + 1
        elif rows[x + 1][y] >= rows[x][y + 1]:
            x += 1
        else:
            y += 1
