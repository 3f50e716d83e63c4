"""explain(): what to mend first. Breaks, recompiles and static sizes, each with its line and a way out."""

import torch

import peek_backend


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(16, 16)
        self.step = 0

    def forward(self, x):
        self.step += 1  # a number on the module is a constant of the graph, with a guard
        h = self.fc(x) * self.step
        if h.shape[0] == 4:  # fixes the batch size for good
            h = h + 1
        if h.max() > 100:  # asks for data in the middle of the graph
            h = h.clamp(max=100)
        return h


model = Decoder()
with peek_backend.session() as session:
    compiled = torch.compile(model, backend="aot_eager")
    for rows in (4, 6, 8):
        compiled(torch.ones(rows, 16))

# The same as `peek explain FILE` on a capture of `peek run`.
print(session.record.explain())

# Topics answer one question each: a symbol or a size, a function, "break 1", guards, times.
print("— why is the first dim of x static in the first variant? —\n")
print(session.record.explain("x.shape[0]"))
