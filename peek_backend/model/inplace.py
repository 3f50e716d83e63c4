"""Functions that write their first operand though no underscore says so; capture, analysis and diff ask alike."""

from __future__ import annotations

IN_PLACE_FUNCTIONS = frozenset(
    (
        *("setitem", "__setitem__"),
        *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"),
        *("iand", "ior", "ixor", "ilshift", "irshift"),
    )
)
"""Item assignment and those of ``operator`` (docs.python.org/3/library/operator.html, "In-place Operators")."""
