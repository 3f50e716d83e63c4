"""What the package offers in Python; ``peek_backend`` loads it when a name of it is first used."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .errors import PeekError
from .export import Drawing, Written, draw, heats, kind_of, write
from .model import SCHEMA_VERSION, CaptureRecord, Environment, GraphRecord

if TYPE_CHECKING:
    from .analysis.autograd import AutogradView
    from .analysis.provenance import Trace as _Trace
    from .analysis.stats import Stats
    from .capture.session import Session
    from .render.priced import Cost


class Record(CaptureRecord, frozen=True, omit_defaults=True):
    """A CaptureRecord with everything that can be made of it. The fields are those of CaptureRecord."""

    def __repr__(self) -> str:
        """The counts: the fields of a real model are a megabyte of text, which a prompt would print."""
        from .render.text import totals_text

        return f"<Record: {totals_text(self.stats)}>"

    @property
    def stats(self) -> Stats:
        """Counts, all derived: ``.graphs``, ``.nodes``, ``.breaks``, ``.recompiles``, …"""
        from .analysis.stats import stats

        return stats(self)

    def graph(self, key: str | int = 0) -> GraphRecord:
        """The graph with a key (``"0/0"``) or at a position. Raises PeekError naming those there are."""
        keys = [g.key for g in self.graphs]
        if isinstance(key, int) and -len(keys) <= key < len(keys):
            return self.graphs[key]
        if key in keys:
            return self.graphs[keys.index(str(key))]
        raise PeekError(f"no graph {key!r} in this capture", "", f"there are: {', '.join(keys) or 'none'}")

    def table(
        self,
        format: str = "simple",
        columns: Sequence[str] | str | None = None,
        *,
        width: int | None = None,
        graph: str | None = None,
    ) -> str:
        """The tables of all graphs, or of one, as text; ``width`` cuts wide cells, None cuts nothing.

        ``format`` is any of tabulate's, or ``tree``. Raises PeekError for an unknown format, column or graph.
        """
        from .options import resolve
        from .render.text import render_text

        given = {k: v for k, v in {"format": format, "columns": columns}.items() if v is not None}
        options, _ = resolve(given, environ={})
        layout = {"format": options.format, "columns": options.columns, "width": width}
        return render_text(self, graph=graph, all_rows=True, **layout).rstrip("\n")

    def trace(self, what: str) -> Trace:
        """What led to a node and what became of it, over all stages: ``"mm_3"``, ``"0/0 joint:mm_3"`` or ``"model.py:31"``.

        ``str()`` of the result is a table. Raises PeekError naming the nearest node, graph or line.
        """
        from .analysis.provenance import Provenance

        links = Provenance(self)
        return Trace(links.trace(links.find(what)), links.graphs)

    @property
    def cost(self) -> Cost:
        """FLOPs, bytes, parameters and memory: ``.flops``, ``.bytes``, ``.parameters``, ``.peak_memory``, ``.at(s0=8)``.

        Of a dry run, or of ``inspect(…, cost=True)``; what is asked of another record raises PeekError.
        """
        from .render.priced import Cost

        return Cost(self)

    @property
    def autograd(self) -> list[AutogradView]:
        """What each forward saves for its backward, and whose gradient is whose; one for each pair of graphs."""
        from .analysis.autograd import autograd_views

        return autograd_views(self)

    def side_by_side(self, left: str | int, right: str | int, format: str = "simple") -> str:
        """Two graphs of the capture in one table, each node beside what it came from."""
        from .render.stages import side_by_side

        return side_by_side(self, self.graph(left), self.graph(right), format)

    def dot(
        self,
        graph: str | int = 0,
        *,
        depth: int | None = None,
        expand: Sequence[str] | str = (),
        full: bool = False,
        heat: str | None = None,
    ) -> str:
        """One graph as DOT text; ``depth``, ``expand`` and ``full`` choose how much of the module tree is unfolded.

        ``heat`` colours boxes by their ``flops``, ``bytes`` or ``memory`` instead of their kind of op.
        """
        drawing, found = _drawing(depth, expand, full, heat), self.graph(graph)
        hot = next(h for g, h in zip(self.graphs, heats(self, drawing), strict=True) if g is found)
        return draw(found, "dot", drawing, hot)[0].decode()

    def render(
        self,
        path: str | os.PathLike[str],
        *,
        depth: int | None = None,
        expand: Sequence[str] | str = (),
        full: bool = False,
        heat: str | None = None,
    ) -> Written:
        """Draw to ``path`` (.svg, .png, .pdf, .dot), as `dot` does; further graphs go beside it.

        Returns the paths and the renderer's notes.
        """
        return write(self, os.fspath(path), drawing=_drawing(depth, expand, full, heat))

    def save(self, path: str | os.PathLike[str]) -> Written:
        """Write to ``path``; the suffix picks the kind: .json, .txt, .md, .html, .dot, .svg, .png, .pdf."""
        return write(self, os.fspath(path), kind=kind_of(os.fspath(path)))

    def html(self, path: str | os.PathLike[str]) -> Written:
        """Write the page: one offline file."""
        return write(self, os.fspath(path), kind="html")

    def explain(self, topic: str | None = None, *, width: int | None = None, details: bool = False) -> str:
        """What happened and what to mend, or all about one topic: a break, a frame, a compile id, a symbol or size.

        ``r.explain("x.shape[1]")`` says why that size is static. Raises PeekError for what the capture does not have.
        """
        from .render.explain import explain_text

        return explain_text(self, topic, width=width, details=details)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook shows: the page in a sandboxed frame, a folded picture, a text tree."""
        from .notebook import bundle

        return bundle(self)

    def to_json(self) -> bytes:
        """The capture as JSON, as ``save`` writes it and ``load`` reads it."""
        from .snapshot import jsonfile

        return jsonfile.encode(self)


class Trace:
    """The trail of some nodes: ``came_from``, ``nodes``, ``became``, each a tuple of steps (graph key, stage, node, note).

    ``twins`` are the nodes of a forward that its backward computes again or is handed, and those of the backward that do it.
    """

    def __init__(self, found: _Trace, graphs: dict[str, GraphRecord]):
        self.nodes, self.came_from, self.became = found.nodes, found.came_from, found.became
        self.twins = found.twins
        self._found, self._graphs = found, graphs

    def __str__(self) -> str:
        from .render.stages import trace_text

        return trace_text(self._found, self._graphs)


def _drawing(depth: Any, expand: Sequence[str] | str, full: bool, heat: str | None) -> Drawing:
    """``expand`` may be one module or several. Raises PeekError for a depth that is no count."""
    if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 0):
        raise PeekError(
            f"depth={depth!r} is no number of levels", "", "write depth=0, 1, 2, … or leave it out"
        )
    return Drawing(depth, (expand,) if isinstance(expand, str) else tuple(expand), bool(full), heat)


def as_record(record: CaptureRecord) -> Record:
    """``record`` with the methods of Record."""
    return Record(**{name: getattr(record, name) for name in CaptureRecord.__struct_fields__})


class session:
    """Collects every graph that the block compiles, whatever the backend, in all threads; prints nothing.

    ``.record`` is what was captured so far, also after the block. ``stages`` and ``stages_from`` are those of the backend's
    options. ``count_calls`` counts how often each variant compiled in the block is called; ``trace`` reads torch's structured
    trace as a second witness, for 4 to 5 % of the compile. Raises PeekError for an unknown stage.
    """

    def __init__(
        self,
        *,
        stages: Sequence[str] | str = ("dynamo",),
        stages_from: str = "live",
        count_calls: bool = False,
        trace: bool = False,
    ) -> None:
        from .options import resolve

        options, _ = resolve({"stages": stages, "stages_from": stages_from}, environ={})
        self._stages, self._stages_from = options.stages, options.stages_from
        self._watching = {"count_calls": count_calls, "trace": trace}
        self._session: Session | None = None

    def __enter__(self) -> session:
        from .capture.session import Session

        self._session = Session(stages=self._stages, stages_from=self._stages_from, **self._watching)
        self._session.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        assert self._session is not None
        self._session.__exit__(*exc)

    @property
    def record(self) -> Record:
        if self._session is None:
            return Record(SCHEMA_VERSION, Environment(), ())
        return as_record(self._session.record)


def inspect(
    fn: Callable[..., Any],
    *args: Any,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    inner: str | Callable[..., Any] | None = None,
    stages: Sequence[str] | str = ("dynamo",),
    cost: bool = False,
    **kwargs: Any,
) -> Record:
    """Compile ``fn`` afresh, call it once with the arguments, and return what was captured.

    Leaves no trace: compiled variants, dynamism, buffers, inputs, ``.grad`` and RNG are as before, for ``fn`` and all it calls.
    ``inner`` runs the graphs (default: as captured). ``stages`` names what to record (``joint``, ``forward``, …, ``all``),
    ``cost`` prices each node (``.cost``). The call's own exception passes through, with ``.peek_record`` holding what was
    captured until then. Raises PeekError for an unknown ``inner``.
    """
    from .capture.inspection import inspect_call

    with _partial_told():
        how = {"dynamic": dynamic, "fullgraph": fullgraph, "inner": inner, "stages": _stages(stages)}
        if cost:
            from .capture.cost import pricing

            with pricing():
                return as_record(inspect_call(fn, args, kwargs, **how))
        return as_record(inspect_call(fn, args, kwargs, **how))


@contextlib.contextmanager
def _partial_told() -> Iterator[None]:
    """What an exception, or Ctrl-C, leaves of a capture goes out as a Record, which has methods."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        if (partial := getattr(error, "peek_record", None)) is not None:
            error.peek_record = as_record(partial)  # type: ignore[attr-defined]
        raise


def dryrun(  # noqa: PLR0913  # each is a keyword that a person writes, none a flag that steers another
    target: Any,
    *inputs: Any,
    device: str = "cuda",
    dynamic: bool | None = None,
    train: bool = False,
    optimizer: str = "adamw",
    stages: Sequence[str] | str | None = None,
    fullgraph: bool = False,
    unbacked: bool = False,
    eval_mode: bool = False,
    hints: Mapping[str, Any] | None = None,
    keywords: Mapping[str, Any] | None = None,
    make_inputs: Callable[[], Any] | None = None,
) -> Record:
    """Trace and price a model on ``device``, which need not be there, without memory or data: no kernel runs.

    ``target`` is a module, a function, or what makes a module without arguments (a class, a factory), built with every
    tensor on the meta device. ``inputs`` and ``keywords`` are example tensors, of which only the metadata count, specs
    (``"i64[batch=8, 4096]"``) or plain values; ``make_inputs()`` may give them instead, as a tuple or a dict.

    ``train`` traces forward and backward, for the state that ``optimizer`` keeps (adamw, adam, momentum, sgd, none).
    ``unbacked`` makes symbols of numbers read from data, ``eval_mode`` leaves dropout and layer drop out of a training step.
    ``hints`` says what such a number is to be taken for, by line or symbol: ``{"model.py:120": 8, "u0": 16}``, or several
    in turn, ``{"model.py:131": range(8)}``.
    The result's ``cost`` has FLOPs, bytes, parameters and memory. Raises PeekError for what needs data, with
    ``.peek_record`` of what was captured.
    """
    from .capture.dryrun import Asked, dry_run

    wanted = () if stages is None else _stages(stages)
    asked = Asked(device, train, optimizer, dynamic, fullgraph, wanted, unbacked, eval_mode, hints or {})
    args, kwargs = _specs(list(inputs)), _specs(dict(keywords or {}))
    with _partial_told():
        return as_record(dry_run(target, args, kwargs, asked, inputs=make_inputs))


_SPEC = re.compile(r"\w+\s*\[")


def _specs(value: Any) -> Any:
    """``value`` with each text that describes a tensor (``"f32[8, 16]"``) parsed."""
    if isinstance(value, str) and _SPEC.match(value):
        from .specs import parse_input

        return parse_input(value)
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_specs(item) for item in value)
    if type(value) is dict:
        return {key: _specs(item) for key, item in value.items()}
    return value


def _stages(given: Sequence[str] | str) -> tuple[str, ...]:
    from .options import resolve

    return resolve({"stages": given}, environ={})[0].stages


def record(graph: Any) -> Record:
    """The record of a graph that exists already: a GraphModule (symbolic_trace, make_fx) or an ExportedProgram.

    Values come from ``example_value``, ``val`` or ``tensor_meta``, whichever a node has. Raises PeekError for another type.
    """
    from .capture.exported import record_existing

    return as_record(record_existing(graph))


def load(path: str | os.PathLike[str]) -> Record:
    """A saved capture: JSON, a journal of ``peek run``, or a ``.pt2`` file. Raises PeekError for what is none of these."""
    if os.fspath(path).endswith(".pt2"):
        from .capture.exported import record_exported

        return as_record(record_exported(os.fspath(path)))
    from . import snapshot

    return as_record(snapshot.read(path))


__all__ = ["Record", "as_record", "dryrun", "inspect", "load", "record", "session"]
