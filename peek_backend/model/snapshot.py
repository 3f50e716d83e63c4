"""A snapshot: what of a capture is pinned down. Canonical, so that equal programs give equal snapshots.

What a person names (locals, paths) stays as labels; what torch numbers (symbols, resume functions) is renumbered.
``passes/canonical.py`` makes one from a capture, ``snapshot/graphfile.py`` writes and reads it, ``diff`` compares two.

A node's arguments are kept as the text in which they are written, with a SLOT for each operand:
``scale(%x, 2.0)`` is the template ``"\\0, 2.0"`` and the operands ``(0,)``. So ``1``, ``1.0`` and ``True`` are told apart, NaN
equals itself, and comparing two calls compares two strings. ``snapshot.graphfile.arguments`` reads a template.
"""

from __future__ import annotations

from typing import Union

from msgspec import Struct

from .values import Dim

SLOT = "\0"
"""Stands for one operand in a template. No written text holds it: strings escape control characters."""


class TensorType(Struct, frozen=True, gc=False):
    """A tensor's type. ``dtype`` is short (``f32``), ``stride`` None where contiguous or where the layout has none,
    ``device`` None where it is the header's default, ``layout`` empty for strided."""

    dtype: str
    shape: tuple[Dim, ...]
    grad: bool = False
    stride: tuple[Dim, ...] | None = None
    offset: Dim = 0
    device: str | None = None
    layout: str = ""
    flags: tuple[str, ...] = ()
    subclass: str = ""
    inner: tuple[tuple[str, Type], ...] = ()


class SymType(Struct, frozen=True, gc=False):
    """A symbolic number; ``type`` is ``SymInt``, ``SymFloat`` or ``SymBool``."""

    type: str
    expr: str


class ScalarType(Struct, frozen=True, gc=False):
    """A Python value: its type's name and the value as written (``3``, ``"mean"``), empty when unknown."""

    type: str
    text: str = ""


class SizeType(Struct, frozen=True, gc=False):
    """A ``torch.Size``."""

    shape: tuple[Dim, ...]


class TupleType(Struct, frozen=True, gc=False):
    """A tuple, list, named tuple or dict. ``fields`` is empty or names every item."""

    items: tuple[Type, ...]
    type: str = "tuple"
    fields: tuple[str, ...] = ()


class NoneType(Struct, frozen=True, gc=False):
    """The node computes None."""


class OpaqueType(Struct, frozen=True, gc=False):
    """Anything else, by its type's name."""

    name: str
    text: str = ""


Type = Union[TensorType, SymType, ScalarType, SizeType, TupleType, NoneType, OpaqueType, None]
"""What a node computes; None when torch recorded nothing."""


class Place(Struct, frozen=True, gc=False):
    """A user's line without its number: ``file`` relative, ``code`` the line's text.

    ``line`` (from 1) and ``path`` are known for a fresh capture only; no file holds them and no comparison reads them.
    """

    file: str = ""
    function: str = ""
    code: str = ""
    line: int = 0
    path: str = ""


class Input(Struct, frozen=True, gc=False):
    """A placeholder. ``name`` is its source: ``fc1.weight``, ``batch[0]['ids']``.

    ``kind`` is ``parameter`` or ``buffer`` where the name alone reads as an argument's: those of the compiled module itself.
    """

    name: str
    type: Type = None
    kind: str = ""


INPUT_KINDS = ("parameter", "buffer")


class Call(Struct, frozen=True, gc=False):
    """Written arguments and the operands of their slots.

    An operand counts a graph's inputs, then its nodes; ``-1 - k`` is body ``k`` of the root graph.
    """

    template: str = ""
    operands: tuple[int, ...] = ()


class Node(Struct, frozen=True, gc=False):
    """One op. ``label`` is ``module.op`` with a count; ``target`` ``F.linear``, ``.view`` for a method, ``get_attr[scale]``.

    ``template`` and ``operands`` are those of Call, kept flat because there are many.
    """

    label: str
    target: str
    template: str = ""
    operands: tuple[int, ...] = ()
    type: Type = None
    place: Place | None = None

    @property
    def module(self) -> str:
        """The module path, empty for the compiled module's own forward."""
        return self.label.rpartition(".")[0]


class Symbol(Struct, frozen=True, gc=False):
    """A symbolic size. ``sources`` are all inputs that carry it; ``lower`` and ``upper`` bound it, both included."""

    name: str
    sources: tuple[str, ...] = ()
    lower: int | float | None = None
    upper: int | float | None = None
    type: str = "int"


class Reason(Struct, frozen=True, gc=False):
    """A condition on a symbol and the user's line that asked for it. ``by`` is the op of torch through which it did."""

    symbol: str
    text: str
    place: Place
    by: str = ""


class Body(Struct, frozen=True, gc=False):
    """The graph of a higher-order op (a branch of ``cond``)."""

    name: str
    inputs: tuple[Input, ...] = ()
    nodes: tuple[Node, ...] = ()
    output: Call = Call()


class Graph(Struct, frozen=True, gc=False):
    """One captured graph. ``variant`` counts compiles of one code object from 1, ``resume`` continuations after a break.

    ``because`` says why a variant was compiled. ``bodies`` holds those of nested bodies too. ``fixed`` names sizes that torch
    made static although they began as symbols, each with the line that asked, ``reasons`` the conditions on those that stayed;
    like ``Place.line`` they are known for a fresh capture only. The ``output`` of a later stage ends in ``saved=[…]``, values
    that go to the backward, or ``gradients={…}`` by input.
    """

    frame: str
    resume: int = 0
    variant: int = 1
    stage: str = "dynamo"
    call: int = 0
    because: str = ""
    symbols: tuple[Symbol, ...] = ()
    guards: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    nodes: tuple[Node, ...] = ()
    output: Call = Call()
    bodies: tuple[Body, ...] = ()
    fixed: tuple[tuple[str, Place], ...] = ()
    reasons: tuple[Reason, ...] = ()

    @property
    def title(self) -> str:
        """``f``, ``f ▸ resume#1``, ``f ▸ variant#2``, ``f ▸ joint``."""
        parts = [self.frame]
        if self.resume:
            parts.append(f"resume#{self.resume}")
        if self.variant != 1:
            parts.append(f"variant#{self.variant}")
        if self.call:
            parts.append(f"call#{self.call}")
        if self.stage != "dynamo":
            parts.append(self.stage)
        return " ▸ ".join(parts)


class Break(Struct, frozen=True, gc=False):
    """A graph break: torch's id in lower case (``gb0059``, empty when it has none), the user's line, the reason."""

    id: str = ""
    place: Place = Place()
    reason: str = ""


SKIPPED_STATES = ("SKIPPED", "LIMIT", "FAILED", "EMPTY", "NOTHING")


class Skipped(Struct, frozen=True, gc=False):
    """A frame that left no graph. ``state``: ``SKIPPED``, ``LIMIT`` (recompile limit), ``FAILED``, ``EMPTY`` (no op to
    compile), ``NOTHING`` (nothing at all was captured)."""

    frame: str
    state: str = "SKIPPED"
    reason: str = ""
    place: Place | None = None


Entry = Union[Graph, Break, Skipped]


class Snapshot(Struct, frozen=True, gc=False):
    """A file's root. ``env`` is recorded, not compared; ``entries`` stand in the order of the capture.

    ``cost`` is what the capture was priced at (``flops``, ``peak_memory``), kept where a test asks for a price beside it;
    not compared either.
    """

    name: str
    env: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    cost: tuple[tuple[str, int], ...] = ()

    @property
    def graphs(self) -> tuple[Graph, ...]:
        return tuple([e for e in self.entries if type(e) is Graph])

    @property
    def breaks(self) -> tuple[Break, ...]:
        return tuple([e for e in self.entries if type(e) is Break])

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        return tuple([e for e in self.entries if type(e) is Skipped])

    @property
    def stats(self) -> dict[str, int]:
        """Counts, in the order in which the file shows them."""
        graphs = self.graphs
        frames = {(g.frame, g.resume) for g in graphs} | {
            (s.frame, -1) for s in self.skipped if s.state != "NOTHING"
        }
        return {
            "frames": len(frames),
            "graphs": len(graphs),
            "ops": sum(len(g.nodes) + sum(len(b.nodes) for b in g.bodies) for g in graphs),
            "breaks": len(self.breaks),
            "recompiles": sum(g.variant > 1 for g in graphs if not g.call and g.stage == "dynamo"),
        }
