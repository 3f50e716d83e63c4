"""The options of the backend: one table, read from Python arguments and from ``PEEK_…`` variables.

Comes in: a mapping of what the caller gave, and the environment. Goes out: an ``Options`` record, every
value checked, and a Problem for each variable that was not understood. Imports errors and model's Problem.

``resolve`` is the one door. An option that is given wins over its variable, which wins over the default; None
means "not given". What a person wrote in a call is refused at once with a PeekError; a variable may come from
a shell profile written long ago, so a bad one is told as a Problem and the default holds.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .errors import PeekError, nearest, unknown_name
from .model import Problem

PREFIX = "PEEK_"

TABLE_FORMATS = (
    "asciidoc", "colon_grid", "double_grid", "double_outline", "fancy_grid", "fancy_outline", "github",
    "grid", "heavy_grid", "heavy_outline", "html", "jira", "latex", "latex_booktabs", "latex_longtable",
    "latex_raw", "mediawiki", "mixed_grid", "mixed_outline", "moinmoin", "orgtbl", "outline", "pipe",
    "plain", "presto", "pretty", "psql", "rounded_grid", "rounded_outline", "rst", "simple",
    "simple_grid", "simple_outline", "textile", "tsv", "unsafehtml", "youtrack",
)  # fmt: skip
"""The formats of tabulate 0.10, spelled out as importing it costs 70 ms; a test compares the two."""

FORMATS = (*TABLE_FORMATS, "tree")

COLUMNS = (
    "index", "op", "name", "target", "args", "shape", "dtype", "device", "stride", "offset", "grad", "value",
    "type", "call", "module", "source", "code", "users", "bytes",
)  # fmt: skip
"""The columns that a table can show; a test compares them with the renderer's."""

SAVE_KINDS = {
    ".dot": "dot", ".gv": "dot", ".svg": "svg", ".png": "png", ".pdf": "pdf",
    ".json": "json", ".txt": "txt", ".md": "md", ".html": "html",
}  # fmt: skip
"""What ``save`` writes, by the file's suffix."""

COLORS = ("auto", "always", "never")

STAGES = ("dynamo", "joint", "forward", "backward", "inference", "post_grad", "kernels")
"""The stages of a compile, in their order; ``all`` stands for every one."""

STAGE_SOURCES = ("live", "log")

_MANY = 20  # a longer list is shown only where no name in it is close

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


@dataclass(frozen=True)
class SaveTarget:
    """Where to save: ``kind`` is ``folder``, or what the file ``path`` gets (a value of SAVE_KINDS)."""

    path: Path
    kind: str


@dataclass(frozen=True)
class Options:
    """The options of one backend, checked. See ``OPTIONS`` for what each means."""

    inner: str | Callable[..., Any] | None = None
    format: str = "simple"
    columns: tuple[str, ...] | None = None
    save: SaveTarget | None = None
    quiet: bool = False
    strict: bool = False
    color: str = "auto"
    stages: tuple[str, ...] = ("dynamo",)
    stages_from: str = "live"
    inner_options: Mapping[str, Any] | None = None
    file: Any = None


class BadValue(ValueError):
    """A value that an option cannot take: why, and what to write instead."""

    def __init__(self, why: str, fix: str):
        self.why, self.fix = why, fix
        super().__init__(why, fix)


@dataclass(frozen=True)
class Option:
    """One row of the table: ``parse`` turns what was given into the option's value or raises BadValue.

    ``variable`` is False for what a text cannot say (a stream).
    """

    name: str
    parse: Callable[[Any], Any]
    help: str
    variable: bool = True


def _one_of(kind: str, known: tuple[str, ...]) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        text = value.strip().lower() if isinstance(value, str) else None
        if text in known:
            return text
        raise _unknown(kind, value, known)

    return parse


def _unknown(kind: str, value: Any, known: tuple[str, ...]) -> BadValue:
    """The BadValue for something that is none of ``known``, with the nearest of them."""
    close = nearest(value.strip(), known) if isinstance(value, str) else None
    listed = "" if close and len(known) > _MANY else f"known: {', '.join(known)}"
    hint = f"did you mean {close!r}?" if close else ""
    return BadValue(f"{value!r} is no {kind}", f"{hint} {listed}".strip())


def _boolean(value: Any) -> bool:
    text = str(value).strip().lower()
    if isinstance(value, (bool, int, str)) and text in _TRUE + _FALSE:
        return text in _TRUE
    raise BadValue(f"{value!r} is neither yes nor no", "write one of 1, true, yes, on, 0, false, no, off")


def _color(value: Any) -> str:
    if isinstance(value, bool):
        return "always" if value else "never"
    return _one_of("colour setting", COLORS)(value)


def _inner(value: Any) -> str | Callable[..., Any]:
    """A callable or a name; whether torch knows the name is checked where torch is at hand."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    if callable(value):
        return value
    raise BadValue(
        f"{value!r} is neither a backend's name nor a callable",
        "write a registered backend ('inductor', 'eager') or a function of (gm, example_inputs)",
    )


def _columns(value: Any) -> tuple[str, ...]:
    """Comma text or a sequence of names, in the order to show them; each once."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        raise BadValue(
            f"{value!r} is no list of columns", "write 'index,op,target' or ['index', 'op', 'target']"
        )
    names = tuple(dict.fromkeys(n.strip().lower() for n in names if n.strip()))
    if not names:
        raise BadValue("no column is named", f"known: {', '.join(COLUMNS)}")
    for name in names:
        if name not in COLUMNS:
            raise _unknown("column", name, COLUMNS)
    return names


def parse_stages(value: Any) -> tuple[str, ...]:
    """Comma text or a sequence of stages, in the order of a compile; ``all`` is every one. Raises BadValue."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, (list, tuple, set, frozenset)) or not all(isinstance(n, str) for n in names):
        raise BadValue(f"{value!r} is no list of stages", "write 'dynamo,joint,forward' or 'all'")
    given = {n.strip().lower().replace("-", "_") for n in names if n.strip()}
    for name in sorted(given):
        if name not in (*STAGES, "all"):
            raise _unknown("stage", name, (*STAGES, "all"))
    if not given:
        raise BadValue("no stage is named", f"known: {', '.join(STAGES)}, all")
    return STAGES if "all" in given else tuple([s for s in STAGES if s in given])


def _inner_options(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise BadValue(
            f"{value!r} is no mapping of options",
            "write inner_options={'max_autotune': True}, as for the inner backend",
        )
    return dict(value)


def _save(value: Any) -> SaveTarget:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise BadValue(f"{value!r} is no path", "write a folder ('graphs/') or a file such as 'graph.svg'")
    text = os.fspath(value)
    if not isinstance(text, str) or "\0" in text:
        raise BadValue(f"{value!r} is no path", "write the path as text, without a NUL character")
    path = Path(text).expanduser()
    if text.endswith(("/", os.sep)) or not path.suffix or path.is_dir():
        return SaveTarget(path, "folder")
    kind = SAVE_KINDS.get(path.suffix.lower())
    if kind is None:
        bad = _unknown("file suffix that peek writes", path.suffix, tuple(SAVE_KINDS))
        raise BadValue(bad.why, f"{bad.fix}; end the path with / to mean a folder")
    return SaveTarget(path, kind)


def _file(value: Any) -> Any:
    """A text stream open for writing."""
    if isinstance(value, (str, os.PathLike)):
        raise BadValue("a path is no stream", "open the file and pass it, or name it with save=")
    if not callable(getattr(value, "write", None)) or isinstance(value, (io.RawIOBase, io.BufferedIOBase)):
        raise BadValue(
            f"{type(value).__name__} takes no text", "pass a stream such as sys.stdout or io.StringIO()"
        )
    if getattr(value, "closed", False):
        raise BadValue("the stream is closed", "pass one that stays open while the program runs")
    return value


OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("inner", _inner, "backend that runs the graph once peek has read it; without it, as captured"),
        Option("format", _one_of("format", FORMATS), "a tabulate format, or 'tree'"),
        Option(
            "columns", _columns, "columns of the table, in order; without it the usual ones, as many as fit"
        ),
        Option("save", _save, "folder or file to write; the suffix picks the kind"),
        Option("quiet", _boolean, "print nothing"),
        Option("strict", _boolean, "raise where peek cannot read something, instead of noting a problem"),
        Option("color", _color, "auto, always or never"),
        Option("stages", parse_stages, f"stages to show, of {', '.join(STAGES)}, or 'all'"),
        Option(
            "stages_from",
            _one_of("source of stages", STAGE_SOURCES),
            "'live' reads the graphs themselves and turns AOTAutograd's cache off; 'log' reads their text and keeps it",
        ),
        Option(
            "inner_options",
            _inner_options,
            "options of the inner backend itself; for Inductor also its mode",
            variable=False,
        ),
        Option("file", _file, "stream to print to; stderr without it", variable=False),
    )
}
"""The table of options. A new one needs a row here and a field of ``Options``."""

assert tuple(OPTIONS) == tuple(f.name for f in fields(Options))


def variable_of(name: str) -> str:
    """The environment variable of an option."""
    return PREFIX + name.upper()


def resolve(
    given: Mapping[str, Any], environ: Mapping[str, str] | None = None
) -> tuple[Options, tuple[Problem, ...]]:
    """The options in force, and a Problem for each ``PEEK_…`` variable that was not understood.

    Raises PeekError, naming the nearest right one, for an unknown option or a bad value in ``given``.
    """
    values, problems = _from_variables(os.environ if environ is None else environ)
    for name, value in given.items():
        if name not in OPTIONS:
            raise unknown_name("option", str(name), OPTIONS)
        if value is not None:
            values[name] = _parse_given(OPTIONS[name], value)
    return Options(**values), tuple(problems)


def _parse_given(option: Option, value: Any) -> Any:
    try:
        return option.parse(value)
    except BadValue as bad:
        raise PeekError(f"bad value for option {option.name!r}: {bad.why}", "", bad.fix) from None


def _from_variables(environ: Mapping[str, str]) -> tuple[dict[str, Any], list[Problem]]:
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for variable in sorted(v for v in environ if v.startswith(PREFIX) and environ[v].strip()):
        option = OPTIONS.get(variable[len(PREFIX) :].lower())
        if option is None or not option.variable or variable != variable_of(option.name):
            problems.append(_unknown_variable(variable))
            continue
        try:
            values[option.name] = option.parse(environ[variable])
        except BadValue as bad:
            problems.append(Problem(variable, f"ignored: {bad.why}", "the default holds", bad.fix))
    return values, problems


def _unknown_variable(variable: str) -> Problem:
    known = [variable_of(o.name) for o in OPTIONS.values() if o.variable]
    close = nearest(variable[len(PREFIX) :], [v[len(PREFIX) :] for v in known])
    if variable == variable_of("file"):
        return Problem(variable, "ignored: a variable cannot name a stream", "", "pass file= from Python")
    if variable == variable_of("inner_options"):
        fix = "pass options={'inner_options': {…}} from Python"
        return Problem(variable, "ignored: a variable cannot hold a mapping", "", fix)
    fix = f"did you mean {PREFIX}{close}? " if close else ""
    return Problem(variable, "ignored: no option has this name", "", f"{fix}known: {', '.join(known)}")


def wants_color(color: str, stream: Any, environ: Mapping[str, str] | None = None) -> bool:
    """Whether to colour what is written to ``stream``.

    ``auto`` means a terminal, unless NO_COLOR (https://no-color.org) or TERM=dumb forbids it; FORCE_COLOR
    asks for it anyway.
    """
    environ = os.environ if environ is None else environ
    if color != "auto":
        return color == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    isatty = getattr(stream, "isatty", None)
    return environ.get("TERM") != "dumb" and callable(isatty) and bool(isatty())
