"""Two snapshots to edits, and edits to a verdict.

Comes in: Snapshots. Goes out: a Diff of grouped, minimal edits; a Verdict by policy. Imports ``model``, ``snapshot``,
``passes`` and ``analysis``.

* ``edits``    what a Diff is made of
* ``effects``  which ops have one: they keep their order
* ``symbols``  which symbol of the old graph is which of the new one
* ``inputs``, ``match``  inputs and nodes of two graphs that are the same
* ``graphs``, ``texts``  edits between two matched graphs, and how they read
* ``compare``  snapshots: frames, breaks, environments
* ``policy``, ``verdict``  what fails, warns or is allowed
* ``merged``   both graphs as one, for pictures
"""

from .compare import compare
from .edits import Diff, Edit, GraphDiff, Group
from .merged import merged_graph
from .policy import Policy, read_policy
from .verdict import Verdict, verdict

__all__ = [
    "Diff",
    "Edit",
    "GraphDiff",
    "Group",
    "Policy",
    "Verdict",
    "compare",
    "merged_graph",
    "read_policy",
    "verdict",
]
