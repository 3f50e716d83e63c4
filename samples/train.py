"""A small training run that names a backend of its own: for ``peek run samples/train.py``.

It holds three things a compiled program often has by accident: a print inside the forward, a last batch of another size, and a
number that changes at every step.
"""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x, step):
        h = torch.relu(self.fc1(x)) / (1 + step)
        if step == 0:
            print("hidden:", tuple(h.shape))
        return self.fc2(h)


torch.manual_seed(0)
net = Net()
compiled = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

for step, batch in enumerate(torch.randn(70, 16).split(32)):
    loss = compiled(batch, step).square().mean()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.3f}")
