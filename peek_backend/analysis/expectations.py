"""Partial assertions on a snapshot, as FileCheck's on a compiler's text: counts, ops there or not, order, types, sizes.

Comes in: a Snapshot and what is expected of it. Goes out: one sentence for each expectation that does not hold. An op is
named as the file shows it (``F.linear``, ``.view``, ``operator.add``, ``aten.mm``), by its last word (``linear``), or by a
glob (``aten.*``).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..errors import PeekError, unknown_name
from ..model.dtypes import DTYPES, OTHER_NAMES
from ..model.snapshot import Body, Graph, Input, Node, Snapshot, TensorType, TupleType, Type
from ..passes.aliases import alias, op_name
from ..snapshot.graphfile import type_text

MAX_NAMED = 5
"""Places that one sentence names."""

_COMPARISON = re.compile(r"\s*(==|!=|<=|>=|<|>)?\s*(\d+)\s*")
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_SIZE = re.compile(r"(.+)\.shape\[(\d+)\]")
_LONG = {short: long for long, short in DTYPES.items()}

# What ATen calls these is written with these words before it is lowered.
_BEFORE_ATEN = {
    "aten._to_copy": (
        "to", "float", "double", "half", "bfloat16", "int", "long", "short", "bool", "type", "type_as", "cpu", "cuda",
    ),
    "aten.copy_": ("copy_",),
}  # fmt: skip

COUNTS = ("breaks", "frames", "graphs", "guards", "ops", "recompiles", "skipped")
KEYS = (
    *COUNTS, "op", "no_op", "op_counts", "order", "chain", "shapes", "dtypes", "devices", "no_dtype", "no_device", "dynamic",
    "static", "within", "graph",
)  # fmt: skip


def unmet(
    snapshot: Snapshot, expected: Mapping[str, Any], names: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """A sentence for each expectation that does not hold; ``names`` are the sizes (``x.shape[0]``) that a word (``batch``)
    stands for.

    Raises PeekError for an unknown expectation and for a value that it cannot have.
    """
    for key in expected:
        if key not in KEYS:
            raise unknown_name("expectation", key, KEYS)
    scope = _Scope(snapshot, expected.get("graph"), expected.get("within"), names or {})
    found: list[str] = []
    for key, value in expected.items():
        if key in COUNTS:
            found += scope.count(key, value)
        elif key not in ("within", "graph"):
            found += getattr(scope, f"check_{key}")(value)
    return found


class _Scope:
    """The graphs and ops that the expectations are about."""

    def __init__(
        self, snapshot: Snapshot, graph: str | None, within: str | None, names: Mapping[str, Sequence[str]]
    ):
        self.snapshot, self.names, self.within = snapshot, names, within
        self.captured = [g for g in snapshot.graphs if g.stage == "dynamo"]
        self.graphs = [g for g in snapshot.graphs if graph is None or fnmatchcase(g.title, graph)]
        if not self.graphs:
            titles = ", ".join(g.title for g in snapshot.graphs)
            why = f"there are: {titles}" if titles else "nothing was captured"
            raise PeekError(f"no graph {graph or ''}".rstrip(), why, "leave out graph=, or name one of them")
        self.nodes = [node for section in self.sections() for node in section.nodes if self.inside(node)]
        self.counted = self.graphs if graph is not None else self.captured or self.graphs

    def sections(self, graphs: Sequence[Graph] | None = None) -> Iterator[Graph | Body]:
        for graph in self.graphs if graphs is None else graphs:
            yield graph
            yield from graph.bodies

    def inside(self, node: Node) -> bool:
        module = node.module
        return (
            self.within is None or fnmatchcase(module, self.within) or fnmatchcase(module, f"{self.within}.*")
        )

    def count(self, key: str, wanted: Any) -> Iterator[str]:
        """Counts are those of ``record.stats``: later stages that are pinned too are no more graphs and ops of the program."""
        ops = [n for section in self.sections(self.counted) for n in section.nodes if self.inside(n)]
        counts = {
            **self.snapshot.stats,
            "graphs": len(self.captured),
            "guards": sum(len(g.guards) for g in self.counted),
            "ops": len(ops),
            "skipped": len(self.snapshot.skipped),
        }
        if not _holds(key, counts[key], wanted):
            yield f"{key}: expected {_wanted(wanted)}, got {counts[key]}{self.told(key)}"

    def told(self, key: str) -> str:
        """The breaks or recompiles behind a count."""
        if key == "breaks":
            lines = [
                f"{b.place.file}:{b.place.line or b.place.function}  {b.place.code}  {b.reason}"
                for b in self.snapshot.breaks
            ]
        elif key == "recompiles":
            lines = [f"{g.title}  because {g.because}" for g in self.snapshot.graphs if g.variant > 1]
        else:
            lines = [g.title for g in self.captured] if key == "graphs" else []
        shown = [f"\n      {line}" for line in lines[:MAX_NAMED]]
        return "".join(shown) + (
            f"\n      … and {len(lines) - MAX_NAMED} more" if len(lines) > MAX_NAMED else ""
        )

    def matching(self, name: str) -> list[Node]:
        return [node for node in self.nodes if op_matches(name, node.target)]

    def check_op(self, names: Any) -> Iterator[str]:
        for name in _texts("op", names):
            if not self.matching(name):
                yield f"op: no {name} among {len(self.nodes)} ops{_hint(name, self.nodes)}"

    def check_no_op(self, names: Any) -> Iterator[str]:
        for name in _texts("no_op", names):
            if found := self.matching(name):
                yield f"no_op: {name} is there {_times(len(found))}{_places(found)}"

    def check_op_counts(self, wanted: Any) -> Iterator[str]:
        for name, number in _mapping("op_counts", wanted, '{"F.linear": 2}').items():
            found = self.matching(name)
            if not _holds(f"op_counts[{name!r}]", len(found), number):
                yield f"op_counts: expected {_wanted(number)} {name}, got {len(found)}{_places(found)}"

    def check_order(self, names: Any) -> Iterator[str]:
        """The ops stand in this order, whatever is between them."""
        wanted = _texts("order", names)
        left = iter(self.nodes)
        for place, name in enumerate(wanted):
            if not any(op_matches(name, node.target) for node in left):
                after = f" after {', '.join(wanted[:place])}" if place else ""
                found = len(self.matching(name))
                there = f"; it is there {_times(found)}, before that" if found else _hint(name, self.nodes)
                yield f"order: no {name}{after}{there}"
                return

    def check_chain(self, names: Any) -> Iterator[str]:
        """Each op reads the one before it."""
        wanted = _texts("chain", names)
        best = max((_longest_chain(section, wanted) for section in self.sections()), default=0)
        if best < len(wanted):
            yield (
                f"chain: no {wanted[best]} reads {' → '.join(wanted[:best])}"
                if best
                else f"chain: no {wanted[0]}"
            )

    def check_shapes(self, wanted: Any) -> Iterator[str]:
        for where, shape in _mapping("shapes", wanted, '{"out": ["batch", 4]}').items():
            for label, type_ in self.types("shapes", where):
                got = type_.shape if isinstance(type_, TensorType) else None
                if got is None or not self.same_shape(got, _dims(shape)):
                    yield f"shapes: {label} is {type_text(type_)}, expected [{', '.join(map(str, _dims(shape)))}]"

    def same_shape(self, got: Sequence[Any], wanted: Sequence[Any]) -> bool:
        return len(got) == len(wanted) and all(self.same_dim(g, w) for g, w in zip(got, wanted, strict=True))

    def same_dim(self, got: Any, wanted: Any) -> bool:
        """``*`` or None is any size, ``dynamic`` any symbolic one, a word of ``dynamic=`` that size's own symbol."""
        if wanted in (None, "*", "_"):
            return True
        if wanted == "dynamic":
            return not isinstance(got, int)
        if isinstance(wanted, str) and wanted in self.names:
            return any(str(got) == self.symbol(size) for size in self.names[wanted])
        return str(got) == str(wanted)

    def symbol(self, size: str) -> str | None:
        return next((s.name for g in self.graphs for s in g.symbols if size in s.sources), None)

    def check_dtypes(self, wanted: Any) -> Iterator[str]:
        for where, name in _mapping("dtypes", wanted, '{"out": "bf16"}').items():
            for label, type_ in self.types("dtypes", where):
                if not isinstance(type_, TensorType) or type_.dtype != _dtype(name):
                    yield f"dtypes: {label} is {type_text(type_)}, expected {_dtype(name)}"

    def check_no_dtype(self, names: Any) -> Iterator[str]:
        for name in map(_dtype, _texts("no_dtype", names)):
            found = [label for label, tensor in self.tensors() if tensor.dtype == name]
            if found:
                yield f"no_dtype: {name} in {_some(found)}"

    def check_devices(self, names: Any) -> Iterator[str]:
        """No tensor is anywhere else."""
        allowed = _texts("devices", names)
        found = [
            f"{label} ({device})"
            for label, device in self.devices()
            if not any(fnmatchcase(device, a) for a in allowed)
        ]
        if found:
            yield f"devices: not on {', '.join(allowed)}: {_some(found)}"

    def check_no_device(self, names: Any) -> Iterator[str]:
        for name in _texts("no_device", names):
            found = [label for label, device in self.devices() if fnmatchcase(device, name)]
            if found:
                yield f"no_device: {name} holds {_some(found)}"

    def devices(self) -> Iterator[tuple[str, str]]:
        home = dict(self.snapshot.env).get("device", "cpu")
        for label, tensor in self.tensors():
            yield label, tensor.device or home

    def check_dynamic(self, sizes: Any) -> Iterator[str]:
        for size in self.sizes("dynamic", sizes):
            for graph, got in self.dims(size):
                if isinstance(got, int):
                    yield f"dynamic: {size} is {got} in {graph.title}"

    def check_static(self, sizes: Any) -> Iterator[str]:
        for size in self.sizes("static", sizes):
            for graph, got in self.dims(size):
                if not isinstance(got, int):
                    yield f"static: {size} is {got} in {graph.title}"

    def sizes(self, key: str, wanted: Any) -> Iterator[str]:
        """``x.shape[0]`` for a word, a size, or ``{"x": 0}``. Raises PeekError for what is none of these."""
        if isinstance(wanted, Mapping):
            for name, dims in wanted.items():
                yield from [f"{name}.shape[{dim}]" for dim in ([dims] if isinstance(dims, int) else dims)]
            return
        for text in _texts(key, wanted):
            if text in self.names:
                yield from self.names[text]
            elif _SIZE.fullmatch(text):
                yield text
            else:
                raise unknown_name("size", text, [*self.names, *self.sizes_of_arguments()], key)

    def sizes_of_arguments(self) -> Iterator[str]:
        """Every size that may be named, of arguments; where a graph has none, of its parameters and buffers."""
        tensors = [e for g in self.graphs for e in g.inputs if isinstance(e.type, TensorType)]
        arguments = [e for e in tensors if not e.kind and "." not in e.name.partition("[")[0]]
        for name, type_ in {e.name: e.type for e in arguments or tensors}.items():
            assert isinstance(type_, TensorType)
            yield from [f"{name}.shape[{dim}]" for dim in range(len(type_.shape))]

    def dims(self, size: str) -> Iterator[tuple[Graph, Any]]:
        """What a size is in each graph that has its input. Raises PeekError when none has."""
        found = _SIZE.fullmatch(size)
        assert found is not None
        name, dim, seen = found[1], int(found[2]), False
        for graph in self.graphs:
            for entry in graph.inputs:
                if entry.name == name and isinstance(entry.type, TensorType):
                    if dim >= len(entry.type.shape):
                        raise PeekError(
                            f"there is no {size}", f"{name} is {type_text(entry.type)}", "count dims from 0"
                        )
                    seen = True
                    yield graph, entry.type.shape[dim]
        if not seen:
            raise unknown_name("input", name, [entry.name for graph in self.graphs for entry in graph.inputs])

    def types(self, key: str, where: str) -> list[tuple[str, Type]]:
        """What ``where`` names: ``out``, ``out[1]``, an input, a label (``fc1.linear``), a glob of labels, an op."""
        found = list(self.outputs(where)) if re.fullmatch(r"out(\[\d+\])?", where) else []
        found += [
            (e.name, e.type) for g in self.graphs for e in g.inputs if fnmatchcase(e.name, _literal(where))
        ]
        pattern = _literal(where.removeprefix("%"))
        found += [(f"%{n.label}", n.type) for n in self.nodes if fnmatchcase(n.label, pattern)]
        found = found or [(f"%{n.label}", n.type) for n in self.matching(where)]
        if not found:
            known = [*(n.label for n in self.nodes), *(e.name for g in self.graphs for e in g.inputs), "out"]
            raise unknown_name(f"value in {key}", where, known[:200])
        return found

    def outputs(self, where: str) -> Iterator[tuple[str, Type]]:
        index = int(where[4:-1]) if "[" in where else None
        for graph in self.graphs:
            operands = graph.output.operands if index is None else graph.output.operands[index : index + 1]
            for operand in operands:
                inside = operand - len(graph.inputs)
                entry: Node | Input = graph.nodes[inside] if inside >= 0 else graph.inputs[operand]
                yield (
                    f"{graph.title}'s out {entry.label if isinstance(entry, Node) else entry.name}",
                    entry.type,
                )

    def tensors(self) -> Iterator[tuple[str, TensorType]]:
        for section in self.sections():
            for entry in section.inputs if self.within is None else ():
                yield from ((entry.name, tensor) for tensor in _tensors(entry.type))
        for node in self.nodes:
            yield from ((f"%{node.label}", tensor) for tensor in _tensors(node.type))


def op_matches(name: str, target: str) -> bool:
    """Whether an op of a snapshot is the one that a person names."""
    wanted = alias(name)
    if fnmatchcase(target, wanted) or fnmatchcase(target, f"{wanted}.*"):
        return True
    if "." not in wanted.strip("."):
        return fnmatchcase(op_name(target), wanted.strip("."))
    if wanted.startswith("aten.") and not target.startswith("aten."):
        return op_name(target) in _BEFORE_ATEN.get(wanted, (op_name(wanted),))
    return False


def _tensors(type_: Type) -> Iterator[TensorType]:
    if isinstance(type_, TensorType):
        yield type_
    elif isinstance(type_, TupleType):
        for item in type_.items:
            yield from _tensors(item)


def _longest_chain(section: Graph | Body, wanted: Sequence[str]) -> int:
    """How many of ``wanted``, from the first, are found as ops that each read the one before."""
    depths: list[frozenset[int]] = []
    first = len(section.inputs)
    best = 0
    for node in section.nodes:
        reached = {0} | {d for o in node.operands if o >= first for d in depths[o - first]}
        here = frozenset(d + 1 for d in reached if d < len(wanted) and op_matches(wanted[d], node.target))
        depths.append(here)
        best = max(best, *here, 0)
    return best


def _literal(where: str) -> str:
    """A pattern in which brackets are themselves: ``batch[0]`` names an input."""
    return where.replace("[", "[[]")


def _dims(shape: Any) -> list[Any]:
    if isinstance(shape, str):
        inside = shape.strip()
        inside = inside[1:-1] if inside[:1] in "([" else inside
        return [int(p) if p.isdigit() else p for p in (part.strip() for part in inside.split(",")) if p]
    if isinstance(shape, (list, tuple)):
        return list(shape)
    raise PeekError(f"shapes: {shape!r} is no shape", "", 'write ["batch", 4], with None for any size')


def _dtype(name: Any) -> str:
    """A dtype's short name by any of its names: ``torch.float64``, ``float64``, ``f64``."""
    text = str(name).removeprefix("torch.")
    text = OTHER_NAMES.get(text, text)
    if text not in DTYPES and text not in _LONG:
        raise unknown_name("dtype", text, [*DTYPES, *_LONG])
    return DTYPES.get(text, text)


def _holds(key: str, got: int, wanted: Any) -> bool:
    """Whether a count is what is asked for: a number, ``"<= 3"``, or a pair of bounds, both included."""
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        return got == wanted
    if isinstance(wanted, str) and (found := _COMPARISON.fullmatch(wanted)):
        return _COMPARE[found[1] or "=="](got, int(found[2]))
    if (
        isinstance(wanted, (tuple, list))
        and len(wanted) == 2
        and all(b is None or isinstance(b, int) for b in wanted)
    ):
        low, high = wanted
        return (low or 0) <= got <= (math.inf if high is None else high)
    raise PeekError(f"{key}: {wanted!r} is no count", "", 'write 0, "<= 3" or (1, 3)')


def _wanted(wanted: Any) -> str:
    return f"{wanted[0] or 0} to {wanted[1]}" if isinstance(wanted, (tuple, list)) else str(wanted)


def _texts(key: str, value: Any) -> list[str]:
    """One name or several, or what prints as one (a dtype). Raises PeekError for an empty one: it would always hold."""
    items = list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
    texts = [str(item).strip() for item in items]
    if not texts or not all(texts) or any(item is None or isinstance(item, (bool, int)) for item in items):
        raise PeekError(f"{key}: {value!r} names nothing", "", f'write {key}="…" or {key}=["…", "…"]')
    return texts


def _mapping(key: str, value: Any, example: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise PeekError(f"{key}: {value!r} is no mapping", "", f"write {key}={example}")
    return value


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _places(nodes: Sequence[Node]) -> str:
    """Where ops are: one line each, the user's where it is known."""
    lines = []
    for node in nodes[:MAX_NAMED]:
        place = node.place
        code = (
            f"  {place.file}:{place.line or place.function}  {place.code}"
            if place is not None and place.file
            else ""
        )
        lines.append(f"\n      %{node.label}{code}")
    more = f"\n      … and {len(nodes) - MAX_NAMED} more" if len(nodes) > MAX_NAMED else ""
    return "".join(lines) + more


def _hint(name: str, nodes: Iterable[Node]) -> str:
    """The ops that there are, the nearest first."""
    from ..errors import nearest

    known = list(dict.fromkeys(node.target for node in nodes))
    close = nearest(name, known)
    if close is not None:
        return f"; did you mean {close!r}?"
    return f"; there are: {_some(known)}" if known else ""


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def needs_aten(expected: Mapping[str, Any], snapshot: Snapshot) -> list[str]:
    """ATen ops that are asked for while the snapshot has no graph of ATen ops, so that their last word is looked for."""
    if any(graph.stage != "dynamo" for graph in snapshot.graphs):
        return []
    names = [
        name
        for key in ("op", "no_op", "order", "chain")
        for name in (_texts(key, expected[key]) if key in expected else ())
    ]
    names += list(expected.get("op_counts") or ())
    found = [alias(str(name)) for name in names]
    present = {node.target for graph in snapshot.graphs for node in graph.nodes}
    return [n for n in found if n.startswith("aten.") and n not in _BEFORE_ATEN and n not in present]


__all__ = ["COUNTS", "KEYS", "needs_aten", "op_matches", "unmet"]
