"""README.md shows what happens."""

from __future__ import annotations

import re

import pytest

from tests.conftest import require

from . import gallery, readme


@pytest.mark.timeout(300)
def test_its_blocks_are_up_to_date(tmp_path):
    """Running every command and reading every source that README.md shows gives what it says; ``make readme`` mends it."""
    import torch

    if not torch.__version__.startswith("2.13."):
        pytest.skip("README.md shows torch 2.13")
    for name in ("dot", "transformers"):
        require(name)
    text = readme.README.read_text()
    assert gallery.normalise(text) == gallery.normalise(readme.filled(text, tmp_path))


def test_its_links_lead_somewhere():
    """Every file and picture that README.md names is in the repository."""
    text = readme.README.read_text()
    targets = re.findall(r"\]\(([^)#\s]+)\)|(?:src|href)=\"([^\"#]+)\"", text)
    local = [a or b for a, b in targets if not (a or b).startswith("http")]
    assert local and [t for t in local if not (gallery.ROOT / t).exists()] == []


def test_every_sample_is_listed():
    """README.md links to each sample of the gallery."""
    text = readme.README.read_text()
    assert [s.name for s in gallery.NUMBERED if f"samples/{s.name}" not in text] == []
