"""The fixture ``graph_snapshot``: captured graphs pinned down beside the tests, for pytest with or without xdist.

::

    def test_mlp(graph_snapshot):
        graph_snapshot.check(MLP(), args=(x,), dynamic={"x": {0: "batch"}})
        graph_snapshot.expect(breaks=0, graphs=1, no_op="aten._to_copy")

pytest loads this file at every start, also where nobody uses the fixture, so it imports nothing but pytest; the rest comes
with the first test that asks for it. Each process writes only its own tests' files; what no test used any more is judged, and
deleted, by the controller alone.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .pytest_fixture import GraphSnapshot
    from .pytest_session import SnapshotSession

UNUSED = ("fail", "warn", "ignore")
_FIXTURE = pytest.StashKey["GraphSnapshot"]()
_SESSION = pytest.StashKey["SnapshotSession"]()
_DESELECTED = pytest.StashKey[bool]()
_WORKER = "peek_deselected"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--peek-update`` takes a value behind ``=`` alone: a path after it stays a path."""
    group = parser.getgroup("peek", "snapshots of torch.compile's graphs")
    for value, words in (
        ("", "write snapshots that are missing or changed"),
        ("new", "write snapshots that are missing"),
        ("all", "write every snapshot whose text differs, and delete those that no test uses"),
    ):
        option = f"--peek-update={value}" if value else "--peek-update"
        group.addoption(
            option,
            dest="peek_update",
            action="store_const",
            const=value or "changed",
            default="none",
            help=words,
        )
    group.addoption(
        "--peek-strict",
        action="store_true",
        help="warnings fail: a graph that got better must be accepted too",
    )
    group.addoption(
        "--peek-unused",
        choices=UNUSED,
        default="warn",
        help="what a snapshot that no test used does to a complete run (default: warn)",
    )


@pytest.fixture
def graph_snapshot(request: pytest.FixtureRequest) -> GraphSnapshot:
    """Compiles a function or module and holds its graphs against the snapshot beside the test.

    ``check(fn, args, kwargs, dynamic={"x": {0: "batch"}})`` compares, ``expect(breaks=0, no_dtype="float64")`` demands facts.
    All options: ``help(peek_backend.pytest_fixture.GraphSnapshot)``.
    """
    from .pytest_fixture import fixture_for

    fixture = fixture_for(request.node, request.config)
    request.node.stash[_FIXTURE] = fixture
    return fixture


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What the fixture did goes with the report, as plain data: under xdist it travels to the controller."""
    report = yield
    if "graph_snapshot" in getattr(item, "fixturenames", ()):
        fixture = item.stash.get(_FIXTURE, None)
        if fixture is None or report.when != "call":
            report.peek = {"name": _name(item), "results": []}  # type: ignore[attr-defined]
        else:
            report.peek = fixture.report()  # type: ignore[attr-defined]
        _shorten(report)
    return report


def _shorten(report: pytest.TestReport) -> None:
    """A failure's own section has all of its lines; the short summary, which in CI is not cut, gets the first."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and crash.message.startswith("Failed: FAIL "):
        crash.message = crash.message.partition("\n")[0]


def _name(item: pytest.Item) -> str:
    """``TestDecoder.test_step[prefill]``: the test within its module."""
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    return ".".join([*classes, item.name])


def pytest_deselected(items: list[pytest.Item]) -> None:
    """A run that leaves tests out judges no snapshot unused."""
    if items:
        items[0].config.stash[_DESELECTED] = True


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """What a worker left out."""
    output = getattr(node, "workeroutput", None) or {}
    if output.get(_WORKER):
        node.config.stash[_DESELECTED] = True


def _session(config: pytest.Config) -> SnapshotSession:
    session = config.stash.get(_SESSION, None)
    if session is None:
        from .pytest_session import SnapshotSession

        session = config.stash[_SESSION] = SnapshotSession(config)
    return session


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Watch reports where they all arrive: in the one process, or the controller."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Reports(config), "peek-reports")


class _Reports:
    """Gathers reports. Loads nothing until one tells of a snapshot."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.finished: dict[str, bool] = {}  # by test: whether it ran through

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        through = report.outcome == "passed" and not hasattr(report, "wasxfail")
        self.finished[report.nodeid] = self.finished.get(report.nodeid, True) and through
        data = getattr(report, "peek", None)
        if data is not None:
            _session(self.config).add(report, data)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        found = self.config.stash.get(_SESSION, None)
        if found is not None:
            left_out = self.config.stash.get(_DESELECTED, False)
            if (
                found.finish(session, self.finished, left_out=left_out)
                and session.exitstatus == pytest.ExitCode.OK
            ):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        found = self.config.stash.get(_SESSION, None)
        if found is not None:
            found.summary(terminalreporter)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells the controller whether it left tests out."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_WORKER] = session.config.stash.get(_DESELECTED, False)
