"""``peek dryrun``: the graph, FLOPs, bytes and memory of a model on any device, without the device and without the memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..analysis.devices import Device, device_named, device_of
from ..errors import PeekError, unknown_name
from ..options import TABLE_FORMATS
from ..snapshot.atomic import read_bytes, write_bytes
from ..specs import check_names, parse_input, parse_keyword
from .output import (
    SUFFIXES,
    check_heat,
    format_of,
    options_of,
    show_record,
    tell,
    view_of,
    width_of,
    write_stdout,
)
from .progress import doing_at, showing_progress
from .target import Target, parse_target
from .traces import brief, cut_our_frames, unlogged

if TYPE_CHECKING:
    from ..api import Record

FORMATS = ("tree", "json", *TABLE_FORMATS)
SORTS = ("order", "flops", "bytes", "parameters")
OPTIMIZERS = ("adamw", "adam", "sgd", "momentum", "none")


class _Shown(NamedTuple):
    """What is printed and written of a dry run."""

    format: str
    depth: int
    sort: str
    at: dict[str, int]
    output: str | None
    memory_svg: str | None
    on: Device | None
    heat: str | None


@click.command()
@click.argument("target", metavar="MODULE:FACTORY")
@click.option(
    "--input", "inputs", multiple=True, metavar="SPEC", help="An argument, in order: 'i64[1, 4096]', 3, true."
)
@click.option(
    "--kwarg",
    "keywords",
    multiple=True,
    metavar="NAME=SPEC",
    help="A keyword argument: labels='i64[1, 4096]'.",
)
@click.option(
    "--device", default="cuda", metavar="NAME", help="Where the model would be; it need not be there."
)
@click.option("--train", is_flag=True, help="A training step: forward, backward and the optimizer's state.")
@click.option(
    "--optimizer", default="adamw", type=click.Choice(OPTIMIZERS), help="Whose state a training step keeps."
)
@click.option(
    "--dynamic/--no-dynamic", default=None, help="Every dim dynamic, or none; default as torch.compile."
)
@click.option("--fullgraph", is_flag=True, help="A graph break is an error.")
@click.option(
    "--unbacked",
    is_flag=True,
    help="Numbers and sizes read from data become symbols (u0) instead of ending the run.",
)
@click.option(
    "--hint",
    "hints",
    multiple=True,
    metavar="PLACE=N",
    help="What a value read from data is taken for, by line or symbol: model.py:120=8, u0=16; in turn: model.py:131=0,1,2.",
)
@click.option("--eval-mode", is_flag=True, help="With --train: no dropout, no layer drop.")
@click.option("--at", "at", multiple=True, metavar="SYMBOL=N", help="The price at these sizes: s0=8,s1=2048.")
@click.option(
    "--stages",
    metavar="A,B,…",
    help="Stages to record; default dynamo, with --train joint, forward, backward too.",
)
@click.option("--depth", type=click.IntRange(min=0), default=4, help="Levels of modules to show (4).")
@click.option(
    "--sort", type=click.Choice(SORTS), default="order", help="Modules in order, or the dearest first."
)
@click.option(
    "--format", "format_", default="simple", metavar="NAME", help="tree, json, or a tabulate format."
)
@click.option(
    "--on",
    metavar="NAME",
    help="Lower bounds of time on a device: h100-80gb, a100-80gb, b200, l4, t4, rtx-4090, mi300x, …",
)
@click.option("--device-spec", metavar="FILE", help="The same for a device of your own, as JSON.")
@click.option(
    "--traceback", is_flag=True, help="Show all of what the model raises, not its first lines alone."
)
@click.option("--memory-svg", metavar="FILE", help="Draw memory over time.")
@click.option("--heat", metavar="NAME", help="With -o x.svg: colour boxes by flops, bytes or memory.")
@click.option(
    "-o", "--output", metavar="FILE", help="Save the capture too: .json for peek show, .svg, .html, …"
)
def dryrun(
    target: str, inputs: tuple[str, ...], keywords: tuple[str, ...], **given: Any
) -> Callable[[], int]:
    """Trace and price a model without running it: no device, no memory, no data.

    FACTORY is a class or function that makes the model without arguments, a call such as make(layers=80), a module or a function.
    It is called with every tensor on the meta device. Inputs are as for peek inspect; a named dim stays symbolic, and so does
    the price: 'i64[batch=8, 4096]'.
    """
    shown = _shown(given)
    stages, trace = given.pop("stages"), given.pop("traceback")
    given["stages"] = options_of(stages=stages).stages if stages else None
    given["hints"] = parse_hints(given["hints"])
    found = parse_target(target)
    args = [parse_input(text) for text in inputs]
    kwargs = dict(parse_keyword(text) for text in keywords)
    check_names([*args, *kwargs.values()])
    return lambda: _dry_run(found, args, kwargs, given, shown, traceback=trace)


def _shown(given: dict[str, Any]) -> _Shown:
    """What to show, taken out of the options; PeekError for a format or size that means nothing."""
    format_ = given.pop("format_").lower()
    if format_ not in FORMATS:
        raise unknown_name("format", format_, FORMATS)
    output = given.pop("output")
    if output is not None and Path(output).suffix.lower() not in SUFFIXES:
        raise PeekError(
            f"cannot tell what to write to {output!r}", "", f"end it in one of {' '.join(SUFFIXES)}"
        )
    at = parse_sizes(given.pop("at"))
    on = _on(given.pop("on"), given.pop("device_spec"))
    heat = given.pop("heat")
    check_heat(heat, format_of(None, output))
    return _Shown(
        format_, given.pop("depth"), given.pop("sort"), at, output, given.pop("memory_svg"), on, heat
    )


def _on(name: str | None, file: str | None) -> Device | None:
    """The device of the roofline: of the table, or described in a file. PeekError for what is neither."""
    if file is None:
        return device_named(name) if name is not None else None
    if name is not None:
        raise PeekError("--on and --device-spec both name a device", "", "leave one of them out")
    try:
        data = json.loads(read_bytes(file))
    except ValueError as error:
        raise PeekError(
            f"{file!r} is no JSON", str(error), "write one object: name, flops, bandwidth, memory"
        ) from None
    return device_of(data, file)


def parse_sizes(texts: tuple[str, ...]) -> dict[str, int]:
    """``s0=8,s1=2048`` as values of symbols. PeekError for anything else."""
    sizes = {}
    for part in ",".join(texts).split(","):
        name, equals, number = part.partition("=")
        if not part.strip():
            continue
        if not equals or not number.strip().isdecimal():
            raise PeekError(
                f"bad size {part!r}", "it is no SYMBOL=NUMBER", "write for example --at s0=8,s1=2048"
            )
        sizes[name.strip()] = int(number)
    return sizes


def parse_hints(texts: tuple[str, ...]) -> dict[str, list[int | float | bool]]:
    """``model.py:120=8``, ``u0=16``, ``model.py:131=0,1,2`` as values by place. PeekError for anything else."""
    hints = {}
    for text in texts:
        place, _, values = text.rpartition("=")
        try:
            hints[place.strip()] = [json.loads(value) for value in values.split(",")]
        except ValueError:
            hints[place.strip()] = []
        if not place.strip() or not all(isinstance(v, (int, float)) for v in hints[place.strip()] or [None]):
            fix = "write --hint model.py:120=8, --hint u0=16, or --hint model.py:131=0,1,2"
            raise PeekError(f"bad hint {text!r}", "it is no PLACE=NUMBER", fix)
    return hints


def _dry_run(
    target: Target,
    args: list[Any],
    kwargs: dict[str, Any],
    how: dict[str, Any],
    shown: _Shown,
    *,
    traceback: bool,
) -> int:
    """Called outside of the handlers for mistakes: with ``traceback``, what the user's code raises goes up as it is."""
    record = None
    try:
        with unlogged(*(() if traceback else _LOGGERS)):
            record = _record(target, args, kwargs, how)
        _show(record, shown)
    except (Exception, KeyboardInterrupt) as error:
        partial = _show_partial(getattr(error, "peek_record", None), shown)
        if isinstance(error, PeekError):
            tell(str(error))
            return 2
        if isinstance(error, KeyboardInterrupt):
            tell(_interrupted(error, captured=record is not None or partial))
            return 130
        if not traceback:
            tell(f"{brief(error, _PACKAGE)}\n  fix: mend the model or its inputs; --traceback shows all")
            return 1
        cut_our_frames(lambda code: code.co_filename.startswith(_PACKAGE))
        raise
    return 0


def _record(target: Target, args: list[Any], kwargs: dict[str, Any], how: dict[str, Any]) -> Record:
    try:
        from ..capture.fakes import built_quietly
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise PeekError("peek dryrun needs torch", "it is not installed", "pip install torch") from None
    from ..api import dryrun

    module = target.imported()
    with showing_progress():
        function = built_quietly(lambda: target.load(module))
        return dryrun(function, *args, keywords=kwargs, **how)


def _interrupted(error: KeyboardInterrupt, *, captured: bool) -> str:
    """At what the run was interrupted, and that nothing was captured, where it is so."""
    during = doing_at(error)
    return f"interrupted{f' while {during}' if during else ''}{'' if captured else ': no graph was captured yet'}"


def _show_partial(record: Any, shown: _Shown) -> bool:
    """Whether something was captured before the run ended, which is shown; a failure to show it hides nothing of why it
    ended."""
    if record is None or not record.graphs:
        return False
    tell(f"what was captured until then, {len(record.graphs)} of its graphs:")
    try:
        _show(record, shown)
    except PeekError as error:
        tell(str(error))
    sys.stdout.flush()
    return True


def _show(record: Any, shown: _Shown) -> None:
    cost = record.cost.at(**shown.at) if shown.at else record.cost
    how = {"format": shown.format, "depth": shown.depth, "sort": shown.sort, "on": shown.on}
    write_stdout(cost.text(**how, width=width_of(sys.stdout)) + "\n")
    if shown.memory_svg is not None:
        write_bytes(shown.memory_svg, cost.memory_svg().encode())
    if shown.output is not None:
        view = view_of(
            shown.output,
            format=None,
            columns=None,
            color=None,
            all_rows=True,
            graphs=(),
            depth=None,
            expand=(),
            full=False,
            heat=shown.heat,
        )
        show_record(record, view, shown.output)


_LOGGERS = (
    "torch._guards",  # the traceback of a guard that cannot hold, which is then raised
    "torch._subclasses.fake_tensor",  # the traceback of what an op raises, before it is raised
    "torch._dynamo.variables.tensor",  # where item() breaks the graph: the wall that comes of it is told
)
_PACKAGE = str(Path(__file__).resolve().parents[1])
