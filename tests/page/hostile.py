"""Records whose every text tries to be something else."""

from __future__ import annotations

from msgspec.structs import replace

from peek_backend.model import (
    BreakInfo,
    CaptureRecord,
    GuardInfo,
    NodeCost,
    Opaque,
    Problem,
    StackFrame,
    SymbolInfo,
)
from peek_backend.render.html.edits import PageDiff, PageEdit
from tests.page.synthetic import capture

TEXTS = (
    "</script><script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "a\"b'c`d${window.pwned=1}",
    "line\u2028separator\u2029end",
    "\u202egnirts lanoitceridib\u202c \u2066x\u2069",
    "<!-- <![CDATA[ ]]> -->",
    "javascript:window.pwned=1",
    "\x00\x01\x1b[31m\x7f",
    "lone \ud800 surrogate",
    "emoji 👩‍👩‍👧 日本語",
    "x" * 100_000,
    "=HYPERLINK(1)|<b>|`*_[a](b)",
)


def hostile_capture() -> CaptureRecord:
    """A capture of which every name, target, path, code line, reason and guard is one of TEXTS."""
    record = capture(100)
    texts = iter(TEXTS * 1000)
    graph = record.graphs[0]
    nodes = [_node(node, texts) for node in graph.nodes]
    line = lambda: StackFrame(next(texts), 3, next(texts), next(texts))  # noqa: E731
    graph = replace(
        graph,
        nodes=tuple(nodes),
        name=next(texts),
        file=next(texts),
        modules={k: next(texts) for k in graph.modules},
        guards=tuple(GuardInfo(next(texts), next(texts), next(texts), line()) for _ in TEXTS),
        symbols=tuple(SymbolInfo(f"s{k}", (next(texts),), 4, 2, None) for k in range(len(TEXTS))),
        relations=TEXTS,
        state={t: t for t in TEXTS},
        notes=TEXTS,
        problems=tuple(Problem(t, next(texts), next(texts), next(texts)) for t in TEXTS),
        never_ran=next(texts),
    )
    frames = tuple(
        replace(
            f,
            name=next(texts),
            file=next(texts),
            reason=next(texts),
            fix=next(texts),
            user=line(),
            outcome=outcome,
        )
        for f, outcome in zip(record.frames, ("failed", "broken", "failed", "skipped", "limit"), strict=True)
    )
    breaks = tuple(
        BreakInfo(t, next(texts), (next(texts),), next(texts), t, t, (line(),), frame=0) for t in TEXTS
    )
    problems = tuple(Problem(t, next(texts), next(texts), next(texts)) for t in TEXTS)
    return replace(
        record, graphs=(graph, *record.graphs[1:]), frames=frames, breaks=breaks, problems=problems, notes=TEXTS,
        environment=replace(record.environment, argv=TEXTS[:3], settings={t: t for t in TEXTS}),
    )  # fmt: skip


def hostile_diff() -> PageDiff:
    """A verdict of which every text is one of TEXTS."""
    edits = tuple(
        PageEdit("changed", t, "fail", "0/0", 8 + k, "0/0", 8 + k, t, t, t) for k, t in enumerate(TEXTS)
    )
    return PageDiff(TEXTS[0], "bad", edits, hostile_capture())


def hostile_sources(record: CaptureRecord) -> dict[str, str]:
    """For each path of the capture a file full of TEXTS."""
    return {node.source.file: "\n".join(TEXTS) for node in record.graphs[0].nodes if node.source}


def _node(node, texts):
    source = node.source and replace(
        node.source, file=next(texts), function=next(texts), code=next(texts),
        input=next(texts) if node.source.input else None, origin=next(texts) if node.source.input else None,
    )  # fmt: skip
    if source and node.index % 5 == 2:
        source = replace(source, module=next(texts), call=next(texts))
    cost = NodeCost(unknown=next(texts)) if node.index % 9 == 0 else NodeCost(node.index, 1)
    value = Opaque(next(texts), next(texts)) if node.index % 7 == 3 else node.value
    target = node.target if node.op == "output" else next(texts)
    extra = (next(texts),) if node.op.startswith("call") else ()
    return replace(
        node,
        name=f"{next(texts)}_{node.index}",
        target=target,
        args=(*node.args, *extra),
        source=source,
        value=value,
        cost=cost,
    )
