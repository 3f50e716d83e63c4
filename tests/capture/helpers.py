"""Captures of small functions, and what a run of them leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from peek_backend.capture.session import Session
from peek_backend.model import CaptureRecord, GraphRecord, NodeRecord


def capture(
    fn: Callable[..., Any], *args: Any, backend: Any = "eager", dynamic: bool | None = None, **kwargs: Any
) -> CaptureRecord:
    """What one compiled call of ``fn`` hands to its backend."""
    with Session() as session:
        torch.compile(fn, backend=backend, dynamic=dynamic)(*args, **kwargs)
    return session.record


def graph_of(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> GraphRecord:
    """The one graph that a call of ``fn`` compiles to, read without a problem."""
    (graph,) = capture(fn, *args, **kwargs).graphs
    assert graph.problems == ()
    return graph


def node(graph: GraphRecord, name: str) -> NodeRecord:
    return next(n for n in graph.nodes if n.name == name)


def by_target(graph: GraphRecord, target: str) -> NodeRecord:
    return next(n for n in graph.nodes if n.target == target)
