"""Captures as snapshots: what differs between equal programs is gone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from peek_backend.diff import compare
from peek_backend.diff.edits import INFO
from peek_backend.model import (
    BreakInfo,
    CaptureRecord,
    Environment,
    Fact,
    FailedGuard,
    FrameRecord,
    GuardInfo,
    Leaf,
    RecompileInfo,
    Source,
    StackFrame,
    StageInfo,
    SymInt,
    TupleInfo,
)
from peek_backend.model.snapshot import Break, Skipped
from peek_backend.passes.aliases import alias, op_name
from peek_backend.passes.canonical import canonicalise
from peek_backend.snapshot.graphfile import parse_graph, print_graph
from tests.builders import HOSTILE, GraphBuilder, capture, symbol, tensor, transformer


def two_inputs(first: str, second: str, left: str = "x", right: str = "y") -> CaptureRecord:
    """x (first, 8) and y (second, first*second), as torch writes it: operands of a product in order of their names."""
    product = "*".join(sorted([first, second]))
    g = GraphBuilder("f")
    x = g.input(left, tensor(first, 8))
    y = g.input(right, tensor(second, product))
    g.output(g.call("torch.mul", x, y, value=tensor(second, product)))
    symbols = (symbol(second, f"{right}.shape[0]"), symbol(first, f"{left}.shape[0]"))
    return capture(g.graph(symbols=symbols))


def test_symbols_are_numbered_by_the_inputs_that_carry_them():
    """Whatever torch called them and in whatever order it listed them, the file is the same."""
    texts = {
        print_graph(canonicalise(two_inputs(*names)))
        for names in (("s77", "s27"), ("s27", "s77"), ("s1", "s0"), ("s0", "s1"))
    }
    assert len(texts) == 1
    assert "y: f32[s1, s0*s1]" in texts.pop()


def test_a_renamed_argument_changes_names_alone():
    """Another argument name gives other symbols in torch, and an empty diff here."""
    diff = compare(
        canonicalise(two_inputs("s77", "s27")), canonicalise(two_inputs("s9", "s50", "left", "right"))
    )
    assert diff.is_empty
    assert {edit.kind for edit in diff.edits} == {"input:renamed", "symbol"}


def test_a_size_input_reads_as_its_symbol():
    """torch passes x.shape[0] beside x; the snapshot has x alone, and the symbol where it was used."""
    g = GraphBuilder("f")
    s = g.input("x.shape[0]", SymInt("s77", 8), kind="size")
    x = g.input("x", tensor("s77", 8))
    g.output(g.method("view", x, s, 4, 2, value=tensor("s77", 4, 2)))
    graph = canonicalise(capture(g.graph(symbols=(symbol("s77", "x.shape[0]"),)))).graphs[0]
    assert [entry.name for entry in graph.inputs] == ["x"]
    assert (graph.nodes[0].template, graph.nodes[0].operands) == ("\0, s0, 4, 2", (0,))


def test_labels_count_within_their_module():
    """A second add of one module is add_1 there, and does not touch the labels of another."""
    g = GraphBuilder("f")
    x = g.input("x", tensor(4))
    for module in ("a", "a", "b", ""):
        x = g.call("operator.add", x, 1, value=tensor(4), module=module)
    g.output(x)
    assert [n.label for n in canonicalise(capture(g.graph())).graphs[0].nodes] == [
        "a.add",
        "a.add_1",
        "b.add",
        "add",
    ]


def test_only_what_is_special_is_printed():
    """Strides where not contiguous, a device where it is not most inputs'; sizes of 1 may have any stride."""
    g = GraphBuilder("f")
    values = [
        tensor("s0", 4),
        tensor("s0", 4, stride=(1, "s0")),
        tensor(1, 4, stride=(99, 1)),
        tensor(4, device="cuda:0"),
        tensor(0, 3, stride=(7, 9)),
    ]
    nodes = [g.input(f"x{k}", value) for k, value in enumerate(values)]
    g.output(*nodes)
    text = print_graph(canonicalise(capture(g.graph(symbols=(symbol("s0", "x0.shape[0]"),)))))
    types = [line.split(": ", 1)[1].strip() for line in text.splitlines() if line.startswith("  in ")]
    assert types == [
        "f32[s0, 4]",
        "f32[s0, 4] stride=(1, s0)",
        "f32[1, 4]",
        "f32[4] device=cuda:0",
        "f32[0, 3]",
    ]


def test_arguments_are_written_in_one_way():
    """Lists and tuples alike, keywords sorted, constants by their words, messages without node names, no addresses."""
    g = GraphBuilder("f")
    x = g.input("x", tensor(4))
    args = (
        (1, (2.5, True)),
        Leaf(dtype="float32"),
        Leaf(slice=(None, 3, None)),
        Leaf(dict=(("k", x),)),
        Leaf(float="nan"),
        Leaf(ellipsis=True),
    )
    g.add("call", "call_function", "torch.f", (x, *args), kwargs={"z": "a", "b": Leaf(device="cuda:0")})
    message = "failed for u7 >= 0 on node 'ge_1'"
    g.add("check", "call_function", "torch._assert_async", (x, message))
    g.add(
        "odd",
        "call_function",
        "torch.g",
        (Leaf(repr="<object at 0x7f00aa00bb00>"), Leaf(repr="123456789012345678901234567890")),
    )
    g.output(x)
    nodes = canonicalise(capture(g.graph())).graphs[0].nodes
    assert (
        nodes[0].template
        == '\0, [1, [2.5, True]], torch.float32, slice(None, 3, None), {"k": \0}, nan, ..., b=device("cuda:0"), z="a"'
    )
    assert nodes[1].template == "\0, \"failed for u7 >= 0 on node '…'\""
    assert nodes[2].template == 'repr("<object>"), 123456789012345678901234567890'


def test_values_of_several_parts():
    """A list of one is a tuple of one; a named tuple keeps its names."""
    g = GraphBuilder("f")
    x = g.input("x", tensor(4))
    g.call(
        "torch.max",
        x,
        0,
        value=TupleInfo((tensor(), tensor(dtype="int64")), "torch.return_types.max", ("values", "indices")),
    )
    g.call("torch.g", x, value=TupleInfo((tensor(4),), "list"))
    g.output(x)
    text = print_graph(canonicalise(capture(g.graph())))
    assert "tuple(torch.return_types.max, values: f32[], indices: i64[])" in text
    assert text.count("(f32[4])") == 1


def test_places_are_relative_and_have_no_line():
    """Below the root from there, in a library from its folder, else the file's name; the line is known but not written."""
    sources = {
        "/home/me/proj/pkg/model.py": "pkg/model.py",
        "/venv/lib/python3.11/site-packages/transformers/m.py": "transformers/m.py",
        "/usr/lib/python3.11/functools.py": "functools.py",
        "/other/place.py": "place.py",
        "C:\\proj\\x.py": "x.py",
    }
    g = GraphBuilder("f")
    x = g.input("x", tensor(4))
    for file in sources:
        g.add(
            "n",
            "call_function",
            "torch.f",
            (x,),
            source=Source(file, 31, "torch_dynamo_resume_in_forward_at_7", "y  =  f(x)"),
        )
    g.output(x)
    snapshot = canonicalise(capture(g.graph()), root="/home/me/proj")
    places = [n.place for n in snapshot.graphs[0].nodes]
    assert [p.file for p in places] == list(sources.values())
    assert {(p.function, p.code, p.line) for p in places} == {("forward", "y = f(x)", 31)}
    assert "31" not in print_graph(snapshot)


def f(name: str, compile_id: str, **more):
    g = GraphBuilder(name, compile_id=compile_id, **more)
    g.output(g.method("sin", g.input("x", tensor(4)), value=tensor(4)))
    return g.graph()


def test_resumes_variants_and_reasons():
    """Resume functions are numbered by their order, recompiles by their variant, with the guards that failed."""
    graphs = (
        f("f", "0/0"),
        f("torch_dynamo_resume_in_f_at_107", "1/0"),
        f("torch_dynamo_resume_in_f_at_120", "2/0"),
        f("f", "0/1"),
    )
    recompile = RecompileInfo("0/1", variant=2, failed=(FailedGuard("k == 1"),))
    found = canonicalise(capture(*graphs, recompiles=(recompile,))).graphs
    assert [g.title for g in found] == ["f", "f ▸ resume#1", "f ▸ resume#2", "f ▸ variant#2"]
    assert found[3].because == "k == 1"


def test_only_the_last_attempt_counts():
    """Graphs of attempts that Dynamo gave up, graphs that never ran and other stages are left out."""
    graphs = (
        f("f", "0/0"),
        f("f", "0/0", attempt=1),
        f("g", "1/0", never_ran="a constraint was violated"),
        f("f", "0/0", stage="joint"),
    )
    found = canonicalise(capture(*graphs))
    assert [g.title for g in found.graphs] == ["f"]
    assert [g.title for g in canonicalise(capture(*graphs), stages=("dynamo", "joint")).graphs] == [
        "f",
        "f ▸ joint",
    ]


def test_outputs_of_later_stages_say_what_they_are():
    """A forward's saved values stand apart from its results, a gradient with its input; that of a size is left out."""

    def stage(name: str, info: StageInfo, inputs: str, outputs: int):
        g = GraphBuilder("f", compile_id="0/0", stage=name, lowering=info)
        refs = [g.input(name, tensor(4)) for name in inputs]
        results = [
            g.call(f"aten.{k}", *refs, value=tensor(4)) for k in ("sin", "cos", "tan", "exp")[:outputs]
        ]
        g.output(*results, refs[0])
        return g.graph()

    dynamo = GraphBuilder("f", compile_id="0/0")
    refs = [
        dynamo.input(name, tensor(4), **how) for name, how in (("x", {}), ("s", {"kind": "size"}), ("y", {}))
    ]
    dynamo.output(refs[0])
    graphs = (
        dynamo.graph(),
        stage("joint", StageInfo(forward_outputs=1, gradients=(0, 1, 2)), "xy", 3),
        stage("forward", StageInfo(forward_outputs=2), "xy", 2),
        stage("backward", StageInfo(gradients=(2, 1, 0)), "xy", 2),
        stage("inference", StageInfo(forward_outputs=1), "xy", 1),
    )
    found = canonicalise(capture(*graphs), stages=("joint", "forward", "backward", "inference"))
    outs = [line for line in print_graph(found).splitlines() if line.startswith("  out")]
    assert outs == [
        '  out  %sin, gradients={"x": %cos, "y": x}',
        "  out  %sin, %cos, saved=[x]",
        '  out  gradients={"y": %sin, "x": x}',
        "  out  %sin, x",
    ]
    assert print_graph(parse_graph(print_graph(found))) == print_graph(found)


def test_breaks_and_skipped_frames():
    """A break follows the graph that it ended, with id, line and reason; frames left in eager are told; nothing captured too."""
    stack = (StackFrame("/a/main.py", 1, "main"), StackFrame("/a/f.py", 4, "f", 'print("n")'))
    info = BreakInfo("Failed to trace\nmore", id="GB0059", stack=stack, compile_id="0/0")
    frames = (
        FrameRecord("f"),
        FrameRecord("loopbrk", "/a/f.py", 9, "skipped", "a break in a loop, /a/b/f.py:12"),
    )
    found = canonicalise(capture(f("f", "0/0"), breaks=(info,), frames=frames))
    _, broken, skipped = found.entries
    assert isinstance(broken, Break) and isinstance(skipped, Skipped)
    assert (broken.id, broken.place.file, broken.place.function, broken.place.line, broken.reason) == (
        "gb0059",
        "f.py",
        "f",
        4,
        "Failed to trace",
    )
    assert (skipped.frame, skipped.state, skipped.reason) == ("loopbrk", "SKIPPED", "a break in a loop, f.py")
    (nothing,) = canonicalise(capture(notes=("no torch op ran",))).entries
    assert (nothing.state, nothing.reason) == ("NOTHING", "no torch op ran")


def test_a_reason_of_nothing_is_told_once():
    """A frame of which a note tells already is not told again; another one is."""
    frames = (
        FrameRecord("f", "f.py", 2, "empty", "no tensor op to compile"),
        FrameRecord("g", "f.py", 5, "empty", "no tensor op to compile"),
    )
    note = "nothing was captured: f (f.py:2) nothing to compile: no tensor op to compile"
    (nothing,) = canonicalise(replace(capture(), notes=(note,), frames=frames)).skipped
    assert nothing.reason.count("no tensor op to compile") == 2
    assert nothing.reason.endswith("; g: no tensor op to compile")


def test_shape_guards_speak_of_symbols():
    """Conditions on sizes are told in our symbols, once, without what torch assumes anyway."""
    record = two_inputs("s77", "s27")
    guards = tuple(
        GuardInfo("SHAPE_ENV", text)
        for text in ("2 <= L['x'].size()[0]", "x.shape[0] > 3", "s77 > 3", "y.shape[0] != s77")
    )
    graph = replace(record.graphs[0], guards=(*guards, GuardInfo("TENSOR_MATCH", "x.dim() == 2")))
    assert canonicalise(replace(record, graphs=(graph,))).graphs[0].guards == ("s0 != s1", "s0 > 3")


def test_a_symbol_that_became_a_number_leaves_its_line():
    """A size that torch fixed is no symbol and no guard; the line that asked is kept for a diff to tell."""
    record = two_inputs("s77", "s27")
    asked = Fact("specialised", "s77 == 4", StackFrame("/a/model.py", 31, "forward", "if x.shape[0] == 4:"))
    graph = record.graphs[0]
    x = replace(graph.nodes[0], value=tensor(4, 8))
    symbols = (symbol("s27", "y.shape[0]"), symbol("s77", "x.shape[0]", replaced_by="4", facts=(asked,)))
    y, product = (replace(n, value=tensor("s27", "4*s27")) for n in graph.nodes[1:3])
    nodes = (x, y, product, *graph.nodes[3:])
    fixed = replace(graph, nodes=nodes, symbols=symbols, relations=("s77 == 4",))
    old, new = canonicalise(record), canonicalise(replace(record, graphs=(fixed,)))
    assert new.graphs[0].guards == ()
    edit = next(e for e in compare(old, new).edits if e.kind == "dim:static")
    assert (edit.text, edit.place.line, edit.place.code) == ("x.shape[0]", 31, "if x.shape[0] == 4:")
    assert "31" not in print_graph(new)


@pytest.mark.parametrize("asked", ["", " (asked by cat)"])
def test_a_condition_has_the_line_that_asked_for_it(asked: str):
    """A guard that ends in a bracket is found among what its symbol's line asked for, with an op of torch beside or not."""
    record = two_inputs("s77", "s27")
    text = "s77 <= Max(3, s27)"
    fact = Fact("guard", text + asked, StackFrame("/a/model.py", 31, "forward", "if x.shape[0] <= n:"))
    symbols = (symbol("s77", "x.shape[0]", facts=(fact,)), symbol("s27", "y.shape[0]"))
    graph = replace(record.graphs[0], symbols=symbols, guards=(GuardInfo("SHAPE_ENV", text),))
    edits = compare(canonicalise(record), canonicalise(replace(record, graphs=(graph,)))).edits
    assert [(e.kind, e.place.line) for e in edits if e.kind == "guard:added"] == [("guard:added", 31)]


def test_a_symbol_that_was_joined_to_another_has_no_line_of_its_own():
    """torch keeps ``s77 == s27`` as a relation when the code makes two sizes one: the size is told by the symbol that stayed."""
    record = two_inputs("s77", "s27")
    graph = record.graphs[0]
    x, y, product = (replace(n, value=tensor("s27", 8)) for n in graph.nodes[:3])
    symbols = (symbol("s27", "y.shape[0]"), symbol("s77", "x.shape[0]", replaced_by="s27"))
    joined = replace(
        graph, nodes=(x, y, product, *graph.nodes[3:]), symbols=symbols, relations=("s77 == s27",)
    )
    found = canonicalise(replace(record, graphs=(joined,))).graphs[0]
    assert [(s.name, set(s.sources)) for s in found.symbols] == [("s0", {"x.shape[0]", "y.shape[0]"})]
    assert found.guards == ()


def test_the_header_tells_the_environment_and_warns_of_equal_sizes():
    """Versions without their patch, the settings given, and a note where equal example sizes made one symbol."""
    record = two_inputs("s77", "s27")
    graph = replace(
        record.graphs[0], symbols=(symbol("s77", "x.shape[0]", "z.shape[1]"), symbol("s27", "y.shape[0]"))
    )
    record = replace(record, graphs=(graph,), environment=Environment(torch="2.13.0+cpu", python="3.11.7"))
    found = canonicalise(record, name="t", env={"dynamic": "mark(x:0)"})
    assert found.env == (
        ("torch", "2.13"),
        ("py", "3.11"),
        ("device", "cpu"),
        ("grad", "on"),
        ("dynamic", "mark(x:0)"),
    )
    assert found.notes == ("x.shape[0], z.shape[1] were equal while tracing, so they are one symbol",)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_go_into_a_file_and_back(text: str):
    """Whatever a name, string, target, module or path holds, the snapshot can be written and read."""
    g = GraphBuilder(text)
    x = g.input(text, tensor(4, device=text, dtype=text))
    g.add(
        text,
        "call_function",
        text,
        (x, text, (text,)),
        kwargs={text: text},
        source=Source(text, 3, text, text, module=text),
    )
    g.add("attr", "get_attr", text)
    g.output(x)
    snapshot = canonicalise(capture(g.graph(symbols=(symbol(text, text),))), name=text, env={"run": text})
    found = print_graph(snapshot)
    assert print_graph(parse_graph(found)) == found
    assert compare(snapshot, parse_graph(found)).is_empty
    found.encode("utf-8")


def test_a_transformer_is_stable_and_small_against_itself():
    """A model's capture canonicalised twice is byte-identical, and differs from a deeper one by its layers alone."""
    a, b = canonicalise(capture(transformer(3))), canonicalise(capture(transformer(4)))
    assert print_graph(a) == print_graph(canonicalise(capture(transformer(3))))
    kinds = {edit.kind for edit in compare(a, b).edits if edit.kind not in INFO}
    assert kinds == {"module:added"}
    assert all(
        edit.module.startswith("layers.3") or edit.target.startswith("layers.3")
        for edit in compare(a, b).edits
        if edit.kind not in INFO
    )


@pytest.mark.parametrize(
    ("target", "name", "op"),
    [
        ("torch.nn.functional.linear", "F.linear", "linear"),
        ("torch._C._nn.linear", "F.linear", "linear"),
        ("_operator.add", "operator.add", "add"),
        ("aten.mm.default", "aten.mm", "mm"),
        ("aten.add.Tensor", "aten.add.Tensor", "add"),
        ("torch.ops.aten.mm.default", "aten.mm", "mm"),
        ("higher_order.cond", "cond", "cond"),
        ("torch.conv2d", "F.conv2d", "conv2d"),
        ("my.module.<lambda> at 0x7f0000aa", "my.module.<lambda>", "lambda"),
    ],
)
def test_targets_have_one_name_in_all_versions(target: str, name: str, op: str):
    """Where torch keeps a function makes no difference; addresses go; the label's word is the op's own."""
    assert alias(target) == name
    assert op_name(name) == op


def test_a_modules_own_parameter_is_told_from_an_argument():
    """``self.scale`` of the compiled module is called ``scale``, as an argument would be; the file says which it is."""
    record = two_inputs("s77", "s27")
    graph = record.graphs[0]
    x, y, *rest = graph.nodes
    scale = replace(y, source=Source(input="scale", input_kind="buffer"))
    held = canonicalise(replace(record, graphs=(replace(graph, nodes=(x, scale, *rest)),)))
    assert [(entry.name, entry.kind) for entry in held.graphs[0].inputs] == [("x", ""), ("scale", "buffer")]
    text = print_graph(held)
    assert " (buffer)\n" in text and print_graph(parse_graph(text)) == text
