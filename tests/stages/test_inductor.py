"""With Inductor inside: its caches, its results and the way to its kernels. Each step runs in a process of its own."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import SkipFrame

from peek_backend.capture.inductor import CompileNotes, skip_of
from peek_backend.errors import PeekError
from tests.conftest import require

from .helpers import Small, staged

ROOT = Path(__file__).parents[2]
STAGES = [
    "joint",
    "forward",
    "backward",
    "post_grad forward",
    "kernels forward",
    "post_grad backward",
    "kernels backward",
]


def step(cache: Path, *args: str) -> dict:
    """What ``inductor_step`` tells, with Inductor's caches in the folder ``cache``."""
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.stages.inductor_step", *args],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def check(model: str, cache: Path, *asked: str) -> None:
    """Cold with stages, then warm without, with stages, and with stages from the log: one after the other on the same caches.

    ``asked`` is what AOTAutograd's cache may say of the model on a second run: ``hit``, or ``bypass`` where torch refuses it.
    """
    cold = step(cache, "peek", model)
    plain_first = step(cache, "plain", model)  # fills AOTAutograd's cache, which the cold run left alone
    plain = step(cache, "plain", model)
    live = step(cache, "peek", model)
    log = step(cache, "peek", model, "all", "log")
    runs = {"cold": cold, "live": live, "log": log}
    assert plain_first["fx"] == plain["fx"] == live["fx"] == log["fx"] == {"fxgraph_cache_hit": 2}
    aot = next(outcome for outcome in asked if plain["aot"] == {f"autograd_cache_{outcome}": 1})
    assert log["aot"] == plain["aot"]
    for name, run in runs.items():
        assert run["digest"] == plain["digest"], name
        assert run["keys"] == ["0/0", *(f"0/0 {s}" for s in STAGES)], name
        assert (run["problems"], run["unexplained"]) == ([], []), name
        assert run["listed"] == [run["saved"]], name
        # From the cache, where Inductor keeps no nodes, the code tells nearly all.
        assert run["linked kernels"] >= 0.9 * run["kernels"] > 0, name
    assert cold["linked kernels"] == cold["kernels"] > 0
    assert cold["caches"]["0/0 forward"] == [["FX graph", "miss"], ["AOTAutograd", "bypass"]]
    assert live["caches"]["0/0 backward"] == [["FX graph", "hit"], ["AOTAutograd", "bypass"]]
    assert log["caches"]["0/0 forward"] == [["FX graph", "hit"], ["AOTAutograd", aot]]


@pytest.mark.timeout(400)
def test_caches_results_and_kernels(tmp_path):
    """Stages change no cache hit and no bit of a result, and lead to every kernel."""
    check("small", tmp_path, "hit")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_llama(tmp_path):
    """The same of a training step of a Llama."""
    require("transformers")
    check("llama", tmp_path, "bypass", "hit")  # torch 2.15 caches it


@pytest.mark.parametrize(
    ("options", "mode", "said"),
    [
        ({"max_autotun": True}, None, "did you mean 'max_autotune'"),
        ({"max_autotune": "yes"}, None, "Unexpected type of attr max_autotune, got str should be bool"),
        ({}, "max-autotun", "did you mean 'max-autotune'"),
        ({"mode": "max-autotun"}, None, "did you mean 'max-autotune'"),
        ({"mode": 3}, None, "bad mode of Inductor in inner_options: 3"),
        ({"mode": "max"}, None, "unknown mode of Inductor 'max'"),
        ({"mode": "default"}, "max-autotune", "two modes: 'max-autotune' and 'default'"),
    ],
)
def test_bad_options_of_inductor(options, mode, said):
    """What Inductor would refuse is refused before it is called, with the nearest right name."""
    from peek_backend.capture.inner import check_inner_options

    with pytest.raises(PeekError) as error:
        check_inner_options("inductor", mode, options)
    assert said in str(error.value)
    assert "default, default" not in str(error.value)


def test_options_need_someone_to_read_them():
    """inner_options without an inner backend is a mistake that is told."""
    from peek_backend.capture.inner import check_inner_options

    with pytest.raises(PeekError, match="without an inner backend"):
        check_inner_options(None, None, {"max_autotune": True})


def test_decompositions_pass_through():
    """A table of decompositions under inner_options is the one that the stages are traced with."""
    from torch._decomp import get_decompositions

    table = get_decompositions([torch.ops.aten.gelu, torch.ops.aten.native_layer_norm])
    with torch.no_grad():
        plain = staged(Small(), torch.ones(2, 8))
        torch._dynamo.reset()
        split = staged(Small(), torch.ones(2, 8), inner_options={"decompositions": table})
    targets = [{n.target for n in r.graph("0/0 inference").nodes} for r in (plain, split)]
    assert "aten.gelu.default" in targets[0]
    assert "aten.gelu.default" not in targets[1]
    assert "aten.erf.default" in targets[1]


def test_options_and_mode_reach_inductor(monkeypatch):
    """mode and inner_options arrive as the patches of its config that torch.compile itself would make."""
    from torch._inductor import compile_fx

    seen = []

    def compile(gm, inputs, *args, config_patches=None, **kwargs):
        seen.append(config_patches)
        return gm.forward

    monkeypatch.setattr(compile_fx, "compile_fx", compile)
    options = {
        "inner": "inductor",
        "inner_options": {"epilogue_fusion": False},
        "quiet": True,
        "stages": "joint",
    }
    torch.compile(lambda x: x + 1, backend="peek", options=options)(torch.ones(2))
    options["inner_options"] = {"mode": "max-autotune-no-cudagraphs", "epilogue_fusion": False}
    torch.compile(lambda x: x + 2, backend="peek", options=options)(torch.ones(2))
    tuned = torch._inductor.list_mode_options("max-autotune-no-cudagraphs")
    assert seen == [{"epilogue_fusion": False}, {**tuned, "epilogue_fusion": False}]


def refuse(gm, inputs):
    raise ValueError("no such kernel")


def out_of_range(gm, inputs):
    raise IndexError("dim 7")


def skipping(gm, inputs):
    raise SkipFrame("not this one")


class Refusing:
    """A backend without a name of its own."""

    def __call__(self, gm, inputs):
        refuse(gm, inputs)


FAILING = [
    "aot_eager",
    aot_autograd(fw_compiler=refuse),
    refuse,
    functools.partial(refuse),
    Refusing(),
    out_of_range,
    skipping,
    lambda gm, inputs: 3,
]


def overwritten(x: torch.Tensor) -> torch.Tensor:
    """AOTAutograd refuses it: relu's result, which its backward needs, is overwritten."""
    y = x.relu()
    y.add_(1)
    return y * 2


@pytest.mark.filterwarnings("ignore:Error detected")
@pytest.mark.parametrize("stages", ["dynamo", "all"])
@pytest.mark.parametrize("inner", FAILING, ids=lambda inner: str(inner).partition(" at ")[0])
def test_a_failing_inner_backend_fails_as_it_would(inner, stages):
    """Type and text of the exception are those that torch has for the inner backend without peek; a skipped frame runs."""
    said = []
    options = {"inner": inner, "stages": stages, "quiet": True}
    for how in ({"backend": inner}, {"backend": "peek", "options": options}):
        torch._dynamo.reset()
        try:
            torch.compile(overwritten, **how)(torch.ones(3, requires_grad=True))
            said.append("ran")
        except Exception as error:
            said.append((type(error), str(error), type(getattr(error, "inner_exception", None))))
    assert said[0] == said[1]
    assert (said[0] == "ran") == (inner is skipping)


def test_a_backend_around_peek_can_catch_what_the_inner_one_raises():
    """A function that calls peek gets the inner backend's own exception."""

    def careful(gm, inputs):
        try:
            return torch._dynamo.lookup_backend("peek")(gm, inputs, options={"inner": refuse, "quiet": True})
        except ValueError:
            return gm.forward

    assert torch.compile(lambda x: x + 1, backend=careful)(torch.ones(2)).tolist() == [2, 2]


def test_stages_until_the_failure_are_kept():
    """A compiler that refuses the forward leaves joint, forward and backward in the capture."""
    import peek_backend

    options = {"inner": aot_autograd(fw_compiler=refuse), "stages": "all", "quiet": True}
    with peek_backend.session() as session, pytest.raises(Exception, match="no such kernel"):
        torch.compile(Small(), backend="peek", options=options)(torch.ones(2, 8))
    assert [g.stage for g in session.record.graphs] == ["dynamo", "joint", "forward", "backward"]


def test_why_there_are_no_cuda_graphs():
    """torch's reason is split from the user's line that it quotes."""
    text = (
        "skipping cudagraphs due to mutated inputs (1 instances). Found from : \n"
        '   File "/src/model.py", line 12, in forward\n    self.cache.add_(1)\n'
    )
    skip = skip_of(text)
    assert skip.reason == "mutated inputs (1 instances)"
    assert (skip.user.file, skip.user.line, skip.user.code) == ("/src/model.py", 12, "self.cache.add_(1)")


@pytest.mark.parametrize(
    ("fields", "wanted", "said"),
    [
        ({"device_types": {"cpu"}}, True, ["the graph runs on cpu, not on cuda"]),
        (
            {"device_types": {"cuda"}, "disabled_cudagraphs_reason": "dynamic shapes"},
            True,
            ["dynamic shapes"],
        ),
        ({"device_types": {"cuda"}}, True, []),
        ({"device_types": {"cpu"}}, False, []),
    ],
)
def test_which_reasons_are_told(fields, wanted, said):
    """Reasons are told only where CUDA graphs were asked for; a graph without a CUDA device needs no other."""
    defaults = {"source_code": "", "disabled_cudagraphs_reason": None, "cudagraph_info": None}
    notes = CompileNotes(cudagraphs_wanted=wanted)
    assert [s.reason for s in notes.skips(SimpleNamespace(**defaults | fields))] == said
