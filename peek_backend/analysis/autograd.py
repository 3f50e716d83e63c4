"""What a forward keeps for its backward, what the backward computes again, and whose gradient is whose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ..model import (
    AliasedOutput,
    CaptureRecord,
    Dim,
    GraphRecord,
    Leaf,
    MutatedInput,
    NodeRecord,
    Source,
    TensorMeta,
    ValueInfo,
    iter_refs,
)
from ..model.graph import results_of
from .totals import hints as hints_of
from .totals import is_op, nbytes, nbytes_at, users


class Saved(Struct, frozen=True):
    """A value that the forward hands to the backward.

    ``nbytes`` is exact for fixed sizes and at the sizes seen for symbolic ones (``expression`` then has the formula); None for a
    number. ``index`` is the node in the forward graph, ``readers`` are nodes of the backward graph that read it. ``is_input``: it
    is an input of the graph or a view of one, which is there anyhow.
    """

    name: str
    index: int
    value: ValueInfo | None
    nbytes: int | None
    expression: Dim | None
    source: Source | None
    readers: tuple[NodeRecord, ...]
    is_input: bool


class Gradient(Struct, frozen=True):
    """What the backward returns for one input; ``node`` is None where it returns no gradient."""

    input: str
    node: NodeRecord | None


class Tangent(Struct, frozen=True):
    """A gradient that arrives; ``output`` is the ordinal of the program's output, None for a mutated input or a base.

    ``known`` is False where the capture does not tell.
    """

    node: NodeRecord
    output: int | None
    known: bool = True


class AutogradView(Struct, frozen=True):
    """The border between a forward and its backward. ``saved`` is sorted, the largest first; ``inputs`` are the names of the
    Dynamo graph's inputs. ``nbytes`` sums the tensors saved, ``new_bytes`` those of them that are no inputs."""

    forward: GraphRecord
    backward: GraphRecord
    inputs: tuple[str, ...]
    saved: tuple[Saved, ...]
    recomputed: tuple[NodeRecord, ...]
    tangents: tuple[Tangent, ...]
    gradients: tuple[Gradient, ...]
    mutated: tuple[MutatedInput, ...]
    aliased: tuple[AliasedOutput, ...]

    @property
    def nbytes(self) -> int:
        return sum(s.nbytes or 0 for s in self.saved)

    @property
    def new_bytes(self) -> int:
        return sum(s.nbytes or 0 for s in self.saved if not s.is_input)


def autograd_views(record: CaptureRecord) -> list[AutogradView]:
    """One view for each forward of the capture that has its backward beside it."""
    pairs = ((g, sibling(record, g, "backward")) for g in record.graphs if g.stage == "forward")
    return [autograd_view(f, b, sibling(record, f, "dynamo")) for f, b in pairs if b is not None]


def sibling(record: CaptureRecord, graph: GraphRecord, stage: str) -> GraphRecord | None:
    """The graph of another stage of the same backend call."""
    return next((g for g in record.graphs if g.stage == stage and g.backend_call == graph.backend_call), None)


def autograd_view(
    forward: GraphRecord, backward: GraphRecord, dynamo: GraphRecord | None = None
) -> AutogradView:
    """The view of two halves of one joint graph; ``dynamo`` names the inputs."""
    info = forward.lowering
    names = _input_names(dynamo, forward)
    saved = sorted(_saved(forward, backward), key=lambda s: -(s.nbytes or 0))
    return AutogradView(
        forward, backward, names, tuple(saved), tuple(recomputed(forward, backward)), tuple(_tangents(backward)),
        tuple(_gradients(backward, names)), info.mutated if info else (), info.aliased if info else (),
    )  # fmt: skip


def _input_names(dynamo: GraphRecord | None, forward: GraphRecord) -> tuple[str, ...]:
    """What a person calls each input of the Dynamo graph."""
    nodes = [n for n in (dynamo or forward).nodes if n.op == "placeholder"]
    return tuple([(n.source.input if n.source else None) or n.name for n in nodes])


def saved_nodes(forward: GraphRecord) -> list[NodeRecord]:
    """The nodes of the forward graph whose values go to the backward, in its order."""
    count = forward.lowering.forward_outputs if forward.lowering else None
    if count is None:
        return []
    return [forward.nodes[i] for out in results_of(forward)[count:] for i in iter_refs(out)]


def _saved(forward: GraphRecord, backward: GraphRecord) -> Iterator[Saved]:
    entries = {n.name: n for n in backward.nodes if n.op == "placeholder"}
    given = {_storage(n) for n in forward.nodes if n.op == "placeholder"} - {None}
    reads, sizes = users(backward), hints_of(forward) | hints_of(backward)
    for node in saved_nodes(forward):
        entry = entries.get(node.name)
        size = nbytes(node.value) if isinstance(node.value, TensorMeta) else None
        readers = [backward.nodes[i] for i in dict.fromkeys(reads[entry.index])] if entry is not None else []
        yield Saved(
            name=node.name,
            index=node.index,
            value=node.value,
            nbytes=None if size is None else nbytes_at(node.value, sizes),
            expression=size if isinstance(size, str) else None,
            source=node.source,
            readers=tuple(readers),
            is_input=node.op == "placeholder" or _storage(node) in given,
        )


def _storage(node: NodeRecord) -> int | None:
    return node.value.storage if isinstance(node.value, TensorMeta) else None


def recomputed(forward: GraphRecord, backward: GraphRecord) -> list[NodeRecord]:
    """Nodes of the backward that compute again what the forward computed and did not save."""
    done = {n.name for n in forward.nodes if is_op(n)}
    return [n for n in backward.nodes if is_op(n) and n.name in done]


def _tangents(backward: GraphRecord) -> Iterator[Tangent]:
    outputs = backward.lowering.tangents if backward.lowering else ()
    nodes = [n for n in backward.nodes if n.op == "placeholder" and "tangent" in n.name]
    for at, node in enumerate(nodes):
        known = at < len(outputs)
        yield Tangent(node, outputs[at] if known else None, known)


def _gradients(backward: GraphRecord, names: Sequence[str]) -> Iterator[Gradient]:
    inputs = backward.lowering.gradients if backward.lowering else ()
    for at, out in enumerate(results_of(backward)):
        ordinal = inputs[at] if at < len(inputs) else None
        name = names[ordinal] if ordinal is not None and ordinal < len(names) else f"gradient {at}"
        node = backward.nodes[out.node] if isinstance(out, Leaf) and out.node is not None else None
        yield Gradient(name, node)
