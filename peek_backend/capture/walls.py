"""What a dry run cannot pass, told so that it can be mended: data that are not there, ops that do not say their shapes."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from torch._subclasses import fake_tensor
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, GuardOnDataDependentSymNode

from ..errors import PeekError
from ..model import CaptureRecord
from .failures import read_failure
from .fakekernels import fake_kernel_stub
from .hints import Hints
from .sources import is_outside

_WAYS = (
    ("torch.cond(pred, f, g, operands)", "for a branch that depends on data"),
    ("torch.where(pred, a, b)", "for a choice between two tensors"),
    (
        "unbacked=True (--unbacked)",
        "for a size or number read from data: a symbol u0, given later as --at u0=512",
    ),
    (
        "eval_mode=True (--eval-mode)",
        "for a branch on random numbers in training alone (layer drop, stochastic depth)",
    ),
    ("torch._check(n <= x.shape[0])", "where such a symbol has to be bounded"),
    (
        "a module of even sizes instead",
        "for experts that data choose: EvenExperts in samples/16_price_of_models.py",
    ),
)


def _ways(place: str, *, choice: bool, unbacked: bool) -> str:
    """The ways round, the hint for ``place`` first, without the one that was taken already."""
    ways = [f"{code:<34} {what}" for code, what in _WAYS if not (unbacked and code.startswith("unbacked"))]
    if place:
        value, more = ("False", "or true") if choice else ("8", "several in turn: 0,1,2")
        hint = f"--hint '{place}={value.lower()}' (hints={{'{place}': {value}}})"
        ways.insert(0, f"{hint}: to go on as if {value.lower()} were read there; {more}")
    return "\n       ".join(["one of these lets the graph go on:", *ways])


def raise_explained(
    error: BaseException, finish: Callable[[CaptureRecord], CaptureRecord], hints: Hints
) -> NoReturn:
    """Raise a PeekError for a wall that is known, else ``error`` itself; what was captured is ``peek_record`` of it."""
    record = getattr(error, "peek_record", None)
    record = finish(record) if record is not None else None
    told = _wall(error, hints)
    if told is None:
        if record is not None:
            error.peek_record = record  # type: ignore[attr-defined]
        raise error
    told.peek_record = record  # type: ignore[attr-defined]
    raise told from error


def _wall(error: BaseException, hints: Hints) -> PeekError | None:
    chain = list(_causes(error))
    for each in chain:
        if isinstance(each, _DATA):
            return _needs_data(each, error, hints)
    for each in chain:
        unsupported = isinstance(each, fake_tensor.UnsupportedOperatorException)
        if stub := fake_kernel_stub(f"unsupported operator: {each.func}" if unsupported else str(each)):
            return PeekError(
                f"an op has no fake kernel, at {_place(error)}",
                "its outputs' shapes are unknown without running it",
                stub.replace("\n", "\n\n", 1),  # the code stands apart, at the margin, to be copied as it is
            )
    if constraint := next((e for e in chain if isinstance(e, ConstraintViolationError)), None):
        return PeekError(
            "a dim that was given a name cannot have any size",
            read_failure(constraint).reason.removeprefix("ConstraintViolationError: "),
            "give its size without a name: 'f32[8, 16]' for 'f32[8, length=16]'",
        )
    if "device mismatch" in str(error).lower() or "Unhandled FakeTensor Device Propagation" in str(error):
        why = f"{read_failure(error).reason}; a dry run puts every parameter and input on one device"
        return PeekError(
            f"tensors of two devices meet at {_place(error)}",
            why,
            "make it with device=x.device, not by name",
        )
    return None


_DATA = (
    fake_tensor.DataDependentOutputException,
    fake_tensor.DynamicOutputShapeException,
    GuardOnDataDependentSymNode,
)


def _causes(error: BaseException | None) -> Any:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _needs_data(cause: BaseException, error: BaseException, hints: Hints) -> PeekError:
    place = _place(error)
    made = hints.place_of(str(cause)) or place.partition("  ")[0]
    return PeekError(
        f"the program needs data at {place}",
        f"{_why_needed(cause)}, and a dry run has none",
        _ways(
            os.path.basename(made) if made[-1:].isdecimal() else "",
            choice=hints.is_choice(made),
            unbacked=isinstance(cause, GuardOnDataDependentSymNode),
        ),
    )


def _why_needed(cause: BaseException) -> str:
    """What reads data, or which condition torch cannot decide without."""
    if isinstance(cause, GuardOnDataDependentSymNode):
        names = sorted(map(str, cause.cond.free_symbols))
        return f"how it goes on depends on {cause.cond}; {', '.join(names)} {'is' if len(names) == 1 else 'are'} read from data"
    return f"{getattr(cause, 'func', 'an op')} reads a tensor's values"


def _place(error: BaseException) -> str:
    """``file:line  code`` of the innermost line of the program's."""
    told = read_failure(error).user
    if told is not None:
        return f"{told.file}:{told.line}  {told.code or ''}".rstrip()
    frames = [f for e in _causes(error) for f in traceback.extract_tb(e.__traceback__)]
    outside = [f for f in frames if f.filename[:1] != "<" and is_outside(f.filename)]
    return (
        f"{outside[-1].filename}:{outside[-1].lineno}  {outside[-1].line}"
        if outside
        else "a line that torch does not name"
    )
