"""Rooflines: bounds worked out by hand, what fits, devices of one's own, and a table whose figures have sources."""

from __future__ import annotations

import json

import pytest

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
    """Each row of the table says where it stands, and half precision is no slower than single."""
    for device in DEVICES.values():
        assert len(device.source) > 20
        assert device.rate("float16") >= device.rate("float32") > 0
        assert 10**11 < device.bandwidth < 10**13
    assert DEVICES["h100-80gb"].memory == 80 * 2**30


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
        ({"flops": {"float32": True}, "bandwidth": 1, "memory": 1}, "positive numbers"),
        ({"flops": {"float32": 1}, "bandwidth": 1, "memory": 1, "bandwith": 2}, "bandwidth"),
    ],
)
def test_a_bad_device_file_is_refused(data, said):
    """What is no device says what is wrong and shows one."""
    with pytest.raises(PeekError, match=said):
        device_of(data, "mine.json")


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
