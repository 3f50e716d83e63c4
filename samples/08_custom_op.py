"""A custom operator, with and without a fake kernel.

Dynamo learns a value's shape by running the operator on fake tensors. For an operator of your own only you know the rule.
"""

import torch

import peek_backend


@torch.library.custom_op("gallery::keep_positive", mutates_args=())
def keep_positive(x: torch.Tensor) -> torch.Tensor:
    """x where it is positive, else zero; a kernel that torch cannot look into."""
    return torch.from_numpy(x.numpy().clip(0))


def f(x):
    return keep_positive(x).sum(dim=1)


x = torch.randn(8, 16)

# Without a rule Dynamo cannot go past the operator: it stays in eager, between two graphs, or fails where fullgraph is asked for.
try:
    peek_backend.inspect(f, x, fullgraph=True)
except Exception as error:
    print("without a fake kernel:", type(error).__name__)


# The fake kernel computes the metadata alone, from the inputs' metadata.
@keep_positive.register_fake
def _(x):
    return torch.empty_like(x)


record = peek_backend.inspect(f, x, fullgraph=True)
print("\nwith a fake kernel:\n")
print(record.table(columns="name,target,args,shape,dtype"))

# A fake kernel is a promise. opcheck compares it with the real one.
print("\nopcheck:", torch.library.opcheck(keep_positive, (x,))["test_faketensor"])
