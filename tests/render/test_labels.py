"""How values, arguments and targets read: one module decides, and every kind of value has its words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peek_backend.model import (
    Leaf,
    NoneInfo,
    Opaque,
    ScalarInfo,
    SizeInfo,
    SymBool,
    SymFloat,
    SymInt,
    TupleInfo,
)
from peek_backend.render import labels
from peek_backend.render.labels import Style, arg_text, call_text, target_text, value_text
from tests.builders import HOSTILE, GraphBuilder, graph, node, tensor

CPU = Style(home="cpu")

VALUES = [
    (tensor("s0", 16), "f32[s0, 16]"),
    (tensor(), "f32[]"),
    (tensor(8, 4, grad=True), "f32[8, 4] grad"),
    (tensor(8, 4, dtype="bool"), "b8[8, 4]"),
    (tensor(2, dtype="float8_e4m3fn"), "f8e4m3fn[2]"),
    (tensor(2, dtype="mystery"), "mystery[2]"),
    (tensor(4, 8, stride=(1, 4)), "f32[4, 8] stride(1, 4)"),
    (tensor(8, 3, 4, 4, stride=(48, 1, 12, 3)), "f32[8, 3, 4, 4] channels_last"),
    (tensor(8, 4, stride=(0, 1)), "f32[8, 4] broadcast(0)"),
    (tensor(8, 2, 4, stride=(0, 0, 1)), "f32[8, 2, 4] broadcast(0, 1)"),
    (tensor(8, 2, 4, stride=(0, 1, 2)), "f32[8, 2, 4] stride(0, 1, 2)"),
    (tensor(8, device="cuda:0"), "f32[8] cuda:0"),
    (tensor(8, layout="sparse_coo", stride=(1,)), "f32[8] sparse_coo"),
    (tensor(8, flags=("conj", "neg")), "f32[8] conj neg"),
    (tensor(8, flags=("mutated", "parameter")), "f32[8] mutated"),
    (
        tensor(4, 5, became=tensor(5, 4, stride=(1, 5)), flags=("mutated",)),
        "f32[4, 5] → f32[5, 4] stride(1, 5)",
    ),
    (
        tensor(8, 4, subclass="torch.distributed.DTensor", inner={"_local_tensor": tensor(2, 4)}),
        "f32[8, 4] DTensor {_local_tensor: f32[2, 4]}",
    ),
    (SymInt("s0", 8), "s0 = 8"),
    (SymInt("s0*2 + 1", 17), "s0*2 + 1 = 17"),
    (SymInt("8", 8), "8"),
    (SymInt("u0"), "u0"),
    (SymFloat("zf0", 2.5), "zf0 = 2.5"),
    (SymBool("Eq(s0, 4)", False), "Eq(s0, 4) is False"),
    (SizeInfo(("s0", 16)), "Size[s0, 16]"),
    (NoneInfo(), "None"),
    (None, ""),
    (ScalarInfo("int", 3), "3"),
    (ScalarInfo("str", "a\n"), r"'a\n'"),
    (ScalarInfo("float", "nan"), "nan"),
    (ScalarInfo("module"), "module"),
    (TupleInfo((tensor(2), SymInt("s0", 4))), "(f32[2], s0 = 4)"),
    (TupleInfo((tensor(2),)), "(f32[2],)"),
    (TupleInfo((tensor(2),), "list"), "[f32[2]]"),
    (TupleInfo((tensor(2),), "dict", ("a b",)), "{'a b': f32[2]}"),
    (
        TupleInfo((tensor(2), tensor(2, dtype="int64")), "torch.return_types.topk", ("values", "indices")),
        "topk(values=f32[2], indices=i64[2])",
    ),
    (TupleInfo((tensor(2),) * 600), "(f32[2], f32[2], f32[2], … 596 more, f32[2])"),
    (TupleInfo(()), "()"),
    (Opaque("torch.ScriptObject"), "ScriptObject"),
    (Opaque("DeviceMesh", "(2, 4)"), "DeviceMesh (2, 4)"),
]


@pytest.mark.parametrize(("value", "text"), VALUES, ids=[text for _, text in VALUES])
def test_values(value, text):
    """Every kind of value reads as expected, what is special about a tensor after its shape."""
    assert value_text(value, CPU) == text


def test_device_is_named_only_where_it_differs():
    """A tensor on the graph's device does not name it; without a home no device is named."""
    assert value_text(tensor(2, device="cuda:0"), Style(home="cuda:0")) == "f32[2]"
    assert value_text(tensor(2, device="cuda:0")) == "f32[2]"


def test_symbolic_strides_that_are_plain_are_not_shown():
    """A symbolic tensor that is contiguous shows no stride, one that is transposed does."""
    assert value_text(tensor("s0", "s1", stride=("s1", 1))) == "f32[s0, s1]"
    assert value_text(tensor("s0", "s1", stride=(1, "s0"))) == "f32[s0, s1] stride(1, s0)"


NAMES = ["x", "y", "a b"]

ARGS = [
    (Leaf(node=1), "y"),
    (Leaf(node=9), "node 9"),
    (Leaf(dtype="float32"), "f32"),
    (Leaf(device="cuda:0"), "cuda:0"),
    (Leaf(memory_format="torch.channels_last"), "channels_last"),
    (Leaf(layout="torch.strided"), "strided"),
    (Leaf(sym="s0*2"), "s0*2"),
    (Leaf(slice=(None, Leaf(node=0), None)), ":x"),
    (Leaf(slice=(None, None, 2)), "::2"),
    (Leaf(dict=(("k", Leaf(node=0)), (1, None))), "{'k': x, 1: None}"),
    (Leaf(float="nan"), "nan"),
    (Leaf(complex="1+2j"), "1+2j"),
    (Leaf(ellipsis=True), "..."),
    (Leaf(nested=(1, (2,))), "[1, [2]]"),
    (Leaf(function="torch.nn.functional.relu"), "F.relu"),
    (Leaf(repr="<object>"), "<object>"),
    (Leaf(), "?"),
    ((Leaf(node=0), (1, 2.5), None, True), "[x, [1, 2.5], None, True]"),
    ((), "[]"),
    (1e3, "1000.0"),
    (-0.0, "-0.0"),
    ("it's", '"it\'s"'),
]


@pytest.mark.parametrize(("arg", "text"), ARGS, ids=[text for _, text in ARGS])
def test_arguments(arg, text):
    """Every kind of argument reads as code."""
    assert arg_text(arg, NAMES) == text


def test_a_list_of_600_inputs_is_one_short_line():
    """A long list shows its first items, how many are left out, and the last."""
    names = [f"x{i}" for i in range(600)]
    text = arg_text(tuple(Leaf(node=i) for i in range(600)), names)
    assert text == "[x0, x1, x2, x3, x4, x5, x6, … 592 more, x599]"


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("torch.nn.functional.linear", "F.linear"),
        ("torch._C._nn.gelu", "F.gelu"),
        ("torch.ops.aten.mm.default", "aten.mm"),
        ("aten.add.Tensor", "aten.add.Tensor"),
        ("_operator.add", "operator.add"),
        ("torch.ops.higher_order.cond", "cond"),
        ("torch.cat", "torch.cat"),
        ("builtins.getattr", "getattr"),
        ("torch._functorch.predispatch._add_batch_dim", "functorch._add_batch_dim"),
        ("mylib.ops.my_op", "mylib.ops.my_op"),
    ],
)
def test_targets_are_short(target, text):
    """A target reads as people write it."""
    assert target_text(target) == text


CALLS = [
    ("call_function", "torch.nn.functional.linear", (Leaf(node=0), Leaf(node=1)), {}, "F.linear(x, y)"),
    ("call_function", "torch.sum", (Leaf(node=0),), {"dim": 1}, "torch.sum(x, dim=1)"),
    ("call_method", "view", (Leaf(node=0), -1, 2), {}, "x.view(-1, 2)"),
    ("call_method", "view", (), {}, ".view()"),
    ("call_function", "_operator.add", (Leaf(node=0), 1), {}, "x + 1"),
    ("call_function", "_operator.matmul", (Leaf(node=0), Leaf(node=1)), {}, "x @ y"),
    ("call_function", "_operator.neg", (Leaf(node=0),), {}, "-x"),
    ("call_function", "_operator.iadd", (Leaf(node=0), 2), {}, "x += 2"),
    ("call_function", "_operator.add", (Leaf(node=0),), {}, "operator.add(x)"),
    ("call_function", "torch.add", (Leaf(node=0), 1), {}, "torch.add(x, 1)"),
    ("call_function", "_operator.getitem", (Leaf(node=0), 0), {}, "x[0]"),
    (
        "call_function",
        "_operator.getitem",
        (Leaf(node=0), (Leaf(ellipsis=True), Leaf(slice=(None, 8, None)), None)),
        {},
        "x[..., :8, None]",
    ),
    ("call_function", "_operator.getitem", (Leaf(node=0), (Leaf(node=1),)), {}, "x[y,]"),
    ("call_function", "_operator.getitem", (Leaf(node=0), ()), {}, "x[()]"),
    ("call_function", "_operator.setitem", (Leaf(node=0), (0, 1), 3.0), {}, "x[0, 1] = 3.0"),
    ("call_function", "_operator.getitem", (Leaf(node=0), ((0, 1), 2)), {}, "x[[0, 1], 2]"),
    ("call_function", "_operator.add", ("a{}b", "c[["), {}, "'a{}b' + 'c[['"),
    ("call_module", "fc1", (Leaf(node=0),), {}, "self.fc1(x)"),
    ("get_attr", "weight", (), {}, "self.weight"),
    ("output", "output", ((Leaf(node=0), Leaf(node=1)),), {}, "return x, y"),
    ("output", "output", (Leaf(node=0),), {}, "return x"),
    ("output", "output", ((),), {}, "return"),
]


@pytest.mark.parametrize(("op", "target", "args", "kwargs", "text"), CALLS, ids=[c[-1] for c in CALLS])
def test_calls_read_as_python(op, target, args, kwargs, text):
    """A node reads as the expression that a person would write."""
    g = graph(
        node(0, "x", "placeholder", "x"),
        node(1, "y", "placeholder", "y"),
        node(2, "z", op, target, *args, kwargs=kwargs),
    )
    assert call_text(g.nodes[2], g) == text


def test_parameters_are_referred_to_by_path():
    """An argument shows a parameter's path, which no other node can be named; one without a dot keeps its name."""
    g = GraphBuilder()
    a, b, x = g.parameter("fc1.weight"), g.parameter("weight"), g.input("batch[0].x")
    g.call("torch.f", a, b, x)
    record = g.graph()
    assert call_text(record.nodes[3], record) == "torch.f(fc1.weight, p_weight, l_batch_0__x_)"
    assert call_text(record.nodes[2], record) == "batch[0].x"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_stays_short(text):
    """Names, targets, strings and expressions of 100 kB are cut, and no kind of text raises."""
    g = graph(
        node(0, text, "placeholder", text),
        node(
            1,
            text,
            "call_function",
            text,
            Leaf(node=0),
            text,
            Leaf(repr=text),
            Leaf(sym=text),
            kwargs={text: text},
        ),
    )
    for n in g.nodes:
        assert len(call_text(n, g)) < 800
    value = TupleInfo(
        (tensor(text, dtype="int8", subclass=text), SymInt(text, 4), Opaque(text, text)), text, (text,) * 3
    )
    assert len(value_text(value)) < 1500


@given(st.text(max_size=300))
def test_strings_are_python_literals(text):
    """A short string reads as Python would write it; a long one starts so and tells its length."""
    read = labels.string_text(text)
    if len(text) <= labels.MAX_STRING:
        assert eval(read) == text
    else:
        assert read.endswith(f"… ({len(text)} characters)")


@given(st.text(max_size=50), st.integers(0, 40))
def test_shortened_text_keeps_its_ends(text, limit):
    """Shortening never exceeds the limit and keeps text that fits."""
    short = labels.shorten(text, limit)
    assert len(short) <= limit or short == text
    assert short == text or len(text) > limit


@pytest.mark.parametrize(
    ("count", "word", "text"),
    [
        (1, "node", "1 node"),
        (0, "node", "0 nodes"),
        (12_000, "op", "12,000 ops"),
        (2, "branch", "2 branches"),
        (3, "copy", "3 copies"),
    ],
)
def test_plurals(count, word, text):
    """Counts read as English."""
    assert labels.plural(count, word) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1536, "1.5 KiB"),
        (1 << 20, "1.0 MiB"),
        (1023, "1023 B"),
        ((1 << 30) - 9000, "1.0 GiB"),
        (102_380, "100 KiB"),
        (200 * (1 << 30), "200 GiB"),
        (5000 * (1 << 40), "5000 TiB"),
    ],
)
def test_bytes_have_binary_units(size, text):
    """Bytes are told in powers of 1024."""
    assert labels.bytes_text(size) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MLP.forward", "MLP.forward"),
        ("main.<locals>.f", "f"),
        ("torch_dynamo_resume_in_f_at_33", "f ▸ resumed at line 33"),
        ("main.<locals>.torch_dynamo_resume_in_f_at_33", "f ▸ resumed at line 33"),
    ],
)
def test_code_names(name, text):
    """A frame is named as its author knows it."""
    assert labels.code_text(name) == text


def test_attempts_show_only_where_they_tell_graphs_apart():
    """A graph's name leaves its attempt out unless another attempt of the same compile is there."""
    lone, first, second = (
        graph(compile_id="1/0", attempt=1),
        graph(compile_id="0/0"),
        graph(compile_id="0/0", attempt=1),
    )
    assert labels.graph_keys([lone, first, second]) == ["1/0", "0/0", "0/0 attempt 1"]
