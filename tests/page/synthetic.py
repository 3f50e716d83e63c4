"""Records shaped like a Llama, at any size, built by hand: no torch, the same nodes every time.

``transformer(nodes)`` gives one Dynamo graph of about ``nodes`` nodes; ``capture`` puts it in a CaptureRecord with
frames, breaks, recompiles, symbols and guards, so that every view of the page has something to show.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from peek_backend.model import (
    SCHEMA_VERSION,
    BreakInfo,
    CaptureRecord,
    Environment,
    Fact,
    FailedGuard,
    FrameRecord,
    GraphRecord,
    GuardInfo,
    Leaf,
    NodeRecord,
    Phase,
    RecompileInfo,
    Source,
    StackFrame,
    SymbolInfo,
    SymInt,
    TensorMeta,
)

FILE = "/srv/app/modeling_llama.py"
NODES_A_LAYER = 60
VIEWS = frozenset(("view", "transpose", "operator.getitem"))
HIDDEN, HEADS, HEAD_DIM, FFN, VOCAB = 512, 8, 64, 1376, 32000


def tensor(*shape: int | str, dtype: str = "float32", flags: tuple[str, ...] = ()) -> TensorMeta:
    """A contiguous tensor; strides are right where every size is an int, else left as texts."""
    stride, step = [], "1"
    for size in reversed(shape):
        stride.append(int(step) if step.isdigit() else step)
        step = str(int(step) * size) if step.isdigit() and isinstance(size, int) else f"{size}*{step}"
    return TensorMeta(shape, dtype, tuple(reversed(stride)), "cpu", requires_grad=bool(flags), flags=flags)


@dataclass
class Builder:
    """Collects nodes; ``module`` is where the next op is called from."""

    nodes: list[NodeRecord] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    module: str = ""

    def add(self, op, target, args, value, source, name=None) -> Leaf:
        base = name or target.rsplit(".", 1)[-1]
        count = self.names.get(base, 0)
        self.names[base] = count + 1
        label = f"{base}_{count}" if count else base
        if isinstance(value, TensorMeta):
            value = replace(value, storage=self.storage(target, args))
        self.nodes.append(NodeRecord(len(self.nodes), label, op, target, tuple(args), {}, value, source))
        return Leaf(node=len(self.nodes) - 1)

    def storage(self, target: str, args) -> int:
        """A view is of its first argument's storage, all else has one of its own."""
        base = self.nodes[args[0].node].value if target in VIEWS else None
        return base.storage if base is not None else len(self.nodes)

    def input(self, name: str, value, kind: str = "parameter") -> Leaf:
        return self.add(
            "placeholder",
            name.replace(".", "_"),
            (),
            value,
            Source(input=name, input_kind=kind, origin=f"L['{name}']"),
        )

    def op(self, target: str, args, value, line: int, code: str) -> Leaf:
        source = Source(
            file=FILE,
            line=line,
            function="forward",
            code=code,
            module=self.module,
            call=self.module,
            caller=0,
        )
        kind = "call_method" if target.startswith(".") else "call_function"
        return self.add(kind, target.lstrip("."), args, value, source)


def norm(b: Builder, x: Leaf, name: str, seq) -> Leaf:
    """Eight nodes of an RMSNorm and its weight."""
    wide = tensor(1, seq, HIDDEN)
    weight = b.input(f"{name}.weight", tensor(HIDDEN, flags=("parameter",)))
    outer, b.module = b.module, name
    y = b.op(
        ".to", (x, Leaf(dtype="torch.float32")), wide, 62, "hidden_states = hidden_states.to(torch.float32)"
    )
    p = b.op(".pow", (y, 2), wide, 63, "variance = hidden_states.pow(2).mean(-1, keepdim=True)")
    m = b.op(
        ".mean", (p, -1), tensor(1, seq, 1), 63, "variance = hidden_states.pow(2).mean(-1, keepdim=True)"
    )
    line = "hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)"
    a = b.op("operator.add", (m, 1e-6), tensor(1, seq, 1), 64, line)
    r = b.op("torch.rsqrt", (a,), tensor(1, seq, 1), 64, line)
    y = b.op("operator.mul", (y, r), wide, 64, line)
    y = b.op(
        ".to",
        (y, Leaf(dtype="torch.float32")),
        wide,
        65,
        "return self.weight * hidden_states.to(input_dtype)",
    )
    y = b.op("operator.mul", (weight, y), wide, 65, "return self.weight * hidden_states.to(input_dtype)")
    b.module = outer
    return y


def linear(b: Builder, x: Leaf, name: str, seq, out: int, inp: int, line: int, code: str) -> Leaf:
    weight = b.input(f"{name}.weight", tensor(out, inp, flags=("parameter",)))
    outer, b.module = b.module, name
    y = b.op("torch.nn.functional.linear", (x, weight, None), tensor(1, seq, out), line, code)
    b.module = outer
    return y


def rope(b: Builder, x: Leaf, cos: Leaf, sin: Leaf, seq) -> Leaf:
    """Seven nodes of a rotary embedding."""
    full, half = tensor(1, HEADS, seq, HEAD_DIM), tensor(1, HEADS, seq, HEAD_DIM // 2)
    line = "q_embed = (q * cos) + (rotate_half(q) * sin)"
    a = b.op("operator.mul", (x, cos), full, 131, line)
    lo = b.op(
        "operator.getitem",
        (x, (Leaf(ellipsis=True), Leaf(slice=(None, 32, None)))),
        half,
        105,
        "x1 = x[..., : x.shape[-1] // 2]",
    )
    hi = b.op(
        "operator.getitem",
        (x, (Leaf(ellipsis=True), Leaf(slice=(32, None, None)))),
        half,
        106,
        "x2 = x[..., x.shape[-1] // 2 :]",
    )
    n = b.op("operator.neg", (hi,), half, 107, "return torch.cat((-x2, x1), dim=-1)")
    c = b.op("torch.cat", ((n, lo), -1), full, 107, "return torch.cat((-x2, x1), dim=-1)")
    m = b.op("operator.mul", (c, sin), full, 131, line)
    return b.op("operator.add", (a, m), full, 131, line)


def attention(b: Builder, x: Leaf, cos: Leaf, sin: Leaf, mask: Leaf, name: str, seq) -> Leaf:
    outer, b.module = b.module, name
    heads = []
    for line, part in ((239, "q_proj"), (240, "k_proj"), (241, "v_proj")):
        code = f"{part} = self.{part}(hidden_states).view(hidden_shape).transpose(1, 2)"
        y = linear(b, x, f"{name}.{part}", seq, HIDDEN, HIDDEN, line, code)
        y = b.op(".view", (y, (1, seq, -1, HEAD_DIM)), tensor(1, seq, HEADS, HEAD_DIM), line, code)
        heads.append(b.op(".transpose", (y, 1, 2), tensor(1, HEADS, seq, HEAD_DIM), line, code))
    q, k = rope(b, heads[0], cos, sin, seq), rope(b, heads[1], cos, sin, seq)
    y = b.op(
        "torch.nn.functional.scaled_dot_product_attention", (q, k, heads[2], mask),
        tensor(1, HEADS, seq, HEAD_DIM), 254, "attn_output = sdpa(query, key, value, attn_mask=attention_mask)",
    )  # fmt: skip
    y = b.op(
        ".transpose",
        (y, 1, 2),
        tensor(1, seq, HEADS, HEAD_DIM),
        255,
        "attn_output = attn_output.transpose(1, 2)",
    )
    y = b.op(
        ".reshape",
        (y, (1, seq, HIDDEN)),
        tensor(1, seq, HIDDEN),
        256,
        "attn_output = attn_output.reshape(*input_shape, -1)",
    )
    y = linear(b, y, f"{name}.o_proj", seq, HIDDEN, HIDDEN, 257, "attn_output = self.o_proj(attn_output)")
    b.module = outer
    return y


def mlp(b: Builder, x: Leaf, name: str, seq) -> Leaf:
    outer, b.module = b.module, name
    code = "down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))"
    gate = linear(b, x, f"{name}.gate_proj", seq, FFN, HIDDEN, 158, code)
    b.module = f"{name}.act_fn"
    act = b.op("torch.nn.functional.silu", (gate,), tensor(1, seq, FFN), 158, code)
    b.module = name
    up = linear(b, x, f"{name}.up_proj", seq, FFN, HIDDEN, 158, code)
    y = b.op("operator.mul", (act, up), tensor(1, seq, FFN), 158, code)
    y = linear(b, y, f"{name}.down_proj", seq, HIDDEN, FFN, 158, code)
    b.module = outer
    return y


def layer(b: Builder, x: Leaf, cos: Leaf, sin: Leaf, mask: Leaf, name: str, seq) -> Leaf:
    b.module = name
    wide = tensor(1, seq, HIDDEN)
    y = norm(b, x, f"{name}.input_layernorm", seq)
    y = attention(b, y, cos, sin, mask, f"{name}.self_attn", seq)
    x = b.op("operator.add", (x, y), wide, 300, "hidden_states = residual + hidden_states")
    y = norm(b, x, f"{name}.post_attention_layernorm", seq)
    y = mlp(b, y, f"{name}.mlp", seq)
    return b.op("operator.add", (x, y), wide, 306, "hidden_states = residual + hidden_states")


CLASSES = {
    "input_layernorm": "LlamaRMSNorm", "post_attention_layernorm": "LlamaRMSNorm", "norm": "LlamaRMSNorm",
    "self_attn": "LlamaAttention", "mlp": "LlamaMLP", "act_fn": "SiLU", "embed_tokens": "Embedding", "layers": "ModuleList",
    "rotary_emb": "LlamaRotaryEmbedding",
}  # fmt: skip


def class_of(path: str) -> str:
    last = path.rsplit(".", 1)[-1]
    return CLASSES.get(last) or ("LlamaDecoderLayer" if last.isdigit() else "Linear")


def transformer(nodes: int, *, seq: int | str = "s0") -> GraphRecord:
    """About ``nodes`` nodes: embedding, rotary cos and sin, as many layers as fit, a final norm and a head."""
    b = Builder()
    size = b.input("s0", SymInt("s0", 16), "size") if isinstance(seq, str) else None
    ids = b.input("input_ids", tensor(1, seq, dtype="int64"), "argument")
    mask = b.input("attention_mask", tensor(1, 1, seq, seq, dtype="bool"), "argument")
    table = b.input("embed_tokens.weight", tensor(VOCAB, HIDDEN, flags=("parameter",)))
    b.module = "embed_tokens"
    x = b.op(
        "torch.nn.functional.embedding",
        (ids, table),
        tensor(1, seq, HIDDEN),
        370,
        "inputs_embeds = self.embed_tokens(input_ids)",
    )
    b.module = "rotary_emb"
    inv = b.input("rotary_emb.inv_freq", tensor(HEAD_DIM // 2), "buffer")
    pos = b.op(
        "torch.arange",
        (0, size if size is not None else seq),
        tensor(seq, dtype="int64"),
        375,
        "position_ids = torch.arange(seq)",
    )
    freqs = b.op(
        "torch.outer", (pos, inv), tensor(seq, HEAD_DIM // 2), 90, "freqs = inv_freq_expanded @ position_ids"
    )
    emb = b.op(
        "torch.cat",
        ((freqs, freqs), -1),
        tensor(seq, HEAD_DIM),
        91,
        "emb = torch.cat((freqs, freqs), dim=-1)",
    )
    cos = b.op(".cos", (emb,), tensor(seq, HEAD_DIM), 92, "cos = emb.cos()")
    sin = b.op(".sin", (emb,), tensor(seq, HEAD_DIM), 93, "sin = emb.sin()")
    count = max(0, (nodes - 30) // NODES_A_LAYER)
    for i in range(count):
        x = layer(b, x, cos, sin, mask, f"layers.{i}", seq)
    if count == 0:
        b.module = ""
        x = b.op("operator.mul", (x, cos), tensor(1, seq, HIDDEN), 299, "x = x * cos")
        x = b.op("operator.add", (x, sin), tensor(1, seq, HIDDEN), 299, "x = x + sin")
    b.module = ""
    x = norm(b, x, "norm", seq) if nodes > 25 else x
    x = linear(b, x, "lm_head", seq, VOCAB, HIDDEN, 480, "logits = self.lm_head(hidden_states)")
    b.add("output", "output", ((x,),), None, None)
    modules = sorted({n.source.module for n in b.nodes if n.source and n.source.module} | {"layers"})
    paths = {p for m in modules for p in (".".join(m.split(".")[: k + 1]) for k in range(m.count(".") + 1))}
    return GraphRecord(
        "0/0", "dynamo", tuple(b.nodes), (), name="LlamaForCausalLM.forward", file=FILE, line=460,
        modules={p: class_of(p) for p in sorted(paths)}, symbols=symbols() if isinstance(seq, str) else (),
        guards=guards(), stacks=((StackFrame("/srv/app/train.py", 12, "<module>", "out = model(input_ids)"),),), frame=0,
        state={"grad_mode": "True"}, relations=("s0 >= 2",),
    )  # fmt: skip


def symbols() -> tuple[SymbolInfo, ...]:
    line = StackFrame(FILE, 401, "forward", "if seq_len > self.max_seq_len_cached:")
    facts = (
        Fact("mark", "marked dynamic by mark_dynamic", StackFrame("/srv/app/train.py", 9)),
        Fact("guard", "s0 <= 4096", line),
    )
    pinned = Fact("specialised", "specialised to 1 by the guard x.shape[0] == 1", line)
    return (
        SymbolInfo("s0", ("input_ids.shape[1]", "attention_mask.shape[2]"), 16, 2, 4096, facts=facts),
        SymbolInfo("s1", ("input_ids.shape[0]",), 1, 1, 1, replaced_by="1", facts=(pinned,)),
    )


def guards() -> tuple[GuardInfo, ...]:
    line = StackFrame(FILE, 401, "forward", "if seq_len > self.max_seq_len_cached:")
    return (
        GuardInfo("TENSOR_MATCH", "input_ids is a Tensor of int64 on cpu, shape [1, None]", "input_ids"),
        GuardInfo("SHAPE_ENV", "2 <= input_ids.shape[1] <= 4096", "input_ids", line),
        GuardInfo("EQUALS_MATCH", "self.config.use_cache == True", "self.config.use_cache", line),
        GuardInfo("GRAD_MODE", "grad mode is on", "", ambient=True),
    )


USER = "/srv/app/train.py"
STACK = (
    StackFrame(USER, 12, "<module>", "out = model(ids)"),
    StackFrame(USER, 30, "generate", "print('step', i)"),
)


def capture(nodes: int, **kwargs) -> CaptureRecord:
    """A whole capture: one big graph, a resume graph after a break, a skipped frame, two recompiles."""
    environment = Environment(
        "0.1.0", "2.13.0", "3.11.2", "Linux x86_64", ("train.py",), settings={"dynamic": "None"}
    )
    graphs = (transformer(nodes, **kwargs), resumed())
    return CaptureRecord(SCHEMA_VERSION, environment, graphs, frames(), breaks(), recompiles())


def resumed() -> GraphRecord:
    """The one op after the break."""
    b = Builder()
    x = b.input("logits", tensor(1, "s0", VOCAB), "argument")
    y = b.op("torch.argmax", (x, -1), tensor(1, "s0", dtype="int64"), 31, "token = logits.argmax(-1)")
    b.add("output", "output", ((y,),), None, None)
    return GraphRecord(
        "1/0", "dynamo", tuple(b.nodes), (), name="generate ▸ resume#1", file=USER, line=31, frame=2,
        symbols=(SymbolInfo("s0", ("logits.shape[1]",), 16, 2, 4096),),
    )  # fmt: skip


def breaks() -> tuple[BreakInfo, ...]:
    """One that splits a frame, one that the user asked for."""
    link = "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html"
    return (
        BreakInfo(
            "Failed to trace builtin operator",
            "Dynamo does not know how to trace print",
            ("Move print out of the compiled region.",),
            "GB0059",
            link,
            "print",
            STACK,
            compile_id="0/0",
            frame=1,
        ),
        BreakInfo(
            "torch.compiler.disable", "the user asked for it", (), context="log", stack=STACK[:1], intent="user",
            frame=3, split=False,
        ),
    )  # fmt: skip


def recompiles() -> tuple[RecompileInfo, ...]:
    """A size that changed, then a number."""
    size = FailedGuard("x.shape[0] == 4", "x.shape[0]", "4", "6", STACK[1], "2/0")
    number = FailedGuard("k == 1", "k", "1", "2", STACK[1], "2/1")
    return (
        RecompileInfo("2/1", 4, 2, (size,), ("f32[4] became f32[s0]",), "torch._dynamo.mark_dynamic(x, 0)"),
        RecompileInfo("2/2", 4, 3, (number,), (), "make k a tensor"),
    )


def frames() -> tuple[FrameRecord, ...]:
    """One of each outcome; the second is resumed by the third."""

    def phases(dynamo: float, aot: float, inductor: float) -> tuple[Phase, ...]:
        return (Phase("dynamo", dynamo), Phase("aot", aot), Phase("inductor", inductor))

    slow, quick = {"0/0": phases(1.31, 0.6, 4.2)}, {"1/0": phases(0.02, 0.05, 0.4)}
    return (
        FrameRecord("LlamaForCausalLM.forward", FILE, 460, compile_ids=("0/0",), phases=slow),
        FrameRecord("generate", USER, 25, "broken", "print", ("1/0",)),
        FrameRecord(
            "generate ▸ resume#1", USER, 31, compile_ids=("1/0",), resume_of=1, resume=1, phases=quick
        ),
        FrameRecord("log", USER, 44, "skipped", "torch.compiler.disable"),
        FrameRecord("step", USER, 52, "limit", "recompile limit (8)", ("2/0", "2/1", "2/2")),
    )


def fan_out(width: int = 10) -> CaptureRecord:
    """One input read by ``width`` products, each taken up one step later than the one before: as many long edges side by side."""
    b = Builder()
    wide = tensor(2, 4)
    x = b.input("x", wide, "argument")
    b.module = "block"
    parts = [b.op("operator.mul", (x, 0.5), wide, 1, "part = x * 0.5") for _ in range(width)]
    y = b.op("torch.relu", (x,), wide, 2, "y = torch.relu(x)")
    for part in parts:
        y = b.op("torch.tanh", (y,), wide, 3, "y = torch.tanh(y) + part")
        y = b.op("operator.add", (y, part), wide, 3, "y = torch.tanh(y) + part")
    return _of_block(b, y, "fan")


def late_mask(steps: int = 8) -> CaptureRecord:
    """A mask in two ops made first and read last, after ``steps`` others."""
    b = Builder()
    wide = tensor(4, 4)
    x = b.input("x", wide, "argument")
    b.module = "block"
    row = b.op("torch.arange", (4,), tensor(4, dtype="int64"), 1, "row = torch.arange(4)")
    mask = b.op(".unsqueeze", (row, 0), tensor(1, 4, dtype="int64"), 2, "mask = row.unsqueeze(0)")
    y = x
    for _ in range(steps):
        y = b.op("torch.tanh", (y,), wide, 3, "y = torch.tanh(y)")
    y = b.op("operator.add", (y, mask), wide, 4, "y = y + mask")
    return _of_block(b, y, "late")


def _of_block(b: Builder, result: Leaf, name: str) -> CaptureRecord:
    """A capture of one graph, all in one module, that gives ``result``; nothing else happened."""
    b.module = ""
    b.add("output", "output", ((result,),), None, None)
    graph = GraphRecord(
        "0/0", "dynamo", tuple(b.nodes), (), name=name, file=FILE, line=1, modules={"block": "Block"}
    )
    return replace(capture(20), graphs=(graph,), frames=(), breaks=(), recompiles=())
