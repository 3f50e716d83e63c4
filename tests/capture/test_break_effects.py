"""What a break does to the frames around it, and whose line it is: in the middle of a statement, and in a library's code."""

from __future__ import annotations

import os

import torch

from peek_backend.analysis.advice import rewrites
from peek_backend.capture.session import Session
from peek_backend.capture.sources import is_program, library_of
from peek_backend.model import BreakInfo, StackFrame
from peek_backend.render.explain import explain_text


class Scaled(torch.nn.Module):
    @property
    def scale(self):
        print("", end="")
        return 2.0

    def forward(self, x):
        y = (x + 1) * 3
        z = y * self.scale
        return z.sin()


def watched(program):
    torch._dynamo.reset()
    with Session() as session:
        program()
    return session.record


def test_a_break_that_ends_a_frame_in_mid_statement_has_its_real_reason():
    """Torch notes "step_unsupported"; the record has the line that broke, and that the frame is not resumed."""
    model = Scaled()
    record = watched(lambda: torch.compile(model, backend="eager")(torch.ones(2)))
    first = record.breaks[0]
    assert not any("step_unsupported" in b.reason for b in record.breaks)
    assert first.stack[-1].code == 'print("", end="")'
    assert record.frames[first.frame].name == "Scaled.forward"
    text = explain_text(record, "breaks", width=80)
    assert (first.split, first.resumes, first.compile_id) == (True, False, "0/0")
    assert "runs the rest of Scaled.forward in eager, from line" in text


def test_a_frame_that_a_break_takes_whole_is_not_said_to_be_split():
    """The same break splits one frame and leaves another in eager: each is told as what it is."""

    def loop(x):
        for _ in range(2):
            x = x + 1
            broken(x)
        return x

    def broken(x):
        print("", end="")
        return x

    record = watched(lambda: torch.compile(loop, backend="eager")(torch.ones(2)))
    text = explain_text(record, "breaks", width=200)
    assert "leaves loop in eager" in text
    assert "splits loop" not in text


def test_a_break_in_torchs_own_code_is_not_the_users_to_remove():
    """The optimizer's ``graph_break()``: torch asks for it, the program's line is named, and no advice says to remove it."""
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step():
        optimizer.step()

    record = watched(torch.compile(step, backend="eager"))
    event = record.breaks[0]
    assert (event.library, event.intent, event.user.code) == ("torch", "skiplist", "optimizer.step()")
    text = explain_text(record, "breaks", width=200)
    assert "asked for by torch: Call to torch._dynamo.graph_break()" in text
    assert "  optimizer.step()" in text
    assert "the program asks for it" not in text
    assert "breaks there on purpose" in text


def test_an_assertion_that_tells_a_value_is_advised_a_constant_message():
    """torch takes it for a branch on data: its message is made of a value, which only a graph break can do."""
    line = StackFrame("/src/train.py", 7, "step", 'assert x.sum() > 0, f"too small: {x}"')
    (told,) = rewrites(BreakInfo("Data-dependent branching", stack=(line,)))
    assert told == "torch._assert_async(condition), or an assert with a constant message"


def test_advice_for_a_librarys_line_is_a_setting_or_the_users_call():
    """A line that is not the user's is not his to rewrite: what is left is torch's setting and the call that leads there."""
    event = BreakInfo(
        "logging.Logger method not supported for non-export cases",
        stack=(StackFrame("/lib/modeling.py", 3, "loss", "logger.warning_once("),),
        library="transformers",
        user=StackFrame("/src/train.py", 7, "step", "loss = model(ids).loss"),
    )
    first, second = rewrites(event)
    assert first.startswith("torch._dynamo.config.ignore_logger_methods")
    assert "move it out" not in first
    assert "transformers's own" in second
    assert "loss = model(ids).loss" in second


def test_ddps_break_names_what_leaves_its_wrapper_out():
    """DDP's logger breaks in torch's code: the module can be compiled without the wrapper."""
    file = "/lib/torch/nn/parallel/distributed.py"
    stack = (StackFrame(file, 9, "forward", "self.logger.set_runtime_stats_and_log()"),)
    told = rewrites(BreakInfo("Unsupported method call", stack=stack, library="torch"))
    assert any("DistributedDataParallel(torch.compile(module))" in text for text in told)
    assert not any("move the call out" in text for text in told)


def test_whose_code_a_stack_ends_in():
    """The program's own, torch's, an installed package's; what Python's library does is its caller's."""
    here = StackFrame(__file__, 1, "f")
    torchs = StackFrame(os.path.join(os.path.dirname(torch.__file__), "optim", "sgd.py"), 1, "g")
    stdlib = StackFrame(os.__file__, 1, "h")
    assert is_program(__file__)
    assert library_of([torchs, here]) == ""
    assert library_of([here, torchs, stdlib]) == "torch"
    assert library_of([here, stdlib]) == ""
