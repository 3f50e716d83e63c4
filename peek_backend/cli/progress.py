"""A line on a terminal's stderr that says what is being traced, while it is."""

from __future__ import annotations

import contextlib
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

_EVERY = 0.25
"""Seconds between two looks."""
_DEEPEST = 400


@contextlib.contextmanager
def showing_progress() -> Iterator[None]:
    """While the block runs in this thread, another one shows the module that Dynamo is in. Without a terminal nothing
    happens."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    stop = threading.Event()
    console = Console(stderr=True)
    with console.status("building the model") as status:
        thread = threading.Thread(
            target=_watch, args=(threading.get_ident(), status.update, stop), daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _watch(thread: int, show: Any, stop: threading.Event) -> None:
    while not stop.wait(_EVERY):
        text = doing(sys._current_frames().get(thread))
        if text:
            show(text)


def doing(frame: FrameType | None) -> str:
    """What a thread is doing, told from its stack: ``tracing model.layers.7.mlp, 812 nodes``; empty when that cannot be told.

    Looking costs the traced thread nothing but the interpreter's lock; it reads what Dynamo's own translators hold.
    """
    for _ in range(_DEEPEST):
        if frame is None:
            return ""
        if text := _stage(frame):
            return text
        frame = frame.f_back
    return ""


def doing_at(error: BaseException) -> str:
    """The same of the moment at which ``error`` was raised."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next(filter(None, map(_stage, reversed(frames))), "")


_STAGES = {
    "built": "building the model",
    "min_cut_rematerialization_partition": "cutting the joint graph into forward and backward",
    "aot_dispatch_autograd": "tracing the joint graph",
    "read_graph": "reading the graph",
    "one_layer_rnn": "writing out a recurrent layer step by step",
    "one_layer_lstm": "writing out a recurrent layer step by step",
}


def _stage(frame: FrameType) -> str:
    name = frame.f_code.co_name
    if name in _STAGES:
        return _STAGES[name]
    translator = frame.f_locals.get("self")
    stack = getattr(translator, "nn_module_stack", None)
    output = getattr(translator, "output", None)
    if not isinstance(stack, dict) or output is None:
        return ""
    nodes = len(getattr(getattr(output, "graph", None), "nodes", ()))
    path = next(reversed(stack.values()))[0] if stack else ""
    return f"tracing {_readable(str(path)) or 'the function'}, {nodes:,} nodes"


def _readable(path: str) -> str:
    """``L['self'].layers.0`` without Dynamo's words for where it starts."""
    return path.replace("L['self'].", "").replace("L['fn'].", "").replace("_modules['", "").replace("']", "")
