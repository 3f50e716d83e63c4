"""What a capture ran on: versions, rank, and the torch settings that change graphs."""

from __future__ import annotations

import platform
import sys
from typing import Any

import torch
import torch._dynamo.config as dynamo_config

from .._version import __version__
from ..model import Environment
from . import compat

# Dynamo settings that decide which graphs come out; recorded only where they differ from torch's default.
_SETTINGS = (
    "assume_static_by_default",
    "automatic_dynamic_shapes",
    "capture_dynamic_output_shape_ops",
    "capture_scalar_outputs",
    "force_parameter_static_shapes",
    "recompile_limit",
    "accumulated_recompile_limit",
    "specialize_float",
    "specialize_int",
    "suppress_errors",
    "optimize_ddp",
)


def read_environment() -> Environment:
    """The environment as it is now. Reads no file, starts no process."""
    return Environment(
        peek=__version__,
        torch=str(torch.__version__),
        python=platform.python_version(),
        platform=f"{sys.platform}-{platform.machine()}",
        argv=tuple(sys.argv),
        rank=compat.rank(),
        world_size=compat.world_size(),
        settings=_changed_settings(),
    )


def _changed_settings() -> dict[str, str]:
    entries: dict[str, Any] = getattr(dynamo_config, "_config", {})
    settings = {}
    for name in _SETTINGS:
        entry = entries.get(name)
        if entry is None or getattr(entry, "deprecated", False):  # reading a deprecated one warns
            continue
        value = getattr(dynamo_config, name)
        if value != entry.default:
            settings[name] = str(value)
    return settings
