"""Colours: readable on light and dark, told apart by the colour-blind, one dark colour for each light one."""

from __future__ import annotations

from itertools import combinations

import pytest

from peek_backend.errors import PeekError
from peek_backend.passes.kinds import KINDS
from peek_backend.render import theme as themes
from peek_backend.render.theme import DARK, LIGHT, contrast, dark_style, theme_named

BOTH = pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])


def inks(theme):
    """Every ink of a theme."""
    return [theme.module, theme.tag, *theme.inks.values()]


@BOTH
def test_every_kind_has_an_ink(theme):
    """No kind of op is without a colour."""
    assert set(theme.inks) == set(KINDS)


@BOTH
def test_text_is_readable(theme):
    """All text has a contrast of at least 4.5 to whatever it can stand on, names of ops at least 7."""
    grounds = [theme.page, *theme.clusters, *(ink.fill for ink in inks(theme))]
    for ground in grounds:
        assert contrast(theme.text, ground) >= 7, ground
        assert contrast(theme.muted, ground) >= 4.5, ground
    for ground in (theme.page, *theme.clusters):
        assert contrast(theme.accent, ground) >= 4.5, ground


@BOTH
def test_lines_are_visible(theme):
    """Borders and edges have a contrast of at least 3 to the page and to clusters."""
    for ground in (theme.page, *theme.clusters):
        assert contrast(theme.edge, ground) >= 3
        for ink in inks(theme):
            assert contrast(ink.border, ground) >= 3, ink


def seen(color, matrix):
    """A colour as someone with a colour vision deficiency sees it, in linear light."""
    rgb = [(int(color[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)]
    return [sum(m * c for m, c in zip(row, rgb, strict=True)) for row in matrix]


# Machado, Oliveira and Fernandes 2009, severity 1.0.
VISIONS = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}  # fmt: skip


@BOTH
@pytest.mark.parametrize("vision", VISIONS)
def test_kinds_are_told_apart(theme, vision):
    """The kinds that matter most differ in border colour for every kind of colour vision, or in line style."""
    main = {
        k: theme.inks[k]
        for k in ("matmul", "attention", "norm", "reduction", "elementwise", "view", "control")
    }
    for (a, one), (b, two) in combinations(main.items(), 2):
        if one.line != two.line:
            continue
        far = [
            abs(x - y)
            for x, y in zip(seen(one.border, VISIONS[vision]), seen(two.border, VISIONS[vision]), strict=True)
        ]
        assert max(far) > 0.05, (a, b)


def test_each_light_colour_has_one_dark():
    """The style sheet turns every light colour into exactly one dark one, and leaves out none."""
    pairs = list(themes._pairs())
    assert len({light for light, _ in pairs}) == len(set(pairs))
    assert {light for light, _ in pairs} >= {LIGHT.page, LIGHT.text, LIGHT.inks["norm"].fill}
    assert f'[fill="{LIGHT.text}"]{{fill:{DARK.text}}}' in dark_style()


def test_contrast_is_that_of_wcag():
    """Black on white is 21, a colour on itself 1, and the order does not matter."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#777777") == 1
    assert contrast("#ffffff", "#767676") == contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_an_unknown_theme_is_refused():
    """A theme that there is not ends in an error that names those there are."""
    assert theme_named("auto") is theme_named("light") is LIGHT
    assert theme_named("dark") is DARK
    with pytest.raises(PeekError, match="darkk"):
        theme_named("darkk")
