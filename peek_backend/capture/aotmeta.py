"""What AOTAutograd knows of a joint graph beside its nodes, as plain facts: mutated inputs, aliases, whose gradient is whose.

From torch 2.9 on every input and output of an AOT graph carries a descriptor (``meta["desc"]``). Before, and where one is
missing, the order tells: placeholders are the Dynamo graph's inputs, gradients stand in the order of the inputs, tangents in the
order of ``fw_metadata``'s differentiable outputs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from ..model import AliasedOutput, MutatedInput

_MOST_FRAMES_UP = 30
"""Between us and AOTAutograd's own functions; Python's logging is there too when torch's log tells of a graph."""


def metadata() -> Any:
    """AOTAutograd's ViewAndMutationMeta of the graph that it is working on in this thread, or None.

    It passes it to nobody, and puts it into the tracing context only after the partitioner ran; its own functions hold it as
    ``fw_metadata`` (torch 2.8 to 2.15), an entry of its cache as ``runtime_metadata``. Inputs and
    outputs are counted as Dynamo's.
    """
    known = _held_as("fw_metadata", "input_info")
    return (
        known
        if known is not None
        else getattr(_held_as("self", "runtime_metadata"), "runtime_metadata", None)
    )


def _held_as(name: str, field: str) -> Any:
    """What AOTAutograd's functions that are running in this thread hold under this name, if it has that field, or None."""
    frame = sys._getframe(2)
    for _ in range(_MOST_FRAMES_UP):
        if frame is None:
            return None
        found = frame.f_locals.get(name) if "_functorch" in frame.f_code.co_filename else None
        if hasattr(found, field):
            return found
        frame = frame.f_back
    return None


def input_ordinals(gm: fx.GraphModule, count: int, meta: Any) -> tuple[int | None, ...]:
    """For each placeholder the ordinal of the Dynamo graph's input (of ``count``) that it is, or is part of; None for others."""
    nodes = [n for n in gm.graph.nodes if n.op == "placeholder"]
    if any(n.meta.get("desc") is not None for n in nodes):
        return tuple([_input_of(n.meta.get("desc")) for n in nodes])
    primals = [n for n in nodes if "tangent" not in n.name]
    order = list(range(count)) if len(primals) == count else _taken_apart(meta)
    if len(primals) != len(order):
        return (None,) * len(nodes)
    ordinal = dict(zip(primals, order, strict=True))
    return tuple([ordinal.get(n) for n in nodes])


def _taken_apart(meta: Any) -> list[int]:
    """For each of AOTAutograd's inputs the Dynamo graph's, by ``fw_metadata``: a subclass is as many as it has inner tensors."""
    subclasses = getattr(meta, "subclass_inp_meta", None) or ()
    return [i for i, part in enumerate(subclasses) for _ in range(getattr(part, "arg_count", 1))]


def tangent_ordinals(gm: fx.GraphModule, meta: Any) -> tuple[int | None, ...]:
    """For each tangent the ordinal of the Dynamo graph's output it belongs to; None for mutated inputs and bases of aliases."""
    nodes = [n for n in gm.graph.nodes if n.op == "placeholder" and "tangent" in n.name]
    if any(n.meta.get("desc") is not None for n in nodes):
        return tuple([_output_of(n.meta.get("desc")) for n in nodes])
    return in_order_of_outputs(len(nodes), meta) or (None,) * len(nodes)


def in_order_of_outputs(count: int, meta: Any) -> tuple[int | None, ...]:
    """The outputs that ``count`` tangents belong to, by their order in ``fw_metadata``; nothing where that has another number."""
    found = _differentiable_outputs(meta)
    return tuple(found) if len(found) == count else ()


def gradient_ordinals(gm: fx.GraphModule, first: int, inputs: Sequence[int | None]) -> tuple[int | None, ...]:
    """For each output from ``first`` on the ordinal of the Dynamo input whose gradient it is."""
    end = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
    count = len(pytree.tree_leaves(end.args[0], is_leaf=lambda x: x is None)) - first
    descs = end.meta.get("desc")
    if descs is not None:
        flat = list(descs)[first:]
        by_desc = [_input_of(d) for d in flat]
        if any(found is not None for found in by_desc) and len(by_desc) == count:
            return tuple(_filled(by_desc, inputs))
    entries = [i for i in inputs if i is not None]
    once = list(dict.fromkeys(entries))  # a subclass without a gradient has one None
    parts = _gradient_parts()
    return next((tuple(found) for found in (entries, once, parts) if len(found) == count), (None,) * count)


def _gradient_parts() -> list[int]:
    """For each gradient the input it belongs to, by AOTAutograd's ``SubclassMeta``: a plain input's may be a subclass."""
    metas = getattr(_held_as("maybe_subclass_meta", "grad_input_metas"), "grad_input_metas", None) or ()
    return [i for i, part in enumerate(metas) for _ in range(getattr(part, "arg_count", 1))]


def mapped(ordinals: Sequence[int | None], flat: Sequence[int]) -> tuple[int | None, ...]:
    """Ordinals of AOTAutograd's inputs as those of the Dynamo graph, which may have them in lists."""
    return tuple([flat[i] if i is not None and i < len(flat) else None for i in ordinals])


def _filled(found: Sequence[int | None], inputs: Sequence[int | None]) -> list[int | None]:
    """A None gradient has no descriptor: its place in the order of inputs says whose it is.

    A subclass is several inputs and has several gradients, but one None; so the Nones between two gradients are filled in where
    there are as many as inputs between these two.
    """
    filled, last = list(found), -1
    end = max((i for i in inputs if i is not None), default=-1) + 1
    for at, ordinal in enumerate([*found, end]):
        if ordinal is None:
            continue
        gap = range(last + 1, ordinal)
        start = at - next((n for n, f in enumerate(reversed(found[:at])) if f is not None), at)
        if at - start == len(gap):
            filled[start:at] = gap
        last = ordinal
    return filled


_BASES = ("base", "base_of", "mutated_input", "grad_of")


def _input_of(desc: Any) -> int | None:
    """The plain input a descriptor names: itself, or the subclass or base it is a part of. A tangent is none."""
    while desc is not None:
        if type(desc).__name__ == "PlainAOTInput":
            return desc.idx
        desc = next((getattr(desc, name) for name in _BASES if hasattr(desc, name)), None)
    return None


def _output_of(desc: Any) -> int | None:
    while desc is not None:
        kind = type(desc).__name__
        if kind == "PlainAOTOutput":
            return desc.idx
        if kind in ("InputMutationAOTOutput", "IntermediateBaseAOTOutput"):
            return None
        desc = next((getattr(desc, name) for name in ("output", *_BASES) if hasattr(desc, name)), None)
    return None


def _differentiable_outputs(meta: Any) -> list[int | None]:
    """The order of tangents by ``fw_metadata``: mutated inputs, outputs, bases (torch/_functorch/_aot_autograd/schemas.py)."""
    if meta is None:
        return []
    found: list[int | None] = [None for i in meta.input_info if i.mutates_data and i.requires_grad]
    for i, output in enumerate(meta.output_info):
        kept = output.output_type.name in ("non_alias", "unsafe_view_alias", "custom_function_view")
        if kept and output.requires_grad and issubclass(output.raw_type, torch.Tensor):
            found.append(i)
    return found + [None] * meta.num_intermediate_bases


def mutated_inputs(meta: Any, flat: Sequence[int]) -> tuple[MutatedInput, ...]:
    """Inputs that the graph changes in place, and what functionalisation makes of it."""
    if meta is None:
        return ()
    returned = list(meta.mutated_inp_runtime_indices)
    found = []
    for i, info in enumerate(meta.input_info):
        if not (info.mutates_data or info.mutates_metadata):
            continue
        how = {
            "MUTATED_IN_GRAPH": "copy_ in the graph",
            "MUTATED_OUT_GRAPH": "copied back after the graph",
        }.get(info.mutation_type.name, "none")
        output = returned.index(i) if i in returned else None
        found.append(
            MutatedInput(
                flat[i] if i < len(flat) else i,
                bool(info.mutates_data),
                bool(info.mutates_metadata),
                how,
                output,
            )
        )
    return tuple(found)


def aliased_outputs(meta: Any, flat: Sequence[int]) -> tuple[AliasedOutput, ...]:
    """Outputs that share memory with an input or with one another."""
    if meta is None:
        return ()
    found = []
    for i, info in enumerate(meta.output_info):
        kind = info.output_type.name
        if kind in ("non_alias", "unsafe_view_alias", "custom_function_view"):
            continue
        base = info.base_idx if kind in ("alias_of_input", "is_input") else None
        base = flat[base] if base is not None and base < len(flat) else None
        found.append(AliasedOutput(i, kind, base))
    return tuple(found)
