"""Every mutation is found and named, and neutral changes are none: over real graphs and hand-made ones.

The graphs in ``graphs/`` were captured with torch 2.13 from small random transformers models (BertModel, LlamaForCausalLM with
dynamic sizes, MixtralForCausalLM) and from a function with ``torch.cond``, then written by ``canonicalise`` and ``print_graph``.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from peek_backend.diff import compare
from peek_backend.diff.edits import INFO, Diff, Edit
from peek_backend.errors import PeekError
from peek_backend.model.snapshot import Graph, Snapshot
from peek_backend.snapshot.graphfile import parse_graph, print_graph, read_graph

from .mutations import EDITS, NEUTRAL, add_break, with_graph
from .transformer import transformer

GRAPHS = Path(__file__).with_name("graphs")


@cache
def corpus() -> tuple[Snapshot, ...]:
    """Real captures and transformer-like graphs by hand, with in-place ops, random numbers and asserts."""
    real = tuple(read_graph(path) for path in sorted(GRAPHS.glob("*.graph")))
    return (*real, transformer(layers=4, effects=True), transformer(layers=2, dynamic=True))


def told(diff: Diff) -> list[Edit]:
    """The edits that are more than information."""
    return [edit for edit in diff.edits if edit.kind not in INFO]


def pick(rng: random.Random) -> tuple[Snapshot, Graph]:
    snapshot = rng.choice(corpus())
    return snapshot, rng.choice([g for g in snapshot.graphs if len(g.nodes) > 2])


def check_edit(rng: random.Random) -> str | None:
    """One random edit: exactly that is found. None when the graph drawn has no place for it."""
    snapshot, graph = pick(rng)
    name = rng.choice(list(EDITS))
    mutated = EDITS[name](rng, graph)
    if mutated is None:
        return None
    changed, kind, label = mutated
    new = parse_graph(print_graph(with_graph(snapshot, graph, changed)))
    edits = told(compare(snapshot, new))
    assert [edit.kind for edit in edits] == [kind], (name, snapshot.name, graph.title, label, edits)
    assert is_at(edits[0], graph, changed, label), (name, snapshot.name, label, edits)
    return name


def is_at(edit: Edit, old: Graph, new: Graph, label: str) -> bool:
    """Whether an edit names the node, input or size that was changed."""
    if edit.node is not None:
        return new.nodes[edit.node].label in label.split("|")
    if edit.old_node is not None:
        return old.nodes[edit.old_node].label == label
    return edit.target == label or edit.target.startswith(label)


def check_neutral(rng: random.Random) -> str:
    """One to three neutral changes: no edit."""
    snapshot, graph = pick(rng)
    names = rng.sample(list(NEUTRAL), rng.randint(1, 3))
    changed = graph
    for name in names:
        changed = NEUTRAL[name](rng, changed)
    diff = compare(snapshot, with_graph(snapshot, graph, changed))
    assert told(diff) == [], (names, snapshot.name, graph.title)
    assert diff.is_empty
    return names[0]


def run(check, seed: int, count: int) -> Counter:
    rng = random.Random(seed)
    found: Counter = Counter()
    while sum(found.values()) < count:
        name = check(rng)
        if name is not None:
            found[name] += 1
    return found


def test_each_edit_is_found_and_named():
    """150 random edits over the corpus: each gives exactly its own edit, at its own node."""
    assert set(run(check_edit, 0, 150)) == set(EDITS)


def test_neutral_changes_give_no_edit():
    """150 random renames, legal reorders, moved lines and renumbered symbols give none."""
    assert set(run(check_neutral, 0, 150)) == set(NEUTRAL)


@pytest.mark.slow
def test_a_thousand_edits():
    """1,500 edits are each found and named."""
    run(check_edit, 1, 1500)


@pytest.mark.slow
def test_a_thousand_neutral_changes():
    """1,500 neutral changes give no edit."""
    run(check_neutral, 1, 1500)


def check_break(rng: random.Random) -> bool:
    snapshot, graph = pick(rng)
    new = add_break(rng, snapshot, graph)
    if new is None:
        return False
    assert [e.kind for e in told(compare(snapshot, parse_graph(print_graph(new))))] == ["break:added"], (
        snapshot.name,
        graph.title,
    )
    assert [e.kind for e in told(compare(new, snapshot))] == ["break:removed"]
    return True


def test_a_break_is_one_edit():
    """A break that cuts a graph in two is one edit, and one improvement the other way: the ops only moved."""
    rng = random.Random(0)
    assert sum(check_break(rng) for _ in range(40)) > 10


def test_a_snapshot_is_equal_to_itself():
    """Read back from its text, each snapshot of the corpus gives an empty diff."""
    for snapshot in corpus():
        assert compare(snapshot, parse_graph(print_graph(snapshot))).edits == ()


LETTERS = "abcdefnrstuxgl0123456789.,()[]%_=+-"


def retyped(rng: random.Random, text: str) -> str:
    """One character of a file changed, put in or taken out, in the call or type of a node or in an output."""
    lines = text.split("\n")
    at = rng.choice([k for k, line in enumerate(lines) if line.startswith(("  %", "  out  "))])
    line = lines[at]
    first = line.find(" = ") + 3 if line.startswith("  %") else 7
    place = rng.randrange(first, len(line))
    lines[at] = line[:place] + rng.choice(("", rng.choice(LETTERS))) + line[place + rng.randrange(2) :]
    return "\n".join(lines)


def check_typing(rng: random.Random) -> str | None:
    snapshot = rng.choice(corpus())
    text = retyped(rng, print_graph(snapshot))
    try:
        changed = parse_graph(text)
    except PeekError:
        return None
    if changed == snapshot:
        return None
    assert told(compare(snapshot, changed)), next(
        line for line in text.split("\n") if line not in print_graph(snapshot)
    )
    return "told"


def test_one_character_in_a_file_is_refused_or_told():
    """Whatever one types into a node or an output, the file is refused, reads the same, or differs by an edit."""
    run(check_typing, 0, 60)


@pytest.mark.slow
def test_a_thousand_characters_in_files():
    """The same until 1,000 changed files were read."""
    run(check_typing, 1, 1000)
