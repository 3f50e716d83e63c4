"""Which symbols the dims became that the caller of a dry run gave names (``i64[batch=8, 16]``)."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from ..model import CaptureRecord, NodeRecord, TensorMeta
from ..model.inputs import TensorSpec


class _Input(NamedTuple):
    """An argument with named dims, and the words of its path: ``('inputs', 'input_ids')``."""

    words: tuple[str, ...]
    spec: TensorSpec


def symbols_by_name(
    record: CaptureRecord, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    """The symbols of each name; several where torch gave dims of one name symbols of their own.

    An input is known by its dtype, shape and path; the path of one that a decorator passes on may lack its beginning.
    """
    placeholders = [n for g in record.graphs for n in g.nodes if n.op == "placeholder"]
    found: dict[str, dict[str, None]] = {}
    for given in _inputs(function, args, kwargs):
        for node in _taking(given, placeholders):
            for name, symbol in _symbols(given.spec, node.value).items():
                found.setdefault(name, {})[symbol] = None
    return {name: tuple(symbols) for name, symbols in found.items()}


def _inputs(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[_Input]:
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        arguments: Any = inspect.signature(called).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # some builtins have no signature
        arguments = {**{str(i): arg for i, arg in enumerate(args)}, **kwargs}
    for path, leaf in pytree.tree_flatten_with_path(dict(arguments))[0]:
        if isinstance(leaf, TensorSpec) and any(leaf.names):
            yield _Input(tuple(_words("".join(map(str, path)))), leaf)


def _words(path: str) -> list[str]:
    return re.findall(r"\w+", path)


def _taking(given: _Input, placeholders: Sequence[NodeRecord]) -> list[NodeRecord]:
    """The placeholders that an input came in by: those of its path, else the only one that is like it."""
    alike = [n for n in placeholders if _symbols(given.spec, n.value)]
    paths = [tuple(_words((n.source.input if n.source is not None else None) or "")) for n in alike]
    for matches in (operator.eq, _ends_alike):
        if found := [n for n, path in zip(alike, paths, strict=True) if matches(path, given.words)]:
            return found
    return alike if len(alike) == 1 else []


def _ends_alike(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    shared = min(len(a), len(b))
    return shared > 0 and a[-shared:] == b[-shared:]


def _symbols(spec: TensorSpec, value: Any) -> dict[str, str]:
    """Names and symbols of a value's dims, if it may be the input that ``spec`` describes."""
    if not isinstance(value, TensorMeta) or value.dtype != spec.dtype or len(value.shape) != len(spec.shape):
        return {}
    dims = list(zip(spec.names, spec.shape, value.shape, strict=True))
    if any(isinstance(dim, int) and dim != size for _, size, dim in dims):
        return {}
    return {name: dim for name, _, dim in dims if name and isinstance(dim, str) and dim.isidentifier()}
