"""Targets by the name under which a snapshot knows them, whatever torch version moved them where.

A name that changes here changes every snapshot, so an old entry is never edited.
"""

from __future__ import annotations

import re

# Where torch keeps a function, and the name that people write; the first that fits is taken.
PREFIXES: tuple[tuple[str, str], ...] = (
    ("torch.nn.functional.", "F."),
    ("torch._C._nn.", "F."),
    ("torch._C._special.", "torch.special."),
    ("torch._C._fft.", "torch.fft."),
    ("torch._C._linalg.", "torch.linalg."),
    ("torch._C._VariableFunctions.", "torch."),
    ("torch._VF.", "torch."),
    ("torch._C._TensorBase.", "torch.Tensor."),
    ("torch._C.TensorBase.", "torch.Tensor."),
    ("torch._tensor.Tensor.", "torch.Tensor."),
    ("torch._ops.", ""),
    ("torch.ops.", ""),
    ("_operator.", "operator."),
    ("builtins.", ""),
    ("higher_order.", ""),
)

# Functions that have another name now: the old one on the left.
RENAMED: dict[str, str] = {
    "torch.sym_sqrt": "torch._sym_sqrt",
    "torch.conv1d": "F.conv1d",
    "torch.conv2d": "F.conv2d",
    "torch.conv3d": "F.conv3d",
    "torch.conv_transpose1d": "F.conv_transpose1d",
    "torch.conv_transpose2d": "F.conv_transpose2d",
    "torch.conv_transpose3d": "F.conv_transpose3d",
    "torch.avg_pool1d": "F.avg_pool1d",
    "torch.adaptive_avg_pool1d": "F.adaptive_avg_pool1d",
    "torch.channel_shuffle": "F.channel_shuffle",
    "torch.native_channel_shuffle": "F.native_channel_shuffle",
    "torch.pixel_shuffle": "F.pixel_shuffle",
    "torch.pixel_unshuffle": "F.pixel_unshuffle",
    "torch.prelu": "F.prelu",
    "torch.cosine_similarity": "F.cosine_similarity",
    "torch.pdist": "F.pdist",
    "torch.bilinear": "F.bilinear",
    "torch.pairwise_distance": "F.pairwise_distance",
}

_ADDRESS = re.compile(r"(?: at)? ?\b0x[0-9a-fA-F]{4,}")
_RESUME = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")


def alias(target: str) -> str:
    """A function target's name in snapshots: ``F.linear``, ``operator.add``, ``aten.mm``, ``cond``."""
    target = without_addresses(target)
    for long, short in PREFIXES:
        if target.startswith(long):
            target = short + target[len(long) :]
            break
    target = target.removesuffix(".default")
    return RENAMED.get(target, target)


def without_addresses(text: str) -> str:
    """``text`` without memory addresses, which differ in each run."""
    return _ADDRESS.sub("", text) if "0x" in text else text


def without_resume(name: str) -> str:
    """The user's function behind the name of a resume function: ``f`` for ``torch_dynamo_resume_in_f_at_107``."""
    return _RESUME.sub(r"\1", name) if "torch_dynamo_resume_in_" in name else name


# OpOverloads print as namespace.op.overload; the op is then the middle part.
_NAMESPACES = frozenset(
    {
        "aten",
        "prims",
        "prim",
        "inductor",
        "inductor_prims",
        "quantized",
        "c10d",
        "_c10d_functional",
        "rngprims",
    }
)
_NOT_WORD = re.compile(r"\W+")


def op_name(target: str) -> str:
    """The word by which a node is labelled: ``linear``, ``add``, ``mm``; letters, digits and underscores only."""
    parts = target.split(".")
    name = parts[1] if len(parts) == 3 and parts[0] in _NAMESPACES else parts[-1]
    return _NOT_WORD.sub("_", name).strip("_") or "op"
