"""What a test does with ``graph_snapshot``: capture, compare with the snapshot, assert facts.

Comes in: a test's own objects. Goes out: a failure in words, and plain data for the session's report.
"""

from __future__ import annotations

import logging
import shlex
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
from msgspec.structs import replace

from .analysis.expectations import KEYS, needs_aten, unmet
from .analysis.prices import PRICES, is_relative, prices, unmet_prices
from .api import Record, as_record
from .diff import Policy, compare, verdict
from .errors import PeekError, unknown_name
from .model import CaptureRecord
from .model.snapshot import Snapshot
from .passes.canonical import canonicalise
from .passes.volatile import mark_volatile
from .pinned import (
    Outcome,
    Update,
    base_for,
    in_ci,
    judge,
    keep_for_explain,
    project_policy,
    settle,
    shown,
    without_unused,
)
from .pytest_plugin import _name
from .render.diff_text import beside, joined, render_text
from .snapshot.graphfile import decode_graph, print_graph
from .snapshot.store import Slot

STAGES = ("dynamo", "fx")


class PeekWarning(UserWarning):
    """Something about a capture that a test's author should know."""


class Settings(NamedTuple):
    """What the command line and the project ask for."""

    root: Path
    policy: Policy
    update: Update = "none"
    strict: bool = False
    read_only: bool = False
    width: int = 80
    color: bool = False


class Test(NamedTuple):
    """The test that captures. ``name`` is its own within its module, ``nodeid`` what pytest calls it."""

    name: str
    nodeid: str
    base: Path
    group: str


def fixture_for(item: pytest.Item, config: pytest.Config) -> GraphSnapshot:
    """The fixture of one test."""
    try:
        settings = _settings(config)
        base = base_for(item.path.parent, settings.root, settings.policy)
    except PeekError as error:
        _fail(error)
    return GraphSnapshot(Test(_name(item), item.nodeid, base, item.path.stem), settings)


@lru_cache(maxsize=8)
def _settings(config: pytest.Config) -> Settings:
    terminal = config.get_terminal_writer()
    update: Update = config.getoption("peek_update")
    return Settings(
        root=config.rootpath,
        policy=project_policy(config.rootpath),
        update=update,
        strict=config.getoption("peek_strict"),
        read_only=in_ci(),
        width=max(
            80, min(terminal.fullwidth if terminal.hasmarkup else shutil.get_terminal_size().columns, 120)
        ),
        color=terminal.hasmarkup,
    )


class GraphSnapshot:
    """Captures graphs and compares them with the test's snapshot.

    The snapshot of ``test_mlp[dynamic]`` in ``tests/test_model.py`` is
    ``tests/__graphs__/test_model/test_mlp[dynamic].graph``; further checks of one test get ``@2``, ``@3``, or ``@name``.
    """

    def __init__(self, test: Test, settings: Settings) -> None:
        self._test, self._settings = test, settings
        self._taken: set[str] = set()
        self._results: list[dict[str, Any]] = []
        self._last: Snapshot | None = None
        self._prices: dict[str, Any] = {}
        self._slot: Slot | None = None
        self._sizes: dict[str, list[str]] = {}

    def capture(
        self,
        fn: Callable[..., Any] | CaptureRecord,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        calls: Sequence[Sequence[Any]] = (),
        dynamic: bool | Mapping[str, Any] | None = None,
        fullgraph: bool = False,
        stages: Sequence[str] = (),
        volatile: bool = False,
    ) -> Record:
        """Compile ``fn`` from a fresh start, call it, and keep what was captured for ``expect``; compares with no file.

        ``calls`` are the positional arguments of several calls, behind ``args`` or in its place: what makes it compile again.
        ``dynamic`` is torch's own setting or sizes by argument and dim, ``{"x": {0: "batch"}}``, where a dim's word may have
        a range, ``("batch", 2, 64)``. ``stages`` names later stages to pin too (``"forward"``, ``"inference"``, …).
        ``volatile`` captures a second time with other random numbers and writes ``<volatile>`` for each constant that
        differs. A capture made elsewhere (``session().record``) is taken as it is. Leaves no trace in torch; the function's
        own exceptions pass.
        """
        __tracebackhide__ = True
        with _told(), _quiet_trace():
            record, snapshot = self._captured(
                fn,
                _calls(args, kwargs, calls),
                stages=_stages(stages),
                volatile=volatile,
                dynamic=dynamic,
                fullgraph=fullgraph,
            )
        self._prices = prices(record)
        numbers = [(key, price) for key, price in self._prices.items() if isinstance(price, int)]
        self._last, self._slot = replace(snapshot, cost=tuple(numbers)), None
        self._warn(record, snapshot)
        return as_record(record)

    def check(
        self,
        fn: Callable[..., Any] | CaptureRecord,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        **how: Any,
    ) -> Record:
        """Capture, and fail the test when the graphs are not those of its snapshot. The other arguments are those of ``capture``.

        ``name`` tells apart several checks of one test. A snapshot that is missing fails too, until ``--peek-update`` writes it.
        """
        __tracebackhide__ = True
        options = (*GraphSnapshot.capture.__kwdefaults__, "name")
        if unknown := [key for key in how if key not in options]:
            _fail(unknown_name("option", unknown[0], options, "check"))
        record = self.capture(fn, args, kwargs, **how)
        full = self._full_name(name)
        assert self._last is not None
        self._last = _named(self._last, full)
        slot = Slot.named(self._test.base, self._test.group, full)
        self._taken.add(full)
        self._results.append({"stem": slot.stem, "name": full, "path": str(slot.path), "did": "error"})
        with _told():
            self._compare(slot, record)
        self._slot = slot
        return record

    def expect(self, **expected: Any) -> None:
        """Fail the test when a fact about the last capture does not hold.

        Counts (a number, ``"<= 3"`` or a pair of bounds): ``breaks``, ``frames``, ``graphs``, ``guards``, ``ops``,
        ``recompiles``, ``skipped``, ``op_counts={"F.linear": 2}``; ``graphs`` and ``ops`` are those of ``record.stats``, of
        later stages only with ``graph="*forward"``. Ops: ``op``, ``no_op``, ``order`` (in this order), ``chain`` (each reads
        the one before). Values, by ``out``, input, label or op: ``shapes={"out": ["batch", 4]}``,
        ``dtypes={"out": "bf16"}``; ``no_dtype="float64"``, ``devices``, ``no_device``. Sizes: ``dynamic="batch"`` or
        ``"x.shape[0]"``, ``static``. ``within="layers.0"`` and ``graph="f*"`` narrow what is looked at. The price of the whole
        capture at the sizes of this call: ``peak_memory="<2GiB"``, ``flops``, ``bytes``, ``parameters``, also beside the price
        in the snapshot, where ``"+0%"`` is no more and ``"±5%"`` within 5 %; ``--peek-update`` writes it there. All that fail
        are told at once.
        """
        with _told():
            if self._last is None:
                raise PeekError("expect: nothing was captured yet", "", "call check(…) or capture(…) first")
            if not expected:
                raise PeekError(
                    "expect: nothing is expected", "it would always hold", "write expect(breaks=0)"
                )
            asked = {key: expected.pop(key) for key in PRICES if key in expected}
            if unknown := [key for key in expected if key not in KEYS]:
                raise unknown_name("expectation", unknown[0], (*KEYS, *PRICES))
            for op in needs_aten(expected, self._last):
                text = f"{op}: without a graph of ATen ops its last word is looked for; stages=['inference'] has one"
                warnings.warn(PeekWarning(text), stacklevel=2)
            found = unmet(self._last, expected, self._sizes)
            found += self._unmet_prices(asked, narrowed=[k for k in ("graph", "within") if k in expected])
        if found:
            lines = "\n".join(f"  ✗ {line}" for line in found)
            pytest.fail(
                f"FAIL {self._last.name or self._test.name}: {len(found)} not as expected\n{lines}",
                pytrace=False,
            )

    def _unmet_prices(self, asked: Mapping[str, Any], *, narrowed: Sequence[str]) -> list[str]:
        """A sentence for each price that is not as expected; with an update those beside the snapshot's are written there."""
        if not asked:
            return []
        if narrowed:
            what = f"{next(iter(asked))} is the price of the whole capture, and {narrowed[0]}= names a part"
            raise PeekError(what, "", "expect it in a call of its own")
        relative = [key for key, wanted in asked.items() if is_relative(wanted)]
        slot = self._slot
        file = _file(slot) if relative and slot is not None else None
        kept = dict(file.cost) if file is not None else {}
        found = unmet_prices(self._prices, asked, kept)
        if relative and slot is None:
            why = "capture() compares with no file"
            raise PeekError(
                f"{relative[0]}: {asked[relative[0]]!r} is beside a snapshot", why, "call check(…)"
            )
        written = [k for k in relative if k not in kept or (k in found and self._settings.update != "new")]
        if self._settings.update != "none" and written:
            if file is not None and slot is not None:
                now = kept | {key: self._prices[key] for key in written}
                slot.write(print_graph(replace(file, cost=tuple(now.items()))))
            found = {key: why for key, why in found.items() if key not in written}
        lines = [f"{key}: {why}" for key, why in found.items()]
        if any(key in relative for key in found):
            lines[-1] += f"\n  accept: pytest {shlex.quote(self._test.nodeid)} --peek-update"
        return lines

    def report(self) -> dict[str, Any]:
        """What was done, as plain data."""
        return {
            "name": self._test.name,
            "base": str(self._test.base),
            "group": self._test.group,
            "results": self._results,
        }

    def _full_name(self, name: str) -> str:
        """The test's name, with ``@name`` or a count behind it for a further check."""
        test = self._test.name
        if name:
            full = f"{test}@{name}"
            if full in self._taken:
                why = "each check of a test has a snapshot of its own"
                _fail(PeekError(f"two checks are called {name!r}", why, "give them different names"))
            return full
        count = sum(1 for taken in self._taken if taken == test or taken.rpartition("@")[2].isdigit())
        return f"{test}@{count + 1}" if count else test

    def _captured(
        self,
        fn: Any,
        calls: Sequence[Any],
        *,
        stages: Sequence[str],
        volatile: bool,
        **how: Any,
    ) -> tuple[CaptureRecord, Snapshot]:
        if isinstance(fn, CaptureRecord):
            return fn, self._canonical(fn, stages)
        from .capture.cost import pricing
        from .capture.pinning import pin

        __tracebackhide__ = True
        later = [stage for stage in stages if stage not in STAGES]
        with pricing():
            pinned = pin(fn, calls, stages=later, **how)
        self._sizes = {}
        for mark in pinned.marks:
            if mark.name:
                self._sizes.setdefault(mark.name, []).append(f"{mark.path}.shape[{mark.dim}]")
        snapshot = self._canonical(pinned.record, stages, pinned.env)
        if volatile:
            again = pin(fn, calls, stages=later, shaken=True, **how)
            snapshot = self._settled(snapshot, self._canonical(again.record, stages, again.env))
        return pinned.record, snapshot

    def _canonical(
        self, record: CaptureRecord, stages: Sequence[str], env: Mapping[str, str] | None = None
    ) -> Snapshot:
        return canonicalise(
            record, name=self._test.name, root=str(self._settings.root), stages=stages, env=env
        )

    def _settled(self, first: Snapshot, second: Snapshot) -> Snapshot:
        """The first capture with its volatile constants marked; fails when more than constants differs between the two."""
        marked = mark_volatile(first, second)
        left = compare(marked, mark_volatile(second, first))
        if not left.is_empty:
            text = render_text(
                verdict(left), width=self._settings.width, color=self._settings.color, hints=()
            )
            head = "two captures in a row have different graphs, so no snapshot can hold them"
            pytest.fail(f"{head}\n{text}", pytrace=False)
        return marked

    def _warn(self, record: CaptureRecord, snapshot: Snapshot) -> None:
        for problem in record.problems:
            warnings.warn(PeekWarning(f"{problem.where}: {problem.what}"), stacklevel=4)
        for note in snapshot.notes:
            if not self._is_meant(note):
                warnings.warn(PeekWarning(note), stacklevel=4)

    def _is_meant(self, note: str) -> bool:
        """Whether sizes that became one symbol have one name in ``dynamic``, so that the test's author said so."""
        sizes = note.partition(" were equal")[0].split(", ")
        return any(set(sizes) <= set(named) for named in self._sizes.values())

    def _compare(self, slot: Slot, record: Record) -> None:
        """Judge, write what is asked for, and fail the test when the snapshot does not hold."""
        settings = self._settings
        assert self._last is not None
        outcome = judge(slot, self._last, settings.policy, strict=settings.strict, update=settings.update)
        did = settle(outcome, settings.update, read_only=settings.read_only)
        result = self._results[-1]
        result["did"] = _word(outcome, did)
        if outcome.verdict is not None and outcome.verdict.level in ("fail", "warn"):
            from .pytest_session import told_to_github

            result["text"] = self._text(outcome, hints=())
            result |= told_to_github(outcome, settings.root)
        if did in ("", "pending") and outcome.failed:
            pending = did == "pending"
            capture = keep_for_explain(record, slot) if pending and outcome.compared else ""
            pytest.fail(self._failure(outcome, pending, capture), pytrace=False)

    def _failure(self, outcome: Outcome, pending: bool, capture: str) -> str:
        """Why the test fails, ending with the command that accepts the change; ``capture`` is the file to explain it by."""
        path = shown(outcome.slot.path)
        name = outcome.new.name
        test = f"pytest {shlex.quote(self._test.nodeid)}"
        if outcome.state == "nothing":
            reasons = [entry.reason for entry in outcome.new.skipped if entry.state == "NOTHING"]
            lines = [
                f"FAIL {name}: nothing was captured, so there is nothing to compare",
                *(f"  {r}" for r in reasons),
            ]
            return "\n".join(lines)
        review = ["review: peek review"] if pending else []
        if outcome.state == "missing":
            stats = " ".join(f"{key}={value}" for key, value in outcome.new.stats.items())
            head = beside(f"FAIL {name}: there is no snapshot yet", path, self._settings.width)
            lines = [*head, f"  captured: {stats}"]
            return "\n".join(
                [*lines, *joined([f"accept: {test} --peek-update=new", *review], self._settings.width)]
            )
        return self._text(outcome, hints=(f"accept: {test} --peek-update", *review), capture=capture)

    def _text(self, outcome: Outcome, hints: Sequence[str], capture: str = "") -> str:
        """The diff in words."""
        assert outcome.verdict is not None
        return render_text(
            without_unused(outcome.verdict),
            width=self._settings.width,
            color=self._settings.color,
            where_is=shown(outcome.slot.path),
            hints=hints,
            capture=capture,
        ).rstrip("\n")


def _word(outcome: Outcome, did: str) -> str:
    """One word for the summary: ``same``, ``warned``, ``failed``, ``missing``, ``nothing``, or what was written."""
    if did in ("new", "changed", "reworded"):
        return "replaced" if outcome.replaces else did
    if outcome.state in ("missing", "nothing"):
        return outcome.state
    if outcome.failed:
        return "failed"
    return "warned" if outcome.state == "changed" else "same"


def _named(snapshot: Snapshot, name: str) -> Snapshot:
    return replace(snapshot, name=name)


def _file(slot: Slot) -> Snapshot | None:
    """A check's snapshot as its file is now; None without one."""
    data = slot.read()
    return None if data is None else decode_graph(data, shown(slot.path))


def _calls(
    args: Sequence[Any], kwargs: Mapping[str, Any] | None, more: Sequence[Sequence[Any]]
) -> list[tuple[Sequence[Any], dict[str, Any]]]:
    """The calls to make, in order: that of ``args`` and ``kwargs`` first, unless only ``more`` are given.

    Raises PeekError for a lone tensor or text, which would be taken apart into arguments.
    """
    for word, given in [("args", args), *(("calls", call) for call in more)]:
        if not isinstance(given, (list, tuple)):
            kind = type(given).__name__
            example = "args=(x,)" if word == "args" else "calls=[(x,), (y,)]"
            raise PeekError(f"{word}: a {kind} is no list of arguments", "", f"write {example}")
    first = [] if more and not args and not kwargs else [(args, dict(kwargs or {}))]
    return [*first, *((call, {}) for call in more)]


def _stages(stages: Sequence[str]) -> tuple[str, ...]:
    """The stages to keep: Dynamo's, and those that are asked for. Raises PeekError for an unknown one."""
    from .options import BadValue, parse_stages

    if not stages:
        return STAGES
    try:
        return tuple(dict.fromkeys([*STAGES, *parse_stages(stages)]))
    except BadValue as bad:
        raise PeekError(f"stages: {bad.why}", "", bad.fix) from None


class _quiet_trace:
    """Keeps torch's structured trace, hundreds of records without a text, out of what pytest shows of a failing test."""

    def __enter__(self) -> None:
        self._handlers = [
            h for h in logging.getLogger().handlers if type(h).__module__.startswith("_pytest.")
        ]
        for handler in self._handlers:
            handler.addFilter(_is_no_trace)

    def __exit__(self, *exc: Any) -> None:
        for handler in self._handlers:
            handler.removeFilter(_is_no_trace)


def _is_no_trace(record: logging.LogRecord) -> bool:
    return record.name != "torch.__trace"


class _told:
    """A user's mistake ends the test with its message alone, without peek's own frames."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, PeekError):
            _fail(error)


def _fail(error: PeekError) -> NoReturn:
    """Ends the test with the message, told once: not as an error during the handling of another."""
    raise pytest.fail.Exception(str(error), pytrace=False) from None
