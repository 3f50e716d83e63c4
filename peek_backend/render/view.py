"""A graph as plain cells, groups and symbols. Tables, trees, reports and pictures take their words from here.

Comes in: a GraphRecord. Goes out: a ``GraphView``. Nothing is worked out before it is asked for, so that a
folded table of 10,000 nodes reads 200 of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from ..analysis.totals import (
    dynamic_symbols,
    hints,
    inputs_of,
    is_op,
    nbytes,
    nbytes_at,
    used_symbols,
    users,
)
from ..model import (
    GraphRecord,
    NodeRecord,
    SizeInfo,
    SymBool,
    SymFloat,
    SymInt,
    TensorMeta,
    TupleInfo,
    ValueInfo,
    iter_tensors,
)
from ..passes.hierarchy import Module, build_hierarchy, read_lists
from ..passes.repeats import structure_keys
from . import labels
from .labels import Style


class _NamesIn(Sequence):
    """Names read through one module: what starts with its path starts with ``self`` instead."""

    def __init__(self, names: Sequence[str], prefix: str):
        self.names, self.prefix = names, prefix

    def __getitem__(self, index):
        name = self.names[index]
        return f"self.{name[len(self.prefix) :]}" if name.startswith(self.prefix) else name

    def __len__(self) -> int:
        return len(self.names)


class SymbolRow(NamedTuple):
    """A symbol as it is listed: ``s0``, its hint, ``in [2, ∞]`` or ``always 4``, every source, what else is known."""

    name: str
    hint: str
    range: str
    sources: str
    note: str


class GraphView:
    """One graph, read lazily. Indices are those of the record's nodes."""

    def __init__(self, graph: GraphRecord, bodies: Sequence[GraphRecord] | None = None):
        """``bodies`` are the root's children, which a node's ``body`` indexes; the graph's own without it."""
        self.graph = graph
        self.bodies = graph.children if bodies is None else bodies
        self._names_in: dict[str, _NamesIn] = {}

    def __len__(self) -> int:
        return len(self.graph.nodes)

    @cached_property
    def names(self) -> list[str]:
        """How arguments refer to each node: by its name, parameters by their path (``layers.0.fc.weight``)."""
        return labels.names_of(self.graph)

    @cached_property
    def devices(self) -> dict[str, int]:
        """Each device of the graph's tensors, and how many of them it holds."""
        found: dict[str, int] = {}
        for node in self.graph.nodes:
            for meta in iter_tensors(node.value):
                found[meta.device] = found.get(meta.device, 0) + 1
        return found

    @cached_property
    def home(self) -> str | None:
        """The device of most tensors, which a value's text need not name; None without tensors."""
        return max(self.devices, key=self.devices.__getitem__, default=None)

    @cached_property
    def style(self) -> Style:
        """How values of this graph read."""
        return Style(home=self.home)

    def type_text(self, index: int) -> str:
        """Dtype and shape in one (``f32[s0, 16]``), an uncommon device, and what the tensor became."""
        return labels.value_text(self.graph.nodes[index].value, self._type_style)

    @cached_property
    def _type_style(self) -> Style:
        return Style(home=self.home, layout=False, grad=False)

    @cached_property
    def users(self) -> list[list[int]]:
        """For each node the nodes that read it."""
        return users(self.graph)

    @cached_property
    def tree(self) -> Module:
        """The groups: containers of modules, or of functions where there are no modules."""
        return build_hierarchy(self.graph, reads=self.reads)

    @cached_property
    def reads(self) -> list[list[int]]:
        """For each node the nodes it reads."""
        return read_lists(self.graph)

    @cached_property
    def structure(self) -> dict[str, int]:
        """A number for each group's structure: groups with equal numbers are built alike."""
        root = replace(self.graph, children=tuple(self.bodies))
        return structure_keys(self.graph, self.tree, root, self.reads)

    @cached_property
    def hints(self) -> dict[str, int | float | bool]:
        """The value that each symbol had while tracing."""
        return hints(self.graph)

    def value(self, index: int) -> str:
        """What a node computes: ``f32[s0, 16] grad``."""
        return labels.value_text(self.graph.nodes[index].value, self.style)

    def call(self, index: int, within: str = "") -> str:
        """A node as one expression: ``F.linear(x, w, b)``; inside a module its parameters are ``self.weight``."""
        return labels.call_text(self.graph.nodes[index], self.graph, self.names_in(within))

    def names_in(self, module: str) -> Sequence[str]:
        """``names`` as the module's own code writes them: ``self.fc.weight`` for ``layers.0.fc.weight``."""
        if not module:
            return self.names
        if module not in self._names_in:
            self._names_in[module] = _NamesIn(self.names, f"{module}.")
        return self._names_in[module]

    def cell(self, index: int, column: str, within: str = "") -> str:
        """The text of one cell; ``column`` is a key of COLUMNS, ``within`` the module under which it is shown."""
        node = self.graph.nodes[index]
        if within and column == "args":
            return _args(self, node, within)
        return self.call(index, within) if within and column == "call" else NARROW_COLUMNS[column](self, node)

    @cached_property
    def symbols(self) -> tuple[SymbolRow, ...]:
        """The graph's symbols as they are listed."""
        return tuple(_symbol_rows(self.graph))

    @cached_property
    def counts(self) -> tuple[str, ...]:
        """``15 nodes``, ``6 ops``, ``8 inputs (4 parameters, 1.5 KiB)``, ``1 dynamic dim``; the last two only if any."""
        graph = self.graph
        ops = sum(1 for node in graph.nodes if is_op(node))
        inputs = sum(1 for _ in inputs_of(graph))
        texts = [labels.plural(len(graph.nodes), "node"), labels.plural(ops, "op")]
        if inputs:
            texts.append(labels.plural(inputs, "input") + self._parameters())
        dynamic = len(dynamic_symbols(graph))
        if dynamic:
            texts.append(labels.plural(dynamic, "dynamic dim"))
        return tuple(texts)

    def _parameters(self) -> str:
        """`` (4 parameters, 1.5 KiB)``; without the size where it is not known, empty without parameters."""
        found = list(inputs_of(self.graph, "parameter"))
        if not found:
            return ""
        sizes = [nbytes_at(node.value, self.hints) for node in found]
        known = [size for size in sizes if size is not None]
        size = f", {labels.bytes_text(sum(known))}" if len(known) == len(sizes) else ""
        return f" ({labels.plural(len(found), 'parameter')}{size})"

    @cached_property
    def ending(self) -> str:
        """How the graph ended: ``ends in a graph break``, ``never ran``, ``returns``; empty while that is not known.

        Dynamo tells the backend nothing of it: only a graph that was traced back to its frame can be said to return.
        """
        if self.graph.never_ran:
            return "never ran"
        if self.graph.ended_by is not None:
            return "ends in a graph break"
        return "returns" if self.graph.frame is not None and self.graph.stage == "dynamo" else ""


def _symbol_rows(graph: GraphRecord) -> Iterator[SymbolRow]:
    """The symbols that say something: torch also makes some that no value has and nothing became known of."""
    used = used_symbols(graph)
    for symbol in graph.symbols:
        fixed = symbol.lower is not None and symbol.lower == symbol.upper
        known = symbol.unbacked or symbol.replaced_by is not None or fixed
        if symbol.name not in used and not known:
            continue
        notes = ["unbacked"] if symbol.unbacked else []
        if symbol.replaced_by is not None and not fixed:
            notes.append(f"became {labels.dim_text(symbol.replaced_by)}")
        yield SymbolRow(
            symbol.name,
            "" if symbol.hint is None else str(symbol.hint),
            f"always {symbol.lower}" if fixed else f"in {labels.range_text(symbol.lower, symbol.upper)}",
            ", ".join(symbol.sources),
            ", ".join(notes),
        )


# --- columns ---


def each(value: ValueInfo | None, read: Callable[[TensorMeta], str]) -> str:
    """``read`` of a tensor; of a tuple's items in parentheses, once where all read alike."""
    if isinstance(value, TensorMeta):
        return read(value)
    if not isinstance(value, TupleInfo):
        return ""
    texts = [each(item, read) for item in value.items]
    if len(set(texts)) == 1:
        return texts[0]
    return f"({labels.some(texts, lambda text: text or '-', 4)})" if any(texts) else ""


def _shape(view: GraphView, node: NodeRecord) -> str:
    """A tensor's sizes, with what they became; for what is no tensor, its value."""
    value = node.value
    if isinstance(value, TensorMeta):
        return _tensor_shape(value)
    if isinstance(value, TupleInfo):
        return f"({labels.some(value.items, _item_shape, 4)})"
    return labels.value_text(value, view.style)


def _tensor_shape(meta: TensorMeta) -> str:
    text = labels.shape_text(meta.shape)
    return text if meta.became is None else f"{text} → {labels.shape_text(meta.became.shape)}"


def _item_shape(value: ValueInfo) -> str:
    return _tensor_shape(value) if isinstance(value, TensorMeta) else labels.value_text(value, labels.BARE)


_KINDS = {SymInt: "SymInt", SymFloat: "SymFloat", SymBool: "SymBool", SizeInfo: "Size"}


def _dtype(view: GraphView, node: NodeRecord) -> str:
    if isinstance(node.value, TensorMeta):
        return labels.dtype_text(node.value.dtype)
    return _KINDS.get(type(node.value)) or each(node.value, lambda meta: labels.dtype_text(meta.dtype))


def _args(view: GraphView, node: NodeRecord, within: str = "") -> str:
    text = labels.args_text(node, view.names_in(within))
    if node.body is not None and 0 <= node.body < len(view.bodies):
        return (
            f"body {view.bodies[node.body].name}"
            if not text
            else f"{text}, body {view.bodies[node.body].name}"
        )
    return text


def _module(view: GraphView, node: NodeRecord) -> str:
    return "" if node.source is None else node.source.call or node.source.module


def _source(view: GraphView, node: NodeRecord) -> str:
    return "" if node.source is None else labels.place_text(node.source.file, node.source.line)


def _code(view: GraphView, node: NodeRecord) -> str:
    return "" if node.source is None or not node.source.code else node.source.code.strip()


def _users(view: GraphView, node: NodeRecord) -> str:
    """How many nodes read it, and which: ``2: relu, add_1``."""
    found = view.users[node.index]
    names = labels.some(found, lambda i: labels.name_text(view.names[i]), 4)
    return f"{len(found)}: {names}" if found else "0"


def _bytes(view: GraphView, node: NodeRecord) -> str:
    """Bytes as a plain number; a symbolic size with its value: ``64*s0 = 512``."""
    if node.value is None:
        return ""
    size = nbytes(node.value)
    if size is None:
        return "?"
    if isinstance(size, int):
        return str(size) if size or any(True for _ in iter_tensors(node.value)) else ""
    number = nbytes_at(node.value, view.hints)
    return labels.dim_text(size) if number is None else f"{labels.dim_text(size)} = {number}"


def _label(view: GraphView, node: NodeRecord) -> str:
    """The name, but ``(parameter)`` for one whose long name nothing refers to: arguments have its path."""
    name = view.names[node.index]
    if name == node.name or node.source is None:
        return labels.name_text(node.name)
    return f"({node.source.input_kind})"


Column = Callable[[GraphView, NodeRecord], str]

COLUMNS: dict[str, Column] = {
    "index": lambda view, node: str(node.index),
    "op": lambda view, node: node.op,
    "name": lambda view, node: labels.name_text(node.name),
    "target": lambda view, node: labels.node_target_text(node),
    "args": _args,
    "shape": _shape,
    "dtype": _dtype,
    "device": lambda view, node: each(node.value, lambda meta: meta.device),
    "stride": lambda view, node: each(node.value, lambda meta: labels.stride_text(meta.stride)),
    "offset": lambda view, node: each(node.value, lambda meta: labels.dim_text(meta.storage_offset)),
    "grad": lambda view, node: each(node.value, lambda meta: "yes" if meta.requires_grad else "no"),
    "value": lambda view, node: view.value(node.index),
    "type": lambda view, node: view.type_text(node.index),
    "call": lambda view, node: view.call(node.index),
    "module": _module,
    "source": _source,
    "code": _code,
    "users": _users,
    "bytes": _bytes,
}
"""Every column that a table can show: its name, and how a node's cell reads."""

NARROW_COLUMNS: dict[str, Column] = {**COLUMNS, "label": _label}
"""With ``label``, which stands for ``name`` where room is short."""
