"""The models that several tests try."""

from __future__ import annotations

import pytest

from tests.conftest import require
from tests.models import CASES, Case


@pytest.fixture(params=CASES)
def case(request) -> Case:
    """Each of the small models."""
    if request.param != "convolutions":
        require("transformers")
    return CASES[request.param]
