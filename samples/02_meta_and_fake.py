"""Meta tensors and fake tensors: two ways to compute shapes without data, and why Dynamo uses the second."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode


def f(x, w):
    return torch.tanh(x @ w)


def describe(t):
    return f"shape {tuple(t.shape)}  stride {t.stride()}  dtype {t.dtype}  device {t.device}"


# A meta tensor lives on the device "meta". Operators on it run their shape rules and nothing else.
meta = f(torch.empty(8, 16, device="meta"), torch.empty(16, 4, device="meta"))
print("meta:", describe(meta))

# That is not enough for a compiler: on "meta" it can no longer tell what would have run on a GPU. A FakeTensor is a meta
# tensor that says it lives on the real device. Here it claims one that this machine may not even have.
with FakeTensorMode():
    fake = f(torch.empty(8, 16, device="cuda"), torch.empty(16, 4, device="cuda"))
print("fake:", describe(fake))

# Both refuse to mix what could not be mixed for real; only the fake one knows about devices.
with FakeTensorMode():
    try:
        torch.empty(2, device="cuda") + torch.empty(2, device="cpu")
    except RuntimeError as error:
        print("\nfake tensors on two devices:", str(error).splitlines()[0][:90])

# Neither can answer what depends on data.
with FakeTensorMode():
    try:
        bool(torch.empty(2).sum() > 0)
    except Exception as error:
        print("a fake tensor's truth value:", type(error).__name__)

# The graph that torch.compile captures carries a fake tensor for every value: these are the shapes in peek's tables.
print()
torch.compile(f, backend="peek", options={"columns": "name,target,shape,dtype,device"})(
    torch.randn(8, 16), torch.randn(16, 4)
)
