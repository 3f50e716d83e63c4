"""What the CPU profiler says of memory while a real model runs, with the work buffers of kernels told apart."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile


class Measured(NamedTuple):
    """``peak`` bytes above what was there before; ``buffers`` the ops whose kernels took work buffers, which are not in it."""

    peak: int
    buffers: frozenset[str]


class _Event(NamedTuple):
    time: int
    address: int
    size: int
    op: tuple[int, str]


def measured(run: Callable[[], Any]) -> Measured:
    """The peak of what ``run()`` allocates, without what one kernel takes and gives back before it returns.

    oneDNN's convolutions and the CPU's flash attention do that: their size depends on threads and tiles, not on the graph.
    """
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events: list[_Event] = []
    _gather(profiler.profiler.kineto_results.experimental_event_tree(), (0, ""), events)
    events.sort(key=lambda e: e.time)
    inside = _work_buffers(events)
    now = peak = 0
    for position, event in enumerate(events):
        if position not in inside:
            now += event.size
            peak = max(peak, now)
    return Measured(peak, frozenset(events[i].op[1] for i in inside))


def _gather(nodes: Any, op: tuple[int, str], events: list[_Event]) -> None:
    """All allocations with the kernel they happen in: the outermost of the ops that take work buffers."""
    for node in nodes:
        fields = node.extra_fields
        if isinstance(fields, torch._C._profiler._ExtraFields_Allocation):
            events.append(_Event(node.start_time_ns, fields.ptr, fields.alloc_size, op))
        kernel = node.name.removeprefix("aten::")
        inner = (id(node), kernel) if not op[1] and kernel in _KERNELS else op
        _gather(node.children, inner, events)


_KERNELS = {
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "convolution",
    "convolution_backward",
}


def _work_buffers(events: list[_Event]) -> set[int]:
    """Positions of allocations that the same call of a kernel frees again, and of those frees."""
    taken: dict[int, int] = {}
    found: set[int] = set()
    for position, event in enumerate(events):
        if event.size > 0:
            taken[event.address] = position
            continue
        before = taken.pop(event.address, None)
        if before is not None and event.op[1] and events[before].op == event.op:
            found |= {before, position}
    return found
