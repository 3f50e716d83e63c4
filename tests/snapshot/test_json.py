"""Captures as JSON: nothing lost on the way, and every way a file can be wrong is one clear error."""

from __future__ import annotations

import gzip
import random
from collections import Counter

import msgspec
import pytest

from peek_backend import snapshot
from peek_backend.errors import PeekError
from peek_backend.model import (
    SCHEMA_VERSION,
    BreakInfo,
    FrameRecord,
    GuardInfo,
    Leaf,
    NoneInfo,
    Opaque,
    Phase,
    Problem,
    RecompileInfo,
    ScalarInfo,
    SizeInfo,
    Source,
    StackFrame,
    SymBool,
    SymFloat,
    SymInt,
    TupleInfo,
)
from peek_backend.snapshot import jsonfile
from peek_backend.snapshot.journal import encode_record
from peek_backend.snapshot.jsonfile import decode, encode
from tests.builders import HOSTILE, GraphBuilder, capture, graph, node, symbol, tensor

VALUES = (
    tensor(2, "s0", stride=("s0", 1), storage_offset="s0*2", device="cuda:0", grad=True),
    tensor(3, subclass="DTensor", inner={"_local": tensor(3)}, flags=("mutated",), became=tensor(3, 1)),
    tensor(4, layout="sparse_coo", storage=3),
    SymInt("s0 + 1", 5),
    SymInt("u0"),
    SymFloat("zf0", 2.5),
    SymBool("u0 > 3"),
    ScalarInfo("float", "nan"),
    ScalarInfo("int", 2**63),
    ScalarInfo("bool", True),
    NoneInfo(),
    SizeInfo((2, "s0")),
    TupleInfo((tensor(2), TupleInfo((NoneInfo(),), "list")), "Output", ("a", "b")),
    Opaque("DeviceMesh", "mesh"),
)

ARGUMENTS = (
    *(None, True, -1, 2**64 - 1, 1.5, "a", ()),
    *(Leaf(dtype="float32"), Leaf(device="cpu"), Leaf(layout="strided"), Leaf(memory_format="channels_last")),
    *(Leaf(sym="s0*2"), Leaf(slice=(None, Leaf(node=0), 2)), Leaf(dict=(("k", Leaf(node=0)),))),
    *(Leaf(float="inf"), Leaf(complex="1+2j"), Leaf(ellipsis=True), Leaf(function="operator.add")),
    *(Leaf(repr="<x>"), (1, (2, (3, Leaf(node=0)))), Leaf(nested=(1, Leaf(nested=(2,))))),
)


def rich_capture():
    """A capture with every kind of value, argument and event."""
    place = StackFrame("model.py", 3, "forward", "return x")
    nodes = [
        node(0, "x", "placeholder", "x", source=Source(input="x", input_kind="argument", origin="L['x']"))
    ]
    nodes += [
        node(i, f"n{i}", value=value, source=Source("m.py", i, caller=0)) for i, value in enumerate(VALUES, 1)
    ]
    last = len(nodes)
    nodes += [node(last, "all", "call_function", "f", *ARGUMENTS, kwargs={"z": 1, "a": Leaf(node=3)}, body=0)]
    main = graph(
        *nodes,
        children=(graph(node(0, "y", "placeholder", "y"), compile_id=None),),
        symbols=(symbol("s0", "x.shape[0]", "y.shape[0]", hint=4, upper=8),),
        guards=(GuardInfo("TENSOR_MATCH", "x.dtype == float32", "x", place),),
        stacks=((place, place),),
        ended_by=BreakInfo("print", hints=("a", "b"), stack=(place,), frame=0),
        frame=0,
    )
    return capture(
        main,
        frames=(
            FrameRecord("f", phases={"0/0": (Phase("dynamo", 0.5),)}, calls={"0/0": 2}),
            FrameRecord("r", resume_of=0),
        ),
        breaks=(BreakInfo("print", frame=0),),
        recompiles=(RecompileInfo("0/1", frame=0, variant=2),),
        problems=(Problem("0/0", "what", "why", "fix"),),
        notes=("a note",),
    )


def refused(data: bytes) -> str:
    with pytest.raises(PeekError) as caught:
        decode(data, "c.json")
    assert str(caught.value).startswith("c.json: ")
    return str(caught.value)


def test_round_trip_keeps_every_kind():
    """Every kind of value, argument and event comes back equal, and the bytes come back the same."""
    record = rich_capture()
    data = encode(record)
    assert decode(data, "") == record
    assert encode(decode(data, "")) == data


@pytest.mark.parametrize("attacks", sorted(HOSTILE.keys() - {"surrogate"}))
def test_round_trip_keeps_hostile_text(attacks):
    """No text is special: each comes back as it went, in one line of UTF-8."""
    text = HOSTILE[attacks]
    record = capture(graph(node(0, text, "call_function", text, text, kwargs={text: text})), notes=(text,))
    data = encode(record)
    assert decode(data, "") == record
    assert data.count(b"\n") == 1


def test_lone_surrogate_is_written_as_its_escape():
    """A file name that is no UTF-8 does not stop a capture from being written."""
    assert decode(encode(capture(notes=("a\udcffb",))), "").notes == (r"a\udcffb",)


def test_keys_that_other_programs_rely_on():
    """The JSON has the keys and plain values that the format promises."""
    plain = msgspec.json.decode(
        encode(capture(graph(node(0, "x", "placeholder", "x", value=tensor("s0", 4)))))
    )
    assert {"schema_version", "environment", "graphs"} <= set(plain)
    assert {"compile_id", "stage", "nodes", "children"} <= set(plain["graphs"][0])
    first = plain["graphs"][0]["nodes"][0]
    assert {"index", "name", "op", "target", "args", "kwargs", "value", "source"} == set(first)
    assert first["value"] == {
        "kind": "tensor",
        "shape": ["s0", 4],
        "dtype": "float32",
        "stride": [4, 1],
        "device": "cpu",
        "requires_grad": False,
    }


def test_unknown_fields_are_passed_over():
    """A field that a later version added does not stop this one."""
    data = encode(capture()).replace(b'"graphs":', b'"later":{"a":[1]},"graphs":')
    assert decode(data, "") == capture()


def test_byte_order_mark_and_other_line_ends_are_read():
    """A BOM and CRLF, which some editors add, change nothing."""
    pretty = msgspec.json.format(encode(rich_capture()), indent=1).replace(b"\n", b"\r\n")
    assert decode(b"\xef\xbb\xbf" + pretty, "") == rich_capture()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        (b"hello", "not JSON at line 1, column"),
        (b'{"schema_version":1,\n  oops}', "not JSON at line 2, column 3"),
        (b"[]", "not a capture of peek"),
        (b'{"nodes":[]}', "no whole-number schema_version"),
        (b'{"schema_version":"1"}', "no whole-number schema_version"),
        (b'{"schema_version":0,"environment":{},"graphs":[]}', "schema_version 0 is none"),
        (b'{"schema_version":1,"environment":{}}', "missing required field graphs"),
        (gzip.compress(b"{}", mtime=0), "gzip-compressed"),
        (b"PK\x03\x04....", "zip archive"),
        ("{}".encode("utf-16"), "UTF-16"),
        (b'{"a":"\xe9"}', "byte 0xe9 at line 1, column 7 is no UTF-8"),
        (b"peek-graph 1\nname x\n", ".graph snapshot"),
        (b"<!DOCTYPE html>", "HTML"),
        (b"\x89PNG\r\n", "PNG picture"),
        (b'<<<<<<< HEAD\n{"a":1}\n=======\n', "merge conflict marker at line 1"),
        (b"[" * 100_000, "c.json"),
        (b'{"schema_version":1}trailing', "not JSON"),
    ],
)
def test_what_is_no_capture_is_named(data, says):
    """Whatever else the file is, the error says what, where in it, and no traceback."""
    assert says in refused(data)


def test_every_cut_is_one_error():
    """A capture cut at any byte is refused as cut short, with the place."""
    data = encode(rich_capture())
    for end in range(1, len(data) - 2):
        assert "cut short at line 1, column" in refused(data[:end])


def test_newer_version_is_refused_by_name():
    """A capture of a newer version is refused with what to do, whether or not the rest would decode."""
    data = encode(capture()).replace(b'"schema_version":%d' % SCHEMA_VERSION, b'"schema_version":99')
    assert "pip install --upgrade" in refused(data)
    assert "schema_version 99" in refused(data.replace(b'"graphs":[]', b'"graphs":{"new":1}'))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda d: d["graphs"][0]["nodes"][2].update(index="2"),
            "$.graphs[0].nodes[2].index: Expected int, got str",
        ),
        (lambda d: d["graphs"][0]["nodes"][2].update(value={"kind": "matrix"}), "nodes[2].value"),
        (lambda d: d["graphs"][0].update(stage=None), "$.graphs[0].stage"),
        (lambda d: d["graphs"][0]["nodes"][2].update(args=[{"nod": 1}]), "unknown field nod"),
        (
            lambda d: d["graphs"][0]["nodes"][2].update(index=5),
            "nodes[2]: node 'pow_2' has index 5 at position 2",
        ),
        (lambda d: d["graphs"][0]["nodes"].reverse(), "at position 0"),
        (lambda d: d["graphs"][0]["nodes"][2].update(args=[{"node": 3}]), "does not come before it"),
        (lambda d: d["graphs"][0]["nodes"][2].update(args=[{"node": 2}]), "does not come before it"),
        (lambda d: d["graphs"][0]["nodes"][2].update(args=[[1, [{"node": -1}]]]), "does not come before it"),
        (lambda d: d["graphs"][0]["nodes"][2].update(args=[{"slice": [{"node": 9}, 1, 1]}]), "before it"),
        (lambda d: d["graphs"][0]["nodes"][2].update(args=[{"dict": [["k", {"node": 9}]]}]), "before it"),
        (lambda d: d["graphs"][0]["nodes"][2].update(kwargs={"k": {"node": 9}}), "before it"),
        (lambda d: d["graphs"][0]["nodes"][2].update(body=0), "has body 0, but the graph has 0 children"),
        (lambda d: d["graphs"][0]["nodes"][2]["source"].update(caller=4), "has caller 4"),
        (
            lambda d: d["graphs"][0]["nodes"][2].update(op="callfunction"),
            "has op 'callfunction', which is none of",
        ),
        (
            lambda d: d["graphs"][0]["nodes"][0]["value"].update(stride=[]),
            "nodes[0]: node 'l_x_' has a tensor whose stride",
        ),
        (
            lambda d: d["graphs"][0]["nodes"][0].update(
                value={"kind": "tuple", "items": [d["graphs"][0]["nodes"][0]["value"] | {"stride": [1, 1]}]}
            ),
            "stride and shape differ in length",
        ),
        (lambda d: d["graphs"][0].update(frame=0), "$.graphs[0].frame: frame 0 does not exist"),
        (lambda d: d.update(breaks=[{"reason": "x", "frame": 3}]), "$.breaks[0].frame"),
        (lambda d: d.update(frames=[{"name": "f", "resume_of": 1}]), "$.frames[0].resume_of"),
        (lambda d: d.update(frames=[{"name": "f", "outer": -1}]), "$.frames[0].outer"),
    ],
)
def test_damage_is_named_with_its_path(change, says):
    """A value of the wrong type, or an index that points to nothing, is named with its JSON path."""
    g = GraphBuilder("f")
    x = g.input("x", tensor(2))
    g.output(g.call("operator.pow", g.call("torch.sin", x), 2))
    plain = msgspec.json.decode(encode(capture(g.graph())))
    change(plain)
    assert says in refused(msgspec.json.encode(plain))


def test_read_and_write_a_file(tmp_path):
    """A capture written to a path is read back equal; a folder or nothing there is one error."""
    path = tmp_path / "new" / "c.json"
    jsonfile.write(path, rich_capture())
    assert snapshot.read(path) == jsonfile.read(path) == rich_capture()
    for missing in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(PeekError, match="cannot read"):
            snapshot.read(missing)


def test_two_thousand_damaged_files_are_read_or_refused():
    """A file with bytes changed, dropped, doubled or cut is read or is one PeekError; never another exception."""
    chance = random.Random(0)
    whole = [encode(rich_capture()), encode_record(rich_capture())]
    outcomes = Counter()
    for round_ in range(2_000):
        data = bytearray(whole[round_ % 2])
        for _ in range(chance.randint(1, 3)):
            _damage(data, chance)
        try:
            snapshot.decode(bytes(data), "c")
            outcomes["read"] += 1
        except PeekError as error:
            assert error.problem.startswith("c: ")
            outcomes["refused"] += 1
    assert outcomes["refused"] > outcomes["read"] > 0


@pytest.mark.parametrize(
    "start",
    [
        b'{"schema_version":1,"graphs":',
        b'{"schema_version":1,"environment":{},"unknown":',
        b'{"kind":"header","data":{},"schema_version":1}\n{"kind":"graph","data":',
        b'{"kind":"header","data":',
    ],
)
def test_deep_nesting_is_one_error(start):
    """Brackets nested deeper than Python's stack are refused like any other damage, in a capture and in a journal."""
    with pytest.raises(PeekError) as caught:
        snapshot.decode(start + b"[" * 5_000, "c")
    assert caught.value.problem.startswith("c: ")
    assert "nested too deep" in caught.value.why


@pytest.mark.parametrize("depth", [100, 200, 300, 400, 600, 2_000])
def test_deep_arguments_are_read_or_refused(depth):
    """An argument nested however deep is read, or is one error; never Python's own."""
    plain = msgspec.json.decode(encode(capture(graph(node(0, "x")))))
    plain["graphs"][0]["nodes"][0]["args"] = ["HERE"]
    data = msgspec.json.encode(plain).replace(b'"HERE"', b'{"nested":[' * depth + b"]}" * depth)
    try:
        snapshot.decode(data, "c")
    except PeekError as error:
        assert "nested too deep" in str(error)
        assert depth > 100


def _damage(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    end = at + chance.randint(1, 20)
    kind = chance.randrange(4)
    if kind == 0:
        data[at] = chance.choice(b'0129-"{}[],:\\ \n\x00\xff')
    elif kind == 1:
        del data[at:end]
    elif kind == 2:
        data[at:at] = data[at:end]
    else:
        del data[max(at, 1) :]
