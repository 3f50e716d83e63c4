"""What accelerators can do at most, as their makers publish it: the table behind the roofline, and specs of one's own.

Every figure is the maker's dense peak, without sparsity: FLOP/s by dtype (``tf32`` is what float32 gets where allowed).
A sheet's GB/s are 10**9 bytes a second; its GB of memory are 2**30, of which the driver keeps some.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ..errors import PeekError, unknown_name
from ..model.dtypes import DTYPES

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


# A dtype runs at least as fast as the next one that holds its values; all of 8 bits run alike.
_EIGHT_BITS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
_WIDER: dict[str, tuple[str, ...]] = {
    **{name: (name, *_EIGHT_BITS, "bfloat16", "float16", "float32") for name in _EIGHT_BITS},
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


_DATA_CENTER = "https://www.nvidia.com/en-us/data-center"
_SHEETS = "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center"
_A100_40 = f"{_SHEETS}/a100/pdf/nvidia-a100-datasheet.pdf"
_A100 = f"{_SHEETS}/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_HOPPER = "https://resources.nvidia.com/en-us-tensor-core/gtc22-whitepaper-hopper"
_GEFORCE = "https://images.nvidia.com/aem-dam/Solutions/geforce"
_INSTINCT = "https://www.amd.com/en/products/accelerators/instinct"

DEVICES: dict[str, Device] = {
    d.name: d
    for d in (
        _device("v100-16gb", 125, 15.7, 900, 16, f"{_DATA_CENTER}/v100/ (SXM2)", float64=7.8, bfloat16=0),
        _device("v100-32gb", 125, 15.7, 900, 32, f"{_DATA_CENTER}/v100/ (SXM2)", float64=7.8, bfloat16=0),
        _device("t4", 65, 8.1, 320, 16, f"{_DATA_CENTER}/tesla-t4/", bfloat16=0),
        _device("a10", 125, 31.2, 600, 24, f"{_SHEETS}/a10/pdf/datasheet-new/nvidia-a10-datasheet.pdf (dense)", tf32=62.5),
        _device("a30", 165, 10.3, 933, 24, f"{_DATA_CENTER}/products/a30-gpu/ (dense)", float64=5.2, tf32=82),
        _device("a40", 149.7, 37.4, 696, 48, f"{_DATA_CENTER}/a40/ (dense)", tf32=74.8),
        _device("a100-40gb", 312, 19.5, 1555, 40, f"{_A100_40} (SXM, dense)", float64=9.7, tf32=156),
        _device("a100-80gb", 312, 19.5, 2039, 80, f"{_A100} (SXM, dense)", float64=9.7, tf32=156),
        _device("a100-80gb-pcie", 312, 19.5, 1935, 80, f"{_A100} (PCIe, dense)", float64=9.7, tf32=156),
        _device(
            "l4", 121, 30.3, 300, 24, f"{_DATA_CENTER}/l4/ (dense: half of its figures with sparsity)",
            tf32=60, float8_e4m3fn=242,
        ),
        _device("l40s", 362, 91.6, 864, 48, f"{_DATA_CENTER}/l40s/ (dense)", tf32=183, float8_e4m3fn=733),
        _device(
            "h100-80gb", 989, 67, 3350, 80, f"{_DATA_CENTER}/h100/ (SXM, dense: half of its figures with sparsity)",
            float64=34, tf32=494, float8_e4m3fn=1979,
        ),
        _device(
            "h100-pcie", 756, 51, 2000, 80, f"{_HOPPER} (PCIe, dense: half of its figures with sparsity)",
            float64=26, tf32=378, float8_e4m3fn=1513,
        ),
        _device(
            "h100-nvl", 835, 60, 3900, 94, f"{_DATA_CENTER}/h100/ (NVL, dense: half of its figures with sparsity)",
            float64=30, tf32=417, float8_e4m3fn=1670,
        ),
        _device(
            "h200", 989, 67, 4800, 141, f"{_DATA_CENTER}/h200/ (SXM, dense: half of its figures with sparsity)",
            float64=34, tf32=494, float8_e4m3fn=1979,
        ),
        _device(
            "b200", 2250, 75, 8000, 180, f"{_DATA_CENTER}/hgx/ (HGX B200, an eighth, dense), memory {_DATA_CENTER}/dgx-b200/",
            float64=37, tf32=1125, float8_e4m3fn=4500,
        ),
        _device(
            "rtx-3090", 71, 35.6, 936, 24,
            "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf (dense, FP32 accumulate)",
            tf32=35.6,
        ),
        _device(
            "rtx-4090", 165.2, 82.6, 1008, 24, f"{_GEFORCE}/ada/nvidia-ada-gpu-architecture.pdf (dense, FP32 accumulate)",
            tf32=82.6, float8_e4m3fn=330.3,
        ),
        _device(
            "rtx-5090", 209.5, 104.8, 1792, 32,
            f"{_GEFORCE}/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf (dense, FP32 accumulate)",
            tf32=104.8, float8_e4m3fn=419,
        ),
        _device(
            "mi300x", 1307.4, 163.4, 5300, 192, f"{_INSTINCT}/mi300/mi300x.html (dense)",
            float64=81.7, tf32=653.7, float8_e4m3fn=2614.9,
        ),
        _device(
            "mi325x", 1307.4, 163.4, 6000, 256, f"{_INSTINCT}/mi300/mi325x.html (dense)",
            float64=81.7, tf32=653.7, float8_e4m3fn=2614.9,
        ),
    )
}  # fmt: skip
"""Devices by name."""


def device_named(name: str) -> Device:
    """The device of the table. Raises PeekError naming those of that family, else the nearest."""
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-").removeprefix("nvidia-")
    found = DEVICES.get(wanted)
    if found is not None:
        return found
    family = [known for known in DEVICES if wanted and known.startswith(f"{wanted}-")]
    if family:
        raise PeekError(
            f"which {name}?", "its variants differ in memory or speed", f"name one: {', '.join(family)}"
        )
    raise unknown_name("device", name, DEVICES)


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
    rates = {_dtype(str(k), where): float(v) for k, v in flops.items()}
    name = str(data.get("name", where))
    return Device(name, rates, float(data["bandwidth"]), int(data["memory"]), str(data.get("source", where)))


def _dtype(name: str, where: str) -> str:
    """torch's long name of a dtype, short ones (``bf16``) too. A name that no op has would leave every op without a rate."""
    known = {**{short: long for long, short in DTYPES.items()}, **{long: long for long in (*DTYPES, "tf32")}}
    if name.removeprefix("torch.") not in known:
        raise unknown_name(f"dtype in {where}:", name, DTYPES)
    return known[name.removeprefix("torch.")]


def _is_positive(number: Any) -> bool:
    plain = isinstance(number, (int, float)) and not isinstance(number, bool)
    return plain and math.isfinite(number) and number > 0
