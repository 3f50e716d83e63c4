"""Rooflines: bounds worked out by hand, what fits, devices of one's own, and a table whose figures have sources."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F

import peek_backend
from peek_backend.analysis.devices import DEVICES, Device, device_named, device_of
from peek_backend.errors import PeekError
from tests.cli.conftest import peek  # noqa: F401  # a fixture

MINE = Device("mine", {"float32": 1e12, "bfloat16": 4e12}, 1e9, 10_000, "by hand")


def bounds_of(function, *specs):
    return peek_backend.dryrun(function, *specs).cost.roofline(MINE)


def test_a_product_by_hand():
    """A product of 64 × 64 matrices takes 2·64³ operations and 3·4·64² bytes; on the device memory bounds it."""
    found = bounds_of(lambda a, b: a @ b, "f32[64, 64]", "f32[64, 64]")
    (bound,) = found.bounds
    assert bound.compute == pytest.approx(2 * 64**3 / 1e12)
    assert bound.memory == pytest.approx(3 * 4 * 64**2 / 1e9)
    assert (bound.by, found.seconds) == ("memory", bound.memory)
    assert found.compute_bound == 0


def test_the_dtype_picks_the_rate():
    """A product in bfloat16 has the device's rate for it, one in a dtype that the device lacks is not counted."""
    half = bounds_of(lambda a, b: a @ b, "bf16[64, 64]", "bf16[64, 64]")
    assert half.bounds[0].compute == pytest.approx(2 * 64**3 / 4e12)
    assert bounds_of(lambda a, b: a @ b, "f64[64, 64]", "f64[64, 64]").unknown == 1


def float8(a, b, scale):
    return torch._scaled_mm(a, b.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)


@pytest.mark.parametrize(
    ("function", "specs", "dtype"),
    [
        (float8, ("f8e4m3fn[64, 64]", "f8e4m3fn[64, 64]", "f32[]"), "float8_e4m3fn"),
        (torch._int_mm, ("i8[64, 64]", "i8[64, 64]"), "int8"),
    ],
)
def test_products_of_8_bits_have_their_rate(function, specs, dtype):
    """A product runs at the rate of what it multiplies, not of the scales beside it or of the sum that it returns."""
    device = Device("mine", {"float32": 1e12, dtype: 8e12}, 1e9, 10_000, "by hand")
    found = peek_backend.dryrun(function, *specs).cost.roofline(device)
    assert found.unknown == 0
    assert sum(b.compute for b in found.bounds) == pytest.approx(2 * 64**3 / 8e12)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[2:4].sin(),
        lambda x, i: x.narrow(0, 2, 2).sin(),
        lambda x, i: x.view(-1)[:128].view(2, 64).sin(),
        lambda x, i: x.index_select(0, i),
        lambda x, i: F.embedding(i, x),
        lambda x, i: F.embedding_bag(i, x, i),
        lambda x, i: x[i],
    ],
)
def test_what_is_read_in_part_bounds_no_more_than_that(function):
    """Two rows of a thousand may be all that any run reads: the bound is that of those rows, however they are taken."""
    assert bounds_of(function, "f32[1000, 64]", "i64[2]").fused <= (2 * 64 * 4 + 2 * 2 * 8) / 1e9


def test_a_training_step_reads_what_it_looks_up():
    """The forward that AOTAutograd cut looks up rows under ATen's names; the bound has no more of the table than they are."""

    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Parameter(torch.zeros(1000, 64))

        def forward(self, i):
            return self.table[i].sin().sum() + self.table[2:4].sin().sum()

    found = peek_backend.dryrun(Rows, "i64[2]", train=True).cost.roofline(MINE)
    assert 2 * 64 * 4 / 1e9 <= found.fused < 10 * 64 * 4 / 1e9


def test_fusion_cannot_beat_its_inputs():
    """However ops are fused, what comes in is read once: less than op by op, more than nothing."""
    found = bounds_of(lambda x: x.sin().cos().tan(), "f32[1024]")
    assert found.fused == pytest.approx(4096 / 1e9)
    assert found.seconds == pytest.approx(3 * 2 * 4096 / 1e9)


def test_what_does_not_fit_says_by_how_much():
    """A peak above the device's memory is told with the difference, and a bound is called a bound."""
    from peek_backend.render.roofline import roofline_text

    found = bounds_of(lambda x: x.sin(), "f32[2048]")
    assert found.short == 2 * 8192 - 10_000
    text = roofline_text(found)
    assert "does not fit in 9.8 KiB: by 6.2 KiB" in text
    assert "lower bound" in text


def test_every_device_has_a_source_and_sound_figures():
    """Each row of the table has its maker's address, and half precision is no slower than single."""
    makers = (
        "https://www.nvidia.com/",
        "https://images.nvidia.com/",
        "https://resources.nvidia.com/",
        "https://www.amd.com/",
    )
    for device in DEVICES.values():
        assert device.source.startswith(makers), device.name
        assert device.rate("float16") >= device.rate("float32") > 0
        assert 10**11 < device.bandwidth < 10**13
    assert DEVICES["h100-80gb"].memory == 80 * 2**30


@pytest.mark.parametrize(
    ("name", "bfloat16", "bandwidth", "memory"),
    [("h100-80gb", 989, 3350, 80), ("h100-pcie", 756, 2000, 80), ("a100-80gb", 312, 2039, 80), ("b200", 2250, 8000, 180),
     ("l4", 121, 300, 24), ("rtx-4090", 165.2, 1008, 24), ("mi300x", 1307.4, 5300, 192)],
)  # fmt: skip
def test_figures_are_dense(name, bfloat16, bandwidth, memory):
    """Peaks are those without sparsity: data sheets that print both give the half of the larger."""
    device = DEVICES[name]
    assert device.rate("bfloat16") == bfloat16 * 1e12
    assert (device.bandwidth, device.memory) == (bandwidth * 1e9, memory * 2**30)


def test_every_8_bit_dtype_has_a_rate():
    """AMD's and NVIDIA's kinds of 8-bit numbers run at the device's 8-bit rate, on one that has none as 16-bit ones."""
    for dtype in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        assert DEVICES["mi300x"].rate(dtype) == 2614.9e12
        assert DEVICES["t4"].rate(dtype) == 65e12


def test_a_family_names_its_variants():
    """``h100`` alone is refused with the variants to choose from, not with another family's name."""
    with pytest.raises(PeekError, match="h100-80gb, h100-pcie, h100-nvl"):
        device_named("H100")
    assert device_named("NVIDIA L40S").name == "l40s"


def test_an_unknown_device_is_refused():
    """A name that is none of the table's suggests the nearest; spelling does not matter."""
    with pytest.raises(PeekError, match="h100-80gb"):
        device_named("h100-80g")
    assert device_named("H100_80GB").name == "h100-80gb"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([1], "one JSON object"),
        ({"flops": {"float32": 1}}, "lacks bandwidth, memory"),
        ({"flops": {}, "bandwidth": 1, "memory": 1}, "positive numbers"),
        ({"flops": {"fp23": 1}, "bandwidth": 1, "memory": 1}, "unknown dtype in mine.json: 'fp23'"),
        ({"flops": {"float32": float("nan")}, "bandwidth": 1, "memory": 1}, "positive numbers"),
        ({"flops": {"float32": 1}, "bandwidth": 1, "memory": float("inf")}, "positive numbers"),
        ({"flops": {"float32": 1}, "bandwidth": -1, "memory": 1}, "positive numbers"),
        ({"flops": {"float32": True}, "bandwidth": 1, "memory": 1}, "positive numbers"),
        ({"flops": {"float32": 1}, "bandwidth": 1, "memory": 1, "bandwith": 2}, "bandwidth"),
    ],
)
def test_a_bad_device_file_is_refused(data, said):
    """What is no device says what is wrong and shows one."""
    with pytest.raises(PeekError, match=said):
        device_of(data, "mine.json")


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is no JSON"), (b"{", "is no JSON"), (b"\xff\xfe\x00", "is no JSON"), (b"[]", "has to be one JSON object"),
     (None, "spec.json")],
)  # fmt: skip
def test_a_device_file_that_is_none(peek, tmp_path, monkeypatch, content, said):  # noqa: F811
    """A file that is empty, cut, binary, a list or not there is refused in one message, before anything is traced."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog_spec.py").write_text("raise SystemExit('this is not to be imported')\n")
    if content is not None:
        (tmp_path / "spec.json").write_bytes(content)
    done = peek("dryrun", "prog_spec.py:f", "--device-spec", "spec.json")
    assert done.code == 2
    assert said in done.err
    assert "not to be imported" not in done.err


def test_short_dtypes_name_rates():
    """A spec may say ``bf16`` for ``bfloat16``."""
    data = {"flops": {"bf16": 2e12, "f32": 1e12}, "bandwidth": 1, "memory": 1}
    assert device_of(data, "mine.json").rate("bfloat16") == 2e12


def test_a_device_of_ones_own(peek, tmp_path, monkeypatch):  # noqa: F811
    """``--device-spec`` reads a device from a file; the answer as JSON has the bounds."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog_roof.py").write_text("def f(x):\n    return x.sin()\n")
    spec = {"name": "mine", "flops": {"float32": 1e12}, "bandwidth": 1e9, "memory": 1000}
    (tmp_path / "mine.json").write_text(json.dumps(spec))
    done = peek(
        "dryrun", "prog_roof.py:f", "--input", "f32[256]", "--device-spec", "mine.json", "--format", "json"
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)["roofline"]
    assert (found["device"], found["short_by"]) == ("mine", 2 * 1024 - 1000)
    assert found["lower_bound_seconds"] == pytest.approx(2 * 1024 / 1e9)
