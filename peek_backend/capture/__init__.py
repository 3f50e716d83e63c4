"""torch -> records. The only package that imports torch; it imports ``model``, ``options`` and ``errors`` alone.

Everything torch-shaped (GraphModule, FakeTensor, SymInt, sympy) becomes plain data here, inside the backend call, and
nothing torch-shaped leaves or outlives it.

* ``compat``      what differs between torch versions, and the one place where Dynamo is wrapped
* ``values``      what a node computes          * ``arguments``  what a node reads
* ``sources``     where nodes and inputs come from  * ``symbols``  the shape environment
* ``mutation``    values as they were when produced * ``graphs``   a GraphModule as a GraphRecord
* ``session``     collects what a block of code compiles
* ``inspection``  a fresh compile that leaves no trace
* ``stages``      the later stages of a backend call: who asks, who reads. ``aot`` watches AOTAutograd, ``beside`` has it
  trace beside another backend, ``inductor`` and ``kernels`` know Inductor, ``stagelog`` and ``printed`` read torch's text,
  ``stagereader`` makes records of it all, ``provenance`` links their nodes
* ``exported``    ``.pt2`` files and ExportedPrograms
* ``inputs``      tensors from specs such as ``f32[8, 16]``
"""
