"""``.graph`` files that are damaged: always one PeekError with line and column."""

from __future__ import annotations

import random
import re
import time

import pytest

from peek_backend.errors import PeekError
from peek_backend.model.snapshot import Snapshot
from peek_backend.snapshot.graphfile import decode_graph, parse_graph, print_graph

TEXT = """\
peek-graph 1
name   test_mlp[dynamic]
env    torch=2.13 py=3.11 device=cpu grad=on dynamic=mark(x:0)
stats  frames=3 graphs=2 ops=7 breaks=1 recompiles=1
note   x.shape[0] and y.shape[0] were equal

graph MLP.forward
  sym  s0 = x.shape[0] in [2, ∞]
  guard s0 > 3
  in   fc1.weight:      f32[16, 8] grad
  in   x:               f32[s0, 8]
  in   batch[0]['ids']: i64[s0, 2*s0 + 1] device=cuda:0
  # fc1   model.py:forward   return self.fc2(F.relu(self.fc1(x)))
  %fc1.linear = F.linear(x, fc1.weight, None)                f32[s0, 16] grad
  %relu       = F.relu(%fc1.linear, inplace=False)           f32[s0, 16] grad
  #
  %max  = torch.max(%relu, 1, alpha=[1, 2.5, nan, -inf])     tuple(torch.return_types.max, values: f32[s0], indices: i64[s0])
  %cond = cond(%relu, @true_0, {"a": slice(None, 2, None)})  (f32[8])
  out  %cond, %max
body true_0
  in   `a b`: f32[8]
  %sin = .sin(`a b`, torch.float32, device("cuda:0"))        f32[8]
  out  %sin
break gb0059  f.py:f  print("n", …)   Failed to trace builtin operator

graph MLP.forward ▸ resume#1 ▸ variant#2   because k == 1
  in   y: f32[8] stride=(2)
  %cos = .cos(y)                                             f32[8]
  %add = operator.add(%cos, 1)                               f32[8]
  out  %add
frame loopbrk SKIPPED: torch never traces it   at lib/x.py:loopbrk
"""
PLACE = re.compile(r"a\.graph:(\d+):(\d+): ")
BYTES = TEXT.encode()


def outcome(data: bytes) -> Snapshot | None:
    """What a file reads as; None when it is refused in the right way."""
    start = time.perf_counter()
    try:
        return decode_graph(data, "a.graph")
    except PeekError as error:
        place = PLACE.match(error.problem)
        assert place, error.problem
        lines = data.split(b"\n")
        assert 1 <= int(place[1]) <= len(lines) and int(place[2]) >= 1
        return None
    finally:
        assert time.perf_counter() - start < 1


def mutated(rng: random.Random) -> bytes:
    """The file cut, or with bytes or lines changed, doubled, swapped or left out."""
    data = bytearray(BYTES)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at, to = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        lines = bytes(data).split(b"\n")
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        kind = rng.randrange(9)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 2:
            data[at:at] = rng.choice(
                (
                    b"(",
                    b")",
                    b"`",
                    b'"',
                    b"  ",
                    b"\r",
                    b"%",
                    b"[",
                    b",",
                    b"\xff",
                    b"0",
                    b"\n",
                    b"=",
                    b"@",
                    b"\\",
                )
            )
        elif kind == 3:
            del data[at : min(to, at + rng.randrange(1, 20))]
        elif kind == 4:
            lines[i], lines[j] = lines[j], lines[i]
            data = bytearray(b"\n".join(lines))
        elif kind == 5:
            lines.insert(j, lines[i])
            data = bytearray(b"\n".join(lines))
        elif kind == 6:
            del lines[i]
            data = bytearray(b"\n".join(lines))
        elif kind == 7:
            data[at : at + 1] = bytes([BYTES[rng.randrange(len(BYTES))]])
        else:
            data[at:at] = BYTES[at : at + rng.randrange(40)] * rng.choice((1, 2, 30))
    return bytes(data)


def check_mutations(seed: int, count: int) -> None:
    rng = random.Random(seed)
    whole = parse_graph(TEXT, "a.graph")
    read = 0
    for _ in range(count):
        data = mutated(rng)
        found = outcome(data)
        if found is None:
            continue
        read += 1
        # What is still a file is read for what it says: its text is that of what was read, but for blanks.
        written = re.sub(rb"\s+", b" ", print_graph(found).encode())
        assert written == re.sub(rb"\s+", b" ", data) or _only_spelling(found, data)
        if found == whole:
            assert _only_spelling(found, data)
    assert read < count / 2


def _only_spelling(found: Snapshot, data: bytes) -> bool:
    """Whether a text that is not canonical differs from its canonical one in blanks, quotes or comment lines alone."""

    def bare(text: str) -> list[str]:
        lines = [line for line in text.split("\n") if not line.startswith("  #")]
        return [re.sub(r"[\s`\\]+", "", line) for line in lines if line.strip()]

    return bare(print_graph(found)) == bare(data.decode())


def test_the_example_is_canonical():
    """The text that the tests below damage is itself read, and printed the same."""
    assert print_graph(parse_graph(TEXT, "a.graph")) == TEXT


def test_damaged_files_are_refused_or_read_for_what_they_say():
    """Of 1,500 mutated files none gives a traceback, takes a second, or reads as what it is not."""
    check_mutations(0, 1500)


@pytest.mark.slow
def test_ten_thousand_damaged_files():
    """The same of 10,000."""
    check_mutations(1, 10_000)


def test_no_cut_passes():
    """A file cut at any byte is refused: a shorter file never reads as a smaller snapshot."""
    refused = [at for at in range(len(BYTES)) if outcome(BYTES[:at]) is None]
    assert refused == list(range(len(BYTES)))


@pytest.mark.parametrize(
    ("data", "line", "column", "words"),
    [
        (BYTES.replace(b"  guard", b"<<<<<<< ours\n  guard"), 9, 1, "conflict marker"),
        (BYTES.replace(b"  guard", b"=======\n  guard"), 9, 1, "conflict marker"),
        (BYTES.replace(b"  guard", b">>>>>>> theirs\n  guard"), 9, 1, "conflict marker"),
        (BYTES.replace(b"\n", b"\r\n"), 1, 13, "CRLF"),
        (b"\xef\xbb\xbf" + BYTES, 1, 1, "byte order mark"),
        (BYTES.replace(b"peek-graph 1", b"peek-graph 2"), 1, 12, "newer version"),
        (BYTES.replace(b"peek-graph 1", b"peek-graph x"), 1, 12, "unknown format version"),
        (BYTES.replace(b"loopbrk", b"loop\xffbrk"), 31, 11, "not UTF-8"),
        (b"", 1, 1, "empty"),
        (b"{}\n", 1, 1, "no snapshot"),
        (BYTES[:-1], 31, 67, "does not end"),
        (BYTES.replace(b"ops=7", b"ops=8"), 4, 8, "counts"),
        (BYTES.replace(b"relu(%fc1.linear", b"relu(%fc1.line"), 15, 24, "unknown node %fc1.line"),
        (BYTES.replace(b"@true_0", b"@true_1"), 18, 23, "unknown body @true_1"),
        (BYTES.replace(b"cos(y)", b"cos(z)"), 28, 15, "arguments"),
        (BYTES.replace(b"  %cos =", b"  %add ="), 29, 3, "two nodes"),
        (BYTES.replace(b"f32[s0, 16]", b"f32[s0, 16"), 14, 77, "type"),
        (BYTES.replace(b"loopbrk", b"loop\0brk"), 31, 11, "control character"),
    ],
)
def test_each_damage_is_named_with_its_place(data: bytes, line: int, column: int, words: str):
    """What editors, git and hands do to a file is named, at its line and column."""
    with pytest.raises(PeekError) as caught:
        decode_graph(data, "a.graph")
    assert caught.value.problem.startswith(f"a.graph:{line}:{column}: ")
    assert words in caught.value.problem


def test_deep_nesting_is_refused():
    """10,000 open brackets are an error of that line, not of the interpreter's stack."""
    for damage in (b"[" * 10_000, b"(" * 10_000, b"{" * 10_000, b"slice(" * 10_000):
        assert outcome(BYTES.replace(b"(%cos, 1)", b"(%cos, " + damage + b"1)")) is None
        assert outcome(BYTES.replace(b"y: f32[8]", b"y: " + damage + b"f32[8]")) is None
