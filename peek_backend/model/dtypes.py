"""Names of dtypes, shared by labels, snapshot files, specs and expectations. Imports nothing."""

from __future__ import annotations

# What torch itself prints (``torch.float32.abbr``), so that a label can be searched for in torch's own
# output; the quantized ones, which have no abbreviation there, follow the same pattern.
DTYPES: dict[str, str] = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3fn",
    "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2fnuz",
    "float8_e8m0fnu": "f8e8m0fnu",
    "float4_e2m1fn_x2": "f4e2m1fnx2",
    "complex128": "c128",
    "complex64": "c64",
    "complex32": "c32",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "bool": "b8",
    "bits1x8": "b1x8",
    "bits2x4": "b2x4",
    "bits4x2": "b4x2",
    "bits8": "b8x1",
    "bits16": "b16x1",
    "qint8": "qi8",
    "quint8": "qu8",
    "qint32": "qi32",
    "quint4x2": "qu4x2",
    "quint2x4": "qu2x4",
}
"""Long dtype name to short."""

OTHER_NAMES = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "cfloat": "complex64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
}
"""torch's other names of dtypes, to the long one."""
