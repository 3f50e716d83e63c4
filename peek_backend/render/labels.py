"""How things read. This module alone decides that a tensor is written ``f32[s0, 16]``.

Comes in: records. Goes out: one line of plain text, shortened where it would run on. Nothing is escaped here:
each output escapes for itself, at the last moment (``escape.py``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from ..analysis.dims import broadcast_dims, memory_format
from ..model import (
    Arg,
    Dim,
    GraphRecord,
    Leaf,
    NodeRecord,
    NoneInfo,
    Opaque,
    ScalarInfo,
    SizeInfo,
    SymBool,
    SymFloat,
    SymInt,
    TensorMeta,
    TupleInfo,
    ValueInfo,
)
from ..model.dtypes import DTYPES

MAX_NAME = 80
"""Characters of a name or target that a label shows."""
MAX_EXPR = 60
"""Characters of a symbolic expression that a label shows."""
MAX_STRING = 60
"""Characters of a string argument that a label shows."""
MAX_ITEMS = 8
"""Items of a list that a label shows: a ``cat`` of 600 inputs is one line."""


class Style(Struct, frozen=True):
    """What a value's text tells beyond dtype and shape.

    ``home`` is the device that goes without saying; None never names a device. ``layout`` marks strides
    that are not plain, ``grad`` the tensors that require it, ``fate`` what later nodes do to the tensor
    (``mutated``, ``became``). ``items`` is how many items of a tuple are shown.
    """

    home: str | None = None
    layout: bool = True
    grad: bool = True
    fate: bool = True
    items: int = 4


PLAIN = Style()
BARE = Style(layout=False, grad=False, fate=False)


def shorten(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` characters; what is too long loses its middle."""
    if len(text) <= limit:
        return text
    if limit < 2:
        return "…"[:limit]
    tail = (limit - 1) // 3
    return f"{text[: limit - 1 - tail]}…{text[len(text) - tail :]}"


_STACK = re.compile(r"___stack\d+")


def said(text: str) -> str:
    """``text`` with Dynamo's own names for what a broken call returned (``___stack0``) and for what the functions around it
    hold (``__resume_frame_values[1]``) in words."""
    text = _STACK.sub("the broken call's result", text) if "___stack" in text else text
    return text.replace("__resume_frame_values", "the broken function's values")


def some(items: Sequence, read: Callable[..., str], limit: int = MAX_ITEMS) -> str:
    """Items joined by commas: the first few, how many are left out, and the last."""
    if len(items) <= limit:
        return ", ".join([read(item) for item in items])
    head = [read(item) for item in islice(items, limit - 1)]
    return f"{', '.join(head)}, … {len(items) - limit} more, {read(items[-1])}"


def plural(count: int, word: str) -> str:
    """``1 node``, ``2 nodes``, ``10,000 nodes``, ``2 graph breaks``, ``3 branches``, ``2 copies``."""
    if count == 1:
        return f"1 {word}"
    if word.endswith(("ch", "sh", "s", "x")):
        return f"{count:,} {word}es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{count:,} {word[:-1]}ies"
    return f"{count:,} {word}s"


def bytes_text(count: float) -> str:
    """Bytes with a binary unit: ``512 B``, ``1.5 KiB``, ``13.4 GiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1023.5 or unit == "TiB":  # 1024 MiB, rounded, is 1.0 GiB
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" or size >= 99.95 else f"{size:.1f} {unit}"


def dim_text(dim: Dim) -> str:
    """One size, stride or offset: ``16``, ``s0``, ``2*s0 + 1``; a long expression loses its middle."""
    if isinstance(dim, int):
        return str(dim)
    return dim if len(dim) <= MAX_EXPR else shorten(dim, MAX_EXPR)


def shape_text(shape: Sequence[Dim]) -> str:
    """Sizes in brackets: ``[s0, 16]``, ``[]`` for a scalar tensor."""
    return f"[{', '.join([str(d) if type(d) is int else dim_text(d) for d in shape])}]"


def stride_text(stride: Sequence[Dim] | None) -> str:
    """Strides in parentheses: ``(16, 1)``; empty where the layout has none."""
    return "" if stride is None else f"({', '.join(dim_text(d) for d in stride)})"


def dtype_text(dtype: str) -> str:
    """A dtype's short name (``f32``); one that has none stays as it is."""
    return DTYPES.get(dtype) or dtype.removeprefix("torch.")


def range_text(lower: float | None, upper: float | None) -> str:
    """A symbol's range, both ends included: ``[2, 64]``, ``[2, ∞]``, ``[-∞, ∞]``."""
    return f"[{'-∞' if lower is None else lower}, {'∞' if upper is None else upper}]"


@lru_cache(maxsize=16_384)
def layout_text(shape: tuple[Dim, ...], stride: tuple[Dim, ...]) -> str:
    """What is special in strides: empty if contiguous, ``channels_last``, ``broadcast(0)``, ``stride(1, 8)``.

    ``broadcast(0)`` names the dims with stride 0, of a tensor that is contiguous but for these.
    """
    kind = memory_format(shape, stride)
    if kind == "contiguous":
        return ""
    if kind in ("channels_last", "channels_last_3d"):
        return kind
    repeated = broadcast_dims(shape, stride)
    if repeated:
        rest = [d for d in range(len(shape)) if d not in repeated]
        if memory_format(tuple(shape[d] for d in rest), tuple(stride[d] for d in rest)) == "contiguous":
            return f"broadcast({', '.join(map(str, repeated))})"
    return f"stride{stride_text(stride)}"


def _marks(meta: TensorMeta, style: Style) -> Iterable[str]:
    """The words after ``f32[8, 4]``, in a fixed order."""
    if meta.layout != "strided":
        yield meta.layout.removeprefix("torch.")
    elif style.layout and meta.stride is not None:
        yield layout_text(meta.shape, meta.stride)
    for flag in meta.flags:
        if flag in ("conj", "neg", "nested"):
            yield flag
    if style.home is not None and meta.device != style.home:
        yield meta.device
    if style.grad and meta.requires_grad:
        yield "grad"
    if style.fate and "mutated" in meta.flags and meta.became is None:
        yield "mutated"


def tensor_text(meta: TensorMeta, style: Style = PLAIN) -> str:
    """``f32[s0, 16]`` and what is special: ``f32[8, 4] grad``, ``f32[4] → f32[1, 4]``.

    The text after an arrow is what the tensor became by a later in-place op. A subclass shows its
    inner tensors: ``f32[8, 4] DTensor {_local_tensor: f32[2, 4]}``.
    """
    text = f"{DTYPES.get(meta.dtype) or dtype_text(meta.dtype)}{shape_text(meta.shape)}"
    marks = [mark for mark in _marks(meta, style) if mark]
    if meta.subclass:
        marks.insert(0, shorten(_last_word(meta.subclass), MAX_NAME))
    if marks:
        text = " ".join([text, *marks])
    if meta.inner:
        inner = some(
            list(meta.inner.items()), lambda kv: f"{shorten(kv[0], MAX_NAME)}: {value_text(kv[1], style)}", 4
        )
        text = f"{text} {{{inner}}}"
    if style.fate and meta.became is not None:
        text = f"{text} → {tensor_text(meta.became, style)}"
    return text


def _last_word(qualified: str) -> str:
    """``torch.distributed.DTensor`` to ``DTensor``; what stands in parentheses is left whole."""
    head, bracket, rest = qualified.partition("(")
    return head.rpartition(".")[2] + bracket + rest


def _sym_text(value: SymInt | SymFloat | SymBool) -> str:
    expr = dim_text(value.expr)
    if value.hint is None or value.expr == str(value.hint):
        return expr
    return f"{expr} is {value.hint}" if isinstance(value, SymBool) else f"{expr} = {value.hint}"


def _tuple_text(value: TupleInfo, style: Style) -> str:
    """``(f32[8], i64[8])``, ``topk(values=f32[2], indices=i64[2])``, ``[f32[8]]``, ``{'a': f32[8]}``."""
    kind = value.type.rpartition(".")[2]

    def read(pair: tuple[str | None, ValueInfo]) -> str:
        name, item = pair
        text = value_text(item, style)
        if name is None:
            return text
        return f"{name!r}: {text}" if kind == "dict" else f"{shorten(name, MAX_NAME)}={text}"

    names = value.fields if len(value.fields) == len(value.items) else (None,) * len(value.items)
    inside = some(list(zip(names, value.items, strict=True)), read, style.items)
    if kind == "list":
        return f"[{inside}]"
    if kind == "dict":
        return f"{{{inside}}}"
    if value.fields or kind not in ("tuple", "Size", "immutable_list"):
        return f"{shorten(kind, MAX_NAME)}({inside})"
    return f"({inside},)" if len(value.items) == 1 else f"({inside})"


def _scalar_text(value: ScalarInfo) -> str:
    if value.value is None:
        return value.type
    if isinstance(value.value, str) and value.type == "str":
        return string_text(value.value)
    return shorten(str(value.value), MAX_STRING)


def opaque_text(value: Opaque) -> str:
    """A value that peek knows only by its type: ``ScriptObject``, ``DeviceMesh (2, 4)``."""
    name = shorten(value.type_name.rpartition(".")[2], MAX_NAME)
    return f"{name} {shorten(value.text, MAX_STRING)}" if value.text else name


_READERS: dict[type, Callable[[ValueInfo, Style], str]] = {
    TensorMeta: tensor_text,
    SymInt: lambda value, style: _sym_text(value),
    SymFloat: lambda value, style: _sym_text(value),
    SymBool: lambda value, style: _sym_text(value),
    TupleInfo: _tuple_text,
    SizeInfo: lambda value, style: f"Size{shape_text(value.shape)}",
    ScalarInfo: lambda value, style: _scalar_text(value),
    NoneInfo: lambda value, style: "None",
    Opaque: lambda value, style: opaque_text(value),
}


def value_text(value: ValueInfo | None, style: Style = PLAIN) -> str:
    """What a node computes: ``f32[s0, 16] grad``, ``s0 = 8``; empty when torch recorded nothing."""
    return "" if value is None else _READERS[type(value)](value, style)


def string_text(text: str) -> str:
    """A string in quotes as Python writes it, control characters spelled out; a long one shows its length."""
    if len(text) <= MAX_STRING:
        return repr(text)
    return f"{text[: MAX_STRING - 1]!r}… ({len(text):,} characters)"


def name_text(name: str) -> str:
    """A node's name, shortened when absurdly long."""
    return name if len(name) <= MAX_NAME else shorten(name, MAX_NAME)


def _node_text(index: int, names: Sequence[str]) -> str:
    return name_text(names[index]) if 0 <= index < len(names) else f"node {index}"


def _slice_text(parts: tuple[Arg, Arg, Arg], names: Sequence[str]) -> str:
    """``:``, ``1:``, ``:n``, ``::2``."""
    start, stop, step = ("" if part is None else arg_text(part, names) for part in parts)
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def _dict_text(pairs: tuple[tuple[Arg, Arg], ...], names: Sequence[str]) -> str:
    return f"{{{some(pairs, lambda kv: f'{arg_text(kv[0], names)}: {arg_text(kv[1], names)}')}}}"


def _word(text: str, names: Sequence[str]) -> str:
    return shorten(text.removeprefix("torch."), MAX_STRING)


def _leaf_text(leaf: Leaf, names: Sequence[str]) -> str:
    """An argument that JSON has no type for."""
    for field, read in _LEAVES.items():
        value = getattr(leaf, field)
        if value is not None:
            return read(value, names)
    return "?"


def arg_text(arg: Arg, names: Sequence[str]) -> str:
    """One argument: ``names`` gives the label of each node by index."""
    if isinstance(arg, Leaf):
        return _leaf_text(arg, names)
    if isinstance(arg, tuple):
        return f"[{some(arg, lambda item: arg_text(item, names))}]"
    if isinstance(arg, str):
        return string_text(arg)
    text = repr(arg)
    return text if len(text) <= MAX_STRING else shorten(text, MAX_STRING)


# By the one field that a Leaf has set.
_LEAVES: dict[str, Callable[..., str]] = {
    "node": _node_text,
    "dtype": lambda value, names: dtype_text(value),
    "device": _word,
    "layout": _word,
    "memory_format": _word,
    "sym": lambda value, names: dim_text(value),
    "slice": _slice_text,
    "dict": _dict_text,
    "float": _word,
    "complex": _word,
    "ellipsis": lambda value, names: "...",
    "nested": arg_text,
    "function": lambda value, names: target_text(value),
    "repr": lambda value, names: shorten(value, MAX_STRING),
}


def args_text(node: NodeRecord, names: Sequence[str]) -> str:
    """All arguments of a node, keywords with their name: ``x, weight, dim=1``."""
    parts = node.args
    if not node.kwargs:
        if len(parts) <= MAX_ITEMS:
            return ", ".join([arg_text(arg, names) for arg in parts])
        return some(parts, lambda arg: arg_text(arg, names))
    keywords = [f"{shorten(k, MAX_NAME)}={arg_text(v, names)}" for k, v in node.kwargs.items()]
    texts = [arg_text(arg, names) for arg in parts] + keywords
    return some(texts, str, 2 * MAX_ITEMS)


# Modules that people write under another name, longest first.
_ALIASES = (
    ("torch.nn.functional.", "F."),
    ("torch._C._nn.", "F."),
    ("torch._C._special.", "torch.special."),
    ("torch._C._fft.", "torch.fft."),
    ("torch._C._linalg.", "torch.linalg."),
    ("torch._C._VariableFunctions.", "torch."),
    ("torch._C._TensorBase.", "."),
    ("torch._C.TensorBase.", "."),
    ("torch._tensor.Tensor.", "."),
    ("torch.Tensor.", "."),
    ("torch._ops.", ""),
    ("torch.ops.", ""),
    ("_operator.", "operator."),
    ("builtins.", ""),
)


@lru_cache(maxsize=4096)
def target_text(target: str) -> str:
    """A target's short name: ``F.linear``, ``aten.mm``, ``operator.add``, ``cond``.

    A function deep inside torch keeps the package and its own name: ``torch._functorch.predispatch._add_batch_dim``
    is ``functorch._add_batch_dim``.
    """
    for long, short in _ALIASES:
        if target.startswith(long):
            target = short + target[len(long) :]
            break
    target = target.removeprefix("higher_order.")
    parts = target.split(".")
    if parts[0] == "torch" and len(parts) > 3:
        target = f"{parts[1].lstrip('_')}.{parts[-1]}"
    return shorten(target.removesuffix(".default"), MAX_NAME)


def node_target_text(node: NodeRecord) -> str:
    """A node's target as in code: ``F.linear``, ``.view`` for a method, ``self.fc1`` for a get_attr."""
    if node.op == "call_method":
        return f".{name_text(node.target)}"
    if node.op in ("get_attr", "call_module"):
        return f"self.{name_text(node.target)}"
    if node.op == "placeholder":
        return name_text(input_text(node))
    return "output" if node.op == "output" else target_text(node.target)


def input_text(node: NodeRecord) -> str:
    """A placeholder's source as a person writes it (``fc1.weight``, ``batch[0]['ids']``), else its target."""
    source = node.source
    return source.input if source is not None and source.input else node.target


def names_of(graph: GraphRecord) -> list[str]:
    """How arguments refer to each node, by index: its name, a parameter or buffer by its path.

    Dynamo's own names of parameters run to 80 characters (``l_self_modules_fc1_parameters_weight_``). A path has
    a dot, which no name has, so that the two are never confused; one without keeps the name.
    """
    return [_reference(node) if node.op == "placeholder" else node.name for node in graph.nodes]


def _reference(node: NodeRecord) -> str:
    source = node.source
    if source is None or source.input is None or source.input_kind not in ("parameter", "buffer"):
        return node.name
    return source.input if "." in source.input else node.name


def returned_text(node: NodeRecord, names: Sequence[str]) -> str:
    """What an output node hands back: ``y, loss``; the flat tuple that Dynamo always makes is not shown."""
    values = node.args[0] if len(node.args) == 1 else node.args
    return (
        some(values, lambda arg: arg_text(arg, names))
        if isinstance(values, tuple)
        else arg_text(values, names)
    )


def call_text(node: NodeRecord, graph: GraphRecord, names: Sequence[str] | None = None) -> str:
    """A node as one expression: ``F.linear(x, w)``, ``h.view(4, -1)``, ``a + b``, ``x[:, 0]``, ``return y``.

    Pass ``names`` (``names_of(graph)``) when asking for many nodes of one graph.
    """
    names = names_of(graph) if names is None else names
    if node.op in ("placeholder", "get_attr"):
        return node_target_text(node)
    if node.op == "output":
        return f"return {returned_text(node, names)}".rstrip()
    if node.op == "call_method" and node.args:
        receiver = arg_text(node.args[0], names)
        rest = NodeRecord(node.index, "", "", "", node.args[1:], node.kwargs, None, None)
        return f"{receiver}.{name_text(node.target)}({args_text(rest, names)})"
    return _operator_text(node, names) or f"{node_target_text(node)}({args_text(node, names)})"


def _operator_text(node: NodeRecord, names: Sequence[str]) -> str | None:
    """``a + b``, ``x[:, 0]``, ``x[0] = y`` for a function of Python's operator module; None for any other call."""
    module, _, name = node.target.rpartition(".")
    if node.op != "call_function" or module not in ("_operator", "operator") or node.kwargs:
        return None
    form = _OPERATORS.get(name)
    if form is None or form.count("{}") != len(node.args):
        return None
    texts = [arg_text(arg, names) for arg in node.args]
    if name in ("getitem", "setitem"):
        texts[1] = _index_text(node.args[1], names)
    return form.format(*texts)


def _index_text(index: Arg, names: Sequence[str]) -> str:
    """What stands between the brackets: a tuple without its own, as in ``x[..., :8]`` and ``x[y,]``."""
    if not isinstance(index, tuple) or not index:
        return "()" if index == () else arg_text(index, names)
    inside = some(index, lambda arg: arg_text(arg, names))
    return f"{inside}," if len(index) == 1 else inside


# What the functions of Python's operator module are written as; FX arguments are names or constants, so that no
# parentheses are needed.
_OPERATORS: dict[str, str] = {
    **{
        name: f"{{}} {sign} {{}}"
        for name, sign in {
            "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
            "matmul": "@", "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
            "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "is_": "is", "is_not": "is not",
            "iadd": "+=", "isub": "-=", "imul": "*=", "itruediv": "/=", "ifloordiv": "//=", "ipow": "**=",
            "imatmul": "@=", "iand": "&=", "ior": "|=", "ixor": "^=",
        }.items()
    },
    "neg": "-{}", "pos": "+{}", "invert": "~{}", "not_": "not {}",
    "getitem": "{}[{}]", "setitem": "{}[{}] = {}",
}  # fmt: skip


def place_text(file: str | None, line: int | None, *, full: bool = False) -> str:
    """``model.py:12``: the file's own name (its whole path with ``full``) and the line; empty for no file."""
    if not file:
        return ""
    name = file if full else file.replace("\\", "/").rpartition("/")[2]
    return f"{name}:{line}" if line else name


_RESUME = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)$")


def code_text(name: str) -> str:
    """A code object's name as its author knows it: ``main.<locals>.f`` is ``f``; resumed code says where."""
    name = name.rpartition("<locals>.")[2]
    resumed = _RESUME.search(name)
    return f"{name_text(resumed[1])} ▸ resumed at line {resumed[2]}" if resumed else name_text(name)


def graph_keys(graphs: Sequence[GraphRecord]) -> list[str]:
    """What to call each graph of a capture: its key, the attempt left out where no other has the same name.

    Dynamo often restarts before it calls the backend, so that the only graph of a compile is attempt 1.
    """
    plain = [replace(graph, attempt=0, nodes=(), children=()).key for graph in graphs]
    counts = Counter(plain)
    return [short if counts[short] == 1 else graph.key for graph, short in zip(graphs, plain, strict=True)]
