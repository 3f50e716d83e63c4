"""Prices in a project's tests, by real runs of pytest: written on request, held against afterwards."""

from __future__ import annotations

pytest_plugins = ["pytester"]

TESTS = """
from pathlib import Path

from msgspec.structs import replace

from peek_backend.model import NodeCost

def priced(graph):
    cost = NodeCost(flops=int(Path(__file__).with_name("flops").read_text()))
    first, *rest = graph.nodes
    return replace(graph, nodes=(replace(first, cost=cost), *rest))

def test_f(graph_snapshot):
    found = record()
    graph_snapshot.check(replace(found, graphs=tuple(map(priced, found.graphs))))
    graph_snapshot.expect(peak_memory="<2GiB", flops="+0%")
"""


def test_a_project_holds_its_prices(project):
    """pytest writes the price on request, passes while it holds, and fails with both numbers when it does not."""
    project.write(test_a=TESTS)
    (project.path / "flops").write_text("4096")
    project.run("--peek-update").assert_outcomes(passed=1)
    (name,) = project.files()
    assert "\ncost   flops=4096\n" in project.text(name)
    project.run().assert_outcomes(passed=1)
    (project.path / "flops").write_text("8192")
    failed = project.run()
    failed.assert_outcomes(failed=1)
    told = "*flops: expected +0% of 4.10 kFLOP (4,096), got 8.19 kFLOP (8,192), +100 %"
    failed.stdout.fnmatch_lines([told, "*accept: pytest *--peek-update"])
    project.run("--peek-update=new").assert_outcomes(failed=1)  # that one writes what is missing alone
    project.run("--peek-update").assert_outcomes(passed=1)
    assert "flops=8192" in project.text(name)


def test_a_change_that_waits_keeps_its_price(project):
    """A changed graph that is put aside for review has the price with it, so that accepting it accepts both."""
    project.write(test_a=TESTS)
    (project.path / "flops").write_text("4096")
    project.run("--peek-update")
    project.layers(2)
    (project.path / "flops").write_text("8192")
    project.run().assert_outcomes(failed=1)
    (waiting,) = project.files(pending=True)
    assert "\ncost   flops=8192\n" in project.text(waiting)


def test_a_damaged_price_is_told_by_line(project):
    """A price that is no number is refused with its line and column."""
    project.write(test_a=TESTS)
    (project.path / "flops").write_text("4096")
    project.run("--peek-update").assert_outcomes(passed=1)
    (name,) = project.files()
    for was, written, words in (
        ("flops=4096", "flops=many", "expected key=number"),
        ("flops=4096", "flop=4096", "unknown price 'flop'"),
        ("flops=4096", "flops=4096 flops=1", "flops= is there twice"),
    ):
        text = project.text(name)
        (project.path / name).write_text(text.replace(was, written))
        project.run().stdout.fnmatch_lines([f"*{name}:*the cost cannot be read*", f"*{words}*"])
        (project.path / name).write_text(text)
