"""torch.cond: a branch inside the graph. Both ways are captured, as graphs of their own below the node."""

import torch

import peek_backend


def f(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,))


record = peek_backend.inspect(f, torch.randn(4, 5))
print(record.table(columns="index,name,target,args,shape"))

# The bodies are children of the graph; the two get_attr nodes stand for them.
print("\ngraphs:", record.stats.graphs, " bodies:", [child.name for child in record.graphs[0].children])
