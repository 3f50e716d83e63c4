"""The root of a file: everything one process captured."""

from __future__ import annotations

from msgspec import Struct

from .cost import DryRun
from .events import BreakInfo, EarlierFrame, FrameRecord, Problem, RecompileInfo
from .graph import GraphRecord

SCHEMA_VERSION = 1
"""Raised when a reader of the old version could misread a new file; a new optional field does not raise it."""

NOTHING_CAPTURED = "nothing was captured: "
"""How each note begins that says why there is no graph."""
NOT_CALLED = "no compiled function was called"
"""The reason where nothing else is known."""


class Environment(Struct, frozen=True, omit_defaults=True):
    """What the capture ran on. ``settings`` are the torch settings that change graphs, ``sources`` where each fact came from."""

    peek: str = ""
    torch: str = ""
    python: str = ""
    platform: str = ""
    argv: tuple[str, ...] = ()
    rank: int | None = None
    world_size: int | None = None
    settings: dict[str, str] = {}
    sources: dict[str, str] = {}


class CaptureRecord(Struct, frozen=True, omit_defaults=True):
    """All that was captured, in order."""

    schema_version: int
    environment: Environment
    graphs: tuple[GraphRecord, ...]
    frames: tuple[FrameRecord, ...] = ()
    breaks: tuple[BreakInfo, ...] = ()
    recompiles: tuple[RecompileInfo, ...] = ()
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    # Functions that were compiled before the capture began.
    earlier: tuple[EarlierFrame, ...] = ()
    # What a dry run was about; None for everything that ran.
    dryrun: DryRun | None = None
