"""Why a dim is static, or what is known of a dynamic one: a chain of facts, and the change that would keep it dynamic.

Comes in: a record and a name: a symbol (``s0``), a size (``x.shape[1]``) or a tensor (``x``). Goes out: ``Why`` rows, one
a dim and graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ..model import CaptureRecord, Fact, GraphRecord, NodeRecord, SymbolInfo, TensorMeta
from .dims import short_floats
from .stats import captured_graphs
from .unbacked import origin

_SIZE = re.compile(r"^(?P<tensor>.+)\.(?:shape\[|size\()(?P<dim>\d+)[\])]$")
_OP = re.compile(r" \(asked by (\w+)\)")
_OPS = {"infer_size": "broadcasting", "is_contiguous": "the contiguity check", "mm": "the matrix product"}
_AS_NUMBER = re.compile(r"\b(int|float|bool|range|str|format|len)\(|%|f[\"']")
_FOR = re.compile(r"\bfor\b.*?\bin\b")
_COMPARED = re.compile(r"[=!<>]=|[<>]|\bin\b|\bif\b|\bassert\b|\bwhile\b")


class Why(NamedTuple):
    """One dim of one graph: its value there, whether it is static, the facts that made it so, and what would change it."""

    graph: str
    subject: str
    verdict: str
    static: bool
    chain: tuple[Fact, ...]
    change: str = ""


def why(record: CaptureRecord, target: str) -> list[Why]:
    """What is known of ``target`` in every graph that has it; empty where none has."""
    found = []
    for graph in captured_graphs(record):
        found.extend(_in_graph(graph, target, _behind(record, graph)))
    return found


def _behind(record: CaptureRecord, graph: GraphRecord) -> str:
    """The function whose break made the graph's frame one of its own, and where it breaks; empty for what the program called."""
    frame = None if graph.frame is None else record.frames[graph.frame]
    if frame is None or frame.outer is None:
        return ""
    at = "" if frame.cut is None else f" at {frame.cut.place}"
    return f"{record.frames[frame.outer].name}, which breaks{at}"


def _in_graph(graph: GraphRecord, target: str, behind: str) -> Iterator[Why]:
    symbol = next((s for s in graph.symbols if target == s.name or target in s.sources), None)
    if symbol is not None:
        yield of_symbol(graph, symbol, target)
        return
    size = _SIZE.match(target)
    for node in _inputs(graph, size["tensor"] if size else target):
        assert isinstance(node.value, TensorMeta)
        dims = range(len(node.value.shape))
        for dim in [int(size["dim"])] if size else dims:
            if dim in dims:
                yield _of_dim(graph, node, dim, behind)


def _inputs(graph: GraphRecord, name: str) -> list[NodeRecord]:
    nodes = [n for n in graph.nodes if n.op == "placeholder" and isinstance(n.value, TensorMeta)]
    return [n for n in nodes if name in (n.name, n.source.input if n.source is not None else None)]


def _of_dim(graph: GraphRecord, node: NodeRecord, dim: int, behind: str) -> Why:
    """A dim of an input: through its symbol where it has one, else why it never got one."""
    assert isinstance(node.value, TensorMeta)
    name = node.source.input if node.source is not None and node.source.input else node.name
    subject, value = f"{name}.shape[{dim}]", node.value.shape[dim]
    by_source = next((s for s in graph.symbols if subject in s.sources), None)
    by_name = next((s for s in graph.symbols if s.name == value), None)
    if (symbol := by_source or by_name) is not None:
        return of_symbol(graph, symbol, subject)
    if isinstance(value, str):
        return Why(_name(graph), subject, f"is {value}", False, ())
    fact, change = _never_dynamic(graph, node, name, dim, value)
    if behind and fact.kind == "unmarked":  # a mark does not pass on to what a break separates
        change = f"the size comes from {behind}: mark its inputs dynamic and mend the break, or torch.compile(…, dynamic=True)"
    return Why(_name(graph), subject, f"is {value} in this graph: static", True, (fact,), change)


def _never_dynamic(graph: GraphRecord, node: NodeRecord, name: str, dim: int, value: int) -> tuple[Fact, str]:
    """Why torch made no symbol for a dim."""
    mark = (
        f"torch._dynamo.mark_dynamic({name}, {dim}) before the first call, or torch.compile(…, dynamic=True)"
    )
    kind = node.source.input_kind if node.source is not None else None
    marked = graph.marks.get(f"{name}.shape[{dim}]")
    if marked == "static":
        return Fact("marked", f"{name} was marked static in dim {dim}"), f"drop mark_static({name}, {dim})"
    if kind in ("parameter", "buffer"):
        change = (
            "torch._dynamo.config.force_parameter_static_shapes = False and"
            " torch._dynamo.config.force_nn_module_property_static_shapes = False, if it really changes"
        )
        return Fact("parameter", f"{name} is a {kind}: its sizes are taken as constants"), change
    if value in (0, 1):
        change = "trace with a size of 2 or more; sizes 0 and 1 always are a variant of their own"
        return Fact("zero_one", f"the size is {value}: 0 and 1 are compiled on their own"), change
    if graph.state.get("dynamic") == "off":
        return Fact(
            "off", "compiled with dynamic=False"
        ), "torch.compile(…, dynamic=True), or leave dynamic away"
    text = "not marked: torch takes a size as constant until a call has another one, then compiles again with a symbol"
    return Fact("unmarked", text), mark


def of_symbol(graph: GraphRecord, symbol: SymbolInfo, subject: str) -> Why:
    """What is known of a symbol, as an answer to "why is it static" or "how far is it dynamic"."""
    told = [replace(f, text=short_floats(f.text)) for f in _told_once(symbol.facts)]
    chain = (*_birth(graph, symbol), *told)
    if symbol.replaced_by is not None and _is_number(symbol.replaced_by):
        verdict = f"is {short_floats(symbol.replaced_by)}: it was {symbol.name}, and became static"
        return Why(_name(graph), subject, verdict, True, chain, _change(symbol, chain))
    if symbol.lower is not None and symbol.lower == symbol.upper:
        return Why(
            _name(graph),
            subject,
            f"can only be {symbol.lower}: static in effect",
            True,
            chain,
            _change(symbol, chain),
        )
    if symbol.replaced_by is not None:
        what = "size" if is_size(symbol) else "value"
        verdict = f"is {short_floats(symbol.replaced_by)}: tied to another {what}, range {_range(symbol)}"
        return Why(_name(graph), subject, verdict, False, chain, _untied(symbol))
    kind = "unbacked" if symbol.unbacked else "dynamic"
    return Why(_name(graph), subject, f"is {symbol.name}: {kind}, range {_range(symbol)}", False, chain)


def _told_once(facts: Sequence[Fact]) -> list[Fact]:
    """Facts without those that another says as well: a specialisation is told as guard and as both bounds too."""
    first = next((f for f in facts if f.kind == "specialised"), None)
    if first is None:
        return list(facts)
    return [
        first,
        *(f for f in facts if f.kind in ("duck", "marked", "assert") or f.user not in (first.user, None)),
    ]


def _birth(graph: GraphRecord, symbol: SymbolInfo) -> list[Fact]:
    """How the symbol came to be: marked, asked for by dynamic=True, made by a recompile, or computed from data."""
    if symbol.unbacked and not symbol.sources:
        marked = list(_unbacked_inputs(graph, symbol))
        made = origin(graph, symbol.name)
        return marked or ([made] if made is not None else [])
    facts = [
        Fact("marked", f"{source} was marked {graph.marks[source]}")
        for source in symbol.sources
        if source in graph.marks
    ]
    if facts or not symbol.sources:
        return facts
    if any(source.endswith(".item()") for source in symbol.sources):
        return [Fact("data", f"{symbol.sources[0]} is read from a tensor's data, and guarded like a size")]
    if graph.state.get("dynamic") == "on":
        return [Fact("dynamic", f"compiled with dynamic=True: {_BEGINS[_what(symbol)]} begins as a symbol")]
    return [Fact("changed", "it had another value in an earlier call, so torch made it a symbol")]


_BEGINS = {
    "size": "every size",
    "int": "every int that is passed in",
    "float": "every float that is passed in",
}


def is_size(symbol: SymbolInfo) -> bool:
    """Whether a symbol sizes a tensor; others are numbers that the program passes in or reads from data."""
    return symbol.type != "float" and (
        not symbol.sources or any(_SIZE.match(source) for source in symbol.sources)
    )


def _what(symbol: SymbolInfo) -> str:
    return "size" if is_size(symbol) else "float" if symbol.type == "float" else "int"


def _unbacked_inputs(graph: GraphRecord, symbol: SymbolInfo) -> Iterator[Fact]:
    """Dims that ``mark_unbacked`` gave this symbol; torch keeps no source for it, so the dim's value tells."""
    for node in graph.nodes:
        if node.op == "placeholder" and isinstance(node.value, TensorMeta) and node.source is not None:
            for dim, value in enumerate(node.value.shape):
                name = f"{node.source.input}.shape[{dim}]"
                if graph.marks.get(name) == "unbacked" and str(value) in (symbol.name, symbol.replaced_by):
                    yield Fact("marked", f"{name} was marked unbacked")


def _change(symbol: SymbolInfo, chain: Sequence[Fact]) -> str:
    """What would keep the symbol free."""
    cause = next((f for f in symbol.facts if f.kind in ("specialised", "replaced")), None)
    if cause is None:
        return "loosen one of the conditions above: together they leave one value"
    op, code = _OP.search(cause.text), cause.user.code if cause.user is not None else ""
    what = "the size" if is_size(symbol) else "the value"
    where = f" at line {cause.user.line}" if cause.user is not None else ""
    if op and not is_size(symbol):
        return f"{op[1]}{where} takes a plain number: every value gets a variant of its own, so keep it the same in all calls"
    if op:
        marked = ", or drop the mark" if any(fact.kind == "marked" for fact in chain) else ""
        return f"{op[1]}{where} needs this size to equal a static one: make the other size dynamic as well{marked}"
    if _COMPARED.search(_FOR.sub("", code)):
        return f"the program compares {what}{where}: drop the comparison, or leave {what} static"
    if _AS_NUMBER.search(code):
        return f"the program makes a Python number of {what}{where}: keep it symbolic, without int(), formatting or indexing"
    return f"the program uses {what} as a constant{where}: keep it symbolic there"


def _untied(symbol: SymbolInfo) -> str:
    """What would let two sizes vary apart: only a comparison of the program's own ties sizes that need not be equal."""
    cause = next((f for f in symbol.facts if f.kind == "replaced"), None)
    if cause is None or cause.user is None or not _COMPARED.search(_FOR.sub("", cause.user.code)):
        return ""
    return f"the program compares the sizes at line {cause.user.line}: drop the comparison, or keep them tied"


def _name(graph: GraphRecord) -> str:
    return graph.compile_id or graph.key


def _range(symbol: SymbolInfo) -> str:
    lower = "-∞" if symbol.lower is None else str(symbol.lower)
    upper = "∞" if symbol.upper is None else str(symbol.upper)
    return f"[{lower}, {upper}]"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", text) is not None
