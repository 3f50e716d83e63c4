"""What a graph returns, by what its place among the outputs means.

Results have an order. What a forward saves for its backward has none of its own, and a gradient is known by its input: torch
puts both in the order of the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from ..model.snapshot import SLOT, Call
from ..snapshot.graphfile_text import Operand, argument_texts, read_template

SAVED, GRADIENTS = "saved=[", "gradients={"


class Outputs(NamedTuple):
    """Results, saved values, and each input's gradient by the input's name as it is written."""

    given: Call
    saved: Call
    gradients: dict[str, Call]


def read_outputs(call: Call) -> Outputs:
    """The parts of an output. One that ``passes/canonical_graph.py`` would write otherwise is taken as results."""
    plain = Outputs(call, Call(), {})
    if SAVED not in call.template and GRADIENTS not in call.template:
        return plain
    *texts, last = argument_texts(call.template) or [""]
    first = len(call.operands) - last.count(SLOT)
    given, own = Call(", ".join(texts), call.operands[:first]), call.operands[first:]
    if last.startswith(SAVED):
        return Outputs(given, Call(last, own), {})
    if not last.startswith(GRADIENTS):
        return plain
    pairs = read_template(last)[0][1]["dict"]  # type: ignore[index]
    if sum(value is Operand for _, value in pairs) != len(own):
        return plain
    operands = iter(own)
    found = {
        repr(name): Call(SLOT, (next(operands),)) if value is Operand else Call(repr(value))
        for name, value in pairs
    }
    return Outputs(given, Call(), found)


def paired_gradients(old: Outputs, new: Outputs) -> Iterator[tuple[Call, Call]]:
    """Gradients of one input: by its name, and those left in order, since an argument may be renamed."""
    yield from [(call, new.gradients[name]) for name, call in old.gradients.items() if name in new.gradients]
    gone = [call for name, call in old.gradients.items() if name not in new.gradients]
    come = [call for name, call in new.gradients.items() if name not in old.gradients]
    yield from zip_longest(gone, come, fillvalue=Call())
