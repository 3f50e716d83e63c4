"""Frozen records: what a capture is.

Comes in: nothing. Goes out: msgspec Structs that every other package reads. Imports ``errors`` only.

* ``values``   what a node computes: tensors, symbols, scalars, tuples
* ``graph``    nodes, their arguments and sources, graphs with their children and symbols
* ``cost``     what a node costs, and what a dry run was about
* ``stages``   how a graph after Dynamo's came about: saved values, gradients, caches
* ``events``   frames, graph breaks, recompiles, guards, problems
* ``capture``  the root of a file

Records are values: built once, never changed (``msgspec.structs.replace`` makes a new one). A field
with a default is left out of the JSON when it has it, so that adding one keeps old files readable. They cannot form
cycles, so Python's collector is told not to look at them (``gc=False``): a capture of 100,000 nodes costs it nothing.
"""

from .capture import NOT_CALLED, NOTHING_CAPTURED, SCHEMA_VERSION, CaptureRecord, Environment
from .cost import DryRun, HeldTensor, NodeCost
from .events import (
    BreakInfo,
    EarlierFrame,
    FailedGuard,
    FrameRecord,
    GuardInfo,
    Phase,
    Problem,
    RecompileInfo,
    StackFrame,
    own_name,
)
from .graph import (
    Arg,
    Fact,
    GraphRecord,
    Leaf,
    NodeRecord,
    Source,
    SymbolInfo,
    iter_refs,
    node_refs,
)
from .stages import AliasedOutput, CacheOutcome, CudagraphSkip, MutatedInput, StageInfo
from .values import (
    Dim,
    NoneInfo,
    Opaque,
    ScalarInfo,
    SizeInfo,
    SymBool,
    SymFloat,
    SymInt,
    TensorMeta,
    TupleInfo,
    ValueInfo,
    iter_stored,
    iter_tensors,
)

__all__ = [
    "NOTHING_CAPTURED",
    "NOT_CALLED",
    "SCHEMA_VERSION",
    "AliasedOutput",
    "Arg",
    "BreakInfo",
    "CacheOutcome",
    "CaptureRecord",
    "CudagraphSkip",
    "Dim",
    "DryRun",
    "EarlierFrame",
    "Environment",
    "Fact",
    "FailedGuard",
    "FrameRecord",
    "GraphRecord",
    "GuardInfo",
    "HeldTensor",
    "Leaf",
    "MutatedInput",
    "NodeCost",
    "NodeRecord",
    "NoneInfo",
    "Opaque",
    "Phase",
    "Problem",
    "RecompileInfo",
    "ScalarInfo",
    "SizeInfo",
    "Source",
    "StackFrame",
    "StageInfo",
    "SymBool",
    "SymFloat",
    "SymInt",
    "SymbolInfo",
    "TensorMeta",
    "TupleInfo",
    "ValueInfo",
    "iter_refs",
    "iter_stored",
    "iter_tensors",
    "node_refs",
    "own_name",
]
