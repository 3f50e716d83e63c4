"""Graphs that exist already: symbolic_trace, make_fx, and exported programs."""

import tempfile
from pathlib import Path

import torch
from torch.fx import symbolic_trace
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.shape_prop import ShapeProp

import peek_backend


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(16, 4)

    def forward(self, x):
        return torch.relu(self.fc(x))


net, x = Net(), torch.randn(8, 16)
COLUMNS = "op,name,target,args,shape"

# symbolic_trace follows the Python of the module and stops at its submodules. It knows no shapes until ShapeProp runs it.
traced = symbolic_trace(net)
ShapeProp(traced).propagate(x)
print("— symbolic_trace and ShapeProp —\n")
print(peek_backend.record(traced).table(columns=COLUMNS))

# make_fx records what the dispatcher sees: ATen operators.
print("\n— make_fx —\n")
print(
    peek_backend.record(make_fx(lambda x, w: torch.relu(x @ w.t()))(x, net.fc.weight)).table(columns=COLUMNS)
)

# torch.export gives a whole program: ATen operators, parameters as inputs. load() reads its file, as `peek show net.pt2` does.
program = torch.export.export(net, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "net.pt2"
    torch.export.save(program, file)
    print("\n— torch.export, with a dynamic batch —\n")
    print(peek_backend.load(file).table(columns=COLUMNS))
