"""The program is untouched: everything is as it would be without peek."""

from __future__ import annotations

import contextlib
import gc
import io
import random
import weakref

import pytest
import torch
from torch._dynamo.utils import counters

import peek_backend


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(6, 6)
        self.norm = torch.nn.BatchNorm1d(6)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        y = self.drop(self.norm(self.fc(x)))
        print("in the middle")
        return (y * torch.rand_like(y)).t()


def broken_loop(x, n):
    for i in range(n):
        x = x + i
        torch._dynamo.graph_break()
    return x


def mutating(x, flag):
    x.add_(1)
    y = x.clone()
    y.transpose_(0, 1)
    return y if flag else y * 2


def data_dependent(x):
    return x.sin() if x.sum() > 0 else x.cos()


def sizes(x):
    return x.unfold(1, 3, 2).var(0) * x.shape[0]


PROGRAMS = {
    "training": lambda: (Net(), [(torch.randn(n, 6),) for n in (4, 5, 9)]),
    "loop": lambda: (broken_loop, [(torch.randn(3), 2), (torch.randn(4), 2), (torch.randn(3), 3)]),
    "mutation": lambda: (
        mutating,
        [(torch.randn(3, 4), True), (torch.randn(5, 4), False), (torch.randn(6, 2), True)],
    ),
    "branch": lambda: (data_dependent, [(torch.ones(3),), (-torch.ones(3),), (torch.ones(7),)]),
    "sizes": lambda: (sizes, [(torch.randn(n, 9),) for n in (3, 4, 5, 1)]),
}


def observe(name: str, backend: object, dynamic: bool | None, watched: bool) -> dict[str, object]:
    """Everything a run of a program shows: results, gradients, strides, random state, prints, compiles, guards."""
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    random.seed(0)
    fn, calls = PROGRAMS[name]()
    compiled = torch.compile(fn, backend=backend, dynamic=dynamic)
    results, printed = [], io.StringIO()
    looking = peek_backend.session() if watched else contextlib.nullcontext()
    with looking, contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        for args in calls:
            result = compiled(*args)
            if result.requires_grad:
                result.sum().backward()
            results.append(
                (
                    result.detach().clone(),
                    result.stride(),
                    [a for a in args if isinstance(a, torch.Tensor)],
                )
            )
    code = getattr(fn, "forward", fn).__code__
    entries = torch._C._dynamo.eval_frame._debug_get_cache_entry_list(code)
    return {
        "results": results,
        "gradients": [p.grad for p in getattr(fn, "parameters", list)()],
        "buffers": [b.clone() for b in getattr(fn, "buffers", list)()],
        "printed": printed.getvalue(),
        "torch random": torch.get_rng_state(),
        "python random": random.random(),
        "stats": dict(counters["stats"]),
        "frames": dict(counters["frames"]),
        "breaks": dict(counters["graph_break"]),
        "guards": [str(e.guard_manager) for e in entries],
    }


def plain(gm, example_inputs):
    return gm.forward


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_backend_changes_nothing(name, dynamic):
    """backend="peek" behaves in every respect like a backend that hands gm.forward back."""
    expected = observe(name, plain, dynamic, watched=False)
    found = observe(name, "peek", dynamic, watched=False)
    assert_same(expected, found)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_session_changes_nothing(name, backend):
    """A session around a program that names another backend changes nothing of it."""
    expected = observe(name, backend, None, watched=False)
    found = observe(name, backend, None, watched=True)
    assert_same(expected, found)


def assert_same(expected, found):
    for what, value in expected.items():
        assert _comparable(value) == _comparable(found[what]), what


def _comparable(value):
    """Tensors by their content and strides, guards without the ids of objects made anew for each run."""
    if isinstance(value, torch.Tensor):
        return (value.dtype, tuple(value.shape), value.stride(), repr(value.tolist()))  # nan is equal as text
    if isinstance(value, (list, tuple)):
        return [_comparable(v) for v in value]
    if isinstance(value, str):
        import re

        return re.sub(
            r"0x[0-9a-f]+|__builtins_dict___\d+|\b\d{7,}\b|__compiled_fn_\w+|__resume_at_\w+|\b\d+/\d+\b",
            "_",
            value,
        )
    return value


def test_returned_callable_is_the_graphs_own():
    """Without an inner backend Dynamo gets gm.forward itself, so later calls cost nothing more."""
    seen = []

    def inner(gm, example_inputs):
        seen.append(gm.forward)
        return seen[-1]

    from peek_backend.backend import peek

    gm = torch.fx.symbolic_trace(lambda x: x.sin())
    assert peek(gm, [torch.ones(1)], options={"quiet": True}) == gm.forward
    assert peek(gm, [torch.ones(1)], options={"quiet": True, "inner": inner}) is seen[0]


def test_nothing_is_kept_alive():
    """Inputs, the module and the GraphModule die with the program; only plain records stay."""
    graphs = []

    def remember(gm, example_inputs):
        graphs.append(weakref.ref(gm))
        return gm.forward

    net, x = torch.nn.Linear(6, 6), torch.randn(3, 6)  # torch itself keeps the code of frames that break
    compiled = torch.compile(net, backend="peek", options={"quiet": True, "inner": remember})
    with peek_backend.session() as session:
        compiled(x)
    refs = [weakref.ref(net), weakref.ref(x), weakref.ref(net.weight), *graphs]
    del net, x, compiled
    torch._dynamo.reset()
    gc.collect()
    assert [r() for r in refs] == [None] * len(refs)
    assert session.record.graphs


def test_session_leaves_torch_as_it_was():
    """The one function that is wrapped is the original again once no session is open, also after an error."""
    from torch._dynamo.output_graph import OutputGraph

    real = OutputGraph._call_user_compiler
    with pytest.raises(ZeroDivisionError), peek_backend.session(), peek_backend.session():
        raise ZeroDivisionError
    assert OutputGraph._call_user_compiler is real


def test_nested_sessions_and_threads():
    """Two open sessions each see every graph, and graphs compiled in another thread are seen."""
    import threading

    def work():
        torch.compile(lambda x: x.sin(), backend="eager")(torch.ones(3))

    with peek_backend.session() as outer:
        with peek_backend.session() as inner:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        torch.compile(lambda x: x.cos(), backend="eager")(torch.ones(3))
    assert len(inner.record.graphs) == 1
    assert len(outer.record.graphs) == 2
