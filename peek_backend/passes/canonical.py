"""A capture as a snapshot: what differs between equal programs is taken out or put into an order.

Comes in: a CaptureRecord. Goes out: a Snapshot. Symbols are renumbered in the order of the inputs that carry them, resume functions
by their place, labels within their module; inputs keep the names by which people know them; paths become relative,
addresses and node names in messages go.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from peek_backend.model import (
    Arg,
    BreakInfo,
    CaptureRecord,
    Environment,
    FrameRecord,
    GraphRecord,
    Leaf,
    NodeRecord,
    NoneInfo,
    Opaque,
    RecompileInfo,
    ScalarInfo,
    SizeInfo,
    SymBool,
    SymFloat,
    SymInt,
    TensorMeta,
    TupleInfo,
    ValueInfo,
    iter_tensors,
)
from peek_backend.model import snapshot as m
from peek_backend.model.dtypes import DTYPES
from peek_backend.model.values import Dim
from peek_backend.snapshot.graphfile_text import SYMBOL, keyword, string

from .aliases import alias, op_name, without_addresses, without_resume
from .expressions import Expressions, symbols_in

MAX_CODE = 120
"""Characters of a source line that are kept."""
MAX_REASON = 300
"""Characters of a reason that are kept."""
MAX_STRING = 400
"""Characters of a string constant that are shown; a longer one counts by its hash."""

_SEQUENCES = frozenset({"tuple", "list", "immutable_list", "torch.fx.immutable_collections.immutable_list"})
_IDENTITY = re.compile(r"\b\d{9,}\b")
_ON_NODE = re.compile(r"\bnode '[^']*'")
_INTEGER = re.compile(r"-?\d+")
_LIBRARY = re.compile(r".*?[/\\](?:site|dist)-packages[/\\]")
_STDLIB = re.compile(r".*?[/\\]lib[/\\]python3\.\d+[/\\]")
# What torch assumes of every backed size anyway.
_ASSUMED = re.compile(r"\w+ (?:>= [012]|<= int_oo|< int_oo|!= [01])")


def canonicalise(
    record: CaptureRecord,
    *,
    name: str = "",
    root: str = "",
    stages: Sequence[str] = ("dynamo", "fx"),
    env: Mapping[str, str] | None = None,
) -> m.Snapshot:
    """The snapshot of a capture.

    ``name`` is the header's; files below the folder ``root`` keep their path from there; ``stages`` are those whose graphs are
    kept; ``env`` adds to the header (``dynamic=mark(x:0)``). Graphs of abandoned attempts and graphs that never ran are left out.
    """
    graphs = list(_final(record.graphs, stages))
    places = _Places(root)
    frames = _Frames(record.frames, graphs)
    home = _home(graphs)
    reasons = _because(record.recompiles, places)
    built = [_Graph(graph, frames.of(graph), home, places, reasons).build() for graph in graphs]
    entries = list(_entries(record, graphs, built, places))
    notes = [note for graph in built for note in _notes(graph)]
    return m.Snapshot(
        name, _env(record.environment, graphs, home, env or {}), tuple(dict.fromkeys(notes)), tuple(entries)
    )


def _final(graphs: Sequence[GraphRecord], stages: Sequence[str]) -> Iterator[GraphRecord]:
    """Those graphs that ran: of each compile the last attempt."""
    last: dict[tuple, int] = {}
    for graph in graphs:
        key = (graph.compile_id, graph.stage, graph.rank)
        last[key] = max(last.get(key, 0), graph.attempt)
    for graph in graphs:
        final = graph.attempt == last[(graph.compile_id, graph.stage, graph.rank)]
        if graph.stage in stages and final and graph.never_ran is None:
            yield graph


def _home(graphs: Iterable[GraphRecord]) -> str:
    """The device of most inputs, which then goes without saying."""
    devices = Counter(
        t.device for g in graphs for n in g.nodes if n.op == "placeholder" for t in iter_tensors(n.value)
    )
    return devices.most_common(1)[0][0] if devices else "cpu"


def _env(
    environment: Environment, graphs: Sequence[GraphRecord], home: str, extra: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    versions = [(key, ".".join(text.split("+")[0].split(".")[:2])) for key, text in
                (("torch", environment.torch), ("py", environment.python)) if text]  # fmt: skip
    grad = {graph.state.get("grad", graph.state.get("grad_mode", "on")) for graph in graphs}
    state = [
        ("device", home),
        ("grad", "on" if grad <= {"on", "True", "true"} else "off" if len(grad) == 1 else "mixed"),
    ]
    return (*versions, *state, *sorted(extra.items()))


class _Places:
    """Users' lines without what differs between machines."""

    def __init__(self, root: str):
        self._root = root.replace("\\", "/").rstrip("/") + "/" if root else ""
        self._found: dict[tuple, m.Place] = {}

    def file(self, path: str) -> str:
        """``path`` from the root, from its library's folder, or its last part."""
        text = path.replace("\\", "/")
        if self._root and text.startswith(self._root):
            return text[len(self._root) :]
        for outside in (_LIBRARY, _STDLIB):
            found = outside.match(text)
            if found:
                return text[found.end() :]
        return text.rpartition("/")[2]

    def place(self, file: str, line: int, function: str, code: str) -> m.Place:
        key = (file, line, function, code)
        found = self._found.get(key)
        if found is None:
            text = _cut(" ".join(code.split()), MAX_CODE)
            found = self._found[key] = m.Place(self.file(file), without_resume(function), text, line, file)
        return found

    def message(self, text: str) -> str:
        """The first line of a reason, without addresses, identities and folders."""
        line = without_addresses(text.strip().split("\n")[0].strip())
        line = _IDENTITY.sub("…", line)
        line = re.sub(r"(?:[A-Za-z]:)?(?:[/\\][\w.@+-]+){2,}\.py", lambda found: self.file(found[0]), line)
        line = re.sub(r"(\.py\"?)(?::\d+|, line \d+)", r"\1", line)
        return _cut(" ".join(line.split()), MAX_REASON)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


class _Frames:
    """Names, resume ordinals and variants of the graphs of a capture."""

    def __init__(self, frames: Sequence[FrameRecord], graphs: Sequence[GraphRecord]):
        self._frames = frames
        self._names: dict[object, tuple[str, int]] = {}
        self._compiles: dict[object, list[str | None]] = {}
        taken: Counter = Counter()
        resumes: Counter = Counter()
        for graph in graphs:
            key = self._key(graph)
            compiles = self._compiles.setdefault(key, [])
            if graph.compile_id not in compiles:
                compiles.append(graph.compile_id)
            if key not in self._names:
                base, resume = self._named(graph, resumes)
                taken[base, resume] += 1
                again = taken[base, resume]
                self._names[key] = (base if again == 1 else f"{base}#{again}", resume)

    def _key(self, graph: GraphRecord) -> object:
        """What is one code object: its frame record, else the first half of the compile id."""
        if graph.frame is not None:
            return graph.frame
        return graph.compile_id.partition("/")[0] if graph.compile_id is not None else graph.name

    def _named(self, graph: GraphRecord, resumes: Counter) -> tuple[str, int]:
        if graph.frame is not None and 0 <= graph.frame < len(self._frames):
            frame = self._frames[graph.frame]
            return without_resume(frame.name.partition(" ▸ ")[0]), frame.resume
        base = without_resume(graph.name.partition(" ▸ ")[0])
        if base == graph.name:
            return base, 0
        resumes[base] += 1
        return base, resumes[base]

    def of(self, graph: GraphRecord) -> tuple[str, int, int]:
        """Name, resume ordinal and variant."""
        key = self._key(graph)
        return (*self._names[key], self._compiles[key].index(graph.compile_id) + 1)


def _because(recompiles: Sequence[RecompileInfo], places: _Places) -> dict[str, str]:
    """Why each compile id was compiled again: the guards that failed."""
    found = {}
    for recompile in recompiles:
        texts = [guard.text for guard in recompile.failed] or list(recompile.changed)
        found[recompile.compile_id] = "; ".join(dict.fromkeys(map(places.message, texts)))
    return found


def _entries(
    record: CaptureRecord, graphs: Sequence[GraphRecord], built: Sequence[m.Graph], places: _Places
) -> Iterator[m.Entry]:
    """Graphs, each with the breaks that ended it; then the breaks that ended none and the frames left in eager."""
    if not built:
        yield m.Skipped(
            "*", "NOTHING", places.message("; ".join(_excuses(record)) or "no graph was captured")
        )
    skipped = [f for f in record.frames if f.outcome in _STATES]
    left = [b for b in record.breaks if b.split or not _covered(b, record.frames)]
    for graph, result in zip(graphs, built, strict=True):
        yield result
        if graph.stage in ("dynamo", "fx"):
            mine = [b for b in left if b.compile_id is not None and b.compile_id == graph.compile_id]
            yield from [_break(b, places) for b in mine]
            left = [b for b in left if b not in mine]
    yield from [_break(b, places) for b in left]
    for frame in skipped:
        place = (
            places.place(frame.file, frame.line, frame.name.partition(" ▸ ")[0].rpartition(".")[2], "")
            if frame.file
            else None
        )
        yield m.Skipped(
            without_resume(frame.name), _STATES[frame.outcome], places.message(frame.reason), place
        )


_STATES = {"skipped": "SKIPPED", "limit": "LIMIT", "failed": "FAILED"}


def _covered(info: BreakInfo, frames: Sequence[FrameRecord]) -> bool:
    """Whether the frame's own entry tells of this break already."""
    return info.frame is not None and 0 <= info.frame < len(frames) and frames[info.frame].outcome in _STATES


def _excuses(record: CaptureRecord) -> Iterator[str]:
    yield from [g.never_ran for g in record.graphs if g.never_ran]
    yield from [p.what for p in record.problems]
    yield from record.notes
    yield from [f"{f.name}: {f.reason or f.outcome}" for f in record.frames if f.outcome != "compiled"]


def _break(info: BreakInfo, places: _Places) -> m.Break:
    place = m.Place()
    if info.stack:
        top = info.stack[-1]
        place = places.place(top.file, top.line, top.function, top.code)
    return m.Break((info.id or "").lower(), place, places.message(info.reason))


def _notes(graph: m.Graph) -> Iterator[str]:
    """Warnings of torch's habits: equal sizes become one symbol, sizes 0 and 1 are fixed."""
    for symbol in graph.symbols:
        if len(symbol.sources) > 1:
            yield f"{', '.join(symbol.sources)} were equal while tracing, so they are one symbol"
    if not any(symbol.type == "int" for symbol in graph.symbols):
        return
    for entry in graph.inputs:
        if isinstance(entry.type, m.TensorType) and not entry.type.grad and _is_argument(entry, graph):
            for dim, size in enumerate(entry.type.shape):
                if size in (0, 1):
                    yield f"{entry.name}.shape[{dim}] was {size} while tracing, so it is fixed"


def _is_argument(entry: m.Input, graph: m.Graph) -> bool:
    """Whether an input has a dynamic size: then a fixed one beside it may surprise."""
    return any(source.startswith(f"{entry.name}.") for symbol in graph.symbols for source in symbol.sources)


class _Graph:
    """Builds one graph of a snapshot."""

    def __init__(
        self,
        record: GraphRecord,
        frame: tuple[str, int, int],
        home: str,
        places: _Places,
        reasons: Mapping[str, str],
    ):
        self.record, self.frame, self.places = record, frame, places
        self.because = reasons.get(record.compile_id or "", "") if frame[2] > 1 else ""
        self.names = _symbol_names(record)
        self.expressions = Expressions(self.names)
        self.types = _Types(home, self.expressions)
        self.bodies = _unique([_body_name(child.name, i) for i, child in enumerate(record.children)])

    def build(self) -> m.Graph:
        inputs, nodes, output = _Section(self, self.record).build()
        bodies = [
            m.Body(name, *_Section(self, child).build())
            for name, child in zip(self.bodies, self.record.children, strict=True)
        ]
        name, resume, variant = self.frame
        stage = "dynamo" if self.record.stage == "fx" else self.record.stage
        return m.Graph(
            name, resume, variant, stage, self.record.call, self.because,
            tuple(self.symbols()), tuple(self.guards()), inputs, nodes, output, tuple(bodies),
        )  # fmt: skip

    def symbols(self) -> Iterator[m.Symbol]:
        infos = {info.name: info for info in self.record.symbols}
        for torch_name, name in self.names.items():
            info = infos.get(torch_name)
            if info is None:
                yield m.Symbol(name)
            else:
                yield m.Symbol(name, info.sources, _bound(info.lower), _bound(info.upper), info.type)

    def guards(self) -> Iterator[str]:
        """Conditions on sizes beyond the ranges, each once."""
        texts = [*self.record.relations, *[g.text for g in self.record.guards if g.type == "SHAPE_ENV"]]
        sources = {
            source: name
            for info in self.record.symbols
            if (name := self.names.get(info.name))
            for source in info.sources
        }
        found = dict.fromkeys(self.expressions.text(_with_symbols(text, sources)) for text in texts)
        yield from sorted(text for text in found if text and not _ASSUMED.fullmatch(text))


def _with_symbols(text: str, sources: Mapping[str, str]) -> str:
    """A guard that speaks of inputs (``x.shape[0]``) in terms of their symbols."""
    text = re.sub(r"\bL\['(\w+)'\]", r"\1", text)
    text = re.sub(r"\.size\(\)\[(\d+)\]", r".shape[\1]", text)
    for source in sorted(sources, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.]){re.escape(source)}(?![\w.\[])", sources[source], text)
    return text


def _bound(value: float | None) -> int | float | None:
    return None if value is None or value != value or abs(value) == float("inf") else value


def _body_name(name: str, index: int) -> str:
    text = re.sub(r"\W", "_", name.rpartition(".")[2])
    return text if text and not text[0].isdigit() else f"body_{text or index}"


def _unique(names: Iterable[str]) -> list[str]:
    """Names made unique by a count behind the second and later."""
    taken: set[str] = set()
    counts: Counter = Counter()
    found = []
    for name in names:
        new = name
        while new in taken:
            counts[name] += 1
            new = f"{name}_{counts[name]}"
        taken.add(new)
        found.append(new)
    return found


def _symbol_names(record: GraphRecord) -> dict[str, str]:
    """torch's symbol to ours: ``s0, s1, …`` in the order in which inputs carry them, ``u0, …`` in that of the nodes.

    A size that is a symbol alone counts before an expression, so that the order never depends on how sympy prints one.
    """
    known = {info.name: info for info in record.symbols if info.replaced_by is None}
    nodes = [*record.nodes, *[n for child in record.children for n in child.nodes]]
    inputs = [n for n in nodes if n.op == "placeholder"]
    order = [e for group in (inputs, nodes) for n in group for e in _expressions(n.value)]
    order += [e for n in nodes for a in (n.args, tuple(n.kwargs.values())) for e in _leaf_expressions(a)]
    order += record.relations
    words = _Words(known)
    alone = [expr for expr in order if words.is_symbol(expr)]
    ranked = list(
        dict.fromkeys([*alone, *sorted({s for e in order for s in words.of(e)}, key=lambda s: words.rank(s))])
    )
    names: dict[str, str] = {}
    counts: Counter = Counter()
    for symbol in ranked:
        letter = "u" if words.unbacked(symbol) else "s"
        names[symbol] = f"{letter}{counts[letter]}"
        counts[letter] += 1
    return names


class _Words:
    """Which words of an expression are symbols: those that torch listed, and those that look like one."""

    _LOOK = re.compile(r"(?:[su]|zf|zuf)\d+")

    def __init__(self, known: Mapping):
        self.known = known
        self.place = {name: index for index, name in enumerate(known)}
        self._found: dict[str, list[str]] = {}

    def is_symbol(self, text: str) -> bool:
        return text in self.known or bool(self._LOOK.fullmatch(text))

    def of(self, expr: str) -> list[str]:
        found = self._found.get(expr)
        if found is None:
            looks = {word: 0 for word in re.findall(r"\b(?:[su]|zf|zuf)\d+\b", expr)}
            found = self._found[expr] = symbols_in(expr, {**self.known, **looks} if looks else self.known)
        return found

    def unbacked(self, name: str) -> bool:
        return self.known[name].unbacked if name in self.known else name.startswith(("u", "zuf"))

    def rank(self, name: str) -> tuple:
        """Order of the symbols that stand nowhere alone: by their sources, then as torch listed them."""
        sources = self.known[name].sources if name in self.known else ()
        return (not sources, sources, self.place.get(name, len(self.place)), name)


def _expressions(value: ValueInfo | None) -> Iterator[str]:
    """The symbolic texts in a value: sizes first, then strides and offsets."""
    if isinstance(value, TensorMeta):
        yield from [
            d for d in (*value.shape, *(value.stride or ()), value.storage_offset) if isinstance(d, str)
        ]
        for inner in value.inner.values():
            yield from _expressions(inner)
    elif isinstance(value, (SymInt, SymFloat, SymBool)):
        yield value.expr
    elif isinstance(value, SizeInfo):
        yield from [d for d in value.shape if isinstance(d, str)]
    elif isinstance(value, TupleInfo):
        for item in value.items:
            yield from _expressions(item)


def _leaf_expressions(arg: Arg) -> Iterator[str]:
    if isinstance(arg, tuple):
        for item in arg:
            yield from _leaf_expressions(item)
    elif isinstance(arg, Leaf):
        if arg.sym is not None:
            yield arg.sym
        for part in (arg.slice, arg.nested, *(arg.dict or ())):
            yield from _leaf_expressions(part)


class _Types:
    """Values as types; equal ones are one object."""

    def __init__(self, home: str, expressions: Expressions):
        self._home, self._expressions = home, expressions
        self._found: dict[m.Type, m.Type] = {}

    def of(self, value: ValueInfo | None) -> m.Type:
        if value is None:
            return None
        found = self._READERS[type(value)](self, value)
        return self._found.setdefault(found, found)

    def dim(self, dim: Dim) -> Dim:
        if not isinstance(dim, str):
            return int(dim)
        text = self._expressions.text(dim)
        return int(text) if _INTEGER.fullmatch(text) and len(text) < 4000 else text

    def _tensor(self, value: TensorMeta) -> m.TensorType:
        shape = tuple(map(self.dim, value.shape))
        stride = tuple(map(self.dim, value.stride)) if value.stride is not None else None
        if value.layout != "strided" or (stride is not None and self._is_contiguous(shape, stride)):
            stride = None
        return m.TensorType(
            dtype=DTYPES.get(value.dtype, value.dtype),
            shape=shape,
            grad=value.requires_grad,
            stride=stride,
            offset=self.dim(value.storage_offset),
            device=None if value.device == self._home else value.device,
            layout="" if value.layout == "strided" else value.layout.removeprefix("torch."),
            flags=tuple(flag for flag in value.flags if flag in ("conj", "neg", "nested")),
            subclass=(value.subclass or "").rpartition(".")[2],
            inner=tuple((name, self.of(inner)) for name, inner in sorted(value.inner.items())),
        )

    def _is_contiguous(self, shape: tuple[Dim, ...], stride: tuple[Dim, ...]) -> bool:
        """Whether each stride is the product of the sizes after it; dims of size 1 may have any."""
        if 0 in shape:
            return True
        expected: Dim = 1
        for size, step in zip(reversed(shape), reversed(stride), strict=True):
            if size == 1:
                continue
            if step != expected:
                return False
            expected = _times(expected, size)
        return True

    def _symbolic(self, value: SymInt | SymFloat | SymBool) -> m.Type:
        kind = {SymInt: "SymInt", SymFloat: "SymFloat", SymBool: "SymBool"}[type(value)]
        text = self._expressions.text(value.expr)
        return (
            m.ScalarType("int", text)
            if kind == "SymInt" and _INTEGER.fullmatch(text)
            else m.SymType(kind, text)
        )

    def _scalar(self, value: ScalarInfo) -> m.ScalarType:
        text = value.value
        if value.type == "float" and isinstance(text, str):
            return m.ScalarType("float", text)
        return m.ScalarType(value.type, "" if text is None else _constant(text))

    def _tuple(self, value: TupleInfo) -> m.TupleType:
        fields = value.fields if len(value.fields) == len(value.items) else ()
        kind = "tuple" if value.type in _SEQUENCES else without_addresses(value.type)
        return m.TupleType(tuple(map(self.of, value.items)), kind, fields)

    _READERS = {
        TensorMeta: _tensor,
        SymInt: _symbolic,
        SymFloat: _symbolic,
        SymBool: _symbolic,
        ScalarInfo: _scalar,
        NoneInfo: lambda self, value: m.NoneType(),
        SizeInfo: lambda self, value: m.SizeType(tuple(map(self.dim, value.shape))),
        TupleInfo: _tuple,
        Opaque: lambda self, value: m.OpaqueType(value.type_name, _long(without_addresses(value.text))),
    }


_PLAIN = Expressions({})


@lru_cache(maxsize=4096)
def _times(left: Dim, right: Dim) -> Dim:
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    return right if left == 1 else _PLAIN.text(f"({left})*({right})")


class _Section:
    """Inputs, nodes and output of a graph or of one of its bodies."""

    def __init__(self, graph: _Graph, record: GraphRecord):
        self.graph, self.record = graph, record
        # What stands for each node where it is used: an operand's number, or the text of a constant.
        self.stands: dict[int, int | str] = {}
        self.node_names = {node.name for node in record.nodes}

    def build(self) -> tuple[tuple[m.Input, ...], tuple[m.Node, ...], m.Call]:
        inputs = self.inputs()
        nodes = [node for node in self.record.nodes if self.is_op(node)]
        output = m.Call()
        labels = self.labels(nodes)
        built = []
        for node in self.record.nodes:
            if node.op == "output":
                output = self.output(node)
            elif self.is_op(node):
                self.stands[node.index] = len(inputs) + len(built)
                built.append(self.node(node, labels[len(built)]))
            elif node.body is not None and node.op != "call_module":
                self.stands[node.index] = -1 - node.body
        return inputs, tuple(built), output

    def is_op(self, node: NodeRecord) -> bool:
        return node.op not in ("placeholder", "output") and (node.body is None or node.op != "get_attr")

    def inputs(self) -> tuple[m.Input, ...]:
        found: list[tuple[str, m.Type]] = []
        for node in self.record.nodes:
            if node.op != "placeholder":
                continue
            symbol = self.size_symbol(node)
            if symbol is not None:
                self.stands[node.index] = symbol
                continue
            self.stands[node.index] = len(found)
            name = node.source.input if node.source is not None and node.source.input else node.name
            found.append((without_addresses(name), self.graph.types.of(node.value)))
        names = _unique([name for name, _ in found])
        return tuple([m.Input(name, kind) for name, (_, kind) in zip(names, found, strict=True)])

    def size_symbol(self, node: NodeRecord) -> str | None:
        """The symbol that a placeholder carries when it is a size of another input: torch passes it beside that input."""
        if node.source is None or node.source.input_kind != "size" or not isinstance(node.value, SymInt):
            return None
        text = self.graph.expressions.text(node.value.expr)
        return text if SYMBOL.fullmatch(text) or _INTEGER.fullmatch(text) else None

    def labels(self, nodes: Sequence[NodeRecord]) -> list[str]:
        """``module.op``, counted within the module, so that an insertion stays local."""
        counts: Counter = Counter()
        found = []
        for node in nodes:
            module = node.source.module if node.source is not None else ""
            op = op_name(node.target)
            base = f"{module}.{op}" if module else op
            found.append(base if not counts[base] else f"{base}_{counts[base]}")
            counts[base] += 1
        return _unique(found)

    def node(self, node: NodeRecord, label: str) -> m.Node:
        call = self.call(node)
        return m.Node(
            label,
            _target(node),
            call.template,
            call.operands,
            self.graph.types.of(node.value),
            self.place(node),
        )

    def place(self, node: NodeRecord) -> m.Place | None:
        source = node.source
        if source is None or source.file is None:
            return None
        return self.graph.places.place(
            source.file, source.line or 0, source.function or "", source.code or ""
        )

    def call(self, node: NodeRecord) -> m.Call:
        operands: list[int] = []
        words = [self.write(arg, operands) for arg in node.args]
        if node.op == "call_module" and node.body is not None:
            operands.insert(0, -1 - node.body)
            words.insert(0, m.SLOT)
        words += [f"{keyword(key)}={self.write(node.kwargs[key], operands)}" for key in sorted(node.kwargs)]
        template = ", ".join(words)
        if '"' in template and ("assert" in node.target or "_check" in node.target):
            template = self.redacted(template)
        return m.Call(template, tuple(operands))

    def redacted(self, template: str) -> str:
        """A message without the node names and torch's symbols that asserts put into it."""
        template = _ON_NODE.sub("node '…'", template)
        names = self.graph.names
        return re.sub(r"[A-Za-z_]\w*", lambda word: names.get(word[0], word[0]), template)

    def output(self, node: NodeRecord) -> m.Call:
        operands: list[int] = []
        arg = node.args[0] if len(node.args) == 1 else node.args
        items = arg if isinstance(arg, tuple) else (arg,)
        return m.Call(", ".join([self.write(item, operands) for item in items]), tuple(operands))

    def write(self, arg: Arg, operands: list[int]) -> str:
        """One argument as text; the operands that its slots stand for are added to ``operands``."""
        if isinstance(arg, Leaf):
            return self.leaf(arg, operands)
        if isinstance(arg, tuple):
            return f"[{', '.join([self.write(item, operands) for item in arg])}]"
        return _constant(arg)

    def leaf(self, leaf: Leaf, operands: list[int]) -> str:
        if leaf.node is not None:
            stands = self.stands[leaf.node]
            if isinstance(stands, str):
                return stands
            operands.append(stands)
            return m.SLOT
        if leaf.slice is not None:
            return f"slice({', '.join([self.write(part, operands) for part in leaf.slice])})"
        if leaf.dict is not None:
            pairs = [f"{self.write(k, operands)}: {self.write(v, operands)}" for k, v in leaf.dict]
            return f"{{{', '.join(pairs)}}}"
        if leaf.nested is not None:
            return self.write(leaf.nested, operands)
        if leaf.sym is not None:
            text = self.graph.expressions.text(leaf.sym)
            return text if SYMBOL.fullmatch(text) or _INTEGER.fullmatch(text) else f"sym({string(text)})"
        return _word(leaf)


def _word(leaf: Leaf) -> str:
    """A constant for which Python's own notation does not do."""
    if leaf.dtype is not None:
        return f"torch.{leaf.dtype}" if leaf.dtype.isidentifier() else f"repr({string(leaf.dtype)})"
    if leaf.ellipsis:
        return "..."
    if leaf.float is not None:
        return leaf.float if leaf.float in ("nan", "inf", "-inf") else f"repr({string(leaf.float)})"
    if leaf.repr is not None and _INTEGER.fullmatch(leaf.repr):
        return leaf.repr
    if leaf.function is not None:
        return f"function({string(alias(leaf.function))})"
    for kind in ("device", "layout", "memory_format", "complex", "repr"):
        text = getattr(leaf, kind)
        if text is not None:
            return f"{kind}({string(_long(without_addresses(text)))})"
    return "None"


def _constant(value: float | str | None) -> str:
    if isinstance(value, str):
        return string(_long(without_addresses(value)))
    return repr(value)


def _long(text: str) -> str:
    """A text of at most MAX_STRING characters; of a longer one the start, and a hash that still tells it apart."""
    if len(text) <= MAX_STRING:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{text[:80]}… {len(text)} characters, sha256 {digest}"


def _target(node: NodeRecord) -> str:
    if node.op == "call_method":
        return f".{node.target}"
    if node.op in ("get_attr", "call_module"):
        return f"{node.op}[{node.target}]"
    return alias(node.target)
