"""Stages add nothing to a program: all cases, at the sizes they come with and at three more, with stages and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from peek_backend.capture.session import Session
from tests.capture.test_untouched import PROGRAMS, assert_same, observe, plain
from tests.conftest import require
from tests.truth import worker

CASES = sorted(p.stem for p in (Path(__file__).parents[1] / "cases").glob("*.py"))
# 112 needs two ranks. In 110 Dynamo compiles frames of Python's logging, and how many depends on pytest's handlers.
ALONE = ("110", "112")
# One of each kind; all of them are in the broad tests.
QUICK = ("006", "026", "060", "070", "088", "098")


def with_stages(gm: Any, inputs: Any) -> Any:
    """The peek backend as a function, since the programs are compared by what they do with any backend."""
    return torch._dynamo.lookup_backend("peek")(gm, inputs, options={"stages": "all", "quiet": True})


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_stages_change_nothing(name, dynamic):
    """Results, gradients, buffers, prints, random state, compiles, breaks and guards are as without stages."""
    assert_same(
        observe(name, plain, dynamic, watched=False), observe(name, with_stages, dynamic, watched=False)
    )


def _mark(name: str) -> Any:
    return pytest.param(name, marks=() if name.startswith(QUICK) else pytest.mark.slow)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [_mark(c) for c in CASES if not c.startswith(ALONE)])
def test_cases(name, monkeypatch):
    """No compile, guard, break, counter, result, warning or error of a case differs when its stages are recorded."""
    if name[:2] == "13":
        require("transformers")
    monkeypatch.setattr(worker, "_calls", calls_of_four_sizes)
    runs = []
    for make in (
        Session,
        Session,
        staged_session,
    ):  # the first run in a process also compiles what it imports
        monkeypatch.setattr(worker, "_session", make)
        runs.append(worker.run_case(name, watch=True))  # one line for all, as torch 2.8 has it in its errors
    (without, _), (found, record) = runs[1:]
    for part in without:
        assert in_any_order(part, found[part]) == in_any_order(part, without[part]), part
    keys = [(g.key, g.frame) for g in record.graphs]
    assert len({k for k, _ in keys}) == len(keys)


def staged_session() -> Session:
    return Session(stages=("joint", "forward", "backward", "inference"))


def in_any_order(part: str, value: Any) -> Any:
    """Guards of a dict's keys come in the order of a set (torch 2.8), which differs from run to run without peek too."""
    return {key: sorted(lines) for key, lines in value.items()} if part == "guards" else value


def calls_of_four_sizes(module: Any) -> list[Any]:
    """The case's own calls, then its first call with every tensor at three other lengths; an error is a result."""
    fn, args, kwargs, how = module.build()
    compiled = torch.compile(fn, backend="eager", **how)
    results = [compiled(*args, **kwargs)]
    more = list(module.more_calls()) if hasattr(module, "more_calls") else []
    more += [(_resized(args, times), _resized(kwargs, times)) for times in (2, 3, 5)]
    for positional, named in more:
        try:
            results.append(compiled(*positional, **named))
        except Exception as error:
            results.append(f"{type(error).__name__}: {error}"[:200])
    if getattr(module, "TRAIN", False):
        sum(t.sum() for t in worker._tensors(results)).backward()
        results.append([p.grad for p in fn.parameters()] if isinstance(fn, torch.nn.Module) else [])
    return [*results, args]


LONG = 100
"""Rows above which a tensor is made shorter: a program that takes each row apart has as many nodes (2,000 here)."""


def _resized(values: Any, times: int) -> Any:
    """Every tensor ``times`` as long; a long one a part as long."""

    def resized(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dim() == 0 or type(value) is not torch.Tensor:
            return value
        plain, rows = value.detach(), len(value)
        other = (
            plain[: rows // times].clone() if rows > LONG else plain.repeat(times, *[1] * (value.dim() - 1))
        )
        return other.requires_grad_(value.requires_grad)

    return pytree.tree_map(resized, values)
