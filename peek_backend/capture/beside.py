"""AOTAutograd's stages of a graph that another backend runs: traced beside it, on a copy, leaving nothing behind.

The trace runs in a tracing context and a fake mode of its own, under ``suppress_guards()``; the shape environment, torch's
counters and the random state are put back as they were.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.utils import counters, flatten_graph_inputs
from torch._functorch import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from .aot import Watcher, call_aot


def copied(gm: fx.GraphModule) -> fx.GraphModule:
    """A graph module with nodes and bodies of its own and the same tensors; the backend may change ``gm`` meanwhile.

    ``copy.deepcopy`` would copy the tensors, and lose the sources that AOTAutograd reads from the placeholders.
    """
    graph = fx.Graph()
    seen: dict[fx.Node, fx.Node] = {}
    result = graph.graph_copy(gm.graph, seen)
    last = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
    graph.output(result).meta = copy.copy(last.meta)
    for old, new in seen.items():
        if (source := getattr(old, "_dynamo_source", None)) is not None:
            new._dynamo_source = source
    made = fx.GraphModule(gm, graph)
    for name, child in made.named_children():
        if isinstance(child, fx.GraphModule):
            setattr(made, name, copied(child))
    made.meta = dict(gm.meta)
    return made


def trace_beside(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    watcher: Watcher,
    *,
    decompositions: dict[Any, Callable[..., Any]] | None = None,
) -> None:
    """Show ``watcher`` what AOTAutograd and the min-cut partitioner make of ``gm``, a copy. Raises what AOTAutograd raises."""
    context = TracingContext.try_get()
    mode = _fake_mode(pytree.tree_leaves(list(example_inputs)), context)
    how = {
        "fw_compiler": _as_it_is,
        "bw_compiler": _as_it_is,
        "inference_compiler": _as_it_is,
        "partition_fn": min_cut_rematerialization_partition,
        "decompositions": decompositions or {},
        "keep_inference_input_mutations": True,
    }
    with _leaving_nothing(mode.shape_env), tracing(_context(mode, context)):
        if has_lists(example_inputs):  # compiled autograd's
            flatten_graph_inputs(
                gm, list(example_inputs), lambda gm, inputs: call_aot(gm, inputs, watcher, how)
            )
        else:
            call_aot(gm, example_inputs, watcher, how)


def has_lists(example_inputs: Sequence[Any]) -> bool:
    """Whether an input is a container, which AOTAutograd takes apart."""
    return any(isinstance(x, (list, tuple, dict)) for x in example_inputs)


def flat_ordinals(example_inputs: Sequence[Any]) -> list[int] | None:
    """For each input that AOTAutograd sees the ordinal of the graph's own; None where they are the same."""
    if not has_lists(example_inputs):
        return None
    return [i for i, x in enumerate(example_inputs) for _ in pytree.tree_leaves(x)]


def _as_it_is(gm: fx.GraphModule, _inputs: Any) -> Any:
    return aot_autograd.make_boxed_func(gm.forward)


def _fake_mode(example_inputs: Sequence[Any], context: Any) -> FakeTensorMode:
    """The mode of inputs that are fake already; else a fresh one with the compile's shape environment, as Dynamo does it."""
    if any(isinstance(x, FakeTensor) for x in example_inputs):
        return detect_fake_mode(example_inputs)
    known = getattr(context, "fake_mode", None)
    return FakeTensorMode(
        shape_env=getattr(known, "shape_env", None),
        allow_non_fake_inputs=getattr(known, "allow_non_fake_inputs", False),
    )


def _context(mode: FakeTensorMode, known: Any) -> TracingContext:
    fresh = TracingContext(mode)
    if known is not None:  # which symbols stand for which sizes of the inputs
        fresh.tensor_to_context = known.tensor_to_context
    return fresh


@contextlib.contextmanager
def _leaving_nothing(shape_env: Any) -> Iterator[None]:
    counter, counts = aot_autograd.AOT_COUNTER, copy.deepcopy(counters)
    aot_autograd.AOT_COUNTER = copy.copy(counter)
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # the program's own run will say what is to be said
        stack.enter_context(torch.random.fork_rng(devices=_devices()))
        if shape_env is not None:
            stack.enter_context(environment_kept(shape_env))
            stack.enter_context(shape_env.suppress_guards())
            stack.enter_context(shape_env.ignore_fresh_unbacked_symbols())
        try:
            yield
        finally:
            aot_autograd.AOT_COUNTER = counter
            counters.clear()
            counters.update(counts)


def _devices() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []


_KEPT = (
    "guards",
    "axioms",
    "replacements",
    "replacements_slocs",
    "unbacked_renamings",
    "deferred_runtime_asserts",
    "divisible",
    "var_to_range",
    "var_to_range_sloc",
    "size_like",
    "pending_fresh_unbacked_symbols",
    "real_tensor_prop_unbacked_vals",
    "dim_constraints",
)
"""What a trace may change in a shape environment, other than names for new symbols."""


@contextlib.contextmanager
def environment_kept(env: Any) -> Iterator[None]:
    before = {name: copy.copy(getattr(env, name)) for name in _KEPT if hasattr(env, name)}
    asserts = env.num_deferred_runtime_asserts
    try:
        yield
    finally:
        changed = [name for name, value in before.items() if getattr(env, name) != value]
        for name in changed:
            setattr(env, name, before[name])
        env.num_deferred_runtime_asserts = asserts
        if changed:
            env._update_version_counter()
