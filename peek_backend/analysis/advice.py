"""What to write instead, by the reason of a break: our own rewrites first, then Dynamo's hints.

Comes in: a BreakInfo. Goes out: sentences that name a function or a setting.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..model import BreakInfo

_UNBACKED = (
    "torch._dynamo.config.capture_scalar_outputs = True keeps the value in the graph, as an unbacked symbol; tell its range with "
    "torch._check(n >= 0)",
    "keep it a tensor: drop .item(), int() or float(), or move the line out of the compiled function",
)
_BRANCH = (
    "torch.cond(pred, true_fn, false_fn, operands) keeps both sides in one graph",
    "torch.where(condition, a, b) where both sides are cheap; torch._assert_async(condition) where one side only raises",
)
_ASSERT = ("torch._assert_async(condition), or an assert with a constant message",)
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
# 2.8 knows this name only; later it is another one of ignore_logging_functions.
_LOGGER_METHOD = (_LOGGING[0].replace("ignore_logging_functions", "ignore_logger_methods"),)
_BLOCKS = {
    "loop": "move it out of the loop: inside one, a break leaves the whole frame in eager",
    "try": "move it out of the try block: inside one, a break leaves the whole frame in eager",
    "with": "move it out of the with block: inside one that Dynamo does not know, a break leaves the whole frame in eager",
}

_BY_REASON: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Data-dependent branching", _BRANCH),
    ("Data-dependent assertion", _ASSERT),
    ("Unsupported Tensor.item() call", _UNBACKED),
    ("Data dependent operator", _UNBACKED),
    ("Dynamic shape operator", _DYNAMIC_SHAPE),
    ("Call to `torch._dynamo.graph_break()`", ("the program asks for it: remove the call",)),
    (
        "torch.compiler.disable()`",
        ("the program asks for it: remove torch.compiler.disable, or call the function outside",),
    ),
    ("not supported for non-export cases", _LOGGER_METHOD),
    (
        "Unsupported method call",
        ("move the call out of the compiled function, or wrap it in torch.compiler.disable",),
    ),
    (
        "Unsupported Tensor.backward() call",
        (
            "call backward() outside: compile the model, or the function that computes the loss; its backward is compiled along "
            "with it",
            "torch._dynamo.config.trace_autograd_ops = True traces it into the graph",
        ),
    ),
    ("Attempted to wrap sparse Tensor", ("keep sparse tensors out of the compiled function",)),
)
# The method of a logger, and what else a line may call to log.
_LOGGED = re.compile(
    r"\.(?P<method>debug|info|warning|error|critical|exception|log)\(|\b(?P<warn>warnings\.warn)\("
)
_BUILTIN = re.compile(r"trace the (?:Python )?builtin `(?:<unknown module>\.)?(?P<name>[\w.]+?)\.?`")
_LOGGERS = re.compile(r"\blogging\.|\blog(?:ger)?\.\w+\(|\bwarn\(")
_OUT = "move it out of the compiled function"
MOST_REWRITES = 4


def rewrites(event: BreakInfo, *, inside: bool = True) -> tuple[str, ...]:
    """What mends a break, most to the point first: a few sentences, or a stub to fill in.

    ``inside`` says that a compiled function of the program leads to a break in a library's code.
    """
    own = _own(event)
    if event.block and not event.library:
        own.append(_BLOCKS[event.block])
    hints = [hint for hint in event.hints if not _is_empty(hint)]
    if event.reason.startswith("Call to `torch._dynamo.graph_break()`"):
        hints = []
    if event.library:
        own = [*_settings([*own, *hints]), *(_known_code(event) or [_around(event, inside=inside)])]
        hints = []
    elif event.user is not None and event.intent != "user":
        own.append(_around(event, inside=inside))
    return tuple(dict.fromkeys([*own, *hints] or [_OUT]))[:MOST_REWRITES]


def _own(event: BreakInfo) -> list[str]:
    code = event.stack[-1].code if event.stack else ""
    if event.reason == "Data-dependent branching" and code.startswith("assert "):
        return list(_ASSERT)
    own = [text for words, texts in _BY_REASON if words in event.reason for text in texts]
    if not own and _is_print(event):
        own = list(_PRINT)
    elif not own and _LOGGERS.search(f"{event.reason} {code}"):
        own = list(_LOGGING)
    elif not own and event.user is None and (builtin := _BUILTIN.search(event.explanation)):
        name = builtin["name"].replace("torch._VariableFunctionsClass.", "torch.")
        own = [f"call {name} outside of the compiled function, and pass in what it gives"]
    if logged := _LOGGED.search(code):
        name = logged["warn"] or f"logging.Logger.{logged['method']}"
        own = [text.replace(".add(...)", f".add({name})") for text in own]
    return own


def _settings(texts: Sequence[str]) -> list[str]:
    """Of the advice for a line, what needs no change of it: settings of torch's."""
    return [text.partition("; or ")[0] for text in texts if text.startswith(_SETTING)]


def _known_code(event: BreakInfo) -> list[str]:
    files = [frame.file.replace("\\", "/") for frame in event.stack]
    return [
        text
        for (file, name), text in _KNOWN_LIBRARY_CODE.items()
        if any(f.endswith(file) for f in files) or name in event.explanation
    ]


def _around(event: BreakInfo, *, inside: bool) -> str:
    """What can be done at the line of the program that leads into a library."""
    whose = f"the line is {event.library or 'Python'}'s own"
    if not inside or event.user is None:
        return (
            f"{whose}, and what is compiled is its code: compile a smaller part of it, or leave it as it is"
        )
    call = (
        f"the call that leads there ({event.user.code})" if event.user.code else "the call that leads there"
    )
    if event.block:
        return f"{whose}: {_BLOCKS[event.block].replace('move it', f'move {call}')}"
    return f"{whose}: move {call} out of the compiled function"


_SETTING = "torch._dynamo.config."
# Code of torch's that breaks whatever the program does, by its file and by what an explanation names, and how to go around it.
_KNOWN_LIBRARY_CODE = {
    (
        "torch/nn/parallel/distributed.py",
        "DistributedDataParallel.",
    ): "the line is torch's own: DDP's wrapper breaks around the module in any case; "
    "DistributedDataParallel(torch.compile(module)) leaves the wrapper out",
    (
        "torch/optim/optimizer.py",
        "Optimizer.profile_hook_step",
    ): "the line is torch's own: it breaks there on purpose, and compiles the step itself as a graph apart; nothing to mend "
    "where a function holds opt.step() only, else compile that on its own",
}


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
            "If it is a Python builtin, please file an issue",
        )
    )
