"""inspect(): a fresh compile that leaves no trace."""

from __future__ import annotations

import gc
import random
import weakref

import pytest
import torch
from torch._dynamo.utils import counters

import peek_backend
from peek_backend.model import SymInt


def callee(x):
    return x.cos()


def caller(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return callee(y) * torch.rand(1)


def counting(seen):
    def backend(gm, example_inputs):
        seen.append(gm)
        return gm.forward

    return backend


def test_result_and_fresh_start():
    """Each inspection starts without history: a static size stays static however many sizes were seen before."""
    for size in (3, 4, 5):
        record = peek_backend.inspect(callee, torch.randn(size))
        (graph,) = record.graphs
        assert (graph.compile_id, graph.nodes[0].value.shape) == ("0/0", (size,))
        assert record.stats.recompiles == 0
        assert record.frames[0].phases  # torch wrote the times down before its counters were put back
    (graph,) = peek_backend.inspect(callee, torch.randn(5), dynamic=True).graphs
    assert isinstance(graph.nodes[0].value, SymInt)


def test_users_variants_and_dynamism_stay():
    """After inspections at other sizes the user's variants are all there, and his next sizes compile as they would have."""
    seen = []
    compiled = torch.compile(caller, backend=counting(seen))
    compiled(torch.randn(5))
    first = len(seen)
    for size in range(6, 18):
        assert len(peek_backend.inspect(caller, torch.randn(size)).graphs) == 2
    compiled(torch.randn(5))
    assert len(seen) == first
    compiled(torch.randn(20))
    compiled(torch.randn(21))
    assert len(seen) == 2 * first  # one recompile of each frame, dynamic from then on


def test_inspections_do_not_use_up_the_recompile_limit():
    """More inspections than the limit leave the user all his variants."""
    seen = []
    with torch._dynamo.config.patch(recompile_limit=3, automatic_dynamic_shapes=False):
        for size in range(3, 10):
            assert peek_backend.inspect(caller, torch.randn(size)).graphs
        compiled = torch.compile(caller, backend=counting(seen))
        for size in (3, 4, 5):
            compiled(torch.randn(size))
    assert len(seen) == 6


def test_first_compile_after_an_inspection_is_the_first():
    """The user's own compile ids start where they would have started."""
    peek_backend.inspect(callee, torch.randn(3))
    with peek_backend.session() as session:
        torch.compile(callee, backend="eager")(torch.randn(3))
    assert session.record.graphs[0].compile_id.endswith("/0")


def test_counters_and_globals_stay():
    """torch's counters, break reasons, and the globals of the function's module are as before."""
    counters.clear()
    before = set(globals())
    reasons = len(torch._dynamo.utils.graph_break_reasons)
    peek_backend.inspect(caller, torch.randn(3))
    assert not counters["stats"] and not counters["graph_break"]
    assert len(torch._dynamo.utils.graph_break_reasons) == reasons
    gc.collect()
    assert set(globals()) - before == set()


def test_skipped_code_is_not_left_skipped():
    """A frame that an inspection saw skipped is looked at again when the user compiles it."""

    def loop(x):
        for _ in range(2):
            x = x + 1
            torch._dynamo.graph_break()
        return x

    peek_backend.inspect(loop, torch.randn(3))
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(loop, backend="eager", fullgraph=True)(torch.randn(3))


def test_tensors_stay():
    """Buffers, inputs written in place, transposed inputs, versions, gradients and attributes are as before."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    net.calls = 0

    def train(x, scale):
        net.calls += 1
        x.mul_(2)
        scale.unsqueeze_(0)
        net(x).sum().backward()
        return x

    x, scale = torch.randn(3, 4), torch.randn(5)
    net(x).sum().backward()
    tensors = {
        **net.state_dict(),
        **{f"{n}.grad": p.grad for n, p in net.named_parameters()},
        "x": x,
        "scale": scale,
    }
    before = {n: (t.clone(), t._version, t.stride()) for n, t in tensors.items()}
    grads = [p.grad for p in net.parameters()]
    record = peek_backend.inspect(train, x, scale)
    assert record.graphs
    for name, tensor in tensors.items():
        copied, version, stride = before[name]
        assert torch.equal(tensor, copied) and tensor.stride() == stride, name
        assert tensor._version == version, name
    assert all(p.grad is g for p, g in zip(net.parameters(), grads, strict=True))
    assert net.calls == 0


def test_random_state_stays():
    """torch's and Python's generators are where they were."""
    torch.manual_seed(3)
    random.seed(3)
    states = torch.get_rng_state(), random.getstate()
    peek_backend.inspect(caller, torch.randn(3))
    torch.set_rng_state(states[0])
    peek_backend.inspect(lambda x: x * torch.rand(3) * random.random(), torch.ones(3))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]


def test_nothing_is_kept_alive():
    """The inputs, the module and what was compiled for it die afterwards."""
    net, x = torch.nn.Linear(4, 4), torch.randn(3, 4)
    compiled = torch.compile(net, backend="eager")
    compiled(x)
    peek_backend.inspect(net, x)
    refs = weakref.ref(net), weakref.ref(x)
    del net, x, compiled
    gc.collect()
    assert [r() for r in refs] == [None, None]


def test_compiled_functions_and_modules():
    """A function that is compiled already is inspected as its original."""
    compiled = torch.compile(torch.nn.Linear(4, 2), backend="eager")
    (graph,) = peek_backend.inspect(compiled, torch.randn(3, 4)).graphs
    assert graph.name == "Linear.forward"
    (graph,) = peek_backend.inspect(torch.compile(callee, backend="eager"), torch.randn(3)).graphs
    assert graph.name == "callee"


def test_fullgraph_error_carries_what_was_captured():
    """The call's own exception passes, with the record on it."""
    with pytest.raises(torch._dynamo.exc.Unsupported) as error:
        peek_backend.inspect(caller, torch.randn(3), fullgraph=True)
    assert error.value.peek_record.graphs == ()

    def fails(x):
        x = x.sin()
        torch._dynamo.graph_break()
        raise KeyError("after the first graph")

    with pytest.raises(KeyError) as error:
        peek_backend.inspect(fails, torch.randn(3))
    assert len(error.value.peek_record.graphs) == 1


def test_ctrl_c_carries_what_was_captured():
    """An interrupted call has the capture so far on it, with its methods."""

    def interrupted(x):
        x = x.sin()
        torch._dynamo.graph_break()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as error:
        peek_backend.inspect(interrupted, torch.randn(3))
    assert "sin" in error.value.peek_record.table()


def test_inner_backend():
    """inner runs the graphs; an unknown one is refused at once with the nearest name."""
    (graph,) = peek_backend.inspect(callee, torch.randn(3), inner="aot_eager").graphs
    assert graph.stage == "dynamo"
    with pytest.raises(peek_backend.PeekError, match="inductor"):
        peek_backend.inspect(callee, torch.randn(3), inner="inductr")
    with pytest.raises(peek_backend.PeekError, match="callable"):
        peek_backend.inspect(3, torch.randn(3))


def test_script_and_lazy_modules():
    """A traced ScriptModule is inspected as torch.compile takes it; a lazy module is still lazy afterwards."""
    traced = torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
    peek_backend.inspect(traced, torch.ones(1, 2))
    lazy = torch.nn.LazyLinear(3)
    assert peek_backend.inspect(lazy, torch.ones(1, 2)).graphs
    assert torch.nn.parameter.is_lazy(lazy.weight)


@pytest.mark.parametrize("dynamic", ["yes", {"x": {0: "batch"}}, 1])
def test_dynamic_is_a_switch(dynamic):
    """dynamic= that is no switch is refused with what to write instead."""
    with pytest.raises(peek_backend.PeekError, match="mark_dynamic"):
        peek_backend.inspect(callee, torch.ones(2), dynamic=dynamic)
