"""peek: see what ``torch.compile`` did with your model.

``torch.compile(f, backend="peek")`` needs no import. From Python: ``session()``, ``inspect(fn, *args)``, ``record(gm)``,
``load(path)``. Importing the package loads nothing else; each name is loaded at its first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .api import Record, dryrun, inspect, load, record, session
    from .backend import peek
    from .errors import PeekError

_HOMES = {
    "Record": "api",
    "dryrun": "api",
    "inspect": "api",
    "load": "api",
    "record": "api",
    "session": "api",
    "peek": "backend",
    "PeekError": "errors",
}

__all__ = ["PeekError", "Record", "__version__", "dryrun", "inspect", "load", "peek", "record", "session"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
