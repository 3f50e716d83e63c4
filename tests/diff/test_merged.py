"""Two graphs merged into one, for pictures."""

from __future__ import annotations

import random

from peek_backend.diff import compare, merged_graph
from peek_backend.render.diff_view import panels
from peek_backend.snapshot.graphfile import parse_graph, print_graph

from .mutations import EDITS, with_graph
from .test_graph_edits import snap
from .transformer import transformer


def merged(name: str, seed: int = 0):
    old = transformer(layers=3, effects=True)
    graph = old.graphs[0]
    changed, _, label = EDITS[name](random.Random(seed), graph)
    diff = compare(old, with_graph(old, graph, changed))
    return merged_graph(diff.graphs[0].old, diff.graphs[0].new, diff), label, graph, changed


def test_operands_stand_before_their_users():
    """In the merged order every operand is above its user, those of removed nodes too."""
    for name in EDITS:
        if name == "dim made static":
            continue
        found, *_ = merged(name, seed=3)
        for position, node in enumerate(found.nodes, len(found.inputs)):
            assert all(o < position for o in node.operands), name


def test_marks_name_what_changed():
    """One op put in is one added node, taken out one removed, swapped one changed; all others are the same."""
    for name, mark in (("op inserted", "added"), ("op removed", "removed"), ("op swapped", "changed")):
        found, label, *_ = merged(name)
        assert [(n.mark, n.node.label) for n in found.nodes if n.mark != "same"] == [(mark, label)]


def test_an_input_of_another_type_is_marked():
    """A parameter's new dtype marks the input."""
    found, label, *_ = merged("dtype of an input")
    assert [i.name for i in found.inputs if i.mark == "changed"] == [label]


def test_an_input_under_another_name_is_one_input():
    """The parameters of a renamed module, and a renamed input of a body, neither come nor go."""
    old = transformer(layers=1)
    (panel,) = panels(compare(old, parse_graph(print_graph(old).replace(".mlp", ".feed"))))
    assert {row.mark for row in panel.rows} == {"same"}
    assert any(row.label == "layers.0.feed.up.weight" for row in panel.rows)
    text = "graph f\n  in   x: f32[4]\n  %c = cond(x, @true_0)  f32[4]\n  out  %c\n"
    text += "body true_0\n  in   a: f32[4]\n  %s = .sin(a)  f32[4]\n  out  %s\n"
    _, body = panels(compare(snap(text), snap(text.replace(" a:", " b:").replace(".sin(a)", ".cos(b)"))))
    assert [(row.label, row.mark) for row in body.rows] == [("b", "same"), ("%s", "changed")]


def test_every_node_of_both_is_there():
    """The merged graph holds each old and each new node once."""
    found, _, old, new = merged("op removed")
    assert {n.old.label for n in found.nodes if n.old is not None} == {n.label for n in old.nodes}
    assert sum(n.new is not None for n in found.nodes) == len(new.nodes)
    assert len(found.outputs) == len(new.output.operands)
