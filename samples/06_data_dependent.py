"""What depends on data: .item(), and a branch on a tensor's value."""

import torch

import peek_backend


def scale(x):
    n = x[0].item()
    return torch.ones(4) * n


def branch(x):
    if x.sum() > 0:  # which way is known only when the data are there
        return x.sin()
    return x.cos()


x = torch.arange(1, 5)

# A fake tensor has no data, so .item() has no answer while tracing. By default Dynamo breaks the graph there.
print("scale:", peek_backend.inspect(scale, x).stats.graphs, "graphs")

# It can also go on with a symbol for the unknown number: an unbacked symbol, u0, which has no hint.
with torch._dynamo.config.patch(capture_scalar_outputs=True):
    record = peek_backend.inspect(scale, x)
print("scale, with capture_scalar_outputs:", record.stats.graphs, "graph\n")
print(record.table(columns="name,target,args,shape,value"))

# A branch cannot go on with a symbol: its ways are different graphs. Dynamo ends the graph before it, Python takes the branch,
# and only the way that was taken is compiled.
record = peek_backend.inspect(branch, x.float())
print(f"\nbranch: {record.stats.graphs} graphs\n")
print(record.table(columns="name,target,args,shape"))

# To keep both ways in one graph, write the branch as torch.cond: the next sample.
