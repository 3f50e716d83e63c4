"""Single edits of small graphs, each told as what a person did."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from peek_backend.diff import compare, read_policy, verdict
from peek_backend.diff.edits import INFO, Edit, group_edits
from peek_backend.model.snapshot import Snapshot
from peek_backend.snapshot.graphfile import parse_graph, print_graph

from .mutations import with_graph
from .transformer import transformer

HEADER = "peek-graph 1\nname   a\nenv    torch=2.13 py=3.11 device=cpu grad=on\nstats  {stats}\n\n"


def snap(text: str) -> Snapshot:
    """A file from the lines of its graphs; the counts are filled in."""
    lines = text.split("\n")
    graphs = [line for line in lines if line.startswith("graph ")]
    frames = len({re.split(r"   | ▸ variant| ▸ stage", line)[0] for line in graphs})
    frames += len({line.split()[1] for line in lines if line.startswith("frame ") and "NOTHING" not in line})
    counts = {
        "frames": frames,
        "graphs": len(graphs),
        "ops": sum(line.startswith("  %") for line in lines),
        "breaks": sum(line.startswith("break ") for line in lines),
        "recompiles": sum("▸ variant#" in line for line in graphs),
    }
    return parse_graph(HEADER.format(stats=" ".join(f"{k}={v}" for k, v in counts.items())) + text)


def edits(old: str, new: str) -> list[Edit]:
    return list(compare(snap(old), snap(new)).edits)


def kinds(old: str, new: str) -> list[str]:
    """Kinds of edit that are more than information."""
    return [edit.kind for edit in edits(old, new) if edit.kind not in INFO]


G = "graph f\n  in   x: f32[4]\n"
SUB = "  %a = torch.sub(x, 1)  f32[4]\n"


def test_types_that_follow_an_added_op_are_folded_under_it():
    """A cast put in is one edit, and the op behind it follows."""
    old = G + SUB + "  %b = torch.add(%a, 2)  f32[4]\n  out  %b\n"
    new = G + SUB + "  %c = .to(%a, torch.float16)  f16[4]\n  %b = torch.add(%c, 2)  f16[4]\n  out  %b\n"
    (edit,) = edits(old, new)
    assert (edit.kind, edit.text, edit.follows, edit.sample) == (
        "op:added",
        ".to(%a, torch.float16)",
        1,
        "f32[4] → f16[4]",
    )


def test_a_read_moved_across_a_write_is_an_edit():
    """sin(x) before x.add_(1) is not sin(x) after it."""
    old = G + "  %s = .sin(x)  f32[4]\n  %w = .add_(x, 1)  f32[4]\n  out  %s, %w\n"
    new = G + "  %w = .add_(x, 1)  f32[4]\n  %s = .sin(x)  f32[4]\n  out  %s, %w\n"
    assert kinds(old, new) == ["op:order"]


def test_a_view_read_across_a_write_is_an_edit():
    """The same through a view of x."""
    old = (
        G
        + "  %v = .view(x, 2, 2)  f32[2, 2]\n  %s = .sin(%v)  f32[2, 2]\n  %w = .add_(x, 1)  f32[4]\n  out  %s, %w\n"
    )
    new = (
        G
        + "  %v = .view(x, 2, 2)  f32[2, 2]\n  %w = .add_(x, 1)  f32[4]\n  %s = .sin(%v)  f32[2, 2]\n  out  %s, %w\n"
    )
    assert kinds(old, new) == ["op:order"]


def test_two_equal_random_numbers_are_two():
    """Users of two dropouts that change places are rewired, although both dropouts read the same."""
    drops = "  %d = F.dropout(x, 0.5, True, False)  f32[4]\n  %e = F.dropout(x, 0.5, True, False)  f32[4]\n"
    old = G + drops + "  %s = .sin(%d)  f32[4]\n  %c = .cos(%e)  f32[4]\n  out  %s, %c\n"
    new = G + drops + "  %s = .sin(%e)  f32[4]\n  %c = .cos(%d)  f32[4]\n  out  %s, %c\n"
    assert kinds(old, new) == ["op:rewired", "op:rewired"]


def test_the_same_value_computed_twice_is_one_value():
    """Which of two equal pure ops is read makes no difference."""
    twice = "  %d = .exp(x)  f32[4]\n  %e = .exp(x)  f32[4]\n"
    old = G + twice + "  %s = .sin(%d)  f32[4]\n  %c = .cos(%e)  f32[4]\n  out  %s, %c\n"
    new = G + twice + "  %s = .sin(%e)  f32[4]\n  %c = .cos(%d)  f32[4]\n  out  %s, %c\n"
    assert kinds(old, new) == []


def test_numbers_of_unbacked_symbols_do_not_count():
    """An op that brings a symbol of its own, put in above, renumbers the others, and is alone the edit."""
    tail = '  %z = torch.zeros({0}, sym("2*{0}"))  f32[{0}, 2*{0}]\n'
    u0, u1 = ("  sym  u0 = - in [0, ∞]\n", "  sym  u1 = - in [0, ∞]\n")
    old = (
        "graph f\n"
        + u0
        + "  in   x: f32[4]\n"
        + "  %i = .tolist(x)  SymInt(u0)\n"
        + tail.format("u0")
        + "  out  %z\n"
    )
    new = (
        "graph f\n"
        + u0
        + u1
        + "  in   x: f32[4]\n"
        + "  %k = .nonzero(x)  i64[u0, 1]\n  %i = .tolist(x)  SymInt(u1)\n"
        + tail.format("u1")
        + "  out  %z\n"
    )
    assert kinds(old, new) == ["op:added"]


def test_another_unbacked_symbol_is_an_edit():
    """A size taken from another op's symbol is a change."""
    head = "graph f\n  sym  u0 = - in [0, ∞]\n  sym  u1 = - in [0, ∞]\n  in   x: f32[4]\n"
    two = "  %i = .tolist(x)  SymInt(u0)\n  %j = .item(x)  SymInt(u1)\n"
    old = head + two + "  %z = torch.zeros(u0)  f32[u0]\n  out  %z\n"
    new = head + two + "  %z = torch.zeros(u1)  f32[u1]\n  out  %z\n"
    assert kinds(old, new) != []


DYNAMIC = """\
graph f
  sym  s0 = x.shape[0] in [2, ∞]
  sym  s1 = y.shape[0] in [2, ∞]
  in   x: f32[s0, 8]
  in   y: f32[s1, 8]
  %v = .view(y, s1, 2, 4)  f32[s1, 2, 4]
  %c = torch.cat([x, y])  f32[s0 + s1, 8]
  out  %v, %c
"""


def test_a_dim_that_became_static_is_one_edit_and_renumbers_nothing():
    """x.shape[0] is 4 now; y's symbol is the first, and is still y's."""
    new = """\
graph f
  sym  s0 = y.shape[0] in [2, ∞]
  in   x: f32[4, 8]
  in   y: f32[s0, 8]
  %v = .view(y, s0, 2, 4)  f32[s0, 2, 4]
  %c = torch.cat([x, y])  f32[s0 + 4, 8]
  out  %v, %c
"""
    (edit,) = [e for e in edits(DYNAMIC, new) if e.kind not in INFO]
    assert (edit.kind, edit.text, edit.old, edit.new) == ("dim:static", "x.shape[0]", "s0 [2, ∞]", "4")
    assert kinds(new, DYNAMIC) == ["dim:dynamic"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("  sym  s0 = x.shape[0] in [4, ∞]", "range:narrowed"),
        ("  sym  s0 = x.shape[0] in [2, 64]", "range:narrowed"),
        ("  sym  s0 = x.shape[0] in [0, ∞]", "range:widened"),
    ],
)
def test_a_range_that_is_narrower_or_wider(line: str, kind: str):
    """A symbol that takes fewer values fails, one that takes more is an improvement."""
    assert kinds(DYNAMIC, DYNAMIC.replace("  sym  s0 = x.shape[0] in [2, ∞]", line)) == [kind]


def test_a_guard_that_is_new_or_gone():
    """A condition on sizes is compared in terms of its symbols; a bound of one symbol is told by its range alone."""
    guarded = DYNAMIC.replace("  in   x:", "  guard s0%8 == 0\n  in   x:")
    assert kinds(DYNAMIC, guarded) == ["guard:added"]
    assert kinds(guarded, DYNAMIC) == ["guard:removed"]
    bounded = DYNAMIC.replace("s0 = x.shape[0] in [2, ∞]", "s0 = x.shape[0] in [4, ∞]\n  guard s0 > 3")
    bounded = bounded.replace("\n  guard s0 > 3", "").replace("  in   x:", "  guard s0 > 3\n  in   x:")
    assert kinds(DYNAMIC, bounded) == ["range:narrowed"]


def test_the_first_of_several_equal_ops_is_one_of_them():
    """A label has no count where it is the first: ``%tanh`` and ``%tanh_1`` are told as one, and a label all share as it is."""
    old = G + "  %a.tanh = torch.tanh(x)  f32[4]\n  %a.tanh_1 = torch.tanh(%a.tanh)  f32[4]\n"
    casts = "  %a.mul = operator.mul(%a.tanh, x)  f32[4]\n  %a.mul_1 = operator.mul(%a.tanh_1, x)  f32[4]\n"
    out = "  out  %a.tanh, %a.tanh_1\n"
    (group,) = group_edits(edits(old + out, old + casts + out))
    assert (group.kind, group.count, group.module, group.text) == (
        "op:added",
        2,
        "a",
        "operator.mul(%tanh_*, x)",
    )


def test_the_place_of_a_modules_own_buffer_is_no_calling_convention():
    """Arguments in another order warn; a buffer between them may stand anywhere, and keeps its name."""
    old = "graph f\n  in   x: f32[4]\n  in   scale: f32[4] (buffer)\n  in   y: f32[4]\n  out  x, scale, y\n"
    moved = "graph f\n  in   scale: f32[4] (buffer)\n  in   x: f32[4]\n  in   y: f32[4]\n  out  x, scale, y\n"
    swapped = (
        "graph f\n  in   y: f32[4]\n  in   scale: f32[4] (buffer)\n  in   x: f32[4]\n  out  x, scale, y\n"
    )
    assert kinds(old, moved) == []
    assert kinds(old, swapped) == ["input:order"]
    assert kinds(old, old.replace("scale", "shift")) == ["input:removed", "input:added"]


def test_a_size_that_is_no_longer_anothers_changes_no_shape():
    """That x and y may differ now is an improvement; their shapes in the symbols' new names are no change beside it."""
    old = "graph f\n  sym  s0 = x.shape[0], y.shape[0] in [2, ∞]\n  in   x: f32[s0]\n  in   y: f32[s0]\n"
    new = old.replace("s0 = x.shape[0], y", "s0 = x.shape[0] in [2, ∞]\n  sym  s1 = y").replace(
        "y: f32[s0]", "y: f32[s1]"
    )
    sines = "  %a = .sin(x)  f32[s0]\n  %b = .sin(y)  f32[s0]\n  out  %a, %b\n"
    assert kinds(old + sines, new + sines.replace("(y)  f32[s0]", "(y)  f32[s1]")) == ["dim:split"]


def test_a_size_that_two_symbols_claim_is_of_the_first():
    """A file in which one size stands behind two symbols is equal to itself, whatever else changes."""
    twice = DYNAMIC.replace("s0 = x.shape[0]", "s0 = x.shape[0], y.shape[0]")
    assert kinds(twice, twice) == []
    assert kinds(
        twice, twice.replace("s1, 2, 4)  ", "s1, 4, 2)  ").replace("f32[s1, 2, 4]", "f32[s1, 4, 2]")
    ) == ["op:constant"]


def test_equal_sizes_that_became_one_symbol():
    """y's size is x's now: a program for fewer shapes."""
    joined = DYNAMIC.replace("  sym  s1 = y.shape[0] in [2, ∞]\n", "").replace(
        "s0 = x.shape[0]", "s0 = x.shape[0], y.shape[0]"
    )
    joined = joined.replace("s0 + s1", "2*s0").replace("s1", "s0")
    assert "dim:joined" in kinds(DYNAMIC, joined)
    assert "dim:split" in kinds(joined, DYNAMIC)


def test_inputs_added_removed_reordered_and_renamed():
    """The set of inputs counts, their order is the calling convention, an argument's name is its own affair."""
    two = "graph f\n  in   x: f32[4]\n  in   y: f32[4]\n  %a = torch.sub(x, y)  f32[4]\n  out  %a\n"
    turned = "graph f\n  in   y: f32[4]\n  in   x: f32[4]\n  %a = torch.sub(x, y)  f32[4]\n  out  %a\n"
    assert kinds(two, turned) == ["input:order"]
    assert [e.kind for e in edits(two, two.replace("x", "left").replace("y", "right"))] == [
        "input:renamed",
        "input:renamed",
    ]
    three = two.replace("  %a =", "  in   z: i64[2]\n  %a =")
    assert kinds(two, three) == ["input:added"]
    assert kinds(three, two) == ["input:removed"]


def test_a_parameter_is_its_name():
    """A parameter under another name is another one, also where its shape is the same; what reads it is not edited."""
    old = "graph f\n  in   x: f32[4]\n  in   fc1.weight: f32[4] grad\n  %a = torch.sub(x, fc1.weight)  f32[4]\n  out  %a\n"
    assert sorted(kinds(old, old.replace("fc1.weight", "fc1.scale"))) == ["input:added", "input:removed"]


def test_a_renamed_submodule_is_one_group():
    """All its parameters under another path, in every layer: one warning a module, in one group, and no other edit."""
    old = transformer(layers=8)
    text = print_graph(old)
    for a, b, module in (
        (".mlp", ".feed", "layers.*.mlp → layers.*.feed"),
        ("layers.", "blocks.", "layers → blocks"),
    ):
        diff = compare(old, parse_graph(text.replace(a, b)))
        (group,) = [group for group in diff.groups if group.kind not in INFO]
        assert (group.kind, f"{group.old} → {group.new}") == ("module:renamed", module)
        assert verdict(diff).level == "warn"
        assert verdict(diff, read_policy({"fail_on": ["module:*"]})).failed


def test_a_module_that_became_another_is_not_renamed():
    """With a parameter more, or of another shape, below the new path, the inputs are told one by one."""
    old = "graph f\n  in   x: f32[4]\n  in   a.w: f32[4]\n  in   a.b: f32[4]\n  %a = torch.sub(x, a.w, a.b)  f32[4]\n  out  %a\n"
    new = old.replace("a.w", "c.w").replace("in   a.b: f32[4]", "in   c.b: f32[1]").replace("a.b", "c.b")
    assert "module:renamed" not in kinds(old, new)


def test_a_type_that_is_no_longer_recorded_is_told():
    """A node without its type is not the node with it."""
    old = G + SUB + "  out  %a\n"
    assert kinds(old, old.replace("torch.sub(x, 1)  f32[4]", "torch.sub(x, 1)")) == ["type:other"]


def test_a_branch_of_a_cond_is_compared_by_its_place():
    """An op changed in one body is an edit of that body."""
    text = (
        G
        + "  %c = cond(x, @true_0, @false_0, [x])  (f32[4])\n  out  %c\n"
        + "body true_0\n  in   a: f32[4]\n  %s = .sin(a)  f32[4]\n  out  %s\n"
        + "body false_0\n  in   a: f32[4]\n  %s = .cos(a)  f32[4]\n  out  %s\n"
    )
    (edit,) = edits(text, text.replace(".cos(a)", ".tan(a)"))
    assert (edit.kind, edit.graph, edit.old, edit.new) == ("op:changed", "f/false_0", ".cos(a)", ".tan(a)")
    renamed = text.replace("true_0", "then").replace("false_0", "else_")
    assert kinds(text, renamed) == []


BROKEN = """\
graph f
  in   x: f32[8]
  %sin = .sin(x)  f32[8]
  out  %sin
break gb0059  f.py:f  print("n")   Failed to trace builtin operator
graph f ▸ resume#1
  in   y: f32[8]
  %cos = .cos(y)  f32[8]
  out  %cos
"""


def test_breaks_are_compared_by_id_line_and_reason():
    """A break more or less is an edit; the same break elsewhere in the file's order is none."""
    assert kinds(BROKEN, BROKEN) == []
    twice = (
        BROKEN
        + "break gb0142  f.py:f  x.item()   data-dependent\ngraph f ▸ resume#2\n  in   z: f32[8]\n  out  z\n"
    )
    assert kinds(BROKEN, twice) == ["break:added"]
    assert kinds(twice, BROKEN) == ["break:removed"]


def test_an_op_lost_at_a_break_is_not_hidden_by_it():
    """When a break goes and an op goes with it, the op is told."""
    whole = "graph f\n  in   x: f32[8]\n  %sin = .sin(x)  f32[8]\n  %cos = .cos(%sin)  f32[8]\n  out  %cos\n"
    without = "graph f\n  in   x: f32[8]\n  %sin = .sin(x)  f32[8]\n  out  %sin\n"
    changed = whole.replace(".cos", ".tan")
    assert kinds(BROKEN, whole) == ["break:removed"]
    assert kinds(BROKEN, changed) == ["break:removed", "op:added"]
    assert kinds(whole, BROKEN) == ["break:added"]
    assert "op:removed" in kinds(whole, without)


def test_a_variant_is_a_recompile_and_a_skipped_frame_is_told():
    """One more variant of a function, a frame left in eager, nothing captured: each has its kind."""
    one = G + SUB + "  out  %a\n"
    two = one + "\ngraph f ▸ variant#2   because k == 1\n  in   x: f32[4]\n" + SUB + "  out  %a\n"
    assert kinds(one, two) == ["recompile:added"]
    assert kinds(two, one) == ["recompile:removed"]
    assert [e.kind for e in edits(two, two.replace("k == 1", "k == 2"))] == ["recompile:reason"]
    skipped = one + "frame loopbrk SKIPPED: a break in a loop\n"
    assert kinds(one, skipped) == ["frame:skipped"]
    assert kinds(skipped, one) == ["frame:captured"]
    assert "capture:nothing" in kinds(one, "frame * NOTHING: no graph was captured\n")


def test_a_renamed_function_is_the_same_function():
    """The only frame under another name is compared, not replaced."""
    one = G + SUB + "  out  %a\n"
    assert kinds(one, one.replace("graph f", "graph g")) == []


def test_what_changed_in_the_environment_is_told_apart():
    """The header's environment is no edit."""
    old = snap(G + SUB + "  out  %a\n")
    new = parse_graph(
        HEADER.format(stats="frames=1 graphs=1 ops=1 breaks=0 recompiles=0").replace("2.13", "2.15")
        + G
        + SUB
        + "  out  %a\n"
    )
    diff = compare(old, new)
    assert (diff.edits, diff.env) == ((), (("torch", "2.13", "2.15"),))


def test_groups_leave_open_what_is_a_path_and_nothing_else():
    """Numbers of layers are grouped, also two in a row; constants that differ are not."""
    edits = [
        Edit("type:dtype", module=f"l.{k}.0", target=f"l.{k}.0.weight", text=f"l.{k}.0.weight")
        for k in range(3)
    ]
    edits += [Edit("op:added", target="f", text=f"f(%gelu_{k}, 0.{k})") for k in range(3)]
    groups = group_edits(edits)
    assert [(g.count, g.module, g.text) for g in groups[:1]] == [(3, "l.*.*", "l.*.*.weight")]
    assert len(groups) == 4


def test_one_edit_in_ten_layers_is_one_group():
    """The same edit in each layer is told once, with its count and the layers' path."""
    old = transformer(layers=10)
    graph = old.graphs[0]
    nodes = tuple(
        [
            n if n.target != "F.gelu" else type(n)(n.label, "F.relu", "\0", n.operands, n.type, n.place)
            for n in graph.nodes
        ]
    )
    (group,) = compare(old, with_graph(old, graph, replace(graph, nodes=nodes))).groups
    assert (group.kind, group.count, group.module, group.new) == (
        "op:changed",
        10,
        "layers.*.mlp",
        "F.relu(%linear)",
    )


def test_a_symbol_that_nothing_bounds_any_more_is_wider_and_the_other_way_narrower():
    """A range that vanished counts as unbounded: losing it is wider, getting one is narrower, for sizes read from data too."""
    sized = "graph f\n  sym  s0 = x.shape[0] in [{0}, {1}]\n  in   x: f32[s0]\n  %a = .sin(x)  f32[s0]\n  out  %a\n"
    read = (
        "graph f\n  sym  u0 = - in [{0}, {1}]\n  in   x: f32[4]\n  %a = .nonzero(x)  i64[u0, 1]\n  out  %a\n"
    )
    for text in (sized, read):
        tight, wide, open_ = text.format(2, 64), text.format(2, 128), text.format("-∞", "∞")
        assert kinds(tight, wide) == kinds(tight, open_) == ["range:widened"]
        assert kinds(wide, tight) == kinds(open_, tight) == ["range:narrowed"]


def test_a_symbol_without_its_line_is_no_narrower_than_any():
    """In snapshots made by hand: a symbol that is used and not declared counts as one without bounds."""
    old = snap(
        "graph f\n  sym  s0 = x.shape[0] in [2, 64]\n  in   x: f32[s0]\n  %a = .sin(x)  f32[s0]\n  out  %a\n"
    )
    bare = with_graph(old, old.graphs[0], replace(old.graphs[0], symbols=()))
    assert [e.kind for e in compare(old, bare).edits] == ["range:widened"]
    assert [e.kind for e in compare(bare, old).edits] == ["range:narrowed"]


def test_a_symbol_of_another_kind_is_an_edit():
    """A float where an int was."""
    text = "graph f\n  sym  s0 = x.shape[0] in [2, 64]{}\n  in   x: f32[s0]\n  %a = .sin(x)  f32[s0]\n  out  %a\n"
    assert kinds(text.format(""), text.format(" float")) == ["type:other"]


def test_a_bound_beyond_the_range_is_a_guard():
    """A condition on one symbol is told by its range where that holds it, else as a guard."""
    text = "graph f\n  sym  s0 = x.shape[0] in [3, 64]\n{}  in   x: f32[s0]\n  %a = .sin(x)  f32[s0]\n  out  %a\n"
    for inside in ("s0 >= 3", "3 <= s0 <= 64", "s0 < 65", "s0 > 2"):
        assert kinds(text.format(""), text.format(f"  guard {inside}\n")) == [], inside
    for beyond in ("s0 >= 4", "3 <= s0 <= 63", "s0 < 64", "s0 > 3", "s0 != 9", "4 <= s0"):
        assert kinds(text.format(""), text.format(f"  guard {beyond}\n")) == ["guard:added"], beyond


def test_a_renamed_frame_is_told():
    """A function or class under another name is information, with its breaks and resume functions."""
    renamed = BROKEN.replace("graph f", "graph Other.thing").replace("f.py:f ", "f.py:thing ")
    found = edits(BROKEN, renamed)
    assert {edit.kind for edit in found} <= set(INFO)
    (edit,) = [edit for edit in found if edit.kind == "frame:renamed"]
    assert (edit.old, edit.new) == ("f", "Other.thing")


def test_several_renamed_frames_are_matched_by_what_they_compute():
    """Two functions with other names, in another order: two renames and no more."""
    one = "graph {}\n  in   x: f32[4]\n  %a = .sin(x)  f32[4]\n  %b = .cos(%a)  f32[4]\n  out  %b\n"
    two = "graph {}\n  in   x: f32[4]\n  %a = .exp(x)  f32[4]\n  %b = .log(%a)  f32[4]\n  out  %b\n"
    found = edits(one.format("a") + two.format("b"), two.format("d") + one.format("c"))
    assert sorted((e.kind, e.old, e.new) for e in found) == [
        ("frame:renamed", "a", "c"),
        ("frame:renamed", "b", "d"),
    ]


def test_a_break_on_a_line_of_another_name_is_the_same():
    """A moved file, a renamed function or local in the line that breaks: information. Another id, or one more: an edit."""
    for a, b in (("f.py:f", "lib/g.py:f"), ("f.py:f", "f.py:g"), ('print("n")', 'print("m")')):
        assert a in BROKEN
        assert kinds(BROKEN, BROKEN.replace(a, b)) == [], (a, b)
    assert sorted(kinds(BROKEN, BROKEN.replace("gb0059", "gb0007"))) == ["break:added", "break:removed"]
    (line,) = [line for line in BROKEN.split("\n") if line.startswith("break")]
    assert kinds(BROKEN, BROKEN.replace(line, f"{line}\n{line}")) == ["break:added"]


def test_frames_in_eager_are_counted():
    """The same frame left in eager twice is more than once; another reason is told."""
    line = "frame g SKIPPED: why   at f.py:g\n"
    assert kinds(BROKEN + line, BROKEN + line + line) == ["frame:skipped"]
    found = edits(BROKEN + line, BROKEN + line.replace("why", "because"))
    assert [(e.kind, e.old, e.new) for e in found] == [("frame:reason", "why", "because")]


LOOP = """\
graph Net.forward
  in   x: f32[4]
  in   blocks.0.w: f32[4]
  in   blocks.1.w: f32[4]
  %blocks.0.mul = operator.mul(x, blocks.0.w)  f32[4]
  %blocks.0.sin = .sin(%blocks.0.mul)  f32[4]
  %blocks.1.mul = operator.mul(%blocks.0.sin, blocks.1.w)  f32[4]
  %blocks.1.sin = .sin(%blocks.1.mul)  f32[4]
  out  %blocks.1.sin
"""
LOOP_BROKEN = """\
graph Block.forward
  in   x: f32[4]
  in   w: f32[4]
  %mul = operator.mul(x, w)  f32[4]
  out  %mul
break gb0059  f.py:forward  print(x)   Failed to trace builtin operator
graph Block.forward ▸ resume#1
  in   y: f32[4]
  %sin = .sin(y)  f32[4]
  out  %sin
frame Net.forward SKIPPED: Failed to trace builtin operator   at f.py:forward
"""


def test_what_follows_from_a_break_in_every_block_is_under_it():
    """The loop is left in eager and its blocks have graphs of their own: one edit, which says so."""
    (edit,) = edits(LOOP, LOOP_BROKEN)
    assert edit.kind == "break:added"
    texts = [text for _, text in edit.leads_to if text]
    assert texts == [
        "frame left in eager: Net.forward",
        "graph split: Block.forward, Block.forward ▸ resume#1",
    ]
    (back,) = edits(LOOP_BROKEN, LOOP)
    assert back.kind == "break:removed"
    assert verdict(compare(snap(LOOP_BROKEN), snap(LOOP))).level == "warn"


def test_a_list_with_one_operand_more_has_other_operands():
    """torch.stack of three values in place of two: no constant of the call changed."""
    two = """\
graph f
  in   x: f32[4]
  %sin = .sin(x)  f32[4]
  %cos = .cos(x)  f32[4]
  %stack = torch.stack([%sin, %cos], 0)  f32[2, 4]
  out  %stack
"""
    three = two.replace("%cos], 0)  f32[2, 4]", "%cos, %sin], 0)  f32[3, 4]")
    assert [edit.kind for edit in edits(two, three)] == ["op:rewired"]
    assert [edit.kind for edit in edits(two, two.replace("], 0)", "], 1)"))] == ["op:constant"]


BEFORE_RESUME = """\
graph Net.forward
  in   x: f32[4]
  %sin = .sin(x)  f32[4]
  out  %sin
break gb0170  f.py:forward  if x.mean() > 1:   Data-dependent branching
"""
RESUMED = f"""\
{BEFORE_RESUME}\
graph Net.forward ▸ resume#1
  in   x: f32[4]
  %mul = operator.mul(x, 2)  f32[4]
  %cos = .cos(%mul)  f32[4]
  out  %cos
"""
RESUMED_BROKEN = f"""\
{BEFORE_RESUME}\
graph Block.forward
  in   x: f32[4]
  %mul = operator.mul(x, 2)  f32[4]
  out  %mul
break gb0059  f.py:forward  print(x)   Failed to trace builtin operator
graph Block.forward ▸ resume#1
  in   y: f32[4]
  %cos = .cos(y)  f32[4]
  out  %cos
"""


def test_a_graph_that_a_new_break_leaves_without_ops_was_not_joined():
    """A break inside of an inlined block takes the graph of its caller's rest away; without it they are joined again."""
    (edit,) = edits(RESUMED, RESUMED_BROKEN)
    assert [text for _, text in edit.leads_to] == [
        "graph split: Block.forward, Block.forward ▸ resume#1",
        "no graph any more: Net.forward ▸ resume#1",
    ]
    (back,) = edits(RESUMED_BROKEN, RESUMED)
    assert [text for _, text in back.leads_to] == [
        "captured now: Net.forward ▸ resume#1",
        "joined into one graph: Block.forward, Block.forward ▸ resume#1",
    ]


def test_what_is_under_a_break_still_fails():
    """Where breaks are no failure by policy, a frame in eager under one is."""
    diff = compare(snap(LOOP), snap(LOOP_BROKEN))
    assert verdict(diff, read_policy({"fail_on": ["frame:skipped"]})).failed
    assert not verdict(diff, read_policy({"fail_on": ["dim:static"]})).failed


def test_source_lines_are_counted_as_lines():
    """Two nodes of one line that reads differently are one changed line."""
    place = "  #    f.py:f   {}\n"
    body = "  %a = .sin(x)  f32[4]\n  %b = .cos(%a)  f32[4]\n  out  %b\n"
    (edit,) = edits(G + place.format("y = a") + body, G + place.format("y = b") + body)
    assert (edit.kind, edit.count) == ("source", 1)


def test_a_volatile_constant_may_be_any_on_the_other_side():
    """A constant that is marked in a snapshot equals whatever a fresh capture has there, and nothing else is let pass."""
    text = G + "  %a = torch.mul(x, {})  f32[4]\n  %b = torch.add(%a, {})  f32[4]\n  out  %b\n"
    mark = 'repr("<volatile>")'
    old = text.format(mark, 3)
    for new in (text.format("0.7312", 3), text.format('"a, b"', 3), text.format(mark, 3)):
        assert kinds(old, new) == kinds(new, old) == []
    assert kinds(old, text.format("0.7312", 4)) == ["op:constant"]
    assert kinds(old, text.format("0.7312, 1", 3)) == ["op:constant"]


def test_only_arguments_have_an_order():
    """Arguments that changed places are told by name; parameters that did, in torch's own order of nodes, are information."""
    head = ["  in   x: f32[4]", "  in   y: f32[4]", "  in   fc.a: f32[4]", "  in   fc.b: f32[4]"]
    tail = "  %s = torch.sub(x, y, fc.a, fc.b)  f32[4]\n  out  %s\n"
    old, arguments, parameters = (
        "graph f\n" + "\n".join([head[k] for k in order]) + f"\n{tail}"
        for order in ((0, 1, 2, 3), (1, 0, 2, 3), (2, 3, 0, 1))
    )
    (edit,) = edits(old, arguments)
    assert (edit.kind, edit.text) == ("input:order", "x moved")
    assert [e.kind for e in edits(old, parameters)] == ["order"]
