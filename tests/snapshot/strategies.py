"""Hypothesis strategies for snapshots: every kind of type, argument and entry, with hostile names in all of them."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from peek_backend.model import snapshot as m
from peek_backend.snapshot.graphfile_symbols import symbols_used
from peek_backend.snapshot.graphfile_text import keyword, string

HOSTILE = [
    "", " ", "-", "x", "x.y", "batch[0]['ids']", "s0", "u12", "None", "True", "nan", "torch.float32", "a b", "a  b",
    " x ", "`x`", "%x", "@x", "x = y", "f(x)", "a, b", "a=b", "a:b", '"q"', '\\', '\\u0020', '\x00', '\n', '\r\n', '\t',
    '\x1b[31m', '\u2028', '\u202e', '\ud800', "é", "日本", "🔥", "</script>", "| a |", "->", "{", "in [2, ∞]",
    "f ▸ resume#1", "x SKIPPED: y", "because", "   at f:g", "graph f", "out", "<<<<<<<", "#", "# x", "__", "9", "1e5",
    "٣", "s٣", "layers.0.attn", "self.fc1", "a.", ".a", "...", "f.<locals>.g", "<lambda>", "x" * 3000,
]  # fmt: skip
NAMES = st.deferred(lambda: st.sampled_from(HOSTILE) | st.text(max_size=12))
EXPRESSIONS = (
    st.sampled_from(["s0", "2*s0", "s0*(s1 + 1)", "Max(1, s0)//2", "4", "-s0", "s0 + 1)", "(", "a, b"])
    | NAMES
)
DIMS = st.integers(-1, 2**70) | EXPRESSIONS
SHAPES = st.lists(DIMS, max_size=3).map(tuple)


def pairs_of_items(items):
    return st.lists(st.tuples(NAMES, items), max_size=3).map(tuple)


def tensors(inner):
    return st.builds(
        m.TensorType,
        dtype=st.sampled_from(
            ["f32", "b8", "i64", "Size", "None", "Nonesuch", "tuple", "odd dtype", "a[", ""]
        )
        | NAMES,
        shape=SHAPES,
        grad=st.booleans(),
        stride=st.none() | SHAPES,
        offset=st.just(0) | DIMS,
        device=st.none() | st.sampled_from(["cuda:0", "meta", "cpu", ""]) | NAMES,
        layout=st.just("") | NAMES,
        flags=st.lists(st.sampled_from(["conj", "neg"]) | NAMES, max_size=2).map(tuple),
        subclass=st.just("") | NAMES,
        inner=st.just(()) | pairs_of_items(inner),
    )


@st.composite
def tuples(draw, inner):
    items = tuple(draw(st.lists(inner, max_size=3)))
    named = bool(items) and draw(st.booleans())
    fields = tuple(draw(NAMES) for _ in items) if named else ()
    return m.TupleType(
        items, draw(st.sampled_from(["tuple", "list", "torch.return_types.max", "dict"]) | NAMES), fields
    )


def types():
    leaves = (
        st.none()
        | st.builds(m.NoneType)
        | st.builds(m.SymType, st.sampled_from(["SymInt", "SymFloat", "SymBool"]), EXPRESSIONS)
        | st.builds(m.ScalarType, NAMES, NAMES)
        | st.builds(m.SizeType, SHAPES)
        | st.builds(m.OpaqueType, NAMES, NAMES)
    )
    return st.recursive(leaves | tensors(leaves), lambda inner: tensors(inner) | tuples(inner), max_leaves=6)


TYPES = types()

FLOATS = st.sampled_from([float("nan"), float("inf"), -float("inf"), 0.1, -0.0, 1e300, 5e-324]) | st.floats()
LEAVES = st.sampled_from(
    ["None", "True", "False", "...", "torch.float32", "torch.bfloat16", "s0", "u3", m.SLOT]
) | (
    st.integers(-(2**80), 2**80).map(str)
    | FLOATS.map(repr)
    | NAMES.map(string)
    | st.tuples(
        st.sampled_from(["device", "layout", "memory_format", "complex", "sym", "function", "repr"]), NAMES
    ).map(lambda p: f"{p[0]}({string(p[1])})")
)


def values():
    """Written argument values, nested lists, dicts and slices among them."""

    def nest(inner):
        items = st.lists(inner, max_size=4)
        return (
            items.map(lambda v: f"[{', '.join(v)}]")
            | st.lists(st.tuples(inner, inner), max_size=3).map(
                lambda v: f"{{{', '.join(f'{a}: {b}' for a, b in v)}}}"
            )
            | st.tuples(inner, inner, inner).map(lambda v: f"slice({', '.join(v)})")
        )

    return st.recursive(LEAVES, nest, max_leaves=8)


VALUES = values()


@st.composite
def calls(draw, operands: int, bodies: range) -> m.Call:
    """A call whose slots refer to what stands above it, or to one of ``bodies``."""
    parts = draw(st.lists(VALUES, max_size=3))
    parts += [f"{keyword(draw(NAMES))}={draw(VALUES)}" for _ in range(draw(st.integers(0, 2)))]
    template = ", ".join(parts)
    known = [*[-1 - body for body in bodies], *range(operands)]
    if not known:
        template = template.replace(m.SLOT, "7")
    indices = st.sampled_from(known) if known else st.nothing()
    return m.Call(template, tuple(draw(indices) for _ in range(template.count(m.SLOT))))


PLACES = st.builds(m.Place, NAMES, NAMES, NAMES)
TARGETS = (
    st.sampled_from(["F.linear", ".view", "operator.add", "get_attr[a.b]", "aten.add.Tensor", "a b(c)"])
    | NAMES
)


@st.composite
def sections(draw, bodies: range):
    """Inputs, nodes and output of one graph, which may call ``bodies``."""
    names = draw(st.lists(NAMES, max_size=4, unique=True))
    kinds = st.sampled_from(["", *m.INPUT_KINDS])
    inputs = tuple(m.Input(name, draw(TYPES), draw(kinds)) for name in names)
    labels = draw(st.lists(NAMES | st.sampled_from(["a.b", "a.b_1", "relu"]), max_size=5, unique=True))
    nodes = []
    pool = draw(st.lists(st.none() | PLACES, min_size=1, max_size=2))
    for index, label in enumerate(labels):
        call = draw(calls(len(inputs) + index, bodies))
        place = draw(st.sampled_from(pool))
        nodes.append(m.Node(label, draw(TARGETS), call.template, call.operands, draw(TYPES), place))
    return inputs, tuple(nodes), draw(calls(len(inputs) + len(nodes), bodies))


NUMBERS = st.none() | st.integers(-(2**65), 2**65) | st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def symbols(draw) -> m.Symbol:
    """A symbol with a range that is not empty."""
    lower, upper = draw(NUMBERS), draw(NUMBERS)
    if lower is not None and upper is not None and lower > upper:
        lower, upper = upper, lower
    sources = tuple(draw(st.lists(NAMES, max_size=2)))
    return m.Symbol(draw(NAMES), sources, lower, upper, draw(st.just("int") | NAMES.filter(bool)))


def declared(graph: m.Graph) -> m.Graph:
    """The graph with a line for each symbol that it speaks of."""
    known = {symbol.name for symbol in graph.symbols}
    more = [m.Symbol(name) for name in sorted(symbols_used(graph) - known)]
    return replace(graph, symbols=(*graph.symbols, *more))


@st.composite
def graphs(draw) -> m.Graph:
    names = draw(st.lists(NAMES, max_size=2, unique=True))
    # A body calls only those behind it, so that none calls itself.
    bodies = tuple(m.Body(name, *draw(sections(range(k + 1, len(names))))) for k, name in enumerate(names))
    inputs, nodes, output = draw(sections(range(len(names))))
    graph = m.Graph(
        frame=draw(NAMES),
        resume=draw(st.integers(0, 3)),
        variant=draw(st.integers(1, 3)),
        call=draw(st.integers(0, 2)),
        stage=draw(st.sampled_from(["dynamo", "joint", "post_grad"]) | NAMES),
        because=draw(NAMES),
        symbols=tuple(draw(st.lists(symbols(), max_size=2, unique_by=lambda symbol: symbol.name))),
        guards=tuple([f"s0 > {name}" for name in draw(st.lists(NAMES, max_size=2, unique=True))]),
        inputs=inputs,
        nodes=nodes,
        output=output,
        bodies=bodies,
    )
    return declared(graph)


def in_order(entries: list[m.Entry]) -> tuple[m.Entry, ...]:
    """Entries without a graph that is there twice, and with no recompile of what was not compiled."""
    compiles: set[tuple] = set()
    keys: set[tuple] = set()
    found: list[m.Entry] = []
    for drawn in entries:
        entry = drawn
        if isinstance(entry, m.Graph):
            if (entry.frame, entry.resume, entry.variant - 1) not in compiles:
                entry = replace(entry, variant=1)
            key = (entry.frame, entry.resume, entry.variant, entry.stage, entry.call)
            if key in keys:
                continue
            keys.add(key)
            compiles.add(key[:3])
        found.append(entry)
    return tuple(found)


VERSIONS = st.tuples(st.integers(0, 99), st.integers(0, 99)).map(lambda pair: f"{pair[0]}.{pair[1]}")
ENV = st.fixed_dictionaries(
    {
        "torch": VERSIONS | st.just("unknown"),
        "py": VERSIONS,
        "device": st.sampled_from(["cpu", "cuda:0", "meta"]),
        "grad": st.sampled_from(["on", "off", "mixed"]),
    },
    optional={"dynamic": st.just("on") | NAMES.filter(bool).map(lambda name: f"mark({name}:0)"), "run": NAMES},
).flatmap(lambda env: st.permutations(list(env.items())).map(tuple))
COSTS = st.dictionaries(
    st.sampled_from(["flops", "bytes", "peak_memory", "parameters"]), st.integers(0, 2**80)
)


def snapshots():
    breaks = st.builds(m.Break, NAMES, PLACES, NAMES)
    skipped = st.builds(m.Skipped, NAMES, st.sampled_from(m.SKIPPED_STATES), NAMES, st.none() | PLACES)
    entries = st.lists(graphs() | breaks | skipped, max_size=3).map(in_order)
    notes = st.lists(NAMES, max_size=2, unique=True).map(tuple)
    return st.builds(m.Snapshot, NAMES, ENV, notes, entries, COSTS.map(lambda cost: tuple(cost.items())))
