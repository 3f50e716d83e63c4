"""The report of every case, as a person reads it at 80 columns, kept in ``expected/`` for review.

``UPDATE_EXPECTED=1 pytest tests/truth/test_reports.py`` writes them anew; read the diff before you commit it. They are of
torch 2.13.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
import torch

from peek_backend.render.explain import TOPICS, explain_text

from .conftest import MEASURED

EXPECTED = Path(__file__).with_name("expected")
SECTIONS = ("frames", "recompiles", "symbols")

pytestmark = pytest.mark.timeout(600)


def report(record):
    """The report and the sections that hold facts; compile times and the folder of torch differ, and are left out."""
    frames = tuple(msgspec.structs.replace(f, phases={}) for f in record.frames)
    still = _placeless(msgspec.structs.replace(record, frames=frames))
    parts = [explain_text(still, width=80), *(explain_text(still, section, width=80) for section in SECTIONS)]
    return "\n".join(parts)


def _placeless(record):
    """The record with torch's files under ``site-packages/``: lines wrap by the length of a path."""
    folder = os.path.dirname(os.path.dirname(torch.__file__))
    data = msgspec.json.encode(record).replace(folder.encode() + b"/", b"site-packages/")
    return msgspec.json.decode(data, type=type(record))


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="the reports are of torch 2.13")
@pytest.mark.parametrize("case", MEASURED)
def test_the_report_is_the_one_that_was_reviewed(ran, case):
    """What peek says of a case is, word for word, what somebody read and found right."""
    text, path = report(ran.record(case)), EXPECTED / f"{case}.txt"
    if os.environ.get("UPDATE_EXPECTED"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("case", MEASURED)
def test_every_section_fits_80_columns(ran, case):
    """No line but program text is wider than the terminal, in any section."""
    record = ran.record(case)
    for topic in (None, *TOPICS):
        for line in explain_text(record, topic, width=80).splitlines():
            words = line.split()
            assert len(line) <= 80 or len(words) < 3 or line.startswith("    "), line
