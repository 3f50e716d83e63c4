"""torch's texts of guards, breaks and failures as a person reads them. Nothing is compiled: the texts are as torch wrote them."""

from __future__ import annotations

import enum
import functools
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch

from peek_backend.capture import compat, metrics
from peek_backend.capture.breaks import intent_of, parse_message, tidy
from peek_backend.capture.changes import Retry, advice
from peek_backend.capture.conditions import in_program_words, names_of
from peek_backend.capture.fakekernels import fake_kernel_stub
from peek_backend.capture.guards import bound
from peek_backend.capture.recompiles import attempts, read_failed
from peek_backend.capture.symbols import arithmetic, minus, read_symbols, user_line
from peek_backend.model import Phase, StackFrame


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer_idx = 7
        self.scale = torch.nn.Parameter(torch.ones(2, 3))


class Slotted:
    __slots__ = ("size", "unset")

    def __init__(self):
        self.size = 3


class Point(NamedTuple):
    first: int
    second: int


class Colour(enum.Enum):
    RED = 1

    def __repr__(self):
        raise AssertionError("the user's code ran")


LOCALS = {
    "slotted": Slotted(),
    "point": Point(1, 5),
    "colour": Colour.RED,
    "part": slice(1, 9),
    "partial": functools.partial(print, end=""),
    "held": {3},
    "x": torch.ones(6, 2),
    "k": 2,
    "self": Holder(),
    "items": [1, 2, 3],
    "d": {"a": 5},
    "name": "relu",
    "fn": print,
}


# What torch adds to each failed guard on a parameter.
PARAMETER = (
    "Guard failed on a parameter, consider using torch._dynamo.config.force_parameter_static_shapes = False to allow dynamism on "
    "parameters."
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0/0: tensor 'x' size mismatch at index 0. expected 4, actual 6", "x.shape[0]: expected 4, got 6"),
        (
            "0/1: tensor 'x' stride mismatch at index 1. expected 1, actual 2",
            "x.stride(1): expected 1, got 2",
        ),
        ("0/0: tensor 'x' rank mismatch. expected 2, actual 3", "x.dim(): expected 2, got 3"),
        (
            "0/0: tensor 'x' dtype mismatch. expected Float, actual Double",
            "x.dtype: expected float32, got float64",
        ),
        (
            "1/0: tensor 'x' requires_grad mismatch. expected requires_grad=0",
            "x.requires_grad: expected False, got True",
        ),
        (
            f"0/0: tensor 'm._parameters['bias']' size mismatch at index 0. expected 4, actual 5. {PARAMETER}",
            "m.bias.shape[0]: expected 4, got 5",
        ),
        (
            f"0/0: tensor 'm._parameters['bias']' requires_grad mismatch. expected requires_grad=1. {PARAMETER}",
            "m.bias.requires_grad: expected True, got False",
        ),
        ("0/0: k == 1    # return x * k  # src/m.py:3 in f", "k == 1, got 2"),
        (
            "0/0: self.layer_idx == 6    # y[self.layer_idx]  # src/m.py:9 in forward",
            "self.layer_idx == 6, got 7",
        ),
        ("0/0: len(items) == 2", "len(items) == 2, got 3"),
        ("0/0: d['a'] == 4", "d['a'] == 4, got 5"),
        ("0/0: list(dict.keys(d))[0] == 'b'", "list(dict.keys(d))[0] == 'b', got 'a'"),
        ("0/0: slotted.size == 4", "slotted.size == 4, got 3"),
        ("0/0: slotted.unset == 4", "slotted.unset == 4"),
        ("0/0: point.second == 4", "point.second == 4, got 5"),
        ("0/0: part.stop == 4", "part.stop == 4, got 9"),
        ("0/0: partial.keywords['end'] == 'x'", "partial.keywords['end'] == 'x', got ''"),
        ("0/0: held == {1}", "held == {1}, got {3}"),
        (
            "0/0: ___check_obj_id(colour, 9), type=<class 'm.Colour'>",
            "colour: expected the same object of type m.Colour, got Colour.RED",
        ),
        ("0/0: name == 'gelu'", "name == 'gelu', got 'relu'"),
        ("0/0: 2 <= x.size()[0] <= 5", "2 <= x.shape[0] <= 5, got x.shape[0] = 6"),
        ("0/0: x.size()[0] == x.size()[1]", "x.shape[0] == x.shape[1], got 6 and 2"),
        ("0/0: self.scale.size()[1] == 4", "self.scale.shape[1] == 4, got 3"),
        ("0/0: not x.size()[0] % 4", "not x.shape[0] % 4, got x.shape[0] % 4 = 2"),
        ("0/0: ___check_type_id(k, 9), type=<class 'float'>", "type of k: expected float, got int"),
        (
            "0/0: ___check_obj_id(fn, 94851725128896), type=<class 'function'>",
            "fn: expected the same object of type function, got a builtin_function_or_method",
        ),
        ("0/0: GLOBAL_STATE changed: grad_mode ", "grad mode changed"),
        (
            "0/0: GLOBAL_STATE changed: autocast(cpu)_enabled autocast(cuda)_dtype autocast_cache_enabled ",
            "autocast on cpu, autocast dtype on cuda, autocast cache changed",
        ),
        ("0/0: unknown == 3", "unknown == 3"),
        ("0/0: k.bit_length() == 1", "k.bit_length() == 1"),
        ("0/0: x.size()[0] // 0 == 1", "x.shape[0] // 0 == 1"),
    ],
)
def test_a_failed_guard_in_words(text, words):
    """What was expected and what the call had, where it can be read without running the user's code."""
    guard = read_failed(text, LOCALS)
    assert guard.text == words
    assert guard.variant == text.partition(":")[0]


def test_a_failed_guard_has_the_users_line():
    """From torch's user stack with the whole path, else from the comment, its short path completed by the frame's file."""
    stack = '0/0: k == 1  # return k  # m.py:3 in f\nUser stack trace:\n  File "/src/m.py", line 3, in f\n    return k'
    assert read_failed(stack).user == StackFrame("/src/m.py", 3, "f", "return k")
    comment = "0/0: k == 1  # return k  # src/m.py:3 in f"
    assert read_failed(comment, file="/home/a/src/m.py").user.file == "/home/a/src/m.py"
    assert read_failed(comment).user == StackFrame("src/m.py", 3, "f", "return k")


def test_values_are_read_without_running_the_users_code():
    """A property, ``__getattr__``, ``__len__`` and ``__eq__`` of the user's are not called: such a value stays unknown."""

    class Trap:
        @property
        def size(self):
            raise AssertionError("ran")

        def __getattr__(self, name):
            raise AssertionError("ran")

        def __len__(self):
            raise AssertionError("ran")

        def __eq__(self, other):
            raise AssertionError("ran")

        def __repr__(self):
            raise AssertionError("ran")

        __hash__ = None

    for text in (
        "0/0: t.size == 1",
        "0/0: t.other == 1",
        "0/0: len(t) == 1",
        "0/0: t == 1",
        "0/0: t[0] == 1",
    ):
        assert read_failed(text, {"t": Trap()}).source.strip()


def test_failure_texts_are_told_apart_by_attempt():
    """Every attempt names each variant once; a second mention begins the next one."""
    texts = ["0/1: a", "0/0: b", "0/2: c", "0/1: a", "0/0: b"]
    assert attempts(texts) == [["0/1: a", "0/0: b", "0/2: c"], ["0/1: a", "0/0: b"]]
    assert attempts([]) == []


MESSAGE = """Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `print`
    with these arguments.
  Hint: Avoid calling builtin `print`.
  Hint: Use another one.

  Developer debug context: builtin print [<class 'str'>] False

 For more details about this graph break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html

from user code:
   File "m.py", line 3, in f
"""


def test_a_break_message_taken_apart():
    """Reason, explanation over several lines, every hint, context, id and link; the trailing traceback is left out."""
    message = parse_message(MESSAGE)
    assert message.reason == "Failed to trace builtin operator"
    assert message.explanation.endswith("with these arguments.")
    assert message.hints == ("Avoid calling builtin `print`.", "Use another one.")
    assert message.context == "builtin print [<class 'str'>] False"
    assert (message.id, message.link.rpartition("/")[2]) == ("GB0059", "gb0059.html")


def test_a_jump_on_a_tensor_gets_its_words_from_the_registry():
    """Dynamo keeps only ``generic_jump``; its registry says what that is."""
    message = parse_message("generic_jump TensorVariable()")
    assert message.reason == "Data-dependent branching"
    assert "data-dependent" in message.explanation
    assert message.id == compat.break_registry().get(message.reason, (None,))[0]


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("Call to `torch._dynamo.graph_break()`\n  Explanation: User-inserted graph break.", "user"),
        ("Skip calling `torch.compiler.disable()`d function\n  Explanation: Skip calling", "user"),
        (
            "Attempted to call function marked as skipped\n"
            "  Explanation: Dynamo developers have intentionally marked that the function `f`",
            "skiplist",
        ),
        ("Attempted to call function marked as skipped\n  Explanation: Dynamo does not know", "unsupported"),
        ("", "unsupported"),
    ],
)
def test_who_asked_for_a_break(text, intent):
    """The user, torch's skip list, or nobody: told by torch's own words."""
    assert intent_of(parse_message(text)) == intent


def test_resume_functions_go_by_the_name_of_what_they_continue():
    """Of a function and its resume function only the line further on is kept; recursion stays."""
    stack = [
        StackFrame("m.py", 9, "main"),
        StackFrame("m.py", 3, "f"),
        StackFrame("m.py", 5, "torch_dynamo_resume_in_f_at_3"),
        StackFrame("m.py", 2, "g"),
        StackFrame("m.py", 2, "g"),
    ]
    assert [(f.function, f.line) for f in tidy(stack)] == [("main", 9), ("f", 5), ("g", 2), ("g", 2)]


def test_a_stub_for_an_op_without_a_fake_kernel():
    """Advice, then code: the schema, a function with the op's arguments and as many results; nothing for other failures."""
    library = torch.library.Library("peek_words", "DEF")
    library.define("two(Tensor x, int n=3, *, str mode='a') -> (Tensor, int)")
    stub = fake_kernel_stub("unsupported operator: peek_words.two.default (see the docs)")
    lines = stub.splitlines()
    assert lines[0].startswith("write a fake kernel")
    assert lines[1].startswith("# peek_words::two(Tensor x, int n=3")
    assert '@torch.library.register_fake("peek_words::two")' in lines
    assert "def two_fake(x, n=3, *, mode='a'):" in lines
    assert lines[-1].strip().startswith("return torch.empty_like(x), 0")
    compile(stub.partition("them:\n")[2], "stub", "exec")
    assert fake_kernel_stub("unsupported operator: peek_words.gone.default") == ""
    assert fake_kernel_stub("something else") == ""


def test_floats_of_a_symbol_are_short():
    """What replaces a float symbol, and facts on it, read 1e-05, without the 15 or 17 digits that sympy and torch print."""
    import sympy

    scale = sympy.Symbol("zf0", real=True)
    env = SimpleNamespace(
        var_to_range={scale: None},
        var_to_sources={},
        replacements={scale: sympy.Float(1e-5)},
        guards=(),
        backed_var_to_val={},
    )
    (symbol,) = read_symbols(env, [scale], None)
    assert symbol.replaced_by == "1e-05"
    assert [fact.text for fact in symbol.facts] == ["zf0 == 1e-05"]
    assert arithmetic(sympy.Float(0.3) * scale) == "0.3*zf0"


def test_shape_guards_in_plain_arithmetic():
    """Bounds read from left to right, a difference is a difference, sympy's functions are operators."""
    import sympy

    a, b = sympy.symbols("s0 s1", integer=True, positive=True)
    assert arithmetic(sympy.Eq(a + b, 10)) == "s0 + s1 == 10"
    assert arithmetic(sympy.Ne(a, 1)) == "s0 != 1"
    assert minus("10 + ((-1)*s27)") == "10 - s27"
    assert bound("2 <= x.shape[0]") == "x.shape[0] >= 2"
    assert bound("2 <= x.shape[0] and x.shape[0] <= 5") == "2 <= x.shape[0] <= 5"


def test_a_user_line_of_the_shape_environment():
    """Code, file and line; the short path is completed to a file of the graph."""
    text = "if x.shape[0] > 3:  # src/m.py:12 in f"
    assert user_line(text, ["/a/src/m.py"]) == StackFrame("/a/src/m.py", 12, "f", "if x.shape[0] > 3:")
    assert user_line(text).file == "src/m.py"
    assert user_line(None) is None and user_line("no place") is None


def test_phases_add_up():
    """torch's nested fields become phases beside each other; codegen is part of Inductor; a backward has no Dynamo."""
    forward = SimpleNamespace(
        is_forward=True,
        dynamo_cumulative_compile_time_us=10_000_000,
        aot_autograd_cumulative_compile_time_us=6_000_000,
        inductor_cumulative_compile_time_us=4_000_000,
        inductor_code_gen_cumulative_compile_time_us=1_000_000,
    )
    seconds = {p.name: p.seconds for p in metrics.phases(forward)}
    assert seconds == {"dynamo": 4.0, "aot": 2.0, "inductor": 4.0, "codegen": 1.0, "total": 10.0}
    backward = SimpleNamespace(
        is_forward=False,
        backward_cumulative_compile_time_us=3_000_000,
        inductor_cumulative_compile_time_us=2_000_000,
    )
    found = {p.name: p.seconds for p in metrics.phases(backward)}
    assert found == {"aot": 1.0, "inductor": 2.0, "total": 3.0}
    both = metrics.added(metrics.phases(forward), metrics.phases(backward))
    assert Phase("total", 13.0) in both and Phase("inductor", 6.0) in both


@pytest.mark.parametrize(
    ("condition", "line", "names", "said"),
    [
        ("u0 > 3", "if 3 < n:", {}, "3 < n"),
        ("Eq(u0, 3)", "elif rows.shape[0] == 3:", {}, "rows.shape[0] == 3"),
        ("Eq(Mod(u0, 2), 0)", "assert len(found) % 2 == 0", {}, "len(found) % 2 == 0"),
        ("u0 < s77", "while n < x.size(0):", {}, "n < x.size(0)"),
        ("u0 > 3", "if n > 3 and m > 3:", {}, "u0 > 3"),
        ("u0 > 3", "if n > 3 and m > 3:", {"u0": "m"}, "m > 3"),
        ("u0 > u1", "if a > a:", {"u1": "b"}, "u0 > b"),
        ("u0 > 3", "if t.item() > 3:", {}, "u0 > 3"),
        ("Ne(2*u0, 6)", "y = x.view(n, -1)", {"u0": "n"}, "2 * n != 6"),
        ("u0 >", "if n > 3:", {}, "u0 >"),
        ("u0 > 3", "if (n > 3 and", {}, "u0 > 3"),
    ],
)
def test_a_condition_on_data_in_the_programs_words(condition, line, names, said):
    """The comparison that the line has in the same form, of one value each; else torch's, with the names that are known."""
    assert in_program_words(condition, line, names) == said


def test_no_advice_for_what_another_thread_did():
    """A variant that another thread was compiling is no fault of the call; a dict that lacks a key is."""
    holds = read_failed("0/0: Unexpected recompilation: cache entry found")
    assert "another thread" in holds.text and advice(Retry((holds,))) == ""
    lacks = read_failed("0/0: ___dict_contains('bias', L['config'])")
    assert advice(Retry((lacks,))) == "pass dicts with the same keys each time"


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (["n = t.sum().item()"], {"u0": "n"}),
        (["k = int(t.max())"], {"u0": "k"}),
        (["a, b = t.tolist()", "a, b = t.tolist()"], {"u0": "a", "u1": "b"}),
        (["n = t.item()", "m = t.item()"], {"u0": "n", "u1": "m"}),
        (["n = t.item()", "n = t.item()"], {"u1": "n"}),
        (["n = t.item() + 1"], {}),
        (["y = x[t > 0]"], {}),
        (["self.n = t.item()"], {}),
        (["for n in (t.item(),"], {}),
    ],
)
def test_what_the_program_calls_a_number_that_it_read(lines, names):
    """The name that a line gives to the number itself; of a line that ran twice, the last one has it."""
    places = [f"{line}  # model.py:3 in f" for line in lines]
    slocs = {f"u{i}": SimpleNamespace(lower=SimpleNamespace(maybe_user_loc=p)) for i, p in enumerate(places)}
    assert names_of(SimpleNamespace(var_to_range_sloc=slocs)) == names
