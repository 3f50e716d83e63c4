"""``peek check-fake``: each custom op's fake kernel against its real one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..errors import PeekError
from ..model.checks import FakeCheck
from ..render.labels import plural
from ..specs import parse_input
from .output import tell, write_stdout
from .target import Target, parse_target


@click.command("check-fake")
@click.argument("module", metavar="MODULE")
@click.option("--op", "name", metavar="NS::NAME", help="Only this op.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SPEC",
    help="With --op: an argument of the call to try, in order.",
)
def check_fake(module: str, name: str | None, inputs: tuple[str, ...]) -> Any:
    """Run each custom op that MODULE (a dotted name or a .py file) registers for real and on fake tensors, and compare.

    Shapes, strides, dtypes, devices and shared memory of all results have to agree. Inputs are made up from the op's schema;
    for one that needs particular ones, name it with --op and give them. Ends with 1 when a fake kernel is wrong or missing, with
    2 when the real one refuses the inputs given.
    """
    if inputs and name is None:
        raise PeekError("--input without --op", "the inputs are those of one op", "add --op namespace::name")
    target = parse_target(f"{module}:_")  # checks the module's name
    call = tuple([parse_input(text) for text in inputs])
    return lambda: _check(target, name, call)


def _check(target: Target, name: str | None, call: tuple[Any, ...]) -> int:
    """Called outside of the handlers for mistakes: what the module raises keeps its traceback."""
    try:
        checks = _checks(target, name, call)
    except PeekError as error:
        tell(str(error))
        return 2
    write_stdout(report(checks) + "\n")
    if call and any(c.untested for c in checks):
        return 2  # the call that was asked for is a mistake, or made up for another op
    return int(any(c.differs or c.stub for c in checks))


def _checks(target: Target, name: str | None, call: tuple[Any, ...]) -> list[FakeCheck]:
    try:
        from ..capture.checkfake import check_fake as compared
        from ..capture.checkfake import op_named, ops_defined_by
        from ..capture.inputs import build
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise PeekError("peek check-fake needs torch", "it is not installed", "pip install torch") from None
    ops = ops_defined_by(target.imported)
    if name is not None:
        ops = [op_named(name)]
    if not ops:
        why = "importing it registers nothing with torch.library"
        raise PeekError(
            f"{target.module} defines no custom op",
            why,
            "name the module that does, or add --op namespace::name",
        )
    calls = [(build(call, "cpu"), {})] if call else []
    return [check for op in ops for check in compared(op, calls)]


def report(checks: Sequence[FakeCheck]) -> str:
    """An entry an op: that all its calls agree, or each call that does not."""
    lines: list[str] = []
    for op in dict.fromkeys(c.op for c in checks):
        lines += _of_op(op, [c for c in checks if c.op == op])
    wrong = {c.op for c in checks if c.differs or c.stub}
    untested = {c.op for c in checks if c.untested} - wrong
    count = len({c.op for c in checks})
    lines.append(
        f"{count - len(untested)} checked, {len(wrong)} wrong or missing, {len(untested)} not tested"
    )
    return "\n".join(lines)


def _of_op(op: str, checks: list[FakeCheck]) -> list[str]:
    if stub := next((c.stub for c in checks if c.stub), ""):
        advice, *code = stub.splitlines()
        return [
            f"{op}: no fake kernel",
            f"    {advice}",
            "",
            *code,
            "",
        ]  # the code at the margin, to be copied as it is
    if untested := next((c.untested for c in checks if c.untested), ""):
        return [f"{op}: not tested: {untested}"]
    wrong = [c for c in checks if c.differs]
    if not wrong:
        return [f"{op}: agrees on {plural(len(checks), 'call')}"]
    return [
        f"{op}: wrong on {len(wrong)} of {plural(len(checks), 'call')}",
        *(f"    ({c.inputs}): {c.differs}" for c in wrong),
    ]
