"""The first graph: what does torch.compile hand to its backend?

A backend is a function that receives the graph Dynamo captured. peek is one that shows the graph and hands it back, so the
program runs as before. No import of peek is needed: torch finds it by name.
"""

import torch


def f(x, w):
    return torch.tanh(x @ w)


x, w = torch.randn(8, 16), torch.randn(16, 4)
y = torch.compile(f, backend="peek")(x, w)

# The table has four tensors: the inputs x (8×16) and w (16×4), the product (8×4) and its tanh (8×4). Nothing was multiplied to
# learn these shapes: while Dynamo traced f, each value was a FakeTensor, which has a shape, a dtype, strides and a device, but
# no data. The last row is the graph's output.

print("\nsame result as without compile:", torch.equal(y, f(x, w)))
