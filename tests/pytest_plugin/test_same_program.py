"""Same program, same snapshot: in other processes, folders, hash seeds, with comments between, and under other names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from peek_backend.diff import compare, verdict
from peek_backend.diff.edits import INFO
from peek_backend.snapshot.graphfile import read_graph
from tests.conftest import require

ROOT = Path(__file__).resolve().parents[2]

FEW = """
import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(8, 8)
        self.scale = torch.nn.Buffer(torch.ones(8))

    def forward(self, x, flag):
        hidden = F.relu(self.lin(x)) * self.scale
        if flag:
            hidden = hidden + x
        return hidden, {"sum": hidden.sum(), "shape": hidden.shape[0]}


def sizes(x, y):
    total = torch.cat([x, y])
    wide = total.reshape(-1, 2)
    return wide[: x.shape[0]] * y.shape[0]


def broken(x):
    first = x.sin()
    print("in between")
    second = first.cos()
    return second + 1


def branches(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))


def picked(x):
    names = {"a", "b", "c"}
    table = {name: x * i for i, name in enumerate(sorted(names))}
    return table["a"] + table["c"]


def many(*xs, **named):
    return sum(xs) * named["factor"] + named["bias"]


def calls():
    x, y = torch.ones(6, 8), torch.ones(4, 8)
    yield "block", Block(), (x, True), {}, {"x": {0: "batch"}}
    yield "sizes", sizes, (x, y), {}, {"x": 0, "y": 0}
    yield "broken", broken, (x,), {}, None
    yield "branches", branches, (x,), {}, None
    yield "picked", picked, (x,), {}, True
    yield "many", many, (x, x), {"factor": x, "bias": 2}, None
"""

OPS = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "deg2rad", "digamma", "erf", "erfc", "erfinv", "exp",
    "exp2", "expm1", "floor", "frac", "i0", "isfinite", "isinf", "isnan", "lgamma", "log", "log10", "log1p", "log2",
    "logit", "neg", "nan_to_num", "positive", "rad2deg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign",
    "signbit", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "cumsum:0", "cumprod:0", "softmax:0",
    "log_softmax:0", "flip:0", "sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "std", "var", "median",
    "norm", "numel:0", "t", "ravel", "clone", "isreal", "sgn", "arctan", "arcsin", "arccos", "diag", "tril", "triu",
    "logsumexp:0", "unsqueeze:0", "argsort", "sort",
)  # fmt: skip


BINARY = (
    "add", "sub", "mul", "div", "atan2", "hypot", "maximum", "minimum", "pow", "fmod", "remainder", "logaddexp", "eq", "ne",
    "lt", "gt", "le", "ge", "fmax", "fmin",
)  # fmt: skip


def many_programs(x: str = "x", y: str = "y", z: str = "z") -> str:
    """The few programs, and one for each op, with dynamic sizes for every other; then models.

    ``x`` is the name of their argument, ``y`` and ``z`` of their locals.
    """
    text = FEW
    for op, name in _named():
        call = re.sub(r"\b[xy]\b", lambda word: {"x": x, "y": y}[word[0]], _call(op))
        text += f"\n\ndef {name}({x}):\n    {y} = {x} * 2\n    {z} = {call}\n    return {z}\n"
    text += "\n\ndef more():\n    x = torch.rand(6, 8)\n"
    for n, (_, name) in enumerate(_named()):
        text += f"    yield '{name}', {name}, (x,), {{}}, {'None' if n % 2 else {x: 0}}\n"
    return text + _MODELS


def _named() -> list[tuple[str, str]]:
    """Each op with the name of its program."""
    return [(op, f"f_{op.replace(':0', '')}") for op in (*OPS, *BINARY)]


def _call(op: str) -> str:
    """The call of an op on ``y``; ``:0`` stands for a dim."""
    if op in BINARY:
        return f"torch.{op}(y, x)"
    special = {"numel:0": "y * y.numel()", "flip:0": "torch.flip(y, [0])"}
    return special.get(op) or (f"torch.{op[:-2]}(y, 0)" if op.endswith(":0") else f"torch.{op}(y)")


_MODELS = """

def models():
    from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, LlamaConfig, LlamaForCausalLM

    ids = torch.zeros(2, 8, dtype=torch.long)
    small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, vocab_size=50)
    yield "bert", BertModel(BertConfig(**small)).eval(), (ids,), {}, None
    yield "gpt2", GPT2Model(GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=50)).eval(), (ids,), {}, None
    yield "llama", LlamaForCausalLM(LlamaConfig(**small)).eval(), (ids,), {"use_cache": False}, None
    for layers in range(1, 17):
        config = LlamaConfig(**small | {"num_hidden_layers": layers})
        if layers <= 4:
            yield f"llama{layers}", LlamaForCausalLM(config).eval(), (ids,), {"use_cache": False}, {"input_ids": 1}
"""

MAIN = """
if __name__ == "__main__":
    import sys
    from pathlib import Path

    from peek_backend.capture.pinning import pin
    from peek_backend.passes.canonical import canonicalise
    from peek_backend.snapshot.graphfile import print_graph

    if len(sys.argv) > 2:
        torch._dynamo.config.canonicalize_output_graph_node_order = sys.argv[2] == "canonical"
    stages = sys.argv[3:]
    folder = Path(sys.argv[1])
    folder.mkdir()
    sources = [calls(), *[globals()[name]() for name in ("more", "models") if name in globals()]]
    for source in sources:
        for name, fn, args, kwargs, dynamic in source:
            with torch.set_grad_enabled(bool(stages)):
                found = pin(fn, [(args, kwargs)], dynamic=dynamic, stages=stages)
            root = str(Path(__file__).parent)
            kept = ("dynamo", *stages)
            text = print_graph(canonicalise(found.record, name=name, root=root, stages=kept, env=found.env))
            (folder / f"{name}.graph").write_text(text, encoding="utf-8")
"""


def snapshots(folder: Path, text: str, seed: str, *more: str, file: str = "programs.py") -> dict[str, bytes]:
    """The files that the programs in ``text`` give in a process of its own, run in ``folder``."""
    folder.mkdir(parents=True)
    (folder / file).write_text(text + MAIN)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed}
    command = [sys.executable, file, "out", *more]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {path.name: path.read_bytes() for path in sorted((folder / "out").glob("*.graph"))}


def with_comments(text: str) -> str:
    """Comment lines before every statement: no line keeps its number."""
    return re.sub(r"^( *)(?=\w)", r"\1# a comment\n\1", text, flags=re.M).replace(
        "# a comment\n        super", "super", 1
    )


NEW_NAMES = {
    "hidden": "h_out",
    "total": "joined",
    "wide": "flat",
    "first": "one",
    "second": "two",
    "flag": "residual",
}


def renamed(text: str) -> str:
    """Other names for locals and for an argument."""
    for old, new in NEW_NAMES.items():
        text = re.sub(rf"\b{old}\b", new, text)
    return text


def check_same(tmp_path: Path, text: str, least: int) -> None:
    first = snapshots(tmp_path / "a", text, "1")
    assert len(first) >= least
    assert all(b"NOTHING" not in data for data in first.values())
    other = snapshots(tmp_path / "elsewhere" / "deep er", with_comments(text), "2")
    assert {name for name in first if first[name] != other[name]} == set()


def test_files_are_equal_to_the_byte(tmp_path):
    """Another process, hash seed and folder, and comment lines in between, change no byte."""
    check_same(tmp_path, FEW, least=6)


def test_other_names_are_an_empty_diff(tmp_path):
    """Renamed locals and arguments give files whose diff is empty."""
    snapshots(tmp_path / "a", FEW, "0")
    snapshots(tmp_path / "b", renamed(FEW), "0")
    for path in sorted((tmp_path / "a/out").glob("*.graph")):
        diff = compare(read_graph(path), read_graph(tmp_path / "b/out" / path.name))
        assert diff.is_empty, (path.name, diff.edits)


def check_empty(one: Path, other: Path, least: int, *, but: str = "") -> None:
    """Each snapshot of one folder has its partner in the other, from which it differs by information and ``but`` alone."""
    names = sorted(path.name for path in one.glob("*.graph"))
    assert len(names) >= least
    for name in names:
        diff = compare(read_graph(one / name), read_graph(other / name))
        assert {edit.kind for edit in diff.edits} <= {*INFO, but}, (name, diff.edits)
        assert not verdict(diff).failed


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hundred_programs_under_other_names_are_empty_diffs(tmp_path):
    """Arguments, locals and the file renamed, comments between the lines: information at most."""
    require("transformers")
    snapshots(tmp_path / "a", many_programs(), "0")
    other = with_comments(renamed(many_programs("data", "scaled", "result")))
    snapshots(tmp_path / "elsewhere", other, "3", file="moved.py")
    check_empty(tmp_path / "a/out", tmp_path / "elsewhere/out", least=100)


@pytest.fixture
def own_order():
    """Skips where torch has no canonical order of nodes (2.14 and later have: torch/fx/passes/canonicalize.py)."""
    from torch._dynamo import config

    if not hasattr(config, "canonicalize_output_graph_node_order"):
        pytest.skip("this torch has no canonical order of its own")


def test_later_stages_in_torchs_own_order_are_empty_diffs(tmp_path, own_order):
    """Saved values and gradients come in the order of the inputs, which is told of Dynamo's graph alone."""
    stages = ("joint", "forward", "backward", "inference")
    for order in ("as traced", "canonical"):
        found = snapshots(tmp_path / order, FEW, "0", order, *stages)
        assert sum(b"gradients={" in data for data in found.values()) > 0
    check_empty(tmp_path / "as traced/out", tmp_path / "canonical/out", least=6, but="input:order")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hundred_programs_in_torchs_own_order_are_empty_diffs(tmp_path, own_order):
    """With torch's canonical order of nodes on and off."""
    require("transformers")
    snapshots(tmp_path / "off", many_programs(), "0", "as traced")
    snapshots(tmp_path / "on", many_programs(), "0", "canonical")
    # Torch's own order puts a parameter of the module itself, which has a name like an argument's, behind the arguments.
    check_empty(tmp_path / "off/out", tmp_path / "on/out", least=100, but="input:order")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hundred_programs_are_equal_to_the_byte(tmp_path):
    """The same for a hundred programs, transformers models among them."""
    require("transformers")
    check_same(tmp_path, many_programs(), least=100)
