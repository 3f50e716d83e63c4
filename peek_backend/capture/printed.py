"""The text of a graph, as torch prints it (``print_readable``), as a GraphRecord.

torch's caches and its trace log keep graphs as text only. The text is Python, each value with its type in quotes and each group
of nodes below a comment that names their line::

    # File: model.py:8 in forward, code: y = x + 1
    add: "f32[4, 8][8, 1]cpu" = torch.ops.aten.add.Tensor(primals_1, 1);  primals_1 = None
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from torch.utils import _dtype_abbrs

from ..model import (
    Arg,
    Dim,
    GraphRecord,
    Leaf,
    NodeRecord,
    Source,
    SymInt,
    TensorMeta,
    ValueInfo,
)
from ..model.graph import MAX_NESTING

# torch 2.14 and later say of a backward's node whose line it is.
_PLACE = re.compile(
    r"^\s*# (?:Backward of forward node: )?File: (?P<file>.+?):(?P<line>\d+) in (?P<function>.*?), code: (?P<code>.*)$"
)
_CLASS = re.compile(r"^(\s*)class (\S+)\(torch\.nn\.Module\):", re.MULTILINE)
_NO_NAME = re.compile(r"\W")
_NO_PLACE = re.compile(r"^\s*# No stacktrace found")
_TENSOR = re.compile(r"^(?P<dtype>[a-z]\w*)\[")
_DTYPES = {short: str(dtype).removeprefix("torch.") for dtype, short in _dtype_abbrs.dtype_abbrs.items()}
_OPERATORS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor", ast.LShift: "lshift",
    ast.RShift: "rshift", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.USub: "neg", ast.Invert: "invert", ast.Not: "not_", ast.UAdd: "pos",
}  # fmt: skip


class Descriptors(NamedTuple):
    """What the comments beside the inputs and outputs of a printed graph say (torch 2.9 and later).

    ``inputs`` has the ordinal of each placeholder that is an input of AOTAutograd's, or a part of one; ``tangents`` each
    tangent's output, None for a mutated input or a base; ``gradients`` for each output the input whose gradient it is.
    """

    inputs: dict[str, int]
    tangents: dict[str, int | None]
    gradients: tuple[int | None, ...]


_DESCRIBED_INPUT = re.compile(r"^\s*(\w+)(?:: \".*?\")?,?\s+# (\w+AOTInput\(.*\))\s*$", re.MULTILINE)
_DESCRIBED_OUTPUT = re.compile(r"^\s*\w+,\s+# (None|\w+AOTOutput\(.*\))\s*$", re.MULTILINE)
_INPUT = re.compile(r"\bPlainAOTInput\(idx=(\d+)\)")
_OUTPUT = re.compile(r"\bPlainAOTOutput\(idx=(\d+)\)")
_NO_OUTPUT = ("InputMutationAOTOutput", "IntermediateBaseAOTOutput")


def descriptors(text: str) -> Descriptors:
    """The descriptors that torch prints beside a graph's inputs and outputs; nothing where it prints none."""
    inputs: dict[str, int] = {}
    tangents: dict[str, int | None] = {}
    for name, told in _DESCRIBED_INPUT.findall(text):
        if told.startswith("TangentAOTInput"):
            output = None if any(kind in told for kind in _NO_OUTPUT) else _OUTPUT.search(told)
            tangents[name] = int(output[1]) if output else None
        elif (found := _INPUT.search(told)) is not None:
            inputs[name] = int(found[1])
    ends = [_INPUT.search(told) for told in _DESCRIBED_OUTPUT.findall(text)]
    return Descriptors(inputs, tangents, tuple([int(found[1]) if found else None for found in ends]))


def parse_graph(text: str, template: GraphRecord) -> GraphRecord:
    """The printed graph as a record like ``template`` (its keys and names), with nodes, bodies, values and lines.

    Raises SyntaxError when the text is no Python, ValueError when there is no ``forward`` in it.
    """
    tree = ast.parse(_CLASS.sub(_named, text))
    module = next((n for n in tree.body if isinstance(n, ast.ClassDef)), None)
    if module is None:
        raise ValueError("no class in the text of the graph")
    bodies = [n for n in module.body if isinstance(n, ast.ClassDef)]
    numbers = {body.name: i for i, body in enumerate(_all_bodies(bodies))}
    places = _places(text)
    children = tuple(
        [
            GraphRecord(
                template.compile_id,
                template.stage,
                _Reader(_forward(b), places, numbers).read(),
                (),
                name=b.name,
                rank=template.rank,
            )
            for b in _all_bodies(bodies)
        ]
    )
    nodes = _Reader(_forward(module), places, numbers).read()
    return msgspec.structs.replace(template, nodes=nodes, children=children)


def _named(line: re.Match[str]) -> str:
    """A class line that Python can read: torch names a root after its function, ``<lambda>`` too."""
    return f"{line[1]}class {_NO_NAME.sub('_', line[2])}(torch.nn.Module):"


def _all_bodies(bodies: list[ast.ClassDef]) -> list[ast.ClassDef]:
    found = []
    for body in bodies:
        found.append(body)
        found += _all_bodies([n for n in body.body if isinstance(n, ast.ClassDef)])
    return found


def _forward(module: ast.ClassDef) -> ast.FunctionDef:
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name == "forward":
            return node
    raise ValueError(f"no forward in the text of {module.name}")


def _places(text: str) -> list[Source | None]:
    """For each line of the text the source that the comment above it names."""
    found: list[Source | None] = [None]
    now: Source | None = None
    for line in text.splitlines():
        if match := _PLACE.match(line):
            now = Source(match["file"], int(match["line"]), match["function"], match["code"])
        elif _NO_PLACE.match(line) or line.lstrip().startswith("def "):
            now = None
        found.append(now)
    return found


class _Reader:
    """Reads the ``forward`` of one printed module."""

    def __init__(self, function: ast.FunctionDef, places: list[Source | None], bodies: Mapping[str, int]):
        self._function, self._places, self._bodies = function, places, bodies
        self._nodes: list[NodeRecord] = []
        self._at: dict[str, int] = {}
        self._announced: dict[str, ast.expr] = {}

    def read(self) -> tuple[NodeRecord, ...]:
        for arg in self._function.args.args[1:]:
            self._add(arg.arg, "placeholder", arg.arg, (), {}, _annotation(arg.annotation), None)
        for statement in self._function.body:
            if isinstance(statement, ast.Return):
                value = () if statement.value is None else (self._arg(_returned(statement.value)),)
                self._add("output", "output", "output", value, {}, None, None)
            elif isinstance(statement, ast.AnnAssign) and statement.value is None:
                self._announced[ast.unparse(statement.target)] = statement.annotation
            elif (names := _flattened(statement)) is not None:
                self._unpacked(names)
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                self._assign(statement)
        return tuple(self._nodes)

    def _unpacked(self, names: list[str]) -> None:
        """A joint graph is printed with its two lists of inputs; the line that takes them apart names the real ones."""
        self._nodes.clear()
        self._at.clear()
        for name in names:
            self._add(name, "placeholder", name, (), {}, _annotation(self._announced.get(name)), None)

    def _assign(self, statement: ast.Assign | ast.AnnAssign) -> None:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        value = statement.value
        if not isinstance(target, ast.Name) or (isinstance(value, ast.Constant) and value.value is None):
            return  # ``x = None`` frees a value that was read for the last time
        op, name, args, kwargs = self._expression(value)
        meta = _annotation(getattr(statement, "annotation", None))
        self._add(target.id, op, name, args, kwargs, meta, self._places[statement.lineno])

    def _add(self, name: str, op: str, target: str, args: Any, kwargs: Any, value: Any, source: Any) -> None:
        index = self._at[name] = len(self._nodes)
        body = self._bodies.get(target) if op == "get_attr" else None
        self._nodes.append(NodeRecord(index, name, op, target, args, kwargs, value, source, body))

    def _expression(self, node: ast.expr | None) -> tuple[str, str, tuple[Arg, ...], dict[str, Arg]]:
        """op, target, args and kwargs of the right side of an assignment."""
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript):
            index = self._arg(node.slice)
            return "call_function", "operator.getitem", (self._arg(node.value), index), {}
        if (operation := _operation(node)) is not None:
            operator, operands = operation
            name = f"operator.{_OPERATORS[type(operator)]}"
            return "call_function", name, tuple([self._arg(o) for o in operands]), {}
        path = _path(node)
        if path.startswith("self."):
            return "get_attr", path[len("self.") :], (), {}
        return "call_function", "builtins.getattr", (self._arg(node),) if node is not None else (), {}

    def _call(self, node: ast.Call) -> tuple[str, str, tuple[Arg, ...], dict[str, Arg]]:
        args = tuple([self._arg(a) for a in node.args])
        kwargs = {str(k.arg): self._arg(k.value) for k in node.keywords}
        path = _path(node.func)
        root, _, method = path.partition(".")
        if root == "self":
            return "call_module", method, args, kwargs
        if root in self._at and isinstance(node.func, ast.Attribute):
            return "call_method", method, (Leaf(node=self._at[root]), *args), kwargs
        return "call_function", _target(path or ast.unparse(node.func)), args, kwargs

    def _arg(self, node: ast.expr | None, depth: int = 0) -> Arg:
        if isinstance(node, ast.Name):
            return Leaf(node=self._at[node.id]) if node.id in self._at else _word(node.id)
        if isinstance(node, (ast.Tuple, ast.List)):
            if depth + 1 >= MAX_NESTING:
                return Leaf(nested=tuple([self._arg(e) for e in node.elts]))
            return tuple([self._arg(e, depth + 1) for e in node.elts])
        if isinstance(node, ast.Slice):
            return Leaf(slice=(self._arg(node.lower), self._arg(node.upper), self._arg(node.step)))
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            return Leaf(dict=tuple([(self._arg(k), self._arg(v)) for k, v in pairs]))
        return _literal(node)


def _operation(node: ast.expr | None) -> tuple[ast.AST, list[ast.expr]] | None:
    """The operator and operands of ``a + b``, ``-a``, ``a < b``; None for another expression."""
    if isinstance(node, ast.BinOp):
        return node.op, [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return node.op, [node.operand]
    if isinstance(node, ast.Compare):
        return node.ops[0], [node.left, node.comparators[0]]
    return None


def _flattened(statement: ast.stmt) -> list[str] | None:
    """The names on the left of ``a, b, = fx_pytree.tree_flatten_spec(…)``; None for another statement."""
    value = getattr(statement, "value", None)
    if not (
        isinstance(statement, ast.Assign)
        and isinstance(value, ast.Call)
        and "tree_flatten" in _path(value.func)
    ):
        return None
    target = statement.targets[0]
    return [e.id for e in getattr(target, "elts", ()) if isinstance(e, ast.Name)]


def _returned(value: ast.expr) -> ast.expr:
    """What is returned, without ``pytree.tree_unflatten`` around it."""
    if isinstance(value, ast.Call) and "tree_unflatten" in _path(value.func) and value.args:
        return value.args[0]
    return value


def _literal(node: ast.expr | None) -> Arg:
    """A constant, or a word of torch's (``torch.float32``, ``device(type='cpu')``)."""
    if node is None:
        return None
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return _word(ast.unparse(node))
    if value is ...:
        return Leaf(ellipsis=True)
    if isinstance(value, complex):
        return Leaf(complex=str(value))
    if type(value) is int and not -(2**63) <= value < 2**63:
        return Leaf(repr=str(value))
    return value if isinstance(value, (bool, int, float, str, type(None))) else Leaf(repr=repr(value))


_LAYOUTS = ("strided", "jagged", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")
_DEVICE = re.compile(r"^device\(type='(\w+)'(?:, index=(\d+))?\)$")


def _word(text: str) -> Arg:
    if text in ("inf", "nan", "-inf"):
        return Leaf(float=text)
    if match := _DEVICE.match(text):
        return Leaf(device=match[1] if match[2] is None else f"{match[1]}:{match[2]}")
    if text.startswith("torch."):
        short = text.removeprefix("torch.")
        if short in _DTYPES.values():
            return Leaf(dtype=short)
        if short in _LAYOUTS:
            return Leaf(layout=short)
        if short.endswith("_format"):
            return Leaf(memory_format=short)
    return Leaf(repr=text)


def _path(node: ast.expr | None) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _target(path: str) -> str:
    """``torch.ops.aten.mm.default`` reads ``aten.mm.default``, as a live graph's."""
    if path.startswith("torch.ops.higher_order."):
        return path.removeprefix("torch.ops.")
    return path.removeprefix("torch.ops.").replace("_operator.", "operator.")


def _annotation(node: ast.expr | None) -> ValueInfo | None:
    """The type in quotes: ``f32[4, s0][s0, 1]cpu``, ``Sym(s0)``; None for another."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
    if text is None:
        return None
    if text.startswith("Sym(") and text.endswith(")"):
        return SymInt(text[4:-1])
    match = _TENSOR.match(text)
    if match is None or match["dtype"] not in _DTYPES:
        return None
    parts, rest = _brackets(text[match.end() - 1 :])
    if not parts:
        return None
    stride = _dims(parts[1]) if len(parts) > 1 else None
    return TensorMeta(_dims(parts[0]), _DTYPES[match["dtype"]], stride, rest or "", False)


def _brackets(text: str) -> tuple[list[str], str]:
    """The insides of the bracketed groups at the start of ``text``, and what follows them."""
    parts = []
    while text.startswith("["):
        depth = 0
        for at, letter in enumerate(text):
            depth += (letter == "[") - (letter == "]")
            if depth == 0:
                parts.append(text[1:at])
                text = text[at + 1 :]
                break
        else:
            break
    return parts, text


def _dims(text: str) -> tuple[Dim, ...]:
    """``4, Max(1, s0)`` split at its outer commas; numbers as ints."""
    parts, depth, now = [], 0, ""
    for letter in text + ",":
        if letter == "," and depth == 0:
            parts.append(now.strip())
            now = ""
            continue
        depth += (letter in "([") - (letter in ")]")
        now += letter
    return tuple([int(p) if p.lstrip("-").isdigit() else p for p in parts if p])
