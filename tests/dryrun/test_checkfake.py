"""``peek check-fake``: right, wrong and missing fake kernels of custom ops."""

from __future__ import annotations

import sys

import pytest

from tests.cli.conftest import peek  # noqa: F401  # a fixture

OPS = """
import torch
from torch.library import custom_op

@custom_op("NS::right", mutates_args=())
def right(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    return (x * scale).to(x.dtype).contiguous().clone()

@right.register_fake
def _(x, scale=2.0):
    return torch.empty_like(x, memory_format=torch.contiguous_format)

@custom_op("NS::strides", mutates_args=())
def strides(x: torch.Tensor) -> torch.Tensor:
    return x.t().clone(memory_format=torch.preserve_format)

@strides.register_fake
def _(x):
    return x.new_empty(tuple(reversed(x.shape)))

@custom_op("NS::narrow", mutates_args=())
def narrow(x: torch.Tensor) -> torch.Tensor:
    return x.float()[..., :1].clone()

@narrow.register_fake
def _(x):
    return torch.empty_like(x)

@custom_op("NS::missing", mutates_args=())
def missing(x: torch.Tensor, n: int) -> torch.Tensor:
    return x.repeat(n)

@custom_op("NS::written", mutates_args=("x",))
def written(x: torch.Tensor) -> None:
    x.add_(1)

@written.register_fake
def _(x):
    pass

@custom_op("NS::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x.flatten().nonzero()

@positive.register_fake
def _(x):
    return x.new_empty((torch.library.get_ctx().new_dynamic_size(), 1), dtype=torch.int64)

@custom_op("NS::picky", mutates_args=())
def picky(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    assert x.shape == (3, 7)
    return x @ y

@picky.register_fake
def _(x, y):
    return x.new_empty(x.shape[0], y.shape[1])

aliases = torch.library.Library("NS", "FRAGMENT")
aliases.define("copied(Tensor x) -> Tensor")
aliases.impl("copied", lambda x: x.clone(), "CPU")
aliases.impl("copied", lambda x: x, "Meta")
"""


@pytest.fixture
def check(tmp_path, monkeypatch, peek, request):  # noqa: F811
    """``peek check-fake ops.py`` of ops in a namespace of the test's own."""
    number = abs(hash(request.node.name)) % 10**8
    name = f"ops_to_check_{number}"
    (tmp_path / f"{name}.py").write_text(OPS.replace("NS", f"peek_check_{number}"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(*args):
        done = peek("check-fake", f"{name}.py", *[a.replace("NS", f"peek_check_{number}") for a in args])
        return done._replace(out=done.out.replace(f"peek_check_{number}", "NS"))

    yield call
    sys.modules.pop(name, None)


def test_each_op_is_told_right_wrong_or_missing(check):
    """Right kernels agree, wrong ones say what they promised for which input, a missing one shows the stub to write."""
    done = check()
    assert done.code == 1, done.err
    said = {line.split(":", 3)[2]: line for line in done.out.splitlines() if line.startswith("NS::")}
    assert set(said) == {"right", "strides", "narrow", "missing", "written", "positive", "picky", "copied"}
    for op in ("right", "written", "positive"):
        assert "agrees on" in said[op]
    assert "stride (1, 6), promised (4, 1)" in done.out
    assert "dtype torch.float32, promised torch.float16" in done.out
    assert "shape [4, 1], promised [4, 6]" in done.out
    assert "memory: its own, promised: shared with argument 0" in done.out
    assert said["missing"].endswith("no fake kernel")
    assert "def missing_fake(x, n):" in done.out
    compile(
        done.out.partition("computing them:\n\n")[2].partition("\n\n")[0], "stub", "exec"
    )  # can be copied as it is
    assert "refuses every input" in said["picky"]
    assert done.out.endswith("7 checked, 4 wrong or missing, 1 not tested\n")


def test_an_op_with_inputs_of_its_own(check):
    """``--op`` with ``--input`` tries the call that a particular op needs."""
    done = check("--op", "NS::picky", "--input", "f32[3, 7]", "--input", "f32[7, 2]")
    assert (done.code, done.out) == (
        0,
        "NS::picky: agrees on 1 call\n1 checked, 0 wrong or missing, 0 not tested\n",
    )


def test_inputs_that_the_op_refuses(check):
    """A call that was asked for and cannot be made is no success, and says what the real kernel said."""
    done = check("--op", "NS::picky", "--input", "f32[3, 7]", "--input", "f32[8, 2]")
    assert done.code == 2
    assert "NS::picky: not tested: " in done.out
    assert done.out.endswith("0 checked, 0 wrong or missing, 1 not tested\n")


def test_mistakes(check, peek, tmp_path):  # noqa: F811
    """A module without custom ops, an unknown op, and inputs without an op are refused in one message."""
    (tmp_path / "no_ops.py").write_text("x = 1\n")
    done = peek("check-fake", "no_ops.py")
    assert done.code == 2
    assert "defines no custom op" in done.err
    assert "no op 'a::b'" in check("--op", "a::b").err
    assert "--input without --op" in check("--input", "f32[2]").err
