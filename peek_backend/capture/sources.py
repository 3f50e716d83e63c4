"""Where nodes and inputs come from, as a person writes it.

Dynamo's own words are ``L['self']._modules['fc1']._parameters['weight']`` for an input and a list of raw frames for a
node; people write ``fc1.weight`` and ``model.py:31``.
"""

from __future__ import annotations

import dis
import functools
import inspect
import linecache
import os
import re
import sysconfig
import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import fx

from ..model import Source, StackFrame
from . import compat

# torch.export strips the text of a stack: its first line has no indent.
_FRAME = re.compile(r'^(?:  )?File "(.*)", line (\d+), in (.*)$')
_CARETS = re.compile(r"^\s*[~^]+\s*$")

# One step of a path below a local or global: an attribute, a key, a call such as .size().
_MEMBER = re.compile(
    r"\._(?:modules|parameters|buffers)\['((?:[^'\\]|\\.)*)'\]"
    r"|\.__dict__\['((?:[^'\\]|\\.)*)'\]"
    r"|\._(modules|parameters|buffers|dict)\b"
)
_SIZE = re.compile(r"\.size\(\)\[(\d+)\]")
_STRIDE = re.compile(r"\.stride\(\)\[(\d+)\]")
_ROOT = re.compile(r"\b([LG])\['((?:[^'\\]|\\.)*)'\]")
_IMPORT = re.compile(r"__import_(\w+)")
_WRAPPERS = re.compile(r"^(?:___as_tensor|cast_symbool_to_symint_guardless|___from_numpy|float)\((.*)\)$")
_GETATTRIBUTE = re.compile(r"object\.__getattribute__\(([^()]*), '(\w+)'\)")
# A submodule whose name is no identifier, with torch's repr of the name.
_NAMED = re.compile(r"""getattr\(((?:[^()'"]|\['[^']*'\])*), (['"])((?:(?!\2).)*)\2\)""")
# A keyword argument in the frame of a decorator: what the caller wrote is its name.
_KEYWORD = re.compile(r"\bL\['kwargs'\]\['([A-Za-z_]\w*)'\]")


class Positions(NamedTuple):
    """The arguments of a wrapper ``(*args, **kwargs)`` by the names that the function inside gives them.

    ``local`` is the wrapper's tuple, ``names`` are those of its items; the items after these are in ``rest``, where there is one.
    """

    local: str = ""
    names: tuple[str, ...] = ()
    rest: str = ""

    def named(self, text: str) -> str:
        """``args[0].shape[1] == args[1]`` as ``src.shape[1] == mask``; what has no name stays."""
        if not self.local:
            return text
        item = rf"(?<![\w.'\"]){re.escape(self.local)}\[(\d+)\]"
        return re.sub(item, lambda found: self._name(int(found[1])) or found[0], text)

    def _name(self, index: int) -> str:
        if index < len(self.names):
            return self.names[index]
        return f"{self.rest}[{index - len(self.names)}]" if self.rest else ""


NO_POSITIONS = Positions()


def readable(origin: str, receiver: str | None = "self", positions: Positions = NO_POSITIONS) -> str:
    """torch's source text as a person writes it: ``L['self']._modules['fc1'].weight`` reads ``fc1.weight``.

    ``receiver`` is the local that holds the compiled module; paths below it lose it. What is not understood stays as it is.
    """
    text = _GETATTRIBUTE.sub(r"\1.\2", origin)
    while (wrapped := _WRAPPERS.match(text)) is not None:
        text = wrapped.group(1)
    while (named := _NAMED.search(text)) is not None:
        text = f"{text[: named.start()]}{named.group(1)}.{named.group(3)}{text[named.end() :]}"
    text = _MEMBER.sub(lambda m: "." + next((g for g in m.groups() if g is not None), ""), text)
    text = _KEYWORD.sub(r"\1", text)
    text = _SIZE.sub(r".shape[\1]", text)
    text = _STRIDE.sub(r".stride(\1)", text)
    text = _ROOT.sub(lambda m: _IMPORT.sub(lambda i: i.group(1).replace("_dot_", "."), m.group(2)), text)
    if receiver and text.startswith(receiver + "."):
        text = text[len(receiver) + 1 :]
    return positions.named(text)


def input_kind(origin: str, example: Any = None) -> str:
    """What sort of input a source is: parameter, buffer, argument, global, closure, size, state or other."""
    if "_parameters[" in origin or type(example).__name__ == "Parameter":
        return "parameter"
    if "_buffers[" in origin or type(example).__name__ == "Buffer":
        return "buffer"
    if ".size()[" in origin or ".stride()[" in origin or ".storage_offset()" in origin:
        return "size"
    if origin.startswith("___"):
        return "argument" if _WRAPPERS.match(origin) else "state"
    if "__closure__" in origin or "cell_contents" in origin:
        return "closure"
    root = _ROOT.search(origin)
    return {"L": "argument", "G": "global"}[root.group(1)] if root else "other"


@functools.cache
def _library_folders() -> tuple[str, ...]:
    """Where libraries are installed, Python's own last: packages may be in a folder of it."""
    paths = sysconfig.get_paths()
    names = ("purelib", "platlib", "stdlib", "platstdlib")
    return tuple(dict.fromkeys(os.path.join(paths[name], "") for name in names))


def is_program(file: str) -> bool:
    """Whether a file is the user's: not torch, not an installed package, not Python's own library, not made by ``exec``."""
    return not file.startswith(("<", compat.torch_folder(), *_library_folders()))


PEEK_FOLDER = compat.PEEK_FOLDER


def is_outside(file: str) -> bool:
    """Whether a file is neither torch's nor peek's: the user's, or a library's."""
    return not file.startswith((compat.torch_folder(), PEEK_FOLDER))


def library_of(stack: Sequence[StackFrame]) -> str:
    """Whose code the innermost frame of a stack is: ``torch``, ``transformers``; empty for the program's own.

    What Python's own library does (contextlib, functools) is done for whoever called it.
    """
    for frame in reversed(stack):
        if is_program(frame.file):
            return ""
        if frame.file.startswith(compat.torch_folder()):
            return "torch"
        folder = next((f for f in _library_folders()[:-1] if frame.file.startswith(f)), None)
        parts = frame.file[len(folder) :].split(os.sep) if folder and "-packages" in folder else []
        if parts:
            return parts[0].removesuffix(".py")
    return ""


def owner(path: str) -> str:
    """The module path that holds a parameter: ``layers.0.fc1`` for ``layers.0.fc1.weight``."""
    return path.rpartition(".")[0]


def place(file: str | None, line: int | None, function: str = "") -> StackFrame | None:
    """One line of a file, with its text; None where the file is not known."""
    if not file or not line:
        return None
    return StackFrame(file, line, function, linecache.getline(file, line).strip())


def parse_stack(text: str) -> tuple[StackFrame, ...]:
    """A traceback's text as frames, outermost first; caret lines are dropped."""
    frames: list[StackFrame] = []
    for line in text.split("\n"):
        found = _FRAME.match(line)
        if found:
            frames.append(StackFrame(found[1], int(found[2]), found[3]))
        elif frames and not frames[-1].code and line.strip() and not _CARETS.match(line):
            last = frames.pop()
            frames.append(StackFrame(last.file, last.line, last.function, line.strip()))
    return tuple(frames)


class SourceReader:
    """Finds the source of each node of one graph; equal ones are one object, call stacks go to ``stacks``."""

    def __init__(self, receiver: str | None = "self", positions: Positions = NO_POSITIONS, skipped: str = ""):
        self.receiver, self.positions, self.skipped = receiver, positions, skipped
        self.modules: dict[str, str] = {}
        self.stacks: list[tuple[StackFrame, ...]] = []
        self._stack_index: dict[tuple[StackFrame, ...], int] = {}
        self._sources: dict[tuple[str | None, Any], Source | None] = {}
        self._scopes: dict[Any, tuple[str, str]] = {}
        self._places: dict[str, tuple[StackFrame | None, int | None]] = {}

    def read(self, node: fx.Node) -> Source | None:
        """The innermost user line and the module of a node; for a placeholder its input, or a saved value's line."""
        if node.op == "placeholder" and "seq_nr" not in node.meta:
            return self._input(node)
        if node.op == "output":
            return None
        text = node.meta.get("stack_trace") or None
        # A backward node has the modules of the forward nodes that it differentiates.
        scope = self._scope_key(node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack"))
        key = (text, scope)
        if key not in self._sources:
            self._sources[key] = self._build(text, scope)
        return self._sources[key]

    def _build(self, text: str | None, scope: Any) -> Source | None:
        frame, caller = self._place(text)
        module, call = self._scopes[scope] if scope else ("", "")
        if frame is None:
            return Source(module=module, call=call) if module else None
        return Source(frame.file, frame.line, frame.function, frame.code, caller, module, call)

    def _place(self, text: str | None) -> tuple[StackFrame | None, int | None]:
        if not text:
            return None, None
        if text not in self._places:
            frames = self._users(parse_stack(text))
            self._places[text] = (frames[-1], self._caller(frames[:-1])) if frames else (None, None)
        return self._places[text]

    def _users(self, frames: tuple[StackFrame, ...]) -> tuple[StackFrame, ...]:
        """The frames without the innermost ones in skipped files; all of them where no other is left."""
        end = len(frames)
        while self.skipped and end and self.skipped in frames[end - 1].file.replace("\\", "/"):
            end -= 1
        return frames[:end] or frames

    def _caller(self, frames: tuple[StackFrame, ...]) -> int | None:
        if not frames:
            return None
        index = self._stack_index.setdefault(frames, len(self.stacks))
        if index == len(self.stacks):
            self.stacks.append(frames)
        return index

    def _scope_key(self, stack: Any) -> Any:
        """A key for a module stack; its paths are worked out once, with ``@1`` where torch marks a repeated call."""
        if not stack:
            return None
        key = (*stack, next(reversed(stack.values()))[0])
        if key not in self._scopes:
            self._scopes[key] = self._scope(stack)
        return key

    def _scope(self, stack: dict[str, tuple[str, Any]]) -> tuple[str, str]:
        module, call = "", ""
        for key, (raw, kind) in stack.items():
            path = self._module_path(raw)
            step = path[len(module) + 1 :] if module and path.startswith(module + ".") else path
            again = str(key).partition("@")[2]
            call = ".".join(
                p for p in (call if step != path else "", f"{step}@{again}" if again else step) if p
            )
            module = path
            self.modules.setdefault(path, _class_name(kind))
        return module, call if call != module else ""

    def _module_path(self, path: str) -> str:
        text = readable(path, self.receiver)
        return "" if text == self.receiver else text

    def _input(self, node: fx.Node) -> Source | None:
        origin = dynamo_source(node)
        if origin is None:
            return None
        path = readable(origin, self.receiver, self.positions)
        kind = input_kind(origin)
        module = owner(path) if kind in ("parameter", "buffer") else ""
        return Source(module=module, input=path, input_kind=kind, origin=origin)


def dynamo_source(node: fx.Node) -> str | None:
    """Dynamo's name of a placeholder's source; ``name`` is a method on torch 2.8 and a string later."""
    source = getattr(node, "_dynamo_source", None)
    if source is None:
        grapharg = node.meta.get("grapharg")
        source = getattr(grapharg, "source", None)
    if source is None:
        return None
    return source.name() if callable(source.name) else source.name


def _class_name(kind: Any) -> str:
    return kind.__qualname__ if isinstance(kind, type) else str(kind).rpartition(".")[2]


def receiver_of(code: Any) -> str | None:
    """The name of the local that holds the compiled module, None for a plain function.

    A code object's qualified name (Python 3.11 on) has a class before the last dot unless that part is ``<locals>``. A module
    of torch.nn is compiled through a wrapper of Dynamo's that holds it as ``fn``.
    """
    if code is None:
        return None
    code = compat.resume_root(code) or code
    if is_dynamo_wrapper(code):
        return "fn"
    first = code.co_varnames[0] if code.co_argcount else None
    prefix = getattr(code, "co_qualname", "").rpartition(".")[0]
    is_method = bool(prefix) and not prefix.endswith("<locals>")
    return first if first == "self" or is_method else None


def positions_of(code: Any, local_values: Mapping[str, Any] | None = None) -> Positions:
    """What the function inside calls the arguments of a wrapper: of Dynamo's own, or of a decorator that passes them on."""
    if code is None or not code.co_flags & inspect.CO_VARARGS:
        return NO_POSITIONS
    values = local_values or {}
    if is_dynamo_wrapper(code):
        inner, before = values.get("fn"), 0
    else:
        inner, before = _decorated(code, values), code.co_argcount
    function, bound = _function_of(inner)
    written = getattr(function, "__code__", None)
    if written is None or written is code:
        return NO_POSITIONS
    local = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
    names = written.co_varnames[: written.co_argcount][bound + before :]
    has_rest = written.co_flags & inspect.CO_VARARGS
    return Positions(
        local, names, written.co_varnames[written.co_argcount + written.co_kwonlyargcount] if has_rest else ""
    )


def _function_of(inner: Any) -> tuple[Any, int]:
    """The Python function that a call of ``inner`` runs, and how many of its first parameters are given already."""
    given = 0
    while isinstance(inner, functools.partial):
        given, inner = given + len(inner.args), inner.func
    if isinstance(inner, types.FunctionType):
        return inspect.unwrap(inner), given
    called = getattr(type(inner), "forward", None) or getattr(inner, "__func__", None)
    called = called or getattr(type(inner), "__call__", None)  # noqa: B004  # the method itself is wanted
    return (inspect.unwrap(called), given + 1) if isinstance(called, types.FunctionType) else (None, 0)


def _decorated(code: Any, values: Mapping[str, Any]) -> Any:
    """The function that a decorator's wrapper passes its arguments on to, None where that cannot be told."""
    receiver = values.get("self")
    if code.co_varnames[:1] == ("self",) and receiver is not None and (name := _attribute_of(receiver, code)):
        return inspect.unwrap(getattr(type(receiver), name))
    passed_on = any(i.opname.startswith("CALL_FUNCTION_EX") for i in dis.get_instructions(code))
    held = [values[n] for n in code.co_freevars if isinstance(values.get(n), types.FunctionType)]
    return held[0] if passed_on and len(held) == 1 else None


def is_dynamo_wrapper(code: Any) -> bool:
    """Whether a code object is the one that Dynamo runs many different functions and modules through."""
    return code.co_filename.replace("\\", "/").endswith("torch/_dynamo/external_utils.py")


_RESUME = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)$")


class Described(NamedTuple):
    """A code object as a person says it, and where it is written."""

    name: str
    file: str = ""
    line: int = 0


def describe(code: Any, local_values: Mapping[str, Any] | None = None) -> Described:
    """``MLP.forward`` and its place; ``f ▸ resume@107`` for what Dynamo continues after a break.

    The wrapper of a decorator around a method, and Dynamo's own around a module of torch.nn, go by the method they run:
    ``LlamaForCausalLM.forward`` at its line, not ``wrapper`` at the decorator's.
    """
    if code is None:
        return Described("")
    values = local_values or {}
    method = _wrapped_method(code, values)
    if method is not None:
        return method
    qualified = getattr(code, "co_qualname", code.co_name)
    local = qualified.rpartition("<locals>.")[2]
    resume = _RESUME.search(local)
    if resume:
        local = f"{local[: resume.start()]}{resume[1]} ▸ resume@{resume[2]}"
    return Described(local, code.co_filename, code.co_firstlineno)


def code_name(code: Any, local_values: Mapping[str, Any] | None = None) -> str:
    """The name part of ``describe``."""
    return describe(code, local_values).name


def _wrapped_method(code: Any, values: Mapping[str, Any]) -> Described | None:
    """The method that a wrapper around it runs, None where ``code`` is no such wrapper."""
    if is_dynamo_wrapper(code):
        return _run_by_wrapper(values.get("fn"))
    receiver = values.get("self")
    if (
        "<locals>" not in getattr(code, "co_qualname", "<locals>")
        or code.co_varnames[:1] != ("self",)
        or receiver is None
    ):
        return None
    attribute = _attribute_of(receiver, code)
    if attribute is None:
        return None
    return _at(f"{type(receiver).__qualname__}.{attribute}", getattr(type(receiver), attribute))


def _run_by_wrapper(inner: Any) -> Described | None:
    """What Dynamo's wrapper calls: a module's forward, a function, what a partial holds, an object's ``__call__``."""
    while isinstance(inner, functools.partial):
        inner = inner.func
    kind = type(inner)
    if hasattr(inner, "forward"):
        return _at(f"{kind.__qualname__}.forward", inner.forward)
    if isinstance(inner, types.BuiltinFunctionType):  # torch.sin is a method of a class of torch's own
        return _at(inner.__name__, inner)
    if (name := getattr(inner, "__qualname__", None)) is not None:
        return _at(name.rpartition("<locals>.")[2], inner)
    written = getattr(kind, "__call__", None)  # noqa: B004  # the method itself is wanted, not whether there is one
    return _at(f"{kind.__qualname__.rpartition('<locals>.')[2]}.__call__", written) if written else None


def _at(name: str, function: Any) -> Described:
    """``name`` at the place of the innermost function that decorators wrap."""
    written = getattr(inspect.unwrap(function), "__code__", None)
    return Described(name, getattr(written, "co_filename", ""), getattr(written, "co_firstlineno", 0))


def _attribute_of(receiver: Any, code: Any) -> str | None:
    """The method of ``receiver`` that runs ``code``: ``forward`` for a decorated one, whatever the wrapper is called."""
    candidates = ("forward", "__call__", code.co_name)
    found = (n for n in candidates if getattr(getattr(type(receiver), n, None), "__code__", None) is code)
    return next(found, None)
