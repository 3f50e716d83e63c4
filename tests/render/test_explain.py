"""The report and its topics, on records made by hand."""

from __future__ import annotations

import msgspec
import pytest

from peek_backend.analysis.advice import rewrites
from peek_backend.analysis.breaks import ranked
from peek_backend.analysis.story import stories
from peek_backend.analysis.times import recompile_share, spent
from peek_backend.analysis.why import why
from peek_backend.capture.changes import Retry, advice, what_changed
from peek_backend.errors import PeekError
from peek_backend.model import (
    BreakInfo,
    EarlierFrame,
    Fact,
    FailedGuard,
    FrameRecord,
    GuardInfo,
    Phase,
    RecompileInfo,
    StackFrame,
)
from peek_backend.render.explain import TOPICS, explain_text
from tests.builders import HOSTILE, GraphBuilder, capture, symbol, tensor

LINE = StackFrame("/src/model.py", 31, "forward", "print(x.shape)")


def graph(name, compile_id, frame, ops=2, **more):
    """A graph of a chain of ``ops`` ops on ``x``."""
    g = GraphBuilder(name)
    x = g.input("x", more.pop("value", tensor(4, 8)))
    for _ in range(ops):
        x = g.call("torch.relu", x, value=tensor(4, 8))
    g.output(x)
    return g.graph(compile_id=compile_id, frame=frame, **more)


def broken(**more):
    """A frame that broke twice at one line and once at another, went on, and was compiled again."""
    first = BreakInfo(
        "Failed to trace builtin operator", id="GB0059", stack=(LINE,), compile_id="0/0", frame=0
    )
    user = BreakInfo(
        "Call to `torch._dynamo.graph_break()`",
        stack=(StackFrame("/src/model.py", 40, "forward", "graph_break()"),),
        intent="user",
        compile_id="1/0",
        frame=1,
    )
    frames = (
        FrameRecord("Model.forward", "/src/model.py", 20, "broken", compile_ids=("0/0", "0/1")),
        FrameRecord("Model.forward ▸ resume#1", "/src/model.py", 31, "broken", "", ("1/0",), 0, 1),
        FrameRecord(
            "Model.forward ▸ resume#2", "/src/model.py", 40, compile_ids=("2/0",), resume_of=0, resume=2
        ),
    )
    graphs = (
        graph("Model.forward", "0/0", 0, 3),
        graph("Model.forward ▸ resume#1", "1/0", 1, 5),
        graph("Model.forward ▸ resume#2", "2/0", 2, 7),
    )
    failed = FailedGuard("x.shape[0]: expected 4, got 6", "x.shape[0]", "4", "6", variant="0/0")
    recompiles = (
        RecompileInfo("0/1", 0, 2, (failed,), ("x.shape[0]: 4 became s0",), advice(Retry((failed,)))),
    )
    fields = {"frames": frames, "breaks": (first, user, first), "recompiles": recompiles}
    return capture(*graphs, **(fields | more))


def test_breaks_are_ranked_by_occurrences_times_ops_after():
    """Two events with 12 ops after them come before one with 7; each place once."""
    rows = ranked(broken())
    assert [(r.reason[:6], len(r.events), r.ops_after, r.weight) for r in rows] == [
        ("Failed", 2, 12, 24),
        ("Call t", 1, 7, 7),
    ]


def test_ops_after_a_skipped_frame_are_those_of_what_it_calls():
    """A frame left in eager has no graph; what its callees captured is what a mended break would join."""
    caller = StackFrame("/src/model.py", 22, "forward", "self.layer(x)")
    frames = (
        FrameRecord("Model.forward", "/src/model.py", 20, "skipped"),
        FrameRecord("Layer.forward", "/src/layer.py", 5, compile_ids=("1/0",), callers=(caller,)),
        FrameRecord("other", "/src/else.py", 5, compile_ids=("2/0",)),
    )
    event = BreakInfo("Call to `torch._dynamo.graph_break()`", stack=(LINE,), frame=0, split=False)
    record = capture(graph("L", "1/0", 1, 4), graph("o", "2/0", 2, 9), frames=frames, breaks=(event,))
    assert ranked(record)[0].ops_after == 4


def test_a_recompile_adds_no_ops_after():
    """Variants of one frame are one piece of work: the largest counts."""
    record = broken()
    again = graph("Model.forward ▸ resume#2", "2/1", 2, 6)
    assert ranked(msgspec.structs.replace(record, graphs=(*record.graphs, again)))[0].ops_after == 12


def test_the_report_says_the_sum_first_then_what_to_mend():
    """Summary, breaks by rank, recompiles, in this order; each with place, code and advice."""
    text = explain_text(broken(), width=80)
    places = [
        text.index(words)
        for words in ("3 graphs, 15 ops", "Breaks, the first", "Recompiles", "more: peek explain")
    ]
    assert places == sorted(places)
    assert "model.py:31  print(x.shape)" in text
    assert "2 times; 12 ops after it" in text
    assert "reorderable_logging_functions" in text
    assert "asked for: Call to torch._dynamo.graph_break()" in text
    assert "#2  x.shape[0]: expected 4, got 6" in text
    assert "mark_dynamic(x, 0)" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    "topic", [*TOPICS, "break 1", "GB0059", "model.py:31", "Model.forward", "0/1", "x.shape[0]", "x"]
)
def test_every_topic_has_an_answer(topic):
    """Sections, breaks by rank, id and place, frames by name and compile id, sizes and tensors."""
    assert explain_text(broken(), topic, width=80).strip()


@pytest.mark.parametrize(
    ("topic", "near"), [("recompile", "recompiles"), ("Model.foward", "Model.forward"), ("break 9", "break")]
)
def test_an_unknown_topic_names_the_nearest(topic, near):
    """A slip of the pen is answered with what was meant, and with what there is."""
    with pytest.raises(PeekError) as told:
        explain_text(broken(), topic)
    assert near in told.value.fix and "frames" in told.value.fix


def test_an_empty_capture_says_why():
    """The notes of a session that captured nothing are reasons under one head."""
    record = capture(notes=("nothing was captured: no compiled function was called",))
    text = explain_text(record)
    assert "Nothing was captured" in text and "· no compiled function was called" in text


def test_a_given_up_frame_says_what_happens_since():
    """After the limit: how many variants there are, the refused attempt, and that other calls run in eager."""
    refused = RecompileInfo(
        "0/2", 0, 3, (FailedGuard("k == 2", "k", "2"),), refused=True, advice="raise the limit"
    )
    frames = (FrameRecord("f", "/src/f.py", 1, "limit", "the recompile limit", ("0/0", "0/1")),)
    failed = FailedGuard("k == 1, got 2", "k", "1", "2")
    again = RecompileInfo("0/1", 0, 2, (failed,))
    record = capture(graph("f", "0/0", 0), graph("f", "0/1", 0), frames=frames, recompiles=(again, refused))
    text = explain_text(record, width=80)
    assert "f: 2 variants" in text
    assert "refused  k == 2" in text
    assert "a call that fits none of the 2 variants runs in eager" in text
    assert stories(record)[0].seen[0].values == ("1", "2")


def test_a_failed_frame_shows_its_line_and_its_fix():
    """The error, the user's line, that the graph never ran, and a stub with its lines as they are."""
    frame = FrameRecord(
        "f", "/src/f.py", 1, "failed", "TorchRuntimeError: no fake", ("0/0",), fix="op()\nline one\n    two"
    )
    frame = msgspec.structs.replace(frame, user=StackFrame("/src/f.py", 3, "f", "z = op(y)"))
    text = explain_text(capture(graph("f", "0/0", 0, never_ran="it failed"), frames=(frame,)), width=80)
    assert "z = op(y)" in text and "f.py:3" in text
    assert "never ran" in text
    assert "\n     line one\n         two" in text


def test_functions_compiled_before_are_told():
    """They stand under a head of their own, with how many variants they have."""
    earlier = EarlierFrame("early", "/src/e.py", 4, {"0/0": ("k == 3",), "0/1": ()})
    assert "early: 2 variants" in explain_text(capture(earlier=(earlier,)))


def test_hostile_texts_stay_on_their_line():
    """Control characters, newlines and escapes of names and messages are spelled; nothing else breaks a line."""
    for name, text in HOSTILE.items():
        if name == "long":
            continue
        line = StackFrame(f"/src/{text}.py".replace("\0", ""), 3, text, "code")
        event = BreakInfo(text, text, (text,), stack=(line,), frame=0)
        frames = (FrameRecord(text, "/src/f.py", 1, "broken", text, ("0/0",)),)
        found = FailedGuard(text, text, text, text, line)
        record = capture(
            graph(text, "0/0", 0),
            frames=frames,
            breaks=(event,),
            recompiles=(RecompileInfo("0/0", 0, 2, (found,), (text,), text),),
        )
        for topic in (None, *TOPICS):
            out = explain_text(record, topic, width=80)
            assert not any(c in out for c in "\x1b\x07\x00\r\x9b\u202e\u2028\x85"), (name, topic)


def test_colour_only_where_asked():
    """Without colour there is no escape; with it the same words stand between escapes."""
    import re

    plain, coloured = explain_text(broken(), width=80), explain_text(broken(), width=80, color=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain


def test_ambient_guards_are_one_line():
    """What belongs to the process stands together; the others are told by source, the costly first."""
    guards = (
        GuardInfo("EQUALS_MATCH", "k == 3", "k", LINE),
        GuardInfo("TENSOR_MATCH", "float32 [4]", "x"),
        GuardInfo("GRAD_MODE", "grad mode", ambient=True),
        GuardInfo("DEFAULT_DEVICE", "default device", ambient=True),
    )
    text = explain_text(capture(graph("f", "0/0", None, guards=guards)), "guards", width=80)
    assert text.index("x: float32 [4]") < text.index("k == 3")
    assert text.count("of the process: grad mode, default device") == 1
    by_line = explain_text(capture(graph("f", "0/0", None, guards=guards)), "guards by line", width=80)
    assert (
        by_line.index("print(x.shape)") < by_line.index("k == 3") < by_line.index("of no line of the program")
    )


# --- why ---


def only(graph_, target):
    rows = why(capture(graph_), target)
    assert len(rows) == 1
    return rows[0]


def asked(kind, text, code, **more):
    """The symbol of a size of 5, of which ``code`` asked what ``text`` says."""
    cause = Fact(kind, text, StackFrame("/src/m.py", 7, "f", code))
    return symbol("s0", "x.shape[0]", hint=5, facts=(cause,), **more)


def test_why_an_unmarked_size_is_static():
    """No symbol was made for it: torch takes sizes as constants; the change is to mark it."""
    row = only(graph("f", "0/0", None), "x.shape[1]")
    assert row.static and row.chain[0].kind == "unmarked" and "mark_dynamic(x, 1)" in row.change


def test_why_sizes_0_and_1_are_static():
    """They are compiled on their own, whatever is marked."""
    assert only(graph("f", "0/0", None, value=tensor(1, 8)), "x.shape[0]").chain[0].kind == "zero_one"


def test_why_a_parameters_size_is_static():
    """Parameters keep their sizes: no mark would help, a setting would."""
    g = GraphBuilder("f")
    g.output(g.parameter("fc.weight", tensor(8, 4)))
    row = only(g.graph(), "fc.weight.shape[0]")
    assert row.chain[0].kind == "parameter" and "force_parameter_static_shapes" in row.change


def test_why_with_dynamic_false_and_with_mark_static():
    """Both were asked for, and the answer says by whom."""
    off = graph("f", "0/0", None, state={"dynamic": "off"})
    assert only(off, "x.shape[0]").chain[0].kind == "off"
    marked = graph("f", "0/0", None, marks={"x.shape[0]": "static"})
    assert "mark_static" in only(marked, "x.shape[0]").change


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        ("if x.size(0) == 5:", "s0 == 5", "drop the comparison"),
        ("n = int(x.size(0))", "s0 == 5", "without int()"),
        ("y = w[x.size(0)]", "s0 == 5", "as a constant"),
        ("torch.cat([x, y])", "s0 == 5 (asked by cat)", "make the other size dynamic"),
    ],
)
def test_why_a_marked_size_became_static(code, text, words):
    """The chain has the mark and the line that narrowed it; the change fits what stands in that line."""
    found = asked("specialised", text, code, lower=5, upper=5, replaced_by="5")
    row = only(graph("f", "0/0", None, symbols=(found,), marks={"x.shape[0]": "dynamic"}), "s0")
    assert row.static and [f.kind for f in row.chain] == ["marked", "specialised"]
    assert words in row.change


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        ("return x + y", "s0 == s1 (asked by infer_size)", ""),
        ("return cell(x, h)", "s0 == s1", ""),
        ("if x.size(0) != y.size(0):", "s0 == s1", "drop the comparison"),
    ],
)
def test_why_a_size_is_tied_to_another(code, text, words):
    """A tied size varies with the other one: nothing says that it is a constant or that the other one is static."""
    found = asked("replaced", text, code, replaced_by="s1")
    row = only(graph("f", "0/0", None, symbols=(found,)), "s0")
    assert not row.static and "tied to another size" in row.verdict
    assert words in row.change and bool(words) == bool(row.change)


def test_why_a_range_of_one_value_is_static_in_effect():
    """Bounds that meet leave one value even where torch replaced nothing; the report flags it."""
    found = symbol("s0", "x.shape[0]", hint=5, lower=5, upper=5)
    record = capture(graph("f", "0/0", None, symbols=(found,)))
    assert why(record, "x.shape[0]")[0].static
    assert "can only be 5" in explain_text(record)


def test_why_a_dynamic_size_says_its_range():
    """Nothing to change: its range and facts are told."""
    found = symbol("s0", "x.shape[0]", "y.shape[0]", hint=5, lower=4)
    row = only(graph("f", "0/0", None, symbols=(found,)), "y.shape[0]")
    assert not row.static and "range [4, ∞]" in row.verdict and row.change == ""


# --- what changed, and advice ---


def test_what_a_recompile_changed():
    """Sizes that became symbols, other inputs, ops more and fewer, constants: in words, the first few."""
    before, after = graph("f", "0/0", 0, 2), graph("f", "0/1", 0, 3, value=tensor("s0", 8))
    changes = what_changed(before, after)
    assert "x.shape[0]: 4 became s0 (any size)" in changes
    assert "1 op more: relu" in changes
    assert what_changed(before, before) == ()


@pytest.mark.parametrize(
    ("guard", "words"),
    [
        (FailedGuard("", "x.shape[0]", "4", "6"), "mark_dynamic(x, 0)"),
        (FailedGuard("", "x.shape[0]", "2 <= x.shape[0]", "x.shape[0] = 1"), "0 and 1"),
        (FailedGuard("", "x.shape[0]", "x.shape[0] <= 5", "x.shape[0] = 6"), "torch.cond"),
        (FailedGuard("", "self.layer_idx", "1", "2", holder="module"), "allow_unspec_int_on_nn_module"),
        (FailedGuard("", "scale", "1.0", "2.0"), "torch.tensor(scale)"),
        (FailedGuard("", "x.requires_grad", "False", "True"), "requires_grad"),
        (FailedGuard("", "x.dtype", "float32", "float64"), "cast x"),
        (FailedGuard("x.stride(0): expected 1", "x.stride(0)", "1", "2"), "contiguous"),
        (FailedGuard("fn: expected the same object", "fn", "the same object", "another"), "identity"),
        (FailedGuard("", "___stack0", "4", "12"), "break"),
        (FailedGuard("", "__resume_frame_values[1].dtype", "int64", "float32"), "mend the break"),
        (FailedGuard("", "d", "device(type='cpu')", "'meta'"), "keep it the same"),
        (FailedGuard("", "mode", "'modern'", "'old'"), "keep it the same"),
        (FailedGuard("", "n", "n < 4", "n = 4"), "torch.cond"),
        (FailedGuard("x is y", "x", "x is y", "x = a Tensor, y = a Tensor"), "pass a clone"),
        (FailedGuard("x: expected a tensor, got a Parameter", "x", "a tensor", "a Parameter"), "as one type"),
        (FailedGuard("", "list(dict.keys(d))[0]", "'a'", "'b'"), "the same keys"),
        (FailedGuard("odd", "", None, None), ""),
    ],
)
def test_the_advice_fits_the_guard(guard, words):
    """A size is marked, a module's int becomes a tensor, an object is made once; the limit is named where it was hit."""
    assert words in advice(Retry((guard,)))
    assert "recompile_limit" in advice(Retry((guard,), refused=True))


def test_details_have_all_advice_of_a_function():
    """The summary has that of its newest recompiles and counts the rest; what one advice adds to another is told once."""
    told = ("mark x", "mark y", "mark z", "mark z; or raise the limit")
    guards = [FailedGuard(f"k == {i}", "k", str(i), variant="0/0") for i in range(4)]
    recompiles = tuple(
        RecompileInfo(f"0/{i + 1}", 0, i + 2, (guard,), advice=text)
        for i, (guard, text) in enumerate(zip(guards, told, strict=True))
    )
    record = broken(recompiles=recompiles)
    summary, details = explain_text(record, width=80), explain_text(record, "recompiles", width=80)
    assert [line.strip() for line in details.splitlines() if "→ mark" in line] == [
        "→ mark x", "→ mark y", "→ mark z; or raise the limit",
    ]  # fmt: skip
    assert "→ mark x" not in summary and "→ mark y" in summary and "and 1 more: peek explain" in summary


def test_rewrites_fit_the_break():
    """Branches get torch.cond, .item() the setting, loops the remark; Dynamo's own hints follow."""
    assert "torch.cond" in rewrites(BreakInfo("Data-dependent branching"))[0]
    item = BreakInfo("Unsupported Tensor.item() call with capture_scalar_outputs=False", hints=("a hint",))
    assert "capture_scalar_outputs" in rewrites(item)[0] and rewrites(item)[-1] == "a hint"
    assert "loop" in rewrites(BreakInfo("x", split=False, block="loop"))[0]


def test_times_tell_the_share_of_recompiles():
    """Seconds by compile, the longest first; a recompile's part of all."""
    phases = {"0/0": (Phase("total", 3.0),), "0/1": (Phase("total", 1.0),)}
    frames = (FrameRecord("f", compile_ids=("0/0", "0/1"), phases=phases),)
    record = capture(frames=frames, recompiles=(RecompileInfo("0/1", 0, 2),))
    rows = spent(record)
    assert [(r.compile_id, r.recompile) for r in rows] == [("0/0", False), ("0/1", True)]
    assert recompile_share(rows) == 0.25
    assert "recompiles took 25% of it" in explain_text(record)
