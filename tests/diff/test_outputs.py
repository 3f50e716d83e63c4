"""What graphs of later stages return: the order is torch's own, what belongs to which input is not."""

from __future__ import annotations

import pytest

from .test_graph_edits import edits, kinds

DYNAMO = (
    "graph f\n  in   x: f32[4] grad\n  in   y: f32[4] grad\n  %a = torch.mul(x, y)  f32[4] grad\n  out  %a\n"
)
IN = "  in   x: f32[4]\n  in   y: f32[4]\n"
FORWARD = f"{DYNAMO}graph f ▸ stage forward\n{IN}  %a = aten.mul(x, y)  f32[4]\n  out  "
BACKWARD = (
    f"{DYNAMO}graph f ▸ stage backward\n{IN}  in   tangents_1: f32[4]\n"
    "  %a = aten.mul(tangents_1, y)  f32[4]\n  %b = aten.mul(tangents_1, x)  f32[4]\n  out  "
)


def test_what_is_saved_has_no_order():
    """Saved values in another order are no edit, one more or another one is."""
    old = f"{FORWARD}%a, saved=[x, y]\n"
    assert kinds(old, f"{FORWARD}%a, saved=[y, x]\n") == []
    for other in ("%a, saved=[x, %a]", "%a, saved=[x, y, %a]", "%a, saved=[x]", "%a, saved=[x, y, 2]", "%a"):
        assert kinds(old, f"{FORWARD}{other}\n") == ["output:changed"], other


def test_results_have_an_order():
    """Before what is saved stands what the program gets: there the order counts."""
    old, new = f"{FORWARD}%a, x, saved=[y]\n", f"{FORWARD}x, %a, saved=[y]\n"
    assert kinds(old, new) == ["output:changed"]


def test_a_gradient_is_its_inputs():
    """Gradients in the order of other inputs are no edit, nor under a new name; given to another input they are."""
    old = f'{BACKWARD}gradients={{"x": %a, "y": %b}}\n'
    assert edits(old, f'{BACKWARD}gradients={{"y": %b, "x": %a}}\n') == []
    renamed = f'{BACKWARD}gradients={{"data": %a, "y": %b}}\n'.replace("x: f32", "data: f32").replace(
        "x)", "data)"
    )
    assert kinds(old, renamed.replace("(x,", "(data,")) == []
    for swapped in ('"x": %b, "y": %a', '"x": %a, "y": None', '"x": %a', '"x": %a, "y": %b, "z": None'):
        assert kinds(old, f"{BACKWARD}gradients={{{swapped}}}\n") == ["output:changed"], swapped


@pytest.mark.parametrize(
    "out", ["gradients={1: [%a, %b]}", "gradients={%a: %b}", "gradients={[1]: %a}", "saved=[[%a]]"]
)
def test_what_nothing_writes_is_compared_all_the_same(out: str):
    """An output that was changed by hand equals itself and no other."""
    assert edits(BACKWARD + f"{out}\n", BACKWARD + f"{out}\n") == []
    other = out.replace("%a", "x").replace("%b", "y")
    assert kinds(BACKWARD + f"{out}\n", BACKWARD + f"{other}\n") == ["output:changed"]


def test_the_order_of_a_later_stages_inputs_is_torchs():
    """Arguments in another order are told of Dynamo's graph, once."""
    other = "  in   y: f32[4]\n  in   x: f32[4]\n"
    old = f"{FORWARD}%a, saved=[x, y]\n"
    assert kinds(old, old.replace(IN, other)) == []
    swapped = old.replace(
        "  in   x: f32[4] grad\n  in   y: f32[4] grad\n", "  in   y: f32[4] grad\n  in   x: f32[4] grad\n"
    )
    assert kinds(old, swapped.replace(IN, other)) == ["input:order"]
