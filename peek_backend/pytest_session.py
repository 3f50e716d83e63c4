"""What a whole pytest run did with snapshots: the summary, GitHub's annotations, and the snapshots that nothing used.

Runs in the controller (or the one process). Comes in: plain data from the reports. Goes out: lines in the terminal, commands
and a Markdown summary for GitHub, deletions where ``--peek-update=all`` asks for them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from .errors import PeekError
from .github import github_path, github_source, summarise_on_github
from .pinned import Outcome, base_for, in_ci, project_policy, shown, without_unused
from .render.diff_github import MAX_COMMANDS, render_github
from .render.diff_markdown import render_markdown
from .snapshot.store import SUFFIX, delete, safe_stem, snapshots_in

COMPARED = ("same", "warned", "failed", "changed", "reworded")
WRITTEN = ("new", "changed", "reworded", "replaced")
MAX_NAMED = 20


def told_to_github(outcome: Outcome, root: Path) -> dict[str, Any]:
    """The annotations and the Markdown of one comparison, where a GitHub workflow is there to show them."""
    if os.environ.get("GITHUB_ACTIONS") != "true" or outcome.verdict is None:
        return {}
    return {
        "github": render_github(
            [(outcome.verdict, github_path(outcome.slot.path, root))],
            path_of=lambda file: github_source(file, root),
        ),
        "markdown": render_markdown(without_unused(outcome.verdict), where_is=shown(outcome.slot.path)),
    }


class SnapshotSession:
    """Adds up the reports of one run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.results: list[dict[str, Any]] = []
        self.used: set[Path] = set()
        self.tests: dict[str, dict[str, Any]] = {}
        self.unused: list[Path] = []
        self.deleted = False

    def add(self, report: pytest.TestReport, data: dict[str, Any]) -> None:
        """Take in the report of one phase of one test."""
        for result in data["results"]:
            self.results.append(result)
            self.used.add(Path(result["path"]))
        self.tests[report.nodeid] = data

    def finish(self, session: pytest.Session, finished: Mapping[str, bool], *, left_out: bool) -> bool:
        """Judge what was not used; returns whether that fails the run."""
        asked = self.config.getoption("peek_unused")
        delete_them = self.config.getoption("peek_update") == "all"
        if left_out or not self.is_complete(session) or (asked == "ignore" and not delete_them):
            return False
        self.unused = self.find_unused(finished)
        if delete_them:
            for path in self.unused:
                delete(path, path.parents[1])
            self.deleted = True
            return False
        return bool(self.unused) and asked == "fail"

    def is_complete(self, session: pytest.Session) -> bool:
        """Whether every test of the modules that were named ran: no filter, no early stop, no module that failed to load."""
        option = self.config.option
        filters = (
            "keyword",
            "markexpr",
            "lf",
            "stepwise",
            "deselect",
            "ignore",
            "ignore_glob",
            "collectonly",
        )
        if any(getattr(option, name, None) for name in filters) or any(
            "::" in arg for arg in self.config.args
        ):
            return False
        ended_well = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        return (
            ended_well
            and not session.shouldstop
            and not session.shouldfail
            and not _collection_failed(self.config)
        )

    def find_unused(self, finished: Mapping[str, bool]) -> list[Path]:
        """Snapshots of the run's modules that no test used, without those of tests that were skipped or failed.

        None where the policy cannot be read, which each test has told by failing.
        """
        try:
            policy = project_policy(self.config.rootpath)
        except PeekError:
            return []
        unused: list[Path] = []
        bases: dict[Path, set[str]] = {}
        for module in dict.fromkeys(nodeid.partition("::")[0] for nodeid in finished):
            file = self.config.rootpath / module
            bases.setdefault(base_for(file.parent, self.config.rootpath, policy), set()).add(file.stem)
        cut_short = self.cut_short(finished)
        for base, stems in bases.items():
            groups = {safe_stem(stem) for stem in stems}
            unused += [
                slot.path
                for slot in snapshots_in(base)
                if slot.group in groups and slot.path not in self.used and not _belongs(slot.path, cut_short)
            ]
        return unused

    def cut_short(self, finished: Mapping[str, bool]) -> set[tuple[str, str]]:
        """(group, test) of the tests that did not run through. A test of which no report tells its name goes by its node id."""
        found = set()
        for nodeid, through in finished.items():
            if not through:
                module, _, rest = nodeid.partition("::")
                data = self.tests.get(nodeid)
                group = data.get("group", Path(module).stem) if data else Path(module).stem
                found.add((safe_stem(group), data["name"] if data else rest.replace("::", ".")))
        return found

    def summary(self, terminal: Any) -> None:
        """The section at the end of the run: written only when there is more to say than that all held."""
        did = Counter(result["did"] for result in self.results)
        told = [r for r in self.results if r.get("text") and r["did"] in ("warned", "changed", "reworded")]
        if self.unused or told or any(did[word] for word in WRITTEN):
            terminal.section("graph snapshots")
            for result in told:
                terminal.write_line(result["text"])
            for line in [*_written(self.results), *self._unused_lines(), _counts(did)]:
                terminal.write_line(line)
        self._github(terminal)

    def _unused_lines(self) -> list[str]:
        if not self.unused:
            return []
        head = (
            "deleted, as no test used them:"
            if self.deleted
            else "no test used these; delete them with --peek-update=all or peek prune:"
        )
        shown_ = [f"  {shown(path)}" for path in self.unused[:MAX_NAMED]]
        more = [f"  … and {len(self.unused) - MAX_NAMED} more"] if len(self.unused) > MAX_NAMED else []
        return [head, *shown_, *more]

    def _github(self, terminal: Any) -> None:
        """At most ten annotations, and the whole diff in the job's summary."""
        for line in worst_first([result.get("github", "").splitlines() for result in self.results]):
            terminal.write_line(line)
        summarise_on_github([result["markdown"] for result in self.results if "markdown" in result])


def worst_first(commands: Sequence[Sequence[str]], limit: int = MAX_COMMANDS) -> list[str]:
    """Of the annotations of several snapshots at most ``limit``: errors first, of each snapshot its worst before any's second.

    What several snapshots say of one line, as when they hold the same layer, is said once; so is what they say of no line.
    """
    found: dict[tuple[str, str], tuple[bool, int, str]] = {}
    for own in commands:
        for rank, line in enumerate(own):
            properties, _, message = line.removeprefix("::").partition("::")
            place = properties.partition("title=")[0]
            key = ("" if place.endswith(f"{SUFFIX},") else place, message)
            found.setdefault(key, (not line.startswith("::error"), rank, line))
    ranked = sorted(found.values(), key=lambda entry: entry[:2])
    return [line for _, _, line in ranked[:limit]]


def _collection_failed(config: pytest.Config) -> bool:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    return bool(terminal is not None and terminal.stats.get("error"))


def _belongs(path: Path, tests: set[tuple[str, str]]) -> bool:
    """Whether a snapshot is of one of ``tests``: its only one, or a further one behind ``@``."""
    stem = path.name.removesuffix(SUFFIX)
    return any(path.parent.name == group and _is_of(stem, name) for group, name in tests)


def _is_of(stem: str, test: str) -> bool:
    """A name that had to be changed for the file system ends in a hash; then its beginning decides."""
    plain = safe_stem(test)
    if stem == plain or stem.startswith((f"{plain}@", f"{test}@")):
        return True
    return "~" in stem and stem.rpartition("~")[0].startswith(plain.rpartition("~")[0] or plain)


def _written(results: list[dict[str, Any]]) -> list[str]:
    """One line for each file that was written."""
    words = {
        "new": "written, new",
        "changed": "written, changed as above",
        "reworded": "written, same graphs in new words",
        "replaced": "written in the place of a file that could not be read; nothing was compared",
    }
    lines = [f"{shown(Path(r['path']))}: {words[r['did']]}" for r in results if r["did"] in words]
    more = [f"… and {len(lines) - MAX_NAMED} more"] if len(lines) > MAX_NAMED else []
    return [*lines[:MAX_NAMED], *more]


def _counts(did: Counter) -> str:
    """``12 compared: 10 same, 2 changed; 1 written without a comparison``."""
    compared = [(did[word], word) for word in COMPARED if did[word]]
    parts = [f"{sum(n for n, _ in compared)} compared"]
    if compared:
        parts[0] += f" ({', '.join(f'{n} {word}' for n, word in compared)})"
    without = did["new"] + did["replaced"]
    if without:
        parts.append(f"{without} written without a comparison")
    if did["missing"] + did["nothing"] + did["error"]:
        parts.append(f"{did['missing'] + did['nothing'] + did['error']} without a result")
    ci = (
        " (CI is set: nothing is written unless --peek-update asks for it)"
        if in_ci() and did["missing"]
        else ""
    )
    return ", ".join(parts) + ci
