"""Kinds of ops: one table for torch functions, methods and ATen."""

from __future__ import annotations

import pytest

from peek_backend.passes import kinds
from peek_backend.passes.kinds import KINDS, node_kind, target_kind
from tests.builders import node

EXAMPLES = {
    "matmul": ["torch.nn.functional.linear", "torch._C._nn.linear", "_operator.matmul", "aten.mm.default",
               "torch.ops.aten.addmm.default", "torch.conv2d", "aten.convolution_backward.default", "torch.functional.einsum"],
    "attention": ["torch._C._nn.scaled_dot_product_attention", "torch.ops.higher_order.flex_attention",
                  "aten._scaled_dot_product_flash_attention_for_cpu.default"],
    "norm": ["torch.nn.functional.layer_norm", "aten.native_layer_norm.default", "torch.nn.functional.batch_norm"],
    "reduction": ["torch.sum", "aten._softmax.default", "torch.nn.functional.cross_entropy", "torch.linalg.norm"],
    "elementwise": ["_operator.add", "_operator.iadd", "torch.tanh", "torch._C._nn.gelu", "aten.add_.Tensor", "torch.add"],
    "view": ["aten.view.default", "aten.t.default", "torch.transpose", "torch.unbind"],
    "movement": ["_operator.getitem", "torch.cat", "torch.arange", "aten.index.Tensor", "torch.nn.functional.embedding"],
    "random": ["torch.nn.functional.dropout", "torch.rand", "aten.bernoulli.p"],
    "control": ["torch.ops.higher_order.cond", "cond", "torch._C._set_grad_enabled", "torch.amp._enter_autocast",
                "torch._functorch.predispatch._add_batch_dim", "torch.ops.higher_order.invoke_subgraph"],
    "custom": ["peekcases.tagged.default", "mylib.attention.default", "vllm.unified_attention.default"],
    "other": ["torch.some_new_function"],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "target"), [(k, t) for k, targets in EXAMPLES.items() for t in targets])
def test_targets(kind, target):
    """A target of each form has the kind that a reader expects."""
    assert target_kind(target) == kind


@pytest.mark.parametrize(
    ("method", "kind"),
    [("view", "view"), ("add_", "elementwise"), ("to", "movement"), ("__and__", "elementwise"), ("softmax", "reduction"),
     ("masked_fill_", "movement"), ("no_such_method", "other")],
)  # fmt: skip
def test_methods(method, kind):
    """A method is judged by its name, in-place and operator forms too."""
    assert node_kind(node(0, "m", "call_method", method)) == kind


def test_ends_and_subgraphs():
    """Inputs and outputs are ends; a get_attr is control flow only where it stands for a body."""
    assert (
        node_kind(node(0, "x", "placeholder", "x")) == node_kind(node(0, "o", "output", "output")) == "input"
    )
    assert node_kind(node(0, "w", "get_attr", "w")) == "input"
    assert node_kind(node(0, "b", "get_attr", "b", body=0)) == "control"


def test_no_name_has_two_kinds():
    """Every name stands in one list, and every list is of a kind that the legend names."""
    names = [name for listed in kinds._NAMES.values() for name in listed.split()]
    assert len(names) == len(set(names))
    assert set(kinds._NAMES) <= set(KINDS)
