"""Which ops keep their order, and which values share memory."""

from __future__ import annotations

import pytest

from peek_backend.diff.effects import is_impure, is_view, writes_first


@pytest.mark.parametrize(
    ("target", "template", "impure", "writes"),
    [
        (".add_", "\0, 1", True, True),
        ("aten.add_.Tensor", "\0, 1", True, True),
        ("operator.iadd", "\0, 1", True, True),
        ("operator.setitem", "\0, 0, 3", True, True),
        ("F.relu", "\0, inplace=True", True, True),
        ("torch.mul", "\0, 2, out=\0", True, True),
        ("F.relu", "\0, inplace=False", False, False),
        (".__and__", "\0, 1", False, False),
        (".requires_grad_", "\0", False, False),
        ("torch.randn", "4", True, False),
        ("F.dropout", "\0, 0.5, True, False", True, False),
        ("F.dropout", "\0, 0.5, False, False", False, False),
        ("F.dropout", "\0, p=0.0, training=True", False, False),
        ("F.dropout", "\0, p=0.1, training=False", False, False),
        ("F.dropout", "\0, p=0.01", True, False),
        ("F.scaled_dot_product_attention", "\0, \0, \0, dropout_p=0.0", False, False),
        ("F.scaled_dot_product_attention", "\0, \0, \0, dropout_p=0.1", True, False),
        ("torch._assert_async", '\0, "x"', True, False),
        ("aten._assert_scalar", "\0", True, False),
        ("torch._C._set_grad_enabled", "False", True, False),
        ("_c10d_functional.all_reduce", "\0", True, False),
        ("torch.distributed.barrier", "", True, False),
        ("print", '"x"', True, False),
        ("torch.add", "\0, \0", False, False),
        ("F.linear", "\0, \0, None", False, False),
    ],
)
def test_ops_with_an_effect(target: str, template: str, impure: bool, writes: bool):
    """In-place ops, random numbers, asserts, modes and collectives have an effect; pure look-alikes have none."""
    assert (is_impure(target, template), writes_first(target, template)) == (impure, writes)


@pytest.mark.parametrize("target", [".view", ".transpose", "operator.getitem", "aten.view.default", ".add_"])
def test_views_share_memory(target: str):
    """The result of a view and of an in-place op is its first operand's memory; that of a sum is not."""
    assert is_view(target, "\0")
    assert not is_view("operator.add", "\0, \0")
