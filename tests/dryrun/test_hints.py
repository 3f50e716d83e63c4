"""Hints: values that a dry run takes in place of what the program reads from data."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import nn

import peek_backend
from peek_backend.cli.dryrun import parse_hints
from peek_backend.errors import PeekError
from tests.conftest import require
from tests.models import mixtral, routed_mixtral


def at(function, code: str) -> str:
    """``file:line`` of the line of ``function`` that holds ``code``."""
    lines, start = inspect.getsourcelines(function)
    offset = next(i for i, line in enumerate(lines) if code in line)
    return f"test_hints.py:{start + offset}"


def select(x, w):
    rows = x[:, 0].nonzero().squeeze(1)
    return x[rows] @ w


def test_a_size_has_its_hint_and_stays_symbolic():
    """A hinted size is a symbol in the graph, its price a number at the hint and at any other value; the summary tells it."""
    place = at(select, "nonzero")
    cost = peek_backend.dryrun(select, "f32[64, 8]", "f32[8, 16]", hints={place: 10}).cost
    (symbol,) = {s.name for s in cost._record.graphs[0].symbols if s.unbacked}
    assert cost.flops == 2 * 10 * 8 * 16
    assert cost.at(**{symbol: 3}).flops == 2 * 3 * 8 * 16
    assert f"assumed of what is read from data: 10 at {place}" in str(cost)
    assert peek_backend.dryrun(select, "f32[64, 8]", "f32[8, 16]", hints={symbol: 10}).cost.flops == 2560


def each(x):
    total = x.sum()
    for row in x.nonzero():
        total = total + row.sum()
    return total


def test_a_loop_over_rows_goes_as_often_as_the_hint_says():
    """Guards on a hinted size are decided by it: a loop over what ``nonzero`` found is unrolled."""
    (graph,) = peek_backend.dryrun(each, "f32[4]", hints={at(each, "nonzero"): 3}).graphs
    assert sum(n.target in ("operator.add", "torch.add", "_operator.add") for n in graph.nodes) == 3


def branching(x, w):
    y = x @ w
    if y.sum() > 0:
        return y @ w
    return y @ w @ w


@pytest.mark.parametrize(("taken", "products"), [(True, 2), (False, 3)])
def test_a_branch_is_taken_as_hinted(taken, products):
    """A hint of true or false decides a branch on data; the side that it names is priced."""
    cost = peek_backend.dryrun(branching, "f32[8, 8]", "f32[8, 8]", hints={at(branching, "if y"): taken}).cost
    assert cost.flops == products * 2 * 8**3


def chosen(x, which, weights):
    for i in range(2):
        x = x @ weights[which[i].item()]
    return x


def test_several_values_are_taken_in_turn():
    """A line that reads one number after the other has the hint's values one after the other, in each compile anew."""
    weights = [torch.empty(8, 16), torch.empty(16, 4)]
    how = {"hints": {at(chosen, "item"): [0, 1]}}
    cost = peek_backend.dryrun(chosen, "f32[2, 8]", "i64[2]", weights, **how).cost
    assert cost.flops == 2 * 2 * 8 * 16 + 2 * 2 * 16 * 4


def test_a_hint_for_nothing_is_refused():
    """A line or symbol that reads nothing from data is refused, with those that do and what was captured."""
    with pytest.raises(PeekError, match=r"no value is read from data at u7, nowhere.py:3") as error:
        peek_backend.dryrun(select, "f32[64, 8]", "f32[8, 16]", hints={"u7": 1, "nowhere.py:3": 2})
    assert at(select, "nonzero") in error.value.why
    assert "(u0)" in error.value.why
    assert len(error.value.peek_record.graphs) == 1


@pytest.mark.parametrize("hints", [{"u0": "8"}, {"u0": []}, {"model.py:x": 3}, {"u0": [1, None]}])
def test_what_is_no_hint_is_refused(hints):
    """A hint is a number or some, at a line or a symbol."""
    with pytest.raises(PeekError, match=r"is no hint|names no line"):
        peek_backend.dryrun(select, "f32[64, 8]", "f32[8, 16]", hints=hints)


def test_hints_are_read_from_the_command_line():
    """PLACE=N, with numbers, booleans and lists; anything else is refused with the form."""
    read = parse_hints(("model.py:120=8", "u0=1,2", "a=b.py:3=true"))
    assert read == {"model.py:120": [8], "u0": [1, 2], "a=b.py:3": [True]}
    for text in ("8", "=8", "u0=", "u0=x", 'u0="3"'):
        with pytest.raises(PeekError, match="bad hint"):
            parse_hints((text,))


def test_the_wall_names_the_hint_to_give():
    """Where the run ends for want of data, the first way round is the hint for that very line."""
    place = at(each, "nonzero")
    for how in ({}, {"unbacked": True}):
        with pytest.raises(PeekError, match="needs data") as error:
            peek_backend.dryrun(each, "f32[4]", **how)
        assert f"--hint '{place}=8'" in error.value.fix


def test_the_wall_at_a_branch_names_a_choice():
    """A branch on data is offered true and false, no number: 8 would be a yes."""
    place = at(branching, "if y")
    for how in ({}, {"unbacked": True}):
        with pytest.raises(PeekError, match="needs data") as error:
            peek_backend.dryrun(branching, "f32[8, 8]", "f32[8, 8]", **how)
        assert f"--hint '{place}=false' (hints={{'{place}': False}})" in error.value.fix
        assert f"{place}=8" not in error.value.fix
    assert error.value.why.startswith("how it goes on depends on Eq(u0, 1); u0 is read from data, and")


def test_hints_leave_torch_as_it_was():
    """After a dry run with hints an ordinary compile knows nothing of them."""
    from torch._subclasses.fake_impls import op_implementations_dict
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    before = dict(op_implementations_dict), ShapeEnv.create_unbacked_symint
    peek_backend.dryrun(each, "f32[4]", hints={at(each, "nonzero"): 3})
    assert before == (dict(op_implementations_dict), ShapeEnv.create_unbacked_symint)


def routed_hints(experts: int, rows: int) -> dict[str, object]:
    """Hints for transformers' experts: all are hit, each by as many rows."""
    import sys

    forward = sys.modules["transformers.models.mixtral.modeling_mixtral"].MixtralSparseMoeBlock.forward
    codes = {"nonzero()": experts, "self.experts[expert_idx]": range(experts), "torch.where(": rows}
    return {at(forward, code).replace("test_hints", "modeling_mixtral"): v for code, v in codes.items()}


@pytest.mark.parametrize("train", [False, True])
def test_experts_that_data_choose_are_priced(train):
    """Mixtral as transformers has it, its experts hit by equally many rows, is one graph that costs what even experts cost."""
    require("transformers")
    routed_mixtral()  # loads transformers' module
    if "self.experts[expert_idx]" not in inspect.getsource(_block()):
        pytest.skip("this version of transformers does not loop over experts")
    how = {"keywords": {"input_ids": "i64[2, 16]"}, "train": train}
    record = peek_backend.dryrun(routed_mixtral, hints=routed_hints(4, 16), **how)
    assert len([g for g in record.graphs if g.stage == "dynamo"]) == 1
    assert isinstance(record.cost.bytes, int)
    assert record.cost.flops == peek_backend.dryrun(mixtral, **how).cost.flops


def _block() -> type[nn.Module]:
    import sys

    return sys.modules["transformers.models.mixtral.modeling_mixtral"].MixtralSparseMoeBlock
