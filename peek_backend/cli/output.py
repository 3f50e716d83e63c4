"""What every verb shares: which format, how wide, in what colour, and writing it to stdout or a file."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import msgspec

from ..errors import PeekError, nearest, unknown_name
from ..model import CaptureRecord, GraphRecord
from ..options import FORMATS, SAVE_KINDS, Options, resolve, wants_color
from ..snapshot.atomic import write_bytes

PICTURES = ("dot", "svg", "png", "pdf")
DOCUMENTS = ("json", "md", "page", "mermaid")
ALL_FORMATS = (*FORMATS, *DOCUMENTS, *PICTURES)
"""What ``--format`` takes: ``html`` is tabulate's table where it is printed, the page (``page``) in a file ``x.html``."""

SUFFIXES = {**SAVE_KINDS, ".html": "page", ".mmd": "mermaid", ".tsv": "tsv", ".tex": "latex", ".rst": "rst"}
"""The format that an output file's suffix asks for; .txt leaves it to the options."""


@dataclass(frozen=True)
class View:
    """How a capture is to be shown. ``width`` is in columns; None cuts and folds nothing."""

    format: str
    options: Options
    width: int | None
    color: bool
    all_rows: bool
    graphs: tuple[str, ...] = ()
    depth: int | None = None
    expand: tuple[str, ...] = ()
    full: bool = False
    heat: str | None = None
    totals: bool = True


def display_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every verb that shows a capture."""
    for add in reversed(
        [
            click.option(
                "--format",
                metavar="NAME",
                help="A tabulate format, tree, md, json, page, mermaid, dot, svg, png, pdf.",
            ),
            click.option("--columns", metavar="A,B,…", help="Columns of the table, in order."),
            click.option(
                "--graph", "graphs", multiple=True, metavar="KEY", help="Only this graph (0/0, 1/0 joint)."
            ),
            click.option(
                "--all/--fold", "all_rows", default=None, help="Every row, or long graphs folded by module."
            ),
            click.option("--depth", type=click.IntRange(min=0), help="Pictures: levels of modules to open."),
            click.option(
                "--expand", multiple=True, metavar="GLOB", help="Pictures: modules to open (layers.0*)."
            ),
            click.option("--full", is_flag=True, help="Pictures: open everything."),
            click.option("--heat", metavar="NAME", help="Pictures: colour by flops, bytes or memory."),
            click.option("--color", metavar="WHEN", help="auto, always or never."),
            click.option("-o", "--output", metavar="FILE", help="Write there; the suffix picks the format."),
        ]
    ):
        command = add(command)
    return command


def view_of(output: str | None, **given: Any) -> View:
    """The View that the command line asks for, in a file or on stdout; PeekError for what it cannot mean."""
    format_ = format_of(given.pop("format"), output)
    check_heat(given.get("heat"), format_)
    table = format_ if format_ in FORMATS else None
    options = options_of(format=table, columns=given.pop("columns"), color=given.pop("color"))
    width, all_rows = _extent(sys.stdout, given.pop("all_rows"))
    return View(
        format=format_ or options.format,
        options=options,
        width=None if output else width,
        color=output is None and wants_color(options.color, sys.stdout),
        all_rows=all_rows or output is not None,
        **given,
    )


def check_heat(heat: str | None, format_: str | None) -> None:
    """PeekError for a heat that there is not, and for one of what is no picture."""
    if heat is None:
        return
    from ..analysis.heat import HEATS

    if heat not in HEATS:
        raise unknown_name("heat", heat, HEATS)
    if format_ not in PICTURES:
        why = "only a picture is coloured by heat" + (f", and {format_} is none" if format_ else "")
        fix = f"add -o graph.svg or --format dot; the page (-o page.html) has {heat} under its own overlays"
        raise PeekError(f"--heat {heat} has nothing to colour", why, fix)


def report_view(stream: Any, *, all_rows: bool | None, **given: Any) -> View:
    """The View of a report printed to ``stream``."""
    options = options_of(**given)
    width, all_rows = _extent(stream, all_rows)
    color = wants_color(options.color, stream)
    return View(format=options.format, options=options, width=width, color=color, all_rows=all_rows)


def options_of(**given: Any) -> Options:
    """The options in force; a variable that was not understood is told on stderr."""
    options, problems = resolve(given)
    for problem in problems:
        tell(f"{problem.where} {problem.what}; {problem.fix or problem.why}")
    return options


def format_of(name: str | None, output: str | None) -> str | None:
    """The format by ``--format``, else by the suffix of the output file; None leaves it to the options."""
    if name is not None:
        if name.lower() not in ALL_FORMATS:
            raise unknown_name("format", name, ALL_FORMATS)
        whole = (
            name.lower() == "html" and output is not None and Path(output).suffix.lower() in (".html", ".htm")
        )
        return "page" if whole else name.lower()
    if output is None:
        return None
    suffix = Path(output).suffix.lower()
    if suffix == ".txt" or (not suffix and _is_special(output)):
        return None
    if suffix not in SUFFIXES:
        close = nearest(suffix, SUFFIXES)
        hint = f"did you mean {close}? " if close else ""
        why = f"the suffix {suffix!r} names no format" if suffix else "it has no suffix"
        raise PeekError(
            f"cannot tell what to write to {output!r}",
            why,
            f"{hint}end it in one of {' '.join(SUFFIXES)}, or add --format",
        )
    return SUFFIXES[suffix]


def _is_special(path: str) -> bool:
    """Whether ``path`` is a device or pipe, such as /dev/stdout, where a suffix says nothing."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _extent(stream: Any, all_rows: bool | None) -> tuple[int | None, bool]:
    """Columns to fit in, and whether to show every row.

    A terminal gets its width, and long tables folded; a pipe or file gets whole cells and every row, except that
    COLUMNS, where it is set, is the width of both, and ``all_rows`` decides about rows where it is not None.
    """
    isatty = getattr(stream, "isatty", None)
    terminal = callable(isatty) and isatty()
    columns = os.environ.get("COLUMNS", "")
    wide = not (terminal or all_rows is False or (columns.isdecimal() and int(columns)))
    whole = not terminal if all_rows is None else all_rows
    return None if wide else shutil.get_terminal_size().columns, whole


def width_of(stream: Any) -> int | None:
    """Columns to fit in: a terminal's, or COLUMNS; None for a pipe or file."""
    return _extent(stream, None)[0]


def select(record: CaptureRecord, keys: tuple[str, ...]) -> CaptureRecord:
    """The record with only the graphs named by ``keys``, in the record's order; all of them without keys."""
    known = {graph.key: graph for graph in record.graphs}
    for key in keys:
        if key not in known:
            if not known:
                raise PeekError(f"no graph {key!r}", "the capture holds no graph", "")
            raise unknown_name("graph", key, known)
    graphs = tuple(g for g in record.graphs if not keys or g.key in keys)
    return msgspec.structs.replace(record, graphs=graphs)


def show_record(record: CaptureRecord, view: View, output: str | None) -> None:
    """Write the capture, in the format of ``view``, to the file ``output`` or to stdout; chosen graphs without all totals."""
    whole, record = record, select(record, view.graphs)
    if view.graphs:
        view = replace(view, totals=False)
    if view.format in PICTURES:
        _show_pictures(record, view, output, whole)
        return
    text = document(record, view)
    if output is None:
        write_stdout(text)
    else:
        write_bytes(output, text.encode("utf-8", "backslashreplace"))


def document(record: CaptureRecord, view: View) -> str:
    """The whole capture as one text, with a newline at its end."""
    if view.format == "json":
        from ..snapshot.jsonfile import encode

        return encode(record).decode()
    if view.format == "mermaid":
        return _with_newline(_mermaid(record))
    if view.format in DOCUMENTS:
        from ..export import whole_text

        return _with_newline(whole_text(record, "html" if view.format == "page" else view.format))
    return _with_newline(_table(record, view))


def _table(record: CaptureRecord, view: View) -> str:
    from ..render.text import render_text

    return render_text(
        record,
        format=view.format,
        columns=view.options.columns,
        width=view.width,
        color=view.color,
        all_rows=view.all_rows,
        totals=view.totals,
    )


def _show_pictures(record: CaptureRecord, view: View, output: str | None, whole: CaptureRecord) -> None:
    """One picture a graph: files beside each other, or on stdout DOT texts in a row, or a single image.

    ``whole`` is the capture from which the graphs of ``record`` were picked.
    """
    from ..export import Drawing, draw, heats, write

    drawing = Drawing(view.depth, view.expand, view.full, view.heat)
    if output is not None:
        written = write(record, output, kind=view.format, drawing=drawing, whole=whole)
        tell_notes(written.notes)
        if len(written.paths) > 1:
            tell(f"wrote {len(written.paths)} files: {', '.join(map(str, written.paths))}")
        return
    if view.format != "dot":
        _check_one_image(record)
    for graph, heat in zip(record.graphs, heats(record, drawing, whole), strict=True):
        data, notes = draw(graph, view.format, drawing, heat)
        tell_notes(notes)
        write_stdout(data.decode()) if view.format == "dot" else _write_binary(data)


def write_picture(dot_text: str, view: View, output: str | None) -> None:
    """One picture of several graphs, as DOT text or drawn, to a file or to stdout."""
    from ..render.image import render_image

    if output is None and view.format != "dot" and sys.stdout.isatty():
        raise PeekError("an image is no text for a terminal", "", "add -o stages.png, or pipe it on")
    data = dot_text.encode() if view.format == "dot" else render_image(dot_text, view.format)
    if output is not None:
        write_bytes(output, data)
    else:
        write_stdout(dot_text) if view.format == "dot" else _write_binary(data)


def _check_one_image(record: CaptureRecord) -> None:
    if sys.stdout.isatty():
        raise PeekError("an image is no text for a terminal", "", "add -o graph.png, or pipe it on")
    _one_graph(
        record, "stdout takes the image of one graph", "pick one with --graph KEY, or add -o graph.png"
    )


def _one_graph(record: CaptureRecord, what: str, fix: str) -> GraphRecord:
    if len(record.graphs) == 1:
        return record.graphs[0]
    if not record.graphs:
        from ..export import no_graph

        raise no_graph(record, what)
    keys = ", ".join(g.key for g in record.graphs[:20])
    raise PeekError(what, f"the capture holds {len(record.graphs)}: {keys}", fix)


def _mermaid(record: CaptureRecord) -> str:
    from ..render.mermaid import mermaid_text

    graph = _one_graph(record, "a Mermaid text is one diagram", "pick one graph with --graph KEY")
    text = mermaid_text(graph)
    if text is None:
        why = "it is over Mermaid's limits, however much is folded"
        raise PeekError(
            f"graph {graph.key} is too large for Mermaid", why, "use --format svg or -o page.html"
        )
    return text


def tell_notes(notes: Iterable[str]) -> None:
    """Say what a renderer noted; it names the settings as Python does, here they are options."""
    for note in notes:
        tell(re.sub(r"\b(expand|depth)=", r"--\1 ", note).replace("full=True", "--full"))


def tell_problems(record: CaptureRecord) -> None:
    """Say what the capture lacks, beside an answer that does not hold it."""
    from ..render.text import problem_lines

    for line in problem_lines(record.problems):
        tell(line)


def tell(message: str) -> None:
    """Say something on stderr, control characters made visible: a file may have any name."""
    click.echo(f"peek: {visible(message)}", err=True)


def visible(text: str) -> str:
    """``text`` with everything that could steer a terminal, other than newlines, written as its escape."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def _with_newline(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def _write_binary(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_stdout(text: str) -> None:
    """Print text as it is; a character that the terminal's encoding lacks is written as its escape."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
