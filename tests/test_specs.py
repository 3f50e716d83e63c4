"""Input specs: what they mean, and where the mark stands under one that is wrong."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peek_backend.errors import PeekError
from peek_backend.model.inputs import TensorSpec
from peek_backend.specs import NAMES, check_names, parse_input, parse_keyword


def tensor(dtype, *shape, names=None, grad=False):
    return TensorSpec(dtype, shape, names or (None,) * len(shape), grad)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("f32[8,16]", tensor("float32", 8, 16)),
        (" i64 [ 2 , 8 ] ", tensor("int64", 2, 8)),
        ("bool[]", tensor("bool")),
        ("b8[0]", tensor("bool", 0)),
        ("torch.bfloat16[2,]", tensor("bfloat16", 2)),
        ("float8_e4m3fn[4]", tensor("float8_e4m3fn", 4)),
        ("f32[batch=8, 16] grad", tensor("float32", 8, 16, names=("batch", None), grad=True)),
        ("3", 3),
        ("-1_000", -1000),
        ("2.5", 2.5),
        ("-1e3", -1000.0),
        ("inf", math.inf),
        ("true", True),
        ("None", None),
        ("'it\\'s'", "it's"),
        ('"a b"', "a b"),
        ("[]", []),
        ("()", ()),
        ("[f32[2], (i64[], 3)]", [tensor("float32", 2), (tensor("int64"), 3)]),
        ("{mask: bool[4], 'a b': 2}", {"mask": tensor("bool", 4), "a b": 2}),
    ],
)
def test_good_specs(text, value):
    """Each spec means what a person would expect."""
    assert parse_input(text) == value
    assert type(parse_input(text)) is type(value)


def test_every_dtype_name_is_understood():
    """Every short and long name of a dtype gives torch's long name, which torch has."""
    torch = pytest.importorskip("torch")
    dtypes = {name: getattr(torch, parse_input(f"{name}[2]").dtype) for name in NAMES}
    assert all(isinstance(dtype, torch.dtype) for dtype in dtypes.values())
    assert {dtypes[n] for n in ("f32", "float", "float32")} == {torch.float32}


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("f33[8]", 1, "did you mean 'f32'?"),
        ("f32[8,", 7, "the [ at column 4 is not closed"),
        ("f32[8", 6, "add ]"),
        ("f32[-1]", 5, "cannot be negative"),
        ("f32[8]]", 7, "nothing may follow"),
        ("f32[8], f32[8]", 7, "its own --input"),
        ("f32", 1, "write f32[8, 16], or f32[]"),
        ("f32[s0, 4]", 5, "give an example: s0=8"),
        ("f32[s0=]", 8, "a size is missing"),
        ("f32[,]", 5, "a size is missing"),
        ("f32[8 16]", 7, "expected a comma or ]"),
        ("f32[1.5]", 6, "expected a comma or ]"),
        ("f32[b=1]", 7, "a size of 2 or more"),
        ("i64[2] grad", 8, "int64 has no gradient"),
        ("tru", 1, "did you mean 'true'?"),
        ("[1, tru]", 5, "did you mean 'true'?"),
        ("hello", 1, "text needs quotes: 'hello'"),
        ("'abc", 1, "add ' at its end"),
        ("'\\x'", 1, "wrong escape"),
        ("'\\('", 1, "wrong escape"),
        ("[1,", 4, "not closed"),
        ("[,]", 2, "an input is missing"),
        ("{a}", 2, "a key needs a value"),
        ("{[1]: 2}", 2, "this is no key"),
        ("@", 1, "no input begins like this"),
        ("🔥[8]", 1, "no input begins like this"),
        ("[" * 100, 51, "nested too deep"),
        ("f32[8]\x1b[31m", 7, "nothing may follow"),
    ],
)
def test_bad_specs_are_marked(text, column, says):
    """A spec that does not parse is one error, with a mark under the column where it stops making sense."""
    with pytest.raises(PeekError) as caught:
        parse_input(text)
    message = str(caught.value)
    assert f"column {column}" in caught.value.problem and says in message
    shown, mark = caught.value.why.splitlines()[-2:]
    assert mark.index("^") - 7 == column - 1
    assert shown[7:] == "".join(c if c.isprintable() else "?" for c in text)


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_empty_spec(text):
    """An empty spec says what one looks like."""
    with pytest.raises(PeekError, match="empty input spec"):
        parse_input(text)


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet="f32i64bool[](){},:='\" -.+xé\\1", max_size=30))
def test_any_text_is_a_value_or_one_error(text):
    """No text, however mangled, ends in anything but a value or a PeekError."""
    try:
        parse_input(text)
    except PeekError as error:
        assert "\n" not in error.problem


def test_keyword():
    """NAME=SPEC is split at the first equals sign; without one it is refused."""
    assert parse_keyword("mask=f32[b=8]") == ("mask", tensor("float32", 8, names=("b",)))
    for bad in ("mask", "=3", "a b=3", "3=3"):
        with pytest.raises(PeekError, match="NAME=SPEC"):
            parse_keyword(bad)
    with pytest.raises(PeekError, match="bad argument 'mask' spec, column 1"):
        parse_keyword("mask=f33[8]")


def test_one_name_has_one_size():
    """A dynamic dim that is named twice must have one size."""
    check_names([parse_input("f32[b=8]"), parse_input("[f32[2, b=8]]")])
    with pytest.raises(PeekError, match="it is 8 in one place and 4 in another"):
        check_names([parse_input("f32[b=8]"), parse_input("{x: f32[b=4]}")])
