"""A capture as JSON: one object, compact, fields in the order of the records, a newline at the end.

The order is the records' own, so equal records give equal bytes, and reading then writing changes nothing.
What msgspec's types cannot say (a node refers to an earlier one, an index is a position) is checked after it.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from ..errors import PeekError
from ..model import (
    SCHEMA_VERSION,
    Arg,
    CaptureRecord,
    GraphRecord,
    Leaf,
    NodeRecord,
    TensorMeta,
    TupleInfo,
    ValueInfo,
)
from .atomic import read_bytes, write_bytes

OPCODES = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
"""What a node's ``op`` may be: those of torch.fx."""

_KNOWN_OPS = frozenset(OPCODES)
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(CaptureRecord)


class _Head(msgspec.Struct):
    schema_version: int


_head_decoder = msgspec.json.Decoder(_Head)


def encode(record: msgspec.Struct) -> bytes:
    """The JSON of a record, with a newline at the end."""
    try:
        return _encoder.encode(record) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, from a file name that is no UTF-8
        return _encoder.encode(_printable(msgspec.to_builtins(record))) + b"\n"


def write(path: str | os.PathLike[str], record: CaptureRecord) -> None:
    """Write a capture to ``path``, replacing what was there; PeekError where the system refuses."""
    write_bytes(path, encode(record))


def read(path: str | os.PathLike[str]) -> CaptureRecord:
    """The capture in the JSON file at ``path``; PeekError as for ``decode``."""
    return decode(read_bytes(path), os.fspath(path))


def decode(data: bytes, where: str) -> CaptureRecord:
    """The capture in ``data``; ``where`` names it in errors (a path).

    Raises PeekError for what is no capture: not JSON or cut short (with line and column), of a newer version,
    a value of a wrong type (with its JSON path), a node that refers to nothing.
    """
    data = plain_text(data, where)
    try:
        with collector_paused():
            record = _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise _invalid(data, where, error) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(data, where, error) from None
    check_version(record.schema_version, where)
    check(record, where)
    return record


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection: it would visit all records made so far again and again, half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# What a file may be instead of a capture: how it begins, what it is, what to do.
_FOREIGN = (
    (b"\x1f\x8b", "it is gzip-compressed", "unpack it first: gunzip FILE"),
    (
        b"PK\x03\x04",
        "it is a zip archive, as .pt2 and .pt files are",
        "give an ExportedProgram the suffix .pt2",
    ),
    (b"\xff\xfe", "it is UTF-16 text", "save it as UTF-8 (PowerShell: Out-File -Encoding utf8)"),
    (b"\xfe\xff", "it is UTF-16 text", "save it as UTF-8 (PowerShell: Out-File -Encoding utf8)"),
    (b"\x89PNG", "it is a PNG picture", "name the .json capture it was drawn from"),
    (b"%PDF", "it is a PDF", "name the .json capture it was drawn from"),
    (b"peek-graph ", "it is a .graph snapshot, not a JSON capture", "name a .json or .peek.jsonl file"),
    (b"<!", "it is HTML text", "name the .json capture it was made from"),
    (b"<?xml", "it is SVG or XML text", "name the .json capture it was made from"),
    (b"<svg", "it is SVG text", "name the .json capture it was made from"),
    (b"digraph", "it is DOT text", "name the .json capture it was drawn from"),
)


def plain_text(data: bytes, where: str) -> bytes:
    """``data`` without a byte order mark, when it can be JSON text; PeekError saying what it is otherwise."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise PeekError(f"{where}: the file is empty", "nothing was written to it", "capture again")
    for magic, why, fix in _FOREIGN:
        if data.startswith(magic):
            raise PeekError(f"{where}: not a capture", why, fix)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        why = f"byte 0x{data[error.start]:02x} at {position(data, error.start)} is no UTF-8 text"
        raise PeekError(f"{where}: not a capture", why, "name a .json or .peek.jsonl file") from None
    return data


def position(data: bytes, offset: int, first: int = 1) -> str:
    """``line 3, column 14`` of a byte; columns count bytes from 1, lines from ``first``."""
    newline = data.rfind(b"\n", 0, offset)
    line = data.count(b"\n", 0, offset) + first
    return f"line {line}, column {offset - newline}"


def malformed(data: bytes, where: str, error: Exception, first: int = 1) -> PeekError:
    """The error for text that is no JSON, told apart from JSON that stops; its lines count from ``first``."""
    marker = re.search(rb"^(<<<<<<<|>>>>>>>) ", data, re.MULTILINE)
    if marker:
        spot = position(data, marker.start(), first)
        return PeekError(
            f"{where}: a merge conflict marker at {spot}", "git left a conflict", "capture again"
        )
    text, length = str(error), len(data.rstrip())
    at = re.search(r"\(byte (\d+)\)", text)
    offset = int(at[1]) if at else 0
    if "truncated" in text or offset >= length:
        spot = position(data, length, first)
        why = "the program that wrote it was stopped, or the copy is not complete"
        return PeekError(f"{where}: the JSON is cut short at {spot}", why, "capture or copy it again")
    spot = position(data, offset, first)
    why = "it is nested too deep" if isinstance(error, RecursionError) else text.partition("(byte")[0].strip()
    return PeekError(f"{where}: not JSON at {spot}", why, "name a file that peek wrote, or capture again")


def check_version(version: int, where: str) -> None:
    """PeekError for a capture of a newer peek, which this one could misread."""
    if version > SCHEMA_VERSION:
        why = f"it has schema_version {version}; this peek reads up to {SCHEMA_VERSION}"
        raise PeekError(f"{where}: written by a newer peek", why, "pip install --upgrade peek-backend")
    if version < 1:
        raise PeekError(
            f"{where}: schema_version {version} is none", "versions count from 1", "capture again"
        )


def _invalid(data: bytes, where: str, error: msgspec.ValidationError) -> PeekError:
    """The error for JSON that is no capture: of a newer version, something else, or wrong at one path."""
    try:
        check_version(_head_decoder.decode(data).schema_version, where)
    except PeekError as newer:
        return newer
    except msgspec.ValidationError:
        why = "its root has no whole-number schema_version"
        return PeekError(f"{where}: JSON, but not a capture of peek", why, "name a file that peek wrote")
    except (msgspec.DecodeError, RecursionError) as syntax:
        return malformed(data, where, syntax)
    return bad_value(where, error)


def bad_value(where: str, error: msgspec.ValidationError) -> PeekError:
    """The error for a value of the wrong type, with its JSON path."""
    what, _, path = str(error).partition(" - at ")
    return _damaged(where, path.strip("`") or "$", what.replace("`", ""))


def _damaged(where: str, path: str, what: str) -> PeekError:
    why = "the file was changed by hand or damaged"
    return PeekError(f"{where}: {path}: {what}", why, "capture again")


def check(record: CaptureRecord, where: str) -> None:
    """PeekError when an index in ``record`` points to nothing, or a node is none; every other package relies on them."""
    frames = len(record.frames)
    for i, graph in enumerate(record.graphs):
        path = f"$.graphs[{i}]"
        _check_index(graph.frame, frames, f"{path}.frame", "frame", where)
        try:
            _check_graphs(graph, path, where)
        except RecursionError:
            raise _damaged(where, path, "an argument or value is nested too deep") from None
    for name in ("breaks", "recompiles"):
        for i, event in enumerate(getattr(record, name)):
            _check_index(event.frame, frames, f"$.{name}[{i}].frame", "frame", where)
    for i, frame in enumerate(record.frames):
        for name in ("resume_of", "outer"):
            _check_index(getattr(frame, name), frames, f"$.frames[{i}].{name}", "frame", where)


def _check_graphs(graph: GraphRecord, path: str, where: str) -> None:
    """A graph and its bodies, whose callers stand among the root's stacks, as their bodies do."""
    bodies, stacks = len(graph.children), len(graph.stacks)
    _check_graph(graph, bodies, stacks, path, where)
    for j, child in enumerate(graph.children):
        _check_graph(child, bodies, stacks or len(child.stacks), f"{path}.children[{j}]", where)


def _check_graph(graph: GraphRecord, bodies: int, stacks: int, path: str, where: str) -> None:
    for position_, node in enumerate(graph.nodes):
        source = node.source
        if (
            node.index == position_
            and node.op in _KNOWN_OPS
            and _refs_before(node.args, position_)
            and (not node.kwargs or _refs_before(tuple(node.kwargs.values()), position_))
            and (node.body is None or 0 <= node.body < bodies)
            and ((value := node.value) is None or _consistent(value))
            and (source is None or source.caller is None or 0 <= source.caller < stacks)
        ):
            continue
        raise _bad_node(node, position_, bodies, f"{path}.nodes[{position_}]", where)


def _refs_before(arg: Arg, limit: int) -> bool:
    """Whether an argument refers only to nodes before ``limit``; every argument of a file passes here."""
    kind = type(arg)
    if kind is tuple:
        return not any(type(item) in (Leaf, tuple) and not _refs_before(item, limit) for item in arg)
    if kind is Leaf:
        if arg.node is not None:
            return 0 <= arg.node < limit
        inside = arg.slice or arg.nested or arg.dict
        return inside is None or _refs_before(inside, limit)
    return True


def _consistent(value: ValueInfo) -> bool:
    """Whether every strided tensor of a value has as many strides as sizes; each node's value passes here."""
    kind = type(value)
    if kind is TensorMeta:
        if value.stride is not None and len(value.stride) != len(value.shape) and value.layout == "strided":
            return False
        return (value.became is None or _consistent(value.became)) and (
            not value.inner or all(map(_consistent, value.inner.values()))
        )
    return kind is not TupleInfo or all(map(_consistent, value.items))


def _bad_node(node: NodeRecord, place: int, bodies: int, path: str, where: str) -> PeekError:
    """The error for what is wrong with a node."""
    if node.index != place:
        what = f"node {node.name!r} has index {node.index} at position {place}"
    elif node.op not in _KNOWN_OPS:
        what = f"node {node.name!r} has op {node.op!r}, which is none of {', '.join(OPCODES)}"
    elif node.value is not None and not _consistent(node.value):
        what = f"node {node.name!r} has a tensor whose stride and shape differ in length"
    elif not _refs_before((node.args, tuple(node.kwargs.values())), place):
        what = f"node {node.name!r} refers to a node that does not come before it"
    elif node.body is not None and not 0 <= node.body < bodies:
        what = f"node {node.name!r} has body {node.body}, but the graph has {bodies} children"
    else:
        what = f"node {node.name!r} has caller {node.source.caller}, which is none of the graph's stacks"
    return _damaged(where, path, what)


def _check_index(index: int | None, count: int, path: str, kind: str, where: str) -> None:
    if index is None or 0 <= index < count:
        return
    raise _damaged(where, path, f"{kind} {index} does not exist; there are {count}")


def _printable(value: object) -> object:
    """Plain data with every lone surrogate written as its escape."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_printable(k): _printable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_printable(v) for v in value]
    return value
