"""What a snapshot is taken of: calls of a function with some sizes marked dynamic, from a fresh start."""

from __future__ import annotations

import contextlib
import inspect
import logging
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch._dynamo
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

from ..errors import PeekError, unknown_name
from ..model import CaptureRecord
from .inspection import inspect_call
from .isolation import random_state_kept

Call = tuple[Sequence[Any], dict[str, Any]]
_STEP = re.compile(r"\[(\d+)\]|\[(['\"])(.*?)\2\]|\.([^\W\d]\w*)")
_NAME = re.compile(r"[^\W\d]\w*")
_GUARD_FAILED = ("Error while creating guard", "Created at")
_EXAMPLE = 'write dynamic={"x": {0: "batch"}}'


class Mark(NamedTuple):
    """One size of an input that is to stay dynamic: the user's word for it, and its range if given."""

    path: str
    dim: int
    name: str = ""
    lower: int | None = None
    upper: int | None = None


class Pinned(NamedTuple):
    """A capture for a snapshot, and what its header says of how it was made."""

    record: CaptureRecord
    env: dict[str, str]
    marks: tuple[Mark, ...]


def pin(
    fn: Callable[..., Any],
    calls: Sequence[Call],
    *,
    dynamic: bool | Mapping[str, Any] | None = None,
    fullgraph: bool = False,
    stages: Sequence[str] = (),
    shaken: bool = False,
) -> Pinned:
    """Compiles ``fn`` afresh and makes the ``calls``, in order; leaves no trace, marks on tensors included.

    ``dynamic`` is torch's own setting, or ``{"x": {0: "batch"}}``: sizes by argument and dim. ``shaken`` makes the calls
    with other random numbers than the process would draw. Raises PeekError for an argument or dim that is not there; the calls'
    own exceptions pass.
    """
    __tracebackhide__ = True  # pytest shows the user's own frames of an exception
    marks = tuple(read_marks(dynamic)) if isinstance(dynamic, Mapping) else ()
    whole = None if isinstance(dynamic, Mapping) else dynamic
    args, kwargs = calls[0]

    def capture(*, ranges: bool) -> CaptureRecord:
        __tracebackhide__ = True
        with _marked(fn, calls, marks, ranges=ranges), _shaken() if shaken else contextlib.nullcontext():
            return inspect_call(
                fn, args, kwargs, dynamic=whole, fullgraph=fullgraph, more=calls[1:], stages=stages
            )

    try:
        with _refused_marks_unlogged():
            record = capture(ranges=True)
    except ConstraintViolationError:  # only marks with a range raise it: see _marked
        record = capture(ranges=False)
    return Pinned(record, _env(whole, marks), marks)


@contextlib.contextmanager
def _refused_marks_unlogged() -> Iterator[None]:
    """Keeps out of the log that the code fixes a marked size: torch logs it with two tracebacks, then raises it, and it is told
    as a change of the graph."""

    def is_other(record: logging.LogRecord) -> bool:
        return not isinstance(record.msg, str) or not record.msg.startswith(_GUARD_FAILED)

    logger = logging.getLogger("torch._guards")
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def _env(dynamic: bool | None, marks: Sequence[Mark]) -> dict[str, str]:
    if marks:
        return {"dynamic": f"mark({','.join(f'{mark.path}:{mark.dim}' for mark in marks)})"}
    return {} if dynamic is None else {"dynamic": "on" if dynamic else "off"}


def read_marks(dynamic: Mapping[str, Any]) -> Iterator[Mark]:
    """The marks of ``{"x": {0: "batch", 1: ("seq", 2, 64)}, "batch['ids']": [0]}``. Raises PeekError for anything else."""
    for path, dims in dynamic.items():
        if not isinstance(path, str) or not _NAME.match(path):
            raise PeekError(f"dynamic: {path!r} names no argument", "", _EXAMPLE)
        named = (
            dims if isinstance(dims, Mapping) else dict.fromkeys([dims] if isinstance(dims, int) else dims)
        )
        for dim, said in named.items():
            if isinstance(dim, bool) or not isinstance(dim, int):
                raise PeekError(f"dynamic: {dim!r} is no dim of {path}", "a dim is a whole number", _EXAMPLE)
            yield Mark(path, dim, *_said(said, f"{path}.shape[{dim}]"))


def _said(said: Any, where: str) -> tuple[str, int | None, int | None]:
    """Name and range of a dim: None, ``"batch"``, ``(2, 64)`` or ``("batch", 2, 64)``."""
    parts = (
        [said]
        if said is None or isinstance(said, str)
        else list(said)
        if isinstance(said, (tuple, list))
        else None
    )
    if parts is not None:
        name = parts.pop(0) if parts and isinstance(parts[0], str) else ""
        if parts in ([], [None]):
            return name, None, None
        if len(parts) == 2 and all(p is None or isinstance(p, int) for p in parts):
            return name, parts[0], parts[1]
    raise PeekError(f"dynamic: {said!r} says nothing of {where}", "", '"batch", (2, 64) or ("batch", 2, 64)')


@contextlib.contextmanager
def _marked(fn: Any, calls: Sequence[Call], marks: Sequence[Mark], *, ranges: bool) -> Iterator[None]:
    """The tensors of all calls marked within the block, and as before afterwards.

    ``mark_dynamic`` makes the compile fail when the code fixes the size, so that there would be no graph to compare;
    ``maybe_mark_dynamic`` lets it become static, which is what the comparison is to tell. It takes no range, so a mark that has
    one is made with the former as long as ``ranges``.
    """
    found = [(mark, tensor) for call in calls for mark, tensor in _tensors(fn, call, marks)]
    _check_names([pair for pair in found if pair[0].name])
    before = {id(tensor): (tensor, dict(tensor.__dict__)) for _, tensor in found}
    try:
        for mark, tensor in found:
            limits = {k: v for k, v in (("min", mark.lower), ("max", mark.upper)) if v is not None}
            if limits and ranges:
                torch._dynamo.mark_dynamic(tensor, mark.dim, **limits)
            else:
                torch._dynamo.maybe_mark_dynamic(tensor, mark.dim)
        yield
    finally:
        for tensor, attributes in before.values():
            tensor.__dict__.clear()
            tensor.__dict__.update(attributes)


def _check_names(found: Sequence[tuple[Mark, torch.Tensor]]) -> None:
    """PeekError when sizes with one name differ in one call: a word stands for one size."""
    sizes: dict[str, tuple[int, str]] = {}
    seen: set[tuple[str, int]] = set()
    for mark, tensor in found:
        if (mark.path, mark.dim) in seen:
            sizes.clear()  # the next call
            seen.clear()
        seen.add((mark.path, mark.dim))
        size, where = tensor.shape[mark.dim], f"{mark.path}.shape[{mark.dim}]"
        other, first = sizes.setdefault(mark.name, (size, where))
        if other != size:
            why = f"{first} is {other}, {where} is {size}"
            raise PeekError(
                f"dynamic: {mark.name!r} has two sizes", why, "use two names, or equal example sizes"
            )


def _tensors(fn: Any, call: Call, marks: Sequence[Mark]) -> Iterator[tuple[Mark, torch.Tensor]]:
    if not marks:
        return
    arguments = _arguments(fn, call)
    for mark in marks:
        yield mark, _checked(mark, _value(mark.path, arguments))


def _arguments(fn: Any, call: Call) -> dict[str, Any]:
    """The arguments of a call by the names of the signature; those of ``**kwargs`` by their own."""
    args, kwargs = call
    called = fn.forward if isinstance(fn, torch.nn.Module) else fn
    try:
        bound = inspect.signature(called).bind(*args, **kwargs)
    except (TypeError, ValueError) as error:
        raise PeekError(
            "these arguments do not fit the function", str(error), "pass args=(…), kwargs={…}"
        ) from None
    return {**bound.arguments, **kwargs}


def _value(path: str, arguments: Mapping[str, Any]) -> Any:
    """What ``x``, ``batch['ids']`` or ``xs[0]`` names among the arguments."""
    root = _NAME.match(path)
    assert root is not None
    if root[0] not in arguments:
        raise unknown_name("argument", root[0], arguments, "dynamic")
    value, at = arguments[root[0]], root.end()
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise PeekError(
                f"dynamic: {path!r} names no argument", f"{path[at:]!r} is no index or attribute", _EXAMPLE
            )
        index, _, key, attribute = step.groups()
        try:
            value = (
                getattr(value, attribute) if attribute else value[int(index) if index is not None else key]
            )
        except (AttributeError, LookupError, TypeError) as error:
            raise PeekError(
                f"dynamic: there is no {path!r}", f"{type(error).__name__}: {error}", _EXAMPLE
            ) from None
        at = step.end()
    return value


def _checked(mark: Mark, value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise PeekError(f"dynamic: {mark.path} is no tensor", f"it is a {type(value).__name__}", _EXAMPLE)
    if not 0 <= mark.dim < value.dim():
        why = f"{mark.path} has {value.dim()} dims, from 0"
        raise PeekError(f"dynamic: there is no {mark.path}.shape[{mark.dim}]", why, _EXAMPLE)
    size = value.shape[mark.dim]
    if size in (0, 1):
        why = f"{mark.path}.shape[{mark.dim}] is {size}, and torch compiles sizes 0 and 1 for themselves"
        raise PeekError(
            f"dynamic: {mark.path}.shape[{mark.dim}] cannot be dynamic",
            why,
            "use an example size of 2 or more",
        )
    return value


@contextlib.contextmanager
def _shaken() -> Iterator[None]:
    """Other random numbers than before, from every generator that Python code can bake into a graph."""
    with random_state_kept():
        random.seed()
        torch.manual_seed(random.getrandbits(60))
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(random.getrandbits(32))
        yield
