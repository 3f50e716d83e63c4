"""The price of a capture as text: a summary, a table or tree by module, plain data for JSON.

Comes in: what ``analysis.cost`` adds up. Goes out: text, or dicts of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..analysis.cost import (
    Costs,
    ModuleCost,
    Sizes,
    by_module,
    costs,
    missing_backwards,
    symbols_by_name,
)
from ..analysis.dims import symbols_in
from ..errors import unknown_name
from ..model import CaptureRecord, Dim, FrameRecord
from .escape import cut, width
from .fitting import fitted
from .labels import bytes_text, place_text, plural

SORTS = ("order", "flops", "bytes", "parameters")
_MAX_EXPRESSION = 48
_MAX_LINE = 160
_STEPS = ("", "k", "M", "G", "T", "P", "E", "Z")


def count_text(number: float, unit: str = "") -> str:
    """A count with a decimal prefix and three digits: ``70.6 G``, ``1.25 TFLOP``, ``812``."""
    step = 0
    while abs(number) >= 999.5 and step < len(_STEPS) - 1:
        number, step = number / 1000, step + 1
    digits = f"{number:.0f}" if step == 0 or abs(number) >= 99.95 else f"{number:.3g}"
    return f"{digits} {_STEPS[step]}{unit}".rstrip() if step or unit else digits


def ratio_text(ratio: float) -> str:
    """Three digits: ``0.0243``, ``8.79``, ``2,020``."""
    return f"{ratio:,.0f}" if ratio >= 99.95 else f"{ratio:.3g}"


def parameters_text(count: int) -> str:
    """``70.6 B``, as model cards have it: B for a thousand million."""
    text = count_text(count)
    return text.replace(" G", " B").replace(" k", " K")


def flops_text(flops: Dim) -> str:
    """``573 TFLOP``; an expression where sizes are symbolic."""
    return expression(flops) if isinstance(flops, str) else count_text(flops, "FLOP") if flops else "0"


def size_text(size: Dim) -> str:
    """``1.5 KiB``; an expression where sizes are symbolic."""
    return expression(size) if isinstance(size, str) else bytes_text(size)


def expression(text: str) -> str:
    """An expression cut to what a cell can hold."""
    return cut(text, _MAX_EXPRESSION)


def summary(record: CaptureRecord, sizes: Sizes | None = None) -> str:
    """A few lines: parameters, FLOPs of each pass, bytes moved, intensity, and what is not in them."""
    found = costs(record, sizes)
    lines = [_parameters_line(found)]
    if found.backward_flops:
        passes = f"forward {flops_text(found.forward_flops)}, backward {flops_text(found.backward_flops)}"
        lines.append(f"FLOPs: {flops_text(found.flops)} ({passes})")
    else:
        lines.append(f"FLOPs: {flops_text(found.flops)}")
    lines += _for_any_size(record) + _assumed(record)
    intensity = f", {ratio_text(found.intensity)} FLOP per byte" if found.intensity is not None else ""
    moved = (
        f"moved: {size_text(found.read)} read, {size_text(found.written)} written by ops that nothing fuses"
    )
    lines.append(moved + intensity)
    lines += [f"not counted: {plural(count, 'node')}: {why}" for why, count in found.unknown]
    lines += _outside_graphs(record) + _in_eager(record) + _stand_ins(record)
    lines += _without_backward(record)
    return "\n".join(lines)


def _without_backward(record: CaptureRecord) -> list[str]:
    """Of a training step the graphs whose backward is not in the price, and why."""
    if record.dryrun is None or not record.dryrun.train:
        return []
    missing = missing_backwards(record)
    if not missing and not any(g.stage == "backward" for g in record.graphs):
        return ["no backward: nothing that the graphs return has a gradient"]
    lines = [f"not counted: the backward of {key}: {why}" for key, why in missing[:_MOST_EAGER]]
    if len(missing) > _MOST_EAGER:
        lines.append(f"not counted: {plural(len(missing) - _MOST_EAGER, 'more backward')}")
    return lines


_MOST_EAGER = 3


def outside(record: CaptureRecord) -> list[FrameRecord]:
    """Frames that Dynamo left to eager: what they do themselves is in no graph, and so has no price."""
    return [f for f in record.frames if f.outcome in ("skipped", "limit", "failed")]


def _outside_graphs(record: CaptureRecord) -> list[str]:
    """The ops that ran in no graph."""
    ops = record.dryrun.eager if record.dryrun is not None else {}
    if not ops:
        return []
    named = [f"{name} ×{count}" if count > 1 else name for name, count in ops.items()]
    more = f", {plural(len(named) - _MOST_OPS, 'more')}" if len(named) > _MOST_OPS else ""
    return [
        f"not counted: {plural(sum(ops.values()), 'op')} outside of all graphs: {', '.join(named[:_MOST_OPS])}{more}"
    ]


_MOST_OPS = 6


def _stand_ins(record: CaptureRecord) -> list[str]:
    """Which kernels of the CPU stand in the graphs for those of the device that was asked for."""
    if record.dryrun is None or record.dryrun.device.partition(":")[0] == "cpu":
        return []
    targets = {
        n.target.split(".")[1]
        for g in record.graphs
        for n in g.nodes
        if n.op == "call_function" and ("_for_cpu" in n.target or n.target.startswith("peek.recurrent_layer"))
    }
    if not targets:
        return []
    names = sorted(targets)
    device = record.dryrun.device
    return [
        f"traced on the CPU: {', '.join(names)} {'stands' if len(names) == 1 else 'stand'} for {device}'s own fused kernel"
    ]


def _in_eager(record: CaptureRecord) -> list[str]:
    frames = outside(record)
    told = []
    for frame in frames[:_MOST_EAGER]:
        told.append(
            f"not counted: {frame.name} ({place_text(frame.file, frame.line)}) has no graph: {frame.reason}"
        )
        told += [f"  {frame.fix.splitlines()[0]}"] if frame.fix else []
    if len(frames) > _MOST_EAGER:
        told.append(f"not counted: {plural(len(frames) - _MOST_EAGER, 'more frame')} without a graph")
    return told


def _for_any_size(record: CaptureRecord) -> list[str]:
    """FLOPs as an expression, and what its symbols stand for; nothing where every size is a number."""
    flops = costs(record).flops
    if isinstance(flops, int):
        return []
    names = {symbol: name for name, symbols in symbols_by_name(record).items() for symbol in symbols}
    known = {s.name: s for graph in record.graphs for s in graph.symbols}
    told: dict[str, list[str]] = {}
    for symbol in sorted(symbols_in(flops), key=lambda s: (s.rstrip("0123456789"), len(s), s)):
        info = known.get(symbol)
        source = names.get(symbol) or (next(iter(info.sources), "") if info is not None else "")
        seen = f" ({info.hint} here)" if info is not None and info.hint is not None else ""
        told.setdefault(f"{source or 'read from data'}{seen}", []).append(symbol)
    where = "; ".join(f"{', '.join(symbols)} = {what}" for what, symbols in told.items())
    return [f"  of any size: {cut(flops, _MAX_LINE)}, where {where}"]


def _assumed(record: CaptureRecord) -> list[str]:
    """The hints that the price rests on."""
    hints = record.dryrun.assumed if record.dryrun is not None else {}
    told = [f"{value} at {place}" if ":" in place else f"{place} = {value}" for place, value in hints.items()]
    return [f"assumed of what is read from data: {'; '.join(told)}"] if told else []


def _parameters_line(found: Costs) -> str:
    buffers = f", buffers {bytes_text(found.buffer_bytes)}" if found.buffer_bytes else ""
    return f"parameters: {parameters_text(found.parameters)} ({bytes_text(found.parameter_bytes)}){buffers}"


_KEYS: dict[str, Callable[[ModuleCost], Any]] = {
    "flops": lambda m: m.flops,
    "bytes": lambda m: m.moved,
    "parameters": lambda m: m.parameters,
}


def lines_of(
    record: CaptureRecord, sizes: Sizes | None, *, depth: int | None, sort: str, fold: bool = True
) -> list[ModuleCost]:
    """The modules to show. ``order`` keeps the tree's order, another sort puts the dearest first, expressions before numbers.

    Raises PeekError for an unknown sort.
    """
    if sort not in SORTS:
        raise unknown_name("sort", sort, SORTS)
    lines = by_module(record, sizes, depth=depth, fold=fold)
    if sort == "order":
        return lines
    key = _KEYS[sort]
    return lines[:1] + sorted(
        lines[1:],
        key=lambda m: (isinstance(key(m), str), key(m) if isinstance(key(m), int) else 0),
        reverse=True,
    )


def module_table(
    record: CaptureRecord,
    sizes: Sizes | None = None,
    *,
    depth: int | None = None,
    sort: str = "order",
    format: str = "simple",
    columns: int | None = None,
) -> str:
    """A row a module, its submodules included: FLOPs and their share, bytes moved, FLOP per byte, parameters."""
    lines = lines_of(record, sizes, depth=depth, sort=sort)
    train = any(line.backward_flops for line in lines)
    headers = [
        "module",
        "class",
        "FLOPs",
        *(["of it backward"] if train else []),
        "share",
        "moved",
        "FLOP/B",
        "parameters",
        "takes",
    ]
    rows = [_row(line, train=train) for line in lines]
    return fitted(headers, rows, format, columns, drop=_LEAST_FIRST, shorten=("class", "module"))


_LEAST_FIRST = ("takes", "FLOP/B", "of it backward", "class")
"""Columns that a narrow terminal goes without, the first first."""


def _row(line: ModuleCost, *, train: bool) -> list[str]:
    backward = [flops_text(line.backward_flops)] if train else []
    parameters = parameters_text(line.parameters) if line.parameters else ""
    takes = bytes_text(line.parameter_bytes) if line.parameter_bytes else ""
    return [
        _name(line),
        line.kind,
        flops_text(line.flops),
        *backward,
        _share(line),
        size_text(line.moved),
        _intensity(line),
        parameters,
        takes,
    ]


def _name(line: ModuleCost, *, last: bool = False) -> str:
    path = (line.path.rpartition(".")[2] if last else line.path) or "all"
    return f"{path} ×{line.modules}" if line.modules > 1 else path


def _share(line: ModuleCost) -> str:
    return "" if line.share is None else f"{100 * line.share:.1f} %"


def _intensity(line: ModuleCost) -> str:
    if isinstance(line.flops, str) or isinstance(line.moved, str) or not line.moved or not line.flops:
        return ""
    return ratio_text(line.flops / line.moved)


def module_tree(
    record: CaptureRecord,
    sizes: Sizes | None = None,
    *,
    depth: int | None = None,
    columns: int | None = None,
) -> str:
    """The modules as a tree, one line each, with a bar for the share of FLOPs; cut to ``columns``."""
    lines = lines_of(record, sizes, depth=depth, sort="order")
    names = _branches(lines)
    widest = max(map(width, names))
    rows = zip(names, lines, strict=True)
    texts = [_tree_line(name + " " * (widest - width(name)), line) for name, line in rows]
    return "\n".join(texts if columns is None else [cut(text, columns) for text in texts])


def _tree_line(name: str, line: ModuleCost) -> str:
    numbers = f"{flops_text(line.flops):>12}  {size_text(line.moved):>10}"
    return f"{name}  {_bar(line)}  {numbers}  {line.kind}".rstrip()


def _branches(lines: Sequence[ModuleCost]) -> list[str]:
    """The names with the strokes of a tree before them."""
    names: list[str] = []
    open_: list[bool] = []  # for each level whether a sibling follows
    for i, line in enumerate(lines):
        if line.depth == 0:
            names.append(_name(line))
            continue
        after = next((other.depth for other in lines[i + 1 :] if other.depth <= line.depth), 0)
        del open_[line.depth - 1 :]
        strokes = "".join("│  " if more else "   " for more in open_)
        names.append(strokes + ("├─ " if after == line.depth else "└─ ") + _name(line, last=True))
        open_.append(after == line.depth)
    return names


def _bar(line: ModuleCost, cells: int = 10) -> str:
    if line.share is None:
        return " " * cells
    eighths = round(line.share * cells * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")).ljust(cells)


def as_data(record: CaptureRecord, sizes: Sizes | None = None, *, depth: int | None = None) -> dict[str, Any]:
    """The sums and the modules as plain data: numbers, or expressions as text."""
    found = costs(record, sizes)
    return {
        "parameters": found.parameters,
        "parameter_bytes": found.parameter_bytes,
        "buffer_bytes": found.buffer_bytes,
        "flops": found.flops,
        "forward_flops": found.forward_flops,
        "backward_flops": found.backward_flops,
        "bytes_read": found.read,
        "bytes_written": found.written,
        "intensity": found.intensity,
        "unknown": [{"why": why, "nodes": count} for why, count in found.unknown],
        "assumed": dict(record.dryrun.assumed) if record.dryrun is not None else {},
        "outside": dict(record.dryrun.eager) if record.dryrun is not None else {},
        "no_backward": [{"graph": key, "why": why} for key, why in missing_backwards(record)],
        "eager": [{"frame": f.name, "why": f.reason, "fix": f.fix} for f in outside(record)],
        "modules": [_module_data(line) for line in by_module(record, sizes, depth=depth, fold=False)],
    }


def _module_data(line: ModuleCost) -> dict[str, Any]:
    return {
        "path": line.path,
        "class": line.kind,
        "flops": line.flops,
        "backward_flops": line.backward_flops,
        "bytes_moved": line.moved,
        "share": line.share,
        "parameters": line.parameters,
        "parameter_bytes": line.parameter_bytes,
    }
