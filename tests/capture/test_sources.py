"""Inputs, lines and modules as a person writes them."""

from __future__ import annotations

import inspect

import pytest
import torch

from peek_backend.capture.sources import input_kind, parse_stack, readable
from tests.capture.helpers import by_target, capture, graph_of, node


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("L['self']._modules['fc1']._parameters['weight']", "fc1.weight"),
        ("L['self']._modules['layers']._modules['0']._modules['mlp']._buffers['b']", "layers.0.mlp.b"),
        ("L['x']", "x"),
        ("L['batch'][0]['ids']", "batch[0]['ids']"),
        ("G['model']._modules['fc1']._parameters['weight']", "model.fc1.weight"),
        ("L['x'].size()[0]", "x.shape[0]"),
        ("L['x'].stride()[1]", "x.stride(1)"),
        ("___as_tensor(L['scale'])", "scale"),
        ("G['__import_transformers_dot_models_dot_llama'].eps", "transformers.models.llama.eps"),
        ("L['self'].__dict__['scale']", "scale"),
        ("list(dict.keys(L['d']))[0]", "list(dict.keys(d))[0]"),
        ("L['a b\\'c']", "a b\\'c"),
        ("L['kwargs']['input_ids'].size()[1]", "input_ids.shape[1]"),
        ("what is this", "what is this"),
        ("getattr(L['self'], '層 eins')", "層 eins"),
        ("getattr(getattr(L['self'], 'a b').inner, \"it's\").fc", "a b.inner.it's.fc"),
    ],
)
def test_readable(origin, expected):
    """torch's names of inputs become those of the code; what is not understood stays."""
    assert readable(origin) == expected


@pytest.mark.parametrize(
    ("origin", "kind"),
    [
        ("L['self']._modules['fc1']._parameters['weight']", "parameter"),
        ("L['self']._buffers['mask']", "buffer"),
        ("L['x']", "argument"),
        ("L['x'].size()[0]", "size"),
        ("___as_tensor(L['scale'])", "argument"),
        ("G['table']", "global"),
        ("___get_torch_function_mode_stack_at(0)", "state"),
    ],
)
def test_input_kind(origin, kind):
    """What sort of input a source is."""
    assert input_kind(origin) == kind


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x):
        return self.fc(x) + self.offset


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.shared = Block()

    def forward(self, x, *, batch):
        for block in self.blocks:
            x = block(x)
        x = self.shared(self.shared(x))
        return x * batch[0]["scale"]


def model_graph():
    return graph_of(Model(), torch.randn(2, 4), batch=[{"scale": torch.ones(4)}])


def test_inputs_by_path():
    """Parameters and buffers by FQN, arguments by the expression that reaches them."""
    inputs = {n.source.input: n.source.input_kind for n in model_graph().nodes if n.op == "placeholder"}
    assert inputs["blocks.0.fc.weight"] == "parameter"
    assert inputs["shared.offset"] == "buffer"
    assert inputs["x"] == inputs["batch[0]['scale']"] == "argument"


def test_module_paths_and_classes():
    """Each node knows its module; a module called twice keeps its calls apart."""
    graph = model_graph()
    linears = [n for n in graph.nodes if n.target == "torch.nn.functional.linear"]
    assert [n.source.module for n in linears] == ["blocks.0.fc", "blocks.1.fc", "shared.fc", "shared.fc"]
    assert [n.source.call for n in linears] == ["", "", "", "shared@1.fc@1"]
    assert graph.modules["blocks.1"] == "Block"
    assert graph.modules["shared.fc"] == "Linear"


def test_lines():
    """A node carries the innermost line of the user's code and the lines that led there."""
    graph = model_graph()
    source = by_target(graph, "torch.nn.functional.linear").source
    assert source.file == __file__
    assert (source.function, source.code) == ("forward", "return self.fc(x) + self.offset")
    assert [f.code for f in graph.stacks[source.caller]] == ["x = block(x)"]


def test_graph_is_named_after_its_code():
    """A graph goes by the qualified name, without torch's and Python's inner words."""
    assert model_graph().name == "Model.forward"
    assert graph_of(lambda x: x.sin(), torch.ones(2)).name == "<lambda>"


def test_decorated_method_goes_by_its_object():
    """A wrapper around forward is named after the object that it runs on."""

    def decorate(method):
        def wrapper(self, *args):
            return method(self, *args)

        return wrapper

    class Net(torch.nn.Module):
        @decorate
        def forward(self, x):
            return x.sin()

    assert graph_of(Net(), torch.ones(2)).name.endswith("Net.forward")


def test_module_by_another_name():
    """A module that is a plain argument keeps its name in the paths."""
    fn = lambda net, x: net.fc(x)  # noqa: E731
    inputs = [n.source.input for n in graph_of(fn, Block(), torch.randn(2, 4)).nodes if n.op == "placeholder"]
    assert "net.fc.weight" in inputs


def test_stack_text_with_carets():
    """Caret lines, missing code and colons in names do not confuse the frames."""
    text = (
        '  File "a b.py", line 3, in f\n    x = g(y)\n        ^^^^\n  File "<string>", line 1, in <lambda>\n'
    )
    frames = parse_stack(text)
    assert [(f.file, f.line, f.function, f.code) for f in frames] == [
        ("a b.py", 3, "f", "x = g(y)"),
        ("<string>", 1, "<lambda>", ""),
    ]


def test_float_argument():
    """A Python float that Dynamo lifts is an input under its own name."""

    def fn(x, scale):
        return x * scale

    with torch._dynamo.config.patch(specialize_float=False):
        graph = graph_of(fn, torch.ones(2), 2.5, dynamic=True)
    assert "scale" in {n.source.input for n in graph.nodes if n.op == "placeholder"}
    assert node(graph, "output").source is None


def test_receiver_of_a_resumed_frame():
    """After a break the module's parameters go by the same paths, whatever the method calls its own object."""

    class Net(torch.nn.Module):
        def __init__(this):
            super().__init__()
            this.a, this.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(this, x):
            x = this.a(x)
            torch._dynamo.graph_break()
            return this.b(x)

    graphs = capture(Net(), torch.randn(2, 4)).graphs
    paths = [
        n.source.input
        for g in graphs
        for n in g.nodes
        if n.op == "placeholder" and n.source.input_kind == "parameter"
    ]
    assert paths == ["a.weight", "a.bias", "b.weight", "b.bias"]


def test_wrappers_point_to_the_method():
    """A graph whose frame is a wrapper is placed at the method that it runs, and keyword arguments go by their names."""
    import functools

    def decorate(method):
        @functools.wraps(method)
        def wrapper(self, *args, **kwargs):
            return method(self, *args, **kwargs)

        return wrapper

    class Net(torch.nn.Module):
        @decorate
        def forward(self, x, *, mask):
            return x * mask

    graph = graph_of(Net(), torch.ones(2), mask=torch.ones(2))
    line = inspect.getsourcelines(inspect.unwrap(Net.forward))[1]
    assert (graph.file, graph.line) == (__file__, line)
    assert [n.source.input for n in graph.nodes if n.op == "placeholder"] == ["x", "mask"]
    linear = graph_of(torch.nn.Linear(4, 2), torch.ones(3, 4))
    assert (linear.name, linear.file) == ("Linear.forward", inspect.getsourcefile(torch.nn.Linear))


def test_what_is_no_function_goes_by_what_it_runs():
    """A partial, an object with ``__call__`` and a bound method are named after their own code, not Dynamo's wrapper."""
    import functools

    def scaled(x, k):
        return x * k

    class Scale:
        def __call__(self, x):
            return x * 2

        def times(self, x):
            return x * 3

    partial = functools.partial(functools.partial(scaled), k=2)
    names = {f: graph_of(f, torch.ones(2)) for f in (partial, Scale(), Scale().times)}
    assert [g.name.rpartition("<locals>.")[2] for g in names.values()] == [
        "scaled",
        "Scale.__call__",
        "Scale.times",
    ]
    assert {g.file for g in names.values()} == {__file__}
