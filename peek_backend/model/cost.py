"""What a node costs and what a dry run was about: plain numbers, or expressions where shapes are symbolic."""

from __future__ import annotations

from msgspec import Struct

from .values import Dim


class NodeCost(Struct, frozen=True, gc=False, omit_defaults=True):
    """The cost of one node, as torch's own kernels would run it, op by op, nothing fused.

    ``flops``    floating-point operations of matrix products, convolutions and attention, a multiply-add being two: what
                 ``torch.utils.flop_counter.FlopCounterMode`` counts. Elementwise work counts none.
    ``read``, ``written``  bytes moved; a view moves none, a dim that ``expand`` made counts once.
    ``scratch``  bytes that are allocated inside and gone when the op returns, at most at once, beside its results.
    ``made``     (storage, bytes) of each storage that is first held by this node; the number is ``TensorMeta.storage``.
    ``unknown``  why a part could not be worked out, and is missing above.
    ``buffers``  the ATen op inside whose kernel takes memory of its own that ``scratch`` does not have.
    """

    flops: Dim = 0
    read: Dim = 0
    written: Dim = 0
    scratch: Dim = 0
    made: tuple[tuple[int, Dim], ...] = ()
    unknown: str = ""
    buffers: str = ""


class HeldTensor(Struct, frozen=True, gc=False, omit_defaults=True):
    """A parameter or buffer of the model, whether a graph reads it or not. ``storage`` is equal for tied ones.

    ``module`` is the path of the module that owns it, ``kind`` its class's name, ``numel`` counts elements, ``nbytes`` bytes.
    """

    name: str
    storage: int
    numel: int
    nbytes: int
    dtype: str
    buffer: bool = False
    requires_grad: bool = False


class DryRun(Struct, frozen=True, omit_defaults=True):
    """What was tried without data: on which device, for inference or a training step, and with which model.

    ``optimizer`` names the optimizer whose state a training step keeps; ``modules`` maps module paths to class names,
    ``sizes`` the names that the caller gave dims (``batch``) to the symbols they became, ``aliases`` further symbols of the
    same names to those. ``assumed`` are the hints that were
    taken for values read from data, by line (``model.py:120``) or symbol. ``eager`` are the ATen ops that ran outside of all
    graphs, with how often; views are left out.
    """

    device: str
    train: bool = False
    optimizer: str = ""
    held: tuple[HeldTensor, ...] = ()
    modules: dict[str, str] = {}
    sizes: dict[str, str] = {}
    aliases: dict[str, str] = {}
    assumed: dict[str, str] = {}
    eager: dict[str, int] = {}
