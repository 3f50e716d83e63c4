"""The module tree: complete, ordered, without cycles however it is collapsed, and linear in time."""

from __future__ import annotations

import time
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from peek_backend.model import GraphRecord, Leaf, NodeRecord, ScalarInfo, Source, StackFrame
from peek_backend.passes.hierarchy import Module, build_hierarchy, nodes_of, read_lists, walk


def node(index, reads=(), module="", call="", op="call_function", **source):
    """A node that adds up ``reads``."""
    kind = source.pop("kind", None)
    where = Source(module=module, call=call or module, input_kind=kind, **source)
    return NodeRecord(index, f"n{index}", op, "add", tuple(Leaf(node=r) for r in reads), {}, None, where)


def graph(nodes, modules=None):
    """A graph of ``nodes`` whose modules all have the class Block unless said otherwise."""
    paths = {n.source.module for n in nodes if n.source is not None and n.source.module}
    return GraphRecord("0/0", "dynamo", tuple(nodes), (), modules=modules or dict.fromkeys(paths, "Block"))


def paths(tree):
    """The paths of all containers, parents first."""
    return [m.path for m in walk(tree)]


def cyclic(module: Module) -> bool:
    """Whether the items of one container form a cycle."""
    out = defaultdict(set)
    for a, b, _ in module.edges:
        out[a].add(b)
    state: dict[int, int] = {}

    def visit(item):
        state[item] = 1
        found = any(state.get(o) == 1 or (o not in state and visit(o)) for o in out[item])
        state[item] = 2
        return found

    return any(visit(i) for i in range(len(module.items)) if i not in state)


NAMES = ["", "a", "a.x", "a.y", "a.y.z", "b", "b.x", "a@1", "a@1.x"]
LISTS = ["", "l.0", "l.1", "l.2", "l.1.x", "l.2.x", "l.0.e.0", "l.0.e.1", "l.1.e.0", "l.1.e.1"]
CALLS = st.sampled_from([NAMES, LISTS])


@st.composite
def graphs(draw):
    """Any DAG whose nodes stand in any module, in any order."""
    nodes = []
    calls = st.sampled_from(draw(CALLS))
    for index in range(draw(st.integers(1, 25))):
        call = draw(calls)
        reads = draw(st.lists(st.integers(0, index - 1), max_size=3)) if index else []
        op = "call_function" if reads else draw(st.sampled_from(["placeholder", "get_attr", "call_function"]))
        kind = draw(st.sampled_from(["parameter", "argument"])) if op == "placeholder" else None
        nodes.append(node(index, reads, call.replace("@1", ""), call, op, kind=kind))
    return graph(nodes)


@given(graphs(), st.sampled_from([2, 3, 1000]))
@settings(max_examples=400, deadline=None)
def test_no_container_has_a_cycle(g, cap):
    """Whatever the modules and the wiring, the items of every container form a DAG, in topological order."""
    for module in walk(build_hierarchy(g, max_children=cap)):
        assert not cyclic(module), module
        assert all(a < b for a, b, _ in module.edges), module


@given(graphs(), st.sampled_from([2, 3, 1000]))
@settings(max_examples=200, deadline=None)
def test_every_node_once_and_every_use_counted(g, cap):
    """Every node stands in the tree once, paths are unique, and the lifted edges add up to all uses."""
    tree = build_hierarchy(g, max_children=cap)
    assert sorted(nodes_of(tree)) == list(range(len(g.nodes)))
    assert len(set(paths(tree))) == len(paths(tree))
    assert sum(e[2] for m in walk(tree) for e in m.edges) == sum(map(len, read_lists(g)))


def test_one_step_per_known_module():
    """A path that is no module of its own (a ModuleList) is no container: layers.0 is one step."""
    nodes = [node(0, (), "model"), node(1, (0,), "model.layers.0.fc"), node(2, (1,), "model.layers.0")]
    tree = build_hierarchy(graph(nodes))
    assert paths(tree) == ["", "model", "model.layers.0", "model.layers.0.fc"]
    assert [m.name for m in walk(tree)] == ["", "model", "layers.0", "fc"]
    assert [m.size for m in walk(tree)] == [3, 3, 2, 1]


def test_two_calls_are_two_containers():
    """A module called twice is two boxes with one class and one module path."""
    nodes = [node(0, (), "fc"), node(1, (0,)), node(2, (1,), "fc", "fc@1")]
    tree = build_hierarchy(graph(nodes, {"fc": "Linear"}))
    assert [(m.path, m.module, m.class_name) for m in walk(tree)][1:] == [
        ("fc", "fc", "Linear"),
        ("fc@1", "fc", "Linear"),
    ]


def test_interleaved_visits_are_split_only_on_a_cycle():
    """Coming back to a module splits it if something between reads from it and feeds it, and only then."""
    loop = [node(0, (), "a"), node(1, (0,), "b"), node(2, (1,), "a")]
    assert paths(build_hierarchy(graph(loop))) == ["", "a", "b", "a#2"]
    free = [node(0, (), "a"), node(1, (), "b"), node(2, (0, 1), "a")]
    assert paths(build_hierarchy(graph(free))) == ["", "b", "a"]


def test_a_joint_graph_splits_into_forward_and_backward():
    """A graph that runs its layers forwards and then backwards shows each layer twice."""
    calls = ["l.0", "l.1", "", "l.1", "l.0"]
    nodes = [node(i, (i - 1,) if i else (), c) for i, c in enumerate(calls)]
    assert paths(build_hierarchy(graph(nodes))) == ["", "l.0", "l.1", "l.1#2", "l.0#2"]


def test_inputs_stand_with_their_users():
    """A parameter is in the smallest container of its users, an argument of the graph at the root."""
    nodes = [
        node(0, op="placeholder", kind="parameter"),
        node(1, op="placeholder", kind="argument"),
        node(2, op="placeholder", kind="parameter"),
        node(3, (0, 1, 2), "a.x"),
        node(4, (3, 2), "a.y"),
    ]
    tree = build_hierarchy(graph(nodes, {"a": "A", "a.x": "X", "a.y": "Y"}))
    inside = {m.path: [i for i in m.items if isinstance(i, int)] for m in walk(tree)}
    assert inside == {"": [1], "a": [2], "a.x": [0, 3], "a.y": [4]}


def test_attributes_of_modules_stand_with_their_users():
    """A float that a layer keeps (its eps) is no argument of the graph, though Dynamo passes it as an input."""
    origin = "L['self']._modules['a'].eps"
    nodes = [node(0, op="placeholder", kind="argument", origin=origin), node(1, (0,), "a")]
    inside = {m.path: [i for i in m.items if type(i) is int] for m in walk(build_hierarchy(graph(nodes)))}
    assert inside == {"": [], "a": [0, 1]}


def test_calls_of_functions_are_containers():
    """Three or more nodes under one call are a container, nested as the calls were; another call is another one."""
    main = StackFrame("/x/m.py", 1, "main")
    stacks = (
        (main,),
        (main, StackFrame("/x/m.py", 5, "rope")),
        (StackFrame("/x/m.py", 2, "main"),),
    )
    calls = [("main", None), ("rope", 0), ("half", 1), ("half", 1), ("half", 1), ("rope", 0), ("main", None)]
    calls += [("rope", 2), ("rope", 2), ("rope", 2), ("tiny", 0)]
    nodes = [
        node(i, (i - 1,) if i else (), file="/x/m.py", function=f, caller=c) for i, (f, c) in enumerate(calls)
    ]
    tree = build_hierarchy(replace(graph(nodes), stacks=stacks))
    assert [(m.path, m.name, m.kind, m.size) for m in walk(tree)] == [
        ("", "", "root", 11),
        ("rope()", "rope()", "function", 5),
        ("rope().half()", "half()", "function", 3),
        ("rope()@1", "rope()@1", "function", 3),
    ]


def test_switches_and_comprehensions_end_no_run():
    """Turning autocast on between the ops of one call leaves it one container; a comprehension is none."""
    main, rope = StackFrame("/x/m.py", 1, "main"), StackFrame("/x/m.py", 2, "rope")
    places = [
        ("main", None),
        ("rope", 0),
        ("rope", 0),
        ("main", None),
        ("rope", 0),
        ("<listcomp>", 1),
        ("<listcomp>", 1),
    ]
    nodes = [node(i, (), file="/x/m.py", function=f, caller=c) for i, (f, c) in enumerate(places)]
    nodes = [replace(n, value=ScalarInfo("int", 1)) for n in nodes]
    nodes[3] = replace(nodes[3], target="torch.amp._enter_autocast", value=None)
    tree = build_hierarchy(replace(graph(nodes), stacks=((main,), (main, rope))))
    assert [(m.path, m.size) for m in walk(tree)] == [("", 7), ("rope()", 5)]


def test_what_all_nodes_share_is_no_container():
    """A module whose forward only calls one function gets no container for that function."""
    nodes = [node(i, (), "norm", file="/x/m.py", function="rms", caller=0) for i in range(4)]
    tree = build_hierarchy(replace(graph(nodes), stacks=((StackFrame("/x/m.py", 1, "forward"),),)))
    assert paths(tree) == ["", "norm"]


def test_long_lists_become_chunks():
    """A container never has more than the cap of items, chunks of chunks included."""
    tree = build_hierarchy(graph([node(i, (i - 1,) if i else ()) for i in range(50)]), max_children=4)
    assert max(len(m.items) for m in walk(tree)) == 4
    assert {m.kind for m in walk(tree)} == {"root", "chunk"}
    assert nodes_of(tree) == list(range(50))


def test_deep_paths_do_not_overflow_the_stack():
    """A path of 5,000 parts is cut to a bounded number of containers."""
    deep = ".".join(["m"] * 5000)
    known = {".".join(["m"] * k): "M" for k in (*range(1, 200), 5000)}
    tree = build_hierarchy(graph([node(0, (), deep)], known))
    assert nodes_of(tree) == [0] and len(paths(tree)) <= 65


def layered(layers, width):
    """``layers`` modules of two submodules, ``width`` chained nodes each with a parameter of its own."""
    nodes: list[NodeRecord] = []
    previous = None
    for layer in range(layers):
        for i in range(width):
            module = f"layers.{layer}.{'attn' if i < width // 2 else 'mlp'}"
            nodes.append(node(len(nodes), op="placeholder", kind="parameter"))
            reads = [len(nodes) - 1] if previous is None else [previous, len(nodes) - 1]
            previous = len(nodes)
            nodes.append(node(previous, reads, module))
    return graph(
        nodes, {n.source.module.rsplit(".", 1)[0]: "L" for n in nodes if n.source.module} | {"layers": "M"}
    )


@pytest.mark.slow
def test_time_grows_linearly():
    """Ten times the nodes take about ten times as long: 100,000 nodes within 25 times the time of 10,000."""

    def best(g):
        times = []
        for _ in range(3):
            start = time.process_time()
            build_hierarchy(g)
            times.append(time.process_time() - start)
        return min(times)

    small, large = layered(100, 50), layered(1000, 50)
    assert len(large.nodes) == 100_000
    assert best(large) < 25 * best(small)


def test_switches_stand_with_their_neighbours():
    """A switch without a line of the user's (vmap's levels) is inside the call that its neighbours are in, in order."""
    main = StackFrame("/x/m.py", 1, "main")
    nodes = [node(i, (), file="/x/m.py", function="mask", caller=0) for i in range(5)]
    nodes.append(node(5, (), file="/x/m.py", function="main"))
    nodes = [replace(n, value=ScalarInfo("int", 1)) for n in nodes]
    nesting = "torch._C._functorch._vmap_increment_nesting"
    nodes[1] = replace(nodes[1], target=nesting, value=None, source=None)
    inside = replace(nodes[2].source, file="/lib/torch/_functorch/vmap.py", function="flat")
    nodes[2] = replace(nodes[2], target=nesting, value=None, source=inside)
    tree = build_hierarchy(replace(graph(nodes), stacks=((main,),)))
    (mask,) = [item for item in tree.items if isinstance(item, Module)]
    assert (mask.name, mask.items) == ("mask()", (0, 1, 2, 3, 4))


def test_module_without_lines_keeps_its_place():
    """An op of which torch keeps no line stays in its own module, before, between and after ops of another one."""
    nodes = [
        node(0, (), "stem"),
        node(1, (0,), "block.conv", file="/x/m.py", function="forward"),
        node(2, (1,), "middle"),
        node(3, (2,), "block.conv", file="/x/m.py", function="forward"),
        node(4, (3,), "head"),
    ]
    found = {
        item.path: item.items for item in build_hierarchy(graph(nodes)).items if isinstance(item, Module)
    }
    assert (found["stem"], found["middle"], found["head"]) == ((0,), (2,), (4,))
