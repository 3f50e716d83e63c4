"""What was found where a custom op's fake kernel was compared with its real one."""

from __future__ import annotations

from msgspec import Struct


class FakeCheck(Struct, frozen=True, omit_defaults=True):
    """One call of one op. ``inputs`` is the call as text; ``differs`` what the fake kernel promised otherwise, empty where
    both agree; ``untested`` why there was nothing to compare, ``stub`` the ``register_fake`` to write where it lacks one."""

    op: str
    inputs: str
    differs: str = ""
    untested: str = ""
    stub: str = ""
