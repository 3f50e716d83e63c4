"""Edits of breaks: how two of one place are told apart."""

from __future__ import annotations

from peek_backend.diff.events import event_edits
from peek_backend.model.snapshot import Break, Place, Snapshot


def test_another_reason_of_a_break_without_an_id_is_told():
    """torch gives some breaks no id: the edit then has the new reason, and not nothing."""
    place = Place("model.py", "f", "if n > 3:")
    old, new = (Snapshot("s", entries=(Break("", place, reason),)) for reason in ("u0 > 3", "u1 > 3"))
    (edit,) = event_edits(old, new, {})
    assert (edit.kind, edit.text) == ("break:reason", "u1 > 3")
