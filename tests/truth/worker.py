"""Runs cases in this process, with peek watching or without, and writes what torch did and what peek recorded.

``python -m tests.truth.worker plain|peek FOLDER CASE…`` writes ``FOLDER/CASE.outcome.json`` and, with peek, the record as
``FOLDER/CASE.json``. All cases share the process, since importing torch costs seconds; ``torch._dynamo.reset()`` stands
between them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO", "0")

import torch
import torch._dynamo
import torch._dynamo.utils as dynamo_utils
from torch._dynamo import convert_frame
from torch._dynamo.eval_frame import _debug_get_cache_entry_list
from torch.utils import _pytree as pytree

CASES = Path(__file__).parents[1] / "cases"
# Addresses, ids, generated names, and how often a dict of torch's was changed since the process began.
_NUMBERS = re.compile(
    r"0x[0-9a-f]+|(?<=SUPPORTED_NODES\) == )\d+|\b\d{9,}\b|___\w+_\d+_c\d+|_\d+_c\d+\b|dict___\d+"
)


def load(name: str) -> Any:
    """A fresh module of a case: compiled code objects of an earlier run are not its own."""
    spec = importlib.util.spec_from_file_location(f"case_{name}", CASES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_case(name: str, *, watch: bool) -> tuple[dict[str, Any], Any]:
    """What torch did in a case, and peek's record of it (None without ``watch``)."""
    torch._dynamo.reset()
    dynamo_utils.counters.clear()
    dynamo_utils.clear_compilation_metrics()
    dynamo_utils.warn_once_cache.clear()
    torch.manual_seed(0)
    module = load(name)
    printed, results, error = io.StringIO(), [], None
    with contextlib.ExitStack() as stack:
        told = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.enter_context(contextlib.redirect_stdout(printed))
        if getattr(module, "CONFIG", None):
            stack.enter_context(torch._dynamo.config.patch(module.CONFIG))
        if getattr(module, "NO_GRAD", False):
            stack.enter_context(torch.no_grad())
        traced = stack.enter_context(_traced_breaks())
        session = stack.enter_context(_session()) if watch else None
        try:
            results = _calls(module)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    outcome = _outcome(results, error)
    outcome["printed"] = printed.getvalue()
    outcome["traced_breaks"] = len(traced)
    outcome["warnings"] = sorted(_plain(str(w.message)) for w in told)
    return outcome, session.record if session is not None else None


@contextlib.contextmanager
def _traced_breaks() -> Iterator[list[str]]:
    """torch's own trace of breaks, the same on every version: one line for each, frames that were skipped as well."""
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            artifact = getattr(record, "metadata", {}).get("artifact") or {}
            if artifact.get("name") == "dynamo_graph_break_reason":
                found.append(str(getattr(record, "payload", "")))

    logger, handler = logging.getLogger("torch.__trace"), Handler()
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


def _session() -> Any:
    from peek_backend.capture.session import Session

    return Session()


def _calls(module: Any) -> list[Any]:
    """Compile what the case builds and call it as the case asks."""
    fn, args, kwargs, compile_kwargs = module.build()
    compiled = torch.compile(fn, backend="eager", **compile_kwargs)
    results = [compiled(*args, **kwargs)]
    more = module.more_calls() if hasattr(module, "more_calls") else []
    results += [compiled(*a, **k) for a, k in more]
    if getattr(module, "TRAIN", False):
        sum(t.sum() for t in _tensors(results)).backward()
        results.append([p.grad for p in fn.parameters()] if isinstance(fn, torch.nn.Module) else [])
    return [*results, args]


def _tensors(values: Any) -> list[torch.Tensor]:
    return [v for v in pytree.tree_leaves(values) if isinstance(v, torch.Tensor)]


def _outcome(results: list[Any], error: str | None) -> dict[str, Any]:
    return {
        "error": _plain(error) if error else None,
        "results": [_value(v) for v in pytree.tree_leaves(results)],
        "compiles": [_compile(m) for m in dynamo_utils.get_compilation_metrics()],
        "counters": {k: {_plain(n): c for n, c in v.items()} for k, v in dynamo_utils.counters.items() if v},
        "guards": _guards(),
    }


def _value(value: Any) -> str:
    """A result to the last bit: type, metadata and the bytes of the values."""
    if not isinstance(value, torch.Tensor):
        return _plain(f"{type(value).__name__} {value!r}")
    meta = f"{type(value).__name__} {value.dtype} {tuple(value.shape)} {value.requires_grad} {value.layout}"
    if value.layout != torch.strided or value.is_nested:
        return meta
    stored = value.detach()
    return f"{meta} {tuple(value.stride())} {stored.resolve_conj().resolve_neg().tolist()!r}"


def _compile(metric: Any) -> list[Any]:
    fields = (
        "compile_id",
        "co_name",
        "guard_count",
        "shape_env_guard_count",
        "graph_op_count",
        "graph_node_count",
    )
    texts = ("recompile_reason", "fail_type", "fail_reason")
    return [getattr(metric, f) for f in fields] + [_plain(str(getattr(metric, f))) for f in texts]


def _guards() -> dict[str, list[str]]:
    """The guard tree of every compiled variant, as torch prints it."""
    found = {}
    for reference in convert_frame.input_codes.seen:
        code = reference()
        for entry in _debug_get_cache_entry_list(code) if code is not None else ():
            lines = [_plain(line) for line in str(entry.guard_manager).splitlines() if "Duration" not in line]
            found[f"{code.co_qualname} {entry.compile_id}"] = lines
    return found


def _plain(text: str) -> str:
    """Text without what differs from process to process: addresses, ids, counters in generated names.

    torch 2.8 puts the interpreter's own stack, in C, into the text of an error: it has whatever stands between the call and
    Dynamo, and says nothing of the program.
    """
    return _NUMBERS.sub("#", _C_STACK.sub("", text))


_C_STACK = re.compile(r"^Framework stack:\n(?:  .*\n)+", re.MULTILINE)


def main(mode: str, folder: str, names: list[str]) -> None:
    out = Path(folder)
    for name in names:
        outcome, record = run_case(name, watch=mode == "peek")
        (out / f"{name}.outcome.json").write_text(json.dumps(outcome))
        if record is not None:
            from peek_backend.snapshot.jsonfile import encode

            (out / f"{name}.json").write_bytes(encode(record))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
