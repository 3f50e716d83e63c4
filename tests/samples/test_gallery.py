"""The gallery prints what its expected files say."""

from __future__ import annotations

import pytest

from tests.conftest import require

from . import gallery

NEEDS = {"12_inductor": ["g++"], "13_models": ["transformers", "dot"], "16_price_of_models": ["transformers"]}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("sample", gallery.NUMBERED, ids=lambda path: path.stem)
def test_a_sample_prints_what_is_expected(sample, tmp_path):
    """The sample runs to its end and prints its expected file; with another torch than the pinned one, it runs."""
    import torch

    for name in NEEDS.get(sample.stem, ()):
        require(name)
    printed = gallery.run(sample, tmp_path)
    if torch.__version__.startswith("2.13."):
        assert gallery.normalise(printed) == gallery.normalise(gallery.expected(sample).read_text())


def test_every_expected_file_has_its_sample():
    """No expected file outlives its sample, and the samples are numbered without a gap."""
    assert {p.stem for p in gallery.EXPECTED.glob("*.txt")} == {p.stem for p in gallery.NUMBERED}
    assert [int(p.stem[:2]) for p in gallery.NUMBERED] == list(range(1, len(gallery.NUMBERED) + 1))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("took 0.31 s", "took 12.9 s", True),
        ("wrote 1,234 bytes", "wrote 99 bytes", True),
        ("torch 2.13.0+cpu", "torch 2.13.1", True),
        ("3 graphs", "4 graphs", False),
        ("f32[8, 16]", "f32[8, 4]", False),
        ("s77 = 8", "s77 = 6", False),
    ],
)
def test_only_volatile_parts_are_set_aside(one, other, same):
    """Times, sizes and versions do not count as a difference; counts, shapes and hints do."""
    assert (gallery.normalise(one) == gallery.normalise(other)) is same
