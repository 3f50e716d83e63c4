"""A dry run: the graph of a product of two 65,536 × 65,536 matrices, on a machine that could not hold one of them.

Each matrix takes 16 GiB in float32. Inside a FakeTensorMode they are made, multiplied and compiled without being there.
"""

import resource

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

N = 65_536


def f(a, b):
    return torch.tanh(a @ b)


def resident_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


torch.compile(lambda x: x + 1, backend="eager")(torch.zeros(1))  # loads what compiling loads anyway
before = resident_mb()

with FakeTensorMode():
    a, b = torch.empty(N, N), torch.empty(N, N)
    y = torch.compile(f, backend="peek", options={"columns": "name,target,shape,dtype,bytes"})(a, b)

print("\nresult:", type(y).__name__, tuple(y.shape), y.dtype)
print(f"for real this takes {4 * y.nbytes / 2**30:.0f} GiB and {2 * N**3 / 1e12:.0f} TFLOP")
print("memory grew by less than 200 MB:", resident_mb() - before < 200)
