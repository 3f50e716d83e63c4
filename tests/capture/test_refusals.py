"""Calls for which nothing may be compiled, frames that Dynamo refuses, code that was reset: each is told, and as what it is."""

from __future__ import annotations

import threading
import types

import pytest
import torch
from torch._dynamo import config, convert_frame, decorators, eval_frame, exc
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import SpeculationEntry
from torch.nn.parallel import DistributedDataParallel

from peek_backend.analysis.stats import stats
from peek_backend.capture.nothing import why_nothing
from peek_backend.capture.session import Session
from peek_backend.model import FrameRecord
from peek_backend.render.explain import explain_text


def compiled(fn, **options):
    return torch.compile(fn, backend="eager", **options)


def doubled(x):
    return x * 2


class Numbered(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return x + self.number


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def report(session, topic=None):
    return " ".join(explain_text(session.record, topic, width=None).split())


# ---- stances and settings that forbid to compile ---------------------------------------------------------------------


def test_fail_on_recompile_is_a_failure_with_the_guard():
    """The call ends with torch's error; peek has the frame as failed, the guard in words, the line and what mends it."""
    run = compiled(doubled)
    with Session() as session:
        run(torch.ones(3))
        with (
            torch.compiler.set_stance("fail_on_recompile"),
            pytest.raises(RuntimeError, match="Detected recompile"),
        ):
            run(torch.ones(4))
    (frame,) = session.record.frames
    assert frame.outcome == "failed"
    assert frame.reason.endswith("lets nothing new be compiled: x.shape[0]: expected 3, got 4")
    assert (frame.user.code, frame.fix.partition(" ")[0]) == (
        "run(torch.ones(4))",
        "torch._dynamo.mark_dynamic(x,",
    )
    assert (stats(session.record).failed, stats(session.record).recompiles) == (1, 0)
    assert "Failed doubled [0/0]: failed" in report(session)
    assert session.record.notes == ()


def test_fail_on_recompile_of_what_was_never_compiled():
    """There is no guard to name, and that is what is said."""
    with Session() as session, torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError):
        compiled(doubled)(torch.ones(3))
    assert session.record.frames[0].reason.endswith("it had not been compiled before")


def test_eager_on_recompile_counts_the_calls_that_ran_in_eager():
    """Two calls that fit no variant are told with the first guard that failed; the one that fits runs compiled, uncounted."""
    run = compiled(doubled)
    with Session(count_calls=True) as session:
        run(torch.ones(3))
        with torch.compiler.set_stance("eager_on_recompile"):
            results = [run(torch.full((n,), 2.0)) for n in (4, 3, 5)]
    assert [r.tolist() for r in results] == [[4.0] * n for n in (4, 3, 5)]
    (frame,) = session.record.frames
    assert (frame.outcome, frame.eager_calls, frame.calls) == ("compiled", 2, {"0/0": 2})
    assert "eager_on_recompile" in frame.eager_why
    assert "x.shape[0]: expected 3, got 4, at test_refusals.py:" in frame.eager_why
    assert "2 calls ran in eager" in report(session) and "2 calls ran in eager" in report(session, "frames")
    assert session.record.notes == ()


def test_eager_on_recompile_leaves_resume_frames_their_code():
    """A cached function still hits, its resume frame as well; a call that misses tells of the outermost frame alone."""

    def broken(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    run = compiled(broken)
    with Session(count_calls=True) as session:
        run(torch.ones(3))
        with torch.compiler.set_stance("eager_on_recompile"):
            run(torch.ones(3))
            run(torch.ones(4))
    frames = session.record.frames
    assert [(f.calls, f.eager_calls) for f in frames] == [({"0/0": 2}, 1), ({"1/0": 2}, 0)]


def test_a_variant_of_another_backend_is_used_under_eager_on_recompile_as_without_peek():
    """torch compares no backends in that stance, and neither does it while somebody looks."""

    def other(gm, inputs):
        return gm.forward

    torch.compile(doubled, backend=other)(torch.ones(3))
    with Session() as session, torch.compiler.set_stance("eager_on_recompile"):
        compiled(doubled)(torch.ones(3))
    assert [f.eager_calls for f in session.record.frames] == []


def test_error_on_recompile_is_a_failure_with_the_guard():
    """The setting raises before a compile begins, where no hook is called; the metrics tell."""
    run = compiled(doubled)
    with Session() as session:
        run(torch.ones(3))
        with config.patch(error_on_recompile=True), pytest.raises(Exception, match="Recompiling function"):
            run(torch.ones(4))
    (frame,) = session.record.frames
    assert (frame.outcome, frame.reason.partition(": ")[2]) == ("failed", "x.shape[0]: expected 3, got 4")


def test_what_dynamo_raises_before_a_compile_begins_is_a_failure(monkeypatch):
    """DDP's optimizer refuses a bucket smaller than the first before it sees the frame: no hook tells, the report does."""
    monkeypatch.setattr(
        DistributedDataParallel, "_active_ddp_module", types.SimpleNamespace(bucket_bytes_cap=1)
    )
    with Session() as session, pytest.raises(AssertionError, match="First bucket"):
        compiled(doubled)(torch.ones(3))
    (frame,) = session.record.frames
    assert (frame.name, frame.outcome, frame.compile_ids) == ("doubled", "failed", ())
    assert frame.reason.startswith("AssertionError: First bucket should be smaller")
    assert frame.user.code == "compiled(doubled)(torch.ones(3))"
    assert "bucket_cap_mb=) of 1 or more" in frame.fix
    assert "Failed doubled: failed" in report(session) and stats(session.record).failed == 1
    assert "doubled (test_refusals.py" in session.record.notes[0]


def test_of_why_there_is_no_graph_the_error_comes_first():
    """A frame that failed is named before those that were left in eager, whichever Dynamo met first."""
    eager = FrameRecord("wrapper", "/src/ddp.py", 1, "skipped", "a break", compile_ids=("0/0",))
    failed = FrameRecord("Net.forward", "/src/bad.py", 5, "failed", "AssertionError: no")
    first, second = why_nothing([eager, failed], (), (), "")
    assert "Net.forward (bad.py:5) failed: AssertionError: no" in first and "wrapper" in second


def test_an_error_of_a_compile_is_told_once():
    """It leaves Dynamo by the same door: the frame has the compile's own words, and one failure is counted."""

    def failing(gm, inputs):
        raise ValueError("no such kernel")

    run = torch.compile(doubled, backend=failing)
    with Session() as session:
        for _ in range(2):
            with pytest.raises(Exception, match="no such kernel"):
                run(torch.ones(3))
    (frame,) = session.record.frames
    assert frame.reason == "BackendCompilerFailed: backend='failing' raised: ValueError: no such kernel"
    assert (stats(session.record).failed, session.record.problems) == (1, ())


@pytest.mark.skipif(not hasattr(torch._dynamo, "error_on_graph_break"), reason="torch has it from 2.9 on")
def test_a_break_that_the_program_made_an_error_ends_the_call():
    """``error_on_graph_break``: the frame failed, and was not left in eager."""
    with (
        Session() as session,
        torch._dynamo.error_on_graph_break(True),
        pytest.raises(Exception, match="break"),
    ):
        compiled(lambda x: torch._dynamo.graph_break())(torch.ones(2))
    assert [f.outcome for f in session.record.frames] == ["failed"]
    assert (stats(session.record).breaks, stats(session.record).skipped) == (1, 0)


def test_the_limit_under_fullgraph_is_an_error():
    """A refused attempt of a fullgraph function ends the call: failed, not "in eager since"."""
    with (
        Session() as session,
        config.patch(recompile_limit=2),
        pytest.raises(Exception, match=r"fullgraph|one_graph"),
    ):
        for number in range(3):
            compiled(Numbered(number), fullgraph=True)(torch.ones(2))
    (frame,) = session.record.frames
    assert frame.outcome == "failed" and frame.reason.endswith("fullgraph=True makes that an error")
    assert stats(session.record).given_up == 1
    assert "ends with an error" in report(session)


def test_the_refused_attempt_has_its_value_and_the_call():
    """What the guard got, the line that called, and, where calls are counted, the call's number."""
    with Session(count_calls=True) as session, config.patch(recompile_limit=2):
        for number in (0, 0, 1, 2, 3):
            compiled(Numbered(number))(torch.ones(2))
    (refused,) = [r for r in session.record.recompiles if r.refused]
    assert refused.failed[0].text == "self.number == 1, got 2"
    assert (refused.call, refused.user.code) == (4, "compiled(Numbered(number))(torch.ones(2))")
    assert "since call 4 at test_refusals.py" in report(session)


def test_a_refusal_is_told_where_the_warning_is_off(monkeypatch):
    """With torch's warning switched off the metrics still tell of the attempt, without the value."""
    monkeypatch.setattr(convert_frame.log, "disabled", True)
    with Session() as session, config.patch(recompile_limit=2):
        for number in range(4):
            compiled(Numbered(number))(torch.ones(2))
    (refused,) = [r for r in session.record.recompiles if r.refused]
    assert refused.failed[0].text == "self.number == 1"


WATCHED = (
    (eval_frame, "_callback_from_stance"),
    (convert_frame.CatchErrorsWrapper, "__call__"),
    (decorators, "_set_stance"),
    (eval_frame._NullDecorator, "__call__"),
    (eval_frame._TorchDynamoContext, "__call__"),
    (exc.Unsupported, "__init__"),
    (SpeculationEntry, "fail_and_restart_analysis"),
    (OutputGraph, "_call_user_compiler"),
)


def test_watching_leaves_torch_as_it_was():
    """Of two sessions the first opened may end first; with the last one torch's own functions and filters are back."""
    before = [getattr(owner, name) for owner, name in WATCHED]
    filters = list(convert_frame.log.filters)
    first, second = Session(), Session()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    watched = [getattr(owner, name) for owner, name in WATCHED]
    assert all(now is not was for now, was in zip(watched, before, strict=True))
    second.__exit__(None, None, None)
    assert [getattr(owner, name) for owner, name in WATCHED] == before
    assert convert_frame.log.filters == filters


def test_sessions_inside_one_another_are_told_the_same_refusals():
    """A call that a stance leaves in eager is told to the outer session and to the inner one."""
    run = compiled(doubled)
    with Session() as outer, Session() as inner:
        run(torch.ones(3))
        with torch.compiler.set_stance("eager_on_recompile"):
            run(torch.ones(4))
    assert [s.record.frames[0].eager_calls for s in (outer, inner)] == [1, 1]


# ---- frames that Dynamo refuses before it traces ---------------------------------------------------------------------


def test_a_compiled_generator_is_a_skipped_frame_with_torchs_reason():
    """One break that left a frame in eager: reason, id, hint and place; the call works."""

    def numbers(x):
        for i in range(3):
            yield x * i

    with Session() as session:
        assert len(list(compiled(numbers)(torch.ones(3)))) == 3
    record = session.record
    (frame,), (event,) = record.frames, record.breaks
    assert (frame.outcome, frame.reason) == ("skipped", "Attempt to trace generator")
    assert (event.id, event.split, event.frame, event.stack[-1].line) == ("GB0003", False, 0, frame.line)
    assert "non-generator Python function" in event.hints[0]
    assert (stats(record).breaks, stats(record).skipped) == (1, 1)
    assert "nothing was captured: " in record.notes[0] and "Attempt to trace generator" in record.notes[0]


def test_a_generator_under_fullgraph_is_an_error():
    """The call ends with torch's error: a failed frame, not one left in eager, and one break with its id."""

    def numbers(x):
        yield x

    with Session() as session, pytest.raises(Exception, match="Attempt to trace generator"):
        list(compiled(numbers, fullgraph=True)(torch.ones(3)))
    (frame,), (event,) = session.record.frames, session.record.breaks
    assert (frame.outcome, frame.reason) == ("failed", "Attempt to trace generator")
    assert (event.reason, event.split, event.stack[-1].line) == (frame.reason, False, frame.line)
    assert (stats(session.record).failed, stats(session.record).skipped) == (1, 0)


def test_a_generator_seen_before_the_session_is_not_told_again():
    """It was refused before anybody looked; torch does not look at it again."""

    def numbers(x):
        yield x

    run = compiled(numbers)
    list(run(torch.ones(2)))
    with Session() as session:
        list(run(torch.ones(2)))
    assert session.record.breaks == ()


def test_a_generator_inside_a_compiled_function_is_traced():
    """Dynamo inlines a generator that compiled code uses up: no break, all in one graph."""

    def numbers(x):
        yield x
        yield x * 2

    with Session() as session:
        compiled(lambda x: sum(numbers(x)))(torch.ones(2))
    assert (stats(session.record).breaks, stats(session.record).graphs) == (0, 1)


def test_a_generator_expression_of_an_eager_frame_is_no_break_of_its_own():
    """The frame was left in eager by one break; what it runs then reaches Dynamo, which refuses it, and that is no news."""

    def looping(x):
        for _ in range(2):
            torch._dynamo.graph_break()
            x = sum(y * 2 for y in [x, x])
        return x

    with Session() as session:
        compiled(looping)(torch.ones(2))
    assert [f.name for f in session.record.frames] == ["looping"]
    assert stats(session.record).breaks == 1


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch says so from 2.13 on")
def test_dynamo_switched_off_is_the_reason():
    """torch._dynamo.config.disable: the frame is left in eager, by no break."""
    with Session() as session, config.patch(disable=True):
        compiled(doubled)(torch.ones(2))
    assert "Dynamo tracing is disabled" in session.record.notes[0]
    assert (stats(session.record).breaks, stats(session.record).skipped) == (0, 0)


# ---- code that was dropped -------------------------------------------------------------------------------------------


def test_what_is_compiled_anew_after_a_reset_is_no_recompile():
    """Three compiles of one function, two of them after a reset: no recompile, and the report says why."""
    run = compiled(doubled)
    with Session() as session:
        for _ in range(3):
            run(torch.ones(3))
            torch._dynamo.reset()
    (frame,) = session.record.frames
    assert (frame.resets, len(session.record.graphs)) == (2, 3)
    assert stats(session.record).recompiles == 0
    assert "Compiled anew after a reset doubled: compiled code dropped 2 times" in report(session)
    assert "compiled, 1 op " in report(session, "frames")


def test_a_recompile_after_a_reset_counts_from_one_again():
    """The second variant after the reset is variant 2, and names the size that the first one after it had."""
    run = compiled(doubled)
    with Session() as session:
        run(torch.ones(3))
        torch._dynamo.reset()
        run(torch.ones(4))
        run(torch.ones(5))
    (recompile,) = session.record.recompiles
    assert (recompile.variant, recompile.failed[0].text) == (2, "x.shape[0]: expected 4, got 5")


# ---- every cached variant explains a recompile -----------------------------------------------------------------------


def test_the_guard_of_an_older_variant_is_the_headline_where_it_explains():
    """The newest variant fails on requires_grad, which an older one has; that one fails on the size, which none has."""
    run = compiled(lambda x: (x * 2).sum())
    with Session() as session:
        run(torch.ones(2, 4, requires_grad=True))
        run(torch.ones(2, 4))
        run(torch.ones(3, 4, requires_grad=True))
    last = session.record.recompiles[-1]
    assert [g.text for g in last.failed] == [
        "x.shape[0]: expected 2, got 3",
        "x.requires_grad: expected False, got True",
    ]
    assert last.advice.startswith("torch._dynamo.mark_dynamic(x, 0)")
    assert last.changed[0] == f"x.shape[0]: 2 became {session.record.graphs[-1].symbols[0].name} (any size)"
    told = report(session)
    assert "#3 x.shape[0]: expected 2, got 3" in told and "seen: x.shape[0] = 2, 3" in told
    assert "nor 0/1: x.requires_grad: expected False, got True" in told


def test_sessions_in_two_threads_see_the_same_compiles():
    """A session is the process's: what one thread compiles while both are open is in both."""
    opened, done, records = threading.Barrier(3), threading.Barrier(3), {}

    def watch(name, fn):
        with Session() as session:
            opened.wait()
            compiled(fn)(torch.ones(2))
            done.wait()
        records[name] = session.record

    threads = [
        threading.Thread(target=watch, args=("a", lambda x: x + 1)),
        threading.Thread(target=watch, args=("b", lambda x: x * 2)),
    ]
    for thread in threads:
        thread.start()
    opened.wait()
    done.wait()
    for thread in threads:
        thread.join()
    assert [len(records[name].graphs) for name in "ab"] == [2, 2]
    assert {g.nodes[1].target for g in records["a"].graphs} == {
        g.nodes[1].target for g in records["b"].graphs
    }


def test_keys_of_a_dict_and_classes_are_told_in_words():
    """No name of Dynamo's own and no address, in guards and in what failed; the advice is about the keys."""

    def fn(x, config):
        return x + config["bias"] if "bias" in config else x * 2

    run = compiled(fn)
    with Session() as session:
        run(torch.ones(3), {"bias": 1})
        run(torch.ones(3), {"scale": 1})
    (recompile,) = session.record.recompiles
    assert recompile.failed[0].text == "'bias' in config: expected True, got False"
    assert recompile.advice == "pass dicts with the same keys each time"
    texts = [g.text for graph in session.record.graphs for g in graph.guards]
    assert "'bias' in config" in texts and "'bias' not in config" in texts
    assert any("type is dict" in text for text in texts)
    assert not any("___" in text for text in texts)
    assert "'bias' in config: expected True" in report(session, "config")


class Child(torch.nn.Module):
    def forward(self, x):
        x = x + 1
        torch._dynamo.graph_break()
        return x


class Parent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.children_of_it = torch.nn.ModuleList([Child(), Child()])

    def forward(self, x):
        for child in self.children_of_it:
            x = child(x)
        return x


def test_the_loop_is_that_of_the_frame_left_in_eager():
    """Both functions are called forward: the loop is the outer one's, and the inner one is compiled on its own."""
    with Session() as session:
        compiled(Parent())(torch.ones(2))
    first = session.record.breaks[0]
    assert (session.record.frames[first.frame].name, first.block) == ("Parent.forward", "loop")
    assert {f.name: f.outcome for f in session.record.frames}["Child.forward"] == "broken"
