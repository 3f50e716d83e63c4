"""Every text that a command prints fits the terminal: COLUMNS=80 over captures with all there is to tell."""

from __future__ import annotations

import msgspec
import pytest
import torch

from peek_backend.capture.session import Session
from peek_backend.model import (
    BreakInfo,
    EarlierFrame,
    FailedGuard,
    FrameRecord,
    GuardInfo,
    Phase,
    Problem,
    RecompileInfo,
    StackFrame,
)
from peek_backend.render.escape import width
from peek_backend.snapshot import jsonfile
from tests.builders import capture, symbol, transformer

WIDE = 80
LONG = " ".join(["a sentence that goes on and on"] * 6)
CODE = StackFrame(
    "/src/model.py", 31, "forward", "return " + " + ".join(f"self.layer_{i}(x)" for i in range(12))
)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a_rather_long_projection_name = torch.nn.Linear(16, 16)
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x):
        return x + torch.nn.functional.gelu(self.a_rather_long_projection_name(self.norm(x)))


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder_layers = torch.nn.ModuleList([Block(), Block()])
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        for layer in self.encoder_layers:
            x = layer(x)
        return x.relu_().sum() * self.count


def staged():
    """A training step with its joint, forward and backward graphs."""
    with Session(stages=("joint", "forward", "backward")) as session:
        torch.compile(Encoder(), backend="aot_eager")(torch.ones(4, 16)).backward()
    return session.record


def troubled():
    """Breaks, recompiles, the limit, a stance, a reset, a generator and an error in one capture."""

    def broken(x, k):
        x = x * k
        torch._dynamo.graph_break()
        return x + 1 if x.sum() > 0 else x - 1

    def numbers(x):
        yield x

    def run(x, k, mode):
        return x * k + len(mode)

    with Session(count_calls=True) as session, torch._dynamo.config.patch(recompile_limit=4):
        for size in (2, 3, 4):
            torch.compile(broken, backend="eager")(torch.ones(size), size)
            torch._dynamo.reset()
        list(torch.compile(numbers, backend="eager")(torch.ones(2)))
        compiled = torch.compile(run, backend="eager")
        for mode in "abcdefg":
            compiled(torch.ones(2), 2, mode * 40)
        with torch.compiler.set_stance("eager_on_recompile"):
            compiled(torch.ones(5), 2, "h")
        with pytest.raises(Exception, match="graph_break"):
            torch.compile(lambda x: torch._dynamo.graph_break(), backend="eager", fullgraph=True)(
                torch.ones(2)
            )
    return session.record


def wordy():
    """A capture by hand, with long texts in every field that a person reads."""
    guard = FailedGuard(f"x.shape[0]: {LONG}", "x.shape[0]", "4", "6", CODE, "0/0")
    event = BreakInfo(LONG, LONG, (LONG, LONG), "GB0000", None, LONG, (CODE, CODE), "unsupported", "0/0", 0)
    graph = msgspec.structs.replace(
        transformer(2, name="Decoder.forward_of_a_class_with_a_long_name"),
        ended_by=event,
        notes=(LONG,),
        problems=(Problem("0/0 linear_3", LONG, LONG, LONG),),
        never_ran=LONG,
        frame=0,
        symbols=(symbol("s0", *(f"a_tensor_with_a_long_name_{i}.shape[0]" for i in range(6)), hint=8),),
        relations=tuple(f"s{i} = 2*s{i + 1}" for i in range(12)),
        guards=(
            GuardInfo("EQUALS_MATCH", f"k == {LONG!r}", "k", CODE),
            GuardInfo("GRAD_MODE", LONG, "", None, True),
        ),
    )
    frames = (
        FrameRecord(
            "Decoder.forward_of_a_class_with_a_long_name", "/src/model.py", 12, "failed", LONG, ("0/0", "0/1"),
            phases={"0/0": (Phase("dynamo", 1.5), Phase("aot", 0.5), Phase("inductor", 2.5), Phase("total", 4.5))},
            calls={"0/0": 3, "0/1": 2}, fix=LONG, user=CODE, callers=(CODE, CODE), resets=2, eager_calls=3, eager_why=LONG,
        ),
    )  # fmt: skip
    recompile = RecompileInfo("0/1", 0, 2, (guard, guard), (LONG, LONG), LONG)
    refused = RecompileInfo("0/2", 0, 3, (guard,), (), LONG, refused=True, user=CODE, call=9)
    earlier = EarlierFrame(
        "Decoder.forward_of_a_class_with_a_long_name", "/src/model.py", 12, {"0/0": (LONG,)}
    )
    return capture(
        graph, frames=frames, breaks=(event,), recompiles=(recompile, refused), problems=(Problem("session", LONG, LONG),),
        notes=(LONG,), earlier=(earlier,),
    )  # fmt: skip


MADE = {"staged": staged, "troubled": troubled, "wordy": wordy}


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    """Each capture as a file."""
    folder = tmp_path_factory.mktemp("widths")
    torch._dynamo.reset()
    for name, make in MADE.items():
        jsonfile.write(folder / f"{name}.json", make())
        torch._dynamo.reset()
    return folder


TOPICS = (
    "breaks",
    "recompiles",
    "frames",
    "times",
    "symbols",
    "guards",
    "guards by line",
    "break 1",
    "0/0",
    "x",
    "k",
    "s0",
)
COMMANDS = [
    *[
        ("show", "{}", *more)
        for more in ((), ("--all",), ("--format", "tree"), ("--format", "grid"), ("--graph", "0/0"))
    ],
    ("show", "{}", "--columns", "index,name,target,args,source"),
    ("explain", "{}"),
    ("explain", "{}", "--details"),
    *[("explain", "{}", topic) for topic in TOPICS],
]
OF_STAGES = [
    *[("show", "{}", "--stages", pair) for pair in ("dynamo,joint", "joint,forward", "forward,backward", "all")],
    ("show", "{}", "--stages", "dynamo,joint", "--format", "grid"),
    ("show", "{}", "--saved"),
    ("show", "{}", "--in-place"),
    ("trace", "{}", "test_widths.py:44"),
    ("trace", "{}", "0/0 joint:addmm"),
    ("trace", "{}", "0/0 joint:addmm", "--format", "grid"),
]  # fmt: skip


def wide_lines(text):
    """The lines that do not fit, but for those that are one long word, such as a path."""
    return [line for line in text.splitlines() if width(line) > WIDE and len(line.split()) > 1]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        *((name, command) for name in MADE for command in COMMANDS),
        *(("staged", command) for command in OF_STAGES),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[2:]) or value[0],
)
def test_no_line_is_wider_than_the_terminal(peek, captures, monkeypatch, name, command):
    """The answer, or the refusal of what this capture has not, is within 80 columns."""
    monkeypatch.setenv("COLUMNS", str(WIDE))
    done = peek(*[part.format(captures / f"{name}.json") for part in command])
    assert (done.code == 0) == bool(done.out)
    assert wide_lines(done.out) == []


@pytest.mark.parametrize(("left", "right"), [("wordy", "troubled"), ("staged", "wordy")])
def test_a_diff_fits_the_terminal(peek, captures, monkeypatch, left, right):
    """Two captures that differ in everything, compared."""
    monkeypatch.setenv("COLUMNS", str(WIDE))
    done = peek("diff", captures / f"{left}.json", captures / f"{right}.json")
    assert done.code in (1, 5) and done.out
    assert wide_lines(done.out) == []


def test_help_fits_the_terminal(peek, monkeypatch):
    """The help of every command."""
    from peek_backend.cli.entry import VERBS

    monkeypatch.setenv("COLUMNS", str(WIDE))
    for verb in VERBS:
        done = peek(verb, "--help")
        assert done.code == 0 and wide_lines(done.out) == [], verb
