"""Inductor's part of a compile: the post-grad graph, the kernels, the answer of its cache, why there are no CUDA graphs.

On a cache miss Inductor rewrites the graph module it was given, which then is the post-grad graph with all of its marks. On a
hit it hands back what it kept: the text of that graph and the code. Which nodes went into which kernel is told by
``set_kernel_post_grad_provenance_tracing``, which Inductor calls for each kernel; comments of the code say it less exactly.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..model import CacheOutcome, CudagraphSkip
from .sources import parse_stack

FX_GRAPH = "FX graph"
AOT_AUTOGRAD = "AOTAutograd"
_LIVE = "peek reads the graphs themselves; stages_from='log' reads their text and keeps this cache"

_NOW = threading.local()
_LOCK = threading.Lock()
_OPEN: list[CompileNotes] = []
_UNDO: list[Callable[[], None]] = []


class CompileNotes:
    """What Inductor said during one compile of one graph; empty for another compiler. Plain data."""

    def __init__(self, *, cudagraphs_wanted: bool = False) -> None:
        self.cache: CacheOutcome | None = None
        self.kernels: dict[str, list[tuple[str, ...]]] = {}
        self.cudagraphs_wanted = cudagraphs_wanted

    @contextlib.contextmanager
    def taking(self) -> Iterator[None]:
        """Take what this thread's Inductor says while the block runs."""
        before = getattr(_NOW, "notes", None)
        if (
            "torch._inductor.compile_fx" not in sys.modules
        ):  # another compiler; importing it would take seconds
            yield
            return
        with _LOCK:
            _OPEN.append(self)
            if len(_OPEN) == 1:
                _install()
        _NOW.notes = self
        self.cudagraphs_wanted |= bool(_config().triton.cudagraphs)
        try:
            yield
        finally:
            _NOW.notes = before
            with _LOCK:
                _OPEN.remove(self)
                if not _OPEN:
                    _uninstall()

    @property
    def hit(self) -> bool:
        """Whether the compiled graph came from the cache, so that the graph module is as before."""
        return self.cache is not None and self.cache.outcome == "hit"

    def outcomes(self, result: Any, aot_cached: bool) -> tuple[CacheOutcome, ...]:
        """What the caches answered; nothing for a compiler without. ``aot_cached``: AOTAutograd's was turned off to look."""
        if compiled_graph(result) is None:
            return ()
        fx_graph = self.cache or CacheOutcome(FX_GRAPH, "disabled", reason=_why_disabled())
        if aot_cached and not _config().force_disable_caches:
            aot = CacheOutcome(AOT_AUTOGRAD, "bypass", reason=_LIVE)
        else:
            aot = CacheOutcome(AOT_AUTOGRAD, "disabled", reason="torch's settings turn it off")
        return fx_graph, aot

    def skips(self, result: Any) -> tuple[CudagraphSkip, ...]:
        """Why CUDA graphs, asked for, are not used."""
        graph = compiled_graph(result)
        if graph is None or not self.cudagraphs_wanted:
            return ()
        if "cuda" not in graph.device_types:
            devices = ", ".join(sorted(graph.device_types)) or "no device"
            return (CudagraphSkip(f"the graph runs on {devices}, not on cuda"),)
        info = graph.cudagraph_info
        reasons = [graph.disabled_cudagraphs_reason] if graph.disabled_cudagraphs_reason else []
        reasons += list(getattr(info, "cudagraph_fail_reasons", ()) or ())
        return tuple([skip_of(str(reason)) for reason in reasons])


@contextlib.contextmanager
def live_graphs() -> Iterator[bool]:
    """Have AOTAutograd trace anew: on a hit in its own cache there are no graphs to see. The FX graph cache and its keys stay.

    Yields whether that cache would have been asked.
    """
    from torch._functorch import config

    asked = bool(config.enable_autograd_cache)
    with config.patch(enable_autograd_cache=False):
        yield asked


def asks_fx_cache() -> bool:
    """Whether Inductor asks the FX graph cache at all."""
    config = _config()
    return bool(config.fx_graph_cache) and not config.force_disable_caches


def skip_of(text: str) -> CudagraphSkip:
    """torch's reason, with the user's line that it quotes (``Found from : File …``)."""
    frames = parse_stack(re.sub(r"^ +File ", "  File ", text, flags=re.MULTILINE))
    reason = re.split(r"\.?\s*Found from\s*:", text)[0].strip()
    return CudagraphSkip(
        reason.removeprefix("skipping cudagraphs due to ").strip(), frames[-1] if frames else None
    )


def compiled_graph(result: Any) -> Any:
    """Inductor's CompiledFxGraph behind what a compiler returned, or None."""
    for _ in range(5):
        if hasattr(result, "source_code") and hasattr(result, "disabled_cudagraphs_reason"):
            return result
        result = getattr(result, "_torchdynamo_orig_callable", None)
    return None


def post_grad_text(result: Any) -> str | None:
    """The post-grad graph as Inductor printed it; kept since torch 2.8."""
    return getattr(compiled_graph(result), "inductor_post_grad_graph_str", None) or None


def output_code(result: Any) -> str | None:
    """The Python source that Inductor generated."""
    return getattr(compiled_graph(result), "source_code", None) or None


def of_calls(names: Sequence[str], told: Mapping[str, Sequence[tuple[str, ...]]]) -> list[tuple[str, ...]]:
    """For each kernel call, in order, the post-grad nodes that Inductor told of it.

    A kernel generated once may be called often: calls beyond those told of share its last.
    """
    count: dict[str, int] = {}
    found = []
    for name in names:
        groups = told.get(name) or ()
        at = count[name] = count.get(name, -1) + 1
        found.append(groups[min(at, len(groups) - 1)] if groups else ())
    return found


def _config() -> Any:
    return sys.modules["torch._inductor.config"]


def _why_disabled() -> str:
    config = _config()
    if config.force_disable_caches:
        return "torch._inductor.config.force_disable_caches is set"
    if not config.fx_graph_cache:
        return "torch._inductor.config.fx_graph_cache is off"
    return "Inductor did not ask it"


def _install() -> None:
    cache = sys.modules["torch._inductor.codecache"].FxGraphCache
    _replace(cache, "prepare_key", staticmethod(_telling(cache.prepare_key, _key_prepared)))
    _replace(cache, "load_with_key", staticmethod(_telling(cache.load_with_key, _looked_up)))
    real = getattr(sys.modules["torch._inductor.debug"], "set_kernel_post_grad_provenance_tracing", None)
    if real is None:
        return
    told = _telling_before(real, _kernel)
    for name, module in list(sys.modules.items()):
        if name.startswith("torch._inductor") and vars(module).get(real.__name__) is real:
            _replace(module, real.__name__, told)


def _replace(owner: Any, name: str, value: Any) -> None:
    before = vars(owner)[name]
    setattr(owner, name, value)
    _UNDO.append(lambda: setattr(owner, name, before))


def _uninstall() -> None:
    while _UNDO:
        _UNDO.pop()()


def _telling(real: Callable[..., Any], tell: Callable[[CompileNotes, Any], None]) -> Callable[..., Any]:
    """``real``, whose result is told to the notes of this thread."""

    @functools.wraps(real)
    def telling(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        if (notes := getattr(_NOW, "notes", None)) is not None:
            with contextlib.suppress(Exception):  # looking never ends a compile
                tell(notes, result)
        return result

    return telling


def _telling_before(real: Callable[..., Any], tell: Callable[..., None]) -> Callable[..., Any]:
    """``real``, whose arguments are told to the notes of this thread."""

    @functools.wraps(real)
    def telling(*args: Any, **kwargs: Any) -> Any:
        if (notes := getattr(_NOW, "notes", None)) is not None:
            with contextlib.suppress(Exception):
                tell(notes, *args, **kwargs)
        return real(*args, **kwargs)

    return telling


def _key_prepared(notes: CompileNotes, result: Any) -> None:
    _, info = result
    if info and info.get("cache_state") == "bypass":
        notes.cache = CacheOutcome(FX_GRAPH, "bypass", reason=str(info.get("cache_bypass_reason", "")))


def _looked_up(notes: CompileNotes, result: Any) -> None:
    _, info = result
    notes.cache = CacheOutcome(FX_GRAPH, str(info.get("cache_state", "")), key=str(info.get("key") or ""))


def _kernel(notes: CompileNotes, schedule: Any, name: str, is_extern: bool = False) -> None:
    """The post-grad nodes of one kernel call: an extern kernel's own node, or those of all that was fused."""
    if is_extern:
        node = getattr(schedule, "origin_node", None)
        origins = [node] if node is not None else list(schedule.origins)
    else:
        irs = [n.node for n in schedule if getattr(n, "node", None) is not None]
        origins = [o for ir in irs for o in ir.origins]
    notes.kernels.setdefault(str(name), []).append(tuple(dict.fromkeys(o.name for o in origins)))
