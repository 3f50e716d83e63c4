"""A transformer-like snapshot made by hand, of any size, for diffs and benchmarks."""

from __future__ import annotations

from peek_backend.model.snapshot import Call, Graph, Input, Node, Place, Snapshot, Symbol, TensorType, Type

WIDTH, HEADS, WIDE = 64, 4, 256


class _Builder:
    def __init__(self, batch):
        self.batch = batch
        self.inputs = [Input("x", TensorType("f32", (batch, 16, WIDTH)))]
        self.nodes: list[Node] = []
        self.weights: dict[str, int] = {}

    def weight(self, name: str, *shape: int) -> str:
        self.inputs.append(Input(name, TensorType("f32", shape, grad=True)))
        return name

    def node(self, module: str, op: str, target: str, template: str, operands, type_: Type, code: str) -> str:
        label = f"{module}.{op}".lstrip(".")
        place = Place("model.py", "forward", code)
        self.nodes.append(Node(label, target, template, tuple(operands), type_, place))
        return label

    def graph(self, name: str, output: str) -> Graph:
        """The graph, with names replaced by positions."""
        positions = {entry.name: k for k, entry in enumerate(self.inputs)}
        positions |= {node.label: len(self.inputs) + k for k, node in enumerate(self.nodes)}
        nodes = tuple(
            Node(n.label, n.target, n.template, tuple([positions[o] for o in n.operands]), n.type, n.place)
            for n in self.nodes
        )
        symbols = (Symbol("s0", ("x.shape[0]",), 2),) if self.batch == "s0" else ()
        return Graph(
            name,
            symbols=symbols,
            inputs=tuple(self.inputs),
            nodes=nodes,
            output=Call("\0", (positions[output],)),
        )


def _layer(b: _Builder, at: str, x: str, effects: bool) -> str:
    """One block: attention, then a feed-forward part; 22 nodes, 4 more with effects."""
    batch = b.batch
    flat = TensorType("f32", (batch, 16, WIDTH), grad=True)
    split = TensorType("f32", (batch, 16, HEADS, WIDTH // HEADS), grad=True)
    heads = TensorType("f32", (batch, HEADS, 16, WIDTH // HEADS), grad=True)
    attn, mlp = f"{at}.attn", f"{at}.mlp"
    norm = b.node(
        f"{at}.norm1",
        "layer_norm",
        "F.layer_norm",
        f"\0, [{WIDTH}], \0, None, 1e-05",
        [x, b.weight(f"{at}.norm1.weight", WIDTH)],
        flat,
        "h = self.norm1(x)",
    )
    parts = []
    for part in "qkv":
        weight = b.weight(f"{attn}.{part}.weight", WIDTH, WIDTH)
        linear = b.node(
            f"{attn}.{part}",
            "linear",
            "F.linear",
            "\0, \0, None",
            [norm, weight],
            flat,
            f"{part} = self.{part}(h)",
        )
        view = b.node(
            attn,
            f"view_{part}",
            ".view",
            f"\0, {batch}, 16, {HEADS}, {WIDTH // HEADS}",
            [linear],
            split,
            f"{part} = {part}.view(b, t, n, d)",
        )
        parts.append(
            b.node(
                attn,
                f"transpose_{part}",
                ".transpose",
                "\0, 1, 2",
                [view],
                heads,
                f"{part} = {part}.transpose(1, 2)",
            )
        )
    sdpa = b.node(
        attn,
        "attention",
        "F.scaled_dot_product_attention",
        "\0, \0, \0, dropout_p=0.0, is_causal=True",
        parts,
        heads,
        "y = F.scaled_dot_product_attention(q, k, v)",
    )
    back = b.node(attn, "transpose", ".transpose", "\0, 1, 2", [sdpa], split, "y = y.transpose(1, 2)")
    joined = b.node(
        attn, "reshape", ".reshape", f"\0, {batch}, 16, {WIDTH}", [back], flat, "y = y.reshape(b, t, c)"
    )
    out = b.node(
        f"{attn}.proj",
        "linear",
        "F.linear",
        "\0, \0, None",
        [joined, b.weight(f"{attn}.proj.weight", WIDTH, WIDTH)],
        flat,
        "y = self.proj(y)",
    )
    if effects:
        out = b.node(
            f"{attn}.drop", "dropout", "F.dropout", "\0, 0.1, True, False", [out], flat, "y = self.drop(y)"
        )
    x = b.node(at, "add", "operator.add", "\0, \0", [x, out], flat, "x = x + y")
    norm = b.node(
        f"{at}.norm2",
        "layer_norm",
        "F.layer_norm",
        f"\0, [{WIDTH}], \0, None, 1e-05",
        [x, b.weight(f"{at}.norm2.weight", WIDTH)],
        flat,
        "h = self.norm2(x)",
    )
    wide = TensorType("f32", (batch, 16, WIDE), grad=True)
    up = b.node(
        f"{mlp}.up",
        "linear",
        "F.linear",
        "\0, \0, None",
        [norm, b.weight(f"{mlp}.up.weight", WIDE, WIDTH)],
        wide,
        "h = self.up(h)",
    )
    act = b.node(mlp, "gelu", "F.gelu", '\0, approximate="tanh"', [up], wide, "h = F.gelu(h)")
    scale = b.node(mlp, "mul", "operator.mul", "\0, 0.5", [act], wide, "h = h * 0.5")
    if effects:
        b.node(
            mlp,
            "assert_async",
            "torch._assert_async",
            '\0, "finite"',
            [scale],
            None,
            "torch._assert_async(h)",
        )
        scale = b.node(mlp, "add_", ".add_", "\0, 1.0", [scale], wide, "h.add_(1.0)")
        scale = b.node(mlp, "dropout", "F.dropout", "\0, 0.2, True, False", [scale], wide, "h = self.drop(h)")
    down = b.node(
        f"{mlp}.down",
        "linear",
        "F.linear",
        "\0, \0, None",
        [scale, b.weight(f"{mlp}.down.weight", WIDTH, WIDE)],
        flat,
        "h = self.down(h)",
    )
    return b.node(at, "add_1", "operator.add", "\0, \0", [x, down], flat, "x = x + h")


def transformer(layers: int, *, dynamic: bool = False, effects: bool = False) -> Snapshot:
    """``layers`` equal blocks over an input ``x``.

    ``dynamic`` makes the batch a symbol, ``effects`` adds dropout, asserts and in-place ops.
    """
    builder = _Builder("s0" if dynamic else 8)
    x = "x"
    for layer in range(layers):
        x = _layer(builder, f"layers.{layer}", x, effects)
    graph = builder.graph("Model.forward", x)
    return Snapshot(
        f"transformer[{layers}]",
        (("torch", "2.13"), ("py", "3.11"), ("device", "cpu"), ("grad", "on")),
        (),
        (graph,),
    )
