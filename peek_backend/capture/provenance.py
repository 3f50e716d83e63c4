"""Which nodes of earlier stages a node came from, worked out while torch's own marks are at hand.

torch leaves these: a node of the joint graph names the Dynamo node it was traced from (``from_node``); a backward node has the
line of the forward nodes it differentiates and their autograd sequence number, or one soon after (``seq_nr``); the partitioner
and most passes keep names. What has none of them gets its reason in words.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from torch import fx

from ..model import GraphRecord, NodeRecord, Source, iter_refs, node_refs
from ..model.graph import keyed, results_of
from .kernelmap import nodes_of_calls
from .kernels import Code, KernelCall

Place = tuple[str, int]
"""A node: its graph's key, its index."""


class Origin(NamedTuple):
    """Where one node comes from; ``reason`` says why ``places`` is empty, or roundabout."""

    places: tuple[Place, ...] = ()
    reason: str | None = None


class _Forward(NamedTuple):
    """A node of a forward: its autograd sequence number, the functions called around it, and where it comes from."""

    number: int
    call: tuple[tuple[str, str], ...]
    places: tuple[Place, ...]


def _number(made: _Forward) -> int:
    return made.number


class Trail:
    """The nodes of one backend call seen so far, stage after stage, by name. Holds plain data only."""

    def __init__(self, dynamo: GraphRecord):
        self.dynamo = _places_by_name(dynamo)
        self.inputs = [n.index for n in dynamo.nodes if n.op == "placeholder"]
        self.key = dynamo.key
        self.outputs = _output_nodes(dynamo)
        self._lines = _places_by_line(dynamo)
        self._frames = _frames_by_place(dynamo)
        self._stages: dict[str, dict[str, tuple[Place, ...]]] = {}
        self._by_seq: dict[int, list[_Forward]] = {}
        self._by_line_of: dict[str | None, list[_Forward]] = {}
        self._by_mark: dict[tuple[Any, str], list[Place]] = {}

    def traced(
        self, gm: fx.GraphModule, inputs: Sequence[int | None], tangents: Sequence[int | None]
    ) -> list[Origin]:
        """Origins in the Dynamo graph of each node of a joint or inference graph.

        ``inputs`` has for each placeholder the Dynamo placeholder's ordinal, ``tangents`` for each tangent the Dynamo output's.
        """
        nodes = list(gm.graph.nodes)
        entries = iter(inputs)
        ends = iter(tangents)
        known: dict[fx.Node, Origin] = {}
        for node in nodes:
            if node.op == "placeholder":
                known[node] = self._entry(node, next(entries, None), ends)
            elif node.op == "output":
                known[node] = Origin((self._end,) if self._end else ())
            else:
                known[node] = self._traced(node, known)
                self._remember(node, known[node].places)
        return [known[node] for node in nodes]

    @property
    def _end(self) -> Place | None:
        return self.dynamo.get("output")

    def _entry(self, node: fx.Node | NodeRecord, entry: int | None, tangents: Iterator[int | None]) -> Origin:
        if entry is not None and entry < len(self.inputs):
            return Origin(((self.key, self.inputs[entry]),))
        if "tangent" not in node.name:
            return Origin(reason=_EXTRA_INPUT)
        output = next(tangents, None)
        if output is not None and output < len(self.outputs) and self.outputs[output] is not None:
            return Origin(
                ((self.key, self.outputs[output]),), f"the gradient that arrives for output {output}"
            )
        return Origin(reason="the gradient that arrives for a mutated input or the base of an alias")

    def _traced(self, node: fx.Node, known: dict[fx.Node, Origin]) -> Origin:
        if places := self._from_node(node):
            return Origin(places)
        if places := self._differentiated(node):
            return Origin(places)
        if node.op == "get_attr":
            return Origin(reason="a constant or a subgraph that AOTAutograd keeps on the graph")
        if is_copy_back(node):
            target, value = known[node.args[0]], known.get(node.args[1], Origin())
            return Origin(_merged((value.places, target.places)), "writes a mutated input back")
        return self._by_use(node, known)

    def _by_use(self, node: fx.Node, known: dict[fx.Node, Origin]) -> Origin:
        """The last resort: what its operands come from, with a reason."""
        places = _merged(known[n].places for n in node.all_input_nodes)
        if _name(node).startswith("add") and len(node.all_input_nodes) > 1:
            return Origin(places, "adds up gradients of a value that is read more than once")
        if not places:
            return Origin((), "AOTAutograd made it from no input: a constant, or a gradient of zeros")
        return Origin(places, "AOTAutograd added it; shown is where its operands come from")

    def _from_node(self, node: fx.Node) -> tuple[Place, ...]:
        """What ``from_node`` names, and for an inlined body its own nodes: the innermost name that is known."""
        found = []
        for source in node.meta.get("from_node") or ():
            place = self._resolve(source)
            if place is not None:
                found.append(place)
        return tuple(dict.fromkeys(found))

    def _resolve(self, source: Any) -> Place | None:
        for _ in range(_MOST_STEPS):
            if source.name in self.dynamo:
                return self.dynamo[source.name]
            if not source.from_node:
                return None
            source = source.from_node[0]
        return None

    def body(self, gm: fx.GraphModule) -> list[Origin]:
        """Origins of the nodes of a higher-order op's body."""
        found = [self._from_node(n) or self._differentiated(n) for n in gm.graph.nodes]
        return [Origin(places, None if places else _OF_BODY) for places in found]

    def _differentiated(self, node: fx.Node) -> tuple[Place, ...]:
        """The origins of the forward nodes that a backward node differentiates; of several in one call those of the same call."""
        found = self._forward_of(node.meta.get("seq_nr"), node.meta.get("stack_trace"))
        call = _calls(node.meta.get("fwd_source_fn_stack"))
        same_call = [f for f in found if call and f.call == call] or found
        return _merged(f.places for f in same_call)

    def _forward_of(self, number: int | None, stack: str | None) -> list[_Forward]:
        """The forward nodes of an autograd sequence number: of this line the last that have no higher one, else its first.

        An op's nodes carry the number that autograd gives next, and what it then makes for the op (``CopySlices`` of a write
        through a view) may have a higher one. Without a node of the line the number alone decides.
        """
        if number is None:
            return []
        on_line = self._by_line_of.get(stack, []) if stack else []
        if not on_line:
            return self._by_seq.get(number, [])
        nearest = on_line[max(0, bisect.bisect_right(on_line, number, key=_number) - 1)].number
        return [f for f in on_line if f.number == nearest]

    def _remember(self, node: fx.Node, places: tuple[Place, ...]) -> None:
        """Keep a forward node for its gradient. A view that functionalisation makes anew has the line and number of the first,
        and the origin of the op that reads it: that one is not what its gradient belongs to."""
        number, stack = node.meta.get("seq_nr"), node.meta.get("stack_trace")
        places = tuple([p for p in places if self._frames.get(p, "") in (stack or "")])
        if "from_node" in node.meta and number is not None and places:
            made = _Forward(number, _calls(node.meta.get("source_fn_stack")), places)
            self._by_seq.setdefault(number, []).append(made)
            bisect.insort_right(self._by_line_of.setdefault(stack, []), made, key=_number)

    def add(self, stage: str, key: str | None, gm: fx.GraphModule, origins: Sequence[Origin]) -> None:
        """Later stages refer to these nodes: by themselves where ``key`` names a graph that is kept, else by their origins."""
        names = self._stages.setdefault(stage, {})
        for index, (node, origin) in enumerate(zip(gm.graph.nodes, origins, strict=True)):
            names[node.name] = ((key, index),) if key is not None else origin.places
            self._by_mark.setdefault(_mark(node), []).extend(names[node.name])

    def lowered(self, gm: fx.GraphModule, before: Sequence[str], by: str) -> list[Origin]:
        """Origins of each node of a later graph in the nearest stage of ``before`` that knows its name."""
        return [self._lowered(node, before, by) for node in gm.graph.nodes]

    def _lowered(self, node: fx.Node, before: Sequence[str], by: str) -> Origin:
        if node.op == "output":
            return Origin(self.named("output", before) or ((self._end,) if self._end else ()))
        if places := self.named(node.name, before):
            return Origin(places)
        places = self._from_node(node) or self._differentiated(node)
        if places:
            return Origin(places, f"{by} made it")
        places = (
            tuple(dict.fromkeys(self._by_mark.get(_mark(node), ()))) if node.meta.get("stack_trace") else ()
        )
        if places:
            return Origin(places, f"{by} made it; shown are the nodes of its line and op")
        if node.op == "placeholder":
            return Origin(reason=_EXTRA_INPUT)
        places = _merged(self.named(n.name, before) for n in node.all_input_nodes)
        return Origin(
            places, f"{by} made it; shown is where its operands come from" if places else f"{by} made it"
        )

    def add_record(self, stage: str, key: str | None, record: GraphRecord, origins: Sequence[Origin]) -> None:
        """As ``add``, for a graph that is a record already; it takes the place of an earlier one of that stage."""
        self._stages[stage] = {
            n.name: ((key, n.index),) if key is not None else o.places
            for n, o in zip(record.nodes, origins, strict=True)
        }

    def lowered_by_name(self, record: GraphRecord, before: Sequence[str], by: str) -> list[Origin]:
        """As ``lowered``, for a graph that came as text: names are all there is."""
        found = []
        for node in record.nodes:
            places = self.named(node.name, before)
            operands = [record.nodes[i].name for i in dict.fromkeys(node_refs(node))] if not places else []
            around = _merged(self.named(name, before) for name in operands)
            reason = (
                None
                if places
                else f"{by} made it" + ("; shown is where its operands come from" if around else "")
            )
            found.append(Origin(places or around, reason))
        return found

    def all_named(self, names: Iterable[str], stage: str) -> tuple[Place, ...]:
        """The nodes of one stage with these names, each once, in the stage's order."""
        return tuple(sorted(_merged(self.named(name, (stage,)) for name in names)))

    def kernels(
        self,
        nodes: Sequence[NodeRecord],
        code: Code,
        post_grad: GraphRecord,
        told: Sequence[tuple[str, ...]] | None,
    ) -> list[Origin]:
        """Origins of kernel calls in the post-grad graph: as Inductor ``told`` them by call, else as the code lets see.

        torch 2.8 tells of few kernels, and none tells of those that come from its cache.
        """
        told = told if told is not None else [()] * len(code.calls)
        seen = nodes_of_calls(code, post_grad) if not all(told) else told
        # A backward's comments name nodes of its own, and code from the cache may be of a program with other names.
        own = all(name in self.dynamo for call in code.calls for name in call.sources)
        calls = iter(zip(code.calls, told, seen, strict=True))
        return [
            self._kernel(*next(calls), by_comment=own)
            if node.op == "call_function"
            else Origin(self.named(node.name, ("post_grad",)))
            for node in nodes
        ]

    def _kernel(
        self, call: KernelCall, told: tuple[str, ...], seen: tuple[str, ...], *, by_comment: bool
    ) -> Origin:
        if told or seen:
            return Origin(self.all_named(told or seen, "post_grad"), None if told else _WORKED_OUT)
        places = tuple(dict.fromkeys(self.dynamo[n] for n in call.sources)) if by_comment else ()
        return Origin(places, _BY_COMMENT if places else _NOT_KEPT)

    def traced_by_line(
        self, record: GraphRecord, inputs: Sequence[int | None], tangents: Sequence[int | None]
    ) -> list[Origin]:
        """As ``traced``, for a joint or inference graph that came as text: a node came from the Dynamo nodes of its line.

        Of several on one line the one of the same op, if there is one.
        """
        entries, ends = iter(inputs), iter(tangents)
        return [
            self._entry(n, next(entries, None), ends) if n.op == "placeholder" else self._by_line(n)
            for n in record.nodes
        ]

    def _by_line(self, node: NodeRecord) -> Origin:
        if node.op == "output":
            return Origin((self._end,) if self._end else ())
        if node.source is None:
            return Origin(reason="torch's text has no line of the program for it")
        found = self._lines.get((node.source.line, node.source.code), [])
        same_op = [place for place, op in found if op == _op(node)]
        return Origin(
            tuple(same_op or [p for p, _ in found]), None if found else "no Dynamo node has its line"
        )

    def named(self, name: str, before: Iterable[str]) -> tuple[Place, ...]:
        """The node of this name in the first of the stages that has it."""
        for stage in before:
            if places := self._stages.get(stage, {}).get(name):
                return places
        return ()


_MOST_STEPS = 50
_OF_BODY = "torch marks nothing on it: an input or output of the body, or made by a pass"
_WORKED_OUT = "worked out from what the kernel reads and writes"
_BY_COMMENT = "by the comment in Inductor's code: its cache keeps no more"
_NOT_KEPT = "Inductor's cache keeps no nodes of this kernel"
_EXTRA_INPUT = "an input that AOTAutograd adds: a size, a token, or the state of the random number generator"


def is_copy_back(node: fx.Node) -> bool:
    """Whether a node writes a value into an input, as functionalisation ends a graph that mutates one."""
    return (
        _name(node) == "copy_"
        and len(node.args) > 1
        and all(isinstance(a, fx.Node) for a in node.args[:2])
        and node.args[0].op == "placeholder"
    )


def _name(node: fx.Node) -> str:
    return getattr(getattr(node.target, "overloadpacket", node.target), "__name__", str(node.target))


def _calls(stack: Any) -> tuple[tuple[str, str], ...]:
    """A stack of called functions by their names: the functions are the program's own objects, not ours to keep."""
    return tuple(
        [(str(name), getattr(function, "__qualname__", str(function))) for name, function in stack or ()]
    )


def _mark(node: fx.Node) -> tuple[Any, str]:
    return node.meta.get("stack_trace"), str(node.meta.get("original_aten"))


def _merged(groups: Iterable[tuple[Place, ...]]) -> tuple[Place, ...]:
    return tuple(dict.fromkeys(place for group in groups for place in group))


def _places_by_name(graph: GraphRecord) -> dict[str, Place]:
    """Every node of a graph and of its bodies by name; the graph's own win over those of a body."""
    places = {}
    for key, each in reversed([*keyed(graph)]):
        nodes = [n for n in each.nodes if each is graph or n.op not in ("placeholder", "output")]
        places.update({n.name: (key, n.index) for n in nodes})
    return places


def _on_lines(graph: GraphRecord) -> Iterator[tuple[Place, NodeRecord, Source]]:
    """The nodes of a graph and of its bodies that have a line of the program."""
    for key, each in keyed(graph):
        for node in each.nodes:
            if node.source is not None and node.source.line:
                yield (key, node.index), node, node.source


def _places_by_line(graph: GraphRecord) -> dict[tuple[int | None, str | None], list[tuple[Place, str]]]:
    """The op nodes of a graph and of its bodies by line number and code, each with the bare name of its op."""
    found: dict[tuple[int | None, str | None], list[tuple[Place, str]]] = {}
    for place, node, source in _on_lines(graph):
        if node.op.startswith("call"):
            found.setdefault((source.line, source.code), []).append((place, _op(node)))
    return found


def _frames_by_place(graph: GraphRecord) -> dict[Place, str]:
    """For each node of a graph and of its bodies the text by which torch's stack traces name its line."""
    return {place: f'File "{s.file}", line {s.line}, ' for place, _, s in _on_lines(graph)}


def _op(node: NodeRecord) -> str:
    """``mm`` of ``aten.mm.default``, ``torch.mm``, ``mm_``."""
    parts = node.target.split(".")
    return (parts[1] if parts[0] == "aten" and len(parts) > 1 else parts[-1]).rstrip("_")


def _output_nodes(graph: GraphRecord) -> list[int | None]:
    """For each output of the graph the node that makes it."""
    return [next(iter_refs(result), None) for result in results_of(graph)]
