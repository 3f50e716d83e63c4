"""What is seen: the right boxes open, edges that never lie, no cycle however a graph is folded."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from peek_backend.errors import PeekError
from peek_backend.model import Leaf, TupleInfo
from peek_backend.passes.picture import Cluster, draw
from peek_backend.passes.selection import COMFORT, LIMIT, Choice
from tests.builders import GraphBuilder, graph, node, tensor, transformer
from tests.passes.test_hierarchy import graphs

X = tensor(4, 4)


def clusters(picture):
    """Every cluster by its path, outermost first."""
    found, stack = {}, [picture.root]
    while stack:
        cluster = stack.pop()
        found[cluster.module.path] = cluster
        stack.extend(m for m in cluster.members if isinstance(m, Cluster))
    return found


def box_at(picture, path):
    """The box of a closed container, or of the op that is a container alone."""
    return next(b for b in picture.boxes.values() if b.module is not None and b.module.path == path)


def has_cycle(picture):
    """Whether boxes and edges form a cycle."""
    out = defaultdict(list)
    for edge in picture.edges:
        out[edge.source].append(edge.target)
    done, active = set(), set()

    def visit(key):
        active.add(key)
        found = any(k in active or (k not in done and visit(k)) for k in out[key])
        active.discard(key)
        done.add(key)
        return found

    return any(visit(key) for key in list(out) if key not in done)


CHOICES = st.one_of(
    st.builds(Choice, depth=st.integers(0, 4)),
    st.just(Choice()),
    st.just(Choice(full=True)),
    st.just(Choice(depth=1)),
)


@given(graphs(), CHOICES)
@settings(max_examples=300, deadline=None)
def test_no_picture_has_a_cycle(g, choice):
    """However modules interleave and whatever is folded, the boxes and edges form a DAG."""
    picture = draw(g, choice)
    assert not has_cycle(picture)
    assert {e.source for e in picture.edges} | {e.target for e in picture.edges} <= set(picture.boxes)


@st.composite
def stacks_of_layers(draw):
    """Layers of a few equal shapes, each reading whatever came before, so that many of them fold."""
    shapes = draw(st.lists(st.lists(st.sampled_from("sct"), min_size=1, max_size=3), min_size=1, max_size=2))
    g = GraphBuilder()
    made = [g.input("x", X), g.input("mask", X)]
    count = draw(st.integers(2, 6))
    for i in range(count):
        for op in draw(st.sampled_from(shapes)):
            reads = [made[-1], draw(st.sampled_from(made))][: draw(st.integers(1, 2))]
            made.append(g.call(f"torch.{op}", *reads, module=f"l.{i}", value=X))
    g.output(made[-1], draw(st.sampled_from(made)))
    return replace(g.graph(), modules={f"l.{i}": "L" for i in range(count)})


@given(stacks_of_layers(), CHOICES)
@settings(max_examples=300, deadline=None)
def test_no_folded_picture_has_a_cycle(g, choice):
    """Layers that fold, with skips between any two of them, are drawn without a cycle and with every op somewhere."""
    picture = draw(g, choice)
    assert not has_cycle(picture)
    boxes = [b for b in picture.boxes.values() if not b.tag]
    times = {m.module.path: len(m.repeat.paths) for m in clusters(picture).values() if m.repeat}
    times |= {b.module.path: len(b.repeat.paths) for b in boxes if b.repeat}
    drawn = sum(times.get(_layer(g, n), 1) for b in boxes for n in b.nodes)
    assert drawn == len(g.nodes)


def _layer(g, index):
    source = g.nodes[index].source
    return source.module if source is not None else ""


@given(graphs())
@settings(max_examples=200, deadline=None)
def test_full_draws_every_reference(g):
    """With full, every use of a value is an edge, a tag or an input written inside its reader."""
    picture = draw(g, Choice(full=True))
    drawn = sum(e.uses for e in picture.edges)
    inside = {(box, i) for box, found in picture.inlets.items() for i in found}
    where = {n: b.key for b in picture.boxes.values() if not b.tag for n in b.nodes}
    expected = [(r, n.index) for n in g.nodes for r in [a.node for a in n.args]]
    assert drawn == sum(1 for r, n in expected if r in where and n in where and where[r] != where[n])
    assert all((where[n], r) in inside for r, n in expected if r not in where and n in where)


def test_layers_are_drawn_once():
    """32 equal layers show one, open; the edge that leaves them starts in it, and none runs backwards."""
    picture = draw(transformer(32))
    found = clusters(picture)
    assert next(p for p in found if p.startswith("layers.")) == "layers.0"
    assert len(found["layers.0"].repeat.paths) == 32
    assert "layers.1" not in found
    assert len(picture.boxes) <= COMFORT
    assert not has_cycle(picture)
    leaving = [e for e in picture.edges if e.target == box_at(picture, "norm").key]
    assert [picture.graph.nodes[e.values[0][0]].source.module for e in leaving] == ["layers.0"]


def test_depth_opens_levels():
    """depth=1 shows the top modules closed, depth=2 opens them."""
    one, two = (clusters(draw(transformer(4), Choice(depth=d))) for d in (1, 2))
    assert set(one) == {""}
    assert set(two) == {"", "layers.0"}


def test_expand_opens_what_it_names():
    """A path opens that module and those around it; a glob opens all that match."""
    assert set(clusters(draw(transformer(4), Choice(depth=1, expand=("layers.0.attn",))))) == {
        "",
        "layers.0",
        "layers.0.attn",
    }
    assert "layers.0.attn" in clusters(draw(transformer(4), Choice(depth=1, expand=("*.attn",))))


def test_expanding_a_later_layer_takes_it_out_of_the_fold():
    """layers.2 of 6 is drawn on its own, between the two that fold and the three that fold."""
    found = clusters(draw(transformer(6), Choice(expand=("layers.2",))))
    sizes = {p: len(c.repeat.paths) if c.repeat else 1 for p, c in found.items() if p.count(".") == 1}
    assert sizes == {"layers.0": 2, "layers.2": 1, "layers.3": 3}


def test_a_layer_taken_out_still_folds_inside():
    """Expanding one of several layers leaves its own repeated experts folded."""
    g = GraphBuilder()
    paths = [f"l.{i}" for i in range(3)] + [f"l.{i}.expert.{e}" for i in range(3) for e in range(4)]
    x = g.input("x", X)
    for i in range(3):
        x = g.call("torch.exp", x, module=f"l.{i}", value=X)
        for e in range(4):
            for target in ("torch.sin", "torch.cos"):
                x = g.call(target, x, module=f"l.{i}.expert.{e}", value=X)
    g.output(x)
    picture = draw(replace(g.graph(), modules=dict.fromkeys(paths, "M")), Choice(expand=("l.1",)))
    times = {b.module.path: len(b.repeat.paths) for b in picture.boxes.values() if b.repeat and b.closed}
    opened = {p: len(c.repeat.paths) for p, c in clusters(picture).items() if c.repeat}
    assert {**times, **opened} == {f"l.{i}.expert.0": 4 for i in range(3)}
    assert not has_cycle(picture)


def test_full_folds_nothing():
    """full shows every layer and every op."""
    g = transformer(3)
    picture = draw(g, Choice(full=True))
    assert {"layers.0", "layers.1", "layers.2"} <= set(clusters(picture))
    ops = sum(n.op not in ("placeholder", "get_attr") for n in g.nodes)
    assert len(picture.boxes) == ops + 1


def test_an_unknown_module_is_refused():
    """expand with a name that is none ends in an error that names the nearest."""
    with pytest.raises(PeekError, match=r"layer\.0") as error:
        draw(transformer(2), Choice(expand=("layer.0",)))
    assert "layers.0" in error.value.fix


def test_too_much_is_folded_and_said():
    """depth that would show more boxes than dot lays out in seconds stops, and a note says so."""
    g = transformer(1)
    nodes = [replace(n, source=replace(n.source, module=f"m{i // 3}", call="")) if n.source else n
             for i, n in enumerate(wide(3000).nodes)]  # fmt: skip
    g = replace(g, nodes=tuple(nodes), modules={f"m{i}": f"M{i}" for i in range(1100)})
    picture = draw(g, Choice(depth=3))
    assert len(picture.boxes) <= LIMIT
    assert any("stopped at" in note for note in picture.notes)
    assert any("expand=" in note for note in picture.notes)


def wide(count):
    """``count`` ops in a chain, each of another target."""
    g = GraphBuilder()
    x = g.input("x", X)
    for i in range(count):
        x = g.call(f"torch.op{i % 7}", x, value=X)
    g.output(x)
    return g.graph()


def test_a_flat_graph_is_cut_into_parts():
    """Thousands of ops in no module are drawn as a few parts."""
    picture = draw(wide(5000))
    assert len(picture.boxes) < 40
    assert sum(b.module.size for b in picture.boxes.values() if b.closed) == 5000


def test_parameters_are_no_boxes():
    """A parameter is written inside what reads it, in each reader if there are two."""
    picture = draw(transformer(1))
    table = next(n.index for n in picture.graph.nodes if n.name == "p_embed_weight")
    readers = [picture.boxes[b].module.path for b, inlets in picture.inlets.items() if table in inlets]
    assert sorted(readers) == ["embed", "head"]
    assert all(
        picture.graph.nodes[n].op != "placeholder"
        for b in picture.boxes.values()
        for n in b.nodes
        if n == table
    )


def test_alike_neighbours_are_one_box():
    """unbind, 400 mul and one cat are three boxes; the edges count 400 values."""
    g = GraphBuilder()
    x = g.input("x", tensor(400, 2))
    parts = g.call("torch.unbind", x, value=TupleInfo((tensor(2),) * 400))
    items = [g.call("_operator.getitem", parts, i, value=tensor(2)) for i in range(400)]
    ys = [g.call("_operator.mul", item, 2, value=tensor(2)) for item in items]
    g.output(g.call("torch.cat", tuple(ys), value=tensor(800)))
    picture = draw(g.graph())
    assert [len(b.nodes) for b in picture.boxes.values()] == [1, 1, 400, 1, 1]
    assert [e.uses for e in picture.edges] == [1, 400, 400, 1]
    assert picture.edges[1].values[7] == (1, (7,))


def test_what_every_layer_reads_is_a_tag():
    """A mask read by all layers is a tag inside the drawn one, and no edge leaves its box."""
    g = GraphBuilder()
    x, mask = g.input("x", X), g.input("mask", X)
    for i in range(4):
        x = g.call(
            "torch.add", g.call("torch.mul", x, mask, module=f"l.{i}", value=X), x, module=f"l.{i}", value=X
        )
    g.output(x)
    picture = draw(replace(g.graph(), modules={f"l.{i}": "L" for i in range(4)}))
    (tag,) = [b for b in picture.boxes.values() if b.tag]
    assert tag.nodes == (1,) and picture.tagged == {(-1, 1)}
    assert [e.kind for e in picture.edges if e.source == tag.key] == ["tag"]
    assert tag in clusters(picture)["l.0"].members


def cond(*bodies):
    """A graph that runs child graph 0 and 1 by cond, as often as there are pairs in ``bodies``."""
    g = GraphBuilder()
    x = g.input("x", X)
    for pair in bodies:
        refs = [g.add(f"body_{b}_{len(g.nodes)}", "get_attr", f"body_{b}", body=b) for b in pair]
        x = g.call("torch.ops.higher_order.cond", x, *refs, (x,), value=X)
    g.output(x)
    children = [
        graph(node(0, "x", "placeholder", "x", value=X), node(1, "y", "call_function", t, Leaf(node=0), value=X),
              node(2, "output", "output", "output", (Leaf(node=1),)), name=t)
        for t in ("torch.sin", "torch.cos")
    ]  # fmt: skip
    return replace(g.graph(), children=tuple(children))


def test_bodies_are_clusters_joined_to_their_op():
    """The two branches of a cond are clusters beside it, with an edge to each."""
    picture = draw(cond((0, 1)))
    bodies = [m for m in picture.root.members if isinstance(m, Cluster)]
    assert [(c.body, c.view) for c in bodies] == [(True, 0), (True, 1)]
    assert [e.target for e in picture.edges if e.kind == "body"] == [c.key for c in bodies]


def test_shared_bodies_are_drawn_once():
    """A body that two ops run is one cluster with two edges to it."""
    picture = draw(cond((0, 1), (0, 1)))
    bodies = [m for m in picture.root.members if isinstance(m, Cluster)]
    assert len(bodies) == 2
    assert len([e for e in picture.edges if e.kind == "body"]) == 4


def test_what_is_saved_for_backward_has_no_edges():
    """Of very many outputs the first keep their edges; at the others the count of returned values stands."""
    g = GraphBuilder()
    x = g.input("x", X)
    values = [x := g.call(f"torch.op{i % 3}", x, value=X) for i in range(20)]
    g.output(values[-1], *values[:-1])
    picture = draw(g.graph())
    last = next(b.key for b in picture.boxes.values() if picture.graph.nodes[b.nodes[0]].op == "output")
    assert len([e for e in picture.edges if e.target == last]) == 3
    assert sum(picture.returned.values()) == 17
    few = GraphBuilder()
    few.output(*(few.call("torch.sin", few.input("x", X), value=X) for _ in range(3)))
    assert draw(few.graph()).returned == {}


def test_inputs_of_one_op_are_written_into_it_when_there_are_many():
    """Of 30 inputs of unknown kind those that one op reads are no boxes, though they are also returned."""
    g = GraphBuilder()
    inputs = [g.input(f"primals_{i}", X, kind="other") for i in range(30)]
    x = inputs[0]
    for one in inputs:
        x = g.call("torch.mul", x, one, value=X)
    g.output(x, *inputs[1:])
    picture = draw(g.graph())
    ends = [b for b in picture.boxes.values() if picture.graph.nodes[b.nodes[0]].op == "placeholder"]
    assert len(ends) <= 1


def test_calls_without_values_are_one_box():
    """Switches that take and give nothing stand together, not in a row of their own."""
    g = GraphBuilder()
    x = g.input("x", X)
    for _ in range(3):
        g.call("torch._C._set_grad_enabled", False)
        x = g.call("torch.sin", x, value=X)
    g.output(x)
    picture = draw(g.graph())
    assert sorted(len(b.nodes) for b in picture.boxes.values()) == [1, 1, 1, 1, 1, 3]


def test_an_empty_graph_has_its_output():
    """A graph without ops is one box."""
    picture = draw(graph(node(0, "output", "output", "output", ())))
    assert len(picture.boxes) == 1 and picture.edges == ()
    assert draw(graph()).boxes == {}
