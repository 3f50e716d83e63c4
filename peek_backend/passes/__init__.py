"""Record to record: what a graph looks like when it is grouped, folded and cut down.

Comes in: records. Goes out: plain structures over node indices. Imports ``model``, ``errors``, ``options``.

* ``hierarchy``  nodes to a tree of module containers without cycles
* ``repeats``    equal neighbours in that tree, and in what they differ
* ``kinds``      what kind of work an op does, by its target
* ``selection``  which containers to open
* ``picture``    the boxes and edges that are then visible
"""
