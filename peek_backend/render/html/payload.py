"""A record as the page reads it: columns of numbers, each text once, deflated.

A node's texts come from ``labels``, so that the page words everything as the tables do. Two columns save most of the
space: arguments are templates with a mark where a node stands (``NODE``), the same for every layer of a model, and
references are distances back from the reader.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ...analysis.advice import rewrites
from ...analysis.autograd import AutogradView, Saved, autograd_views
from ...analysis.dims import short_floats
from ...analysis.totals import nbytes_at
from ...analysis.why import is_size, of_symbol
from ...model import (
    CaptureRecord,
    GraphRecord,
    NodeRecord,
    Source,
    SymbolInfo,
    TensorMeta,
    ValueInfo,
    iter_tensors,
    node_refs,
)
from ...model.graph import body_key
from ...passes.hierarchy import is_inline, nodes_of
from ...snapshot.jsonfile import OPCODES
from .. import labels
from ..escape import visible
from ..view import GraphView
from .containers import container_columns
from .kinds import kind_numbers

VERSION = 1
NODE = "\x01"
"""Stands for the next reference in an argument template; labels spell control characters out, so no text has it."""
OPS = {op: number for number, op in enumerate(OPCODES)}

MAX_TEXT = 2_000
"""Characters of one text that the page keeps: a 100 kB repr is shortened, its length told."""


class Strings(dict):
    """Texts by number, each once, None as -1; long ones lose their middle. A text gets its number when it is first asked for."""

    def __init__(self) -> None:
        super().__init__({None: -1})

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self) - 1
        return number

    def add(self, text: str | None) -> int:
        """The number of ``text``; -1 for None."""
        return self[text]

    def texts(self) -> list[str]:
        """All texts in order of their numbers, without lone surrogates (JSON in UTF-8 has none)."""
        return [clean(text) for text in self if text is not None]


_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """``text`` at most MAX_TEXT long, encodable, in the order it is read: marks that turn what follows are spelled."""
    if len(text) > MAX_TEXT:
        text = f"{labels.shorten(text, MAX_TEXT - 40)} ({len(text):,} characters)"
    text = labels.said(text)
    if not text.isascii():
        text = _DIRECTIONS.sub(lambda m: visible(m[0]), text)
    return text.encode("utf-8", "replace").decode("utf-8")


def encode(payload: dict[str, Any]) -> str:
    """The payload as base64 of deflated JSON: letters, digits, ``+/=`` alone, so safe inside any tag."""
    return base64.b64encode(zlib.compress(msgspec.json.encode(payload), 6)).decode("ascii")


def capture_payload(
    record: CaptureRecord,
    sources: Mapping[str, str] | None = None,
    base: CaptureRecord | None = None,
    views: Sequence[GraphView] = (),
) -> dict[str, Any]:
    """All that the page needs of ``record``; ``sources`` are whole texts of source files, by path, where at hand.

    The graphs of ``base``, an older capture, come after those of ``record`` and carry ``side: "before"``. ``views`` of
    its graphs, where there are any already, spare their module trees.
    """
    strings, values = Strings(), Values()
    graphs = _graphs(record, strings, values, 0, views)
    if base is not None:
        graphs += [graph | {"side": "before"} for graph in _graphs(base, strings, values, len(graphs), ())]
    files = {path: _lines(text) for path, text in (sources or {}).items() if path in strings}
    changed = _changed(record, files)
    return {
        "version": VERSION,
        "environment": plain(record.environment),
        "graphs": graphs,
        "frames": plain(record.frames),
        "breaks": [plain(b) | {"fix": plain(rewrites(b))} for b in record.breaks],
        "recompiles": plain(record.recompiles),
        "problems": plain(record.problems),
        "notes": plain(record.notes),
        "autograd": [_autograd(view, graphs) for view in autograd_views(record)],
        "values": values.rows,
        "sources": {
            clean(p): [clean(line) for line in lines] for p, lines in files.items() if p not in changed
        },
        "changed": [clean(path) for path in files if path in changed],
        "strings": strings.texts(),
    }


def _changed(record: CaptureRecord, files: Mapping[str, Sequence[str]]) -> set[str]:
    """Those of ``files`` in which a line that the capture has reads otherwise now; never one of which it has none."""
    recorded = {
        (source.file, source.line, source.code)
        for graph, _ in flat_graphs(record)
        for node in graph.nodes
        if (source := node.source) is not None and source.file in files and source.line and source.code
    }
    return {file for file, line, code in recorded if not _is_there(code, files[file], line)}


def _lines(text: str) -> list[str]:
    """The lines of a file as Python counts them: a form feed ends none."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _is_there(code: str, lines: Sequence[str], line: int) -> bool:
    """Whether ``code``, of which only the first line counts, stands at this line, from 1, of a file."""
    return 0 < line <= len(lines) and lines[line - 1].strip().startswith(code.strip().split("\n")[0].strip())


def _graphs(
    record: CaptureRecord, strings: Strings, values: Values, first: int, views: Sequence[GraphView]
) -> list[dict[str, Any]]:
    """Every graph of ``record``; the first one stands at position ``first`` of the payload's list."""
    flat, titles = flat_graphs(record), labels.graph_keys(record.graphs)
    keys = _keys(flat, first)
    known = {id(view.graph): view for view in views}
    found: list[dict[str, Any]] = []
    for graph, parent in flat:
        owner = graph if parent is None else flat[parent][0]
        view = known.get(id(graph)) or GraphView(graph, owner.children)
        row = graph_payload(view, strings, values, keys)
        row["parent"] = None if parent is None else first + parent
        row["title"] = clean(_title(graph, titles, owner, record))
        found.append(row)
    return found


def _keys(flat: list[tuple[GraphRecord, int | None]], first: int) -> dict[str, int]:
    """The position of every graph by the key that a node's origins name it with; a body's has its root's key in it."""
    return {
        graph.key if parent is None else body_key(flat[parent][0].key, graph.name): first + at
        for at, (graph, parent) in enumerate(flat)
    }


def _title(graph: GraphRecord, titles: list[str], owner: GraphRecord, record: CaptureRecord) -> str:
    if graph is not owner:
        return labels.name_text(graph.name or "body")
    key = next(title for title, other in zip(titles, record.graphs, strict=True) if other is graph)
    return f"{key} {labels.name_text(graph.name)}" if graph.name and graph.name != key else key


def flat_graphs(record: CaptureRecord) -> list[tuple[GraphRecord, int | None]]:
    """Every graph, each followed by its children, with the position of the root graph that a child belongs to."""
    flat: list[tuple[GraphRecord, int | None]] = []
    for graph in record.graphs:
        root = len(flat)
        flat.append((graph, None))
        flat.extend((child, root) for child in graph.children)
    return flat


def plain(value: Any) -> Any:
    """Records as dicts and lists with every text cleaned."""
    value = msgspec.to_builtins(value)
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(k): plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


class Values:
    """Each different value once, as the row that the panel shows."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.index: dict[Any, int] = {}

    def add(self, value: ValueInfo | None, hints: Mapping[str, Any]) -> int:
        """The number of the row of ``value``; -1 for None."""
        if value is None:
            return -1
        key = _key(value)
        number = self.index.get(key)
        if number is None:
            number = self.index[key] = len(self.rows)
            self.rows.append(value_row(value, hints))
        return number


def _key(value: ValueInfo) -> Any:
    if type(value) is TensorMeta and not value.inner and value.became is None:
        # storage differs from node to node and is not shown
        return (value.shape, value.dtype, value.stride, value.device, value.requires_grad, value.storage_offset,
                value.layout, value.subclass, value.flags)  # fmt: skip
    return repr(value)


def value_row(value: ValueInfo, hints: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a value, and for a tensor (the first of a tuple) its facts and bytes."""
    tensors = list(iter_tensors(value))
    row: dict[str, Any] = {
        "text": clean(labels.value_text(value, labels.BARE)),
        "full": clean(labels.value_text(value)),
    }
    if tensors:
        first = tensors[0]
        row |= {
            "dtype": labels.dtype_text(first.dtype),
            "shape": labels.shape_text(first.shape),
            "stride": labels.stride_text(first.stride),
            "device": first.device,
            "layout": first.layout,
            "offset": first.storage_offset,
            "grad": first.requires_grad,
            "flags": list(first.flags),
            "dims": [clean(str(d)) for d in first.shape],
            "bytes": nbytes_at(value, hints),
        }
    return row


def graph_payload(
    view: GraphView, strings: Strings, values: Values, keys: Mapping[str, int]
) -> dict[str, Any]:
    """One graph: what it is, its nodes as columns, its containers in preorder."""
    graph = view.graph
    return {
        "key": clean(graph.key),
        "stage": graph.stage,
        "name": clean(graph.name),
        "file": clean(graph.file),
        "line": graph.line,
        "compile_id": graph.compile_id,
        "frame": graph.frame,
        "part": graph.part,
        "lowering": plain(graph.lowering),
        "rank": graph.rank,
        "n": len(graph.nodes),
        "nodes": node_columns(view, strings, values, keys),
        "seq": deltas(nodes_of(view.tree)),
        "groups": container_columns(view, strings.add),
        "stacks": plain(graph.stacks),
        "symbols": [_symbol(graph, s) for s in graph.symbols],
        "relations": plain([short_floats(relation) for relation in graph.relations]),
        "guards": plain(graph.guards),
        "state": plain(graph.state),
        "ended_by": plain(graph.ended_by),
        "never_ran": plain(graph.never_ran),
        "problems": plain(graph.problems),
        "notes": plain(graph.notes),
    }


def deltas(numbers: list[int]) -> list[int]:
    """Each number as the step from the one before: runs of neighbours deflate to almost nothing."""
    return [b - a for a, b in zip([0, *numbers], numbers, strict=False)]


def _autograd(view: AutogradView, graphs: list[dict[str, Any]]) -> dict[str, Any]:
    """What one forward keeps for its backward, the largest first; graphs by position, nodes by index."""
    at = {
        graph["key"]: position
        for position, graph in reversed(list(enumerate(graphs)))
        if graph["parent"] is None
    }
    return {
        "forward": at[clean(view.forward.key)],
        "backward": at[clean(view.backward.key)],
        "bytes": view.nbytes,
        "new_bytes": view.new_bytes,
        "recomputed": [node.index for node in view.recomputed],
        "saved": [_saved(saved) for saved in view.saved],
        "gradients": [[clean(g.input), None if g.node is None else g.node.index] for g in view.gradients],
    }


def _saved(saved: Saved) -> dict[str, Any]:
    source = saved.source or _NO_SOURCE
    return {
        "node": saved.index,
        "name": clean(saved.name),
        "value": clean(labels.value_text(saved.value, labels.BARE)),
        "bytes": saved.nbytes,
        "input": saved.is_input,
        "place": clean(labels.place_text(source.file, source.line)),
        "code": clean(source.code or ""),
        "readers": [reader.index for reader in saved.readers],
    }


def _symbol(graph: GraphRecord, symbol: SymbolInfo) -> dict[str, Any]:
    """A symbol with its numbers as Python writes them, and ``why``: what it came to be, by which facts, what would free it."""
    found = of_symbol(graph, symbol, symbol.name)
    why = {"verdict": clean(found.verdict), "chain": plain(found.chain), "change": clean(found.change)}
    numbers = {"hint": symbol.hint, "lower": symbol.lower, "upper": symbol.upper}
    return plain(symbol) | {
        "why": why | {"static": found.static},
        "size": is_size(symbol),
        "replaced_by": None if symbol.replaced_by is None else clean(short_floats(symbol.replaced_by)),
        "texts": {name: str(value) for name, value in numbers.items() if value is not None},
    }


_NO_SOURCE = Source()
_CALL = OPS["call_function"]  # what an op of a later torch is drawn as; a file with one is not read at all


def node_columns(
    view: GraphView, strings: Strings, values: Values, keys: Mapping[str, int]
) -> dict[str, list]:
    """Nodes as columns; texts and values are numbers, ``refs`` all references of all nodes in one list."""
    add, graph, hints = strings.__getitem__, view.graph, view.hints
    nodes, marks, names = graph.nodes, _Marks(), view.names
    sources = [node.source or _NO_SOURCE for node in nodes]
    refs = [node_refs(node) for node in nodes]
    return {
        "name": [add(node.name) for node in nodes],
        "op": [OPS.get(node.op, _CALL) for node in nodes],
        "target": [add(node.target) for node in nodes],
        "label": [add(node_label(node)) for node in nodes],
        "args": [add(_args(node, r, names, marks)) for node, r in zip(nodes, refs, strict=True)],
        "value": [values.add(node.value, hints) for node in nodes],
        "kind": kind_numbers(graph),
        "inline": [int(is_inline(node) and node.body is None) for node in nodes],
        "body": [-1 if node.body is None else node.body for node in nodes],
        "file": [add(s.file) for s in sources],
        "line": [s.line or 0 for s in sources],
        "code": [add(s.code) for s in sources],
        "function": [add(s.function) for s in sources],
        "caller": [-1 if s.caller is None else s.caller for s in sources],
        "module": [add(s.module) for s in sources],
        "input": [add(s.input) for s in sources],
        "input_kind": [add(s.input_kind) for s in sources],
        "origin": [add(s.origin) for s in sources],
        "ref_count": [len(r) for r in refs],
        "refs": [node.index - r for node, back in zip(nodes, refs, strict=True) for r in back],
        "no_origin": [add(node.no_origin) for node in nodes],
        "origins": [
            [node.index, keys[key], index] for node in nodes for key, index in node.origins if key in keys
        ],
    }  # fmt: skip


class _Marks:
    """Every node's label is NODE: arguments then read the same in every layer."""

    def __len__(self) -> int:
        return 1 << 62

    def __getitem__(self, index: int) -> str:
        return NODE


def _args(node: NodeRecord, refs: list[int], names: list[str], marks: _Marks) -> str:
    """Arguments with NODE where a node stands; with the names themselves where a long list was cut."""
    text = labels.args_text(node, marks)
    return text if text.count(NODE) == len(refs) else labels.args_text(node, names)


def node_label(node: NodeRecord) -> str:
    """What a box says: the target without its module, an input's source, ``output``."""
    return labels.node_target_text(node)
