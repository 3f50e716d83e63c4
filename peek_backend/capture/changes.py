"""What a recompile changed: two graphs of one code object compared, and the advice that fits the guard that failed.

Comes in: records. Goes out: sentences.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..model import FailedGuard, GraphRecord, Leaf, NodeRecord, StackFrame, SymbolInfo, TensorMeta
from .marks import marked_range
from .sources import readable

MOST_CHANGES = 8
MOST_CODE = 60
MOST_MARKS = 6
_PAIR = re.compile(r"^(.+) is (?!not |None$|True$|False$)(.+)$")
_SIZE = re.compile(r"^(?P<tensor>.+)\.shape\[(?P<dim>\d+)\]$")


def what_changed(before: GraphRecord, after: GraphRecord) -> tuple[str, ...]:
    """What the newer graph of a code object has that the older had not: sizes, inputs, ops, constants; the first few."""
    found = list(dict.fromkeys([*_inputs(before, after), *_ops(before, after)]))
    if len(found) <= MOST_CHANGES:
        return tuple(found)
    return (*found[:MOST_CHANGES], f"and {len(found) - MOST_CHANGES} more differences")


def _inputs(before: GraphRecord, after: GraphRecord) -> Iterator[str]:
    old, new = _by_source(before), _by_source(after)
    for source in new.keys() & old.keys():
        yield from _values(source, old[source], new[source])
    gone = [s for s in old if s not in new]
    added = [s for s in new if s not in old]
    if gone and len(gone) == len(added):
        yield from (f"reads {b} instead of {a}" for a, b in zip(gone, added, strict=True))
        return
    yield from (f"{source} is an input now" for source in added)
    yield from (f"{source} is no input any more" for source in gone)


def _by_source(graph: GraphRecord) -> dict[str, NodeRecord]:
    """The inputs by source; the sizes that torch adds for symbols are told as changes of a shape."""
    inputs = [n for n in graph.nodes if n.op == "placeholder" and n.source is not None and n.source.input]
    inputs = [n for n in inputs if n.source.input_kind != "size"]  # type: ignore[union-attr]
    return {n.source.input: n for n in inputs}  # type: ignore[union-attr,misc]


def _values(source: str, before: NodeRecord, after: NodeRecord) -> Iterator[str]:
    old, new = before.value, after.value
    if not isinstance(old, TensorMeta) or not isinstance(new, TensorMeta):
        return
    if len(old.shape) != len(new.shape):
        yield f"{source} has {len(new.shape)} dims, had {len(old.shape)}"
    else:
        for i, (a, b) in enumerate(zip(old.shape, new.shape, strict=True)):
            if a != b:
                yield f"{source}.shape[{i}]: {a} became {b}" + (" (any size)" if _grew(a, b) else "")
    for field in ("dtype", "device", "requires_grad", "layout", "subclass"):
        a, b = getattr(old, field), getattr(new, field)
        if a != b:
            yield f"{source}.{field}: {a} became {b}"


def _grew(before: object, after: object) -> bool:
    return isinstance(before, int) and isinstance(after, str)


def _ops(before: GraphRecord, after: GraphRecord) -> Iterator[str]:
    old, new = _calls(before), _calls(after)
    targets, others = [n.target for n in new], [n.target for n in old]
    if targets == others:
        yield from _constants(old, new)
        return
    more, less = Counter(targets) - Counter(others), Counter(others) - Counter(targets)
    if more:
        yield f"{more.total()} {_plural(more.total(), 'op')} more: {_listed(more)}"
    if less:
        yield f"{less.total()} {_plural(less.total(), 'op')} fewer: {_listed(less)}"
    if not more and not less:
        yield "the same ops in another order"


def _calls(graph: GraphRecord) -> list[NodeRecord]:
    return [n for n in graph.nodes if n.op not in ("placeholder", "output", "get_attr")]


def _constants(before: Sequence[NodeRecord], after: Sequence[NodeRecord]) -> Iterator[str]:
    for old, new in zip(before, after, strict=True):
        for a, b in zip(_scalars(old), _scalars(new), strict=False):
            if a != b and type(a) is type(b):
                yield f"{new.target.rpartition('.')[2]} with {b!r} instead of {a!r}"


def _scalars(node: NodeRecord) -> list[object]:
    flat: list[object] = []
    pending = [*node.args, *node.kwargs.values()]
    while pending:
        arg = pending.pop(0)
        if isinstance(arg, tuple):
            pending = [*arg, *pending]
        elif not isinstance(arg, Leaf):
            flat.append(arg)
    return flat


def _listed(names: Counter[str]) -> str:
    shown = [name.rpartition(".")[2] + (f" ×{n}" if n > 1 else "") for name, n in names.most_common(4)]
    return ", ".join(shown) + (", …" if len(names) > len(shown) else "")


def _plural(count: int, word: str) -> str:
    return word if count == 1 else word + "s"


class Retry(NamedTuple):
    """A code object is to be compiled again, since a guard of each variant failed; ``refused`` is what the limit turned down.

    ``graph`` is of the newest variant, and tells what became dynamic in it. ``outer`` names the function that the program
    called, where a break in it, at ``cut``, made this one a frame of its own. ``sizes`` are all that the call had otherwise than
    the variant that fits it best, of which torch names the first (``x.shape[0]``), ``marks`` those of the variant's inputs.
    """

    failed: Sequence[FailedGuard]
    graph: GraphRecord | None = None
    refused: bool = False
    outer: str = ""
    cut: StackFrame | None = None
    sizes: Sequence[str] = ()
    marks: Mapping[str, str] = {}


def advice(retry: Retry) -> str:
    """What to change so that the guard that failed does not fail again; empty where nothing general can be said."""
    nearest = sorted(retry.failed, key=_settings_to_keep)
    found = next((text for guard in nearest if (text := _advice(guard, retry))), "")
    if not retry.refused:
        return found
    raised = "raise torch._dynamo.config.recompile_limit"
    return f"{found}; or {raised}" if found else raised


def is_of_size(guard: FailedGuard) -> bool:
    """Whether a guard asks something of one size of a tensor."""
    return _SIZE.match(guard.source) is not None


def _settings_to_keep(guard: FailedGuard) -> int:
    """How many settings of torch's beyond one differ from those that a variant was compiled under."""
    return guard.source.count(", ") if _is_ambient(guard) else 0


def _is_ambient(guard: FailedGuard) -> bool:
    """Whether settings of torch's (grad mode, autocast, …) changed, rather than a value of the program's."""
    return bool(guard.source) and guard.text == f"{guard.source} changed"


def _advice(guard: FailedGuard, retry: Retry) -> str:
    if size := _SIZE.match(guard.source):
        return _range_advice(guard, size, retry) or _size_advice(guard, retry)
    if _is_ambient(guard):
        return f"call it under the same {guard.source} each time"
    if words := _by_words(guard.source, guard.text):
        return words
    if pair := _PAIR.match(guard.expected or ""):
        return f"{pair[1]} and {pair[2]} are one object in one call and two in the other: pass a clone, or a copy"
    if _is_condition(guard):
        return _condition_advice(guard)
    return _number_advice(guard, retry.graph) if _is_number(guard.expected or "") else _constant_advice(guard)


def _by_words(source: str, text: str) -> str:
    """What a guard's own words call for; empty for those that tell of a value only."""
    if source.startswith(_HANDED_ON):
        return "the value that the break hands on changes from call to call: mend the break, or keep the value a tensor"
    for ending, words in _BY_ENDING.items():
        if source.endswith(ending):
            return words.format(source=source.removesuffix(ending))
    for beginning, words in _BY_BEGINNING.items():
        if source.startswith(beginning):
            return words.format(source=source.removeprefix(beginning))
    if " in " in source:
        return "pass dicts with the same keys each time"
    for part, words in _BY_TEXT.items():
        if part in text:
            return words.format(source=source)
    return ""


def _is_condition(guard: FailedGuard) -> bool:
    """Whether the guard asks something of a value that is dynamic already, rather than for one value."""
    source, expected = guard.source, guard.expected or ""
    if not source or source not in expected:
        return False
    try:
        name = ast.unparse(ast.parse(source, mode="eval").body)
        parts = [part for part in ast.walk(ast.parse(expected, mode="eval")) if isinstance(part, ast.expr)]
    except (SyntaxError, ValueError):  # a value without a name, as what a broken call gave
        return True
    return any(ast.unparse(part) == name for part in parts)


def _condition_advice(guard: FailedGuard) -> str:
    code = guard.user.code if guard.user is not None else ""
    line = f" ({code})" if 0 < len(code) <= MOST_CODE else ""
    return (
        f"{guard.source} is dynamic, and the code asks about it{line}: each answer is a variant; drop the question, or leave both"
        " sides in the graph with torch.cond"
    )


def _range_advice(guard: FailedGuard, size: re.Match[str], retry: Retry) -> str:
    """For a size outside of the range that it was marked for."""
    allowed, got = marked_range(retry.marks.get(guard.source, "")), _got(guard)
    if allowed is None or not _is_int(got) or allowed[0] <= int(got) <= allowed[1]:
        return ""
    wider = f"min={min(allowed[0], int(got))}, max={max(allowed[1], int(got))}"
    return (
        f"{guard.source} is marked for {allowed[0]} to {allowed[1]}: a size outside is a variant of its own;"
        f" torch._dynamo.mark_dynamic({size['tensor']}, {size['dim']}, {wider}) takes it in"
    )


def _got(guard: FailedGuard) -> str:
    """What a size was: of ``x.shape[0] = 40`` as well."""
    return (guard.got or "").rpartition("= ")[2]


def _size_advice(guard: FailedGuard, retry: Retry) -> str:
    got = _got(guard)
    if got in ("0", "1") or guard.expected in ("0", "1"):
        return "sizes 0 and 1 are always compiled on their own: expect a variant for them, or pad to 2"
    if _is_condition(guard):
        return _condition_advice(guard)
    if not _is_int(guard.expected or ""):
        return (
            f"{guard.source} and {guard.expected} were equal at the compile, and taken for one size: make the first call with"
            " different ones, or set torch.fx.experimental._config.use_duck_shape = False"
        )
    if kept := _constant_size_advice(guard, retry.graph):
        return kept
    if retry.outer:  # a mark on a tensor does not pass on to what eager code or another graph makes of it
        at = f" at {retry.cut.place}" if retry.cut is not None else ""
        return (
            f"the size comes from {retry.outer}, which breaks{at}: mark its inputs dynamic and mend the break, or"
            " torch.compile(…, dynamic=True)"
        )
    others = [s for s in retry.sizes if not (_held_kind(retry.graph, s) or _is_pinned(retry.graph, s))]
    return f"torch._dynamo.{_marks([guard.source, *others])} before the first call, or torch.compile(…, dynamic=True)"


def _constant_size_advice(guard: FailedGuard, graph: GraphRecord | None) -> str:
    """For a size that is one number in each variant, whatever is marked."""
    kind = _held_kind(graph, guard.source) or (guard.holder if guard.holder == "parameter" else "")
    if kind:  # which marks do not reach
        return (
            f"torch takes sizes of {kind}s as constants: torch._dynamo.config.force_parameter_static_shapes = False and"
            " torch._dynamo.config.force_nn_module_property_static_shapes = False let them vary"
        )
    if _is_pinned(graph, guard.source):
        return (
            f"the code fixes {guard.source} to one value, so each size is a variant, and mark_dynamic would raise: mend what"
            " fixes it, or keep the size the same"
        )
    return ""


def _held_kind(graph: GraphRecord | None, size: str) -> str:
    """Whether a size is of a ``parameter`` or a ``buffer`` of a module."""
    tensor = _SIZE.match(size)
    if graph is None or tensor is None:
        return ""
    names = (tensor["tensor"], tensor["tensor"].removeprefix("self."))
    sources = [n.source for n in graph.nodes if n.op == "placeholder" and n.source is not None]
    kinds = {source.input_kind for source in sources if source.input in names}
    return next((kind for kind in ("parameter", "buffer") if kind in kinds), "")


def _marks(sizes: Sequence[str]) -> str:
    found = [_SIZE.match(size) for size in dict.fromkeys(sizes)]
    marks = [f"mark_dynamic({size['tensor']}, {size['dim']})" for size in found if size is not None]
    if len(marks) > MOST_MARKS:
        marks[MOST_MARKS:] = [f"{len(marks) - MOST_MARKS} more"]
    *first, last = marks
    return f"{', '.join(first)} and {last}" if first else last


_BY_ENDING = {
    ".requires_grad": "call it the same way each time: {source} with requires_grad in one call and without in another"
    " (first layer, torch.no_grad(), detach()) needs two variants",
    ".dtype": "cast {source} to one dtype before the call",
    ".dim()": "give {source} the same number of dims each time (unsqueeze before the call)",
}
_BY_BEGINNING = {
    "type of ": "pass {source} as one type each time",
    "dispatch keys of ": "{source} is another kind of tensor (inference mode, subclass, conjugated): make it the same each time",
    "keyword arguments": "call it with the same keyword arguments each time",
    "list(dict.keys(": "pass dicts with the same keys each time",
    "len(": "pass containers of one length, or loop over them outside of the compiled function",
}
# How Dynamo names what a break hands on.
_HANDED_ON = ("___stack", "__resume_frame_values")
_BY_TEXT = {
    ".stride(": "call .contiguous() on the tensor before the call, or always pass the same layout",
    "the same object": "{source} is compared by identity: create it once, outside of the compiled function, and pass the same one"
    " each time",
    "expected a tensor": "pass {source} as one type each time",
    "marked": "mark the dims before the first call",
    "is_contiguous": "call .contiguous() before the call",
    "another backend": "compile the function once, with one backend object",
    "Duplicate tensor": "two arguments are the same tensor in one call and not in the other: pass a clone",
}


def _number_advice(guard: FailedGuard, graph: GraphRecord | None) -> str:
    """A Python number: it becomes dynamic at its second value, unless something keeps it a constant."""
    source = guard.source
    if not source:
        return ""
    if guard.holder == "module":
        return (
            f"{source} is a constant of the graph: make it a tensor (a buffer), move what depends on it out of the "
            "compiled part, or set torch._dynamo.config.allow_unspec_int_on_nn_module = True"
        )
    if _is_dynamic(graph, source):
        return (
            f"{source} is dynamic from here on; torch.compile(…, dynamic=True) makes it so in the first call"
        )
    if _is_pinned(graph, source):
        return (
            f"the code uses {source} as a plain number (a comparison, range(), an index), so each value is a variant: keep it the"
            " same, or move that out"
        )
    if guard.holder == "global":
        return f"{source} is a global, and so a constant of the graph: pass it as an argument, or make it a tensor"
    return f"{source} is a constant of the graph: pass it as a tensor, torch.tensor({source}), or keep it the same"


def _is_dynamic(graph: GraphRecord | None, source: str) -> bool:
    """Whether a graph takes a number as it comes: as a symbol that can still have several values, or as an input."""
    if graph is None:
        return False
    if _symbols_of(graph, source):
        return not _is_pinned(graph, source)
    inputs = [n.source for n in graph.nodes if n.op == "placeholder" and n.source is not None]
    return any(source in (s.input, readable(s.origin or "", None)) for s in inputs)


def _is_pinned(graph: GraphRecord | None, source: str) -> bool:
    """Whether a number was a symbol while the graph was traced, and the code made one value of it."""
    return any(
        _is_number(s.replaced_by or "") or (s.lower is not None and s.lower == s.upper)
        for s in _symbols_of(graph, source)
    )


def _symbols_of(graph: GraphRecord | None, source: str) -> list[SymbolInfo]:
    """The symbols with this source. Those of a module's attributes go without ``self``."""
    names = (source, source.removeprefix("self."))
    return [s for s in graph.symbols if set(names) & set(s.sources)] if graph is not None else []


def _constant_advice(guard: FailedGuard) -> str:
    """A Python value that no graph can take as an input."""
    if guard.expected is None or not guard.source:
        return ""
    return f"{guard.source} is a constant of the graph: keep it the same, or move what depends on it out"


def _is_int(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text) is not None


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d*)?(e-?\d+)?", text) is not None
