"""A tensor to make up: what ``peek inspect --input`` asks for."""

from __future__ import annotations

from msgspec import Struct


class TensorSpec(Struct, frozen=True):
    """A tensor of made-up data. ``dtype`` is torch's long name; ``names`` has, for each dim, its name or None.

    A dim with a name is dynamic: compiled for any size, ``shape`` being only an example.
    """

    dtype: str
    shape: tuple[int, ...]
    names: tuple[str | None, ...]
    requires_grad: bool = False
