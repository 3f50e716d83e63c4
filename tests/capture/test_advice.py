"""What the report advises helps: each advice is followed, and the recompile or the break that it was given for is gone."""

from __future__ import annotations

import contextlib
import inspect
import logging
import re
import time
import types
from typing import Any, NamedTuple

import pytest
import torch
from torch._dynamo import config

from peek_backend.analysis.breaks import ranked
from peek_backend.analysis.why import why
from peek_backend.capture.session import Session

NUMBER = 2


def compiled(fn, **options):
    return torch.compile(fn, backend="eager", **options)


def watched(program, **settings):
    """The record of a program that compiles and calls what it likes, from a clean start."""
    torch._dynamo.reset()
    with config.patch({"automatic_dynamic_local_pgo": False, **settings}), Session() as session:
        program()
    torch._dynamo.reset()
    return session.record


def calls(fn, *arguments, **options):
    """A program: ``fn`` compiled, and called with each tuple of arguments; functions make them when it runs."""

    def program():
        run = compiled(fn, **options)
        for made in arguments:
            run(*(made() if callable(made) else made))

    return program


class Held(torch.nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, x):
        return x * self.value


def modules(*values, **options):
    def program():
        for value in values:
            compiled(Held(value), **options)(torch.ones(3))

    return program


def held(*values):
    """One plain object whose attribute changes from call to call."""

    def program(**options):
        box = types.SimpleNamespace(scale=values[0])
        run = compiled(lambda x, box: x * box.scale, **options)
        for value in values:
            box.scale = value
            run(torch.ones(3), box)

    return program


def global_numbers(*values):
    def program():
        global NUMBER  # noqa: PLW0603  # a changing global is what this is about
        run = compiled(lambda x: x * NUMBER)
        for value in values:
            NUMBER = value
            run(torch.ones(3))

    return program


def broken_size(*sizes, mark=False):
    def fn(x):
        torch._dynamo.graph_break()
        return x * 2

    def program():
        run = compiled(fn)
        for size in sizes:
            x = torch.ones(size)
            if mark:
                torch._dynamo.mark_dynamic(x, 0)
            run(x)

    return program


def transposed(x):
    y = x.t().contiguous()
    torch._dynamo.graph_break()
    return y * 2


def transposed_in_one(x):
    y = x.t().contiguous()
    return y * 2


def tripled(y):
    return y * 3


def calling_in_a_loop(x):
    for _ in range(1):
        x = torch.cat([x, x])
        torch._dynamo.graph_break()
        x = tripled(x)
    return x


def calling_without_a_break(x):
    for _ in range(1):
        x = torch.cat([x, x])
        x = tripled(x)
    return x


def marked_in_all(fn, *shapes):
    """``fn`` called with tensors of which every size is marked."""

    def program():
        run = compiled(fn)
        for call in shapes:
            made = [torch.ones(shape) for shape in call]
            for x in made:
                torch._dynamo.mark_dynamic(x, list(range(x.dim())))
            run(*made)

    return program


def shaped(fn, *shapes):
    return calls(fn, *[tuple([torch.ones(shape) for shape in call]) for call in shapes])


TWO_SHAPES = (((3, 4), (5,)), ((6, 7), (8,)))


def first_mark_only():
    run = compiled(lambda x, y: x.sum() * y)
    for a, b in TWO_SHAPES:
        x = torch.ones(a)
        torch._dynamo.mark_dynamic(x, 0)
        run(x, torch.ones(b))


def in_modes(*enabled):
    def program():
        run = compiled(lambda x: x * 2)
        for grad in enabled:
            with torch.set_grad_enabled(grad):
                run(torch.ones(3))

    return program


def under_autocast(*enabled):
    """After a call without gradients, so that the newest variant differs by that as well."""

    def program():
        run = compiled(lambda x: x * 2)
        run(torch.ones(3))
        with torch.no_grad():
            run(torch.ones(3))
        for on in enabled:
            with torch.autocast("cpu", enabled=on):
                run(torch.ones(3))

    return program


def linears(*sizes):
    """A function that takes a module whose parameters have another size in each call."""

    def program():
        run = compiled(lambda module, x: module(x))
        for size in sizes:
            run(torch.nn.Linear(4, size), torch.ones(2, 4))

    return program


class Buffered(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("held", torch.ones(size))

    def forward(self, x):
        return self.held + x


def buffered(*sizes):
    def program():
        run = compiled(lambda module, x: module(x))
        for size in sizes:
            run(Buffered(size), torch.ones(1))

    return program


def by_backends(*backends):
    def program():
        def fn(x):
            return x * 2

        for backend in backends:
            torch.compile(fn, backend=backend)(torch.ones(3))

    return program


def ranged(fn, *sizes, mark=torch._dynamo.mark_dynamic, **ends):
    """A size marked with a range in every call, of a program that goes on where a call ends with an error."""

    def program():
        run = compiled(fn)
        for size in sizes:
            x = torch.ones(size)
            mark(x, 0, **ends)
            with contextlib.suppress(Exception):
                run(x)

    return program


def marked_once(ends, *sizes):
    """A size marked with a range in the first call only."""

    def program():
        run = compiled(doubled)
        for i, size in enumerate(sizes):
            x = torch.ones(size)
            if i == 0:
                torch._dynamo.mark_dynamic(x, 0, **ends)
            run(x)

    return program


def marked(*dims):
    def program():
        run = compiled(lambda x: x * 2)
        for dim in dims:
            x = torch.ones(3, 4)
            if dim is not None:
                torch._dynamo.mark_dynamic(x, dim)
            run(x)

    return program


def plus_one(x):
    return x + 1


def first_backend(gm, inputs):
    return gm.forward


def other_backend(gm, inputs):
    return gm.forward


def doubled(x):
    return x * 2


def counting(x, t):
    n = t.sum().item()
    return x * 2 if n > 3 else x


def counting_checked(x, t):
    n = t.sum().item()
    torch._check(n > 3)
    return x * 2 if n > 3 else x


def pairs(x, t):
    a, b = t.tolist()
    return x * 2 if a + a > b else x


def pairs_checked(x, t):
    a, b = t.tolist()
    torch._check(2 * a > b)
    return x * 2 if a + a > b else x


def rows(x, t):
    found = torch.nonzero(t)
    return x * 2 if found.shape[0] % 2 == 0 else x


def rows_checked(x, t):
    found = torch.nonzero(t)
    torch._check(found.shape[0] % 2 == 0)
    return x * 2 if found.shape[0] % 2 == 0 else x


def read_in_place(x, t):
    return x * 2 if t.sum().item() > 3 else x


def sized(x):
    return x * 2 if x.shape[0] > 3 else x - 1


def sized_in_graph(x):
    return torch.cond(x.shape[0] > 3, lambda x: x * 2, lambda x: x - 1, (x,))


def counted(x, n):
    return x * 2 if n > 3 else x - 1


def counted_in_graph(x, n):
    return torch.cond(n > 3, lambda x: x * 2, lambda x: x - 1, (x,))


def looped(x, n):
    return sum([x for _ in range(n)])


def looped_over(x):
    for i in range(x.shape[0]):
        x = x + i
    return x


def summed(x):
    return x + torch.arange(x.shape[0]).sum()


def tensors(*sizes):
    return [(torch.ones(size),) for size in sizes]


def numbers(*values):
    return [(torch.ones(3), value) for value in values]


def twice_the_same():
    x = torch.ones(3)
    return x, x


def the_same_cloned():
    x = torch.ones(3)
    return x, x.clone()


class Case(NamedTuple):
    """What recompiles, what the advice says, the program that follows it, and how many recompiles are left."""

    words: str
    before: Any
    after: Any
    left: int = 0


def with_settings(program, **settings):
    def run():
        with config.patch(settings):
            program()

    return run


RECOMPILES = {
    "a size": Case("mark_dynamic(x, 0)", calls(doubled, *tensors(3, 4, 5)), marked(0, 0)),
    "a size, compiled so": Case(
        "torch.compile(…, dynamic=True)",
        calls(doubled, *tensors(3, 4, 5)),
        calls(doubled, *tensors(3, 4, 5), dynamic=True),
    ),
    "size 1": Case("pad to 2", calls(doubled, *tensors(3, 1)), calls(doubled, *tensors(3, 3))),
    "a condition on a size": Case(
        "torch.cond", calls(sized, *tensors(2, 3, 5), dynamic=True), calls(sized_in_graph, *tensors(2, 3, 5), dynamic=True)
    ),
    "a size behind a break": Case(
        "the size comes from fn, which breaks at", broken_size(3, 4), broken_size(3, 4, mark=True)
    ),
    "sizes of several tensors": Case(
        "mark_dynamic(x, 0), mark_dynamic(x, 1) and mark_dynamic(y, 0)",
        shaped(lambda x, y: x.sum() * y, *TWO_SHAPES), marked_in_all(lambda x, y: x.sum() * y, *TWO_SHAPES),
    ),
    "sizes of a tensor that is made before a break": Case(
        "mark its inputs dynamic and mend the break",
        shaped(transposed, ((3, 4),), ((5, 6),)), marked_in_all(transposed_in_one, ((3, 4),), ((5, 6),)),
    ),
    "a size in a function that a broken one calls": Case(
        "the size comes from calling_in_a_loop, which breaks at",
        shaped(calling_in_a_loop, ((3,),), ((5,),)), marked_in_all(calling_without_a_break, ((3,),), ((5,),)),
    ),
    "a size outside of its mark": Case(
        "mark_dynamic(x, 0, min=2, max=40) takes it in", marked_once({"min": 2, "max": 16}, 4, 40),
        marked_once({"min": 2, "max": 40}, 4, 40),
    ),
    "an int": Case(
        "makes it so in the first call", calls(lambda x, k: x * k, *numbers(2, 3, 4)),
        calls(lambda x, k: x * k, *numbers(2, 3, 4), dynamic=True),
    ),
    "a float": Case(
        "makes it so in the first call", calls(lambda x, k: x * k, *numbers(2.5, 3.5, 4.5)),
        calls(lambda x, k: x * k, *numbers(2.5, 3.5, 4.5), dynamic=True),
    ),
    "an int, never dynamic": Case(
        "torch.tensor(k)", calls(lambda x, k: x * k, *numbers(2, 3), dynamic=False),
        calls(lambda x, k: x * k, *numbers(torch.tensor(2), torch.tensor(3)), dynamic=False),
    ),
    "an attribute of a plain object": Case(
        "box.scale is dynamic from here on", held(2, 3, 4), lambda: held(2, 3, 4)(dynamic=True)
    ),
    "a float attribute of a module": Case(
        "self.value is dynamic from here on", modules(2.5, 3.5, 4.5), modules(2.5, 3.5, 4.5, dynamic=True)
    ),
    "an int of a module, as a tensor": Case(
        "make it a tensor (a buffer)", modules(2, 3, 4), modules(torch.tensor(2), torch.tensor(3), torch.tensor(4))
    ),
    "an int of a module, by the setting": Case(
        "allow_unspec_int_on_nn_module = True", modules(2, 3, 4, 5),
        with_settings(modules(2, 3, 4, 5), allow_unspec_int_on_nn_module=True), left=1,
    ),
    "a global": Case(
        "pass it as an argument", global_numbers(2, 3, 4), calls(lambda x, k: x * k, *numbers(2, 3, 4)), left=1
    ),
    "a number that a loop needs": Case(
        "as a plain number", calls(looped, *numbers(2, 3, 4)), calls(looped, *numbers(3, 3, 3))
    ),
    "a condition on a number": Case(
        "torch.cond", calls(counted, *numbers(2, 3, 5), dynamic=True), calls(counted_in_graph, *numbers(2, 3, 5), dynamic=True)
    ),
    "a string": Case(
        "keep it the same", calls(lambda x, mode: x * len(mode), *numbers("a", "bb")),
        calls(lambda x, mode: x * len(mode), *numbers("a", "a")),
    ),
    "requires_grad": Case(
        "call it the same way each time", calls(doubled, *tensors(3), lambda: (torch.ones(3, requires_grad=True),)),
        calls(doubled, *tensors(3), lambda: (torch.ones(3, requires_grad=True).detach(),)),
    ),
    "a dtype": Case(
        "cast x to one dtype", calls(doubled, *tensors(3), (torch.ones(3).double(),)),
        calls(doubled, *tensors(3), (torch.ones(3).double().float(),)),
    ),
    "dims": Case(
        "the same number of dims", calls(doubled, (torch.ones(3, 3),), (torch.ones(3),)),
        calls(doubled, (torch.ones(3, 3),), (torch.ones(3).unsqueeze(0).expand(3, 3).contiguous(),)),
    ),
    "a type": Case(
        "as one type each time", calls(lambda x, k: x * k[0], *numbers([2], (2,))),
        calls(lambda x, k: x * k[0], *numbers([2], [2])),
    ),
    "a kind of tensor": Case(
        "another kind of tensor",
        calls(doubled, (torch.ones(3, dtype=torch.cfloat),), (torch.ones(3, dtype=torch.cfloat).conj(),)),
        calls(doubled, (torch.ones(3, dtype=torch.cfloat),), (torch.ones(3, dtype=torch.cfloat).conj().resolve_conj(),)),
    ),
    "a layout": Case(
        ".contiguous()", calls(doubled, (torch.ones(3, 4),), (torch.ones(4, 3).t(),)),
        calls(doubled, (torch.ones(3, 4),), (torch.ones(4, 3).t().contiguous(),)),
    ),
    "an object": Case(
        "create it once", calls(lambda x, fn: fn(x), *[(torch.ones(3), fn) for fn in (plus_one, doubled)]),
        calls(lambda x, fn: fn(x), *[(torch.ones(3), plus_one) for i in range(2)]),
    ),
    "grad mode": Case("the same grad mode", in_modes(True, False), in_modes(False, False)),
    "autocast": Case("under the same autocast", under_autocast(True), under_autocast(False), left=1),
    "a parameter's sizes": Case(
        "force_parameter_static_shapes = False", linears(4, 5, 6),
        with_settings(linears(4, 5, 6), force_parameter_static_shapes=False, force_nn_module_property_static_shapes=False),
        left=1,
    ),
    "a buffer's sizes": Case(
        "force_parameter_static_shapes = False", buffered(4, 5, 6),
        with_settings(buffered(4, 5, 6), force_parameter_static_shapes=False), left=1,
    ),
    "a size that the code fixes": Case(
        "the code fixes x.shape[0] to one value", calls(looped_over, *tensors(3, 4, 5)), calls(summed, *tensors(3, 4, 5)), left=1,
    ),
    "marks": Case("mark the dims before the first call", marked(None, 0), marked(0, 0)),
    "a backend": Case(
        "with one backend object", by_backends(first_backend, other_backend), by_backends(first_backend, first_backend)
    ),
    "one tensor twice": Case(
        "pass a clone", calls(torch.add, (torch.ones(3), torch.ones(3)), twice_the_same),
        calls(torch.add, (torch.ones(3), torch.ones(3)), the_same_cloned),
    ),
    "lengths": Case(
        "containers of one length", calls(sum, ([torch.ones(3)],), ([torch.ones(3), torch.ones(3)],)),
        calls(sum, ([torch.ones(3), torch.ones(3)],), ([torch.ones(3), torch.ones(3)],)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RECOMPILES.values(), ids=RECOMPILES.keys())
def test_advice_ends_the_recompiles(case):
    """A program compiles again, the report advises; the program that does so compiles as often as the advice says."""
    told = watched(case.before)
    advice = [r.advice for r in told.recompiles]
    assert any(case.words in text for text in advice), [(r.failed[0].text, r.advice) for r in told.recompiles]
    assert len(watched(case.after).recompiles) == case.left < len(told.recompiles)


def test_a_mark_is_advised_for_every_size_that_needs_one():
    """torch's guard names one size of the call; marked alone it leaves the recompile, and 0 and 1 need none."""
    assert len(watched(first_mark_only).recompiles) == 1
    (again,) = watched(shaped(lambda x, y: x.sum() * y, ((3, 1), (2,)), ((4, 6), (1,)))).recompiles
    assert "mark_dynamic(x, 0) before" in again.advice


def test_a_break_in_pythons_own_code_has_the_line_that_leads_there():
    """The innermost line is of inspect.py; the program's is told with it."""
    (event,) = watched(one(stacked)).breaks
    assert event.library == "" and event.user is not None and event.stack[-1].file == inspect.__file__
    assert event.user.code == "return x + len(inspect.stack())"


def test_a_mark_is_not_advised_for_a_size_that_the_code_fixes():
    """A product fixes the inner size to that of a parameter: a mark on it would raise, one on the rows helps."""

    def program():
        run = compiled(lambda x, module: module(x))
        for size in (4, 5, 6):
            run(torch.ones(2 + size, size), torch.nn.Linear(size, 4))

    rows, inner = watched(program).recompiles
    assert rows.advice.startswith("torch._dynamo.mark_dynamic(x, 0) before")
    assert inner.advice.startswith("the code fixes x.shape[1] to one value")


def test_a_mark_is_not_advised_where_it_does_not_reach():
    """Behind a break a marked input has another shape: the advice, and that of each size, names the function and its break."""
    told = watched(marked_in_all(transposed, ((3, 4),), ((5, 6),)))
    (again,) = told.recompiles
    line = told.breaks[0].stack[-1].line
    assert again.advice.startswith(f"the size comes from transposed, which breaks at test_advice.py:{line}: ")
    first, *_ = why(told, "y.shape[0]")
    assert first.static and first.change == again.advice


def test_a_higher_limit_ends_the_refusals():
    """The advice of a refused attempt names the limit; raised, nothing is refused any more."""
    told = watched(modules(0, 1, 2, 3), recompile_limit=2)
    (refused,) = [r for r in told.recompiles if r.refused]
    assert "raise torch._dynamo.config.recompile_limit" in refused.advice
    assert not any(r.refused for r in watched(modules(0, 1, 2, 3), recompile_limit=8).recompiles)


def quartered(x):
    return x * 2 if x.shape[0] % 4 == 0 else x


CONDITIONS = {
    "a number": ("torch._check(n > 3)", counting, counting_checked),
    "numbers, in torch's arithmetic": ("torch._check(2 * a > b)", pairs, pairs_checked),
    "a size": ("torch._check(found.shape[0] % 2 == 0)", rows, rows_checked),
}


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize(("words", "before", "after"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_a_condition_on_data_is_advised_in_the_program_s_words(words, before, after, fullgraph):
    """torch says ``u0 > 3``; what is advised can be copied into the program, and makes one graph of it."""
    settings = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    data = (torch.ones(4), torch.tensor([3, 2]))

    def program(fn):
        with contextlib.suppress(Exception):
            compiled(fn, fullgraph=fullgraph)(*data)

    told = watched(lambda: program(before), **settings)
    offered = [text for row in ranked(told) for text in row.rewrites] + [f.fix for f in told.frames if f.fix]
    assert sum(words in text for text in offered) == (2 if fullgraph else 1), offered
    mended = watched(lambda: program(after), **settings)
    assert (len(mended.breaks), [f.outcome for f in mended.frames]) == (0, ["compiled"])


def test_a_value_without_a_name_keeps_torchs():
    """``t.sum().item()`` written again would be another value: the symbol stays."""
    told = watched(calls(read_in_place, (torch.ones(4), torch.tensor([3, 2]))), capture_scalar_outputs=True)
    assert told.breaks[0].hints[0].startswith("torch._check(u0 > 3) where it always holds")


RANGES = {
    "a call outside": (
        "x.shape[0] is 40, and was marked for 2 to 16", "min=2, max=40) takes it in", "run(x)",
        ranged(doubled, 4, 40, min=2, max=16), ranged(doubled, 4, 40, min=2, max=40),
    ),
    "a question that splits it": (
        "x.shape[0] is marked for up to 16, and the graph is right for 4 to 16 only", "mark_dynamic(x, 0, min=4, max=16)",
        "return x * 2 if x.shape[0] > 3 else x - 1", ranged(sized, 4, min=2, max=16), ranged(sized, 4, min=4, max=16),
    ),
    "a question that splits it, marked without": (
        "right for 4 to 16 only", "maybe_mark_dynamic(x, 0): other sizes get a variant",
        "return x * 2 if x.shape[0] > 3 else x - 1", ranged(sized, 4, min=2, max=16),
        ranged(sized, 4, mark=torch._dynamo.maybe_mark_dynamic),
    ),
    "a question that no range answers": (
        "right for (x.shape[0] % 4) == 0 only", "maybe_mark_dynamic(x, 0)", "return x * 2 if x.shape[0] % 4 == 0 else x",
        ranged(quartered, 4, min=2, max=16), ranged(quartered, 4, mark=torch._dynamo.maybe_mark_dynamic),
    ),
    "one end only": (
        "", "both min= and max=", "return x * 2", ranged(doubled, 4, max=16), ranged(doubled, 4, min=2, max=16),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reason", "fix", "line", "before", "after"), RANGES.values(), ids=RANGES.keys())
def test_advice_mends_a_range_that_does_not_hold(reason, fix, line, before, after):
    """torch ends a call with an error for a marked range; what is told has the size, the line and a mark that is accepted."""
    (frame,) = watched(before).frames
    assert frame.outcome == "failed" and reason in frame.reason and fix in frame.fix
    assert frame.user is not None and frame.user.code == line
    assert [f.outcome for f in watched(after).frames] == ["compiled"]


def test_a_marked_range_is_of_no_line():
    """torch has the bounds of a mark at the line that used the tensor first: the mark is told instead, and no line is."""
    row, *_ = why(watched(marked_once({"min": 2, "max": 16}, 4)), "x.shape[0]")
    assert row.verdict.endswith("range [2, 16]")
    assert [(f.text, f.user) for f in row.chain if f.kind in ("marked", "range")] == [
        ("x.shape[0] was marked dynamic, 2 to 16", None)
    ]


# ---- breaks ----------------------------------------------------------------------------------------------------------

log = logging.getLogger("tests.capture.advice")


def timed(x):
    return x + time.monotonic()


def times_given(x, now=1.5):
    return x + now


def stacked(x):
    return x + len(inspect.stack())


def with_a_class(x):
    class Two:
        number = 2

    return x * Two.number


class Two:
    number = 2


def with_a_class_outside(x):
    return x * Two.number


def item(x):
    return x * x.sum().item()


def item_as_tensor(x):
    return x * x.sum()


def branch(x):
    return x * 2 if x.sum() > 0 else x - 1


def branch_in_graph(x):
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


def branch_as_where(x):
    return torch.where(x.sum() > 0, x * 2, x - 1)


def raising(x):
    if x.sum() < 0:
        raise ValueError
    return x * 2


def asserting(x):
    assert x.sum() > 0, f"of {x}"
    return x * 2


def asserting_in_graph(x):
    torch._assert_async(x.sum() >= 0)
    return x * 2


def selecting(x):
    return x[x > 0] * 2


def masking(x):
    return x * (x > 0) * 2


def printing(x):
    x = x + 1
    print("here")
    return x * 2


def logging_(x):
    x = x + 1
    log.warning("here")
    return x * 2


def breaking(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


def not_breaking(x):
    return (x + 1) * 2


@torch.compiler.disable
def disabled(x):
    return x * 3


def enabled(x):
    return x * 3


def calling_disabled(x):
    return disabled(x + 1) * 2


def calling_enabled(x):
    return enabled(x + 1) * 2


def breaking_in_a_loop(x):
    for _ in range(2):
        x = x + 1
        torch._dynamo.graph_break()
    return x


def breaking_in_a_try(x):
    try:
        x = x + 1
        torch._dynamo.graph_break()
    except ValueError:
        return x
    return x * 2


def breaking_after_the_try(x):
    try:
        x = x + 1
    except ValueError:
        return x
    torch._dynamo.graph_break()
    return x * 2


def breaking_after_the_loop(x):
    for _ in range(2):
        x = x + 1
    torch._dynamo.graph_break()
    return x * 2


def generating(x):
    yield x * 2


def using_the_generator(x):
    return list(generating(x))


def one(fn):
    def program():
        found = compiled(fn)(torch.ones(4))
        if isinstance(found, types.GeneratorType):
            list(found)

    return program


class Mended(NamedTuple):
    """What breaks, what the rewrites say, what is written instead, and settings to make it under."""

    words: str
    before: Any
    after: Any
    settings: dict[str, Any] = {}  # noqa: RUF012  # a NamedTuple's default


BREAKS = {
    "item, by the setting": Mended("capture_scalar_outputs = True", item, item, {"capture_scalar_outputs": True}),
    "item, as a tensor": Mended("keep it a tensor", item, item_as_tensor),
    "a branch, in the graph": Mended("torch.cond", branch, branch_in_graph),
    "a branch, of cheap sides": Mended("torch.where", branch, branch_as_where),
    "a branch that raises": Mended("torch._assert_async(condition)", raising, asserting_in_graph),
    "an assertion": Mended("torch._assert_async(condition)", asserting, asserting_in_graph),
    "a shape of data, by the setting": Mended(
        "capture_dynamic_output_shape_ops = True", selecting, selecting, {"capture_dynamic_output_shape_ops": True}
    ),
    "a shape of data, as a mask": Mended("mask keeps the shape", selecting, masking),
    "print": Mended("reorderable_logging_functions.add(print)", printing, printing, {"reorderable_logging_functions": {print}}),
    "a logger": Mended(
        "ignore_logger_methods.add(logging.Logger.warning)", logging_, logging_,
        {"ignore_logger_methods": {logging.Logger.warning}},
    ),
    "a value from outside": Mended("call time.monotonic outside", timed, times_given),
    "a line of Python's library": Mended("move the call that leads there (return x + len(inspect.stack()))", stacked, plus_one),
    "a class made inside": Mended(" out of the compiled ", with_a_class, with_a_class_outside),
    "a break on request": Mended("remove the call", breaking, not_breaking),
    "a disabled function": Mended("remove torch.compiler.disable", calling_disabled, calling_enabled),
    "a generator": Mended("non-generator Python function", generating, using_the_generator),
}  # fmt: skip


@pytest.mark.parametrize("case", BREAKS.values(), ids=BREAKS.keys())
def test_rewrites_end_the_break(case):
    """A program breaks, a rewrite is advised; the program that was rewritten so is one graph."""
    told = watched(one(case.before))
    offered = [text for row in ranked(told) for text in row.rewrites]
    assert any(case.words in text for text in offered), offered
    after = watched(one(case.after), **case.settings)
    assert (len(after.breaks), len(after.graphs)) == (0, 1), [b.reason for b in after.breaks]


@pytest.mark.parametrize(
    ("words", "before", "after"),
    [
        ("out of the loop", breaking_in_a_loop, breaking_after_the_loop),
        ("out of the try block", breaking_in_a_try, breaking_after_the_try),
    ],
)
def test_a_break_moved_out_of_the_block_splits_the_frame(words, before, after):
    """Inside a loop or try it leaves the whole frame in eager; behind it there is a graph on both sides."""
    told = watched(one(before))
    assert any(words in text for row in ranked(told) for text in row.rewrites)
    after = watched(one(after))
    assert [f.outcome for f in told.frames] == ["skipped"]
    assert [f.outcome for f in after.frames] == ["broken", "compiled"]


# ---- static sizes ----------------------------------------------------------------------------------------------------


def static(mark):
    def program():
        x = torch.ones(4, 3)
        mark(x)
        compiled(doubled)(x)

    return program


SIZES = {
    "not marked": ("mark_dynamic(x, 0)", calls(doubled, *tensors(4)), marked(0)),
    "marked static": ("drop mark_static(x, 0)", static(lambda x: torch._dynamo.mark_static(x, 0)), marked(0)),
    "size 1": (
        "trace with a size of 2 or more", calls(doubled, *tensors(1), dynamic=True), calls(doubled, *tensors(2), dynamic=True)
    ),
    "dynamic=False": (
        "torch.compile(…, dynamic=True)", calls(doubled, *tensors(4), dynamic=False), calls(doubled, *tensors(4), dynamic=True)
    ),
}  # fmt: skip


def test_the_change_makes_the_size_of_a_parameter_dynamic():
    """``why`` names both settings: those of torch's own modules stay static with one."""
    first, *_ = why(watched(linears(4, 5)), "module.bias.shape[0]")
    settings = dict.fromkeys(re.findall(r"config\.(\w+) = False", first.change), False)
    *_, last = why(watched(linears(4, 5), **settings), "module.bias.shape[0]")
    assert first.static and not last.static


@pytest.mark.parametrize(("words", "before", "after"), SIZES.values(), ids=SIZES.keys())
def test_the_change_makes_the_size_dynamic(words, before, after):
    """A size is static, ``why`` says what would keep it dynamic; after that change it is."""
    (row,) = why(watched(before), "x.shape[0]")
    assert row.static and words in row.change
    (row,) = why(watched(after), "x.shape[0]")
    assert not row.static
