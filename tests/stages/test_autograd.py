"""The border between forward and backward: what is saved, recomputed, mutated, aliased, and whose gradient is whose."""

from __future__ import annotations

import copy

import pytest
import torch
from msgspec.structs import replace
from torch.utils.checkpoint import checkpoint

from peek_backend.analysis.autograd import autograd_view
from peek_backend.render.stages import autograd_text
from tests.conftest import require

from .helpers import Small, llama_loss, staged, tiny_llama, unexplained

AOT_BASED = ["aot_eager", "aot_eager_decomp_partition"]


def really_saved(result: torch.Tensor) -> list[int]:
    """Bytes of each tensor that AOTAutograd's compiled forward saved, sorted."""
    return sorted(t.numel() * t.element_size() for t in result.grad_fn.saved_tensors)


@pytest.mark.parametrize("inner", AOT_BASED)
def test_saved_bytes_are_those_of_autograd(inner):
    """Every value listed as saved is one that the compiled function saves, byte for byte, with the total."""
    import peek_backend

    with peek_backend.session(stages="all") as session:
        first, _ = torch.compile(Small(), backend=inner)(torch.randn(4, 8))
        real = really_saved(first)
    (view,) = session.record.autograd
    assert sorted(s.nbytes for s in view.saved) == real
    assert view.nbytes == sum(real)


@pytest.mark.parametrize("inner", AOT_BASED)
def test_a_llama_training_step(inner):
    """Of a Llama step every ATen node has an origin or a reason, and what is saved equals what AOTAutograd saves to the byte."""
    require("transformers")
    import peek_backend

    model = tiny_llama()
    with peek_backend.session(stages="all") as session:
        loss = llama_loss(torch.compile(model, backend=inner))
        # The loss is not the compiled function's last output, so its node is one further up.
        function = (
            loss.grad_fn if hasattr(loss.grad_fn, "saved_tensors") else loss.grad_fn.next_functions[0][0]
        )
        real = sorted(t.numel() * t.element_size() for t in function.saved_tensors)
        loss.backward()
    record = session.record
    assert [g.stage for g in record.graphs] == ["dynamo", "joint", "forward", "backward"]
    assert unexplained(record) == []
    (view,) = record.autograd
    assert (sorted(s.nbytes for s in view.saved), view.nbytes) == (real, sum(real))
    assert all(s.source is not None and (s.source.line or s.source.input) for s in view.saved)
    gradients = {g.input for g in view.gradients if g.node is not None}
    assert {name for name, p in model.named_parameters() if p.grad is not None} - gradients <= {
        "lm_head.weight"
    }


def test_llama_gradients_stay():
    """Loss and gradients of the Llama step equal those of the inner backend alone, bit for bit."""
    require("transformers")
    found = []
    model = tiny_llama()
    for options in (
        {"backend": "aot_eager"},
        {"backend": "peek", "options": {"inner": "aot_eager", "stages": "all", "quiet": True}},
    ):
        torch._dynamo.reset()
        twin = copy.deepcopy(model)
        loss = llama_loss(torch.compile(twin, **options))
        loss.backward()
        found.append([loss.detach(), *(p.grad for p in twin.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_why_a_value_is_saved():
    """A saved value names the line that made it and the backward nodes that read it; the largest comes first."""

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).sigmoid().sum(1)

    record = staged(f, torch.ones(8, 4), torch.ones(4, 2, requires_grad=True))
    (view,) = record.autograd
    (sigmoid,) = [s for s in view.saved if "aten.sigmoid_backward.default" in [n.target for n in s.readers]]
    assert sigmoid.source.code == "return (x @ w).sigmoid().sum(1)"
    assert (sigmoid.nbytes, sigmoid.is_input) == (8 * 2 * 4, False)
    assert [s.nbytes for s in view.saved] == sorted((s.nbytes for s in view.saved), reverse=True)
    assert view.nbytes == 8 * 4 * 4 + 8 * 2 * 4  # x or a view of it, and the sigmoid
    assert view.new_bytes == 8 * 2 * 4


def test_none_gradients():
    """An input without a gradient is listed with None, beside those that have one."""

    def f(x: torch.Tensor, index: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x[index] * w

    record = staged(
        f, torch.ones(3, 4, requires_grad=True), torch.tensor([0, 2]), torch.ones(4, requires_grad=True)
    )
    (view,) = record.autograd
    assert [(g.input, g.node is not None) for g in view.gradients] == [
        ("x", True),
        ("index", False),
        ("w", True),
    ]
    assert [(t.node.name, t.output) for t in view.tangents] == [("tangents_1", 0)]
    assert "index" in autograd_text(view)


def test_checkpointed_ops_are_computed_again():
    """What activation checkpointing recomputes is listed as such, and is not saved."""

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda a, b: (a @ b).sigmoid().sin(), x, w, use_reentrant=False)

    record = staged(f, torch.ones(2, 4), torch.ones(4, 4, requires_grad=True))
    (view,) = record.autograd
    assert "sigmoid" in {n.name for n in view.recomputed}
    assert "sigmoid" not in {s.name for s in view.saved}


def test_sizes_saved_for_the_backward():
    """A symbolic size that the backward needs is saved as a number: it has no bytes, and tensors have a formula."""
    x = torch.ones(6, 4, requires_grad=True)
    record = staged(lambda x: x.sin().sum(0) * x.shape[0], x, dynamic=True)
    (view,) = record.autograd
    numbers = [s for s in view.saved if s.nbytes is None]
    assert len(numbers) >= 1
    assert all(type(s.value).__name__ == "SymInt" for s in numbers)
    sizes = {s.nbytes: s.expression for s in view.saved if s.nbytes is not None}
    assert 6 * 4 * 4 in sizes
    assert "s" in sizes[6 * 4 * 4]


def test_mutated_inputs_and_aliased_outputs():
    """An input written in place and an output that is a view of an input are told with their names."""

    def f(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.mul_(2)
        return x * w, w.t()

    record = staged(f, torch.ones(3, 3), torch.ones(3, 3, requires_grad=True))
    (view,) = record.autograd
    (mutated,) = view.mutated
    assert (view.inputs[mutated.input], mutated.data, mutated.metadata) == ("x", True, False)
    (aliased,) = view.aliased
    assert (aliased.output, aliased.kind, view.inputs[aliased.input]) == (1, "alias_of_input", "w")
    text = autograd_text(view)
    assert "input x is changed in place (data): copy_ in the graph" in text
    assert "output 1 shares memory: alias of input (w)" in text


def test_the_backward_is_not_compiled_until_it_runs():
    """With an AOT-based inner backend the backward says so until backward() ran."""
    import peek_backend

    with peek_backend.session(stages="backward") as session:
        first, _ = torch.compile(Small(), backend="aot_eager")(torch.randn(4, 8))
        before = session.record.graph("0/0 backward").lowering
        first.sum().backward()
        after = session.record.graph("0/0 backward").lowering
    assert (before.by, before.compiled, after.compiled) == ("aot_eager", False, True)


class Writing(torch.nn.Module):
    """Writes an input that needs a gradient; of its outputs one is a view of an input, two share memory, one has no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = x * 2
        x.mul_(self.fc.weight.sum())
        self.fc.bias.data.add_(1)
        y = self.fc(x)
        return y.detach() + 1, y, y.view(-1), self.fc.weight.t(), y * 2


@pytest.mark.parametrize("module", [Small, Writing])
def test_the_log_tells_the_same_of_autograd(module):
    """Inputs, gradients, tangents, writes and aliases are as the live graphs tell, and the same again from the cache."""

    def told(source):
        torch._dynamo.reset()
        torch.manual_seed(0)
        record = staged(module(), torch.randn(4, 8), inner="inductor", stages_from=source)
        (view,) = record.autograd
        tangents = [(t.node.name, t.known, t.output) for t in view.tangents]
        saved = sorted((s.name, s.nbytes, s.source.input or s.source.line) for s in view.saved)
        inputs = {
            g.key: [n.source.input for n in g.nodes if n.source and n.source.input] for g in record.graphs
        }
        gradients = [(g.input, g.node is None) for g in view.gradients]
        return gradients, saved, inputs, tangents, view.mutated, view.aliased

    live, log, warm = told("live"), told("log"), told("log")
    assert log == warm == live
    assert all(known for _, known, _ in log[3])
    assert {"0/0 kernels forward", "0/0 post_grad forward"} <= {
        k for k, names in log[2].items() if "x" in names
    }


def test_a_tangent_that_nothing_tells():
    """Where the capture does not say which output a tangent arrives for, the view says so, and claims no mutated input."""
    record = staged(Small(), torch.ones(2, 8))
    backward = record.graph("0/0 backward")
    view = autograd_view(
        record.graph("0/0 forward"), replace(backward, lowering=replace(backward.lowering, tangents=()))
    )
    text = autograd_text(view)
    assert "torch's log does not say" in text
    assert "a mutated input or a base" not in text
