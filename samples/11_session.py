"""session(): everything that a block compiles, whichever backend it names. The program need not know."""

import torch

import peek_backend


@torch.compile(backend="aot_eager")
def loss(x, w):
    return (x @ w).relu().sum()


x, w = torch.randn(8, 16), torch.randn(16, 4, requires_grad=True)

with peek_backend.session() as session:
    loss(x, w).backward()
    loss(x[:6], w).backward()  # another size: compiled again, now with a symbol

for graph in session.record.graphs:
    x = next(node for node in graph.nodes if node.source and node.source.input == "x")
    print(f"{graph.key}  {graph.name}: x is {' × '.join(map(str, x.value.shape))}")

print()
print(session.record.table(graph="0/1", columns="name,target,shape,grad"))
