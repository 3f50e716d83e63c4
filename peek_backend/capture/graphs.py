"""A GraphModule as a GraphRecord, with the bodies of its higher-order ops."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from ..model import BreakInfo, GraphRecord, NodeRecord, Problem, Source, TensorMeta, TupleInfo, ValueInfo
from . import compat
from .arguments import ArgReader, target_name
from .breaks import read_break
from .cost import active_pricer
from .failures import in_short
from .mutation import Writes, values_at_production
from .sources import NO_POSITIONS, Described, Positions, SourceReader, describe, positions_of, receiver_of
from .symbols import read_symbols
from .values import ValueReader

_VALUE_KEYS = ("example_value", "val", "tensor_meta")


class Origin(NamedTuple):
    """What a compile knows of a graph beside its nodes; all fields stay at their defaults for a graph without a compile."""

    compile_id: str | None = None
    stage: str = "fx"
    attempt: int = 0
    call: int = 0
    rank: int | None = None
    code: Any = None
    # Real inputs, one a placeholder: metadata of a value that an in-place op changed is taken from them.
    inputs: Sequence[Any] = ()
    fake_mode: Any = None
    described: Described = Described("")
    positions: Positions = NO_POSITIONS
    # Sources of placeholders by name, for graphs that know them another way than Dynamo (an ExportedProgram).
    sources: Mapping[str, Source] = MappingProxyType({})
    state: Mapping[str, str] = MappingProxyType({})
    # Part of the paths of files whose lines are told as the line that called them, as Dynamo tells those of modules.
    skipped: str = ""


NO_COMPILE = Origin()


def read_graph(gm: fx.GraphModule, origin: Origin = NO_COMPILE) -> GraphRecord:
    """The record of ``gm``. What cannot be read of a node is a Problem of the record; the rest is kept.

    Adds no guard, keeps no tensor, calls no user code (torch function modes and subclasses are off while it reads).
    """
    mode = (
        _fake_mode_of(gm) or origin.fake_mode
    )  # the compile's own is a fresh one by now, with the same shape environment
    shape_env = getattr(mode, "shape_env", None)
    with _looking_only(shape_env):
        return _GraphReader(origin, mode, shape_env).read(gm)


@contextlib.contextmanager
def _looking_only(shape_env: Any) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch._C.DisableTorchFunction())
        stack.enter_context(_disable_current_modes())
        stack.enter_context(_collector_paused())
        if shape_env is not None:
            stack.enter_context(shape_env.suppress_guards())
        yield


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection while many records are made: it would walk all that the tracer holds, again and again."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _fake_mode_of(gm: fx.GraphModule) -> Any:
    """The fake mode of the graph's tensors; where it has only symbols, what knows their shape environment."""
    env = None
    for node in gm.graph.nodes:
        for key in _VALUE_KEYS:
            value = node.meta.get(key)
            if isinstance(value, FakeTensor):
                return value.fake_mode
            if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                env = env or _EnvOnly(value.node.shape_env)
    return env


class _EnvOnly(NamedTuple):
    """Stands for a fake mode where only symbols tell the shape environment."""

    shape_env: Any


class _GraphReader:
    """Reads one root graph and the bodies below it; bodies shared by several nodes are read once."""

    def __init__(self, origin: Origin, mode: Any, shape_env: Any):
        self.origin, self.mode, self.shape_env = origin, mode, shape_env
        self.receiver = receiver_of(origin.code) if origin.code is not None else "self"
        self.values = ValueReader()
        self.sources = SourceReader(self.receiver, origin.positions, origin.skipped)
        self.children: list[GraphRecord | None] = []
        self.problems: list[Problem] = []
        self._bodies: dict[int, int] = {}

    def read(self, gm: fx.GraphModule) -> GraphRecord:
        nodes = self._nodes(gm, self.origin.inputs)
        return GraphRecord(
            compile_id=self.origin.compile_id,
            stage=self.origin.stage,
            nodes=nodes,
            children=tuple([c for c in self.children if c is not None]),
            name=self.origin.described.name,
            file=self.origin.described.file,
            line=self.origin.described.line,
            rank=self.origin.rank,
            attempt=self.origin.attempt,
            call=self.origin.call,
            symbols=self._guarded("symbols", self._symbols) or (),
            modules=self.sources.modules,
            stacks=tuple(self.sources.stacks),
            state=dict(self.origin.state),
            ended_by=self._guarded("how the graph ended", lambda: self._ended_by(gm)),
            problems=tuple(self.problems),
        )

    def _symbols(self) -> Any:
        return read_symbols(
            self.shape_env, self.values.symbols, self.receiver, positions=self.origin.positions
        )

    def _ended_by(self, gm: fx.GraphModule) -> BreakInfo | None:
        """The break that ended the graph, which Dynamo notes on it; None for a plain return."""
        reason = getattr(gm, "compile_subgraph_reason", None)
        if reason is None or not reason.graph_break:
            return None
        return msgspec.structs.replace(read_break(reason), compile_id=self.origin.compile_id)

    def _guarded(self, where: str, read: Callable[[], Any]) -> Any:
        """``read()``, or None and a Problem: looking never fails the program."""
        try:
            return read()
        except Exception as error:
            self.problems.append(Problem(where, "could not be read", in_short(error)))
            return None

    def _nodes(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> tuple[NodeRecord, ...]:
        nodes = list(gm.graph.nodes)
        return _BodyReader(self, gm, nodes, inputs).read()

    def body(self, module: fx.GraphModule, name: str) -> int:
        """The index among ``children`` of a subgraph, read at its first use."""
        index = self._bodies.get(id(module))
        if index is None:
            index = self._bodies[id(module)] = len(self.children)
            self.children.append(None)  # reserves the place: bodies inside come after it
            nodes = self._guarded(f"subgraph {name}", lambda: self._nodes(module, ()))
            self.children[index] = GraphRecord(
                self.origin.compile_id,
                self.origin.stage,
                nodes or (),
                (),
                name=name,
                call=0,
                rank=self.origin.rank,
            )
        return index


class _BodyReader:
    """Reads the nodes of one graph of the tree."""

    def __init__(self, tree: _GraphReader, gm: fx.GraphModule, nodes: list[fx.Node], inputs: Sequence[Any]):
        self.tree, self.gm, self.nodes = tree, gm, nodes
        self.args = ArgReader({node: i for i, node in enumerate(nodes)})
        placeholders = [n for n in nodes if n.op == "placeholder"]
        self.entries = dict(zip(placeholders, inputs, strict=False))
        self._attributes: dict[str, Any] = {}
        pricer = active_pricer(tree.origin.stage)
        self.pricer = pricer.graph(self.value_of, tree.shape_env) if pricer is not None else None

    def read(self) -> tuple[NodeRecord, ...]:
        produced, writes = self._produced()
        return tuple([self._node(i, node, produced, writes) for i, node in enumerate(self.nodes)])

    def _produced(self) -> tuple[dict[fx.Node, ValueInfo], Writes | None]:
        """Values at production of the few nodes whose recorded value is later than that."""
        tree = self.tree
        writes = tree._guarded(
            f"in-place ops of {tree.origin.described.name or 'the graph'}",
            lambda: Writes(self.nodes, self.value_of),
        )
        if writes is None or not writes.stale:
            return {}, writes
        mode = tree.mode if not isinstance(tree.mode, _EnvOnly) else None
        if mode is None:
            return {}, writes
        found = tree._guarded(
            f"values before in-place ops ({writes.stale[0].name}, …)",
            lambda: values_at_production(
                writes.stale, self.value_of, self.entries.get, mode, tree.values.read
            ),
        )
        return found or {}, writes

    def value_of(self, node: fx.Node) -> Any:
        """What torch recorded for a node, whichever of its keys is there; a get_attr's own tensor otherwise."""
        meta = node.meta
        for key in _VALUE_KEYS:
            if key in meta:
                return meta[key]
        if node.op == "get_attr":
            return self._attribute(node)
        return _MISSING

    def _attribute(self, node: fx.Node) -> Any:
        target = str(node.target)
        if target not in self._attributes:
            found: Any = self.gm
            for step in target.split("."):
                found = getattr(found, step, _MISSING)
            self._attributes[target] = found
        return self._attributes[target]

    def _node(self, index: int, node: fx.Node, produced: dict, writes: Writes | None) -> NodeRecord:
        try:
            value, body = self._value(index, node, produced, writes), self._body(node)
            return NodeRecord(
                index=index,
                name=node.name,
                op=node.op,
                target=target_name_cached(node.target),
                args=self.args.args(node.args),
                kwargs=self.args.kwargs(node.kwargs),
                value=value,
                source=self._source(node),
                body=body,
                cost=self.pricer.price(node, value) if self.pricer is not None else None,
            )
        except Exception:
            return self._node_in_parts(index, node, produced, writes)

    def _node_in_parts(self, index: int, node: fx.Node, produced: dict, writes: Writes | None) -> NodeRecord:
        """The slow way, taken after a failure: what can be read is kept, each part that cannot is a Problem."""
        part = self._part(node)
        return NodeRecord(
            index=index,
            name=str(node.name),
            op=node.op,
            target=part("target", lambda: target_name(node.target)) or "?",
            args=part("arguments", lambda: self.args.args(node.args)) or (),
            kwargs=part("keyword arguments", lambda: self.args.kwargs(node.kwargs)) or {},
            value=part("value", lambda: self._value(index, node, produced, writes)),
            source=part("source", lambda: self._source(node)),
            body=part("subgraph", lambda: self._body(node)),
        )

    def _part(self, node: fx.Node) -> Callable[[str, Callable[[], Any]], Any]:
        return lambda what, read: self.tree._guarded(f"{what} of node {node.name}", read)

    def _source(self, node: fx.Node) -> Source | None:
        if node.op == "placeholder" and (known := self.tree.origin.sources.get(node.name)) is not None:
            return known
        return self.tree.sources.read(node)

    def _value(self, index: int, node: fx.Node, produced: dict, writes: Writes | None) -> ValueInfo | None:
        raw = self.value_of(node)
        if raw is _MISSING or isinstance(raw, torch.nn.Module) or node.op == "output":
            return None
        value = (
            _from_tensor_metadata(raw)
            if type(raw).__name__ == "TensorMetadata"
            else self.tree.values.read(raw)
        )
        if not isinstance(value, TensorMeta):
            return value
        return self._marked(value, raw, index, produced.get(node), writes)

    def _marked(
        self, value: TensorMeta, raw: Any, index: int, before: Any, writes: Writes | None
    ) -> TensorMeta:
        """``value`` at production, with what it became and whether a later node writes its data."""
        if isinstance(before, TensorMeta) and _differs(before, value):
            value = msgspec.structs.replace(
                before, became=msgspec.structs.replace(value, storage=None), storage=value.storage
            )
        if writes is not None and writes.written_after(raw, index):
            value = msgspec.structs.replace(value, flags=(*value.flags, "mutated"))
        return value

    def _body(self, node: fx.Node) -> int | None:
        if node.op not in ("get_attr", "call_module"):
            return None
        module = self._attribute(node)
        return self.tree.body(module, str(node.target)) if isinstance(module, fx.GraphModule) else None


_MISSING = object()
_COMPARED = ("shape", "stride", "dtype", "storage_offset", "requires_grad", "layout")


def _differs(before: TensorMeta, after: TensorMeta) -> bool:
    return any(getattr(before, f) != getattr(after, f) for f in _COMPARED)


def _from_tensor_metadata(meta: Any) -> TensorMeta | TupleInfo:
    """``tensor_meta`` of fx's shape propagation: shape, dtype, requires_grad, stride; it knows no device."""
    return TensorMeta(
        tuple(meta.shape),
        str(meta.dtype).removeprefix("torch."),
        tuple(meta.stride),
        "",
        bool(meta.requires_grad),
    )


_TARGETS: dict[Any, str] = {}


def target_name_cached(target: Any) -> str:
    """``target_name``; ops and torch's functions live as long as the process, so their names are kept, others are not."""
    if type(target) is str:
        return target
    try:
        name = _TARGETS.get(target)
    except TypeError:  # unhashable callables
        return target_name(target)
    if name is None:
        name = target_name(target)
        if isinstance(target, torch._ops.OpOverload) or str(getattr(target, "__module__", "")).startswith(
            ("torch", "_operator", "math")
        ):
            _TARGETS[target] = name
    return name


def compile_origin(output: Any, example_inputs: Sequence[Any], attempt: int = 0, call: int = 0) -> Origin:
    """What the running compile says of the graph that it hands to a backend."""
    code = compat.root_code(output)
    return Origin(
        compile_id=compat.compile_id(),
        stage="dynamo",
        attempt=attempt,
        call=call,
        rank=compat.rank(),
        code=code,
        described=describe(code, compat.root_locals(output)),
        positions=positions_of(code, compat.root_locals(output)),
        inputs=example_inputs,
        fake_mode=compat.fake_mode(),
        state=compat.ambient_state(),
    )
