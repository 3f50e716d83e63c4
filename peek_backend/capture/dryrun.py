"""A dry run: a model built, traced and priced without data, for a device that need not be there.

Tensors are fake. On a device that this torch cannot use they claim to be on the CPU while tracing, since its C++ code
aborts the process for gradients of any other; the record then names the wanted device. Flash attention is kept either way.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ..errors import PeekError
from ..model import CaptureRecord, DryRun, TensorMeta
from .attention import fused_with_dropout
from .autocast import autocast_played
from .cost import pricing
from .fakes import Fakes, built, check_unreal, held_tensors, note_eager, settle_lazy
from .hints import Hints, hinted
from .inputs import build, check_call, check_signature, device_named, is_usable
from .inspection import inspect_call, roots
from .isolation import random_state_kept
from .moves import played
from .named import symbols_by_name
from .recurrent import whole
from .relabel import relabelled
from .walls import raise_explained

TRAIN_STAGES = ("dynamo", "joint", "forward", "backward")


class Asked(NamedTuple):
    """What a dry run is asked for. ``device`` is where the model would be; ``unbacked`` traces ``item()`` and ``nonzero()`` as
    unknown sizes instead of stopping at them; ``eval_mode`` keeps modules in evaluation mode in a training step too. ``hints``
    are values for what is read from data, by line or symbol (``hints``); with some, the rest is as with ``unbacked``."""

    device: str = "cuda"
    train: bool = False
    optimizer: str = "adamw"
    dynamic: bool | None = None
    fullgraph: bool = False
    stages: tuple[str, ...] = ()
    unbacked: bool = False
    eval_mode: bool = False
    hints: Mapping[str, Any] = {}


def dry_run(
    target: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    asked: Asked,
    *,
    inputs: Callable[[], Any] | None = None,
) -> CaptureRecord:
    """The capture of ``target(*args, **kwargs)`` with the cost of every node, nothing allocated, no kernel run.

    ``target`` is a module, a function, or something that makes one without arguments (a class, a factory). Tensors and
    TensorSpecs among the arguments become fake ones; ``inputs()`` gives the arguments instead: a tuple, or a dict of keywords.
    Random state, the module given and torch's settings are as before. What the program raises passes, explained where data are
    missing, with
    ``peek_record`` on it. PeekError for what cannot be tried.
    """
    with _defaults_kept():
        return _tried(target, (args, kwargs), asked, inputs)


def _tried(
    target: Any, given_inputs: tuple[Any, Any], asked: Asked, inputs: Callable[[], Any] | None
) -> CaptureRecord:
    args, kwargs = given_inputs
    wanted = device_named(asked.device, "name one of torch's: cuda, cpu, xpu, mps, tpu …")
    hints = Hints(asked.hints)
    asked = asked._replace(unbacked=asked.unbacked or bool(hints))
    by = wanted if is_usable(wanted) else torch.device("cpu")
    env = ShapeEnv() if asked.unbacked else None  # without one, a size read from data ends the run
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=env)
    eager = note_eager(mode)
    with random_state_kept():
        function = _made(target, bool(args or kwargs or inputs))
        given, keywords = _arguments(args, kwargs, inputs)
        check_call(function, given, keywords)
        settle_lazy(function, given, keywords, made=function is not target)
    fakes = Fakes(mode, by, grad=True)
    modules = list(_modules(function, (given, keywords)))
    _refuse_scripted(modules)
    _refuse_sharded(modules)
    about = _about(modules, wanted, asked)

    def finished(record: CaptureRecord) -> CaptureRecord:
        """What was captured, whole or until the run ended, as that of the device that was asked for."""
        names = symbols_by_name(record, function, args, kwargs)
        found = {
            "sizes": {name: first for name, (first, *_) in names.items()},
            "aliases": {more: name for name, (_, *rest) in names.items() for more in rest},
            "eager": dict(eager.most_common()),
        }
        told = hints.told(msgspec.structs.replace(record, dryrun=msgspec.structs.replace(about, **found)))
        return told if by == wanted else relabelled(told, str(by), str(wanted))

    with hinted(hints):
        try:
            record = _traced(function, (given, keywords), modules, fakes, asked)
        except (Exception, KeyboardInterrupt) as error:
            raise_explained(error, finished, hints)
    record = finished(record)
    if function is target and not (args or kwargs or inputs):
        _refuse_maker(target, record)
    hints.check_used(record)
    return record


@contextlib.contextmanager
def _defaults_kept() -> Iterator[None]:
    """What a factory sets for its model (``torch.set_default_dtype``) holds while it is tried, and no longer."""
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)


def _traced(
    function: Any,
    inputs: tuple[Any, Any],
    modules: list[torch.nn.Module],
    fakes: Fakes,
    asked: Asked,
) -> CaptureRecord:
    stages = asked.stages or (TRAIN_STAGES if asked.train else ("dynamo",))
    given, keywords = fakes.tree(inputs)
    how = {"dynamic": asked.dynamic, "fullgraph": asked.fullgraph, "stages": stages}
    grad = torch.enable_grad() if asked.train else torch.no_grad()
    with (
        _settings(asked),
        fakes.instead_of(modules),
        _training(modules, asked),
        _played(torch.device(asked.device), fakes.device),
        whole(torch.device(asked.device)),
        fakes.mode,
        grad,
        pricing(),
    ):
        return inspect_call(function, given, keywords, **how)


@contextlib.contextmanager
def _played(device: torch.device, by: torch.device) -> Iterator[None]:
    """Within, ``by`` plays ``device``, where that is another: moves, autocast and attention are as there."""
    if device == by:
        yield
        return
    with played(device, by), autocast_played(device), fused_with_dropout():
        yield


def _made(target: Any, has_inputs: bool) -> Any:
    """The function or module to trace: ``target`` itself, or what it makes when called without arguments."""
    if isinstance(target, torch.nn.Module):
        return target
    if not callable(target):
        what = f"a {type(target).__name__} cannot be tried"
        raise PeekError(what, "it is no function or module", "pass a module, a function, or a factory of one")
    if not (isinstance(target, type) or _is_factory(target, has_inputs)):
        return target
    check_signature(target, (), {}, "a factory that needs no argument: lambda: Model(…)")
    found = built(target)
    if not callable(found):
        name = getattr(target, "__qualname__", repr(target))
        why = f"it was called without arguments and returned a {type(found).__name__}"
        raise PeekError(f"{name}() made nothing to call", why, "return the model, or pass its inputs")
    check_unreal(found)
    return found


def _refuse_maker(target: Any, record: CaptureRecord) -> None:
    """Raises PeekError for a function that only makes a model: without inputs it is taken for what is to be tried."""
    if isinstance(target, torch.nn.Module) or any(
        isinstance(n.value, TensorMeta) for g in record.graphs for n in g.nodes
    ):
        return
    with random_state_kept():
        made = built(target)
    if isinstance(made, torch.nn.Module):
        kind = type(made).__qualname__
        raise PeekError(
            f"{getattr(target, '__qualname__', repr(target))}() makes a {kind}, and there is nothing to call it with",
            "what is given without inputs is tried itself, and this computes nothing",
            f"pass the inputs of {kind}.forward, in order (--input 'f32[8, 16]')",
        )


def _is_factory(target: Any, has_inputs: bool) -> bool:
    """A callable that takes no argument while there are inputs to pass on."""
    if not has_inputs:
        return False
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # some builtins have none
        return False
    return all(
        p.default is not p.empty for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ) and not any(p.kind in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY) for p in parameters)


def _arguments(args: Any, kwargs: Any, inputs: Callable[[], Any] | None) -> tuple[list[Any], dict[str, Any]]:
    """The arguments, each TensorSpec a meta tensor."""
    if inputs is not None:
        found = built(inputs)
        if isinstance(found, dict):
            return [], found
        return list(found) if isinstance(found, (tuple, list)) else [found], {}
    return build(list(args), "meta"), build(dict(kwargs), "meta")


def _modules(function: Any, inputs: Any) -> Iterator[torch.nn.Module]:
    """Every module that the call can reach: the function's own, those of its closure and globals, those among the inputs."""
    seen: set[int] = set()
    for root in roots(function, inputs):
        if isinstance(root, torch.nn.Module):
            for module in root.modules():
                if id(module) not in seen:
                    seen.add(id(module))
                    yield module


def _refuse_scripted(modules: list[torch.nn.Module]) -> None:
    scripted = next((m for m in modules if isinstance(m, torch.jit.ScriptModule)), None)
    if scripted is not None:
        name = getattr(scripted, "original_name", "") or type(scripted).__name__
        why = "TorchScript keeps its tensors where no fake one can stand in for them, and Dynamo does not trace it"
        raise PeekError(
            f"{name} is a scripted module", why, "pass the Python module that it was scripted from"
        )


def _refuse_sharded(modules: list[torch.nn.Module]) -> None:
    """PeekError for parameters that are spread over devices: what each of them runs and keeps is not what is priced here."""
    for top in _tops(modules):
        for name, tensor in top.named_parameters():
            if (mesh := getattr(tensor, "device_mesh", None)) is not None:
                devices = "1 device" if mesh.size() == 1 else f"{mesh.size()} devices"
                raise PeekError(
                    f"{name} is a {type(tensor).__name__}, spread over {devices}",
                    "a dry run prices a model on one device",
                    "pass the model as it is before parallelize_module, fully_shard or distribute_module",
                )


def _about(modules: list[torch.nn.Module], device: torch.device, asked: Asked) -> DryRun:
    tops = _tops(modules)
    names = {path: type(m).__name__ for top in tops for path, m in top.named_modules()}
    optimizer = asked.optimizer if asked.train else ""
    return DryRun(str(device), asked.train, optimizer, held_tensors(tops), names)


def _tops(modules: list[torch.nn.Module]) -> list[torch.nn.Module]:
    """Those that are inside none of the others."""
    inside = {id(child) for module in modules for child in module.children()}
    return [m for m in modules if id(m) not in inside]


@contextlib.contextmanager
def _training(modules: list[torch.nn.Module], asked: Asked) -> Iterator[None]:
    """Every module in training mode for a training step, in evaluation mode else; afterwards each as it was."""
    before = [(m, m.training) for m in modules]
    try:
        for module in modules:
            module.training = asked.train and not asked.eval_mode
        yield
    finally:
        for module, training in before:
            module.training = training


@contextlib.contextmanager
def _settings(asked: Asked) -> Iterator[None]:
    """torch's settings for a price: recurrent modules are traced, which a compile leaves to eager unless told; sizes read from
    data are symbols where asked for."""
    changes = {"allow_rnn": True}
    if asked.unbacked:
        changes |= {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with torch._dynamo.config.patch(**changes):
        yield
