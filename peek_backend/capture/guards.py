"""The guards of a compiled graph as GuardInfo: by source, in plain words, with the user's line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ..model import GraphRecord, GuardInfo, StackFrame, SymbolInfo, TensorMeta
from . import compat
from .sources import NO_POSITIONS, Positions, place, readable
from .symbols import minus

_CLASS = re.compile(r"type=<class '(.*?)'>")
_KEY = re.compile(r"^(not )?___dict_contains\((.+), (.+)\)$")
_NOTED = re.compile(r"_dynamo_\w+'")
_AT_LEAST = re.compile(r"^(-?\d+) <= ([^<>=]+)$")
_AT_MOST = re.compile(r"^(-?\d+) >= ([^<>=]+)$")
_BETWEEN = re.compile(r"^(-?\d+) <= ([^<>=]+?) and \2 <= (-?\d+)$")
_MOST_TEXT = 500

# Guards that Dynamo adds by the dozen for the modules and library functions it traced through: one line for each sort.
_BY_KIND = {
    "EMPTY_NN_MODULE_HOOKS_DICT": "no hooks were added to the modules that were traced through",
    "NOT_PRESENT_IN_GENERIC_DICT": "no instance attribute hides a method that was traced",
    "MODULE_MATCH": "imported modules are the same",
    "BUILTIN_MATCH": "built-in functions are the same",
}
_IMPORTED = "functions, classes and defaults of imported modules are the same"
_TABLES = "the modules' own tables of parameters, buffers and children are plain dicts"
_IS_IMPORTED = re.compile(r"^G\['(__import_|__builtins_dict_)")
_IS_TABLE = re.compile(r"\._(modules|parameters|buffers)$")
_AMBIENT = {
    "GRAD_MODE": "grad mode",
    "DETERMINISTIC_ALGORITHMS": "deterministic algorithms",
    "DEFAULT_DEVICE": "default device",
    "GLOBAL_STATE": "global state (autocast, default dtype, threads)",
    "TORCH_FUNCTION_STATE": "torch function modes",
    "AUTOGRAD_SAVED_TENSORS_HOOKS": "saved-tensor hooks",
    "FSDP_TRAINING_STATE": "FSDP's training state",
    "DUAL_LEVEL": "forward-mode level",
    "FUNCTORCH_STACK_MATCH": "functorch transforms",
}
_SAME_OBJECT = {"ID_MATCH", "FUNCTION_MATCH", "CLOSURE_MATCH", "NN_MODULE", "CLASS_MATCH", "DATA_PTR_MATCH"}


def read_guards(
    guards: Iterable[Any],
    graph: GraphRecord | None,
    files: Sequence[str] = (),
    positions: Positions = NO_POSITIONS,
) -> tuple[GuardInfo, ...]:
    """Every guard of one compile, shape guards first, then by source; kinds that repeat per module are one line each.

    ``guards`` are torch's own, after their code was made; ``graph`` says what its tensors are.
    """
    tensors = _tensors(graph)
    symbols = graph.symbols if graph is not None else ()
    found: list[GuardInfo] = []
    repeated: Counter[tuple[str, str]] = Counter()
    for guard in sorted(guards, key=lambda g: (compat.guard_name(g), str(g.code_list))):
        kind = compat.guard_type(guard)
        if kind == "SHAPE_ENV":
            found.extend(_shape_guards(guard, symbols))
        elif words := _sort(kind, compat.guard_name(guard)):
            repeated[kind, words] += 1
        else:
            found.append(_guard(guard, kind, tensors))
    sums: Counter[str] = Counter()
    for (_, words), count in repeated.items():
        sums[words] += count
    kinds = {words: kind for kind, words in repeated}
    found.extend(GuardInfo(kinds[words], f"{words} ({count})", ambient=True) for words, count in sums.items())
    named = [_named(guard, positions) for guard in found]
    return tuple(sorted(dict.fromkeys(named), key=lambda g: (g.type != "SHAPE_ENV", g.ambient)))


def _named(guard: GuardInfo, positions: Positions) -> GuardInfo:
    text, source = positions.named(guard.text), positions.named(guard.source)
    return msgspec.structs.replace(guard, text=text, source=source)


def _sort(kind: str, name: str) -> str | None:
    """The words for a guard that is one of many alike, None for one that says something of its own."""
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    if _IS_IMPORTED.match(name):
        return _IMPORTED
    return _TABLES if kind == "TYPE_MATCH" and _IS_TABLE.search(name) else None


def _guard(guard: Any, kind: str, tensors: Mapping[str, str]) -> GuardInfo:
    name = compat.guard_name(guard)
    ambient = not name
    text = _AMBIENT.get(kind, kind.lower()) if ambient else _text(guard, kind, name, tensors)
    return GuardInfo(kind, text[:_MOST_TEXT], readable(name, None), _line(guard), ambient)


def _text(guard: Any, kind: str, name: str, tensors: Mapping[str, str]) -> str:
    if kind == "TENSOR_MATCH":
        return tensors.get(name, "a tensor of the same dtype, device, sizes and strides")
    codes = [code for code in guard.code_list or () if not _NOTED.search(code)]
    words = [_condition(code, kind, compat.guarded_class(guard)) for code in codes]
    if not words:
        return "the same object" if kind in _SAME_OBJECT else kind.lower().replace("_", " ")
    return " and ".join(words)


def _condition(code: str, kind: str, guarded: str = "") -> str:
    """One piece of torch's guard code in words: identity and type checks name the class, not an address."""
    kept = _CLASS.search(code)
    name = kept[1].rpartition(".")[2] if kept else guarded
    if code.startswith("___check_type_id"):
        return f"type is {name}" if name else "of the same type"
    if code.startswith("___check_obj_id") or kind in _SAME_OBJECT:
        return "the same object" + (f" ({name})" if kept else "")
    if key := _KEY.match(code):
        return f"{key[2]} {'not in' if key[1] else 'in'} {readable(key[3], None)}"
    return readable(code, None)


def _shape_guards(guard: Any, symbols: Sequence[SymbolInfo]) -> list[GuardInfo]:
    """Each condition on sizes: ``x.shape[0] >= 4``, with the line that caused it."""
    found = []
    for code in guard.code_list or ():
        text = bound(readable(code, None))
        source = next((s for symbol in symbols for s in symbol.sources if s in text), "")
        found.append(GuardInfo("SHAPE_ENV", text[:_MOST_TEXT], source, cause(text, symbols)))
    return found


def bound(text: str) -> str:
    """``2 <= x.shape[0]`` the way a person says it: ``x.shape[0] >= 2``."""
    text = minus(text)
    if found := _BETWEEN.match(text):
        return f"{found[1]} <= {found[2]} <= {found[3]}"
    if found := _AT_LEAST.match(text):
        return f"{found[2]} >= {found[1]}"
    if found := _AT_MOST.match(text):
        return f"{found[2]} <= {found[1]}"
    return text


def cause(text: str, symbols: Sequence[SymbolInfo]) -> StackFrame | None:
    """The user's line behind a condition: of the fact that says the same of the symbols, else of any fact of the first symbol."""
    inside = [s for s in symbols if any(source in text for source in s.sources)]
    said = text
    for symbol in inside:
        for source in symbol.sources:
            said = said.replace(source, symbol.name)
    facts = [fact for symbol in inside for fact in symbol.facts if fact.user is not None]
    same = next((f for f in facts if f.text.partition(" (asked")[0] == said), None)
    first = same or next((f for f in facts if f.kind in ("specialised", "replaced", "range", "guard")), None)
    return first.user if first is not None else None


def _tensors(graph: GraphRecord | None) -> dict[str, str]:
    """What each tensor input has to be, by torch's own source text."""
    if graph is None:
        return {}
    inputs = [n for n in graph.nodes if n.op == "placeholder" and isinstance(n.value, TensorMeta)]
    return {n.source.origin: _meta(n.value) for n in inputs if n.source is not None and n.source.origin}  # type: ignore[arg-type]


def _meta(value: TensorMeta) -> str:
    shape, stride = (", ".join(map(str, dims)) for dims in (value.shape, value.stride or ()))
    grad = "on" if value.requires_grad else "off"
    return f"{value.dtype} [{shape}], stride [{stride}], {value.device}, requires_grad {grad}"


def _line(guard: Any) -> StackFrame | None:
    stack = guard.user_stack
    return place(stack[-1].filename, stack[-1].lineno, stack[-1].name) if stack else None
