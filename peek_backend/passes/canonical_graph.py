"""One captured graph as a graph of a snapshot: symbols, types, inputs, labels and arguments in canonical form."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from ..model import (
    Arg,
    GraphRecord,
    Leaf,
    NodeRecord,
    NoneInfo,
    Opaque,
    ScalarInfo,
    SizeInfo,
    StackFrame,
    SymBool,
    SymFloat,
    SymInt,
    TensorMeta,
    TupleInfo,
    ValueInfo,
)
from ..model import snapshot as m
from ..model.dtypes import DTYPES
from ..model.values import Dim
from ..snapshot.graphfile_text import SYMBOL, keyword, string
from .aliases import alias, op_name, without_addresses
from .expressions import Expressions, symbols_in

MAX_STRING = 400
"""Characters of a string constant that are shown; a longer one counts by its hash."""

_SEQUENCES = frozenset({"tuple", "list", "immutable_list", "torch.fx.immutable_collections.immutable_list"})
_ON_NODE = re.compile(r"\bnode '[^']*'")
_INTEGER = re.compile(r"-?\d+")
_WORD = re.compile(r"[A-Za-z_]\w*")
# What torch assumes of every backed size anyway.
_ASSUMED = re.compile(r"\w+ (?:>= [012]|<= int_oo|< int_oo|!= [01])")

PlaceOf = Callable[[str, int, str, str], m.Place]


class GraphBuilder:
    """Builds one graph of a snapshot.

    ``frame`` is its name, resume ordinal and variant, ``home`` the device that goes without saying, ``place`` makes a place
    of file, line, function and code, ``because`` says why a variant was compiled, ``entries`` are what ``input_names`` gives
    for the Dynamo graph that a later stage was made of.
    """

    def __init__(
        self,
        record: GraphRecord,
        frame: tuple[str, int, int],
        home: str,
        place: PlaceOf,
        because: str,
        entries: Sequence[str] = (),
    ):
        self.record, self.frame, self.place_of, self.entries = record, frame, place, entries
        self.because = because if frame[2] > 1 else ""
        self.names = _symbol_names(record)
        self.gone = {info.name: info.replaced_by for info in record.symbols if info.replaced_by is not None}
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
        stage = "dynamo" if self.record.stage == "fx" else f"{self.record.stage} {self.record.part}".strip()
        return m.Graph(
            name, resume, variant, stage, self.record.call, self.because,
            tuple(self.symbols()), tuple(self.guards()), inputs, nodes, output, tuple(bodies), tuple(self.fixed()),
            tuple(self.reasons()),
        )  # fmt: skip

    def symbols(self) -> Iterator[m.Symbol]:
        infos = {info.name: info for info in self.record.symbols}
        for torch_name, name in self.names.items():
            info = infos.get(torch_name)
            if info is None:
                yield m.Symbol(name)
            else:
                joined = [i.sources for i in self.record.symbols if i.replaced_by == torch_name]
                sources = tuple(
                    dict.fromkeys([*info.sources, *[source for part in joined for source in part]])
                )
                yield m.Symbol(name, sources, _bound(info.lower), _bound(info.upper), info.type)

    def guards(self) -> Iterator[str]:
        """Conditions on sizes beyond what torch always assumes, each once; not those of symbols that were replaced."""
        texts = [*self.record.relations, *[g.text for g in self.record.guards if g.type == "SHAPE_ENV"]]
        symbols = self.record.symbols
        merged = {info.name: self.names.get(self.gone.get(info.name, info.name)) for info in symbols}
        sources = {source: name for info in symbols if (name := merged[info.name]) for source in info.sources}
        ours = set(self.names.values())
        found = {}
        for text in texts:
            if not self.gone.keys() & set(_WORD.findall(text)):
                found[self.expressions.text(_with_symbols(text, sources))] = None
        for text in sorted(found):
            left, _, right = text.partition(" == ")
            if ours & set(_WORD.findall(text)) and left != right and not _ASSUMED.fullmatch(text):
                yield text

    def reasons(self) -> Iterator[m.Reason]:
        """What made symbols that stayed narrower, with the user's line that asked for it."""
        for info in self.record.symbols:
            if info.replaced_by is None and info.name in self.names:
                for fact in info.facts:
                    if fact.user is not None and fact.kind in ("guard", "range", "assert"):
                        text, _, by = fact.text.partition(" (asked by ")
                        text = self.expressions.text(text)
                        place = self.user_place(fact.user)
                        yield m.Reason(self.names[info.name], text, place, by.removesuffix(")"))

    def fixed(self) -> Iterator[tuple[str, m.Place]]:
        """Sizes that began as symbols and are numbers now, with the user's line that made them so."""
        for info in self.record.symbols:
            user = next(
                (fact.user for fact in info.facts if fact.kind == "specialised" and fact.user is not None),
                None,
            )
            if info.replaced_by is not None and user is not None:
                place = self.user_place(user)
                yield from [(source, place) for source in info.sources]

    def user_place(self, line: StackFrame) -> m.Place:
        return self.place_of(line.file, line.line, line.function, line.code)


def _with_symbols(text: str, sources: Mapping[str, str]) -> str:
    """A guard that speaks of inputs (``x.shape[0]``) in terms of their symbols."""
    text = re.sub(r"\bL\['(\w+)'\]", r"\1", text)
    text = re.sub(r"\.size\(\)\[(\d+)\]", r".shape[\1]", text)
    for source in sorted(sources, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.]){re.escape(source)}(?![\w.\[])", sources[source], text)
    return text


def _bound(value: float | None) -> int | float | None:
    return None if value is None or not math.isfinite(value) else value


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
    words = _Words(known)
    alone = [expr for expr in order if words.is_symbol(expr)]
    ranked = dict.fromkeys([*alone, *sorted({s for e in order for s in words.of(e)}, key=words.rank)])
    # Those that only a relation to one of these names: of an input that no node reads.
    # One that was joined to another is told by the other's sources.
    gone = {info.name for info in record.symbols if info.replaced_by is not None}
    related = [set(words.of(text)) - gone for text in record.relations]
    beside = {s for group in related if not group.isdisjoint(ranked) for s in group}
    ranked |= dict.fromkeys(sorted(beside - ranked.keys(), key=words.rank))
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
            looks = dict.fromkeys(re.findall(r"\b(?:[su]|zf|zuf)\d+\b", expr))
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

    _READERS: ClassVar[dict[type, Callable]] = {
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

    def __init__(self, graph: GraphBuilder, record: GraphRecord):
        self.graph, self.record = graph, record
        # What stands for each node where it is used: an operand's number, or the text of a constant.
        self.stands: dict[int, int | str] = {}

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
        found: list[tuple[str, m.Type, str]] = []
        for node in self.record.nodes:
            if node.op != "placeholder":
                continue
            symbol = self.size_symbol(node)
            if symbol is not None:
                self.stands[node.index] = symbol
                continue
            self.stands[node.index] = len(found)
            name = _input_name(node)
            held = node.source.input_kind if node.source is not None and "." not in name else ""
            kind = held if held in m.INPUT_KINDS else ""
            found.append((name, self.graph.types.of(node.value), kind))
        names = _unique([name for name, _, _ in found])
        return tuple([m.Input(name, *rest) for name, (_, *rest) in zip(names, found, strict=True)])

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
        return self.graph.place_of(source.file, source.line or 0, source.function or "", source.code or "")

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
        """What the graph returns; then, in no order of its own, what a forward saves, and each gradient with its input."""
        operands: list[int] = []
        arg = node.args[0] if len(node.args) == 1 else node.args
        results, saved, gradients = _parted(self.record, arg if isinstance(arg, tuple) else (arg,))
        words = [self.write(item, operands) for item in results]
        if saved:
            # Operands first: they keep their places in the list of operands.
            words.append(f"saved=[{', '.join(sorted([self.write(item, operands) for item in saved]))}]")
        if gradients:
            named = self.named(gradients)
            pairs = [f"{string(name)}: {self.write(item, operands)}" for name, item in named]
            words.append(f"gradients={{{', '.join(pairs)}}}")
        return m.Call(", ".join(words), tuple(operands))

    def named(self, gradients: Sequence[Arg]) -> list[tuple[str, Arg]]:
        """Each gradient with the name of its input; sizes, which torch passes beside their tensor, have none."""
        known = self.record.lowering.gradients if self.record.lowering is not None else ()
        ordinals = known if len(known) == len(gradients) else [None] * len(gradients)
        names: dict[int | None, str] = dict(enumerate(self.graph.entries))
        found = [names.get(ordinal, f"#{place}") for place, ordinal in enumerate(ordinals)]
        kept = [(name, gradient) for name, gradient in zip(found, gradients, strict=True) if name]
        return list(zip(_unique([name for name, _ in kept]), [gradient for _, gradient in kept], strict=True))

    def write(self, arg: Arg, operands: list[int]) -> str:
        """One argument as text; the operands that its slots stand for are added to ``operands``."""
        if isinstance(arg, Leaf):
            return self.leaf(arg, operands)
        if isinstance(arg, tuple):
            return f"[{', '.join([self.write(item, operands) for item in arg])}]"
        return _constant(arg)

    def leaf(self, leaf: Leaf, operands: list[int]) -> str:
        if leaf.node is not None:
            return self.operand(leaf.node, operands)
        if leaf.slice is not None:
            return f"slice({', '.join([self.write(part, operands) for part in leaf.slice])})"
        if leaf.dict is not None:
            pairs = [f"{self.write(k, operands)}: {self.write(v, operands)}" for k, v in leaf.dict]
            return f"{{{', '.join(pairs)}}}"
        if leaf.nested is not None:
            return self.write(leaf.nested, operands)
        return self.symbolic(leaf.sym) if leaf.sym is not None else _word(leaf)

    def operand(self, index: int, operands: list[int]) -> str:
        """What stands for a node: a slot, or the text of a constant."""
        stands = self.stands[index]
        if isinstance(stands, str):
            return stands
        operands.append(stands)
        return m.SLOT

    def symbolic(self, expr: str) -> str:
        """A symbolic size: bare when it is one symbol or a number."""
        text = self.graph.expressions.text(expr)
        return text if SYMBOL.fullmatch(text) or _INTEGER.fullmatch(text) else f"sym({string(text)})"


def input_names(record: GraphRecord) -> list[str]:
    """What a person calls each input of a graph; empty for the size of another input."""
    return [
        "" if node.source is not None and node.source.input_kind == "size" else _input_name(node)
        for node in record.nodes
        if node.op == "placeholder"
    ]


def _input_name(node: NodeRecord) -> str:
    name = node.source.input if node.source is not None and node.source.input else node.name
    return without_addresses(name)


def _parted(
    record: GraphRecord, results: tuple[Arg, ...]
) -> tuple[tuple[Arg, ...], tuple[Arg, ...], tuple[Arg, ...]]:
    """The results of a graph that are its caller's, those saved for the backward, and gradients."""
    info = record.lowering
    count = 0 if record.stage == "backward" else info.forward_outputs if info is not None else None
    if info is None or count is None or record.stage not in ("joint", "forward", "backward"):
        return results, (), ()
    own, rest = results[:count], results[count:]
    return (own, rest, ()) if record.stage == "forward" else (own, (), rest)


def _word(leaf: Leaf) -> str:
    """A constant for which Python's own notation does not do."""
    if leaf.dtype is not None and leaf.dtype.isidentifier():
        return f"torch.{leaf.dtype}"
    if leaf.float in ("nan", "inf", "-inf"):
        return leaf.float
    if leaf.repr is not None and _INTEGER.fullmatch(leaf.repr):
        return leaf.repr
    if leaf.function is not None:
        return f"function({string(alias(leaf.function))})"
    for kind in ("device", "layout", "memory_format", "complex", "repr", "dtype", "float"):
        text = getattr(leaf, kind)
        if text is not None:
            tag = "repr" if kind in ("dtype", "float") else kind
            return f"{tag}({string(_long(without_addresses(text)))})"
    return "..." if leaf.ellipsis else "None"


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
