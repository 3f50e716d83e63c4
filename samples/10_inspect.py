"""inspect(): the graph of one call, without touching the program. Made for tests and for looking around."""

import torch

import peek_backend


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(16, 32), torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


model, x = MLP(), torch.randn(8, 16)
record = peek_backend.inspect(model, x, dynamic=True)

# What a test asserts:
assert record.stats.graphs == 1
assert record.stats.problems == 0
print(record.stats.parameters, "parameters,", record.stats.ops, "operations")

# A record is plain data. Nodes refer to each other by index, and keep where they come from.
for node in record.graphs[0].nodes:
    if node.op == "call_function":
        print(f"{node.target:32} {node.source.module or '-':4} line {node.source.line}: {node.source.code}")

# It can be printed in any format of tabulate, drawn, saved, and read again elsewhere, without torch.
print()
print(record.table(format="github", columns="name,target,shape,module"))
print("\nDOT text:", record.dot().splitlines()[0], "…")
print("JSON:", record.to_json()[:60].decode(), "…")

# Nothing of it stays: the model was not compiled, its gradients and the random numbers are as before.
print("\ngrad untouched:", all(p.grad is None for p in model.parameters()))
