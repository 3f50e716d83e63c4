"""What happened in a capture, counted: one definition for reports, command line and assertions."""

from __future__ import annotations

from msgspec import Struct

from ..model import BreakInfo, CaptureRecord, GraphRecord
from .totals import dynamic_symbols, inputs_of, is_op, with_children

CAPTURED = ("dynamo", "fx")
"""Stages that are captures of the user's program; the others are made from these."""


class Stats(Struct, frozen=True):
    """Counts of a capture; each is derived from the record by ``stats``.

    ``graphs``             graphs that Dynamo captured (the last attempt of each compile; no later stages)
    ``nodes``, ``ops``     their nodes, and those that compute, bodies of higher-order ops included
    ``inputs``             their placeholders; of these ``parameters`` and ``buffers``
    ``breaks``             every break event, whether it split a frame or made Dynamo skip it; one that fullgraph=True
                           makes an error is one too, as in torch's own log of breaks
    ``break_locations``    distinct (file:line, reason) among them
    ``requested_breaks``   breaks that the user asked for (``graph_break()``, ``torch.compiler.disable``)
    ``skipped``            frames left in eager by a break
    ``recompiles``         successful compiles of a code object after its first; ``resume_recompiles`` are
                           those among them of frames that continue another after a break
    ``given_up``           code objects refused by the recompile limit (the refused attempt is no recompile)
    ``failed``             frames that failed with an error after or during capture
    ``never_ran``          graphs that were captured but can never have run
    ``dynamic_dims``       distinct symbols that size an input, summed over the graphs
    ``problems``           things peek could not read, in later stages too
    """

    graphs: int = 0
    nodes: int = 0
    ops: int = 0
    inputs: int = 0
    parameters: int = 0
    buffers: int = 0
    breaks: int = 0
    break_locations: int = 0
    requested_breaks: int = 0
    frames: int = 0
    skipped: int = 0
    recompiles: int = 0
    resume_recompiles: int = 0
    given_up: int = 0
    failed: int = 0
    never_ran: int = 0
    dynamic_dims: int = 0
    problems: int = 0


def captured_graphs(record: CaptureRecord) -> list[GraphRecord]:
    """The graphs that count: captures of the program, of each compile the last attempt only.

    Dynamo may call the backend again within one compile (a restart); what the first call got never ran.
    """
    main = [g for g in record.graphs if g.stage in CAPTURED] or list(record.graphs)
    last: dict[tuple[int | None, str | None], int] = {}
    for graph in main:
        key = (graph.rank, graph.compile_id)
        last[key] = max(last.get(key, 0), graph.attempt)
    return [g for g in main if g.compile_id is None or g.attempt == last[g.rank, g.compile_id]]


def break_place(event: BreakInfo) -> str:
    """Full path and line of the innermost line that broke (``/src/model.py:12``); empty when unknown."""
    return f"{event.stack[-1].file}:{event.stack[-1].line}" if event.stack else ""


def _broken_frames(record: CaptureRecord) -> set[object]:
    """Frames that a break left in eager: by index, by place where the frame is not known.

    Under ``fullgraph=True`` the break is an error: that frame ran nowhere, and is among the failed ones.
    """
    events = [e for e in record.breaks if not e.split]
    frames = {e.frame if e.frame is not None else (break_place(e), e.reason) for e in events}
    return {f for f in frames if not (isinstance(f, int) and failed(record, f))}


def failed(record: CaptureRecord, index: int) -> bool:
    """Whether the frame of this index ended with an error, and ran nowhere."""
    return index < len(record.frames) and record.frames[index].outcome == "failed"


def _given_up(record: CaptureRecord) -> int:
    refused: set[object] = {i for i, frame in enumerate(record.frames) if frame.outcome == "limit"}
    refused |= {r.frame if r.frame is not None else r.compile_id for r in record.recompiles if r.refused}
    return len(refused)


def stats(record: CaptureRecord) -> Stats:
    """The counts of ``record``, per the definitions of ``Stats``."""
    graphs = captured_graphs(record)
    bodies = [body for graph in graphs for body in with_children(graph)]
    everything = [body for graph in record.graphs for body in with_children(graph)]
    recompiled = [r for r in record.recompiles if not r.refused]
    return Stats(
        graphs=len(graphs),
        nodes=sum(len(g.nodes) for g in bodies),
        ops=sum(is_op(n) for g in bodies for n in g.nodes),
        inputs=sum(1 for g in graphs for _ in inputs_of(g)),
        parameters=sum(1 for g in graphs for _ in inputs_of(g, "parameter")),
        buffers=sum(1 for g in graphs for _ in inputs_of(g, "buffer")),
        breaks=len(record.breaks),
        break_locations=len({(break_place(e), e.reason) for e in record.breaks}),
        requested_breaks=sum(e.intent == "user" for e in record.breaks),
        frames=len(record.frames),
        skipped=len(_broken_frames(record)),
        recompiles=len(recompiled),
        resume_recompiles=sum(r.resume for r in recompiled),
        given_up=_given_up(record),
        failed=sum(f.outcome == "failed" for f in record.frames),
        never_ran=sum(g.never_ran is not None for g in graphs),
        dynamic_dims=sum(len(dynamic_symbols(g)) for g in graphs),
        problems=len(record.problems) + sum(len(g.problems) for g in everything),
    )
