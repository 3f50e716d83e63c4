"""inner="inductor": peek looks, Inductor compiles. What runs afterwards is Inductor's own callable."""

import torch


def f(x, w):
    return torch.nn.functional.gelu(x @ w) + 1


x, w = torch.randn(8, 16), torch.randn(16, 4)

compiled = torch.compile(f, backend="peek", options={"inner": "inductor", "columns": "name,target,shape"})
y = compiled(x, w)
print("\nclose to eager:", torch.allclose(y, f(x, w), atol=1e-5))

# Every option is also an environment variable: PEEK_INNER=inductor PEEK_FORMAT=github python train.py
# Without inner, peek returns the captured graph as it is: results are bit for bit those of eager.
exact = torch.compile(f, backend="peek", options={"quiet": True})
print("equal to eager without inner:", torch.equal(exact(x, w), f(x, w)))
