"""Which post-grad nodes a kernel computes, worked out from the generated code where Inductor itself told nothing.

That is so when a compiled graph comes from Inductor's cache, which keeps the code and the text of the graph. The way: a buffer
that the code returns is the graph's output at that place; an extern kernel (``mm``) is the next node of its op, and its operands
are that node's. So most buffers are known, and a fused kernel computes all that lies between what it writes and what other
kernels computed.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..model import GraphRecord, Leaf, NodeRecord, iter_refs, node_refs
from ..model.graph import results_of
from .kernels import Code, KernelCall


def nodes_of_calls(code: Code, graph: GraphRecord) -> list[tuple[str, ...]]:
    """For each kernel call, in order, the names of the post-grad nodes that it computes; empty where that stays unknown."""
    return _Matching(code, graph).match()


class _Matching:
    def __init__(self, code: Code, graph: GraphRecord):
        self._code, self._graph, self._nodes = code, graph, graph.nodes
        self._at: dict[str, int] = {n.name: n.index for n in graph.nodes if n.op == "placeholder"}
        self._claimed: set[int] = set()

    def match(self) -> list[tuple[str, ...]]:
        self._outputs()
        externs = {
            i: node for i, call in enumerate(self._code.calls) if (node := self._extern(call)) is not None
        }
        write_backs = self._write_backs()
        found: list[list[int]] = []
        for number, call in enumerate(self._code.calls):
            if number in externs:
                nodes = [externs[number].index]
            else:
                roots = [self._at[w] for w in call.writes if w in self._at] + write_backs.get(number, [])
                nodes = self._named(call) or self._cone(roots)
            self._claimed.update(nodes)
            found.append(nodes)
        return [tuple([self._nodes[i].name for i in nodes]) for nodes in found]

    def _outputs(self) -> None:
        values = [v for v in results_of(self._graph) if isinstance(v, Leaf) and v.node is not None]
        if len(values) == len(self._code.outputs):
            for name, value in zip(self._code.outputs, values, strict=True):
                self._at.setdefault(name, self._source(value.node))

    def _write_backs(self) -> dict[int, list[int]]:
        """By call: the ``copy_`` into an input that it does, which is the last call that is given that input."""
        found: dict[int, list[int]] = {}
        for node in self._nodes:
            if (
                _op(node.target) == "aten.copy_"
                and (target := self._nodes[node_refs(node)[0]]).op == "placeholder"
            ):
                last = [i for i, call in enumerate(self._code.calls) if target.name in call.args]
                if last:
                    found.setdefault(last[-1], []).append(node.index)
        return found

    def _source(self, index: int) -> int:
        """The node behind views: a view has no buffer of its own."""
        node = self._nodes[index]
        while _op(node.target) in _VIEWS and (refs := node_refs(node)):
            node = self._nodes[refs[0]]
        return node.index

    def _extern(self, call: KernelCall) -> NodeRecord | None:
        """The next unclaimed node of an extern kernel's op; its operands and its result tell what the buffers are."""
        op = _op(call.name)
        free = (n for n in self._nodes if n.index not in self._claimed and n.op == "call_function")
        node = next((n for n in free if op and _op(n.target) == op), None)
        if node is None:
            return None
        self._claimed.add(node.index)
        read = [a for a in call.args if a not in call.writes]
        tensors = [self._source(r) for a in node.args for r in iter_refs(a)]
        if len(read) == len(tensors):
            for name, index in zip(read, tensors, strict=True):
                self._at.setdefault(name, index)
        self._at.update(dict.fromkeys(call.writes, node.index))
        return node

    def _named(self, call: KernelCall) -> list[int]:
        names = set(self._code.fragments.get(call.name, ()))
        return [n.index for n in self._nodes if n.name in names]

    def _cone(self, roots: Iterable[int]) -> list[int]:
        """All that the roots are computed from, up to inputs and to what another kernel computed."""
        found: set[int] = set()
        waiting = [r for r in roots if r not in self._claimed]
        while waiting:
            index = waiting.pop()
            node = self._nodes[index]
            if index in found or index in self._claimed or node.op != "call_function":
                continue
            found.add(index)
            waiting += node_refs(node)
        return sorted(
            i for i in found if self._nodes[i].target != "operator.getitem"
        )  # takes one of several results


_VIEWS = frozenset(
    f"aten.{name}"
    for name in [
        "view",
        "reshape",
        "permute",
        "t",
        "transpose",
        "expand",
        "unsqueeze",
        "squeeze",
        "slice",
        "select",
        "alias",
    ]
)


def _op(name: str) -> str:
    """``aten.mm`` of ``aten.mm.default`` and ``extern_kernels.mm``, ``lib.op`` of ``torch.ops.lib.op.default``; nothing of a
    kernel that Inductor made."""
    parts = name.removeprefix("torch.ops.").replace("extern_kernels.", "aten.").split(".")
    return ".".join(parts[:2]) if len(parts) > 1 else ""
