"""What is known of a graph of a later stage beside its nodes: what is saved, what is written back, which cache was hit."""

from __future__ import annotations

from msgspec import Struct

from .events import StackFrame


class MutatedInput(Struct, frozen=True, gc=False, omit_defaults=True):
    """An input that the program writes in place. ``input`` counts the Dynamo graph's placeholders.

    ``data``: its elements change; ``metadata``: its shape, strides or storage. ``how`` is what functionalisation made of it:
    ``copy_ in the graph``, ``copied back after the graph`` (from ``output``, an output of the forward graph), ``none``.
    """

    input: int
    data: bool = False
    metadata: bool = False
    how: str = ""
    output: int | None = None


class AliasedOutput(Struct, frozen=True, gc=False, omit_defaults=True):
    """An output of the Dynamo graph that shares memory. ``kind`` says with what: ``alias_of_input``, ``is_input``,
    ``alias_of_intermediate``, …; ``input`` is the placeholder where there is one."""

    output: int
    kind: str
    input: int | None = None


class CacheOutcome(Struct, frozen=True, gc=False, omit_defaults=True):
    """What one of torch's compile caches said: ``cache`` is ``FX graph`` or ``AOTAutograd``, ``outcome`` ``hit``, ``miss``,
    ``bypass`` or ``disabled``, ``reason`` why it was not asked."""

    cache: str
    outcome: str
    key: str = ""
    reason: str = ""


class CudagraphSkip(Struct, frozen=True, gc=False, omit_defaults=True):
    """Why CUDA graphs were asked for and are not used, with the user's line where torch names one."""

    reason: str
    user: StackFrame | None = None


class StageInfo(Struct, frozen=True, gc=False, omit_defaults=True):
    """How a graph of a later stage came about.

    ``by`` says who made it: an inner backend's name, or ``as AOTAutograd would`` for a trace beside the program's own compile.
    ``compiled`` is False for a backward that compiles when it first runs, None where nobody compiles it.

    Of a joint and forward graph: ``forward_outputs`` is the number of outputs that are the program's (mutated inputs, then the
    user's outputs, then bases of aliases); what follows is saved for the backward. ``inputs`` maps each placeholder of the
    stage to the Dynamo graph's placeholder (None for tangents and saved values), ``tangents`` each tangent to the output of
    the Dynamo graph it belongs to, ``gradients`` each output of the backward to the placeholder whose gradient it is.
    """

    by: str = ""
    compiled: bool | None = None
    forward_outputs: int | None = None
    inputs: tuple[int | None, ...] = ()
    tangents: tuple[int | None, ...] = ()
    gradients: tuple[int | None, ...] = ()
    mutated: tuple[MutatedInput, ...] = ()
    aliased: tuple[AliasedOutput, ...] = ()
    caches: tuple[CacheOutcome, ...] = ()
    cudagraphs: tuple[CudagraphSkip, ...] = ()
