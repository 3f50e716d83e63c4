"""What to write instead, by the reason of a break: our own rewrites first, then Dynamo's hints.

Comes in: a BreakInfo. Goes out: sentences that name a function or a setting.
"""

from __future__ import annotations

import re

from peek_backend.model import BreakInfo

_UNBACKED = (
    "torch._dynamo.config.capture_scalar_outputs = True keeps the value in the graph, as an unbacked symbol; tell its range with "
    "torch._check(n >= 0)",
    "keep it a tensor: drop .item(), int() or float(), or move the line out of the compiled function",
)
_BRANCH = (
    "torch.cond(pred, true_fn, false_fn, operands) keeps both sides in one graph",
    "torch.where(condition, a, b) where both sides are cheap; torch._assert_async(condition) where one side only raises",
)
_DYNAMIC_SHAPE = (
    "torch._dynamo.config.capture_dynamic_output_shape_ops = True keeps it in the graph, with an unbacked size",
    "torch.where or a mask keeps the shape: multiply by the mask instead of selecting",
)
_PRINT = (
    "move it out of the compiled function, or torch._dynamo.config.reorderable_logging_functions.add(print) to print after "
    "the graph",
)
_LOGGING = (
    "torch._dynamo.config.ignore_logging_functions.add(...) leaves the call out of compiled code; or move it out of the function",
)
_BLOCKS = {
    "loop": "move it out of the loop: inside one, a break leaves the whole frame in eager",
    "try": "move it out of the try block: inside one, a break leaves the whole frame in eager",
    "with": "move it out of the with block: inside one that Dynamo does not know, a break leaves the whole frame in eager",
}

_BY_REASON: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Data-dependent branching", _BRANCH),
    ("Data-dependent assertion", ("torch._assert_async(condition), or an assert with a constant message",)),
    ("Unsupported Tensor.item() call", _UNBACKED),
    ("Data dependent operator", _UNBACKED),
    ("Dynamic shape operator", _DYNAMIC_SHAPE),
    ("Call to `torch._dynamo.graph_break()`", ("the program asks for it: remove the call",)),
    (
        "torch.compiler.disable()`",
        ("the program asks for it: remove torch.compiler.disable, or call the function outside",),
    ),
    (
        "Unsupported method call",
        ("move the call out of the compiled function, or wrap it in torch.compiler.disable",),
    ),
    ("Attempted to wrap sparse Tensor", ("keep sparse tensors out of the compiled function",)),
)
_LOGGERS = re.compile(r"\blogging\.|\blog(?:ger)?\.\w+\(|\bwarn\(")
MOST_REWRITES = 4


def rewrites(event: BreakInfo) -> tuple[str, ...]:
    """What mends a break, most to the point first: a few sentences, or a stub to fill in."""
    own = [text for words, texts in _BY_REASON if words in event.reason for text in texts]
    if not own and _is_print(event):
        own = list(_PRINT)
    elif not own and _LOGGERS.search(f"{event.reason} {event.stack[-1].code if event.stack else ''}"):
        own = list(_LOGGING)
    if event.block:
        own.append(_BLOCKS[event.block])
    hints = [hint for hint in event.hints if not _is_empty(hint)]
    if event.reason.startswith("Call to `torch._dynamo.graph_break()`"):
        hints = []
    return tuple(dict.fromkeys([*own, *hints]))[:MOST_REWRITES]


def _is_print(event: BreakInfo) -> bool:
    code = event.stack[-1].code if event.stack else ""
    return "`print`" in event.explanation or "builtin print" in event.context or code.startswith("print(")


def _is_empty(hint: str) -> bool:
    """Hints that say nothing of this program."""
    return hint.startswith(
        (
            "This is likely to be a Dynamo bug",
            "It may be possible to write Dynamo tracing rules",
            "Please report an issue to PyTorch",
        )
    )
