"""Inductor's generated code as a graph: a node for each kernel call, in the order in which they run."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..model import Arg, Leaf, NodeRecord, TensorMeta, TupleInfo, ValueInfo

_COMMENT = re.compile(
    r"^\s*# (?:Topologically Sorted|Unsorted) Source Nodes: \[(.*?)\], Original ATen: \[(.*?)\]"
)
_FRAGMENT = re.compile(r"^#\s+%(\w+) : .*= call_function\[")
_DEFINED = re.compile(r"^(\w+) = async_compile\.")
_ALLOCATES = re.compile(r"^empty_strided_(\w+)$")


class KernelCall(NamedTuple):
    """One call: the kernel's name, the buffers it is given, those that it is the first to write, what the comment above it names.

    ``sources`` are names of Dynamo nodes, ``line`` the line in the generated code.
    """

    name: str
    args: tuple[str, ...]
    writes: tuple[str, ...]
    sources: tuple[str, ...]
    line: int


class Code(NamedTuple):
    """What a generated module does: its inputs, kernel calls, the buffers it allocates and those that it returns.

    ``fragments`` has the post-grad nodes of each kernel whose definition names them (Triton's do).
    """

    inputs: tuple[str, ...]
    calls: tuple[KernelCall, ...]
    buffers: Mapping[str, TensorMeta]
    outputs: tuple[str, ...]
    fragments: Mapping[str, tuple[str, ...]]


def parse_code(source: str) -> Code:
    """Read a module that Inductor generated. Raises SyntaxError when it is no Python, ValueError when nothing in it is called."""
    tree = ast.parse(source)
    kernels = _defined(tree)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    bodies = [f for f in functions if re.fullmatch(r"call|partition_\d+", f.name)]
    if not bodies:
        raise ValueError("the generated code has no function 'call'")
    comments = _comments(source)
    reader = _Reader(kernels, comments)
    for body in sorted(bodies, key=lambda f: (f.name == "call", f.lineno)):
        reader.read(body)
    return Code(
        tuple(reader.inputs), tuple(reader.calls), reader.buffers, tuple(reader.outputs), _fragments(source)
    )


def _defined(tree: ast.Module) -> set[str]:
    """Names that the module binds to a kernel: ``name = async_compile.triton(…)`` and the like."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if _dotted(node.value.func).startswith("async_compile."):
                found.update(t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("cpp_fused"):
            found.add(node.name)
    return found


def _comments(source: str) -> dict[int, tuple[str, ...]]:
    """By line: the Dynamo nodes that a comment names for the call below it."""
    found = {}
    for number, line in enumerate(source.splitlines(), 1):
        if match := _COMMENT.match(line):
            found[number] = tuple(s.strip() for s in match[1].split(",") if s.strip())
    return found


def _fragments(source: str) -> dict[str, tuple[str, ...]]:
    """By kernel: the nodes in the comment ``Graph fragment`` above its definition."""
    found: dict[str, tuple[str, ...]] = {}
    names: list[str] = []
    for line in source.splitlines():
        if line.startswith("# Graph fragment"):
            names = []
        elif match := _FRAGMENT.match(line):
            names.append(match[1])
        elif (defined := _DEFINED.match(line)) and names:
            found[defined[1]] = tuple(dict.fromkeys(names))
            names = []
    return found


class _Reader:
    def __init__(self, kernels: set[str], comments: Mapping[int, tuple[str, ...]]):
        self._kernels, self._comments = kernels, comments
        self._last_line = 0
        self._fresh: set[str] = set()  # allocated, and written by nobody yet
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.calls: list[KernelCall] = []
        self.buffers: dict[str, TensorMeta] = {}

    def read(self, function: ast.FunctionDef) -> None:
        self._last_line = function.lineno
        for statement in _statements(function.body):
            self._statement(statement)
            self._last_line = statement.end_lineno or statement.lineno

    def _statement(self, statement: ast.stmt) -> None:
        value = getattr(statement, "value", None)
        sets = _target(statement)
        if isinstance(statement, ast.Return):
            self.outputs = [name for e in getattr(value, "elts", ()) if (name := _buffer(e))]
        elif isinstance(value, ast.Name) and value.id == "args":
            self.inputs = [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id != "args"]
        elif isinstance(value, ast.Call):
            self._call(value, sets)
        elif isinstance(value, ast.Name) and sets and value.id in self.buffers:  # memory used again
            self._allocate(sets, self.buffers[value.id])

    def _allocate(self, name: str, meta: TensorMeta) -> None:
        self.buffers[name] = meta
        self._fresh.add(name)

    def _call(self, call: ast.Call, sets: str | None) -> None:
        name = self._kernel_name(call.func)
        if name is not None:
            args = [n for a in _operands(call) if (n := _buffer(a))]
            writes = tuple(dict.fromkeys(a for a in args if a in self._fresh)) or ((sets,) if sets else ())
            self._fresh.difference_update(writes)
            self.calls.append(KernelCall(name, tuple(args), writes, self._sources(call.lineno), call.lineno))
        elif (meta := _allocated(call)) is not None and sets is not None:
            self._allocate(sets, meta)

    def _kernel_name(self, func: ast.expr) -> str | None:
        """A kernel of this module (its ``run`` for Triton), an extern kernel, or an op of torch; None for the rest."""
        name = _dotted(func)
        root = name.partition(".")[0]
        if root in self._kernels:
            return root
        if root in ("extern_kernels", "aten", "inductor_ops", "_quantized") or name.startswith("torch.ops."):
            return name
        return None

    def _sources(self, line: int) -> tuple[str, ...]:
        """The comment between the statement before and this line."""
        for number in range(line, self._last_line, -1):
            if number in self._comments:
                return self._comments[number]
        return ()


def _statements(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements in order, those inside ``with`` blocks too."""
    found: list[ast.stmt] = []
    for statement in body:
        if isinstance(statement, (ast.With, ast.If, ast.Try)):
            found += _statements(statement.body)
        else:
            found.append(statement)
    return found


def _target(statement: ast.stmt) -> str | None:
    targets = getattr(statement, "targets", None)
    return targets[0].id if targets and isinstance(targets[0], ast.Name) else None


def _dotted(node: ast.expr) -> str:
    """``a.b.c`` of an attribute chain, empty for anything else."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _operands(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(k.value for k in call.keywords if k.arg != "stream")]


def _buffer(node: ast.expr) -> str | None:
    """The variable an argument stands for, also behind ``reinterpret_tensor`` and its like."""
    while isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return node.id if isinstance(node, ast.Name) else None


def _allocated(call: ast.Call) -> TensorMeta | None:
    """``empty_strided_cpu((4, 8), (8, 1), torch.float32)`` as metadata; sizes that are no numbers stay text."""
    match = _ALLOCATES.match(_dotted(call.func))
    if match is None or len(call.args) < 3:
        return None
    shape, stride = (_sizes(a) for a in call.args[:2])
    dtype = _dotted(call.args[2]).removeprefix("torch.")
    return TensorMeta(shape, dtype, stride, match[1], False)


def _sizes(node: ast.expr) -> tuple[int | str, ...]:
    return tuple(
        [e.value if isinstance(e, ast.Constant) else ast.unparse(e) for e in getattr(node, "elts", ())]
    )


def kernel_nodes(code: Code) -> tuple[NodeRecord, ...]:
    """The calls as nodes: inputs, then a call_function each, then the output. A buffer's node is the call that wrote it first."""
    nodes: list[NodeRecord] = []
    at: dict[str, int] = {}
    for name in code.inputs:
        at[name] = len(nodes)
        nodes.append(NodeRecord(len(nodes), name, "placeholder", name, (), {}, None, None))
    used: set[str] = set()
    for call in code.calls:
        index = len(nodes)
        args: tuple[Arg, ...] = tuple([Leaf(node=at[a]) if a in at else a for a in call.args])
        name = _unique(call.name, used)
        nodes.append(
            NodeRecord(index, name, "call_function", call.name, args, {}, _written(call, code), None)
        )
        at.update(dict.fromkeys(call.writes, index))
    results = tuple([Leaf(node=at[o]) if o in at else o for o in code.outputs])
    nodes.append(NodeRecord(len(nodes), "output", "output", "output", (results,), {}, None, None))
    return tuple(nodes)


def _written(call: KernelCall, code: Code) -> ValueInfo | None:
    """What a call leaves in the buffers that it is the first to write."""
    values = [code.buffers[name] for name in call.writes if name in code.buffers]
    return values[0] if len(values) == 1 else TupleInfo(tuple(values)) if values else None


def _unique(name: str, used: set[str]) -> str:
    base, count = name.replace(".", "_"), 0
    unique = base
    while unique in used:
        count += 1
        unique = f"{base}_{count}"
    used.add(unique)
    return unique
