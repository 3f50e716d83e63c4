"""The walk through samples/ci shows what happens."""

from __future__ import annotations

import re

import pytest

from . import gallery

walk = pytest.importorskip("tests.samples.walk", reason="needs a terminal")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_its_blocks_are_up_to_date(tmp_path):
    """Running every command of the walk prints what its README shows; ``python -m tests.samples.walk`` mends it."""
    import torch

    if not torch.__version__.startswith("2.13."):
        pytest.skip("the walk shows torch 2.13")
    text = walk.README.read_text()
    assert gallery.normalise(walk.filled(text, tmp_path)) == gallery.normalise(text)


def test_its_links_lead_somewhere():
    """Every file that the walk names is in the sample."""
    targets = re.findall(r"\]\(([^)#\s]+)\)", walk.README.read_text())
    assert targets and [t for t in targets if not (walk.FOLDER / t).exists()] == []


def test_its_snapshots_are_in_order():
    """The sample's snapshots can be read and have their tests: what its pre-commit entry checks."""
    from peek_backend.cli.checking import Project, why_obsolete
    from peek_backend.diff import Policy
    from peek_backend.snapshot.graphfile import read_graph

    where = Project(walk.FOLDER, Policy(), (walk.FOLDER / "tests/__graphs__",), (walk.FOLDER,))
    assert len(where.slots) == 3
    assert [why for slot in where.slots if (why := why_obsolete(slot, read_graph(slot.path), where))] == []
