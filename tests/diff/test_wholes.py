"""Modules that came or went whole are one edit each."""

from __future__ import annotations

from peek_backend.diff import compare, read_policy, verdict
from peek_backend.diff.edits import INFO
from peek_backend.render.diff_view import panels
from peek_backend.snapshot.graphfile import parse_graph, print_graph

from .test_graph_edits import edits, kinds
from .transformer import transformer

OPS, INPUTS = 21, 8  # of one layer
A_LINE = "  # a   model.py:forward   a\n"
BASE = """\
graph f
  in   x: f32[4]
  in   a.w: f32[4] grad
  # a   model.py:forward   a
  %a.mul = torch.mul(x, a.w)  f32[4]
"""
HEAD = """\
  in   head.w: f32[4] grad
  in   head.b: f32[4] grad
"""
MORE = """\
  # head   model.py:forward   head
  %head.mul = torch.mul(%a.mul, head.w)  f32[4]
  %head.add = torch.add(%head.mul, head.b)  f32[4]
  out  %head.add
"""
OLD = BASE + "  out  %a.mul\n"
NEW = BASE.replace(A_LINE, HEAD + A_LINE) + MORE


def test_layers_more_or_less_are_one_group():
    """Two layers more are one failing line that counts their ops and inputs, and two less another."""
    small, large = transformer(layers=4), transformer(layers=6)
    for old, new, kind in ((small, large, "module:added"), (large, small, "module:removed")):
        diff = compare(old, new)
        (group,) = [group for group in diff.groups if group.kind not in INFO]
        assert (group.kind, group.module, len(group.edits)) == (kind, "layers.*", 2)
        assert group.text.startswith(f"{OPS} ops (F.linear ×6, ")
        assert group.text.endswith(f"), {INPUTS} inputs")
        assert [len(edit.inside) for edit in group.edits] == [OPS + INPUTS] * 2
        judged = verdict(diff)
        assert (judged.level, judged.count("fail")) == ("fail", 2)


def test_a_head_more_is_one_edit():
    """The module alone is told; that the output now comes through it follows."""
    assert kinds(OLD, NEW) == ["module:added"]
    assert kinds(NEW, OLD) == ["module:removed"]
    (added,) = [edit for edit in edits(OLD, NEW) if edit.kind == "module:added"]
    assert (added.module, added.text) == ("head", "2 ops (torch.mul, torch.add), 2 inputs")


def test_a_single_op_is_told_as_such():
    """A module that has one op is that op."""
    new = NEW.replace("  %head.add = torch.add(%head.mul, head.b)  f32[4]\n", "").replace(
        "%head.add", "%head.mul"
    )
    assert "module:added" not in kinds(OLD, new)
    assert "op:added" in kinds(OLD, new)


def test_a_module_that_was_there_is_told_op_by_op():
    """Ops added to a module that the old graph has too are not folded."""
    more = BASE.replace(A_LINE, "  in   a.b: f32[4] grad\n" + A_LINE)
    more += "  %a.sub = torch.sub(%a.mul, a.b)  f32[4]\n  %a.sin = torch.sin(%a.sub)  f32[4]\n  out  %a.sin\n"
    assert kinds(OLD, more).count("op:added") == 2


def test_a_renamed_module_is_not_a_new_one():
    """A layer more beside a module under another name: two edits, each with its own word."""
    old, new = transformer(layers=4), transformer(layers=5)
    renamed = parse_graph(print_graph(new).replace(".mlp", ".feed"))
    found = [group.kind for group in compare(old, renamed).groups if group.kind not in INFO]
    assert sorted(found) == ["module:added", "module:renamed"]


def test_a_submodule_of_a_renamed_module_that_keeps_its_parameter_is_not_gone():
    """Ops that go from a part of a module under another name are told one by one while the part has its parameter."""
    tail = "  %a.mul = torch.mul(x, a.w)  f32[4]\n"
    ops = "  %a.part.sin = .sin(%a.mul)  f32[4]\n  %a.part.cos = .cos(%a.part.sin)  f32[4]\n"
    head = "graph f\n  in   x: f32[4]\n  in   a.w: f32[4] grad\n  in   a.part.w: f32[4] grad\n" + tail
    old, new = head + ops + "  out  %a.part.cos\n", head + "  out  %a.mul\n"
    assert kinds(old, new).count("op:removed") == 2
    found = kinds(old, new.replace("a.", "c."))
    assert (found.count("module:renamed"), found.count("op:removed"), found.count("module:removed")) == (
        1,
        2,
        0,
    )


def test_the_policy_sees_what_is_inside():
    """A kind that the policy fails is not hidden, and a module is allowed by its path, its kind, or all of its parts."""
    diff = compare(transformer(layers=4), transformer(layers=5))
    levels = {
        "fail": {"fail_on": ["op:added"]},
        "warn": {"fail_on": ["op:removed"]},
        "allowed": {"allow": [{"path": "layers.4"}]},
    }
    for level, table in levels.items():
        (finding,) = [f for f in verdict(diff, read_policy(table)).findings if f.level != "info"]
        assert finding.level == level
    parts = read_policy({"allow": [{"kind": "op:*"}, {"kind": "input:*"}]})
    assert not verdict(diff, parts).failed
    assert verdict(diff, read_policy({"allow": [{"kind": "op:*"}]})).failed


def test_growth_forgives_ops_and_no_parameters():
    """A layer within tolerance.ops fails for its parameters, as a parameter alone does, and warns where these are allowed."""
    diff = compare(transformer(layers=4), transformer(layers=5))
    growth = {"tolerance": {"ops": "+50%"}}
    assert verdict(diff, read_policy(growth)).failed
    judged = verdict(diff, read_policy(growth | {"allow": [{"kind": "input:added"}]}))
    assert (judged.level, judged.unused_allowances) == ("warn", ())


def test_each_allowance_of_a_modules_parts_is_of_use():
    """Where several entries allow a module together none of them is told as needless."""
    diff = compare(transformer(layers=4), transformer(layers=5))
    judged = verdict(diff, read_policy({"allow": [{"kind": "op:*"}, {"kind": "input:*"}, {"kind": "dim:*"}]}))
    assert (judged.failed, judged.unused_allowances) == (False, ("kind=dim:*",))


def test_the_picture_marks_each_op():
    """In the merged graph all ops and inputs of the new module are marked as added."""
    (panel,) = panels(compare(transformer(layers=4), transformer(layers=5)))
    marked = [row for row in panel.rows if row.mark == "added"]
    assert len(marked) == OPS + INPUTS
