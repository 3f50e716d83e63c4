"""Values are those at the point of production."""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.capture.helpers import by_target, graph_of, node


def test_transposed_later():
    """A value transposed in place later shows its own shape, and what it became."""

    def fn(x):
        y = x.clone()
        z = y + 1
        y.transpose_(0, 1)
        return y, z

    graph = graph_of(fn, torch.randn(4, 5))
    before = node(graph, "y").value
    assert (before.shape, before.stride) == ((4, 5), (5, 1))
    assert (before.became.shape, before.became.stride) == ((5, 4), (1, 5))
    assert "mutated" in before.flags
    after = node(graph, "transpose_").value
    assert (after.shape, after.became, after.flags) == ((5, 4), None, ())


def test_chain_of_in_place_views():
    """Each step of a chain shows the shape that it produced."""

    def fn(x):
        y = x * 2
        y.unsqueeze_(0)
        y.transpose_(0, 1)
        y.squeeze_(1)
        return y

    graph = graph_of(fn, torch.randn(6))
    shapes = [n.value.shape for n in graph.nodes if n.op not in ("placeholder", "output")]
    assert shapes == [(6,), (1, 6), (6, 1), (6,)]


@pytest.mark.parametrize("dynamic", [False, True])
def test_dynamic_sizes_stay_symbolic(dynamic):
    """A value re-read at production keeps its symbols, and no guard or symbol is added."""

    def fn(x):
        y = x.clone()
        y.t_()
        return y

    graph = graph_of(fn, torch.randn(4, 5), dynamic=dynamic)
    value = node(graph, "y").value
    assert value.shape == tuple(reversed(value.became.shape))
    assert all(isinstance(d, str) is dynamic for d in value.shape)


def test_gained_grad():
    """A tensor that an in-place op made require grad is shown without it where it was produced."""

    def fn(w):
        y = torch.zeros(3)
        y.add_(w)
        return y

    graph = graph_of(fn, torch.ones(3, requires_grad=True))
    value = by_target(graph, "torch.zeros").value
    assert (value.requires_grad, value.became.requires_grad) == (False, True)


def test_data_written_later_is_marked():
    """Writes through a view, setitem, out= and in-place arithmetic mark what they write, and only that."""

    def fn(x, out):
        y, z, w = x.clone(), x.clone(), x.clone()
        y[0].add_(1)
        z[1] = 2
        torch.mul(x, 2, out=out)
        w += 1
        return y + z + w, x.clone()

    graph = graph_of(fn, torch.randn(3), torch.randn(3))
    marked = {n.name for n in graph.nodes if n.value is not None and "mutated" in n.value.flags}
    assert marked == {"l_out_", "y", "z", "w", "getitem"}


def test_batch_norm_marks_its_statistics():
    """batch_norm writes running statistics without raising their version; they are marked all the same."""
    graph = graph_of(torch.nn.BatchNorm1d(4), torch.randn(3, 4))
    marked = {n.source.input for n in graph.nodes if n.op == "placeholder" and "mutated" in n.value.flags}
    assert marked == {"running_mean", "running_var", "num_batches_tracked"}


def test_evaluation_mode_marks_nothing():
    """The same module in eval mode writes nothing."""
    graph = graph_of(torch.nn.BatchNorm1d(4).eval(), torch.randn(3, 4))
    assert not any(n.value is not None and n.value.flags for n in graph.nodes if n.op != "output")


def test_random_state_is_untouched_by_reading_again():
    """Running a random op again under fakes consumes no random number."""

    def fn(x):
        y = torch.rand(3, 4)
        y.t_()
        return y

    torch.manual_seed(0)
    expected = fn(torch.zeros(1))
    torch.manual_seed(0)
    from tests.capture.helpers import capture  # the compile and the run both happen in here

    capture(fn, torch.zeros(1))
    after_compiled = torch.rand(1)
    torch.manual_seed(0)
    fn(torch.zeros(1))
    assert torch.equal(after_compiled, torch.rand(1))
    assert expected.shape == (4, 3)


def test_data_assigned():
    """``resize_`` and friends on an intermediate change only what comes after."""

    def fn(x):
        y = x.clone()
        z = y * 2
        y.as_strided_((2,), (1,))
        return y, z

    graph = graph_of(fn, torch.randn(6))
    assert node(graph, "y").value.shape == (6,)
    assert node(graph, "z").value.shape == (6,)


def test_reading_again_warns_of_nothing():
    """A value that is read again warns as often as without peek: once from Dynamo, once from the graph that runs."""

    def f(x):
        y = torch.tensor(x.sum())
        y.unsqueeze_(0)
        return y * 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        graph = graph_of(f, torch.ones(3))
    assert node(graph, "y").value.shape == ()
    assert not [w for w in caught if "peek_backend" in w.filename]
