"""On every case peek's counts, reasons, sources, ranges and recompiles are those that torch showed when the facts were taken.

The facts hold several counts of torch's own. ``breaks`` are its log lines; ``counters["graph_break"]`` misses data-dependent
jumps (022) and frames that were skipped (024, 074, 114); ``explain`` says graphs - 1 (-1 in 116); the log counts the attempt
that the recompile limit refused as a recompile (024).
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from peek_backend.capture import compat
from peek_backend.capture.sources import readable

from .conftest import CASES, FACTS, MEASURED

pytestmark = pytest.mark.timeout(600)  # the first test runs all cases, twice

_LOG = re.compile(r"in user code at (\S+):(\d+)")
_VARIANT = re.compile(r"^\s*- (\d+/\d+): (.*)$", re.MULTILINE)


FACTS_HOLD = pytest.mark.skipif(
    not torch.__version__.startswith("2.13"),
    reason="the facts were measured on torch 2.13; others break elsewhere",
)


def case_record(ran, case):
    if not (ran.folder / "peek" / f"{case}.json").exists():
        pytest.skip("needs transformers")
    return ran.record(case)


@FACTS_HOLD
@pytest.mark.parametrize("case", MEASURED)
def test_counts(ran, case):
    """Breaks are torch's break log lines, graphs its backend calls, recompiles its recompile log without the refused ones."""
    record, facts = case_record(ran, case), FACTS[case]
    refused = sum(r.refused for r in record.recompiles)
    found = (record.stats.breaks, record.stats.graphs, record.stats.recompiles + refused)
    assert found == (facts["n_graph_break_logs"], facts["n_graphs"], facts["n_recompiles"])
    assert record.problems == ()


@FACTS_HOLD
@pytest.mark.parametrize("case", [c for c in MEASURED if FACTS[c]["n_graph_break_logs"]])
def test_breaks_say_where_and_why(ran, case):
    """Each break has the line that torch's log names, and the reason that stands in it."""
    record = case_record(ran, case)
    logs = FACTS[case]["graph_break_logs"]
    told = Counter((Path(m[1]).name, int(m[2])) for log in logs if (m := _LOG.search(log)))
    ours = Counter((Path(e.stack[-1].file).name, e.stack[-1].line) for e in record.breaks)
    assert ours == told
    for event in record.breaks:
        assert any(event.reason in log for log in logs), event.reason
        assert event.link is None or event.link.lower().endswith(f"{event.id}.html".lower())
        assert event.frame is not None and record.frames[event.frame].outcome in (
            "broken",
            "skipped",
            "failed",
        )


@FACTS_HOLD
@pytest.mark.parametrize("case", MEASURED)
def test_graphs_end_as_torch_says(ran, case):
    """A graph that a break ended carries it, with the code of the line; one that returned carries none."""
    record = case_record(ran, case)
    for graph, facts in zip(_graphs(record), FACTS[case]["graphs"], strict=True):
        assert graph.compile_id == facts["compile_id"]
        by_ddp = "DDPOptimizer" in facts["reason"]
        assert (graph.ended_by is not None) == (facts["graph_break"] and not by_ddp)
        if graph.ended_by is not None:
            assert graph.ended_by.stack[-1].code == facts["reason_line"]
        assert (graph.never_ran is not None) == ("compile_error" in FACTS[case])


def _graphs(record):
    from peek_backend.analysis.stats import captured_graphs

    return captured_graphs(record)


@FACTS_HOLD
@pytest.mark.parametrize("case", MEASURED)
def test_sources(ran, case):
    """Every placeholder has the source that Dynamo gives it."""
    record = case_record(ran, case)
    for graph, facts in zip(_graphs(record), FACTS[case]["graphs"], strict=True):
        told = [n.get("source") for n in facts["nodes"] if n["op"] == "placeholder"]
        ours = [n.source.origin if n.source else None for n in graph.nodes if n.op == "placeholder"]
        assert [s for s, t in zip(ours, told, strict=True) if t] == [t for t in told if t]


@FACTS_HOLD
@pytest.mark.parametrize("case", MEASURED)
def test_symbols(ran, case):
    """Every symbol has torch's range, hint, sources and replacement."""
    record = case_record(ran, case)
    for graph, facts in zip(_graphs(record), FACTS[case]["graphs"], strict=True):
        ours = {s.name: s for s in graph.symbols}
        assert set(facts["symbols"]) <= set(ours)
        for name, told in facts["symbols"].items():
            symbol = ours[name]
            assert _range(symbol) == told["range"].replace("int_oo", "oo"), name
            assert list(symbol.sources) == list(dict.fromkeys(_readable(s) for s in told["sources"]))
            assert symbol.hint == (None if told["hint"] == "None" else pytest.approx(float(told["hint"])))
            assert symbol.replaced_by == facts["replacements"].get(name)


def _readable(source):
    return readable(source, "self")


def _range(symbol):
    lower = "-oo" if symbol.lower is None else symbol.lower
    upper = "oo" if symbol.upper is None else symbol.upper
    return f"VR[{lower}, {upper}]"


@FACTS_HOLD
@pytest.mark.parametrize("case", [c for c in MEASURED if any(g["shape_guards"] for g in FACTS[c]["graphs"])])
def test_every_shape_guard_is_a_fact_of_its_symbols(ran, case):
    """What torch guards of sizes stands, in plain arithmetic and with the user's line, at each symbol in it."""
    record = case_record(ran, case)
    for graph, facts in zip(_graphs(record), FACTS[case]["graphs"], strict=True):
        for told in facts["shape_guards"]:
            inside = [s for s in graph.symbols if re.search(rf"\b{s.name}\b", told)]
            if any("ephemeral" in source for s in inside for source in s.sources):
                continue  # 076: a nested tensor's ragged sizes take their numbers from a counter of the process
            for symbol in inside:
                texts = {f.text.partition(" (asked")[0]: f for f in symbol.facts}
                assert _plain(told) in texts, (told, list(texts))
                assert texts[_plain(told)].user is not None


def _plain(expr):
    """sympy's relations as Python writes them: ``Eq(a, b)`` is ``a == b``."""
    found = re.fullmatch(r"(Eq|Ne)\((.+), (.+)\)", expr)
    return f"{found[2]} {'==' if found[1] == 'Eq' else '!='} {found[3]}" if found else expr


@FACTS_HOLD
@pytest.mark.parametrize("case", [c for c in MEASURED if FACTS[c]["recompile_logs"]])
def test_recompiles_name_the_variants_and_guards(ran, case):
    """Each recompile has a failed guard for every variant torch's log names, with the value it expected."""
    record = case_record(ran, case)
    for recompile, log in zip(record.recompiles, FACTS[case]["recompile_logs"], strict=True):
        told = [(m[1], m[2]) for m in _VARIANT.finditer(log)]
        assert [g.variant for g in recompile.failed][: len(told)] == [variant for variant, _ in told]
        for guard, (_, text) in zip(recompile.failed, told, strict=False):
            assert guard.source, guard
            assert _last_name(guard.source) in text


def _last_name(source):
    """The last name of a source: torch writes ``x.size()[0]`` or ``tensor 'x'`` where we write ``x.shape[0]``."""
    return re.sub(r"\.(shape\[\d+\]|stride\(\d+\)|requires_grad|dtype|dim\(\))$", "", source).rpartition(".")[
        2
    ]


@pytest.mark.skipif(compat.version() < (2, 13), reason="the trace leaves out breaks that end a compile")
@pytest.mark.parametrize("case", CASES)
def test_breaks_are_those_of_torchs_own_trace(ran, case):
    """Each break of torch's trace is a break of the record, and no other."""
    record = case_record(ran, case)
    assert len(record.breaks) == ran.outcome("plain", case)["traced_breaks"]


@pytest.mark.parametrize("case", CASES)
def test_looking_changes_nothing(ran, case):
    """With peek watching, compiles, guards, results, printed text, warnings, torch's counters and errors are the same."""
    if not (ran.folder / "plain" / f"{case}.outcome.json").exists():
        pytest.skip("needs transformers")
    plain, watched = ran.outcome("plain", case), ran.outcome("peek", case)
    for part in plain:
        assert watched[part] == plain[part], part
