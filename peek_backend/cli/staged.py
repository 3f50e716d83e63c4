"""What ``peek show`` shows of later stages: some of them, two side by side, saved values, in-place ops, one picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from ..errors import PeekError
from ..model import CaptureRecord, GraphRecord
from ..options import FORMATS, STAGES
from ..snapshot.atomic import write_bytes
from .output import (
    PICTURES,
    View,
    options_of,
    select,
    show_record,
    tell_problems,
    write_picture,
    write_stdout,
)

if TYPE_CHECKING:
    from .show import Asked


def show_stages(record: CaptureRecord, view: View, output: str | None, asked: Asked) -> None:
    """Write what is asked for to the file ``output`` or to stdout. PeekError where the capture lacks it."""
    chosen = options_of(stages=asked.stages).stages if asked.stages is not None else STAGES
    kept = _only(select(record, view.graphs), chosen)
    if asked.saved or asked.in_place:
        tell_problems(record)
        _write(_views(record, kept, view, asked), output)
    elif view.format in PICTURES and len(chosen) > 1:
        from ..analysis.provenance import Provenance
        from ..render.stagedot import stages_dot

        write_picture(stages_dot(kept, Provenance(record)), view, output)
    elif len(chosen) == 2 and view.format in FORMATS:
        tell_problems(record)
        _write(_pairs(record, kept, chosen, view), output)
    else:
        show_record(kept, view, output)


def _only(record: CaptureRecord, stages: tuple[str, ...]) -> CaptureRecord:
    graphs = tuple(
        [g for g in record.graphs if g.stage in stages or (g.stage == "fx" and "dynamo" in stages)]
    )
    if not graphs:
        have = sorted({g.stage for g in record.graphs}) or ["none"]
        raise PeekError(
            f"the capture has no graph of {', '.join(stages)}",
            f"it holds: {', '.join(have)}",
            "capture with --stages all",
        )
    return msgspec.structs.replace(record, graphs=graphs)


def _pairs(record: CaptureRecord, kept: CaptureRecord, stages: tuple[str, ...], view: View) -> str:
    """The two stages of each compile beside each other; both halves of a post-grad stage get a table of their own."""
    from ..render.stages import side_by_side

    tables = [
        side_by_side(record, left, right, view.format, view.width)
        for left in kept.graphs
        if left.stage == stages[0]
        for right in _partners(kept, left, stages[1])
    ]
    if not tables:
        raise PeekError(f"no compile has both {stages[0]} and {stages[1]}", "", "capture with --stages all")
    return "\n\n".join(tables)


def _partners(record: CaptureRecord, left: GraphRecord, stage: str) -> Iterator[GraphRecord]:
    return (g for g in record.graphs if g.stage == stage and g.backend_call == left.backend_call)


def _views(record: CaptureRecord, kept: CaptureRecord, view: View, asked: Asked) -> str:
    from ..analysis.autograd import autograd_views
    from ..analysis.functional import in_place_ops
    from ..render.stages import autograd_text, functional_text

    format = view.format if view.format in FORMATS and view.format != "tree" else "simple"
    keys = {g.key for g in kept.graphs}
    parts = []
    if asked.saved:
        views = [v for v in autograd_views(record) if v.forward.key in keys]
        parts += [autograd_text(v, format, view.width) for v in views]
    if asked.in_place:
        found = [(g, in_place_ops(record, g)) for g in kept.graphs if g.stage == "dynamo"]
        parts += [functional_text(g, ops, format, view.width) for g, ops in found if ops]
    return "\n\n".join(parts) or _nothing(kept, asked)


def _nothing(kept: CaptureRecord, asked: Asked) -> str:
    """Why there is no table: no stages were captured, or the program has nothing of the kind."""
    later = [g for g in kept.graphs if g.stage not in ("dynamo", "fx")]
    lacks = [
        what
        for what, wanted in (("a forward with its backward", asked.saved), ("an in-place op", asked.in_place))
        if wanted
    ]
    hint = "" if later else "; capture with --stages all"
    return f"nothing: the capture does not hold {', nor '.join(lacks)}{hint}"


def _write(text: str, output: str | None) -> None:
    if output is None:
        write_stdout(text + "\n")
    else:
        write_bytes(output, f"{text}\n".encode())
