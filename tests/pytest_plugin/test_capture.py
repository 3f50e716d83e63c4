"""The fixture on real programs: dynamic sizes, several calls, volatile constants, facts, and no trace left."""

from __future__ import annotations

import gc
import random
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from peek_backend.diff import Policy
from peek_backend.pytest_fixture import GraphSnapshot, PeekWarning, Settings, Test

Failed = pytest.fail.Exception


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


def x(*shape: int) -> torch.Tensor:
    return torch.ones(*(shape or (4, 8)))


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A fixture for one test, as pytest would make it; ``update`` accepts."""
    monkeypatch.chdir(tmp_path)

    def make(update="none", name="test_one"):
        settings = Settings(tmp_path, Policy(), update)
        return GraphSnapshot(Test(name, f"test_a.py::{name}", tmp_path / "__graphs__", "test_a"), settings)

    return make


def test_the_failure_of_the_contract(make):
    """A size that the code fixes and an op that came with it are told as such, with the user's lines."""
    make("new").check(MLP(), (x(),), dynamic={"x": {0: "batch"}})

    class Changed(MLP):
        def forward(self, x):
            h = F.relu(self.fc1(x))
            if x.shape[0] == 4:
                h = h * 1.0001
            return self.fc2(h)

    Changed.__qualname__ = "MLP"
    with pytest.raises(Failed) as failed:
        make().check(Changed(), (x(),), dynamic={"x": {0: "batch"}})
    lines = str(failed.value).splitlines()
    assert lines[0].startswith("FAIL test_one: 2 failing changes")
    static = next(i for i, line in enumerate(lines) if "dim became static" in line)
    assert "x.shape[0]   s0 [2, ∞] → 4" in lines[static]
    assert "if x.shape[0] == 4:" in lines[static + 1]
    assert any("3 downstream types follow" in line for line in lines)
    assert any("op added" in line and "1.0001" in line for line in lines)
    assert any(line.startswith("accept: pytest test_a.py::test_one --peek-update") for line in lines)
    assert lines[-1] == "why: peek explain peek-out/test_one.peek.jsonl 'x.shape[0]'"
    assert Path("peek-out/test_one.peek.jsonl").is_file()


def test_a_range_holds_and_a_broken_one_is_told(make):
    """A marked range stands in the snapshot; code that leaves it makes the size static, which fails."""
    dynamic = {"x": {0: ("batch", 2, 64)}}
    make("new").check(lambda x: x + 1, (x(),), dynamic=dynamic)
    with pytest.raises(Failed, match="dim became static"):
        make().check(lambda x: x + 1 if x.shape[0] == 4 else x, (x(),), dynamic=dynamic)


def test_a_broken_range_leaves_torchs_log_alone(make, caplog):
    """The code that fixes a marked size is told by the diff: torch's two tracebacks of it are not printed above."""
    make().capture(lambda x: x + 1 if x.shape[0] == 4 else x, (x(),), dynamic={"x": {0: ("batch", 2, 64)}})
    assert [record for record in caplog.records if record.name == "torch._guards"] == []


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_broken_range_leaves_nothing_to_clean_up(make):
    """The code of the refused compile dies without a complaint: pytest with -W error would fail a test that comes later."""
    make().capture(lambda x: x + 1 if x.shape[0] == 4 else x, (x(),), dynamic={"x": {0: ("batch", 2, 64)}})
    assert not [name for name in globals() if name.startswith(("__builtins_dict__", "__compiled_fn"))]
    gc.collect()


def test_arguments_that_are_no_list_are_refused(make):
    """A lone tensor would be taken apart into its rows."""
    with pytest.raises(Failed, match=r"args: a Tensor is no list of arguments\n  fix: write args=\(x,\)"):
        make().check(torch.relu, args=x())
    with pytest.raises(Failed, match=r"calls: a Tensor is no list of arguments"):
        make().check(torch.relu, calls=[x()])


def test_a_misspelt_option_names_check(make):
    """What check does not know is told with the nearest that it does."""
    with pytest.raises(Failed, match=r"unknown option 'dynmaic' in check\n  fix: did you mean 'dynamic'\?"):
        make().check(torch.relu, args=(x(),), dynmaic=True)


def test_several_calls_count_recompiles(make):
    """Calls after the first recompile as in a program: once for a second size, not for a third."""
    snap = make()
    snap.capture(lambda x: x + 1, calls=[(x(2, 8),), (x(3, 8),), (x(5, 8),)])
    snap.expect(recompiles=1, graphs=2)


def test_marks_and_compiled_code_are_as_before(make):
    """A check leaves no mark on the tensor, no compiled variant and no random draw behind."""
    value, model = x(), MLP()
    state = torch.random.get_rng_state()
    make().capture(model, (value,), dynamic={"x": [0]}, volatile=True)
    assert not [key for key in value.__dict__ if key.startswith("_dynamo")]
    assert torch.equal(state, torch.random.get_rng_state())
    calls = []

    def backend(gm, inputs):
        calls.append([tuple(i.shape) for i in inputs if i.dim() == 2])
        return gm

    torch.compile(model, backend=backend)(value)
    assert len(calls) == 1
    assert all(type(size) is int for shape in calls[0] for size in shape)


def test_a_volatile_constant_is_marked(make):
    """A random number baked into the graph fails from run to run, and holds once it is marked."""

    def noisy():
        factor = random.random()
        return lambda x: x * factor

    make("new", "test_plain").check(noisy(), (x(),))
    with pytest.raises(Failed, match="constant changed"):
        make(name="test_plain").check(noisy(), (x(),))

    def drawn(x):
        return x * Seeded.draw()

    first = make("new")
    first.check(drawn, (x(),), volatile=True)
    assert 'repr("<volatile>")' in (first._test.base / "test_a/test_one.graph").read_text(encoding="utf-8")
    make().check(drawn, (x(),), volatile=True)


class Seeded:
    """Draws from numbers that differ at each call, where Dynamo reads a constant."""

    count = 0

    @classmethod
    @torch.compiler.assume_constant_result
    def draw(cls):
        cls.count += 1
        return cls.count + 0.5


def test_a_program_that_differs_each_time_is_refused(make):
    """When more than constants differs between two captures no snapshot can hold, and the failure says so."""
    turns = iter(range(100))

    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.odd = False

        def forward(self, x):
            return x.sin() if self.odd else x.cos()

    model = Odd()

    def pre(module, args):
        module.odd = next(turns) % 2 == 1

    model.register_forward_pre_hook(pre)
    with pytest.raises(Failed, match="two captures in a row have different graphs"):
        make().check(model, (x(),), volatile=True)


def test_facts_hold_or_are_told_together(make):
    """expect passes on what holds and names each fact that does not, with its place."""
    snap = make()
    snap.capture(MLP(), (x(),), dynamic={"x": {0: "batch"}})
    snap.expect(
        breaks=0, graphs=1, recompiles=0, ops=3, guards=(0, 2), op="F.linear", no_op=["aten._to_copy", "dropout"],
        op_counts={"linear": 2, "F.relu": "<= 1"}, order=["F.linear", "F.relu"], chain=["F.linear", "F.relu", "F.linear"],
        shapes={"out": ["batch", 4], "fc1.linear": "[dynamic, 16]", "fc1.weight": [16, None]},
        dtypes={"out": "float32"}, no_dtype=torch.float64, devices="cpu", no_device="cuda*",
        dynamic=["batch", "x.shape[0]"], static={"x": 1},
    )  # fmt: skip
    with pytest.raises(Failed) as failed:
        snap.expect(ops="> 9", no_op="F.relu", order=["F.relu", "F.relu"], chain=["F.relu", "F.relu"], dynamic="x.shape[1]",
                    shapes={"out": [4, "batch"]}, dtypes={"fc1.*": "bf16"}, no_dtype="f32")  # fmt: skip
    text = str(failed.value)
    assert "10 not as expected" in text
    for words in ("ops: expected > 9, got 3", "no_op: F.relu is there once", "order: no F.relu after F.relu",
                  "dynamic: x.shape[1] is 8", "dtypes: %fc1.linear", "no_dtype: f32 in"):  # fmt: skip
        assert words in text


def test_within_and_graph_narrow(make):
    """Facts can be about one module, and about one graph of several."""

    def broken(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    snap = make()
    snap.capture(broken, (x(),))
    snap.expect(graph="*resume#1", op="cos", no_op="sin")
    snap.capture(MLP(), (x(),))
    snap.expect(within="fc1", op_counts={"F.linear": 1}, no_op="relu")
    with pytest.raises(Failed, match="breaks: expected 1, got 0"):
        snap.expect(breaks=1)


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"brakes": 0}, "did you mean 'breaks'"),
        ({}, "nothing is expected"),
        ({"no_op": []}, "names nothing"),
        ({"ops": "few"}, "is no count"),
        ({"breaks": True}, "is no count"),
        ({"dtypes": {"out": "f31"}}, "unknown dtype"),
        ({"dynamic": "y.shape[0]"}, "unknown input"),
        ({"dynamic": "x.shape[7]"}, "count dims from 0"),
        ({"shapes": {"fc9": [1]}}, "unknown value"),
        ({"graph": "other", "breaks": 0}, "no graph other"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_expectation_that_says_nothing_is_refused(make, expected, words):
    """A fact with a typing error, or one that would always hold, fails the test and never passes it."""
    snap = make()
    snap.capture(MLP(), (x(),))
    with pytest.raises(Failed, match=words):
        snap.expect(**expected)


@pytest.mark.parametrize(
    ("dynamic", "words"),
    [
        ({"y": 0}, "unknown argument 'y' in dynamic"),
        ({"x": 5}, r"there is no x.shape\[5\]"),
        ({"x": {0: 3.5}}, "says nothing of"),
        ({"x": {0: "n", 1: "n"}}, "'n' has two sizes"),
        ({"x['a']": 0}, "there is no"),
        ({"x.shape": 0}, "is no tensor"),
    ],
    ids=str,
)
def test_a_wrong_dim_is_refused(make, dynamic, words):
    """A dim that is not there fails with a message: a mark that is ignored would be a pass by mistake."""
    with pytest.raises(Failed, match=words):
        make().capture(lambda x: x + 1, (x(),), dynamic=dynamic)


def test_a_size_of_one_cannot_be_dynamic(make):
    """torch fixes sizes 0 and 1, so an example of such a size is refused."""
    with pytest.raises(Failed, match="cannot be dynamic"):
        make().capture(lambda x: x + 1, (x(1, 8),), dynamic={"x": 0})


def test_equal_sizes_warn_unless_named_alike(make):
    """Two dynamic sizes that the code makes one symbol: a warning, unless they have one name."""
    args = (x(4, 3), x(4, 3))
    with pytest.warns(PeekWarning, match="were equal while tracing"):
        make().capture(lambda a, b: a + b, args, dynamic={"a": 0, "b": 0})
    with warnings.catch_warnings():
        warnings.simplefilter("error", PeekWarning)
        same = {"a": {0: "batch"}, "b": {0: "batch"}}
        make().capture(lambda a, b: a + b, args, dynamic=same)


def test_nested_arguments_can_be_marked(make):
    """A tensor within a dict or list is named as Python would."""
    snap = make()
    snap.capture(lambda batch: batch["ids"] + 1, ({"ids": x()},), dynamic={"batch['ids']": {0: "batch"}})
    snap.expect(dynamic="batch", shapes={"out": ["batch", 8]})


def test_later_stages_can_be_pinned(make):
    """stages adds graphs of ATen ops, which facts can then name."""
    snap = make()
    with torch.no_grad():
        snap.capture(MLP(), (x(),), stages=["inference"])
    snap.expect(graph="*inference", op_counts={"aten.addmm": 2}, no_op="aten._to_copy")


def test_a_later_stage_is_no_graph_more(make):
    """Counts are those of the record with stages and without; of a stage alone they are asked for by its name."""
    snap = make()
    with torch.no_grad():
        stats = snap.capture(MLP(), (x(),), stages=["inference"]).stats
    snap.expect(graphs=stats.graphs, ops=stats.ops)
    with pytest.raises(Failed, match="ops: expected 99, got 5"):
        snap.expect(graph="*inference", ops=99)


def test_a_size_without_a_name_is_told_the_sizes_there_are(make):
    """The sizes that a message lists are those of the capture's own arguments."""
    snap = make()
    snap.capture(lambda left: left + 1, (x(),))
    with pytest.raises(Failed, match=r"known: left\.shape\[0\], left\.shape\[1\]$"):
        snap.expect(dynamic="batch")


def test_an_op_in_another_order_is_not_guessed_at(make):
    """An op that stands before the one it should follow is said to, and no name like its own is proposed."""
    snap = make()
    snap.capture(lambda left: left.sin().cos(), (x(),))
    with pytest.raises(Failed, match=r"order: no \.sin after \.cos; it is there once, before that$"):
        snap.expect(order=[".cos", ".sin"])


def test_an_aten_op_without_an_aten_graph_warns(make):
    """Without such a graph an ATen op can only be looked for by its last word: said in a warning."""
    snap = make()
    snap.capture(MLP(), (x(),))
    with pytest.warns(PeekWarning, match=r"aten\.addmm"):
        snap.expect(no_op="aten.addmm")


def test_the_programs_own_exception_passes(make):
    """What the function raises is the test's failure, not peek's."""

    def fails(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        make().check(fails, (x(),))


def product(x, w):
    return torch.relu(x @ w)


def tripled(x, w):
    return torch.relu(x @ w @ w @ w)


SQUARES = (x(16, 16), x(16, 16))
FLOPS = 2 * 16**3
PEAK = 4 * 4 * 16 * 16
"""Two inputs, the product and its relu."""


def test_prices_of_a_capture(make):
    """FLOPs, bytes and peak memory of a real capture are those worked out by hand, in any of their units."""
    snap = make()
    snap.capture(product, SQUARES)
    snap.expect(flops=FLOPS, peak_memory=PEAK, parameters=0, bytes=4 * 5 * 16 * 16)
    snap.expect(flops="<= 8.192 KFLOP", peak_memory="<=4KiB", bytes="> 5 kB", parameters="<1B")
    snap.expect(flops=("8K", "9k"), peak_memory=(None, "4 kib"))
    with pytest.raises(Failed) as failed:
        snap.expect(breaks=1, flops="< 8K", peak_memory="<4KiB", bytes=1)
    assert "4 not as expected" in str(failed.value)
    assert "flops: expected < 8K, got 8.19 kFLOP (8,192)" in str(failed.value)
    assert "peak_memory: expected <4KiB, got 4.00 KiB (4,096)" in str(failed.value)


def test_prices_beside_the_snapshot(make):
    """``+0%`` needs a price in the snapshot, which an update writes; then more FLOPs fail with both numbers, until accepted."""
    make("new").check(product, SQUARES)
    snap = make()
    snap.check(product, SQUARES)
    with pytest.raises(Failed, match=r"the snapshot has no flops yet(.|\n)*accept: pytest .* --peek-update"):
        snap.expect(flops="+0%")
    snap = make("new")
    snap.check(product, SQUARES)
    snap.expect(flops="+0%", peak_memory="+10%")
    path = snap._slot.path
    assert f"\ncost   flops={FLOPS} peak_memory={PEAK}\n" in path.read_text()

    tripled.__qualname__ = tripled.__name__ = "product"
    slower = make("changed")
    text = path.read_bytes()
    slower.check(tripled, SQUARES)  # accepts the graph, and with it what it costs
    slower.expect(flops="+0%")
    assert f"cost   flops={3 * FLOPS} " in path.read_text()
    path.write_bytes(text)
    path.write_text(path.read_text().replace(f"flops={FLOPS}", "flops=8000"))
    kept = make()
    kept.check(product, SQUARES)  # a price that differs is no change of the graph
    kept.expect(flops="+2.4%", peak_memory="±0%")
    kept.expect(flops="±3%")
    with pytest.raises(
        Failed, match=r"expected \+2% of 8.00 kFLOP \(8,000\), got 8.19 kFLOP \(8,192\), \+2.4 %"
    ):
        kept.expect(flops="+2%")
    with pytest.raises(Failed, match="expected -5% of"):
        kept.expect(flops="-5%")


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"flop": "+0%"}, "did you mean 'flops'"),
        ({"peak_memory": "2GiB"}, "cannot be read"),
        ({"peak_memory": "<2G"}, "'G' is no unit of it: B, KiB"),
        ({"flops": "<3 GiB"}, "'GiB' is no unit of it: FLOP"),
        ({"flops": "5%"}, r'write flops="<= 3 TFLOP", or beside the snapshot "\+5%"'),
        ({"flops": "<= +5%"}, "cannot be read"),
        ({"flops": True}, "cannot be read"),
        ({"flops": 1.5}, "cannot be read"),
        ({"flops": (None, None)}, "cannot be read"),
        ({"flops": "+0%"}, "capture.. compares with no file"),
        ({"flops": "<3K", "within": "fc1"}, "is the price of the whole capture"),
    ],
    ids=str,
)
def test_a_price_that_says_nothing_is_refused(make, expected, words):
    """A misspelt price, a unit of something else, or one that would always hold fails the test with what to write."""
    snap = make()
    snap.capture(product, SQUARES)
    with pytest.raises(Failed, match=words):
        snap.expect(**expected)


def test_a_price_that_depends_on_data_is_told(make):
    """A size that is read from data has no price in numbers: said, with the way to give it one."""
    snap = make()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        snap.capture(lambda x, w: x[x[:, 0].nonzero().squeeze(1)] @ w, SQUARES)
    with pytest.raises(Failed, match=r"depends on sizes that are read from data"):
        snap.expect(flops="<1K")


def test_a_capture_without_costs_is_told(make):
    """A record made elsewhere without costs says how to make one with them."""
    from tests.builders import capture, transformer

    snap = make()
    snap.capture(capture(transformer(1)))
    with pytest.raises(Failed, match=r"cost=True"):
        snap.expect(flops="<1K")
