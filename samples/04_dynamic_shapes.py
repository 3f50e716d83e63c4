"""Dynamic shapes: one graph for every batch size, and how torch decides to make it."""

import torch

import peek_backend

COLUMNS = {"columns": "name,target,args,shape"}


def f(x, w):
    y = x @ w
    return torch.cat([y, y]).reshape(-1)


w = torch.randn(16, 4)

# Left alone, torch first takes every size as a constant. When a second call brings another size, it compiles once more
# with that size as a symbol, and from then on the graph serves all sizes.
print("— three calls, sizes 8, 6, 5 —\n")
compiled = torch.compile(f, backend="peek", options=COLUMNS)
for size in (8, 6, 5):
    compiled(torch.randn(size, 16), w)

# mark_dynamic says so from the start. The symbol's range starts at 2: sizes 0 and 1 always get graphs of their own, as code
# often treats them differently (broadcasting).
print("\n— marked dynamic: one graph from the start —\n")
torch._dynamo.reset()
x = torch.randn(8, 16)
torch._dynamo.mark_dynamic(x, 0)
torch.compile(f, backend="peek", options=COLUMNS)(x, w)

# Every dim that depends on the symbol is an expression in it, and a hint says what it was while tracing.
record = peek_backend.inspect(f, torch.randn(8, 16), w, dynamic=True)
for symbol in record.graphs[0].symbols:
    print(f"\n{symbol.name} was {symbol.hint}; it comes from {', '.join(symbol.sources)}")
