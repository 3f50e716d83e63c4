"""Dry runs as a person meets them: what is built and how, what is left alone, and what is said where one cannot go on."""

from __future__ import annotations

import json
import re
import resource
import runpy
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import peek_backend
from peek_backend.capture.compat import version
from peek_backend.errors import PeekError
from peek_backend.model import TensorMeta
from peek_backend.snapshot import jsonfile
from tests.cli.conftest import peek, python  # noqa: F401  # a fixture

WIDE = 2**20


class Big(nn.Module):
    """A model of 4 TiB of parameters."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDE, WIDE)
        self.register_buffer("scale", torch.ones(WIDE))

    def forward(self, x):
        return self.layer(x) * self.scale


def test_nothing_is_allocated():
    """A model of 4 TiB is priced in this process, whose memory hardly grows."""
    peek_backend.dryrun(Big, f"f32[2, {WIDE}]")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cost = peek_backend.dryrun(Big, f"f32[2, {WIDE}]").cost
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    assert cost.parameter_bytes == 4 * (WIDE * WIDE + WIDE)
    assert cost.flops == 2 * 2 * WIDE * WIDE


def test_everything_is_on_the_wanted_device():
    """Parameters, results and device arguments of the graph are on the device that was asked for, there or not."""
    record = peek_backend.dryrun(lambda x: x + torch.ones(3, device=x.device), "f32[3]", device="cuda:1")
    nodes = record.graphs[0].nodes
    assert {n.value.device for n in nodes if n.op != "output"} == {"cuda:1"}
    assert record.dryrun.device == "cuda:1"


def test_training_on_a_device_that_is_not_there_keeps_flash_attention():
    """A training step on cuda is traced without one, and attention stays one op in both passes."""

    def attend(q):
        return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum()

    record = peek_backend.dryrun(attend, "f32[2, 4, 32, 16] grad", train=True)
    targets = [n.target for g in record.graphs if g.stage in ("forward", "backward") for n in g.nodes]
    assert sum("flash_attention" in t for t in targets) == 2
    assert not any("softmax" in t or "bmm" in t for t in targets)


def test_attention_with_dropout_stays_fused_on_an_accelerator():
    """With dropout too, attention is one op in both passes for cuda; the CPU's own kernel has none, and keeps plain maths."""

    def attend(q):
        return nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.1).sum()

    def targets(device):
        record = peek_backend.dryrun(attend, "f32[2, 4, 32, 16] grad", train=True, device=device)
        return [n.target for g in record.graphs if g.stage in ("forward", "backward") for n in g.nodes]

    assert sum("flash_attention" in t for t in targets("cuda")) == 2
    assert not any("softmax" in t for t in targets("cuda"))
    assert any("softmax" in t for t in targets("cpu"))
    layer = peek_backend.dryrun(
        lambda: nn.MultiheadAttention(16, 4, 0.1),
        *["f32[8, 2, 16]"] * 3,
        keywords={"need_weights": False},
        train=True,
    )
    assert (
        sum(
            "flash_attention" in n.target
            for g in layer.graphs
            if g.stage in ("forward", "backward")
            for n in g.nodes
        )
        == 2
    )


def test_state_is_left_alone():
    """Random state, the module given, its mode, its tensors and torch's settings are as before."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.BatchNorm1d(4)).eval()
    tensors = {name: (t, t._version, t.clone()) for name, t in model.state_dict(keep_vars=True).items()}
    random, settings = torch.get_rng_state(), torch._dynamo.config.save_config()
    peek_backend.dryrun(model, torch.ones(2, 4), train=True, unbacked=True)
    assert torch.equal(torch.get_rng_state(), random)
    assert torch._dynamo.config.save_config() == settings
    for name, now in model.state_dict(keep_vars=True).items():
        was, version, data = tensors[name]
        assert now is was
        assert now._version == version
        assert torch.equal(now, data)
    assert not any(m.training for m in model.modules())
    assert all(p.grad is None for p in model.parameters())


def test_a_factorys_defaults_are_its_own():
    """A default dtype that a factory sets holds for its model alone, a gradient mode that a forward sets for that forward."""

    def make():
        torch.set_default_dtype(torch.bfloat16)
        return nn.Linear(8, 8)

    before = torch.get_default_dtype(), torch.is_grad_enabled()
    cost = peek_backend.dryrun(make, "bf16[2, 8]").cost
    assert cost.parameter_bytes == 2 * (8 * 8 + 8)

    def broken(x):
        torch.set_grad_enabled(False)
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        peek_backend.dryrun(broken, "f32[2]")
    assert (torch.get_default_dtype(), torch.is_grad_enabled()) == before


def test_examples_count_by_their_metadata():
    """Example tensors, specs, a function of inputs and plain values give one and the same answer."""

    def f(x, n, *, scale):
        return (x * scale[0]).sum(n)

    spec = peek_backend.dryrun(f, "f32[4, 8]", 1, keywords={"scale": ["f32[8]"]})
    example = peek_backend.dryrun(f, torch.ones(4, 8), 1, keywords={"scale": [torch.ones(8)]})
    made = peek_backend.dryrun(
        f, make_inputs=lambda: {"x": torch.ones(4, 8), "n": 1, "scale": [torch.ones(8)]}
    )
    assert spec.cost.bytes == example.cost.bytes == made.cost.bytes > 0


class Moved(nn.Module):
    """A constructor that moves, casts, computes and caches."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8).to("cuda").to(torch.bfloat16)
        self.second = nn.Linear(8, 8, device="cuda:0", dtype=torch.bfloat16)
        self.table = torch.arange(64, device="cpu").view(8, 8).to(torch.bfloat16)
        self.rates = [r.item() for r in torch.linspace(0, 0.1, 3)]
        self.cache = None

    def forward(self, x):
        if self.cache is None:
            self.cache = torch.ones_like(x)
        return self.second(self.first(x)) @ self.table + self.cache * self.rates[2]


def test_constructors_may_move_cast_and_compute():
    """``.to("cuda")``, ``device="cuda"``, a table on the CPU and rates read from a linspace all build; caches are filled."""
    record = peek_backend.dryrun(Moved, "bf16[4, 8]")
    assert record.cost.flops == 3 * 2 * 4 * 8 * 8
    assert {t.dtype for t in record.dryrun.held} == {"bfloat16"}


def test_a_constructor_that_allocates_is_stopped():
    """Weights that come from data are refused before they fill the memory, with the line that makes them."""

    class Loads(nn.Module):
        def __init__(self, make):
            super().__init__()
            self.table = make()

    numpy = pytest.importorskip("numpy")
    with pytest.raises(PeekError, match=r"takes real memory.*256 MiB, table"):
        peek_backend.dryrun(lambda: Loads(lambda: torch.from_numpy(numpy.zeros(2**25))), "f32[2]")
    with pytest.raises(PeekError, match=r"takes real memory.*test_dryrun\.py"):
        peek_backend.dryrun(lambda: Loads(lambda: torch.tensor(numpy.zeros(2**25), device="cpu")), "f32[2]")


def test_a_constructor_that_reads_values_is_told():
    """A value read while the model is built names the line."""

    class Reads(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = torch.ones(3).sum().item()

    with pytest.raises(PeekError, match="reads a tensor's value") as error:
        peek_backend.dryrun(Reads, "f32[2]")
    assert "test_dryrun.py" in error.value.problem


def test_a_factory_that_raises_keeps_its_exception():
    """What the factory raises passes as it is."""

    def make():
        raise KeyError("no such size")

    with pytest.raises(KeyError, match="no such size"):
        peek_backend.dryrun(make, "f32[2]")


def test_inputs_that_do_not_match_are_refused():
    """Too many inputs say how the function is called, before anything is traced."""
    with pytest.raises(PeekError, match="cannot be called so"):
        peek_backend.dryrun(lambda x: x, "f32[2]", "f32[2]")


def test_what_cannot_be_built_or_faked_is_refused():
    """A class that needs arguments, and a scripted module, are refused in one message."""
    with pytest.raises(PeekError, match="cannot be called so"):
        peek_backend.dryrun(nn.Linear, "f32[2, 8]")
    with pytest.raises(PeekError, match="Linear is a scripted module"):
        peek_backend.dryrun(torch.jit.script(nn.Linear(8, 8)), "f32[2, 8]")


def test_inputs_of_another_dtype_are_told():
    """A bfloat16 model with float32 inputs, which no kernel takes, has no price for its products, and says why."""
    cost = peek_backend.dryrun(lambda: nn.Linear(8, 8, dtype=torch.bfloat16), "f32[2, 8]").cost
    assert cost.flops == 0
    assert "of bfloat16 and float32, which its kernels refuse" in str(cost)


def test_a_training_step_without_a_backward_says_so():
    """Nothing to differentiate: the summary tells, since the price is then that of a forward."""
    told = "no backward: nothing that the graphs return has a gradient"
    assert told in str(peek_backend.dryrun(torch.sin, "f32[2]", train=True).cost)
    assert told not in str(peek_backend.dryrun(torch.sin, "f32[2] grad", train=True).cost)


def test_a_backward_that_is_missing_is_told_with_its_reason(monkeypatch):
    """Where AOTAutograd fails, or the stage was not asked for, the summary says that, and never that nothing has a gradient."""
    from peek_backend.capture import beside

    def scale(x):
        return (x * 2).sum()

    unasked = peek_backend.dryrun(scale, "f32[2] grad", train=True, stages="dynamo").cost
    monkeypatch.setattr(beside, "call_aot", lambda *_: 1 / 0)
    failed = peek_backend.dryrun(scale, "f32[2] grad", train=True).cost
    assert "the backward of 0/0: it was not among the stages that were recorded" in str(unasked)
    assert "the backward of 0/0: AOTAutograd cannot make this stage: ZeroDivisionError" in str(failed)
    assert "has a gradient" not in str(unasked) + str(failed)
    assert json.loads(failed.to_json())["no_backward"][0]["graph"] == "0/0"


def test_ops_outside_of_graphs_are_told():
    """What runs in eager around a break has no price, and is named; what runs in the graphs is not."""

    def around(x, w):
        y = x @ w
        torch._dynamo.graph_break()
        torch._dynamo.disable(lambda: y.sin_().mul(2).view(-1))()
        return y @ w

    record = peek_backend.dryrun(around, "f32[8, 8]", "f32[8, 8]")
    assert record.dryrun.eager == {"aten::sin_": 1, "aten::mul": 1}
    assert "not counted: 2 ops outside of all graphs: aten::sin_, aten::mul" in str(record.cost)
    assert peek_backend.dryrun(torch.sin, "f32[2]").dryrun.eager == {}


def test_a_dynamically_quantized_model_is_not_free():
    """Its products, which Dynamo leaves to eager, are told as not counted."""
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        pytest.skip("this torch has no quantized kernels for this CPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.ao is to be replaced
        quantized = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(64, 32)), {nn.Linear})
    assert "quantized::linear_dynamic" in str(peek_backend.dryrun(quantized, "f32[4, 64]").cost)


def test_kernels_of_the_cpu_are_told_where_they_stand_for_the_devices():
    """Attention that was traced by the CPU's kernel says so where another device was asked for."""

    def attend(q):
        return nn.functional.scaled_dot_product_attention(q, q, q)

    how = {"train": True, "device": "cuda"}
    told = str(peek_backend.dryrun(attend, "f32[1, 2, 16, 8] grad", **how).cost)
    if torch.cuda.is_available():
        assert "_for_cpu" not in told
    else:
        assert "_for_cpu_backward stand for cuda's own fused kernel" in told
    how["device"] = "cpu"
    assert "stand for" not in str(peek_backend.dryrun(attend, "f32[1, 2, 16, 8] grad", **how).cost)


def branching(x):
    y = x.sin()
    if y.sum() > 0:
        return y + 1
    return y - 1


def test_a_factory_without_inputs_is_told():
    """A function that only makes a model is no program to try; one that computes without inputs is."""
    with pytest.raises(PeekError, match=r"makes a Sequential.* nothing to call it with"):
        peek_backend.dryrun(lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
    record = peek_backend.dryrun(lambda: torch.ones(3, 3) @ torch.ones(3, 3))
    assert record.cost.flops == 2 * 3**3


def test_a_branch_on_data_names_line_and_ways_round():
    """Data-dependent code ends with the line, the ways round, and what was captured until then."""
    with pytest.raises(PeekError, match="needs data") as error:
        peek_backend.dryrun(branching, "f32[4]")
    assert "if y.sum() > 0" in error.value.problem
    assert all(way in error.value.fix for way in ("torch.cond", "torch._check", "unbacked", "torch.where"))
    assert "unbacked" in error.value.fix
    assert [g.key for g in error.value.peek_record.graphs] == ["0/0"]


def test_a_program_may_live_in_a_folder_named_torch(tmp_path):
    """What is torch's is told by where torch is installed: a program's own folder of that name is the program's."""
    file = tmp_path / "torch" / "branches.py"
    file.parent.mkdir()
    file.write_text("def f(x):\n    return x if x.sum() > 0 else -x\n")
    with pytest.raises(PeekError, match=r"needs data at .*torch/branches\.py:2"):
        peek_backend.dryrun(runpy.run_path(str(file))["f"], "f32[2]")


def test_what_was_captured_before_a_wall_is_told_as_the_whole_is():
    """A run that ends for want of data has its tensors on the device, its dims by name and the ops outside of graphs too."""

    def walled(x):
        torch._dynamo.disable(lambda: x.sin_().mul(2))()
        return branching(x.cuda())

    with pytest.raises(PeekError, match="needs data") as error:
        peek_backend.dryrun(walled, "f32[batch=4]")
    record = peek_backend.api.as_record(error.value.peek_record)
    devices = {n.value.device for g in record.graphs for n in g.nodes if isinstance(n.value, TensorMeta)}
    assert (devices, record.dryrun.device) == ({"cuda"}, "cuda")
    assert list(record.dryrun.sizes) == ["batch"]
    assert {"aten::sin_", "aten::mul"} <= set(record.dryrun.eager)


def test_a_way_that_was_taken_is_not_offered_again():
    """Where an unknown size itself is the wall, the fix does not send one to ``unbacked`` a second time."""

    def each(x):
        total = x.sum()
        for row in x.nonzero():
            total = total + row.sum()
        return total

    with pytest.raises(PeekError, match="needs data") as error:
        peek_backend.dryrun(each, "f32[4]", unbacked=True)
    assert "unbacked" not in error.value.fix
    assert "EvenExperts" in error.value.fix


def test_unbacked_sizes_are_symbols_with_a_value_given_later():
    """With ``unbacked`` a size read from data is a symbol; the price is an expression of it, and a number once it is given."""

    def select(x, w):
        return x[x[:, 0].nonzero().squeeze(1)] @ w

    cost = peek_backend.dryrun(select, "f32[64, 8]", "f32[8, 16]", unbacked=True).cost
    (symbol,) = {s.name for s in cost._record.graphs[0].symbols if s.unbacked}
    assert cost.flops == f"256*{symbol}"
    assert cost.at(**{symbol: 10}).flops == 2560


def test_graph_breaks_go_on():
    """After a break the rest is captured too, and priced."""

    def broken(x):
        y = x @ x
        torch._dynamo.graph_break()
        return y @ x

    record = peek_backend.dryrun(broken, "f32[8, 8]")
    assert len(record.graphs) == 2
    assert record.cost.flops == 2 * 2 * 8**3


@pytest.mark.parametrize("train", [False, True])
def test_a_forward_may_move_to_the_device(train):
    """``x.to("cuda")``, ``x.cuda()`` and a device object in the model's code pass without one; results are told to be there."""

    class Moves(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            x = self.layer(x.cuda()).to("cuda:0", torch.float64)
            return x.to(torch.device("cuda"), non_blocking=True).to(dtype=torch.float32, device="cuda").sum()

    record = peek_backend.dryrun(Moves, "f32[2, 8]", train=train)
    assert record.cost.totals.forward_flops == 2 * 2 * 8 * 8
    assert {n.value.device for g in record.graphs for n in g.nodes if isinstance(n.value, TensorMeta)} == {
        "cuda"
    }
    assert torch.ones(1).to("cpu").device.type == "cpu"


class Shapeless(nn.Module):
    """Takes the size of its layer from the first input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(4)

    def forward(self, x):
        return self.layer(x)


def test_lazy_modules_take_their_shape_from_the_inputs():
    """A factory's lazy layers get their parameters; one that the caller holds is refused and left lazy."""
    cost = peek_backend.dryrun(Shapeless, "f32[2, 8]").cost
    assert (cost.parameters, cost.flops) == (8 * 4 + 4, 2 * 2 * 8 * 4)
    held = Shapeless()
    with pytest.raises(PeekError, match="pass a factory"):
        peek_backend.dryrun(held, "f32[2, 8]")
    assert isinstance(held.layer, nn.LazyLinear)
    with pytest.raises(PeekError, match="first call, on the meta device"):
        peek_backend.dryrun(Shapeless, "f32[]")


def test_what_runs_outside_of_graphs_is_told():
    """A function that Dynamo leaves to eager is named in the price, with its reason."""

    @torch.compiler.disable
    def apart(x):
        return x @ x

    def skipped(x):
        torch._dynamo.skip_frame()
        return apart(x)

    cost = peek_backend.dryrun(skipped, "f32[4, 4]").cost
    assert cost.flops == 0
    assert "outside of all graphs: aten::mm" in str(cost)
    if version() >= (2, 13):  # 2.8 does not tell of a frame that it skips so
        assert "skipped (test_dryrun.py" in str(cost)
        assert json.loads(cost.to_json())["eager"][0]["frame"].endswith("skipped")


RECURRENT = [(nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(("kind", "gates"), RECURRENT, ids=[kind.__name__ for kind, _ in RECURRENT])
def test_recurrent_modules_are_priced(kind, gates, train):
    """Two layers of an RNN, GRU or LSTM cost two FLOPs a weight, example and step, though a compile leaves them to eager."""

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = kind(8, 16, num_layers=2, batch_first=True)

        def forward(self, x):
            return self.steps(x)[0]

    cost = peek_backend.dryrun(Recurrent, "f32[2, 5, 8]", train=train).cost
    assert cost.totals.forward_flops == 2 * 2 * 5 * gates * 16 * (8 + 16 + 16 + 16)
    assert not torch._dynamo.config.allow_rnn


class Sentences(nn.Module):
    """Words, a recurrent module, one number; or, without words, rows of features that ask for no gradient."""

    def __init__(self, kind, *, words: bool, **how):
        super().__init__()
        self.words = nn.Embedding(10, 8) if words else nn.Identity()
        self.steps = kind(8, 16, num_layers=2, batch_first=True, **how)

    def forward(self, x):
        return self.steps(self.words(x))[0].sum()


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # of torch's own switch for oneDNN
@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        (nn.RNN, {}),
        (nn.GRU, {"bidirectional": True}),
        (nn.LSTM, {}),
        (nn.LSTM, {"proj_size": 4, "bias": False}),
    ],
)
def test_recurrent_layers_cost_what_their_steps_do(kind, how, words):
    """A training step counts what torch's counter does of the real module, which runs step by step without oneDNN."""
    real = Sentences(kind, words=words, **how)
    x = torch.ones(2, 5, dtype=torch.long) if words else torch.ones(2, 5, 8)
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        loss = real(x)
        forward = counter.get_total_flops()
        loss.backward()
    totals = peek_backend.dryrun(lambda: Sentences(kind, words=words, **how), x, train=True).cost.totals
    assert (totals.forward_flops, totals.backward_flops) == (forward, counter.get_total_flops() - forward)


@pytest.mark.parametrize(
    ("kind", "device"), [(nn.RNN, "cuda"), (nn.GRU, "mps"), (nn.LSTM, "cuda"), (nn.LSTM, "cpu")]
)
def test_a_recurrent_layer_is_one_op_however_long_the_sequence(kind, device):
    """The graphs of a training step are as large for 5 steps as for 50; what a layer keeps for its backward grows with them."""

    def tried(steps):
        how = {"train": True, "device": device, "optimizer": "none"}
        return peek_backend.dryrun(lambda: Sentences(kind, words=True), f"i64[2, {steps}]", **how)

    short, long = tried(5), tried(50)
    assert [len(g.nodes) for g in short.graphs] == [len(g.nodes) for g in long.graphs]
    kept = {nn.RNN: 0, nn.GRU: 5, nn.LSTM: 5}[kind]
    layer = next(
        n for g in long.graphs if g.stage == "forward" for n in g.nodes if "recurrent_layer" in n.target
    )
    assert layer.value.items[3].shape == (50, 2, kept * 16)
    assert layer.value.items[0].device == device
    stands = "recurrent_layer, recurrent_layer_backward stand for"
    assert (stands in str(long.cost)) == (device != "cpu")


@pytest.mark.parametrize("train", [False, True])
def test_recurrent_layers_take_part_in_autocast(train):
    """Under autocast a recurrent layer computes, and keeps for its backward, in the lower precision."""

    class Mixed(Sentences):
        def forward(self, x):
            with torch.autocast("cuda", torch.bfloat16):
                return super().forward(x)

    record = peek_backend.dryrun(lambda: Mixed(nn.LSTM, words=True), "i64[2, 5]", train=train)
    single = peek_backend.dryrun(lambda: Sentences(nn.LSTM, words=True), "i64[2, 5]", train=train)
    assert record.cost.flops == single.cost.flops
    layers = [
        n
        for g in record.graphs
        for n in g.nodes
        if "recurrent_layer.d" in n.target or n.target == "torch.lstm"
    ]
    kept = [item.dtype for n in layers for item in n.value.items]
    assert set(kept) == {"bfloat16"}


def test_a_sequence_of_any_length_has_a_price():
    """For an accelerator a recurrent layer's price holds for any length: its steps are in no graph."""

    def tried(spec):
        return peek_backend.dryrun(lambda: Sentences(nn.GRU, words=True), spec, train=True).cost

    named, other = tried("i64[rows=2, steps=5]"), tried("i64[4, 9]")
    there = named.at(rows=4, steps=9)
    assert (there.flops, there.bytes, there.peak_memory) == (other.flops, other.bytes, other.peak_memory)


def test_an_op_without_a_fake_kernel_is_named_with_its_stub():
    """A custom op that does not say its shapes is named with its schema and the ``register_fake`` to write."""
    with torch.library._scoped_library("peek_nofake", "FRAGMENT") as library:
        library.define("norm(Tensor x, float eps=1e-05) -> Tensor")
        library.impl("norm", lambda x, eps=1e-5: x * 2, "CPU")
        with pytest.raises(PeekError, match="no fake kernel") as error:
            peek_backend.dryrun(lambda x: torch.ops.peek_nofake.norm(x), "f32[8]")  # noqa: PLW0108  # Dynamo needs a frame
    assert 'register_fake("peek_nofake::norm")' in error.value.fix
    assert "def norm_fake(x, eps=1e-05):" in error.value.fix
    code = str(error.value).partition("\n\n")[2]  # as it is printed: at the margin, to be copied
    assert code.startswith("# peek_nofake::norm(Tensor x, float eps=")
    compile(code, "stub", "exec")


def test_two_devices_are_told():
    """A tensor made on another device by name says so, instead of torch's words about fake tensors."""
    with pytest.raises(PeekError, match="two devices meet"):
        peek_backend.dryrun(lambda x: x + torch.ones(3, device="meta"), "f32[3]")


def test_a_saved_dry_run_keeps_its_price(tmp_path):
    """Costs, model and device survive a file, and need no torch to be read."""
    record = peek_backend.dryrun(Big, f"f32[2, {WIDE}]", train=True)
    jsonfile.write(tmp_path / "big.json", record)
    again = peek_backend.load(tmp_path / "big.json")
    assert str(again.cost) == str(record.cost)
    file = str(tmp_path / "big.json")
    code = f"import sys; sys.modules['torch'] = None; import peek_backend; print(peek_backend.load({file!r}).cost)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == str(record.cost)


PROGRAM = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        return self.down(torch.relu(self.up(x))).sum()

def wide():
    return Net(256)

def branch(x):
    y = x.sin()
    return y if y.sum() > 0 else x

def interrupted(x):
    y = x @ x
    torch._dynamo.graph_break()
    raise KeyboardInterrupt

@torch._dynamo.assume_constant_result
def interrupt():
    raise KeyboardInterrupt

class Tracing(Net):
    def forward(self, x):
        y = super().forward(x)
        interrupt()
        return y

class Building(Net):
    def __init__(self):
        raise KeyboardInterrupt

def fixed(x):
    return x.view(2, 3)
"""


@pytest.fixture
def dryrun(tmp_path, monkeypatch, peek):  # noqa: F811
    """``peek dryrun program.py:…`` in this process."""
    (tmp_path / "program_to_price.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield lambda target, *args: peek("dryrun", f"program_to_price.py:{target}", *args)
    sys.modules.pop("program_to_price", None)


def test_the_command_line_prices_a_class_a_call_and_a_factory(dryrun):
    """A class, a call with arguments and a factory are built, and the answer names parameters, FLOPs, peak and modules."""
    for target, width in (("Net", 64), ("Net(32)", 32), ("wide", 256)):
        done = dryrun(target, "--input", f"f32[8, {width}]", "--format", "json")
        assert done.code == 0, done.err
        data = json.loads(done.out)
        assert data["flops"] == 2 * 2 * 8 * 4 * width * width
        assert data["parameters"] == 8 * width * width + 5 * width
        assert [m["path"] for m in data["modules"]] == ["", "up", "down"]


def test_the_command_line_shows_a_training_step(dryrun, tmp_path):
    """``--train`` shows both passes and the optimizer's state, and writes the picture and the capture."""
    done = dryrun(
        "Net", "--input", "f32[8, 64]", "--train", "--memory-svg", "m.svg", "-o", "run.json", "--on", "l4"
    )
    assert done.code == 0, done.err
    for words in (
        "backward",
        "optimizer state 258 KiB",
        "alive at the peak",
        "lower bound",
        "fits in 24.0 GiB",
    ):
        assert words in done.out
    assert (tmp_path / "m.svg").read_text().startswith("<svg")
    assert {g.stage for g in peek_backend.load(tmp_path / "run.json").graphs} == {
        "dynamo",
        "joint",
        "forward",
        "backward",
    }


def test_the_command_line_draws_heat(dryrun, tmp_path):
    """``--heat`` colours the picture of ``-o``; without a picture to colour, nothing is traced."""
    done = dryrun("Net", "--input", "f32[8, 64]", "-o", "net.dot", "--heat", "flops")
    assert done.code == 0, done.err
    text = (tmp_path / "net.dot").read_text()
    assert "FLOPs of each box" in text and "· 50 %" in text and "worked out from shapes" not in text
    for wrong in (
        ("-o", "net.json", "--heat", "flops"),
        ("--heat", "flops"),
        ("-o", "x.dot", "--heat", "flop"),
    ):
        done = dryrun("Net", "--input", "f32[8, 64]", *wrong)
        assert done.code == 2 and "heat" in done.err and not done.out


def test_the_command_line_evaluates_symbols(dryrun):
    """A named dim stays symbolic; ``--at`` gives the price at another size."""
    shown = dryrun("Net", "--input", "f32[batch=8, 64]", "-o", "run.json", "--format", "json")
    assert shown.code == 0, shown.err
    (symbol,) = {s.name for s in peek_backend.load("run.json").graphs[0].symbols}
    other = dryrun("Net", "--input", "f32[batch=8, 64]", "--at", f"{symbol}=16", "--format", "json")
    assert json.loads(other.out)["flops"] == 2 * json.loads(shown.out)["flops"]
    named = dryrun("Net", "--input", "f32[batch=8, 64]", "--at", "batch=16")
    assert f"{symbol} = batch (8 here)" in named.out
    assert "FLOPs: 1.05 MFLOP" in named.out


def test_the_command_line_tells_a_wall_and_shows_what_it_has(dryrun):
    """At a wall the exit code is 2, the message comes once, and the graphs so far are shown."""
    done = dryrun("branch", "--input", "f32[4]")
    assert done.code == 2
    assert done.err.count("needs data") == 1
    assert "FLOPs" in done.out


def test_a_named_dim_that_the_program_fixes_is_told(dryrun):
    """A dim with a name for which the code holds at one size alone is refused in few lines, with what to write."""
    done = dryrun("fixed", "--input", "f32[rows=2, 3]")
    assert done.code == 2
    problem, why, fix = done.err.strip().splitlines()[-3:]
    assert problem.endswith("a dim that was given a name cannot have any size")
    assert "x.shape[0]" in why and "constant (2)" in why
    assert "without a name" in fix
    assert "Traceback" not in done.err and "torch/_guards.py" not in done.err


def test_what_the_model_raises_is_told_in_a_few_lines(dryrun):
    """An error of the model is told with its line and no log of torch's beside it; ``--traceback`` shows the rest."""
    done = dryrun("Net", "--input", "f32[8, 63]")
    assert done.code == 1
    lines = done.err.strip().splitlines()
    assert len(lines) < 10
    assert "63" in lines[0]
    assert "a and b must have same redu" in lines[0]  # later torch puts words before it, and the line is cut
    assert any("program_to_price.py:" in line for line in lines)
    with pytest.raises(Exception, match="63"):
        dryrun("Net", "--input", "f32[8, 63]", "--traceback")


def test_ctrl_c_keeps_what_is_done(dryrun):
    """An interrupt ends with 130 and shows what was captured."""
    done = dryrun("interrupted", "--input", "f32[4, 4]")
    assert done.code == 130
    assert "128 FLOP" in done.out
    assert "no graph" not in done.err


@pytest.mark.parametrize(
    ("target", "during"),
    [("Building", "building the model"), ("Tracing", r"tracing the function, \d+ nodes")],
)
def test_ctrl_c_before_the_first_graph_says_that_there_is_none(dryrun, target, during):
    """An interrupt before a graph is whole says at what, and that nothing was captured."""
    done = dryrun(target, "--input", "f32[8, 64]")
    assert done.code == 130 and not done.out
    assert re.fullmatch(rf"peek: interrupted while {during}: no graph was captured yet\n", done.err)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--at", "s0"], "bad size"),
        (["--at", "zz=3"], "every size is a number"),
        (["--format", "jsn"], "did you mean 'json'"),
        (["--on", "h101-80gb"], "did you mean"),
        (["--device", "cuba"], "unknown device"),
        (["-o", "x.abc"], "cannot tell what to write"),
        (["--on", "l4", "--device-spec", "x.json"], "both name a device"),
        (["--device-spec", "none.json"], "none.json"),
    ],
)
def test_mistakes_on_the_command_line(dryrun, args, said):
    """Each mistake ends with 2 and one message that says what to write."""
    done = dryrun("Net", "--input", "f32[8, 64]", *args)
    assert done.code == 2
    assert said in done.err


def test_progress_names_the_module_being_traced():
    """What a thread does is read from its stack: the module Dynamo is in and how many nodes there are."""
    from peek_backend.cli.progress import doing

    seen = []

    class Inner(nn.Module):
        def forward(self, x):
            look()
            return x + 1

    @torch._dynamo.assume_constant_result
    def look():
        seen.append(doing(sys._getframe()))
        return 1

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x.sin())

    peek_backend.dryrun(Outer, "f32[2]")
    assert any("inner" in text and "nodes" in text for text in seen)


class Wrapped(torch.nn.Module):
    """A parameter of a tensor subclass, which keeps two tensors."""

    def __init__(self):
        super().__init__()
        two = pytest.importorskip("torch.testing._internal.two_tensor").TwoTensor
        self.weight = torch.nn.Parameter(two(torch.zeros(4, 4), torch.zeros(4, 4)))

    def forward(self, x):
        return x @ self.weight


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_subclass_is_where_the_model_is(device):
    """The inner tensors of a subclass go to the device that is asked for, and are what its parameter takes."""
    record = peek_backend.dryrun(Wrapped, "f32[2, 4]", device=device)
    tensors = [n.value for n in record.graphs[0].nodes if isinstance(n.value, TensorMeta)]
    assert {t.device for t in tensors} == {device}
    assert {i.device for t in tensors for i in t.inner.values()} == {device}
    assert record.cost.parameter_bytes == 2 * 4 * 4 * 4


def test_a_sharded_model_is_refused():
    """Parameters spread over a mesh of devices are named, with what to pass instead."""
    store = pytest.importorskip("torch.testing._internal.distributed.fake_pg").FakeStore()
    tensors = pytest.importorskip("torch.distributed.tensor")
    if not torch.distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    torch.distributed.init_process_group("fake", store=store, rank=0, world_size=4)
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (4,))
        with pytest.raises(PeekError, match=r"^0\.weight is a DTensor, spread over 4 devices"):
            peek_backend.dryrun(
                lambda: tensors.distribute_module(torch.nn.Sequential(torch.nn.Linear(8, 8)), mesh),
                "f32[2, 8]",
            )
    finally:
        torch.distributed.destroy_process_group()
