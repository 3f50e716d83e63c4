"""The same graph through torch's own printers and peek's: seconds to text. No limits: they show different things."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from typing import Any

import torch
from torch import fx

import peek_backend

from .harness import Row, seconds
from .models import Stack


def main() -> list[Row]:
    rows: list[Row] = []
    for nodes in (1_000, 10_000):
        rows += compare(nodes)
    return rows


def compare(nodes: int) -> list[Row]:
    """Every printer on one graph of about ``nodes`` nodes, captured once."""
    gm, record = captured(Stack(nodes))
    count = record.stats.nodes

    def row(what: str, action: Any) -> Row:
        return Row(
            f"{what}, {nodes:,} nodes", seconds(action, repeat=3), "s", note=f"{count:,} nodes, median of 3"
        )

    rows = [
        row("peek: record(gm)", lambda: peek_backend.record(gm)),
        row("peek: table, every row", record.table),
        row("peek: tree", lambda: record.table(format="tree")),
        row("peek: DOT, folded", record.dot),
        row("peek: JSON", record.to_json),
        row("torch: print_tabular", lambda: silent(gm.graph.print_tabular)),
        row("torch: print_readable", lambda: gm.print_readable(print_output=False)),
    ]
    if importlib.util.find_spec("pydot"):
        from torch.fx.passes.graph_drawer import FxGraphDrawer

        rows.append(
            row("torch: FxGraphDrawer, to DOT", lambda: FxGraphDrawer(gm, "g").get_dot_graph().to_string())
        )
    return rows


def captured(model: Stack) -> tuple[fx.GraphModule, Any]:
    """Dynamo's graph of a model, and peek's record of it."""
    graphs: list[fx.GraphModule] = []

    def keep(gm: fx.GraphModule, example_inputs: Any) -> Any:
        graphs.append(gm)
        return gm.forward

    torch._dynamo.reset()
    with torch.no_grad(), peek_backend.session() as session:
        torch.compile(model, backend=keep)(model.input())
    return graphs[0], session.record


def silent(action: Any) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        action()
