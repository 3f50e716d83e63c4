"""What a node computes, as plain data: one Struct a kind, told apart by ``kind`` in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from msgspec import Struct

Dim = Union[int, str]
"""A size, stride or offset in elements: an int, or a symbolic expression in torch's words (``"s0*2"``)."""


class TensorMeta(Struct, frozen=True, gc=False, tag_field="kind", tag="tensor", omit_defaults=True):
    """A tensor without data. ``shape``, ``stride`` and ``storage_offset`` count elements.

    ``stride`` is None for layouts that have none (sparse). ``subclass`` names a type other than
    Tensor and Parameter, ``inner`` its inner tensors by attribute. ``flags`` holds what else
    changes how the bytes are read: ``conj``, ``neg``, ``parameter``, ``nested``, ``mutated`` (its data are
    written in place by a later node). ``became`` is the metadata that a later in-place op gave the
    same tensor (``transpose_``); None where it stayed as it was produced.
    """

    shape: tuple[Dim, ...]
    dtype: str
    stride: tuple[Dim, ...] | None
    device: str
    requires_grad: bool
    storage_offset: Dim = 0
    layout: str = "strided"
    subclass: str | None = None
    inner: dict[str, ValueInfo] = {}
    flags: tuple[str, ...] = ()
    became: TensorMeta | None = None
    # Tensors of one graph with the same number share their storage (views, in-place results).
    storage: int | None = None


class SymInt(Struct, frozen=True, gc=False, tag_field="kind", tag="symint", omit_defaults=True):
    """A symbolic int; ``hint`` is the value seen while tracing, None when unbacked."""

    expr: str
    hint: int | None = None


class SymFloat(Struct, frozen=True, gc=False, tag_field="kind", tag="symfloat", omit_defaults=True):
    """A symbolic float; ``hint`` as for SymInt."""

    expr: str
    hint: float | None = None


class SymBool(Struct, frozen=True, gc=False, tag_field="kind", tag="symbool", omit_defaults=True):
    """A symbolic bool; ``hint`` as for SymInt."""

    expr: str
    hint: bool | None = None


class ScalarInfo(Struct, frozen=True, gc=False, tag_field="kind", tag="scalar", omit_defaults=True):
    """A Python value. ``type`` is its type's name; floats that JSON lacks are text (``"nan"``, ``"inf"``)."""

    type: str
    value: int | float | bool | str | None = None


class NoneInfo(Struct, frozen=True, gc=False, tag_field="kind", tag="none"):
    """The node computes None."""


class SizeInfo(Struct, frozen=True, gc=False, tag_field="kind", tag="size"):
    """A ``torch.Size``."""

    shape: tuple[Dim, ...]


class TupleInfo(Struct, frozen=True, gc=False, tag_field="kind", tag="tuple", omit_defaults=True):
    """A tuple, list, named tuple or dict: ``type`` is its name, ``fields`` the names of its items if it has any."""

    items: tuple[ValueInfo, ...]
    type: str = "tuple"
    fields: tuple[str, ...] = ()


class Opaque(Struct, frozen=True, gc=False, tag_field="kind", tag="opaque", omit_defaults=True):
    """Anything else (a script object, a DeviceMesh): its type's name and a short text."""

    type_name: str
    text: str = ""


ValueInfo = Union[TensorMeta, SymInt, SymFloat, SymBool, ScalarInfo, NoneInfo, SizeInfo, TupleInfo, Opaque]


def iter_tensors(value: ValueInfo | None) -> Iterator[TensorMeta]:
    """Every tensor of a value, those inside tuples too; the inner tensors of a subclass are not visited."""
    if isinstance(value, TensorMeta):
        yield value
    elif isinstance(value, TupleInfo):
        for item in value.items:
            yield from iter_tensors(item)


def iter_stored(value: ValueInfo | None) -> Iterator[TensorMeta]:
    """The tensors of a value that hold data: of a subclass or a functorch wrapper the inner ones."""
    for meta in iter_tensors(value):
        if not meta.inner:
            yield meta
        for inner in meta.inner.values():
            yield from iter_stored(inner)
