"""Custom ops run for real and on fake tensors, side by side: what the fake kernel promises against what the real one returns.

A fake kernel is never executed by a program that runs; where it is wrong, a compiled program computes with wrong strides or
fails far away. Inputs are made up from the op's schema in several layouts, unless the caller gives some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode, UnsupportedOperatorException
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from ..errors import PeekError
from ..model.checks import FakeCheck
from .failures import in_short
from .fakekernels import fake_kernel_stub
from .formulas import storage_key
from .isolation import random_state_kept
from .meter import leaf_tensors

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments and keyword arguments of one call."""


def ops_defined_by(load: Callable[[], Any]) -> list[Any]:
    """The overloads that are registered while ``load()`` runs, by name; in the order of their names."""
    before = set(torch._C._dispatch_get_all_op_names())
    load()
    return [
        op
        for name in sorted(set(torch._C._dispatch_get_all_op_names()) - before)
        if (op := _overload(name)) is not None
    ]


def op_named(name: str) -> Any:
    """The overload of ``namespace::op`` or ``namespace::op.overload``. PeekError where there is none."""
    found = _overload(name)
    if found is None:
        raise PeekError(
            f"no op {name!r}",
            "nothing that was imported registers it",
            "write namespace::name, as in torch.library",
        )
    return found


def _overload(name: str) -> Any:
    namespace, colons, rest = name.partition("::")
    op, _, overload = rest.partition(".")
    packet = getattr(getattr(torch.ops, namespace), op, None) if colons and op.isidentifier() else None
    return getattr(packet, overload or "default", None) if packet is not None else None


def check_fake(op: Any, calls: Sequence[Call] = ()) -> list[FakeCheck]:
    """How the fake kernel of ``op`` compares with the real one on the CPU, for each call; without calls, for made-up ones.

    A call that the real kernel refuses tells nothing of the fake one and is left out; where it refuses all, one check says so.
    """
    if missing := _missing_kernel(op):
        return [FakeCheck(_name(op), "", "", missing)]
    found, refused = [], ""
    for call in calls or list(_made_up(op)):
        try:
            found.append(_compared(op, call))
        except _Refused as error:
            refused = refused or str(error)
    if found:
        return found
    why = (
        f"the real kernel refuses every input that was tried: {refused}"
        if refused
        else "no input could be made up from its schema"
    )
    return [FakeCheck(_name(op), "", "", why)]


def _name(op: Any) -> str:
    return op._schema.name + (f".{op._overloadname}" if op._overloadname != "default" else "")


def _missing_kernel(op: Any) -> str:
    """Why an op cannot be run for real on the CPU; empty where it can."""
    keys = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    if any(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key) for key in keys):
        return ""
    return "it has no kernel for the CPU, so there is nothing to compare with"


class _Refused(Exception):
    """The real kernel raised for these inputs."""


class _Outcome(NamedTuple):
    """What a call made of its tensors: results, and the arguments after it."""

    results: list[Any]
    arguments: list[torch.Tensor]


def _compared(op: Any, call: Call) -> FakeCheck:
    """The check of one call; raises _Refused where the real kernel raises."""
    said = _call_text(call)
    try:
        real = _run(op, call, lambda t: t.clone() if t.is_contiguous() else _as_strided_copy(t))
    except Exception as error:
        raise _Refused(f"{said}: {in_short(error)}") from None
    mode = FakeTensorMode(shape_env=ShapeEnv())
    try:
        with mode:
            fake = _run(op, call, lambda t: mode.from_tensor(t, static_shapes=True))
    except Exception as error:
        return _failed(op, said, error)
    return FakeCheck(_name(op), said, "; ".join(_differences(real, fake)))


def _failed(op: Any, said: str, error: Exception) -> FakeCheck:
    """The check of a call that the fake kernel did not come through: there is none, or it raises."""
    unsupported = isinstance(error, UnsupportedOperatorException)
    stub = fake_kernel_stub(f"unsupported operator: {op}" if unsupported else str(error))
    if stub:
        return FakeCheck(_name(op), said, "", "it has no fake kernel", stub)
    return FakeCheck(_name(op), said, f"the fake kernel raises {in_short(error)}")


def _run(op: Any, call: Call, of: Callable[[torch.Tensor], torch.Tensor]) -> _Outcome:
    args, kwargs = pytree.tree_map(lambda x: of(x) if isinstance(x, torch.Tensor) else x, call)
    with random_state_kept(), torch.no_grad():
        out = op(*args, **kwargs)
    return _Outcome(pytree.tree_leaves(out), leaf_tensors((args, kwargs)))


def _as_strided_copy(tensor: torch.Tensor) -> torch.Tensor:
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return copy.copy_(tensor)


def _differences(real: _Outcome, fake: _Outcome) -> Iterator[str]:
    if len(real.results) != len(fake.results):
        yield f"{len(real.results)} results, the fake kernel promises {len(fake.results)}"
        return
    for i, (got, promised) in enumerate(zip(real.results, fake.results, strict=True)):
        where = f"result {i}: " if len(real.results) > 1 else ""
        yield from (where + text for text in _different(got, promised))
        if isinstance(got, torch.Tensor) and isinstance(promised, torch.Tensor):
            ours, theirs = _shares_with(got, real), _shares_with(promised, fake)
            if ours != theirs:
                yield f"{where}memory: {_sharing(ours)}, promised: {_sharing(theirs)}"
    for i, (got, promised) in enumerate(zip(real.arguments, fake.arguments, strict=True)):
        yield from (f"argument {i} afterwards: {text}" for text in _different(got, promised))


def _different(got: Any, promised: Any) -> Iterator[str]:
    """Where two values differ in metadata; a size that depends on data is promised as a symbol, which any number fulfils."""
    if not (isinstance(got, torch.Tensor) and isinstance(promised, torch.Tensor)):
        if isinstance(got, torch.Tensor) or isinstance(promised, torch.Tensor):
            yield f"a {type(got).__name__}, promised a {type(promised).__name__}"
        return
    if got.dtype != promised.dtype:
        yield f"dtype {got.dtype}, promised {promised.dtype}"
    if not _fulfils(got.shape, promised.shape):
        yield f"shape {list(got.shape)}, promised {_text(promised.shape)}"
    elif got.layout is torch.strided and got.numel() and not _fulfils(*_strides(got, promised)):
        yield f"stride {got.stride()}, promised {tuple(promised.stride())}"
    if got.device.type != promised.device.type:
        yield f"device {got.device}, promised {promised.device}"


def _fulfils(got: Sequence[Any], promised: Sequence[Any]) -> bool:
    if len(got) != len(promised):
        return False
    return all(type(p) is not int or g == p for g, p in zip(got, promised, strict=True))


def _strides(got: torch.Tensor, promised: torch.Tensor) -> tuple[list[Any], list[Any]]:
    """The strides of both along dims where they matter: those of more than one element."""
    dims = [d for d, size in enumerate(got.shape) if size != 1]
    return [got.stride(d) for d in dims], [promised.stride(d) for d in dims]


def _text(sizes: Sequence[Any]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _shares_with(tensor: torch.Tensor, outcome: _Outcome) -> tuple[int, ...]:
    key = storage_key(tensor)
    return tuple([i for i, argument in enumerate(outcome.arguments) if storage_key(argument) == key])


def _sharing(arguments: tuple[int, ...]) -> str:
    return f"shared with argument {', '.join(map(str, arguments))}" if arguments else "its own"


def _call_text(call: Call) -> str:
    args, kwargs = call
    parts = [_value_text(a) for a in args] + [
        f"{name}={_value_text(value)}" for name, value in kwargs.items()
    ]
    return ", ".join(parts)


def _value_text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        layout = "" if value.is_contiguous() else f" stride {tuple(value.stride())}"
        return f"{kind}{list(value.shape)}{layout}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value_text, value))}]"
    return repr(value)


def _made_up(op: Any) -> Iterator[Call]:
    """Calls with every tensor of one shape, in several shapes, layouts and dtypes; nothing where an argument's type is not
    known."""
    for make in _TENSORS:
        generator = torch.Generator().manual_seed(0)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        try:
            for argument in op._schema.arguments:
                if argument.kwarg_only and argument.has_default_value():
                    continue
                value = _value_for(argument, make, generator)
                if argument.kwarg_only:
                    kwargs[argument.name] = value
                else:
                    args.append(value)
        except LookupError:
            return
        yield tuple(args), kwargs


def _value_for(
    argument: Any, make: Callable[[torch.Generator], torch.Tensor], generator: torch.Generator
) -> Any:
    """A value for one argument of a schema; its default where it has one. LookupError for a type that is not known."""
    kind = str(argument.type)
    if kind in ("Tensor", "Optional[Tensor]"):
        return make(generator)
    if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
        return [make(generator), make(generator)]
    if argument.has_default_value():
        return argument.default_value
    return _PLAIN[kind]


_PLAIN: dict[str, Any] = {
    "int": 1, "SymInt": 1, "number": 1, "float": 0.5, "bool": True, "str": "", "List[int]": [1], "List[float]": [0.5],
    "Optional[int]": None, "Optional[float]": None, "Optional[bool]": None, "Optional[str]": None, "ScalarType": torch.float32,
    "Device": torch.device("cpu"),
}  # fmt: skip

_TENSORS: tuple[Callable[[torch.Generator], torch.Tensor], ...] = (
    lambda g: torch.randn(4, 6, generator=g),
    lambda g: torch.randn(6, 4, generator=g).t(),
    lambda g: torch.randn(8, 12, generator=g)[::2, ::2],
    lambda g: torch.randn(4, 6, generator=g).to(torch.float16),
    lambda g: torch.randn(5, generator=g),
    lambda g: torch.randn(2, 4, 6, generator=g),
    lambda g: torch.randn(2, 3, 4, 6, generator=g).to(memory_format=torch.channels_last),
    lambda g: torch.randint(0, 3, (4, 6), generator=g),
    lambda g: torch.randn(0, 6, generator=g),
)
"""Made-up tensors: contiguous, transposed, with gaps, half precision, of other ranks, channels last, integers, empty."""
