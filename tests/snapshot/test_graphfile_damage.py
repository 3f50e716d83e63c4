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
stats  frames=3 graphs=3 ops=7 breaks=1 recompiles=1
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

graph MLP.forward ▸ resume#1
  in   y: f32[8]
  out  y

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
        (BYTES.replace(b"loopbrk", b"loop\xffbrk"), 35, 11, "not UTF-8"),
        (b"", 1, 1, "empty"),
        (b"{}\n", 1, 1, "no snapshot"),
        (BYTES[:-1], 35, 67, "does not end"),
        (BYTES.replace(b"ops=7", b"ops=8"), 4, 8, "counts"),
        (BYTES.replace(b"relu(%fc1.linear", b"relu(%fc1.line"), 15, 24, "unknown node %fc1.line"),
        (BYTES.replace(b"@true_0", b"@true_1"), 18, 23, "unknown body @true_1"),
        (BYTES.replace(b"cos(y)", b"cos(z)"), 32, 15, "arguments"),
        (BYTES.replace(b"  %cos =", b"  %add ="), 33, 3, "two nodes"),
        (BYTES.replace(b"f32[s0, 16]", b"f32[s0, 16"), 14, 77, "type"),
        (BYTES.replace(b"loopbrk", b"loop\0brk"), 35, 11, "control character"),
    ],
)
def test_each_damage_is_named_with_its_place(data: bytes, line: int, column: int, words: str):
    """What editors, git and hands do to a file is named, at its line and column."""
    with pytest.raises(PeekError) as caught:
        decode_graph(data, "a.graph")
    assert caught.value.problem.startswith(f"a.graph:{line}:{column}: ")
    assert words in caught.value.problem


HEAD = b"env    torch=2.13 py=3.11 device=cpu grad=on dynamic=mark(x:0)"


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "words"),
    [
        (b"  sym  s0 = x.shape[0] in [2, \xe2\x88\x9e]\n", b"", 8, 9, "unknown symbol s0"),
        (b"[8] stride=(2)", b"[8] stride=(s7)", 31, 26, "unknown symbol s7"),
        (b"(%cos, 1)", b"(%cos, s1)", 33, 29, "unknown symbol s1"),
        (b"(%cos, 1)", b'(%cos, sym("2*u3"))', 33, 36, "unknown symbol u3"),
        (b"  guard s0 > 3", b"  guard s0 > s3", 9, 14, "unknown symbol s3"),
        (b"f32[8]\n  out  %sin\nbreak", b"f32[s1]\n  out  %sin\nbreak", 22, 66, "unknown symbol s1"),
        (b"  guard s0 > 3\n", b"  guard so > 3\n", 9, 9, "names no symbol"),
        (b"  guard s0 > 3\n", b"  guard s0 > 3\n  guard s0 > 3\n", 10, 9, "guard s0 > 3 is there twice"),
        (b"  guard s0 > 3\n", b"  sym  s0 = x.shape[0] in [2, 9]\n", 9, 8, "symbol s0 is there twice"),
        (b"in [2, \xe2\x88\x9e]", b"in [7, 2]", 8, 27, "no number is in [7, 2]"),
        (b" \xe2\x96\xb8 variant#2   because", b"   because", 30, 7, "resume#1 is there twice"),
        (b"variant#2", b"variant#4", 30, 7, "follows no variant#3"),
        (b"true_0\n  in ", b"true_1\n  in ", 18, 23, "unknown body @true_0"),
        (b".sin(`a b`, ", b".sin(@true_0, ", 20, 6, "body true_0 calls itself"),
        (b"note   x", b"note   x.shape[0] and y.shape[0] were equal\nnote   x", 6, 8, "is there twice"),
        (HEAD, HEAD.replace(b"torch", b"toch"), 3, 8, "environment cannot be read"),
        (HEAD, HEAD.replace(b"device", b"dice"), 3, 27, "environment cannot be read"),
        (HEAD, HEAD + b" torch=2.15", 3, 64, "environment cannot be read"),
        (HEAD, HEAD.replace(b" grad=on", b""), 3, 55, "environment cannot be read"),
        (HEAD, HEAD.replace(b"=on", b"=onn"), 3, 38, "environment cannot be read"),
        (HEAD + b"\n", b"", 3, 1, "starts with 'env'"),
        (b"env ", b"evn ", 3, 1, "starts with 'env'"),
        (b"frames=3 ", b"frame=3 ", 4, 8, "counts cannot be read"),
        (b"breaks=1", b"graphs=3", 4, 32, "counts cannot be read"),
        (b"stats  ", b"stat   ", 4, 1, "starts with 'stats'"),
    ],
)
def test_what_nothing_declares_is_refused(old: bytes, new: bytes, line: int, column: int, words: str):
    """A reference to nothing, what is declared twice, a key that is misspelt, missing or there twice: each at its place."""
    assert old in BYTES
    with pytest.raises(PeekError) as caught:
        decode_graph(BYTES.replace(old, new, 1), "a.graph")
    assert words in caught.value.problem
    assert caught.value.problem.startswith(f"a.graph:{line}:{column}: ")


def test_a_misspelt_key_is_told_the_right_one():
    """The key that was meant is named, of the environment, the counts and the lines."""
    for old, new, meant in (
        (b"torch=", b"toch=", "'torch'"),
        (b"ops=", b"op=", "'ops'"),
        (b"env ", b"envv ", "'env'"),
    ):
        with pytest.raises(PeekError) as caught:
            decode_graph(BYTES.replace(old, new, 1), "a.graph")
        assert f"did you mean {meant}?" in caught.value.why


def test_keys_of_a_newer_format_are_refused_by_its_version():
    """A file of a newer format with a key that this one has not is refused for the version, not for the key."""
    with pytest.raises(PeekError, match="newer version"):
        decode_graph(BYTES.replace(b"peek-graph 1", b"peek-graph 2").replace(b"py=", b"python="), "a.graph")


def test_deep_nesting_is_refused():
    """10,000 open brackets are an error of that line, not of the interpreter's stack."""
    for damage in (b"[" * 10_000, b"(" * 10_000, b"{" * 10_000, b"slice(" * 10_000):
        assert outcome(BYTES.replace(b"(%cos, 1)", b"(%cos, " + damage + b"1)")) is None
        assert outcome(BYTES.replace(b"y: f32[8]", b"y: " + damage + b"f32[8]")) is None
