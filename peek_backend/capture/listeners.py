"""Where the records of later stages go: to whoever asked for them, and to every session that is open.

Apart from ``stages``, which needs parts of torch that are not there yet while torch._dynamo is being imported: a session may be
opened then.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from ..model import GraphRecord

Emit = Callable[[int, str, GraphRecord], None]
"""``emit(call, slot, record)``: a record of one backend call. The same slot again is the same graph, with more known of it."""

_LOCK = threading.Lock()
_LISTENERS: list[Emit] = []


@contextlib.contextmanager
def listen(emit: Emit) -> Iterator[None]:
    """Have every stage that anybody records sent to ``emit`` too, while the block runs."""
    with _LOCK:
        _LISTENERS.append(emit)
    try:
        yield
    finally:
        with _LOCK:
            _LISTENERS.remove(emit)


def to_all(own: Emit | None) -> Emit:
    """An Emit that calls all who listen at the time, of whom one that fails costs the others nothing, and then ``own``.

    A PeekError of ``own`` is what its user asked for (``strict``), and passes.
    """

    def emit(call: int, slot: str, record: GraphRecord) -> None:
        for each in tuple(_LISTENERS):
            with contextlib.suppress(Exception):
                each(call, slot, record)
        if own is not None:
            own(call, slot, record)

    return emit
