"""What accelerators can do at most, as their makers publish it: the table behind the roofline, and specs of one's own.

Every figure is the maker's peak without sparsity, FLOP/s by dtype (``tf32`` is what float32 gets where a program allows it).
A sheet's GB/s are 10**9 bytes a second; its GB of memory are 2**30, of which the driver keeps some.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from peek_backend.errors import PeekError, unknown_name

_GIGA, _TERA, _GIB = 10**9, 10**12, 2**30


class Device(Struct, frozen=True, forbid_unknown_fields=True):
    """Peaks of one device. ``flops`` maps torch's dtype names to FLOP/s, ``bandwidth`` is in B/s, ``memory`` in bytes.

    ``source`` says where the figures stand.
    """

    name: str
    flops: dict[str, float]
    bandwidth: float
    memory: int
    source: str

    def rate(self, dtype: str) -> float | None:
        """FLOP/s for a dtype: its own figure, else that of the next wider one that the device has; None for none."""
        for name in _WIDER.get(dtype, (dtype,)):
            if name in self.flops:
                return self.flops[name]
        return None


# A dtype runs at least as fast as the next one that holds its values.
_WIDER: dict[str, tuple[str, ...]] = {
    "float8_e4m3fn": ("float8_e4m3fn", "bfloat16", "float32"),
    "float8_e5m2": ("float8_e5m2", "float8_e4m3fn", "bfloat16", "float32"),
    "bfloat16": ("bfloat16", "float32"),
    "float16": ("float16", "bfloat16", "float32"),
    "float32": ("float32", "float64"),
    "complex64": ("complex64", "float32", "float64"),
    "complex128": ("complex128", "float64"),
    "int8": ("int8", "bfloat16", "float32"),
}


def _device(
    name: str, half: float, single: float, bandwidth: float, memory: float, source: str, **more: float
) -> Device:
    """Figures in TFLOP/s, GB/s and GB as data sheets give them; ``half`` is float16, and bfloat16 unless ``more`` has it as
    0."""
    flops = {"bfloat16": half, "float16": half, "float32": single, **more}
    return Device(
        name, {d: f * _TERA for d, f in flops.items() if f}, bandwidth * _GIGA, int(memory * _GIB), source
    )


_NVIDIA = "https://www.nvidia.com/en-us/data-center"

DEVICES: dict[str, Device] = {
    d.name: d
    for d in (
        _device("v100-32gb", 125, 15.7, 900, 32, f"{_NVIDIA}/v100 (data sheet, SXM2 32 GB)", float64=7.8, bfloat16=0),
        _device("t4", 65, 8.1, 320, 16, f"{_NVIDIA}/tesla-t4 (data sheet)", bfloat16=0),
        _device("a10", 125, 31.2, 600, 24, f"{_NVIDIA}/products/a10-gpu (data sheet)"),
        _device("a100-40gb", 312, 19.5, 1555, 40, f"{_NVIDIA}/a100 (data sheet, SXM 40 GB)", float64=9.7, tf32=156),
        _device("a100-80gb", 312, 19.5, 2039, 80, f"{_NVIDIA}/a100 (data sheet, SXM 80 GB)", float64=9.7, tf32=156),
        _device("l4", 121, 30.3, 300, 24, f"{_NVIDIA}/l4 (data sheet, dense: half of the figures with sparsity)"),
        _device("l40s", 362, 91.6, 864, 48, f"{_NVIDIA}/l40s (data sheet, dense)", tf32=183, float8_e4m3fn=733),
        _device(
            "h100-80gb", 989, 67, 3350, 80, f"{_NVIDIA}/h100 (data sheet, SXM, dense: half of the figures with sparsity)",
            float64=34, tf32=494, float8_e4m3fn=1979,
        ),
        _device(
            "h200", 989, 67, 4800, 141, f"{_NVIDIA}/h200 (data sheet, SXM, dense: half of the figures with sparsity)",
            float64=34, tf32=494, float8_e4m3fn=1979,
        ),
        _device(
            "mi300x", 1307.4, 163.4, 5300, 192, "https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html",
            float64=81.7, tf32=653.7, float8_e4m3fn=2614.9,
        ),
        _device(
            "rtx-4090", 165.2, 82.6, 1008, 24, "NVIDIA Ada GPU Architecture, appendix A (FP16 with FP32 accumulate)",
            tf32=82.6,
        ),
    )
}  # fmt: skip
"""Devices by name."""


def device_named(name: str) -> Device:
    """The device of the table. Raises PeekError naming the nearest."""
    found = DEVICES.get(name.strip().lower().replace("_", "-").replace(" ", "-"))
    if found is None:
        raise unknown_name("device", name, DEVICES)
    return found


_EXAMPLE = (
    '{"name": "mine", "flops": {"bfloat16": 4e14, "float32": 6e13}, "bandwidth": 2e12, "memory": 64000000000}'
)


def device_of(data: Any, where: str) -> Device:
    """A device from parsed JSON: name, flops by dtype (FLOP/s), bandwidth (B/s), memory (bytes), source. PeekError for
    anything else."""
    fix = f"write for example {_EXAMPLE}"
    if not isinstance(data, Mapping):
        raise PeekError(f"{where} is no device", "it has to be one JSON object", fix)
    missing = [k for k in ("flops", "bandwidth", "memory") if k not in data]
    if missing:
        raise PeekError(f"{where} is no device", f"it lacks {', '.join(missing)}", fix)
    unknown = sorted(set(data) - {"name", "flops", "bandwidth", "memory", "source"})
    if unknown:
        raise unknown_name(
            f"field of a device in {where}:", unknown[0], ("name", "flops", "bandwidth", "memory", "source")
        )
    flops = data["flops"]
    numbers = [data["bandwidth"], data["memory"], *(flops.values() if isinstance(flops, Mapping) else ["?"])]
    if not isinstance(flops, Mapping) or not flops or not all(_is_positive(n) for n in numbers):
        raise PeekError(f"{where} is no device", "flops, bandwidth and memory are positive numbers", fix)
    rates = {str(k): float(v) for k, v in flops.items()}
    name = str(data.get("name", where))
    return Device(name, rates, float(data["bandwidth"]), int(data["memory"]), str(data.get("source", where)))


def _is_positive(number: Any) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and number > 0
