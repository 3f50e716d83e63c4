"""The entry point: ``torch.compile(f, backend="peek")``. Joins capture and render.

torch loads this module when the name is first used. It must not be registered with ``@register_backend`` as well: the
entry point already does that, and torch refuses a second registration.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from .errors import PeekError
from .model import GraphRecord, Problem
from .options import Options, resolve, variable_of
from .report import Report

_REPORT = Report()


def peek(
    gm: Any, example_inputs: Sequence[Any], *, options: dict[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """A Dynamo backend: shows the graph, then returns what the inner backend makes of it.

    ``options`` as in ``peek_backend.options``; ``mode`` goes to the inner backend. Raises PeekError for an unknown option
    or value before the inner backend is called, and with ``strict`` for what could not be read; the inner backend's own
    exceptions pass unchanged. Without ``inner`` the result is ``gm.forward``.
    """
    from .capture.inner import check_inner_options, hand_on

    settings, problems = resolve(options or {})
    settings, problems = _known_inner(settings, problems, given=(options or {}).get("inner") is not None)
    check_inner_options(settings.inner, mode, settings.inner_options)
    graph = _look(gm, example_inputs, settings, problems)
    with _stages(gm, example_inputs, graph, settings):
        return hand_on(gm, example_inputs, settings.inner, mode=mode, inner_options=settings.inner_options)


def _known_inner(
    settings: Options, problems: Sequence[Problem], *, given: bool
) -> tuple[Options, Sequence[Problem]]:
    """Raises PeekError for an inner backend that torch does not know; one that a variable names is told, and none is used."""
    from .capture.inner import check_inner

    try:
        check_inner(settings.inner)
    except PeekError as error:
        if given:
            raise
        told = Problem(
            variable_of("inner"), f"ignored: {error.problem}", "the graph runs as captured", error.fix
        )
        return replace(settings, inner=None), (*problems, told)
    return settings, problems


def _reset() -> None:
    _REPORT.reset()
    if (log := sys.modules.get(f"{__package__}.capture.stagelog")) is not None:
        log.close_logs()


peek.reset = _reset  # type: ignore[attr-defined]  # torch._dynamo.reset() calls it


@contextmanager
def _stages(
    gm: Any, example_inputs: Sequence[Any], graph: GraphRecord | None, settings: Options
) -> Iterator[None]:
    """Around the inner backend: reads and shows the later stages that the options name."""
    wanted = frozenset(settings.stages) - {"dynamo"}
    if graph is None or not wanted:
        yield
        return
    from .capture.stagereader import Wanted
    from .capture.stages import Request, requested

    shown = _ShownStages(settings)
    inner = settings.inner if isinstance(settings.inner, str) else getattr(settings.inner, "__name__", "")
    table = (settings.inner_options or {}).get("decompositions")
    request = Request(Wanted(wanted, inner), settings.stages_from, table, shown.show)
    with requested(gm, example_inputs, graph, request):
        yield
    shown.end()


class _ShownStages:
    """Shows the later stages of one backend call. With ``strict`` what went wrong is raised: once the inner backend is done, so
    that its own exceptions come first; or at once of a backward that compiles later."""

    def __init__(self, settings: Options):
        self._settings, self._ended = settings, False
        self._failure: Exception | None = None

    def show(self, call: int, slot: str, stage: GraphRecord) -> None:
        failure: Exception | None = None
        try:
            _REPORT.show_stage((call, slot), stage, self._settings)
        except Exception as error:  # strict, and a file could not be written; or a closed stream
            failure = error
        if stage.problems:
            failure = _refused(stage)
        self._failure = self._failure or failure
        if self._ended:
            self._raise()

    def end(self) -> None:
        self._ended = True
        self._raise()

    def _raise(self) -> None:
        failure, self._failure = self._failure, None
        if self._settings.strict and failure is not None:
            raise failure


def _refused(graph: GraphRecord) -> PeekError:
    """What ``strict`` raises for a graph that could not be read whole."""
    first = graph.problems[0]
    where = first.where if first.where.startswith(graph.key) else f"{graph.key}: {first.where}"
    return PeekError(f"{where}: {first.what}", first.why, "drop strict=True to run on with a note")


def _look(
    gm: Any, example_inputs: Sequence[Any], settings: Options, problems: Sequence[Any]
) -> GraphRecord | None:
    """Reads and shows the graph. With ``strict`` a failure raises; otherwise it is told and the program runs on."""
    try:
        from .capture.compat import current_output_graph
        from .capture.session import observe

        graph = observe(current_output_graph(), gm, example_inputs)
        _REPORT.show(graph, settings, problems)
    except Exception as error:
        if settings.strict:
            raise
        _tell(f"peek: the graph could not be shown: {type(error).__name__}: {error}", settings)
        return None
    if settings.strict and graph.problems:
        raise _refused(graph)
    return graph


def _tell(text: str, settings: Options) -> None:
    stream = settings.file if settings.file is not None else sys.stderr
    try:
        stream.write(text + "\n")
    except Exception:  # a closed stream must not end the user's program
        return
