"""Every kind of value that a node can have."""

from __future__ import annotations

import torch

from peek_backend.capture.values import ValueReader
from peek_backend.model import (
    NoneInfo,
    Opaque,
    ScalarInfo,
    SizeInfo,
    SymBool,
    SymFloat,
    SymInt,
    TensorMeta,
    TupleInfo,
)
from tests.capture.helpers import by_target, graph_of, node

SIZES = (5, 7)


def read(value):
    return ValueReader().read(value)


def test_tensor_metadata():
    """A tensor's shape, dtype, stride, offset, device and requires_grad are those that torch reports."""
    base = torch.zeros(4, 6, dtype=torch.float64, requires_grad=True)
    meta = read(base.t()[1:, 2:])
    assert meta == TensorMeta((5, 2), "float64", (1, 6), "cpu", True, storage_offset=13, storage=0)


def test_views_share_a_storage_number():
    """Two tensors have the same storage number exactly when they share their storage."""
    reader, base = ValueReader(), torch.zeros(4)
    assert reader.read(base).storage == reader.read(base[1:]).storage
    assert reader.read(base).storage != reader.read(torch.zeros(4)).storage


def test_first_graph():
    """tanh(x @ w) is four values: 8×16, 16×4, 8×4, 8×4."""
    graph = graph_of(lambda x, w: torch.tanh(x @ w), torch.randn(8, 16), torch.randn(16, 4))
    assert [n.value.shape for n in graph.nodes if n.value] == [(8, 16), (16, 4), (8, 4), (8, 4)]


def test_symbolic_sizes_carry_expression_and_hint():
    """A dynamic dim is text in torch's words; the size's own placeholder carries the hint."""
    graph = graph_of(lambda x: x.view(-1), torch.randn(*SIZES), dynamic=True)
    rows, columns = (n.value for n in graph.nodes[:2])
    assert (rows.hint, columns.hint) == SIZES
    flat = by_target(graph, "view").value
    assert flat.shape[0] in (f"{rows.expr}*{columns.expr}", f"{columns.expr}*{rows.expr}")


def test_size_node():
    """A torch.Size is a size with symbols, not a tuple of SymInts."""
    graph = graph_of(lambda x: x.sin().view(x.size()), torch.randn(*SIZES), dynamic=True)
    assert isinstance(by_target(graph, "size").value, SizeInfo)


def test_sym_float_and_bool():
    """Arithmetic on sizes gives SymFloats and SymBools with their expressions."""
    reader = ValueReader()
    env = torch.fx.experimental.symbolic_shapes.ShapeEnv()
    size = env.create_unbacked_symint()
    assert reader.read(size) == SymInt(str(size), None)
    assert isinstance(reader.read(size > 3), SymBool)
    assert isinstance(reader.read(torch.sym_float(size)), SymFloat)


def test_named_tuple_fields():
    """max over a dim is torch's named tuple with its field names."""
    graph = graph_of(lambda x: x.max(0), torch.randn(4, 5))
    value = by_target(graph, "max").value
    assert (value.type, value.fields) == ("torch.return_types.max", ("values", "indices"))
    assert [v.dtype for v in value.items] == ["float32", "int64"]


def test_plain_values():
    """None, numbers, texts, dtypes and containers each have their kind; what JSON lacks is text."""
    assert read(None) == NoneInfo()
    assert read(True) == ScalarInfo("bool", True)
    assert read(float("inf")) == ScalarInfo("float", "inf")
    assert read(2**70) == ScalarInfo("int", str(2**70))
    assert read(torch.bfloat16) == ScalarInfo("dtype", "bfloat16")
    assert read(torch.device("meta")) == ScalarInfo("device", "meta")
    assert read([1, (2.5,)]) == TupleInfo(
        (ScalarInfo("int", 1), TupleInfo((ScalarInfo("float", 2.5),))), "list"
    )
    assert read({"a": None}) == TupleInfo((NoneInfo(),), "dict", ("a",))


def test_anything_else_is_named_without_running_user_code():
    """A foreign object is opaque under its type's name; its __repr__ is not called."""

    class Loud:
        def __repr__(self):
            raise AssertionError("must not be called")

    assert isinstance(read(Loud()), Opaque)
    assert read(Loud()).type_name.endswith("Loud")


def test_sparse_and_complex():
    """Sparse layouts have no stride; lazy conj and neg are flags."""
    sparse = read(torch.eye(3).to_sparse())
    assert (sparse.layout, sparse.stride) == ("sparse_coo", None)
    assert read(torch.zeros(2, dtype=torch.complex64).conj()).flags == ("conj",)
    imaginary = read(torch.zeros(2, dtype=torch.complex64).conj().imag)
    assert (imaginary.flags, imaginary.storage_offset, imaginary.stride) == (("neg",), 1, (2,))


def test_nested_tensors():
    """A jagged nested tensor has its symbolic dim, a strided one only its batch size; neither raises."""
    jagged = read(torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)], layout=torch.jagged))
    assert (jagged.shape[0], jagged.shape[2], jagged.layout) == (2, 3, "jagged")
    assert set(jagged.inner) >= {"_values", "_offsets"}
    strided = read(torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.strided))
    assert (strided.shape, strided.stride, strided.flags) == ((2, "?"), None, ("nested",))


def test_wrapper_subclass_shows_its_inner_tensors():
    """A traceable wrapper subclass is named, with its inner tensors by attribute."""
    from torch.testing._internal.two_tensor import TwoTensor

    meta = read(TwoTensor(torch.zeros(2, 3), torch.ones(2, 3)))
    assert meta.subclass == "TwoTensor"
    assert {k: v.shape for k, v in meta.inner.items()} == {"a": (2, 3), "b": (2, 3)}


def test_subclass_in_a_graph():
    """A subclass as an input of a compiled function is recorded as such."""
    from torch.testing._internal.two_tensor import TwoTensor

    graph = graph_of(lambda x: x.sin(), TwoTensor(torch.zeros(2), torch.ones(2)))
    assert by_target(graph, "sin").value.subclass == "TwoTensor"


def test_vmap_level_is_named():
    """Inside vmap a value is a batched tensor: its level is named and the tensor below it is there."""
    graph = graph_of(lambda x: torch.vmap(torch.sum)(x) + 1, torch.randn(3, 4))
    batched = by_target(graph, "torch.sum").value
    assert batched.subclass == "BatchedTensor(level=1, dim=0)"
    assert (batched.shape, batched.inner["value"].shape) == ((), (3,))


def test_broadcast_and_padded_strides_are_exact():
    """Stride 0 and padded strides of inputs are kept as they are."""
    padded = torch.empty_strided((2, 3), (8, 1))
    graph = graph_of(lambda a, b: a + b, torch.zeros(1, 3).expand(2, 3), padded)
    assert [n.value.stride for n in graph.nodes[:2]] == [(0, 1), (8, 1)]


def test_unbacked_value():
    """.item() under capture_scalar_outputs is an unbacked float without a hint."""
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        graph = graph_of(lambda x: x * x.sum().item(), torch.randn(3))
    value = by_target(graph, "item").value
    assert isinstance(value, SymFloat)
    assert value.hint is None
    assert any(s.unbacked and s.name == value.expr for s in graph.symbols)


def test_script_objects_do_not_fail():
    """A generator, which torch cannot trace as a value, is opaque."""
    assert read(torch.Generator()) == Opaque("torch._C.Generator")


def test_node_without_value():
    """setitem and the output have no value of their own."""

    def fn(x):
        y = x.clone()
        y[0] = 1
        return y

    graph = graph_of(fn, torch.randn(3))
    assert by_target(graph, "operator.setitem").value is None
    assert node(graph, "output").value is None
