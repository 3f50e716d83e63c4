"""Graphs that exist already: GraphModules of symbolic_trace and make_fx, ExportedPrograms, ``.pt2`` files."""

from __future__ import annotations

import os
from typing import Any

import torch
from msgspec.structs import replace
from torch import fx

from ..errors import PeekError
from ..model import SCHEMA_VERSION, CaptureRecord, Source
from .environment import read_environment
from .graphs import Origin, read_graph
from .sources import Described


def record_existing(graph: Any) -> CaptureRecord:
    """The record of a GraphModule or an ExportedProgram. Raises PeekError for another type."""
    if isinstance(graph, torch.export.ExportedProgram):
        read = read_graph(
            graph.graph_module,
            Origin(
                described=Described("exported program"),
                sources=_signature_sources(graph),
                skipped="/torch/nn/modules/",
            ),
        )
    elif isinstance(graph, fx.GraphModule):
        read = read_graph(graph, Origin(described=Described(type(graph).__name__)))
    else:
        raise PeekError(
            f"no graph in a {type(graph).__module__}.{type(graph).__qualname__}",
            "record() takes a torch.fx.GraphModule or a torch.export.ExportedProgram",
            "for a function or a module use peek_backend.inspect(fn, *args)",
        )
    return CaptureRecord(SCHEMA_VERSION, read_environment(), (read,))


def record_exported(path: str) -> CaptureRecord:
    """The record of a ``.pt2`` file. Raises PeekError when torch cannot load it."""
    if not os.path.isfile(path):
        raise PeekError(f"{path}: no such file", "", "write one with torch.export.save(program, path)")
    try:
        program = torch.export.load(path)
    except Exception as error:
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise PeekError(
            f"{path} is no exported program that torch {torch.__version__} can load",
            first[:300],
            "write it anew with torch.export.save(program, path)",
        ) from error
    read = record_existing(program)
    # The program that reads the file did not make the graph.
    return replace(read, environment=replace(read.environment, argv=(path,)))


def _signature_sources(program: Any) -> dict[str, Source]:
    """Placeholder name to source, from the export signature: parameters and buffers by FQN, arguments by name."""
    signature = program.graph_signature
    sources = {}
    for kind, names in (
        ("parameter", signature.inputs_to_parameters),
        ("buffer", signature.inputs_to_buffers),
        ("constant", signature.inputs_to_lifted_tensor_constants),
    ):
        for placeholder, path in names.items():
            sources[placeholder] = Source(module=path.rpartition(".")[0], input=path, input_kind=kind)
    for name in signature.user_inputs:
        if isinstance(name, str):
            sources[name] = Source(input=name, input_kind="argument")
    return sources
