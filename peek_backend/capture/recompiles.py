"""Why a code object was compiled again: Dynamo's text of each failed guard in words, with what it expected and got.

Comes in: the texts of ``guard_failures`` and, where the frame is at hand, its local variables. Goes out: FailedGuard.
The values that a guard got are read without running a line of the user's code: no ``__getattr__``, property, ``__len__`` or
``__eq__`` is called, and what cannot be read so stays unknown.
"""

from __future__ import annotations

import ast
import collections
import enum
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..model import FailedGuard, GraphRecord, NodeRecord, StackFrame, TensorMeta
from .sources import NO_POSITIONS, Positions, parse_stack, place, readable

_VARIANT = re.compile(r"^(!?\d+(?:/\d+)+): ")
_STACK = "\nUser stack trace:\n"
# ``condition   # the user's line  # file.py:37 in function (HINT: …)``
_COMMENT = re.compile(
    r"\s+#\s(?P<code>.*?)\s*#\s(?P<file>\S+?):(?P<line>\d+) in (?P<function>\S+)", re.DOTALL
)
_TENSOR = re.compile(
    r"^tensor '(?P<name>.*?)' (?P<what>size|stride|dtype|requires_grad|rank|dispatch key set) mismatch"
    r"(?: at index (?P<index>\d+))?\. expected (?:requires_grad=)?(?P<expected>.*?)(?:, actual (?P<got>.*?))?"
    r"(?:\. Guard failed on a parameter, .*)?$"
)
_DEVICE = re.compile(r"Tensor device index mismatch\. Expected device index to be (-?\d+), actual (-?\d+)")
_NO_TENSOR = re.compile(r"^expected type of '(.*?)' to be a tensor type,? '? ?but found (.*)$")
_TYPE = re.compile(r"^___check_type_id\((.+?), \d+\)(?:, type=<class '(.*?)'>)?")
_OBJECT = re.compile(r"^___check_obj_id\((.+?), \d+\)(?:, type=<class '(.*?)'>)?")
_GLOBAL = re.compile(r"^GLOBAL_STATE changed: (.*)$")
_MARK = re.compile(r"^hasattr\((.+?), '_dynamo_(\w+)'\)")
_KEY = re.compile(r"^(not )?___dict_contains\((.+), (.+)\)$")
_LENGTH = re.compile(r"^len\((.+)\) != (\d+)$")
_KEYWORDS = re.compile(
    r"^(?:not (?:L\['kwargs'\]|kwargs)|len\((?:L\['kwargs'\]|kwargs)\) [!=]= \d+"
    r"|list\(dict\.keys\((?:L\['kwargs'\]|kwargs)\)\) == (?P<keys>.*))$"
)
_HOLDS = "Unexpected recompilation"
_MARKED = re.compile(r"^_has_dynamo_dim_marking is (present|absent)")
_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
    "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
    "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip
# What Dynamo adds to the guard of an int that a module holds and to that of a parameter, and how it names a global.
_HELD_BY = {
    "integer attributes of the nn.Module": "module",
    "Guard failed on a parameter": "parameter",
    "G['": "global",
}
_AMBIENT = {
    "grad_mode": "grad mode",
    "torch_function": "torch function mode",
    "default_dtype": "default dtype",
    "deterministic_algorithms": "deterministic algorithms",
    "num_threads": "number of threads",
    "autocast_cache_enabled": "autocast cache",
}
_AUTOCAST = re.compile(r"^autocast\((?P<device>\w+)\)_(?P<what>enabled|dtype)$")


class _Words(NamedTuple):
    """A failed guard taken apart."""

    text: str
    source: str = ""
    expected: str | None = None
    got: str | None = None


def variant_of(text: str) -> str | None:
    """The compile id at the head of a failure text: the variant whose guard failed."""
    found = _VARIANT.match(text)
    return found[1] if found else None


def read_failed(
    text: str,
    local_values: Mapping[str, Any] | None = None,
    file: str = "",
    positions: Positions = NO_POSITIONS,
) -> FailedGuard:
    """One text of ``guard_failures`` in words. ``file`` is the frame's file, which torch's short paths are completed to.

    ``positions`` are the names of a wrapper's arguments.
    """
    variant = variant_of(text)
    body = text[_VARIANT.match(text).end() :] if variant else text  # type: ignore[union-attr]
    body, _, stack = body.partition(_STACK)
    comment = _COMMENT.search(body)
    condition = (body[: comment.start()] if comment else body).partition("(HINT: ")[0].strip()
    user = _user_line(stack, comment, file)
    words = _words(condition, local_values or {})
    words = _Words(*[positions.named(part) if part else part for part in words])
    holder = next((held for part, held in _HELD_BY.items() if part in body), "")
    return FailedGuard(words.text, words.source, words.expected, words.got, user, variant, holder)


def _user_line(stack: str, comment: Any, file: str) -> StackFrame | None:
    frames = parse_stack(stack)
    if frames:
        return frames[-1]
    if comment is None:
        return None
    path, line = comment["file"], int(comment["line"])
    if file.endswith(path):
        return place(file, line, comment["function"])
    return StackFrame(path, line, comment["function"], comment["code"])


def _words(condition: str, local_values: Mapping[str, Any]) -> _Words:
    for pattern, read in _READERS:
        if (found := pattern.search(condition)) is not None:
            return read(found, local_values)
    return _comparison(condition, local_values)


def _tensor(found: re.Match[str], local_values: Mapping[str, Any]) -> _Words:
    """A tensor's own check: ``x.shape[0]: expected 4, got 6``."""
    what, index, expected, got = found["what"], found["index"], found["expected"], found["got"]
    name = readable(found["name"], None)
    source = {
        "size": f"{name}.shape[{index}]",
        "stride": f"{name}.stride({index})",
        "dtype": f"{name}.dtype",
        "requires_grad": f"{name}.requires_grad",
        "rank": f"{name}.dim()",
        "dispatch key set": f"dispatch keys of {name}",
    }[what]
    if what == "requires_grad":
        expected, got = str(expected.strip() == "1"), str(expected.strip() != "1")
    if what == "dtype":
        expected, got = _DTYPES.get(expected, expected), _DTYPES.get(got or "", got)
    return _expected(source, expected, got)


def _expected(source: str, expected: str, got: str | None) -> _Words:
    tail = f", got {got}" if got is not None else ""
    return _Words(f"{source}: expected {expected}{tail}", source, expected, got)


def _device(found: re.Match[str], _: Mapping[str, Any]) -> _Words:
    return _expected("device index of a tensor", found[1], found[2])


def _no_tensor(found: re.Match[str], _: Mapping[str, Any]) -> _Words:
    return _expected(readable(found[1], None), "a tensor", _class_name(found[2]))


def _type(found: re.Match[str], local_values: Mapping[str, Any]) -> _Words:
    got = _look_up(found[1], local_values)
    kind = type(got).__name__ if got is not _UNKNOWN else None
    return _expected(f"type of {readable(found[1], None)}", found[2] or "another type", kind)


def _object(found: re.Match[str], local_values: Mapping[str, Any]) -> _Words:
    source = readable(found[1], None)
    got = _look_up(found[1], local_values)
    kind = f" of type {found[2]}" if found[2] else ""
    shown = None if got is _UNKNOWN else _shown(got)
    return _Words(
        f"{source}: expected the same object{kind}" + (f", got {shown}" if shown else ", got another"),
        source,
        "the same object",
        shown or "another object",
    )


def _global(found: re.Match[str], _: Mapping[str, Any]) -> _Words:
    names = [_ambient(name) for name in found[1].split()]
    return _Words(f"{', '.join(names)} changed", ", ".join(names), "as when it was compiled", "changed")


def _ambient(name: str) -> str:
    if (autocast := _AUTOCAST.match(name)) is None:
        return _AMBIENT.get(name, name)
    return f"autocast{' dtype' if autocast['what'] == 'dtype' else ''} on {autocast['device']}"


def _mark(found: re.Match[str], _: Mapping[str, Any]) -> _Words:
    """A mark such as ``mark_dynamic`` that was set, or taken away, after the first compile."""
    name, mark = readable(found[1], None), found[2].replace("_indices", "").replace("_", " ")
    return _Words(f"{name}: marked {mark} since the compile, or no longer", name, None, None)


def _marked(found: re.Match[str], _: Mapping[str, Any]) -> _Words:
    """The same where torch (2.13 and later) does not name the tensor."""
    had, has = ("marked", "not marked") if found[1] == "absent" else ("not marked", "marked")
    return _Words(f"dims of a tensor (mark_dynamic): expected {had}, got {has}", "", had, has)


def _key(found: re.Match[str], _: Mapping[str, Any]) -> _Words:
    """Whether a dict has a key: ``'bias' in config: expected True, got False``."""
    expected = found[1] is None
    return _expected(f"{found[2]} in {readable(found[3], None)}", str(expected), str(not expected))


def _length(found: re.Match[str], local_values: Mapping[str, Any]) -> _Words:
    """A dict of another length: torch writes the check that failed with its sign turned round (``len(d) != 1``)."""
    got = _look_up(f"len({found[1]})", local_values)
    return _compared(f"len({readable(found[1], None)})", found[2], None if got is _UNKNOWN else str(got))


def _compared(source: str, expected: str, got: str | None) -> _Words:
    return _Words(f"{source} == {expected}" + (f", got {got}" if got else ""), source, expected, got)


def _keywords(found: re.Match[str], local_values: Mapping[str, Any]) -> _Words:
    """A wrapper that takes ``**kwargs`` was called with other keywords: ``keyword arguments: expected none, got flag``."""
    held = local_values.get("kwargs")
    got = None if type(held) is not dict else ", ".join(sorted(map(str, held))) or "none"
    expected = (
        "none"
        if found[0].startswith("not ")
        else ", ".join(re.findall(r"'(\w+)'(?=[,\]])", found["keys"] or ""))
    )
    return _expected("keyword arguments", expected or "others", got)


def _backend(_: re.Match[str], __: Mapping[str, Any]) -> _Words:
    """All guards hold, and the backend is another object: torch 2.8 says nothing then, later ones BACKEND_MATCH."""
    return _Words("its guards hold: it was compiled with another backend object")


def _holds(_: re.Match[str], __: Mapping[str, Any]) -> _Words:
    return _Words(
        "its guards hold by now: it was being compiled in another thread when this call looked for it"
    )


_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Mapping[str, Any]], _Words]], ...] = (
    (_TENSOR, _tensor),
    (_DEVICE, _device),
    (_NO_TENSOR, _no_tensor),
    (_TYPE, _type),
    (_OBJECT, _object),
    (_GLOBAL, _global),
    (_MARK, _mark),
    (_MARKED, _marked),
    (_KEY, _key),
    (_LENGTH, _length),
    (_KEYWORDS, _keywords),
    (re.compile(_HOLDS), _holds),
    (re.compile(r"^$|^BACKEND_MATCH failure"), _backend),
)


def _comparison(condition: str, local_values: Mapping[str, Any]) -> _Words:
    """Any other guard: the condition as a person writes it, and the values of what it compares."""
    text = readable(condition, None)
    try:
        tree = ast.parse(condition, mode="eval").body
    except (SyntaxError, ValueError):  # torch's own words
        return _Words(text.partition(". ")[0] if "\n" not in text else text.splitlines()[0])
    sides = _operands(tree)
    if len(sides) == 2 and isinstance(tree, ast.Compare) and isinstance(tree.ops[0], ast.Eq):
        return _equality(*sides, local_values)
    values = [(readable(ast.unparse(s), None), _look_up_node(s, local_values)) for s in sides if _is_input(s)]
    known = [f"{name} = {_shown(value)}" for name, value in values if value is not _UNKNOWN]
    source = values[0][0] if values else ""
    return _Words(
        f"{text}, got {', '.join(known)}" if known else text, source, text, ", ".join(known) or None
    )


def _operands(tree: ast.expr) -> list[ast.expr]:
    if isinstance(tree, ast.Compare):
        return [tree.left, *tree.comparators]
    if isinstance(tree, ast.UnaryOp):
        return [tree.operand]
    if isinstance(tree, ast.BoolOp):
        return [side for value in tree.values for side in _operands(value)]
    return [tree]


def _equality(left: ast.expr, right: ast.expr, local_values: Mapping[str, Any]) -> _Words:
    """``k == 1`` as ``k == 1, got 2``; two inputs that had to be equal as both their values."""
    if not _is_input(left):
        left, right = right, left
    source, expected = readable(ast.unparse(left), None), readable(ast.unparse(right), None)
    got, other = _look_up_node(left, local_values), _look_up_node(right, local_values)
    shown = None if got is _UNKNOWN else _shown(got)
    if _is_input(right) and shown is not None and other is not _UNKNOWN:
        return _Words(
            f"{source} == {expected}, got {shown} and {_shown(other)}",
            source,
            expected,
            f"{shown} and {_shown(other)}",
        )
    tail = f", got {shown}" if shown is not None else ""
    return _Words(f"{source} == {expected}{tail}", source, expected, shown)


def _is_input(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) for n in ast.walk(node))


_UNKNOWN = object()
_MOST_SHOWN = 60
_PLAIN = (int, float, bool, complex, str, bytes, type(None))


def _shown(value: Any) -> str:
    """A value in few words; objects by their type, since their ``repr`` is the user's code."""
    if type(value) in _PLAIN or type(value) in (torch.dtype, torch.device, torch.Size):
        text = repr(tuple(value) if type(value) is torch.Size else value)
        return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"
    if (name := _member_name(value)) is not None:
        return name
    if type(value) in (list, tuple, set, frozenset) and all(type(v) in _PLAIN for v in value):
        text = repr(value)
        return text if len(text) <= _MOST_SHOWN else f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def _member_name(value: Any) -> str | None:
    """``Color.RED`` for a member of an Enum."""
    if not issubclass(type(type(value)), enum.EnumMeta):
        return None
    name = _instance_dict(value).get("_name_")
    return f"{type(value).__name__}.{name}" if type(name) is str else None


def _class_name(text: str) -> str:
    found = re.match(r"<class '(.*)'>", text)
    return f"a {found[1].rpartition('.')[2]}" if found else text


def _look_up(expression: str, local_values: Mapping[str, Any]) -> Any:
    try:
        tree = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError):
        return _UNKNOWN
    return _look_up_node(tree, local_values)


def _look_up_node(node: ast.expr, local_values: Mapping[str, Any]) -> Any:
    """The value of an expression of Dynamo's, or _UNKNOWN where reading it could run the user's code."""
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return _evaluate(node, local_values)
    except _CannotReadError:
        return _UNKNOWN


class _CannotReadError(Exception):
    """The expression asks for something that is not at hand, or not safe to ask for."""


def _evaluate(node: ast.expr, local_values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in local_values:
        return local_values[node.id]
    if isinstance(node, ast.Attribute):
        return _attribute(_evaluate(node.value, local_values), node.attr)
    if isinstance(node, ast.Subscript):
        return _item(_evaluate(node.value, local_values), _evaluate(node.slice, local_values))
    if isinstance(node, ast.Call):
        return _call(node, local_values)
    return _arithmetic(node, local_values)


def _arithmetic(node: ast.expr, local_values: Mapping[str, Any]) -> int:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(_evaluate(node.operand, local_values))
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        sides = [_number(_evaluate(side, local_values)) for side in (node.left, node.right)]
        return _ARITHMETIC[type(node.op)](*sides)
    raise _CannotReadError


def _divided(a: int, b: int) -> int:
    if b == 0:
        raise _CannotReadError
    return a // b


def _remainder(a: int, b: int) -> int:
    if b == 0:
        raise _CannotReadError
    return a % b


_ARITHMETIC: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: _divided,
    ast.Mod: _remainder,
}


def _number(value: Any) -> int:
    if type(value) is not int:
        raise _CannotReadError
    return value


def _attribute(owner: Any, name: str) -> Any:
    """An instance attribute as stored; never a property or ``__getattr__``, which are the user's code."""
    slot = inspect.getattr_static(type(owner), name, None)
    if type(slot) in _SLOTS:
        return _slot(slot, owner)
    stored = _instance_dict(owner)
    if name in stored:
        return stored[name]
    for table in (
        "_parameters",
        "_buffers",
        "_modules",
    ):  # where nn.Module keeps what it does not store plainly
        held = stored.get(table)
        if type(held) is dict and name in held:
            return held[name]
    if name == "__dict__":
        return stored
    raise _CannotReadError


# What reads a field that is kept without a __dict__: of __slots__, slice, range and partial; of a named tuple.
_SLOTS = (types.MemberDescriptorType, type(collections.namedtuple("_Pair", "first").first))


def _slot(slot: Any, owner: Any) -> Any:
    try:
        return slot.__get__(owner)
    except AttributeError as error:  # never set
        raise _CannotReadError from error


def _instance_dict(owner: Any) -> dict[str, Any]:
    try:
        stored = object.__getattribute__(owner, "__dict__")
    except Exception as error:
        raise _CannotReadError from error
    if type(stored) is not dict:
        raise _CannotReadError
    return stored


_HOLDERS = (list, tuple, dict, torch.Size)


def _item(owner: Any, key: Any) -> Any:
    if type(owner) not in _HOLDERS or type(key) not in _PLAIN:
        raise _CannotReadError
    try:
        found = owner[key]
    except (LookupError, TypeError) as error:
        raise _CannotReadError from error
    return found


def _call(node: ast.Call, local_values: Mapping[str, Any]) -> Any:
    """``x.size()``, ``x.stride()``, ``x.storage_offset()`` of a real tensor; ``len`` and keys of a plain container."""
    function = node.func
    called = ast.unparse(function)
    if called in _OF_CONTAINERS and len(node.args) == 1:
        held = _evaluate(node.args[0], local_values)
        kinds, read = _OF_CONTAINERS[called]
        if type(held) in kinds:
            return read(held)
    if isinstance(function, ast.Attribute) and not node.args and function.attr in _METHODS:
        owner = _evaluate(function.value, local_values)
        if type(owner) in (torch.Tensor, torch.nn.Parameter):
            return _METHODS[function.attr](owner)
    raise _CannotReadError


_OF_CONTAINERS: dict[str, tuple[tuple[type, ...], Callable[[Any], Any]]] = {
    "len": ((list, tuple, dict, set, frozenset, str, torch.Size), len),
    "dict.keys": ((dict,), list),
    "list": ((list,), list),
}
_METHODS: dict[str, Callable[[torch.Tensor], Any]] = {
    "size": torch.Tensor.size,
    "stride": torch.Tensor.stride,
    "storage_offset": torch.Tensor.storage_offset,
    "dim": torch.Tensor.dim,
}


def changed_sizes(
    graph: GraphRecord, local_values: Mapping[str, Any], positions: Positions = NO_POSITIONS
) -> tuple[str, ...]:
    """The constant sizes of a graph's inputs that a call has otherwise: ``x.shape[0]``. torch names the first one only.

    Sizes 0 and 1 are left out, which stay constants whatever is marked.
    """
    values = {**local_values, "L": local_values}
    inputs = [n for n in graph.nodes if n.op == "placeholder" and isinstance(n.value, TensorMeta)]
    return tuple([f"{name}.shape[{dim}]" for n in inputs for name, dim in _changed(n, values, positions)])


def _changed(node: NodeRecord, values: Mapping[str, Any], positions: Positions) -> Iterator[tuple[str, int]]:
    source = node.source
    if source is None or not source.origin or source.input_kind in ("parameter", "buffer"):
        return
    assert isinstance(node.value, TensorMeta)
    now = _look_up(f"{source.origin}.size()", values)
    if type(now) is not torch.Size or len(now) != len(node.value.shape):
        return
    for dim, (was, is_now) in enumerate(zip(node.value.shape, now, strict=True)):
        if type(was) is int and was != is_now and not {was, is_now} & {0, 1}:
            yield readable(source.origin, None, positions), dim


# What a guard expects that stands for no value of its own.
_NO_VALUE = ("the same object", "as when it was compiled", None)


def explained(failed: Sequence[FailedGuard], values: dict[str, set[str]]) -> tuple[FailedGuard, ...]:
    """The failed guard of each variant, the one that tells most first; the others keep torch's order, used last first.

    torch names one guard a variant: the first that did not hold. A value that some variant was made for is no news, a
    value that none has seen is why a new one is needed. ``values`` are those of the variants so far, by source; they take in
    these.
    """
    for guard in failed:
        if guard.expected is not None:
            values.setdefault(guard.source, set()).add(guard.expected)
    ordered = tuple(sorted(failed, key=lambda guard: _news(guard, values)))
    for guard in failed:
        if guard.got is not None:
            values.setdefault(guard.source, set()).add(guard.got)
    return ordered


def _news(guard: FailedGuard, values: Mapping[str, set[str]]) -> int:
    """0 for a value that no variant has, 1 where that cannot be told, 2 for a value that one has."""
    if guard.got is None or guard.expected in _NO_VALUE:
        return 1
    return 2 if guard.got in values.get(guard.source, ()) else 0


def attempts(texts: Sequence[str]) -> list[list[str]]:
    """Failure texts of one code object by attempt: each attempt lists every variant at most once."""
    found: list[list[str]] = []
    named: set[str | None] = set()
    for text in texts:
        variant = variant_of(text)
        if not found or variant in named:
            found.append([])
            named = set()
        found[-1].append(text)
        named.add(variant)
    return found
