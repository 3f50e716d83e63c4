"""Diff of two snapshots by kind of edit and by size, beside git's and difflib's diff of the same files as text; parse and print.

The snapshots are transformer-like graphs made by hand (``tests/diff/transformer.py``), each compared with one that was edited.
Times are CPU seconds of one thread, the best of a few: nothing here waits, and another program's load is none of peek's.
"""

from __future__ import annotations

import difflib
import gc
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from peek_backend.diff import compare
from peek_backend.diff.edits import INFO
from peek_backend.model.snapshot import Graph, Input, Node, Snapshot, TensorType
from peek_backend.snapshot.graphfile import parse_graph, print_graph
from tests.diff.mutations import insert_op, legal_reorder, make_static, swap_op, swap_operands, with_graph
from tests.diff.transformer import transformer

from .harness import Row, seconds

NODES_PER_LAYER = 21
DIFF_LIMIT, HUGE_LIMIT, FILE_LIMIT = 0.5, 8.0, 0.15


def main() -> list[Row]:
    old = sized(10_000)
    rows = files(old)
    for name, edit in EDITS.items():
        rows.append(one_kind(name, old, edit))
    rows += text_diffs(old, EDITS["one op inserted"](old))
    rows += curve()
    return rows


def cpu_seconds(action: Callable[[], object], *, repeat: int = 3) -> float:
    """Least CPU seconds of ``action()`` in this process, with the garbage collector off while the clock runs."""
    times = []
    for _ in range(repeat):
        gc.collect()
        gc.disable()
        start = time.process_time()
        action()
        times.append(time.process_time() - start)
        gc.enable()
    return min(times)


def sized(nodes: int) -> Snapshot:
    return transformer(layers=-(-nodes // NODES_PER_LAYER), dynamic=True)


def _first(mutate: Callable) -> Callable[[Snapshot], Snapshot]:
    """A mutation of the first graph, at a random place that does not change between runs."""

    def edit(snapshot: Snapshot) -> Snapshot:
        found = mutate(random.Random(0), snapshot.graphs[0])
        return with_graph(snapshot, snapshot.graphs[0], found[0] if isinstance(found, tuple) else found)

    return edit


def _nodes(change: Callable[[Node], Node]) -> Callable[[Snapshot], Snapshot]:
    return _first(lambda rng, graph: replace(graph, nodes=tuple(map(change, graph.nodes))))


def _bf16(t):
    return replace(t, dtype="bf16") if isinstance(t, TensorType) and t.dtype == "f32" else t


def _all_bf16(rng: random.Random, graph: Graph) -> Graph:
    inputs = tuple([Input(i.name, _bf16(i.type)) for i in graph.inputs])
    return replace(graph, inputs=inputs, nodes=tuple([replace(n, type=_bf16(n.type)) for n in graph.nodes]))


def _half(rng: random.Random, graph: Graph) -> Graph:
    return replace(
        graph,
        nodes=tuple([replace(n, target="torch.another") if rng.random() < 0.5 else n for n in graph.nodes]),
    )


def _gelu(node: Node) -> Node:
    return replace(node, target="F.relu", template="\0") if node.target == "F.gelu" else node


EDITS: dict[str, Callable[[Snapshot], Snapshot]] = {
    "equal": lambda snapshot: parse_graph(print_graph(snapshot)),
    "one op inserted": _first(insert_op),
    "one op swapped": _first(swap_op),
    "operand order": _first(swap_operands),
    "gelu to relu in every layer": _nodes(_gelu),
    "all f32 to bf16": _first(_all_bf16),
    "batch made static": _first(make_static),
    "random legal reorder": _first(legal_reorder),
    "half of all ops swapped": _first(_half),
}


def one_kind(name: str, old: Snapshot, edit: Callable[[Snapshot], Snapshot]) -> Row:
    new = edit(old)
    found = compare(old, new)
    edits = [e for e in found.edits if e.kind not in INFO]
    groups = len({(g.kind, g.module, g.text) for g in found.groups if g.kind not in INFO})
    note = f"{len(edits):,} edits in {groups:,} groups"
    took = cpu_seconds(lambda: compare(old, new))
    return Row(f"diff, {old.stats['ops']:,} nodes, {name}", took, "s", DIFF_LIMIT, note)


def files(snapshot: Snapshot) -> list[Row]:
    text = print_graph(snapshot)
    nodes, size = snapshot.stats["ops"], len(text.encode())
    return [
        Row(
            f"print a .graph file, {nodes:,} nodes",
            cpu_seconds(lambda: print_graph(snapshot)),
            "s",
            FILE_LIMIT,
            f"{size:,} bytes",
        ),
        Row(
            f"parse a .graph file, {nodes:,} nodes",
            cpu_seconds(lambda: parse_graph(text)),
            "s",
            FILE_LIMIT,
        ),
    ]


def text_diffs(old: Snapshot, new: Snapshot) -> list[Row]:
    """The same pair as text: how long, and how many lines a person would read."""
    before, after = print_graph(old), print_graph(new)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("old.graph", "new.graph")]
        for path, text in zip(paths, (before, after), strict=True):
            path.write_text(text, encoding="utf-8")
        command = ["git", "diff", "--no-index", "--numstat", *map(str, paths)]
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\t")[:2]
        git = seconds(lambda: subprocess.run(command, capture_output=True, check=False), repeat=3)
    python = cpu_seconds(
        lambda: list(difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm=""))
    )
    note = f"+{lines[0]} −{lines[1]} lines"
    return [
        Row("git diff of the same files, one op inserted", git, "s", note=note),
        Row("difflib, the same", python, "s"),
    ]


def curve() -> list[Row]:
    """One op inserted at growing sizes: near-linear."""
    rows = []
    for nodes in (1_000, 3_000, 10_000, 30_000, 100_000):
        old = sized(nodes)
        new = EDITS["one op inserted"](old)
        took = cpu_seconds(lambda old=old, new=new: compare(old, new))
        limit = HUGE_LIMIT if nodes == 100_000 else None
        rows.append(
            Row(
                f"diff, one op inserted, {nodes:,} nodes",
                took,
                "s",
                limit,
                f"{1e6 * took / nodes:.0f} µs a node",
            )
        )
    half = EDITS["half of all ops swapped"](old)
    rows.append(
        Row(
            "diff, half of all ops swapped, 100,000 nodes",
            cpu_seconds(lambda: compare(old, half), repeat=1),
            "s",
            HUGE_LIMIT,
        )
    )
    return rows
