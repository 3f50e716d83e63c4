"""AOTAutograd's stages of a graph that another backend runs: traced beside it, on a copy, leaving nothing behind.

The trace runs in a tracing context and a fake mode of its own, under ``suppress_guards()``; what it changes in torch is put
back (``untouched``). Where AOTAutograd asks Dynamo to trace again with some floats as constants, the copy gets the constants.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._dynamo.symbolic_convert import TensorifyState
from torch._dynamo.utils import flatten_graph_inputs
from torch._functorch import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils import _pytree as pytree

from .aot import Watcher, call_aot
from .attention import as_accelerated
from .untouched import floats_kept, leaving_nothing


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
    """Show ``watcher`` what AOTAutograd and the min-cut partitioner make of ``gm``, a copy. Raises what AOTAutograd raises.

    AOTAutograd restarts Dynamo for a float that it cannot keep as a tensor (an ``eps``, a ``momentum``): see
    ``torch.fx.passes._tensorify_python_scalars``. Each restart names more floats, so there is an end.
    """
    how = {
        "fw_compiler": _as_it_is,
        "bw_compiler": _as_it_is,
        "inference_compiler": _as_it_is,
        "partition_fn": min_cut_rematerialization_partition,
        "decompositions": decompositions or {},
        "keep_inference_input_mutations": True,
    }
    with floats_kept():
        while True:
            constants = set(TensorifyState.force_specializations)
            try:
                return _attempt(
                    _with_constants(as_accelerated(copied(gm)), constants), example_inputs, watcher, how
                )
            except TensorifyScalarRestartAnalysis:
                if constants == TensorifyState.force_specializations:
                    raise


def _attempt(
    gm: fx.GraphModule, example_inputs: Sequence[Any], watcher: Watcher, how: dict[str, Any]
) -> None:
    context = TracingContext.try_get()
    mode = _fake_mode(pytree.tree_leaves(list(example_inputs)), context)
    example_inputs = _of_mode(example_inputs, mode, context)
    # A dry run's own mode is active around the call, and until 2.8 AOTAutograd takes one mode alone.
    with leaving_nothing(mode.shape_env), unset_fake_temporarily(), tracing(_context(mode, context)):
        if has_lists(example_inputs):  # compiled autograd's
            flatten_graph_inputs(
                gm, list(example_inputs), lambda gm, inputs: call_aot(gm, inputs, watcher, how)
            )
        else:
            call_aot(gm, example_inputs, watcher, how)


def _with_constants(gm: fx.GraphModule, floats: Collection[str]) -> fx.GraphModule:
    """``gm`` with the ``item()`` of each of these float symbols as the number it is; the input stays, and nothing reads it.

    Dynamo does the same when it traces again (``OutputGraph.remove_tensorify_specialized_graphargs``), and drops the input.
    """
    for node in list(gm.graph.nodes):
        value = node.meta.get("example_value")
        if isinstance(value, torch.SymFloat) and str(value.node._expr) in floats and node.target == "item":
            node.replace_all_uses_with(value.node.hint)
            gm.graph.erase_node(node)
    gm.recompile()
    return gm


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
    """The compile's mode where inputs are fake already, else a fresh one with its shape environment, as Dynamo does it."""
    known = getattr(context, "fake_mode", None)
    fakes = [x for x in example_inputs if isinstance(x, FakeTensor)]
    if fakes:
        return known or fakes[0].fake_mode
    return FakeTensorMode(
        shape_env=getattr(known, "shape_env", None),
        allow_non_fake_inputs=getattr(known, "allow_non_fake_inputs", False),
    )


def _of_mode(example_inputs: Sequence[Any], mode: FakeTensorMode, context: Any) -> list[Any]:
    """The inputs, fake tensors of another mode (a dry run's) made anew in ``mode`` with the symbols of the compile.

    AOTAutograd does so for real tensors; fake ones it refuses (2.8), or makes anew without their symbols (2.13).
    """

    def converted(x: Any) -> Any:
        if not isinstance(x, FakeTensor) or x.fake_mode is mode:
            return x
        how = context.tensor_to_context.get(x) if context is not None else None
        return mode.from_tensor(
            x, symbolic_context=how, source=getattr(how, "tensor_source", None), trace=False
        )

    return pytree.tree_map(converted, list(example_inputs))


def _context(mode: FakeTensorMode, known: Any) -> TracingContext:
    fresh = TracingContext(mode)
    if known is not None:  # which symbols stand for which sizes of the inputs
        fresh.tensor_to_context = known.tensor_to_context
    return fresh
