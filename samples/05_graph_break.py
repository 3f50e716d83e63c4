"""A graph break: Python that Dynamo cannot trace splits the function into several graphs."""

import torch

import peek_backend


def f(x):
    y = x.sin()
    print("half way")  # a side effect outside torch: it has to happen between two graphs
    return y.cos() + 1


x = torch.randn(8)

# peek shows each graph as it is compiled. The second is what follows the break: Dynamo makes a function of its own of it
# (f ▸ resume), whose argument is what the first part had computed.
torch.compile(f, backend="peek", options={"columns": "name,target,args,shape"})(x)

# In a test, ask for the count. inspect() compiles the function once, apart from the program, and leaves no trace.
record = peek_backend.inspect(f, x)
print(f"\n{record.stats.graphs} graphs with {record.stats.ops} operations, {record.stats.breaks} break:")
for event in record.breaks:
    print(f"  {event.reason}, line {event.stack[-1].line}: {event.stack[-1].code}")
    print(f"  {event.explanation}")

# fullgraph=True asks torch to fail where it would have split; its message names the line and the way out.
try:
    peek_backend.inspect(f, x, fullgraph=True)
except Exception as error:
    print(f"\nfullgraph=True: {type(error).__name__}: {str(error).splitlines()[0]}")


# Without the print it is one graph.
def whole(x):
    return x.sin().cos() + 1


print("\nwithout the print:", peek_backend.inspect(whole, x).stats.graphs, "graph")
