"""A verdict as text, JSON, Markdown and GitHub commands."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest

from peek_backend.diff import compare, verdict
from peek_backend.diff.edits import Diff, Edit
from peek_backend.model.snapshot import Place
from peek_backend.render.diff_github import render_github
from peek_backend.render.diff_json import render_json
from peek_backend.render.diff_markdown import render_markdown, render_summary
from peek_backend.render.diff_text import render_text

HOSTILE = [
    "</script>",
    '"',
    "{",
    "|",
    "->",
    "a\nb",
    "\x1b[31mred",
    "🔥",
    "::error::",
    "a,b:c%d\r",
    "`x`",
    "日本" * 60,
    "\u202e",
    "x" * 300,
]
COUNTS = {"frames": 1, "graphs": 1, "ops": 3, "breaks": 0, "recompiles": 0}


def diff_of(*edits: Edit, name: str = "test_mlp[dynamic]", env=()) -> Diff:
    return Diff(name, tuple(env), (), edits, COUNTS, COUNTS)


def example() -> Diff:
    """The diff of the format's description: a static dim, an op added in 24 layers, 20 renames."""
    mul = [
        Edit(
            "op:added",
            "MLP.forward",
            f"layers.{k}.mlp",
            "operator.mul",
            "operator.mul(%gelu, 1.0001)",
            place=Place("model.py", "forward", "h * 1.0001", 18),
        )
        for k in range(24)
    ]
    static = Edit(
        "dim:static", "MLP.forward", target="x.shape[0]", text="x.shape[0]", old="s0 [2, ∞]", new="4",
        place=Place("model.py", "forward", "if x.shape[0] == 4:", 31), follows=3, sample="f32[s0, 8] → f32[4, 8]",
    )  # fmt: skip
    return diff_of(static, *mul, Edit("name", "MLP.forward", text="nodes", count=20))


EXAMPLE = """\
FAIL test_mlp[dynamic]: 25 failing changes, 1 info
  __graphs__/test_mlp[dynamic].graph
  ✗ dim became static      x.shape[0]   s0 [2, ∞] → 4
      model.py:31  if x.shape[0] == 4:
      └ 3 downstream types follow (f32[s0, 8] → f32[4, 8])
  ✗ op added ×24           layers.*.mlp   operator.mul(%gelu, 1.0001)
      model.py:18
  · 20 nodes renamed
accept: pytest … --peek-update
review: peek review
why: peek explain 'peek-out/a b.peek.jsonl' 'x.shape[0]'
"""


def test_text_reads_as_the_description_says():
    """Worst first, one line a group, what follows below its cause, the commands last."""
    told = verdict(example())
    where_is = "__graphs__/test_mlp[dynamic].graph"
    assert render_text(told, where_is=where_is, capture="peek-out/a b.peek.jsonl") == EXAMPLE
    assert "peek explain" not in render_text(told, where_is=where_is)  # there is nothing to ask


def columns(text: str) -> int:
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


@pytest.mark.parametrize("hostile", HOSTILE)
def test_text_keeps_to_its_columns_and_lets_nothing_through(hostile: str):
    """No line is wider than 80 columns and no control character reaches the terminal, whatever the names hold."""
    edit = Edit(
        "op:changed",
        hostile,
        hostile,
        hostile,
        hostile,
        hostile,
        hostile,
        Place(hostile, hostile, hostile, 3),
        follows=2,
        sample=hostile,
    )
    text = render_text(
        verdict(diff_of(edit, name=hostile, env=[("torch", hostile, "2.15")])), where_is=hostile
    )
    body = text.split("\n")[1:]
    assert all(columns(line) <= 80 for line in body), max(body, key=columns)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)


def test_colour_only_when_asked():
    """Escape codes are there with ``color`` and nowhere else, and change no other character."""
    plain, coloured = render_text(verdict(example())), render_text(verdict(example()), color=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain
    assert coloured != plain


def test_no_change_says_so():
    """An empty diff is one line without commands."""
    assert render_text(verdict(diff_of())) == "OK test_mlp[dynamic]: no change\n"


def test_many_groups_are_counted():
    """Beyond the limit the groups left out are counted."""
    edits = [Edit("op:added", text=f"op{'abcdefghij'[k % 10]}{k}()") for k in range(70)]
    text = render_text(verdict(diff_of(*edits)), limit=50)
    assert "… and 20 more groups of changes" in text
    assert text.count("✗") == 50


def test_a_confounded_verdict_is_labelled():
    """The environments that differ stand below the title."""
    text = render_text(verdict(diff_of(Edit("op:added", text="f()"), env=[("torch", "2.13", "2.15")])))
    assert "confounded (torch 2.13 → 2.15)" in text
    assert text.startswith("WARN ")


def test_json_holds_every_key_and_every_edit():
    """The stable document: all keys, a line where one is known, null where not, plain ASCII."""
    diff = example()
    text = render_json(verdict(diff), diff)
    assert text.isascii()
    data = json.loads(text)
    assert list(data) == [
        "format",
        "version",
        "name",
        "level",
        "strict",
        "confounded",
        "environment",
        "stats",
        "findings",
        "unused_allowances",
    ]
    static, added, names = data["findings"]
    assert (static["kind"], static["edits"][0]["line"], static["follows"]) == ("dim:static", 31, 3)
    assert (added["count"], len(added["edits"]), added["module"]) == (24, 24, "layers.*.mlp")
    assert (names["level"], names["count"], names["edits"][0]["line"]) == ("info", 20, None)
    surrogate = diff_of(Edit("op:constant", text="\ud800", delta=float("inf")))
    assert json.loads(render_json(verdict(surrogate), surrogate))["findings"][0]["edits"][0]["delta"] is None


@pytest.mark.parametrize("hostile", HOSTILE)
def test_markdown_keeps_its_table(hostile: str):
    """Whatever the names hold, each finding is one row of five cells, and no HTML of theirs stands bare."""
    edit = Edit(
        "op:changed",
        "g",
        hostile,
        hostile,
        hostile,
        hostile,
        hostile,
        Place(hostile, hostile, hostile, 3),
        follows=2,
        sample=hostile,
    )
    text = render_markdown(verdict(diff_of(edit)))
    rows = [line for line in text.split("\n") if line.startswith("| ")]
    assert len(rows) == 2
    assert len(re.findall(r"(?<!\\)\|", rows[1])) == 6
    outside = re.sub(r"(`+).*?\1", "", rows[1])
    assert "</script>" not in outside


def test_github_commands_are_at_most_ten_worst_first():
    """One command a group, errors before warnings, on the user's line, or where none is known on the snapshot."""
    warnings = [Edit("type:stride", text=f"w{'abcdefgh'[k]}()") for k in range(8)]
    errors = [
        Edit("op:added", text=f"e{'abcdefgh'[k]}()", place=Place("model.py", "f", "x", 7 + k))
        for k in range(6)
    ]
    lines = render_github(
        [(verdict(diff_of(*warnings)), "a.graph"), (verdict(diff_of(*errors)), "b.graph")],
        path_of="pkg/{}".format,
    ).splitlines()
    assert len(lines) == 10
    assert [line.startswith("::error ") for line in lines] == [True] * 6 + [False] * 4
    assert lines[0] == "::error file=pkg/model.py,line=7,title=test_mlp[dynamic]%3A op added::ea()"
    assert lines[6] == "::warning file=a.graph,title=test_mlp[dynamic]%3A strides changed::wa()"
    assert render_github([(verdict(diff_of(Edit("name", text="nodes"))), "a.graph")]) == ""


@pytest.mark.parametrize("hostile", HOSTILE)
def test_github_commands_cannot_be_broken_out_of(hostile: str):
    """A hostile name makes no second command and no second property."""
    edit = Edit("op:added", text=hostile, place=Place(hostile, "f", "", 3))
    text = render_github([(verdict(diff_of(edit, name=hostile)), "")])
    assert text.count("\n") == 1
    head = re.fullmatch(r"::error file=([^,:]*),line=3,title=([^,:]*)::(.*)\n", text)
    assert head, text
    assert "\r" not in text and not re.search(r"%(?!25|0D|0A|3A|2C)", text)


def test_a_summary_stays_below_its_limit():
    """A long summary is cut at a line's end, and says how many lines are left out."""
    text = render_summary(["x" * 99 + "\n" for _ in range(20_000)], limit=100_000)
    assert len(text.encode()) <= 100_000
    left = int(re.search(r"… ([\d,]+) more lines are left out", text)[1].replace(",", ""))
    assert left + text.count("\n") - 2 == 40_000
    assert render_summary(["a\n"]) == "a\n\n"


def test_a_real_diff_goes_through_every_output():
    """A diff of two small files comes out of each renderer."""
    from tests.diff.test_graph_edits import BROKEN, snap

    diff = compare(snap(BROKEN), snap(BROKEN.replace(".cos(y)", ".tan(y)")))
    found = verdict(diff)
    assert "op changed" in render_text(found)
    assert "`.cos(y) → .tan(y)`" in render_markdown(found)
    assert json.loads(render_json(found, diff))["findings"][0]["new"] == ".tan(y)"
    assert "::error title=" in render_github([(found, "")])
