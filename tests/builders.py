"""Records built by hand, for tests that need no torch.

``GraphBuilder`` grows a graph node by node: each method returns the argument that refers to the new node.

    g = GraphBuilder("MLP.forward")
    x = g.input("x", tensor("s0", 8))
    w = g.parameter("fc1.weight", tensor(16, 8, grad=True))
    h = g.call("torch.nn.functional.linear", x, w, value=tensor("s0", 16), module="fc1")
    g.output(h)
    record = capture(g.graph())
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peek_backend.analysis.dims import product
from peek_backend.model import (
    SCHEMA_VERSION,
    Arg,
    CaptureRecord,
    Dim,
    Environment,
    GraphRecord,
    Leaf,
    NodeRecord,
    Source,
    SymbolInfo,
    TensorMeta,
    ValueInfo,
)

HOSTILE = {
    "script": "</script><script>alert(1)</script>",
    "image": "<img src=x onerror=alert(1)>",
    "quotes": "a\"b'c`d",
    "braces": "{a}|{b}->c",
    "pipe": "a|b||c",
    "newline": "a\nb\r\nc\td",
    "escape": "\x1b[31mred\x1b[0m\x07\x9b",
    "direction": "\u202egnp.exe\u2066\u200f",
    "separator": "a\u2028b\u2029c\x85d",
    "emoji": "🔥👩\u200d💻é漢字",
    "markup": "**b** _i_ `c` [t](u) <!-- --> $x$ &amp; \\ ~ ^ # %",
    "surrogate": "a\ud800b",
    "null": "a\x00b",
    "long": "x" * 100_000,
}
"""Texts that some output could mistake for its own syntax, by what they attack."""


def contiguous(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Row-major strides in elements: ``("s0", 4, 2)`` to ``(8, 2, 1)``."""
    return tuple(product(shape[i + 1 :]) for i in range(len(shape)))


def tensor(
    *shape: Dim,
    dtype: str = "float32",
    stride: Sequence[Dim] | None = None,
    device: str = "cpu",
    grad: bool = False,
    **more: Any,
) -> TensorMeta:
    """A tensor, contiguous unless ``stride`` says otherwise; ``more`` are TensorMeta's other fields."""
    strides = contiguous(shape) if stride is None else tuple(stride)
    return TensorMeta(tuple(shape), dtype, strides, device, grad, **more)


def symbol(name: str, *sources: str, hint: int | None = None, lower: int = 2, **more: Any) -> SymbolInfo:
    """A symbol of a graph with its sources (``x.shape[0]``)."""
    return SymbolInfo(name, tuple(sources), hint, lower, **more)


def node(
    index: int,
    name: str,
    op: str = "call_function",
    target: str = "torch.relu",
    *args: Arg,
    **more: Any,
) -> NodeRecord:
    """One node; ``more`` are NodeRecord's other fields (``value``, ``source``, ``kwargs``, ``body``)."""
    fields = {"kwargs": {}, "value": None, "source": None, **more}
    return NodeRecord(index, name, op, target, args, **fields)


def graph(*nodes: NodeRecord, compile_id: str | None = "0/0", **more: Any) -> GraphRecord:
    """A graph of these nodes; ``more`` are GraphRecord's other fields."""
    stage, children = more.pop("stage", "dynamo"), more.pop("children", ())
    return GraphRecord(compile_id, stage, tuple(nodes), tuple(children), **more)


def capture(*graphs: GraphRecord, **more: Any) -> CaptureRecord:
    """A capture of these graphs; ``more`` are CaptureRecord's other fields."""
    environment = more.pop("environment", Environment(peek="0.1.0", torch="2.13.0", python="3.11"))
    return CaptureRecord(SCHEMA_VERSION, environment, tuple(graphs), **more)


class GraphBuilder:
    """Grows one graph; every method that adds a node returns the Leaf that refers to it."""

    def __init__(self, name: str = "", **more: Any):
        self.more = {"name": name, **more}
        self.nodes: list[NodeRecord] = []
        self.modules: dict[str, str] = {}

    def add(self, name: str, op: str, target: str, args: Sequence[Arg] = (), **more: Any) -> Leaf:
        """Any node; ``more`` as for ``node``."""
        self.nodes.append(node(len(self.nodes), name, op, target, *args, **more))
        return Leaf(node=len(self.nodes) - 1)

    def input(self, source: str, value: ValueInfo | None = None, kind: str = "argument") -> Leaf:
        """A placeholder for the input that a person writes as ``source``."""
        name = "".join(c if c.isalnum() and c.isascii() else "_" for c in source[:60])
        name = f"l_{name}_" if kind == "argument" else f"p_{name}"
        where = Source(input=source, input_kind=kind)
        return self.add(name, "placeholder", name, value=value, source=where)

    def parameter(self, source: str, value: ValueInfo | None = None) -> Leaf:
        """A placeholder for a parameter of the module."""
        return self.input(source, value, kind="parameter")

    def call(
        self,
        target: str,
        *args: Arg,
        value: ValueInfo | None = None,
        module: str = "",
        name: str | None = None,
        line: int = 1,
        **kwargs: Arg,
    ) -> Leaf:
        """A call_function node, named after its target and index unless ``name`` is given."""
        name = name or f"{target.rpartition('.')[2]}_{len(self.nodes)}"
        where = Source("model.py", line, "forward", f"line {line}", module=module, call=module)
        return self.add(name, "call_function", target, args, value=value, source=where, kwargs=kwargs)

    def method(self, target: str, *args: Arg, value: ValueInfo | None = None, module: str = "") -> Leaf:
        """A call_method node; the first argument is the receiver."""
        where = Source("model.py", 1, "forward", f".{target}()", module=module, call=module)
        name = f"{target}_{len(self.nodes)}"
        return self.add(name, "call_method", target, args, value=value, source=where)

    def output(self, *values: Arg) -> Leaf:
        """The output node: a flat tuple, as Dynamo makes it."""
        return self.add("output", "output", "output", (tuple(values),))

    def graph(self, **more: Any) -> GraphRecord:
        """The record of what was added so far."""
        return graph(*self.nodes, modules=dict(self.modules), **{**self.more, **more})


def transformer(layers: int, *, name: str = "Decoder.forward", width: Dim = 64) -> GraphRecord:
    """A decoder-shaped graph: embedding, ``layers`` equal blocks of 13 ops, final norm and head."""
    g = GraphBuilder(name, file="model.py", line=10)
    g.modules = {"embed": "Embedding", "norm": "RMSNorm", "head": "Linear"}
    hidden = tensor("s0", 16, width)
    ids = g.input("input_ids", tensor("s0", 16, dtype="int64"))
    table = g.parameter("embed.weight", tensor(1000, width, grad=True))
    weights = []
    for i in range(layers):
        g.modules |= {f"layers.{i}": "Block", f"layers.{i}.attn": "Attention", f"layers.{i}.attn.q": "Linear"}
        g.modules |= {f"layers.{i}.norm": "RMSNorm", f"layers.{i}.mlp": "MLP", f"layers.{i}.mlp.up": "Linear"}
        weights.append(
            [
                g.parameter(f"layers.{i}.{part}.weight", tensor(width, width, grad=True))
                for part in ("attn.q", "mlp.up", "norm")
            ]
        )
    x = g.call("torch.nn.functional.embedding", ids, table, value=hidden, module="embed")
    for i in range(layers):
        x = _block(g, f"layers.{i}", x, weights[i], hidden)
    x = g.call("torch.rsqrt", x, value=hidden, module="norm")
    g.output(g.call("torch.nn.functional.linear", x, table, value=tensor("s0", 16, 1000), module="head"))
    return g.graph(symbols=(symbol("s0", "input_ids.shape[0]", hint=4),))


def _block(g: GraphBuilder, path: str, x: Leaf, weights: Sequence[Leaf], hidden: TensorMeta) -> Leaf:
    """13 ops: norm (4), attention (5), residual, mlp (2), residual."""
    q, up, scale = weights
    h = g.call("_operator.pow", x, 2, value=hidden, module=f"{path}.norm")
    h = g.method("mean", h, -1, value=tensor("s0", 16), module=f"{path}.norm")
    h = g.call("torch.rsqrt", h, value=tensor("s0", 16), module=f"{path}.norm")
    h = g.call("_operator.mul", h, scale, value=hidden, module=f"{path}.norm")
    a = g.call("torch.nn.functional.linear", h, q, value=hidden, module=f"{path}.attn.q")
    b = g.method("view", a, -1, 16, 4, 16, value=tensor("s0", 16, 4, 16), module=f"{path}.attn")
    c = g.method("transpose", b, 1, 2, value=tensor("s0", 4, 16, 16), module=f"{path}.attn")
    d = g.call(
        "torch.nn.functional.scaled_dot_product_attention",
        c,
        c,
        c,
        value=tensor("s0", 4, 16, 16),
        module=f"{path}.attn",
        is_causal=True,
    )
    e = g.method("reshape", d, -1, 16, 64, value=hidden, module=f"{path}.attn")
    r = g.call("_operator.add", x, e, value=hidden, module=path)
    m = g.call("torch.nn.functional.linear", r, up, value=hidden, module=f"{path}.mlp.up")
    m = g.call("torch.nn.functional.silu", m, value=hidden, module=f"{path}.mlp")
    return g.call("_operator.add", r, m, value=hidden, module=path)
