"""The fixture ``project``."""

from __future__ import annotations

import pytest

from .project import Project


@pytest.fixture
def project(pytester, monkeypatch) -> Project:
    """A small project whose tests use ``graph_snapshot``."""
    return Project(pytester, monkeypatch)
