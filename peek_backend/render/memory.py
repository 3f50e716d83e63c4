"""Memory over time as text and plain data.

Comes in: a Timeline. Goes out: text, or dicts of numbers; the picture is ``memory_svg``'s.
"""

from __future__ import annotations

from typing import Any

from ..analysis.memory import Alive, Timeline
from .fitting import fitted
from .labels import bytes_text, node_target_text, place_text
from .memory_svg import memory_svg

__all__ = ["alive_table", "memory_data", "memory_svg", "memory_text"]

MOST_ALIVE = 12


def memory_text(memory: Timeline) -> str:
    """The peak, the node that reaches it, what it consists of, and the largest of what is alive then."""
    lines = [f"peak memory: {bytes_text(memory.peak)}{_where(memory)}"]
    kinds = ", ".join(f"{kind} {bytes_text(size)}" for kind, size in memory.by_kind().items())
    if kinds:
        lines.append(f"  {kinds}")
    if memory.unknown:
        lines.append(f"  not in it: {memory.unknown} storages whose size depends on data")
    if memory.buffered:
        named = ", ".join(memory.buffered[:_MOST_NAMED])
        more = f" and {len(memory.buffered) - _MOST_NAMED} more" if len(memory.buffered) > _MOST_NAMED else ""
        lines.append(f"  not in it: work buffers inside the kernels of {named}{more}")
    return "\n".join(lines)


_MOST_NAMED = 6


def _where(memory: Timeline) -> str:
    node = memory.peak_node
    if node is None or memory.at is None:
        return ""
    key = memory.graphs[memory.steps[memory.at].graph].key
    source = node.source
    place = f", {place_text(source.file, source.line)}" if source is not None and source.file else ""
    module = f", in {source.module}" if source is not None and source.module else ""
    return f" at {key}:{node.name} ({node_target_text(node)}{module}{place})"


def alive_table(
    memory: Timeline, format: str = "simple", *, most: int = MOST_ALIVE, columns: int | None = None
) -> str:
    """What is alive at the peak, most first: kind, bytes, share, storages, module and line."""
    rows = [_row(entry, memory.peak) for entry in memory.alive[:most]]
    rest = memory.alive[most:]
    if rest:
        size = sum(a.nbytes for a in rest)
        rows.append(
            [
                f"{len(rest)} more",
                bytes_text(size),
                _share(size, memory.peak),
                str(sum(a.blocks for a in rest)),
                "",
                "",
            ]
        )
    headers = ["alive at the peak", "bytes", "share", "storages", "module", "line"]
    return fitted(headers, rows, format, columns, drop=("storages",), shorten=("module", "line"))


def _row(entry: Alive, peak: int) -> list[str]:
    file, colon, line = entry.place.rpartition(":")
    place = place_text(file, int(line)) if colon and line.isdecimal() else entry.place
    return [
        entry.kind,
        bytes_text(entry.nbytes),
        _share(entry.nbytes, peak),
        str(entry.blocks) if entry.module or place else "",  # the model is there as one
        entry.module,
        place,
    ]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def memory_data(memory: Timeline) -> dict[str, Any]:
    """The peak, its node, its kinds, what is alive, and every step as [node, bytes during, bytes after] of its graph."""
    node = memory.peak_node
    steps: dict[str, list[list[Any]]] = {graph.key: [] for graph in memory.graphs}
    for step in memory.steps:
        graph = memory.graphs[step.graph]
        steps[graph.key].append([graph.nodes[step.node].name, step.during, step.after])
    return {
        "peak": memory.peak,
        "node": node.name if node is not None else None,
        "graph": memory.graphs[memory.steps[memory.at].graph].key if memory.at is not None else None,
        "kinds": memory.by_kind(),
        "alive": [
            {"kind": a.kind, "bytes": a.nbytes, "storages": a.blocks, "module": a.module, "line": a.place}
            for a in memory.alive
        ],
        "unknown": memory.unknown,
        "buffered": list(memory.buffered),
        "steps": steps,
    }
