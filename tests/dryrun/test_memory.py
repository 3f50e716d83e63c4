"""Memory of a dry run against the CPU profiler's memory events of the same graphs on real tensors, and against small sums."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch.partitioners import min_cut_rematerialization_partition

import peek_backend

from .profiled import measured

CLOSE = 0.01
"""Largest difference from the profiler, as a share."""


def above(timeline, *kinds: str) -> int:
    """The peak without what was there before the call."""
    return timeline.peak - sum(timeline.by_kind().get(kind, 0) for kind in kinds)


def test_inference_peak_equals_the_profilers(case):
    """The peak of a forward's own memory is the profiler's to 1 %, work buffers of kernels apart."""
    timeline = peek_backend.dryrun(case.make, keywords=case.inputs()).cost.memory
    model, inputs = case.make().eval(), case.inputs()
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        compiled(**inputs)
        real = measured(lambda: compiled(**inputs))
    assert above(timeline, "parameters", "buffers", "inputs") == pytest.approx(real.peak, rel=CLOSE)


def test_training_peak_equals_the_profilers(case):
    """The peak of a step's activations and gradients is the profiler's to 1 %, work buffers of kernels apart."""
    how = {"train": True, "eval_mode": not case.training}
    timeline = peek_backend.dryrun(case.make, keywords=case.inputs(), **how).cost.memory
    model, inputs = case.make().train(case.training), case.inputs()
    backend = aot_autograd(
        fw_compiler=boxed_nop,
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    compiled = torch.compile(model, backend=backend)

    def step():
        compiled(**inputs).backward()

    step()
    model.zero_grad(set_to_none=True)
    real = measured(step)
    ours = above(timeline, "parameters", "buffers", "inputs", "optimizer state")
    assert ours == pytest.approx(real.peak, rel=CLOSE)


def memory_of(function, *specs, **how):
    return peek_backend.dryrun(function, *specs, **how).cost.memory


KIB = "f32[256]"


def test_a_value_dies_after_its_last_reader():
    """Of a chain of ops two links are alive at once, of a value that is read at the end all the way through three."""
    chain = memory_of(lambda x: x.sin().cos().tan().exp(), KIB)
    assert chain.peak == (1 + 2) * 1024
    kept = memory_of(lambda x: (y := x.sin()).cos().tan().exp() + y, KIB)
    assert kept.peak == (1 + 3) * 1024


def test_in_place_ops_and_views_take_no_memory():
    """In-place ops reuse their storage; a view keeps it alive."""
    assert memory_of(lambda x: x.sin().add_(1).mul_(2), KIB).peak == 2 * 1024
    viewed = memory_of(lambda x: x.sin().view(16, 16)[:1].exp(), KIB)
    assert viewed.peak == (1 + 1) * 1024 + 64


def test_the_peak_names_its_node_and_what_is_alive():
    """The peak is at the op that makes the largest result, and tells the module and line that made what is alive."""
    record = peek_backend.dryrun(Wide, "f32[4, 8]")
    timeline = record.cost.memory
    assert timeline.peak_node.target.rpartition(".")[2] == "relu"
    (largest, *_) = [a for a in timeline.alive if a.kind == "temporaries"]
    assert (largest.nbytes, largest.blocks) == (4 * 4 * 512, 1)
    assert {a.module for a in timeline.alive if a.kind == "temporaries"} == {"up", ""}
    assert all(a.place for a in timeline.alive if a.kind == "temporaries")


class Wide(nn.Module):
    """Eight features to 512 and back."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 512), nn.Linear(512, 8)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


@pytest.mark.parametrize(
    ("function", "shape", "dtype"),
    [(lambda x: torch.cdist(x, x), (64, 16), torch.float32), (torch.abs, (64, 16), torch.complex64)],
)
def test_work_buffers_that_follow_from_shapes_are_counted(function, shape, dtype):
    """Distances through a product, and the absolute value of complex numbers, take what the profiler sees them take."""
    x = torch.ones(shape, dtype=dtype)
    function(x)
    assert above(memory_of(function, x), "inputs") == pytest.approx(
        measured(lambda: function(x)).peak, rel=CLOSE
    )


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (torch.linalg.inv, "linalg_inv_ex"),
        (lambda x: nn.functional.interpolate(x[None, None], scale_factor=2.0), "upsample_nearest2d"),
        (lambda x: x * 1j, "mul"),
    ],
)
def test_work_buffers_by_rules_of_a_kernel_are_named(function, op):
    """What a kernel takes by its own rules is not in the peak, and the text and the data name its op."""
    cost = peek_backend.dryrun(function, "f32[8, 8]").cost
    assert cost.memory.buffered == (op,)
    assert f"not in it: work buffers inside the kernels of {op}" in str(cost)
    assert memory_of(torch.sin, KIB).buffered == ()


def test_what_a_backward_starts_from_is_named():
    """The gradient of a result, with which a backward is called, is no input of the step: it has a kind of its own."""
    memory = memory_of(Wide, "f32[16, 8]", train=True)
    start = dict(memory.passes)[memory.graphs[0].key]  # the first step of the backward
    kinds = memory.by_kind(start)
    assert (kinds["inputs"], kinds["outputs"], kinds["gradients of outputs"]) == (4 * 16 * 8,) * 3
    assert "gradients of outputs" not in memory.by_kind(0)


def test_tied_weights_count_once():
    """A weight that two modules share is one storage and one parameter."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(100, 8), nn.Linear(8, 100, bias=False)
            self.head.weight = self.table.weight

        def forward(self, x):
            return self.head(self.table(x))

    cost = peek_backend.dryrun(Tied, "i64[2, 4]").cost
    assert cost.parameters == 800
    assert cost.memory.by_kind()["parameters"] == 3200


@pytest.mark.parametrize(
    ("optimizer", "copies"), [("adamw", 2), ("adam", 2), ("momentum", 1), ("sgd", 0), ("none", 0)]
)
def test_optimizer_state(optimizer, copies):
    """Each optimizer keeps its number of copies of the trained parameters, which is what torch.optim allocates."""
    memory = peek_backend.dryrun(Trained, "f32[4, 8]", train=True, optimizer=optimizer).cost.memory
    kinds = memory.by_kind()
    assert kinds.get("optimizer state", 0) == copies * kinds["parameters"]
    assert memory.by_kind(len(memory.steps) - 1)["gradients"] == kinds["parameters"]


class Trained(Wide):
    """The same with one number as its result."""

    def forward(self, x):
        return super().forward(x).sum()


@pytest.mark.parametrize(
    ("optimizer", "make"),
    [("adamw", torch.optim.AdamW), ("momentum", lambda p: torch.optim.SGD(p, 0.1, momentum=0.9))],
)
def test_optimizer_state_is_what_torch_keeps(optimizer, make):
    """After a real step torch's optimizer holds as many bytes as counted, its step counters apart."""
    from peek_backend.analysis.memory import STATE_COPIES

    model = Trained()
    chosen = make(model.parameters())
    model(torch.ones(4, 8)).backward()
    chosen.step()
    real = sum(
        t.nbytes for state in chosen.state.values() for t in state.values() if torch.is_tensor(t) and t.dim()
    )
    assert real == STATE_COPIES[optimizer] * sum(p.nbytes for p in model.parameters())


def test_frozen_parameters_have_neither_gradient_nor_state():
    """Parameters that ask for no gradient take their own bytes alone."""

    class Frozen(Trained):
        def __init__(self):
            super().__init__()
            self.up.requires_grad_(False)

    memory = peek_backend.dryrun(Frozen, "f32[4, 8]", train=True).cost.memory
    trained = 4 * (512 * 8 + 8)
    kinds = memory.by_kind(len(memory.steps) - 1)
    assert (kinds["gradients"], kinds["optimizer state"]) == (trained, 2 * trained)


def test_parameters_that_no_graph_reads_take_memory():
    """The model is resident whole, also what this call does not use."""

    class Spare(Wide):
        def __init__(self):
            super().__init__()
            self.unused = nn.Linear(64, 64)

    used, spare = memory_of(Wide, "f32[4, 8]"), memory_of(Spare, "f32[4, 8]")
    assert spare.peak - used.peak == 4 * (64 * 64 + 64)


def test_the_picture_marks_the_peak():
    """The SVG is well-formed, names the peak's node and escapes what the program named."""
    import xml.etree.ElementTree as ET

    cost = peek_backend.dryrun(Wide, "f32[4, 8]").cost
    svg = cost.memory_svg()
    ET.fromstring(svg)
    assert "relu" in svg
    assert "parameters" in svg


def test_the_legend_names_every_colour():
    """What is drawn is in the legend, also what is gone or not yet there at the peak."""
    import xml.etree.ElementTree as ET

    cost = peek_backend.dryrun(Wide, "f32[4, 8]").cost
    texts = [e.text for e in ET.fromstring(cost.memory_svg()).iter() if e.tag.endswith("}text")]
    drawn = {e.text for e in ET.fromstring(cost.memory_svg()).iter() if e.tag.endswith("}title")} - {None}
    kinds = {k for k in drawn if not k.startswith("Memory")}
    assert "outputs, none at the peak" in texts
    assert all(any(t.startswith(kind) for t in texts) for kind in kinds)


def test_every_kind_has_a_colour_of_its_own():
    """No two kinds of memory are drawn alike."""
    from peek_backend.analysis.memory import KINDS
    from peek_backend.render.memory_svg import _fill

    assert len({_fill(kind) for kind in KINDS}) == len(KINDS)


def test_a_graph_without_ops_has_a_picture():
    """A function that returns its input takes the input's memory and draws a picture that says so."""
    cost = peek_backend.dryrun(lambda x: x.view(-1)[:0], "f32[16]").cost
    assert cost.peak_memory == 64
    assert cost.memory_svg().startswith("<svg")


def test_backwards_run_from_the_last_forward_to_the_first():
    """With a graph break the last forward's backward comes first; parameters' gradients pile up, those between graphs do not."""

    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            y = self.a(x).relu()
            torch._dynamo.graph_break()
            return self.b(y).sum()

    memory = peek_backend.dryrun(Broken, "f32[4, 8]", train=True).cost.memory
    stages = [(g.compile_id, g.stage) for g in memory.graphs]
    first, second = stages[0][0], stages[1][0]
    assert stages == [(first, "forward"), (second, "forward"), (second, "backward"), (first, "backward")]
    assert memory.by_kind(len(memory.steps) - 1)["gradients"] == 2 * 4 * 72


def test_a_checkpointed_layer_peaks_as_the_plain_one():
    """Inside a checkpoint as outside, the most alive at once is what goes into the activation and what comes out of it, also
    where the layer's result gets the memory of one of them."""
    layer = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64))

    def checkpointed(x):
        return torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)

    for rows in ("128", "rows=128"):
        plain, other = (peek_backend.dryrun(f, f"f32[{rows}, 64]").cost for f in (layer, checkpointed))
        weights = 4 * (2 * 64 * 256 + 256 + 64)
        assert plain.peak_memory == weights + 4 * 128 * (64 + 2 * 256)
        assert other.peak_memory == plain.peak_memory


def test_nothing_alive_has_no_table():
    """A function that computes nothing has a price of nothing, without the head of a table below it."""
    text = peek_backend.dryrun(lambda x: x, "f32[8]").cost.text(width=80)
    assert "peak memory: 0 B" in text
    assert "alive at the peak" not in text
