"""Verdicts: levels, policy, allowances, tolerances, environments."""

from __future__ import annotations

import sys

import pytest
from msgspec.structs import replace

from peek_backend.diff import Policy, compare, read_policy, verdict
from peek_backend.diff.edits import FAIL, IMPROVEMENTS, INFO, KINDS, WARN, Diff, Edit
from peek_backend.diff.policy import load_policy
from peek_backend.errors import PeekError

from .mutations import with_graph
from .test_graph_edits import BROKEN, snap
from .transformer import transformer


def diff_of(*edits: Edit, env=(), old_ops: int = 100, new_ops: int = 100) -> Diff:
    counts = {"frames": 1, "graphs": 1, "breaks": 0, "recompiles": 0}
    return Diff("t", tuple(env), (), edits, {"ops": old_ops, **counts}, {"ops": new_ops, **counts})


def levels(diff: Diff, policy: Policy | None = None, **options) -> list[str]:
    return [finding.level for finding in verdict(diff, policy, **options).findings]


def test_each_kind_has_one_level():
    """Every kind is in exactly one row of the table, and every improvement warns."""
    assert len(KINDS) == len(FAIL) + len(WARN) + len(INFO)
    assert set(WARN) >= IMPROVEMENTS
    for kinds, level in ((FAIL, "fail"), (WARN, "warn"), (INFO, "info")):
        for kind in kinds:
            assert levels(diff_of(Edit(kind))) == [level], kind


def test_no_edit_is_the_same():
    """Without edits the level is same, with information only it is info; neither fails."""
    assert verdict(diff_of()).level == "same"
    found = verdict(diff_of(Edit("name", count=20)), strict=True)
    assert (found.level, found.failed) == ("info", False)


def test_strict_ratchets_improvements_in():
    """A break that is gone passes, and fails under strict."""
    whole = "graph f\n  in   x: f32[8]\n  %sin = .sin(x)  f32[8]\n  %cos = .cos(%sin)  f32[8]\n  out  %cos\n"
    diff = compare(snap(BROKEN), snap(whole))
    assert verdict(diff).level == "warn"
    assert verdict(diff, strict=True).level == "fail"


def test_different_environments_gate_on_little():
    """With another torch, an op added warns, a new break still fails, and the verdict says so."""
    env = [("torch", "2.13", "2.15")]
    found = verdict(diff_of(Edit("op:added"), Edit("break:added"), env=env))
    assert [f.level for f in found.findings] == ["fail", "warn"]
    assert found.confounded == "torch 2.13 → 2.15"
    assert levels(diff_of(Edit("op:added"), env=env)) == ["warn"]
    assert levels(diff_of(Edit("op:added"), env=env), read_policy({"fail_on": ["op:added"]})) == ["fail"]


def test_fail_on_narrows_the_gate():
    """Only the named kinds fail then; globs are names too."""
    policy = read_policy({"fail_on": ["break:added", "dim:*"]})
    assert levels(diff_of(Edit("op:added"), Edit("dim:static")), policy) == ["fail", "warn"]


def test_an_allowance_covers_what_lies_below_its_path():
    """Path, kind and target must all fit; the finding names the entry; an entry that covers nothing is told."""
    table = {
        "allow": [{"path": "layers.*.attn", "kind": "op:added", "target": "aten.to"}, {"kind": "dim:static"}]
    }
    policy = read_policy(table)
    covered = Edit("op:added", module="layers.3.attn.q", target="aten.to.dtype")
    others = [
        replace(covered, module="layers.3.mlp"),
        replace(covered, target="aten.tor"),
        replace(covered, kind="op:removed"),
    ]
    found = verdict(diff_of(covered, *others), policy)
    assert [f.level for f in found.findings] == ["fail", "fail", "fail", "allowed"]
    assert found.findings[-1].allowed_by == "path=layers.*.attn, kind=op:added, target=aten.to"
    assert found.unused_allowances == ("kind=dim:static",)


def test_a_constant_within_tolerance_warns():
    """A float that moved by less than the tolerance warns, by more fails; an integer has no nearly."""
    text = "graph f\n  in   x: f32[8]\n  %a = torch.mul(x, {})  f32[8]\n  out  %a\n"

    def level(old: str, new: str, **table) -> list[str]:
        return levels(compare(snap(text.format(old)), snap(text.format(new))), read_policy(table))

    assert level("1.0", "1.0000001") == ["warn"]
    assert level("1.0", "1.001") == ["fail"]
    assert level("1.0", "1.001", tolerance={"float": 0.01}) == ["warn"]
    assert level("1000000000", "1000000001") == ["fail"]
    assert level("nan", "1.0") == ["fail"]
    assert level("inf", "1.0", tolerance={"float": 0.9}) == ["fail"]


def test_growth_within_tolerance_warns():
    """Ops added while the graph grew by no more than tolerance.ops warn."""
    policy = read_policy({"tolerance": {"ops": "+2%"}})
    assert levels(diff_of(Edit("op:added"), new_ops=102), policy) == ["warn"]
    assert levels(diff_of(Edit("op:added"), new_ops=103), policy) == ["fail"]


def test_level_stats_looks_at_counts_alone():
    """Op edits do not count, their number does; breaks and static dims still do."""
    policy = read_policy({"level": "stats"})
    assert levels(diff_of(Edit("op:changed"), Edit("type:dtype")), policy) == []
    assert levels(diff_of(Edit("op:added"), new_ops=101), policy) == ["fail"]
    assert levels(diff_of(Edit("op:removed"), new_ops=99), policy) == ["warn"]
    assert levels(diff_of(Edit("dim:static"), Edit("op:added")), policy) == ["fail"]
    assert levels(diff_of(new_ops=101), read_policy({"level": "stats", "tolerance": {"ops": "+5%"}})) == []


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"fail_onn": []}, "fail_on"),
        ({"fail_on": ["op:addde"]}, "op:added"),
        ({"fail_on": "op:added"}, "no list"),
        ({"allow": [{"paht": "x"}]}, "path"),
        ({"allow": [{"kind": "op:aded"}]}, "op:added"),
        ({"allow": [{"path": 3}]}, "no text"),
        ({"allow": [{}]}, "everything"),
        ({"allow": {"path": "x"}}, "no list"),
        ({"tolerance": {"flaot": 1}}, "float"),
        ({"tolerance": {"float": -1}}, "0 or more"),
        ({"tolerance": {"float": float("nan")}}, "0 or more"),
        ({"tolerance": {"ops": "2"}}, "+2%"),
        ({"tolerance": 3}, "no table"),
        ({"level": "op"}, "ops"),
        ({"dir": 3}, "no text"),
        *(
            ({"dir": name}, "leads out of the project")
            for name in ("/abs", "../graphs", "a/../../b", ".", "C:\\x", "\\x")
        ),
    ],
)
def test_a_wrong_setting_is_named_with_the_right_one(table: dict, words: str):
    """Unknown keys, kinds and values are errors that suggest what was meant."""
    with pytest.raises(PeekError) as caught:
        read_policy(table)
    assert words in str(caught.value)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs tomli on Python 3.10")
def test_the_policy_is_read_from_pyproject(tmp_path):
    """The table of the issue's example is read; a missing file or table is the default; broken TOML is an error."""
    path = tmp_path / "pyproject.toml"
    assert load_policy(path) == Policy()
    path.write_text("[project]\nname = 'x'\n", encoding="utf-8")
    assert load_policy(path) == Policy()
    path.write_text(
        '[tool.peek]\ndir = "__graphs__"\nallow = [{path = "layers.*.attn", kind = "op:added", target = "aten.to"}]\n'
        'tolerance = {ops = "+0%", float = 1e-6}\nlevel = "ops"\n',
        encoding="utf-8",
    )
    assert len(load_policy(path).allow) == 1
    path.write_text("[tool.peek\n", encoding="utf-8")
    with pytest.raises(PeekError, match="cannot read"):
        load_policy(path)


def test_an_unchanged_model_passes():
    """A snapshot against itself is the same, whatever the policy."""
    snapshot = transformer(layers=2)
    same = with_graph(snapshot, snapshot.graphs[0], snapshot.graphs[0])
    assert verdict(compare(snapshot, same), strict=True).level == "same"


def test_a_misspelt_setting_is_told_by_its_name_and_place():
    """The name stands beside what it should have been, the file behind it."""
    for table, words in (
        ({"alow": []}, "unknown setting 'alow' in [tool.peek]\n  fix: did you mean 'allow'?"),
        ({"level": "stat"}, "unknown level 'stat' in [tool.peek]\n  fix: did you mean 'stats'?"),
        ({"tolerance": {"op": "+1%"}}, "unknown tolerance 'op' in [tool.peek]\n  fix: did you mean 'ops'?"),
        (
            {"allow": [{"traget": "x"}]},
            "unknown key 'traget' in an allow entry of [tool.peek]\n  fix: did you mean",
        ),
    ):
        with pytest.raises(PeekError) as refused:
            read_policy(table)
        assert str(refused.value).startswith(words)


def test_an_unknown_kind_is_told_a_near_one_or_none():
    """A misspelt kind names the one that was meant; nonsense names none; one that never fails is refused as such."""
    for word, meant in (("op:aded", "'op:added'"), ("break:add", "'break:added'")):
        with pytest.raises(PeekError) as caught:
            read_policy({"fail_on": [word]})
        assert f"did you mean {meant}?" in caught.value.fix
    with pytest.raises(PeekError) as caught:
        read_policy({"fail_on": ["nonsense"]})
    assert "did you mean" not in caught.value.fix
    with pytest.raises(PeekError, match="has no effect"):
        read_policy({"fail_on": ["note"]})


def test_without_a_toml_reader_only_a_table_of_ours_is_an_error(tmp_path, monkeypatch):
    """On a Python without one: a project without [tool.peek] has the default policy, one with it is told what to install."""
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", None)
    path = tmp_path / "pyproject.toml"
    path.write_text('[tool.other]\npeek = "tool.peek"\n# [tool.peek]\n')
    assert load_policy(path) == Policy()
    for text in (
        '[tool.peek]\nlevel = "ops"\n',
        '[ tool . "peek" ]\n',
        "[tool.peek.tolerance]\n",
        "[[tool.peek.allow]]\n",
        "tool.peek.level = 1\n",
    ):
        path.write_text(text)
        with pytest.raises(PeekError, match="pip install tomli"):
            load_policy(path)
