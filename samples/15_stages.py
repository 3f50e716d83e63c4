"""Below Dynamo: what AOTAutograd makes of the graph. Forward, backward, and what is kept between them."""

import torch

import peek_backend


def loss(x, w):
    return torch.tanh(x @ w).sum()


x, w = torch.randn(8, 16), torch.randn(16, 4, requires_grad=True)

# Dynamo's graph holds what the program wrote. AOTAutograd traces it again into ATen operators, derives the backward, and cuts
# the joint graph in two. peek shows these beside the backend that runs, or watches them there (inner="inductor").
record = peek_backend.inspect(loss, x, w, stages=("dynamo", "forward", "backward"))
print(record.table(columns="name,target,args,shape"))

# What the forward has to keep for the backward, the largest first: this is the memory that training takes.
for view in record.autograd:
    print(f"saved for the backward: {view.nbytes} B, of these {view.new_bytes} B beside the inputs")
    for saved in view.saved:
        readers = ", ".join(node.name for node in saved.readers)
        print(
            f"  {saved.name:8} {saved.nbytes:4} B  read by {readers}, made by line {saved.source.line}: {saved.source.code}"
        )

# And any node can be followed through the stages, both ways.
print()
print(record.trace("tanh"))
