"""Stages as text: two side by side, the trail of a node, what is saved for the backward, in-place ops made functional.

Comes in: what ``analysis`` works out. Goes out: text for a terminal or a file; nothing is escaped but control characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..analysis.autograd import AutogradView, Saved, Tangent, saved_nodes
from ..analysis.functional import InPlaceOp
from ..analysis.provenance import Place, Provenance, Step, Trace
from ..analysis.totals import hints, nbytes_at
from ..model import CaptureRecord, GraphRecord, NodeRecord, Source, StageInfo
from .escape import cut
from .fit import NEVER
from .fitting import table, wrapped
from .labels import bytes_text, call_text, graph_keys, node_target_text, place_text, plural, value_text

MOST_NAMES = 6
"""Nodes that one cell names; the rest is counted."""


def place_of(source: Source | None) -> str:
    """``model.py:31``, or an input's name."""
    if source is None:
        return ""
    return source.input or place_text(source.file, source.line)


def outcome_line(graph: GraphRecord) -> str:
    """What became of a graph's compile (``0/0 forward: compiled by inductor; FX graph cache: hit``), or nothing."""
    info = graph.lowering
    if info is None or info.compiled is None:
        return ""
    if not info.compiled:
        return f"{graph.key}: not compiled yet: backward() has not run"
    if graph.stage in _TOLD_BY_THEIR_HALF:
        return ""
    first = f"{graph.key}: compiled by {info.by}" if info.by else f"{graph.key}: compiled"
    return "; ".join((first, *_facts(info)))


_TOLD_BY_THEIR_HALF = ("joint", "post_grad", "kernels")
"""Stages whose compile is that of a forward, backward or inference graph, which says how it went."""


def _facts(info: StageInfo) -> Iterator[str]:
    """What each cache said of a compile, and why CUDA graphs were left out."""
    for cache in info.caches:
        why = f" ({cache.reason})" if cache.reason else ""
        yield f"{cache.cache} cache: {cache.outcome}{why}"
    for skip in info.cudagraphs:
        where = f" at {place_text(skip.user.file, skip.user.line)}: {skip.user.code}" if skip.user else ""
        yield f"no CUDA graphs: {skip.reason}{where}"


def outcome_lines(record: CaptureRecord) -> Iterator[str]:
    """How the compiles of a whole capture went: each fact once, with the graphs that it holds for."""
    told: dict[str, list[str]] = {}
    for key, graph in zip(graph_keys(record.graphs), record.graphs, strict=True):
        if graph.lowering is not None and graph.stage not in _TOLD_BY_THEIR_HALF:
            for fact in _outcome(graph.lowering):
                told.setdefault(fact, []).append(key)
    return (f"{fact}: {_some(keys)}" for fact, keys in told.items())


def _outcome(info: StageInfo) -> Iterator[str]:
    if info.compiled is None and info.by:
        yield info.by
    elif info.compiled is False:
        yield "not compiled yet, as backward() has not run"
    yield from _facts(info)


def stage_lines(graph: GraphRecord) -> Iterator[str]:
    """What stands below the table of a later stage: who made it, what it saves, how its compile went."""
    info = graph.lowering
    if info is None:
        return
    if info.by and info.compiled is None and graph.stage != "joint":
        yield f"{graph.key}: {info.by}"
    if graph.stage == "forward" and (saved := saved_nodes(graph)):
        sizes = hints(graph)
        total = sum(nbytes_at(n.value, sizes) or 0 for n in saved)
        yield f"{graph.key}: saves {plural(len(saved), 'value')} for the backward, {bytes_text(total)}"
    if line := outcome_line(graph):
        yield line


def trace_text(
    trace: Trace, graphs: dict[str, GraphRecord], format: str = "simple", width: int | None = None
) -> str:
    """A trail as a table, a row a node, in the order of stages; ``*`` marks what was asked for.

    ``width`` cuts cells to a terminal's columns.
    """
    asked = {(s.graph, s.node.index) for s in trace.nodes}
    rows, last = [], ""
    for step in trace.steps:
        graph = graphs[step.graph]
        mark = "*" if (step.graph, step.node.index) in asked else ""
        rows.append([step.graph if step.graph != last else "", mark, *_step_cells(step, graph)])
        last = step.graph
    headers = ("graph", "", "node", "op", "type", "line", "note")
    floors = (NEVER, NEVER, 13, 12, 7, 9, NEVER)  # at 80 columns a post-grad stage's name is whole
    below: list[str] = []
    if width is not None:
        rows, below = _with_footnotes(rows, width)
    if width is not None and not below:  # the head of an empty column takes room
        headers, rows = headers[:-1], [row[:-1] for row in rows]
    text = table(headers, rows, format, columns=width, floors=floors)
    code = (line if width is None else cut(line, width) for line in _code_lines(trace))
    return "\n".join((*code, text, *below))


def _with_footnotes(rows: Sequence[Sequence[str]], width: int) -> tuple[list[list[str]], list[str]]:
    """The rows with a number for each note, their last cell, and the notes below the table: a column would cut them."""
    notes = {note: f"[{i}]" for i, note in enumerate(dict.fromkeys(r[-1] for r in rows if r[-1]), 1)}
    lines = [wrapped(f"{number} {note}", width) for note, number in notes.items()]
    return [[*row[:-1], notes.get(row[-1], "")] for row in rows], ["", *lines] if lines else []


def _step_cells(step: Step, graph: GraphRecord) -> list[str]:
    node = step.node
    return [
        node.name, _op(node, graph.stage), value_text(node.value), place_of(node.source), _note(step),
    ]  # fmt: skip


def _op(node: NodeRecord, stage: str) -> str:
    """What a node calls; of a backward's inputs those that the forward saved are told from the program's own."""
    if node.op != "placeholder":
        text = node_target_text(node)
        return "kernel" if stage == "kernels" and text == node.name else text
    return (
        "input"
        if node.source is not None and node.source.input
        else "tangent"
        if "tangent" in node.name
        else "saved value"
    )


def _note(step: Step) -> str:
    return "; ".join(note for note in (step.note, step.node.no_origin) if note)


def _code_lines(trace: Trace) -> Iterator[str]:
    """The user's lines that the trail starts from, each once, with their code."""
    seen = {}
    for step in trace.steps:
        source = step.node.source
        if source is not None and source.line and source.code:
            seen.setdefault((source.file, source.line), source)
    for source in list(seen.values())[:MOST_NAMES]:
        yield f"{place_text(source.file, source.line)}  {source.code}"
    if seen:
        yield ""


def side_by_side(
    record: CaptureRecord,
    left: GraphRecord,
    right: GraphRecord,
    format: str = "simple",
    width: int | None = None,
) -> str:
    """Two graphs in one table, aligned by provenance: beside each node of ``left`` what it became in ``right``.

    A node of ``right`` stands in the row of its first origin. A backward does not come from its forward: what it takes or
    computes again stands beside the node of that name, the rest beside the first with the nearest common origin. What has
    neither has a row of its own.
    """
    links = Provenance(record)
    places = {n.index: (right.key, n.index) for n in right.nodes}
    found = {i: sorted(n for _, n in links.nearest(p, {left.key})) for i, p in places.items()}
    if not any(found.values()):
        same = {n.name: [n.index] for n in left.nodes} if right.stage == "backward" else {}
        found = {
            i: same.get(right.nodes[i].name) or _kin(links, place, left.key) for i, place in places.items()
        }
    rows: list[list[str]] = []
    by_left: dict[int, list[int]] = {}
    alone: dict[int, list[int]] = {}
    last = -1
    for node in right.nodes:
        if origins := found[node.index]:
            last = min(origins)
            by_left.setdefault(last, []).append(node.index)
        else:
            alone.setdefault(last, []).append(node.index)
    rows += [["", "", *_right_cells(right, i, ())] for i in alone.get(-1, ())]
    for node in left.nodes:
        became = by_left.get(node.index, [])
        first = [_call(left, node), place_of(node.source)]
        cells = [_right_cells(right, i, found[i]) for i in became] or [["", ""]]
        rows += [[*(first if at == 0 else ["", ""]), *cell] for at, cell in enumerate(cells)]
        rows += [["", "", *_right_cells(right, i, ())] for i in alone.get(node.index, ())]
    headers = (left.key if left.stage != "dynamo" else f"{left.key} dynamo", "line", right.key, "also from")
    return table(headers, rows, format, columns=width, floors=(27, 10, 27, 8))


def _kin(links: Provenance, place: Place, key: str) -> list[int]:
    """The first node of graph ``key`` that came from the nearest origin of a node which has any there."""
    level, seen = [place], {place}
    while level:
        found = [i for origin in level for graph, i in links.became(origin) if graph == key]
        if found:
            return [min(found)]
        level = [o for p in level for o in links.origins(p) if o not in seen]
        seen.update(level)
    return []


def _right_cells(graph: GraphRecord, index: int, origins: Sequence[int]) -> list[str]:
    node = graph.nodes[index]
    also = ", ".join(map(str, origins[1 : 1 + MOST_NAMES])) if len(origins) > 1 else ""
    if len(origins) > 1 + MOST_NAMES:
        also += f", … {len(origins) - 1 - MOST_NAMES} more"
    return [_call(graph, node), f"#{also}" if also else (node.no_origin or "" if not origins else "")]


def _call(graph: GraphRecord, node: NodeRecord) -> str:
    text = value_text(node.value)
    return f"{node.index} {node.name}: {node_target_text(node)}" + (f"  {text}" if text else "")


def autograd_text(view: AutogradView, format: str = "simple", width: int | None = None) -> str:
    """Everything that passes between a forward and its backward, in tables."""
    parts = [_saved_text(view, format, width)]
    if view.recomputed:
        names = [n.name for n in view.recomputed]
        again = f"computed again in the backward, not saved ({len(names)}): {_some(names)}"
        parts.append(wrapped(again, width))
    gradients = [
        [g.input, g.node.name if g.node else "None", value_text(g.node.value) if g.node else ""]
        for g in view.gradients
    ]
    parts.append(
        table(("gradient of", "node", "type"), gradients, format, columns=width, floors=(30, 14, 16))
    )
    tangents = [
        [
            t.node.name,
            _arrives_for(t),
            value_text(t.node.value),
        ]
        for t in view.tangents
    ]
    parts.append(
        table(("tangent", "arrives for", "type"), tangents, format, columns=width, floors=(14, 24, 16))
    )
    parts += [wrapped(line, width) for line in _mutation_lines(view)]
    return "\n\n".join(parts)


def _arrives_for(tangent: Tangent) -> str:
    if not tangent.known:
        return "torch's log does not say"
    return "a mutated input or a base" if tangent.output is None else f"output {tangent.output}"


def _saved_text(view: AutogradView, format: str, width: int | None) -> str:
    rows = [_saved_row(s) for s in view.saved]
    total = (
        f"{view.forward.key} saves {plural(len(view.saved), 'value')} for the backward: {view.nbytes:,} B, "
        f"{_round(view.nbytes)}of which inputs {view.nbytes - view.new_bytes:,} B"
    )
    headers = ("saved", "type", "bytes", "made at", "read by")
    return f"{wrapped(total, width)}\n\n{table(headers, rows, format, columns=width, floors=(18, 14, NEVER, 14, 14))}"


def _round(count: int) -> str:
    """A large number of bytes once more, in a unit that reads at a glance."""
    return f"{bytes_text(count)}, " if count >= 1024 else ""


def _saved_row(saved: Saved) -> list[str]:
    size = "" if saved.nbytes is None else f"{saved.nbytes:,}"
    readers = [f"{n.name} ({node_target_text(n)})" for n in saved.readers]
    name = f"{saved.name} (input)" if saved.is_input else saved.name
    return [name, value_text(saved.value), size, place_of(saved.source), _some(readers)]


def _some(names: Sequence[str]) -> str:
    more = f", … {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _mutation_lines(view: AutogradView) -> Iterator[str]:
    names = view.inputs
    for m in view.mutated:
        what = " and ".join(w for w, on in (("data", m.data), ("metadata", m.metadata)) if on)
        name = names[m.input] if m.input < len(names) else f"input {m.input}"
        yield f"input {name} is changed in place ({what}): {m.how}" + (
            f", from output {m.output}" if m.output is not None else ""
        )
    for a in view.aliased:
        what = f" ({names[a.input]})" if a.input is not None and a.input < len(names) else ""
        yield f"output {a.output} shares memory: {a.kind.replace('_', ' ')}{what}"


def functional_text(
    dynamo: GraphRecord, ops: Sequence[InPlaceOp], format: str = "simple", width: int | None = None
) -> str:
    """In-place ops and what functionalisation made of each, as a table."""
    rows = [
        [
            call_text(op.node, dynamo), place_of(op.node.source), _names(op.ops),
            " ".join(filter(None, (" → ".join(n.name for n in reversed(op.chain)), _names(op.writes), _names(op.views)))),
            f"{op.input}: {op.epilogue}" if op.epilogue else op.input,
        ]
        for op in ops
    ]  # fmt: skip
    return table(
        ("in place", "line", "becomes", "views", "written back"),
        rows,
        format,
        columns=width,
        floors=(18, 10, 14, 14, 14),
    )


def _names(nodes: Sequence[NodeRecord]) -> str:
    return _some([n.name for n in nodes])
