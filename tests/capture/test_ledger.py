"""The frame ledger: what became of each frame, told in records, without a trace in torch or in the program."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import torch
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.callback import callback_handler
from torch._dynamo.output_graph import OutputGraph

from peek_backend.analysis.stats import stats
from peek_backend.capture import compat, ledger
from peek_backend.capture.session import Session
from peek_backend.capture.tracelog import TraceLog
from peek_backend.model import Fact, SymbolInfo
from tests.builders import graph


def compiled(fn, **options):
    return torch.compile(fn, backend="eager", **options)


def broken(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


def test_resume_frames_are_chained_under_the_frame_they_continue():
    """``f ▸ resume#2`` continues f, comes after resume#1, and the graphs go by the frames' names."""

    def twice(x):
        x = x + 1
        torch._dynamo.graph_break()
        x = x * 2
        torch._dynamo.graph_break()
        return x - 3

    with Session() as session:
        compiled(twice)(torch.ones(3))
    record = session.record
    assert [f.name for f in record.frames] == ["twice", "twice ▸ resume#1", "twice ▸ resume#2"]
    assert [(f.resume_of, f.resume) for f in record.frames] == [(None, 0), (0, 1), (0, 2)]
    assert [f.outcome for f in record.frames] == ["broken", "broken", "compiled"]
    assert [g.name for g in record.graphs] == [f.name for f in record.frames]
    assert [b.compile_id for b in record.breaks] == [g.compile_id for g in record.graphs][:2]


def test_a_break_in_a_loop_leaves_the_frame_in_eager():
    """One break, no graph, the frame skipped: ``split`` is False and it counts as skipped."""

    def loop(x):
        for _ in range(3):
            x = x + 1
            torch._dynamo.graph_break()
        return x

    with Session() as session:
        assert torch.equal(compiled(loop)(torch.ones(2)), torch.full((2,), 4.0))
    record = session.record
    assert (record.frames[0].outcome, record.breaks[0].split, record.breaks[0].compile_id) == (
        "skipped",
        False,
        None,
    )
    assert (stats(record).breaks, stats(record).skipped, stats(record).graphs) == (1, 1, 0)
    assert any("nothing was captured: loop" in note for note in record.notes)


def test_intents_tell_who_asked_for_a_break():
    """``graph_break()`` and ``torch.compiler.disable`` are the user's; print is not supported."""

    @torch.compiler.disable
    def outside(x):
        return x

    def f(x):
        x = outside(x + 1)
        print("x", end="")
        return x + 2

    with Session() as session:
        compiled(f)(torch.ones(2))
    assert [b.intent for b in session.record.breaks] == ["user", "unsupported"]
    assert stats(session.record).requested_breaks == 1


def test_a_recompile_says_which_guard_failed_and_what_it_got():
    """Size, Python value, dtype and requires_grad are told with expected and got; what no variant had stands first."""

    def f(x, k):
        return x * k

    run = compiled(f, dynamic=False)
    with Session() as session:
        run(torch.ones(4), 1)
        run(torch.ones(6), 1)
        run(torch.ones(6), 2)
        run(torch.ones(6, dtype=torch.float64), 2)
        run(torch.ones(6, requires_grad=True), 2)
    first = [r.failed[0] for r in session.record.recompiles]
    assert [g.text for g in first] == [
        "x.shape[0]: expected 4, got 6",
        "k == 1, got 2",
        "x.dtype: expected float32, got float64",
        "x.requires_grad: expected False, got True",
    ]
    assert [r.variant for r in session.record.recompiles] == [2, 3, 4, 5]
    assert all(r.advice for r in session.record.recompiles)
    others = [g.text for g in session.record.recompiles[-1].failed[1:]]
    assert "x.dtype: expected float64, got float32" in others


def test_the_refused_attempt_is_no_recompile():
    """At the limit the frame is given up: counted once, not as a recompile, and the advice names the limit."""

    def f(x, k):
        return x + k

    run = compiled(f)
    with torch._dynamo.config.patch(recompile_limit=2), Session() as session:
        for k in ("a", "b", "c", "d"):
            run(torch.ones(2), len(k) if k == "a" else float(ord(k)))
            run(torch.ones(2, 3)[None].expand(ord(k) - 90, 2, 3), 1)
    record = session.record
    assert record.frames[0].outcome == "limit"
    counts = stats(record)
    assert (counts.given_up, counts.recompiles) == (1, 1)
    refused = next(r for r in record.recompiles if r.refused)
    assert refused.failed and "recompile_limit" in refused.advice


def test_an_inner_backend_that_raises_leaves_its_graph_marked():
    """The exception passes unchanged; the graph is recorded and marked as never run, the frame as failed."""

    def refusing(gm, inputs):
        raise ValueError("no kernel for this")

    with (
        Session() as session,
        pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="no kernel for this"),
    ):
        torch.compile(broken, backend=refusing)(torch.ones(2))
    record = session.record
    assert record.frames[0].outcome == "failed"
    assert record.graphs[0].never_ran is not None and "no kernel for this" in record.frames[0].reason
    assert stats(record).never_ran == 1


def test_a_session_inside_an_except_block_takes_no_foreign_error():
    """The exception that the program is handling meanwhile is not the compile's."""
    with Session() as session:
        try:
            raise KeyError("the program's own")
        except KeyError:
            compiled(broken)(torch.ones(2))
    assert [f.outcome for f in session.record.frames] == ["broken", "compiled"]


def test_a_mistake_in_the_ledger_never_reaches_the_program(monkeypatch):
    """Every hook may fail: the program's result is right, and the record has a Problem for it."""
    for name in ("read_guards", "read_failed", "read_break", "what_changed"):
        torch._dynamo.reset()
        with monkeypatch.context() as patched, Session() as session:
            patched.setattr(ledger, name, lambda *a, **k: 1 / 0)
            run = compiled(broken)
            assert torch.equal(run(torch.ones(2)), torch.full((2,), 4.0))
            assert torch.equal(run(torch.ones(3, 3)), torch.full((3, 3), 4.0))
        assert any("division by zero" in p.why for p in session.record.problems), name


def test_a_sink_that_raises_is_a_problem():
    """A full disk ends no compile."""

    def sink(item):
        raise OSError("No space left on device")

    with Session(sink) as session:
        compiled(broken)(torch.ones(2))
    assert len(session.record.frames) == 2
    assert any("No space left" in p.why for p in session.record.problems)


def test_what_the_sink_and_patches_say_adds_up_to_the_record():
    """A journal of a killed program has every record that was finished: sent items and patches give the same frames."""
    sent, patches = [], []
    with Session(sent.append, patch=lambda kind, index, **f: patches.append((kind, index, f))) as session:
        compiled(broken)(torch.ones(2))
        compiled(broken)(torch.ones(3))
    record = session.record
    kinds = [type(item).__name__ for item in sent]
    assert kinds.count("FrameRecord") == len(record.frames)
    assert kinds.count("BreakInfo") == len(record.breaks)
    assert kinds.count("RecompileInfo") == len(record.recompiles)
    last = {}
    for kind, index, fields in patches:
        last.setdefault((kind, index), {}).update(fields)
    assert last["frame", 0]["outcome"] == record.frames[0].outcome == "broken"
    assert last["graph", 0]["ended_by"] == record.graphs[0].ended_by


def test_a_reset_in_between_keeps_what_was_seen():
    """``torch._dynamo.reset()`` drops the callbacks and starts the compile ids again; both compiles are in the record."""
    with Session() as session:
        compiled(broken)(torch.ones(2))
        torch._dynamo.reset()
        compiled(lambda x: x - 1)(torch.ones(2))
        compiled(broken)(torch.ones(2))
    record = session.record
    assert stats(record).breaks == 2
    assert [g.compile_id for g in record.graphs].count("0/0") == 2
    names = [record.frames[g.frame].name for g in record.graphs]
    assert names[2] == "<lambda>" and names[3] == "broken"


def test_closing_leaves_torch_as_it_was():
    """No hook, callback, wrapper or setting stays behind, whether a reset came in between or not."""
    from torch._dynamo.convert_frame import _bytecode_hooks

    state = lambda: (  # noqa: E731 - compared three times
        list(callback_handler.start_callbacks),
        list(callback_handler.end_callbacks),
        list(_bytecode_hooks),
        dynamo_utils._compilation_metrics.maxlen,
        OutputGraph._call_user_compiler,
        getattr(torch._dynamo.eval_frame.dynamo_tls, "skip_reasons", None),
    )
    before = state()
    with Session(count_calls=True, trace=True), Session():
        compiled(broken)(torch.ones(2))
        torch._dynamo.reset()
        compiled(broken)(torch.ones(2))
    assert state() == before


def test_nested_sessions_see_the_same():
    """Two open sessions have equal breaks and frames; the inner one closes without taking the outer's hooks."""
    with Session() as outer:
        with Session() as inner:
            compiled(broken)(torch.ones(2))
        compiled(lambda x: x + 5)(torch.ones(2))
    assert inner.record.breaks == outer.record.breaks
    assert len(outer.record.frames) == len(inner.record.frames) + 1


def test_compiles_in_several_threads():
    """Breaks and recompiles stay with the frame of their own thread's function."""

    def make(n):
        def part(x):
            for _ in range(n):
                x = x + 1
            torch._dynamo.graph_break()
            return x * n

        part.__code__ = part.__code__.replace(co_name=f"part_{n}", co_qualname=f"part_{n}")
        return part

    def work(n):
        run = compiled(make(n))  # no dynamic=False: torch 2.8 leaves it in force when threads meet in it
        run(torch.ones(2))
        run(torch.ones(3))

    with Session() as session:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    record = session.record
    assert record.problems == ()
    for n in range(1, 7):
        index = next(i for i, f in enumerate(record.frames) if f.name == f"part_{n}")
        ops = [sum(node.op == "call_function" for node in g.nodes) for g in record.graphs if g.frame == index]
        assert ops == [n, n]
        assert sum(b.frame == index for b in record.breaks) == 2
        assert sum(r.frame == index for r in record.recompiles) == 1


def test_calls_are_counted_for_each_variant():
    """``count_calls`` says which variant ran how often; without it nothing is counted and nothing stands in the way."""

    def f(x):
        return x + x.shape[0]

    sizes = (4, 4, 6, 6, 6, 4)
    for counting in (True, False):
        torch._dynamo.reset()
        with Session(count_calls=counting) as session:
            run = compiled(f, dynamic=False)
            for size in sizes:
                run(torch.ones(size))
        assert session.record.frames[0].calls == ({"0/0": 3, "0/1": 3} if counting else {})


def test_variants_without_a_graph_are_counted_too():
    """A frame that breaks before its first op has code but no graph: its calls count, and those of what comes after."""

    def f(x):
        torch._dynamo.graph_break()
        return x + 1

    with Session(count_calls=True) as session:
        run = compiled(f)
        results = [run(torch.ones(2)) for _ in range(3)]
        counted = [frame.calls for frame in session.record.frames]
    assert counted == [{"0/0": 3}, {"1/0": 3}]
    assert all(torch.equal(r, torch.full((2,), 2.0)) for r in results)


def test_functions_compiled_before_are_named_with_their_guards():
    """What was compiled earlier is no frame of the session, but is named, with the guards that can still be read."""

    def early(x, k):
        return x + k

    run = compiled(early)
    run(torch.ones(4), 3)
    with Session() as session:
        run(torch.ones(4), 3)
    record = session.record
    assert record.frames == () and record.graphs == ()
    found = next(e for e in record.earlier if e.name == "early")
    assert any("k == 3" in guard for guard in found.variants["0/0"])
    assert any("compiled before the capture began" in note and "early" in note for note in record.notes)


def test_a_recompile_of_a_function_compiled_before_counts_its_variants():
    """Its first compile in the session is variant 2: the code object was compiled once already."""

    def early(x):
        return x + 1

    run = compiled(early, dynamic=False)
    run(torch.ones(4))
    with Session() as session:
        run(torch.ones(5))
    assert [(r.variant, r.failed[0].text) for r in session.record.recompiles] == [
        (2, "x.shape[0]: expected 4, got 5")
    ]


def _never(session):
    return session.record.notes


def _no_tensor(session):
    compiled(lambda n: n + 1)(1)
    return session.record.notes


def _with_stance(session):
    torch.compiler.set_stance("force_eager")
    try:
        compiled(broken)(torch.ones(2))
        return session.record.notes
    finally:
        torch.compiler.set_stance("default")


def _sequential(session):
    if not hasattr(torch._dynamo.eval_frame.dynamo_tls, "skip_reasons"):
        pytest.skip("this torch tells nobody which frames it declined")

    class Skipped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.ReLU())

        @torch._dynamo.disable(recursive=False)
        def forward(self, x):
            return self.inner(x)

    compiled(Skipped())(torch.ones(2))
    return session.record.notes


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (_never, "no compiled function was called"),
        (_no_tensor, "no tensor"),
        (_with_stance, "force_eager"),
        (_sequential, "forward"),
    ],
)
def test_nothing_captured_comes_with_its_reason(prepare, words):
    """Never called, no tensor, a stance, torch's own skip list: each is said."""
    with Session() as session:
        notes = prepare(session)
    assert any(words in note for note in notes), notes


def test_looking_at_values_runs_no_code_of_the_user():
    """What a failed guard got is read without calling the argument's attributes, length or equality."""

    class Loud:
        def __init__(self, size):
            self.size = size
            self.calls = 0

        def __getattr__(self, name):
            object.__setattr__(self, "calls", self.__dict__["calls"] + 1)
            raise AttributeError(name)

    def f(x, options):
        return x + options.size

    run = compiled(f)
    plain, watched = Loud(1), Loud(2)
    run(torch.ones(2), plain)
    calls = watched.calls
    with Session() as session:
        run(torch.ones(2), watched)
    assert session.record.recompiles[0].failed[0].text == "options.size == 1, got 2"
    assert watched.calls - calls <= plain.calls


def test_symbols_carry_the_lines_that_narrowed_them():
    """A comparison in the program, an op that needs equal sizes and a check are facts with the user's line."""

    def f(x, y):
        if x.shape[0] > 3:
            x = x + 1
        torch._check(y.shape[0] < 100)
        return x.sum() + torch.cat([y, torch.ones(2, 7)]).sum()

    x, y = torch.ones(5), torch.ones(6, 7)
    torch._dynamo.maybe_mark_dynamic(y, 1)
    with Session() as session:
        compiled(f, dynamic=True)(x, y)
    graph = session.record.graphs[0]
    facts = {f.text.partition(" (")[0]: f for s in graph.symbols for f in s.facts}
    by_source = {s.sources[0]: s for s in graph.symbols}
    assert by_source["x.shape[0]"].lower == 4
    assert any("if x.shape[0] > 3" in (f.user.code if f.user else "") for f in facts.values())
    static = by_source["y.shape[1]"]
    assert static.replaced_by == "7" and any("cat" in f.text for f in static.facts)
    assert graph.marks == {"y.shape[1]": "maybe dynamic"}
    assert graph.state["dynamic"] == "on"


def test_the_trace_says_the_same_and_is_taken_away():
    """The opt-in trace adds facts and no count; its handler is gone afterwards."""
    import logging

    def f(x):
        return x + torch.ones(4)

    records = []
    for trace in (False, True):
        torch._dynamo.reset()
        x = torch.ones(4)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        with Session(trace=trace) as session:
            compiled(f)(x)
        records.append(session.record)
    assert stats(records[0]) == stats(records[1])
    kinds = [[f.kind for s in r.graphs[0].symbols for f in s.facts] for r in records]
    assert "specialised" in kinds[0] and "specialised" in kinds[1]
    assert not any("peek" in type(h).__module__ for h in logging.getLogger("torch.__trace").handlers)


@pytest.mark.parametrize(("compile_id", "more"), [("1/0", {}), ("!0/1/0", {"compiled_autograd_id": 0})])
def test_a_fact_of_the_trace_belongs_to_its_compile(compile_id, more):
    """A symbol that the trace tells of is that of the graph with this id, compiled autograd's too."""
    log = TraceLog()
    said = {"symbol": "s0", "value": "4", "reason": "asked for", "user_stack": []}
    metadata = {"frame_id": 1, "frame_compile_id": 0, "symbolic_shape_specialization": said, **more}
    log.take(SimpleNamespace(metadata=metadata))
    graphs = [graph(compile_id=i, symbols=(SymbolInfo("s0"),)) for i in (compile_id, "0/0")]
    facts = [[f.text for s in g.symbols for f in s.facts] for g in log.added_to(graphs)]
    assert facts == [["s0 == 4: asked for"], []]


def test_the_trace_takes_nothing_from_a_fact_that_is_known():
    """A symbol's own fact keeps its words, which name the op that asked; only the line is the trace's, where it has none."""
    log = TraceLog()
    stack = [{"line": 7, "name": "f", "filename": "model.py", "loc": "x + y"}]
    said = {"symbol": "s0", "value": "4", "reason": "range_refined_to_singleton", "user_stack": stack}
    log.take(
        SimpleNamespace(
            metadata={"frame_id": 0, "frame_compile_id": 0, "symbolic_shape_specialization": said}
        )
    )
    known = Fact("specialised", "s0 == 4 (asked by infer_size)")
    (told,) = log.added_to([graph(compile_id="0/0", symbols=(SymbolInfo("s0", facts=(known,)),))])
    (fact,) = told.symbols[0].facts
    assert (fact.text, fact.user.line) == (known.text, 7)


def test_every_kind_of_fact_has_a_source():
    """The environment says which part of torch each kind of fact was read from."""
    record = Session(trace=True).record
    assert set(record.environment.sources) >= {"graphs", "breaks", "recompiles", "guards", "symbols", "times"}
    assert "specialisations" in record.environment.sources


def test_times_are_by_phase():
    """Each compile has its seconds; the phases but codegen add up to the total."""
    with Session() as session:
        compiled(broken)(torch.ones(2))
    for frame in session.record.frames:
        for phases in frame.phases.values():
            seconds = {p.name: p.seconds for p in phases}
            assert seconds["total"] > 0
            parts = sum(seconds.get(n, 0) for n in ("dynamo", "aot", "inductor"))
            assert parts == pytest.approx(seconds["total"], abs=1e-4)


def test_more_compiles_than_torch_keeps_by_itself():
    """torch keeps the metrics of 64 compiles; a session has the time of each of 80."""
    code = broken.__code__
    with Session() as session:
        for i in range(40):
            one = type(broken)(code.replace(co_name=f"one_{i}"), globals(), f"one_{i}")
            compiled(one)(torch.ones(2))
    assert len(session.record.frames) == 80
    assert all(frame.phases for frame in session.record.frames)


def test_compat_finds_the_frame_being_compiled_only_while_one_is():
    """Outside of a compile there is none."""
    assert compat.compiling() is None


def test_reset_inside_a_session_hides_nothing():
    """A frame left in eager after torch._dynamo.reset() is counted as before it; closed sessions leave torch's handler alone."""

    def loop(x):
        for _ in range(2):
            x = x + 1
            print(end="")
        return x

    with Session() as outer, Session() as session:
        torch._dynamo.reset()
        torch.compile(loop, backend="eager")(torch.ones(3))
    for record in (outer.record, session.record):
        assert (stats(record).breaks, stats(record).skipped) == (1, 1)
        assert record.frames[0].outcome == "skipped"
    assert "clear" not in vars(callback_handler)
    assert not callback_handler.start_callbacks


def test_stance_of_a_block_that_is_over_is_told():
    """force_eager for one call is the reason that nothing was captured, or a note beside what was."""
    compiled = torch.compile(lambda x: x.sin(), backend="eager")
    with Session() as session, torch.compiler.set_stance("force_eager"):
        compiled(torch.ones(3))
    (note,) = session.record.notes
    assert "force_eager" in note and "was for a time in force" in note
    with Session() as session:
        compiled(torch.ones(3))
        with torch.compiler.set_stance("force_eager"):
            compiled(torch.ones(4))
    (note,) = session.record.notes
    assert "force_eager" in note and len(session.record.graphs) == 1
