"""Graphs and generated code that come as text: what torch prints is read back as the live graph reads."""

from __future__ import annotations

import inspect

import msgspec
import pytest
import torch
from msgspec.structs import replace
from torch._dynamo.backends.common import aot_autograd

from peek_backend.capture.graphs import read_graph
from peek_backend.capture.kernels import kernel_nodes, parse_code
from peek_backend.capture.printed import parse_graph
from peek_backend.capture.provenance import Origin, Trail
from peek_backend.capture.stagereader import template_of
from peek_backend.model import GraphRecord, Leaf, NodeRecord, TensorMeta

from .helpers import Small

# As AOTAutograd prints them; torch 2.8 has one way only.
EXPANDED = (
    {"expanded_def": True}
    if "expanded_def" in inspect.signature(torch.fx.GraphModule.print_readable).parameters
    else {}
)
EMPTY = GraphRecord("0/0", "dynamo", (), ())


def graphs_of(fn, *args, dynamic=None):
    """(text as torch prints it, record of the live graph) of each graph that AOTAutograd makes of ``fn``."""
    found = []

    def take(gm, _inputs):
        text = gm.print_readable(print_output=False, include_stride=True, include_device=True, **EXPANDED)
        found.append((text, read_graph(gm)))
        return torch._functorch.aot_autograd.make_boxed_func(gm.forward)

    def partition(gm, inputs, **kwargs):
        take(gm, None)
        return torch._functorch.partitioners.default_partition(gm, inputs, **kwargs)

    backend = aot_autograd(fw_compiler=take, partition_fn=partition)
    results = torch.compile(fn, backend=backend, dynamic=dynamic)(*args)
    tensors = [t for t in torch.utils._pytree.tree_leaves(results) if t.requires_grad]
    if tensors:
        sum(t.sum() for t in tensors).backward()
    return found


def branches(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda a: a.sin() + 1, lambda a: a * 2, (x,))


def sizes(x: torch.Tensor) -> torch.Tensor:
    return x.new_zeros(x.shape[0] * 2, 3) + x.shape[0] // 2 + x.view(-1)[:1] * float("inf")


CASES = [
    pytest.param(Small(), (torch.ones(4, 8),), None, id="training"),
    pytest.param(branches, (torch.ones(3),), None, id="bodies"),
    pytest.param(sizes, (torch.ones(6, 4, requires_grad=True),), True, id="symbols"),
    pytest.param(
        lambda x: x.to(torch.float64, memory_format=torch.contiguous_format).max(0),
        (torch.ones(2, 3),),
        None,
        id="kwargs",
    ),
]


@pytest.mark.parametrize(("fn", "args", "dynamic"), CASES)
def test_printed_graphs_read_as_live_ones(fn, args, dynamic):
    """Name, op, target, arguments, shapes, dtypes, strides and lines of every node are those of the live graph."""
    graphs = graphs_of(fn, *args, dynamic=dynamic)
    assert graphs
    for text, live in graphs:
        parsed = parse_graph(text, template_of(EMPTY, "forward"))
        assert [plain(n) for n in parsed.nodes] == [plain(n) for n in live.nodes]
        assert [c.name for c in parsed.children] == [c.name for c in live.children]
        for mine, theirs in zip(parsed.children, live.children, strict=True):
            assert [plain(n) for n in mine.nodes] == [plain(n) for n in theirs.nodes]


def plain(node):
    """What a printed graph tells of a node. An input's target may be spelled otherwise than its name, and a size has no hint."""
    value = node.value
    if isinstance(value, TensorMeta):
        value = (value.dtype, value.shape, value.stride, value.device)
    else:
        value = getattr(value, "expr", None)
    place = (
        (node.source.file, node.source.line)
        if node.source is not None and node.op.startswith("call")
        else None
    )
    arguments = (node.args, node.kwargs) if node.op != "placeholder" else None
    return (
        node.name,
        node.op,
        node.target if node.op.startswith("call") else None,
        arguments,
        value,
        node.body,
        place,
    )


@pytest.mark.parametrize("text", ["", "class G:\n    pass", "x = ", "class G:\n  def f(self):\n    return 1"])
def test_other_text_is_refused(text):
    """What is no printed graph raises SyntaxError or ValueError, and nothing else."""
    with pytest.raises((SyntaxError, ValueError)):
        parse_graph(text, EMPTY)


CODE = """
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()
cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*', 'float*'], '''
int main() { return 0; }
''')
triton_poi_1 = async_compile.triton('triton_poi_1', '''def triton_poi_1(): pass''')

class Runner:
    def call(self, args):
        primals_1, primals_2 = args
        args.clear()
        assert_size_stride(primals_1, (4, 8), (8, 1), 'input')
        with torch.cuda._DeviceGuard(0):
            buf0 = empty_strided_cpu((4, 8), (8, 1), torch.float32)
            # Topologically Sorted Source Nodes: [linear, relu], Original ATen: [aten.addmm]
            extern_kernels.addmm(primals_1, primals_2, reinterpret_tensor(primals_1, (8, 8), (1, 8), 0), alpha=1, out=buf0)
            del primals_1
            buf1 = empty_strided_cuda((4, ), (1, ), torch.float64)
            triton_poi_1.run(buf0, buf1, 32, stream=stream0)
            buf2 = buf1; del buf1  # reuse
            cpp_fused_add_0(buf0, buf2)
            buf3 = torch.ops.aten.cumsum.default(buf2, 0)
            buf4 = buf3
            cpp_fused_add_0(buf0, buf4)
        return (buf0, reinterpret_tensor(buf4, (32, ), (1, ), 0), )
"""


def test_kernel_calls():
    """Each call of a kernel is a node in order: what it reads, what it is the first to write, the nodes that a comment names."""
    code = parse_code(CODE)
    assert code.inputs == ("primals_1", "primals_2")
    assert [c.name for c in code.calls] == [
        "extern_kernels.addmm", "triton_poi_1", "cpp_fused_add_0", "torch.ops.aten.cumsum.default", "cpp_fused_add_0",
    ]  # fmt: skip
    assert [c.writes for c in code.calls] == [("buf0",), ("buf1",), ("buf2",), ("buf3",), ()]
    assert [c.sources for c in code.calls] == [("linear", "relu"), (), (), (), ()]
    nodes = kernel_nodes(code)
    assert [n.name for n in nodes if n.op == "call_function"][2:] == [
        "cpp_fused_add_0", "torch_ops_aten_cumsum_default", "cpp_fused_add_0_1",
    ]  # fmt: skip
    assert nodes[3].args == (Leaf(node=2), "buf1")
    assert (nodes[3].value.shape, nodes[3].value.dtype, nodes[3].value.device) == ((4,), "float64", "cuda")
    assert nodes[-1].args[0][0] == Leaf(node=2)


POST_GRAD = """
class G(torch.nn.Module):
    def forward(self, arg0_1: "f32[4][1]cpu"):
        exp: "f32[4][1]cpu" = torch.ops.aten.exp.default(arg0_1)
        scale: "f32[4][1]cpu" = torch.ops.lib.scale.default(exp)
        sort = torch.ops.aten.sort.default(scale)
        getitem: "f32[4][1]cpu" = sort[0]
        mul: "f32[4][1]cpu" = torch.ops.aten.mul.Tensor(getitem, 2)
        return (mul,)
"""
OTHERS_CODE = """
cpp_fused_exp_0 = async_compile.cpp_pybinding([], '''''')
cpp_fused_mul_1 = async_compile.cpp_pybinding([], '''''')

def call(args):
    arg0_1, = args
    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)
    # Topologically Sorted Source Nodes: [SOURCES], Original ATen: [aten.exp]
    cpp_fused_exp_0(arg0_1, buf0)
    buf1 = torch.ops.CALLED.default(buf0)
    buf2 = torch.ops.aten.sort.default(buf1)
    buf3 = empty_strided_cpu((4, ), (1, ), torch.float32)
    cpp_fused_mul_1(buf2, buf3)
    return (buf3, )
"""


def nodes_of_kernels(called, sources="exp"):
    """For each kernel of the code the names of its origins."""
    dynamo = replace(EMPTY, nodes=(NodeRecord(0, "exp", "call_function", "torch.exp", (), {}, None, None),))
    post_grad = parse_graph(POST_GRAD, template_of(EMPTY, "post_grad"))
    trail = Trail(dynamo)
    trail.add_record("post_grad", "0/0 post_grad", post_grad, [Origin()] * len(post_grad.nodes))
    code = parse_code(OTHERS_CODE.replace("CALLED", called).replace("SOURCES", sources))
    nodes = kernel_nodes(code)
    origins = trail.kernels(nodes, code, post_grad, None)
    names = {"0/0": dynamo.nodes, "0/0 post_grad": post_grad.nodes}
    return [
        [f"{key}: {names[key][i].name}" for key, i in origin.places]
        for node, origin in zip(nodes, origins, strict=True)
        if node.op == "call_function"
    ]


def test_kernels_of_code_from_the_cache():
    """Ops of other libraries are calls of their nodes, which tells what the kernels around them compute."""
    assert nodes_of_kernels("lib.scale") == [
        ["0/0 post_grad: exp"],
        ["0/0 post_grad: scale"],
        ["0/0 post_grad: sort"],
        ["0/0 post_grad: mul"],
    ]


def test_comments_of_another_program_are_not_believed():
    """Where the code alone does not tell, its comments do, unless they name what this program does not have."""
    assert nodes_of_kernels("lib.unknown")[0] == ["0/0: exp"]
    assert nodes_of_kernels("lib.unknown", "exp, of_another")[0] == []


def test_code_without_a_call_is_refused():
    """A module that calls nothing raises ValueError."""
    with pytest.raises(ValueError, match="no function 'call'"):
        parse_code("x = 1")


def test_records_of_texts_are_plain():
    """A parsed graph goes to JSON and back unchanged."""
    ((text, _),) = graphs_of(branches, torch.ones(3))
    record = parse_graph(text, template_of(EMPTY, "inference"))
    assert msgspec.json.decode(msgspec.json.encode(record), type=GraphRecord) == record
