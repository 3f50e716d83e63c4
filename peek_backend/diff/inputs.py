"""Which inputs of two graphs are the same."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from ..model.snapshot import Input, SymType, TensorType, Type
from .modules import renamed_path


def match_inputs(
    old: Sequence[Input], new: Sequence[Input], by_position: bool, modules: Mapping[str, str] | None = None
) -> list[tuple[int, int]]:
    """Inputs that are the same: by name; those left by type in order, since an argument may be renamed;
    a module's parameters and buffers are their names, under the new names of ``modules``.

    ``by_position`` is for inputs whose names are locals (a resume function's, a body's): they match by position first.
    """
    pairs: list[tuple[int, int]] = []
    if by_position and len(old) == len(new) and all(map(_alike, old, new)):
        return [(i, i) for i in range(len(old))]
    names = {entry.name: j for j, entry in enumerate(new)}
    now = [renamed_path(entry.name, modules or {}) for entry in old]
    pairs = [(i, names[name]) for i, name in enumerate(now) if name in names]
    for key in (_shape_key, _kind_key):
        left, right = {i for i, _ in pairs}, {j for _, j in pairs}
        free: dict[Hashable, list[int]] = {}
        for j in range(len(new) - 1, -1, -1):
            if j not in right and is_argument(new[j]):
                free.setdefault(key(new[j].type), []).append(j)
        for i, entry in enumerate(old):
            if i not in left and is_argument(entry) and free.get(key(entry.type)):
                pairs.append((i, free[key(entry.type)].pop()))
    return sorted(pairs)


def is_argument(entry: Input) -> bool:
    """Whether an input is an argument or local: ``x``, ``batch[0]['ids']``, but not ``fc1.weight``, nor a ``(buffer)``."""
    return not entry.kind and "." not in entry.name.partition("[")[0]


def _shape_key(t: Type) -> Hashable:
    """A type with its symbols left open, since they may have other numbers."""
    if not isinstance(t, TensorType):
        return t if not isinstance(t, SymType) else t.type
    return t.dtype, t.grad, t.device, tuple([d if isinstance(d, int) else None for d in t.shape])


def _kind_key(t: Type) -> Hashable:
    return (t.dtype, t.grad, t.device, len(t.shape)) if isinstance(t, TensorType) else type(t)


def _alike(a: Input, b: Input) -> bool:
    """Whether two inputs may be one: equal type, or the same number of dims."""
    return a.type == b.type or len(getattr(a.type, "shape", ())) == len(getattr(b.type, "shape", ()))
