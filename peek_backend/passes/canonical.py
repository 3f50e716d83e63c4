"""A capture as a snapshot: what differs between equal programs is taken out or put into an order.

Comes in: a CaptureRecord. Goes out: a Snapshot. Symbols are renumbered in the order of the inputs that
carry them, resume functions by their place, labels within their module; inputs keep the names by which people know
them; paths become relative, addresses and node names in messages go. ``canonical_graph`` does a single graph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from ..model import (
    BreakInfo,
    CaptureRecord,
    Environment,
    FrameRecord,
    GraphRecord,
    RecompileInfo,
    iter_tensors,
)
from ..model import snapshot as m
from ..snapshot.graphfile_header import UNKNOWN
from .aliases import without_addresses, without_resume
from .canonical_graph import GraphBuilder, input_names

MAX_CODE = 120
"""Characters of a source line that are kept."""
MAX_REASON = 300
"""Characters of a reason that are kept."""
_IDENTITY = re.compile(r"\b\d{9,}\b")
_LIBRARY = re.compile(r".*?[/\\](?:site|dist)-packages[/\\]")
_STDLIB = re.compile(r".*?[/\\]lib[/\\]python3\.\d+[/\\]")


def canonicalise(
    record: CaptureRecord,
    *,
    name: str = "",
    root: str = "",
    stages: Sequence[str] = ("dynamo", "fx"),
    env: Mapping[str, str] | None = None,
) -> m.Snapshot:
    """The snapshot of a capture.

    ``name`` is the header's; files below the folder ``root`` keep their path from there; ``stages`` are those whose graphs are
    kept; ``env`` adds to the header (``dynamic=mark(x:0)``). Graphs of abandoned attempts and graphs that never ran are left out.
    """
    graphs = list(_final(record.graphs, stages))
    places = _Places(root)
    frames = _Frames(record.frames, graphs)
    home = _home(graphs)
    reasons = _because(record.recompiles, places)
    entries = {g.backend_call: input_names(g) for g in record.graphs if g.stage == "dynamo"}
    built = [
        GraphBuilder(
            graph,
            frames.of(graph),
            home,
            places.place,
            reasons.get(graph.compile_id or "", ""),
            entries.get(graph.backend_call, ()),
        ).build()
        for graph in graphs
    ]
    built = _told_apart(built)
    notes = [note for graph in built for note in _notes(graph)]
    return m.Snapshot(
        name,
        _env(record.environment, graphs, home, env or {}),
        tuple(dict.fromkeys(notes)),
        tuple(_entries(record, graphs, built, places)),
    )


def _told_apart(graphs: Iterable[m.Graph]) -> list[m.Graph]:
    """Graphs of one title (ranks that share a capture, several in one compile) with a count behind the frame."""
    counts: Counter = Counter()
    found = []
    for graph in graphs:
        key = (graph.frame, graph.resume, graph.variant, graph.stage, graph.call)
        counts[key] += 1
        again = counts[key]
        found.append(graph if again == 1 else replace(graph, frame=f"{graph.frame}#{again}"))
    return found


def _final(graphs: Sequence[GraphRecord], stages: Sequence[str]) -> Iterator[GraphRecord]:
    """Those graphs that ran: of each compile the last attempt."""
    last: dict[tuple, int] = {}
    for graph in graphs:
        key = (graph.compile_id, graph.stage, graph.rank)
        last[key] = max(last.get(key, 0), graph.attempt)
    for graph in graphs:
        final = graph.attempt == last[(graph.compile_id, graph.stage, graph.rank)]
        if graph.stage in stages and final and graph.never_ran is None:
            yield graph


def _home(graphs: Iterable[GraphRecord]) -> str:
    """The device of most inputs, which then goes without saying."""
    devices = Counter(
        t.device for g in graphs for n in g.nodes if n.op == "placeholder" for t in iter_tensors(n.value)
    )
    return devices.most_common(1)[0][0] if devices else "cpu"


def _env(
    environment: Environment, graphs: Sequence[GraphRecord], home: str, extra: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    versions = [("torch", _version(environment.torch)), ("py", _version(environment.python))]
    grad = {graph.state.get("grad", graph.state.get("grad_mode", "on")) for graph in graphs}
    state = [
        ("device", home),
        ("grad", "on" if grad <= {"on", "True", "true"} else "off" if len(grad) == 1 else "mixed"),
    ]
    return (*versions, *state, *sorted(extra.items()))


def _version(text: str) -> str:
    """The first two numbers of a version: ``2.13`` of ``2.13.0a0+git1234``."""
    found = re.match(r"\d{1,5}\.\d{1,5}", text)
    return found[0] if found else UNKNOWN


class _Places:
    """Users' lines without what differs between machines."""

    def __init__(self, root: str):
        self._root = root.replace("\\", "/").rstrip("/") + "/" if root else ""
        self._found: dict[tuple, m.Place] = {}

    def file(self, path: str) -> str:
        """``path`` from the root, from its library's folder, or its last part."""
        text = path.replace("\\", "/")
        if self._root and text.startswith(self._root):
            return text[len(self._root) :]
        for outside in (_LIBRARY, _STDLIB):
            found = outside.match(text)
            if found:
                return text[found.end() :]
        return text.rpartition("/")[2]

    def place(self, file: str, line: int, function: str, code: str) -> m.Place:
        key = (file, line, function, code)
        found = self._found.get(key)
        if found is None:
            text = _cut(" ".join(code.split()), MAX_CODE)
            found = self._found[key] = m.Place(self.file(file), without_resume(function), text, line, file)
        return found

    def message(self, text: str) -> str:
        """The first line of a reason, without addresses, identities and folders."""
        line = without_addresses(text.strip().split("\n")[0].strip())
        line = _IDENTITY.sub("…", line)
        line = re.sub(r"(?:[A-Za-z]:)?(?:[/\\][\w.@+-]+){2,}\.py", lambda found: self.file(found[0]), line)
        line = re.sub(r"(\.py\"?)(?::\d+|, line \d+)", r"\1", line)
        return _cut(" ".join(line.split()), MAX_REASON)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


class _Frames:
    """Names, resume ordinals and variants of the graphs of a capture."""

    def __init__(self, frames: Sequence[FrameRecord], graphs: Sequence[GraphRecord]):
        self._frames = frames
        self._names: dict[object, tuple[str, int]] = {}
        self._compiles: dict[object, list[str | None]] = {}
        taken: Counter = Counter()
        resumes: Counter = Counter()
        for graph in graphs:
            key = self._key(graph)
            compiles = self._compiles.setdefault(key, [])
            if graph.compile_id not in compiles:
                compiles.append(graph.compile_id)
            if key not in self._names:
                base, resume = self._named(graph, resumes)
                taken[base, resume] += 1
                again = taken[base, resume]
                self._names[key] = (base if again == 1 else f"{base}#{again}", resume)

    def _key(self, graph: GraphRecord) -> object:
        """What is one code object: its frame record, else the first half of the compile id."""
        if graph.frame is not None:
            return graph.frame
        return graph.compile_id.partition("/")[0] if graph.compile_id is not None else graph.name

    def _named(self, graph: GraphRecord, resumes: Counter) -> tuple[str, int]:
        if graph.frame is not None and 0 <= graph.frame < len(self._frames):
            frame = self._frames[graph.frame]
            return without_resume(frame.name.partition(" ▸ ")[0]), frame.resume
        base = without_resume(graph.name.partition(" ▸ ")[0])
        if base == graph.name:
            return base, 0
        resumes[base] += 1
        return base, resumes[base]

    def of(self, graph: GraphRecord) -> tuple[str, int, int]:
        """Name, resume ordinal and variant."""
        key = self._key(graph)
        return (*self._names[key], self._compiles[key].index(graph.compile_id) + 1)


def _because(recompiles: Sequence[RecompileInfo], places: _Places) -> dict[str, str]:
    """Why each compile id was compiled again: the guards that failed."""
    found = {}
    for recompile in recompiles:
        texts = [guard.text for guard in recompile.failed] or list(recompile.changed)
        found[recompile.compile_id] = "; ".join(dict.fromkeys(map(places.message, texts)))
    return found


def _entries(
    record: CaptureRecord, graphs: Sequence[GraphRecord], built: Sequence[m.Graph], places: _Places
) -> Iterator[m.Entry]:
    """Graphs, each with the breaks that ended it; then the breaks that ended none and the frames left in eager."""
    if not built:
        yield m.Skipped(
            "*", "NOTHING", places.message("; ".join(_excuses(record)) or "no graph was captured")
        )
    skipped = [f for f in record.frames if f.outcome in _STATES]
    left = [b for b in record.breaks if b.split or not _covered(b, record.frames)]
    for graph, result in zip(graphs, built, strict=True):
        yield result
        if graph.stage in ("dynamo", "fx"):
            mine = [b for b in left if b.compile_id is not None and b.compile_id == graph.compile_id]
            yield from [_break(b, places) for b in mine]
            left = [b for b in left if b not in mine]
    yield from [_break(b, places) for b in left]
    for frame in skipped:
        place = places.place(frame.file, frame.line, frame.function, "") if frame.file else None
        yield m.Skipped(
            without_resume(frame.name), _STATES[frame.outcome], places.message(frame.reason), place
        )


_STATES = {"skipped": "SKIPPED", "limit": "LIMIT", "failed": "FAILED"}


def _covered(info: BreakInfo, frames: Sequence[FrameRecord]) -> bool:
    """Whether the frame's own entry tells of this break already."""
    return info.frame is not None and 0 <= info.frame < len(frames) and frames[info.frame].outcome in _STATES


def _excuses(record: CaptureRecord) -> Iterator[str]:
    """Why there is no graph, each once: a note tells of a frame with the first sentence of its reason."""
    yield from [g.never_ran for g in record.graphs if g.never_ran]
    yield from [p.what for p in record.problems]
    yield from record.notes
    for frame in record.frames:
        reason = frame.reason or frame.outcome
        head, tail = f": {frame.name} (", reason.partition(". ")[0]
        told = any(head in note and note.endswith(tail) for note in record.notes)
        if frame.outcome != "compiled" and not told:
            yield f"{frame.name}: {reason}"


def _break(info: BreakInfo, places: _Places) -> m.Break:
    place = m.Place()
    if info.stack:
        top = info.stack[-1]
        place = places.place(top.file, top.line, top.function, top.code)
    return m.Break((info.id or "").lower(), place, places.message(info.reason))


def _notes(graph: m.Graph) -> Iterator[str]:
    """Warnings of torch's habits: equal sizes become one symbol, sizes 0 and 1 are fixed."""
    for symbol in graph.symbols:
        if len(symbol.sources) > 1:
            yield f"{', '.join(symbol.sources)} were equal while tracing, so they are one symbol"
    if not any(symbol.type == "int" for symbol in graph.symbols):
        return
    for entry in graph.inputs:
        if isinstance(entry.type, m.TensorType) and not entry.type.grad and _is_argument(entry, graph):
            for dim, size in enumerate(entry.type.shape):
                if size in (0, 1):
                    yield f"{entry.name}.shape[{dim}] was {size} while tracing, so it is fixed"


def _is_argument(entry: m.Input, graph: m.Graph) -> bool:
    """Whether an input has a dynamic size: then a fixed one beside it may surprise."""
    return any(source.startswith(f"{entry.name}.") for symbol in graph.symbols for source in symbol.sources)
