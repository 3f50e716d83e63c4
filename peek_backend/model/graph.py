"""A captured graph: nodes with arguments, values and sources, child graphs, symbols."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from msgspec import Struct, field

from .cost import NodeCost
from .events import BreakInfo, GuardInfo, Problem, StackFrame
from .stages import StageInfo
from .values import ValueInfo


class Leaf(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """An argument for which JSON has no type; exactly one field is set, and its name is its type.

    ``{"node": 3}`` is the value of node 3 of the same graph. ``slice`` is (start, stop, step), ``dict`` a tuple of
    (key, value) pairs, ``float`` and ``complex`` are texts (``"nan"``, ``"1+2j"``), ``sym`` an expression, ``function`` a
    qualified name, ``nested`` a sequence deeper than MAX_NESTING, ``repr`` anything else as text.
    """

    node: int | None = None
    dtype: str | None = None
    device: str | None = None
    layout: str | None = None
    memory_format: str | None = None
    sym: str | None = None
    slice: tuple[Arg, Arg, Arg] | None = None
    dict: tuple[tuple[Arg, Arg], ...] | None = None
    float: str | None = None
    complex: str | None = None
    ellipsis: bool | None = None
    nested: tuple[Arg, ...] | None = None
    function: str | None = None
    repr: str | None = None


# msgspec decodes no recursive alias, so the nesting is spelled out; the capture wraps what is deeper in Leaf(nested=...).
_Float = float  # inside Leaf, ``float`` is a field
_Arg0 = Union[None, bool, int, _Float, str, Leaf]
_Arg1 = Union[None, bool, int, _Float, str, Leaf, tuple[_Arg0, ...]]
_Arg2 = Union[None, bool, int, _Float, str, Leaf, tuple[_Arg1, ...]]
Arg = Union[None, bool, int, _Float, str, Leaf, tuple[_Arg2, ...]]
"""An argument of a node. Lists and tuples are both tuples here and arrays in JSON, at most MAX_NESTING deep."""

MAX_NESTING = 3


class Source(Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a node comes from.

    ``file``, ``line``, ``function``, ``code``: the innermost user or library line, None for inputs. ``caller`` indexes the
    graph's ``stacks``: the lines that led there, outermost first. ``module`` is the path below the compiled module
    (``layers.0.mlp``; empty for its own forward), ``call`` the same path with ``@1`` where a module is called
    again. For a placeholder, ``input`` is its source as a person writes it (``fc1.weight``, ``batch[0]['ids']``),
    ``input_kind`` one of ``parameter``, ``buffer``, ``argument``, ``global``, ``closure``, ``size``, ``state``, ``other``,
    and ``origin`` torch's own text.
    """

    file: str | None = None
    line: int | None = None
    function: str | None = None
    code: str | None = None
    caller: int | None = None
    module: str = ""
    call: str = ""
    input: str | None = None
    input_kind: str | None = None
    origin: str | None = None


class NodeRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    """One FX node. ``index`` is its identity within its graph (its position), ``name`` a label.

    ``op`` is one of torch.fx's six opcodes. ``target`` is a qualified name (``torch.nn.functional.linear``), a method's
    name for call_method, an attribute path for get_attr. ``body`` indexes the root graph's ``children``: set on
    the get_attr nodes (and call_module) that stand for a subgraph. ``value`` is None when torch recorded none.
    """

    index: int
    name: str
    op: str
    target: str
    args: tuple[Arg, ...]
    kwargs: dict[str, Arg]
    value: ValueInfo | None
    source: Source | None
    body: int | None = None
    # Nodes of other stages this one came from: (graph key, node index).
    origins: tuple[tuple[str, int], ...] = ()
    # Why a node of a later stage has no origin (or only a roundabout one).
    no_origin: str | None = None
    # What it costs, where that was asked for.
    cost: NodeCost | None = None


class Fact(Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that became known of a symbol, and the user's line that caused it."""

    kind: str
    text: str
    user: StackFrame | None = None


class SymbolInfo(Struct, frozen=True, gc=False, omit_defaults=True):
    """A symbol of the graph. ``lower`` and ``upper`` bound its value, both included; None is unbounded.

    ``sources`` are all inputs that carry it (``x.shape[0]``): equal sizes share one symbol. ``replaced_by`` is the
    expression that torch put in its place (``"4"`` for a dim that became static).
    """

    name: str
    sources: tuple[str, ...] = ()
    hint: int | float | bool | None = None
    lower: int | float | None = None
    upper: int | float | None = None
    type: str = "int"
    unbacked: bool = False
    replaced_by: str | None = None
    facts: tuple[Fact, ...] = ()


class GraphRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    """One graph as a stage saw it.

    ``stage``: ``dynamo``, ``joint``, ``forward``, ``backward``, ``inference``, ``post_grad``, ``kernels``, or ``fx`` for a
    graph that did not come from a compile. ``children`` are the bodies of higher-order ops, each once, in order of
    discovery, those of nested bodies too: nodes anywhere in the tree index the *root's* children by ``body``. ``name`` is the
    code's name (``MLP.forward``), for a child its attribute path. ``modules`` maps module paths to class
    names. ``rank``, ``attempt`` and ``call`` tell apart what one compile id can hold: ranks, Dynamo's restarts, and
    several backend calls in one compile (DDP's buckets). ``state`` is what the graph was traced under (grad mode, autocast).
    """

    compile_id: str | None
    stage: str
    nodes: tuple[NodeRecord, ...]
    children: tuple[GraphRecord, ...]
    name: str = ""
    file: str = ""
    line: int = 0
    rank: int | None = None
    attempt: int = 0
    call: int = 0
    frame: int | None = None
    symbols: tuple[SymbolInfo, ...] = ()
    relations: tuple[str, ...] = ()
    guards: tuple[GuardInfo, ...] = ()
    modules: dict[str, str] = {}
    stacks: tuple[tuple[StackFrame, ...], ...] = ()
    state: dict[str, str] = {}
    # Dims that the program marked before the compile: ``{"x.shape[0]": "dynamic"}`` (or static, unbacked, maybe dynamic).
    marks: dict[str, str] = {}
    ended_by: BreakInfo | None = None
    never_ran: str | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = field(default=())
    # Of a later stage than Dynamo's: how it came about, and of which half a post_grad or kernels graph is.
    lowering: StageInfo | None = None
    part: str = ""

    @property
    def key(self) -> str:
        """The graph's name in its capture: ``0/0``, with attempt, call, rank and stage only where they differ from the first."""
        parts = [self.compile_id if self.compile_id is not None else self.name or "graph"]
        if self.attempt:
            parts.append(f"attempt {self.attempt}")
        if self.call:
            parts.append(f"call {self.call}")
        if self.stage not in ("dynamo", "fx"):
            parts.append(f"{self.stage} {self.part}" if self.part else self.stage)
        if self.rank:
            parts.append(f"rank {self.rank}")
        return " ".join(parts)

    @property
    def backend_call(self) -> tuple[int | None, str | None, int, int]:
        """What the graphs of all stages of one backend call share, and no others of the capture."""
        return self.rank, self.compile_id, self.attempt, self.call


def body_key(key: str, name: str) -> str:
    """How a node's origin names the body ``name`` of a higher-order op in the graph ``key``: a body has its root's key."""
    return f"{key} ▸ {name}"


def keyed(graph: GraphRecord) -> Iterator[tuple[str, GraphRecord]]:
    """A graph and its bodies, each with the key by which the origins of a node name it."""
    yield graph.key, graph
    for child in graph.children:
        yield body_key(graph.key, child.name), child


def results_of(graph: GraphRecord) -> tuple[Arg, ...]:
    """What a graph returns, an argument a result; nothing where it has no output node."""
    end = next((n for n in reversed(graph.nodes) if n.op == "output"), None)
    if end is None or not end.args:
        return ()
    return end.args[0] if isinstance(end.args[0], tuple) else (end.args[0],)


def iter_refs(arg: Arg) -> Iterator[int]:
    """Indices of the nodes an argument refers to, in order, repeats included."""
    if isinstance(arg, Leaf):
        if arg.node is not None:
            yield arg.node
        elif arg.slice is not None:
            yield from iter_refs(arg.slice)
        elif arg.dict is not None:
            yield from iter_refs(arg.dict)
        elif arg.nested is not None:
            yield from iter_refs(arg.nested)
    elif isinstance(arg, tuple):
        for item in arg:
            yield from iter_refs(item)


def node_refs(node: NodeRecord) -> list[int]:
    """Indices of the nodes that ``node`` reads, in order of args then kwargs, repeats included."""
    refs: list[int] = []
    for arg in (*node.args, *node.kwargs.values()) if node.kwargs else node.args:
        kind = type(arg)
        if kind is Leaf and arg.node is not None:  # type: ignore[union-attr]
            refs.append(arg.node)  # type: ignore[union-attr]
        elif kind is Leaf or kind is tuple:
            refs.extend(iter_refs(arg))
    return refs
