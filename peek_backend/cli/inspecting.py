"""``peek inspect``: one function or module, compiled afresh on made-up inputs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..errors import PeekError
from ..model import CaptureRecord
from ..specs import check_names, parse_input, parse_keyword
from .output import View, display_options, options_of, show_record, tell, view_of
from .target import Target, parse_target
from .traces import brief, cut_our_frames, unlogged


@click.command()
@click.argument("target", metavar="MODULE:FN")
@click.option(
    "--input", "inputs", multiple=True, metavar="SPEC", help="An argument, in order: 'f32[8, 16]', 3, true."
)
@click.option(
    "--kwarg", "keywords", multiple=True, metavar="NAME=SPEC", help="A keyword argument: mask='bool[8]'."
)
@click.option(
    "--dynamic/--no-dynamic", default=None, help="Every dim dynamic, or none; default as torch.compile."
)
@click.option("--fullgraph", is_flag=True, help="A graph break is an error.")
@click.option(
    "--device", default="cpu", metavar="NAME", help="Where inputs and parameters are: cpu, cuda, meta."
)
@click.option("--stages", metavar="A,B,…", help="Stages to record: dynamo, joint, forward, …, or all.")
@click.option("--inner", metavar="NAME", help="Backend that runs the graphs; without it, as captured.")
@click.option("--traceback", is_flag=True, help="All of what the call raises, not only what it says.")
@display_options
def inspect(
    target: str,
    inputs: tuple[str, ...],
    keywords: tuple[str, ...],
    output: str | None,
    **given: Any,
) -> Callable[[], int]:
    """Compile FN of MODULE (a dotted name or a path to a .py file), call it once, and show what was captured.

    FN is a function, an nn.Module, a class that is made without arguments, or a call such as Net(8). An input is a
    tensor by dtype and shape, filled with made-up numbers: 'f32[8, 16]'. A dim with a name is dynamic: 'f32[batch=8, 16]';
    'grad' after the shape asks for a gradient. Lists, tuples and dicts of inputs work too.
    """
    how = {name: given.pop(name) for name in ("dynamic", "fullgraph", "device", "inner", "traceback")}
    how["stages"] = options_of(stages=given.pop("stages")).stages
    view = view_of(output, **given)
    found = parse_target(target)
    args = [parse_input(text) for text in inputs]
    kwargs = dict(parse_keyword(text) for text in keywords)
    check_names([*args, *kwargs.values()])
    return lambda: _inspect(found, args, kwargs, view=view, output=output, **how)


def _inspect(
    target: Target,
    args: list[Any],
    kwargs: dict[str, Any],
    *,
    view: View,
    output: str | None,
    device: str,
    traceback: bool,
    **how: Any,
) -> int:
    """Called outside of the handlers for mistakes: with ``traceback``, what the user's code raises goes up as it is."""
    try:
        with unlogged(*(() if traceback else _LOGGERS)):
            record = _captured(target, args, kwargs, device, how)
        show_record(record, view, output)
    except PeekError as error:
        tell(str(error))
        return 2
    except Exception as error:
        record = getattr(error, "peek_record", None)
        if record is not None and record.graphs:
            show_record(record, view, output)
            sys.stdout.flush()
        if not traceback:
            tell(f"{brief(error, _PACKAGE)}\n  fix: mend the call or its inputs; --traceback shows all")
            return 1
        cut_our_frames(lambda code: code.co_filename.startswith(_PACKAGE))
        raise
    return 0


def _captured(
    target: Target, args: list[Any], kwargs: dict[str, Any], device: str, how: dict[str, Any]
) -> CaptureRecord:
    try:
        from ..capture.inputs import build, check_call, make
        from ..capture.inspection import inspect_call
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise PeekError("peek inspect needs torch", "it is not installed", "pip install torch") from None
    function = make(target.load, device)
    inputs, keywords = build(args, device), build(kwargs, device)
    check_call(function, inputs, keywords)
    return inspect_call(function, inputs, keywords, **how)


_PACKAGE = str(Path(__file__).resolve().parents[1])
_LOGGERS = (
    "torch._subclasses.fake_tensor",
)  # prints the traceback of what a call raises, before it is raised
