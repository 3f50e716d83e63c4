"""A capture held against its snapshot: same, changed, missing or nothing, and what is written then.

Comes in: a Snapshot and the Slot of its file. Goes out: an Outcome; files only by ``settle``. What pytest's fixture and the
command line share.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from .diff import Diff, Policy, Verdict, compare, verdict
from .diff.policy import load_policy
from .errors import PeekError
from .model import CaptureRecord
from .model.snapshot import Snapshot
from .snapshot.atomic import ignore_in_git, write_bytes
from .snapshot.graphfile import FORMAT, decode_graph, print_graph
from .snapshot.journal import FOLDER, SUFFIX, encode_record
from .snapshot.store import Slot, bases_below, bases_mirrored

State = Literal["same", "changed", "missing", "nothing"]
Update = Literal["none", "new", "changed", "all"]

_VERSION = re.compile(rb"\A(?:\xef\xbb\xbf)?peek-graph ([0-9]{1,9})\b")


@dataclass(frozen=True)
class Outcome:
    """What came of a comparison.

    ``old`` is None for a missing snapshot, and for an unreadable one that is about to be replaced (``replaces``); ``compared``
    then is False. ``text`` is the new file's, ``reworded`` whether it differs from the old one.
    """

    slot: Slot
    state: State
    new: Snapshot
    text: str
    old: Snapshot | None = None
    diff: Diff | None = None
    verdict: Verdict | None = None
    reworded: bool = False
    replaces: bool = False

    @property
    def compared(self) -> bool:
        return self.diff is not None

    @property
    def failed(self) -> bool:
        """Whether the snapshot does not hold, as long as nobody accepts the change."""
        return self.state in ("missing", "nothing") or (self.verdict is not None and self.verdict.failed)


def judge(
    slot: Slot, new: Snapshot, policy: Policy, *, strict: bool = False, update: Update = "none"
) -> Outcome:
    """Compares ``new`` with the file of ``slot``.

    Raises PeekError for a file that cannot be read, unless ``update`` is about to replace it; always for one of a newer format
    and for one that is another snapshot's.
    """
    new, priced = replace(new, cost=()), new.cost
    text = print_graph(new)
    if any(entry.state == "NOTHING" for entry in new.skipped) or not new.entries:
        return Outcome(slot, "nothing", new, text)
    data = slot.read()
    old = _decoded(slot, data, new.name, replacing=update in ("changed", "all")) if data is not None else None
    if old is None:
        return Outcome(slot, "missing", new, text, replaces=data is not None)
    if old.cost:  # the prices that a test asked for stay, at what they are now
        now = {**dict(old.cost), **dict(priced)}
        new = replace(new, cost=tuple([(key, now[key]) for key, _ in old.cost]))
        text = print_graph(new)
    diff = compare(old, new)
    judged = verdict(diff, policy, strict=strict)
    state: State = "same" if judged.level in ("same", "info") else "changed"
    return Outcome(slot, state, new, text, old, diff, judged, reworded=data != text.encode("utf-8"))


def _decoded(slot: Slot, data: bytes, name: str, *, replacing: bool) -> Snapshot | None:
    """The snapshot in a file; None for a damaged one that is to be replaced anyway."""
    try:
        old = decode_graph(data, shown(slot.path))
    except PeekError:
        version = _VERSION.match(data)
        newer = version is not None and int(version[1]) > FORMAT
        if newer or not replacing:
            raise
        return None
    if old.name != name and old.name.lower() == name.lower():
        why = f"it holds {old.name!r}, and this system does not tell capital letters apart"
        raise PeekError(
            f"{shown(slot.path)}: two snapshots in one file", why, "rename a test or its parameter"
        )
    return old


Written = Literal["", "new", "changed", "reworded", "pending"]


def settle(outcome: Outcome, update: Update, *, read_only: bool = False) -> Written:
    """Writes what ``update`` asks for, and says what was written.

    ``none`` only puts a changed or missing snapshot aside for `peek review`, and with ``read_only`` not even that. ``new`` writes
    what is missing, ``changed`` what changed too, ``all`` also files of which nothing but the text differs. A capture of
    nothing is never written.
    """
    asked = _asked(outcome, update)
    if asked:
        outcome.slot.write(outcome.text)
        return asked
    if read_only or outcome.state == "nothing":
        return ""
    if outcome.state == "same":
        outcome.slot.drop_pending()
        return ""
    outcome.slot.keep_pending(outcome.text)
    return "pending"


def _asked(outcome: Outcome, update: Update) -> Written:
    """What of an outcome ``update`` asks to write into the snapshot."""
    if outcome.state == "missing":
        return "new" if update != "none" else ""
    if outcome.state == "changed":
        return "changed" if update in ("changed", "all") else ""
    return "reworded" if outcome.state == "same" and update == "all" and outcome.reworded else ""


def keep_for_explain(record: CaptureRecord, slot: Slot) -> str:
    """Put a capture where `peek explain` looks first, and its path from here.

    What the system refuses is let go, and the path is empty: the comparison's result stands.
    """
    path = Path(FOLDER) / f"{slot.stem}{SUFFIX}"
    with contextlib.suppress(PeekError):
        ignore_in_git(path.parent)
        write_bytes(path, encode_record(record))
        return path.as_posix()
    return ""


def without_unused(judged: Verdict) -> Verdict:
    """A verdict of one snapshot among several: whether an allowance is of use it alone cannot tell."""
    return replace(judged, unused_allowances=())


def in_ci(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the ``CI`` variable says that nobody is there to accept a change."""
    value = (os.environ if environ is None else environ).get("CI", "")
    return value.strip().lower() not in ("", "0", "false", "no", "off")


def shown(path: Path) -> str:
    """``path`` from the current folder where it is below it."""
    try:
        return path.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except (ValueError, OSError):
        return str(path)


def project_root(start: Path) -> Path:
    """The nearest folder from ``start`` upwards with a ``pyproject.toml``, else with ``.git``, else ``start``."""
    folders = [start, *start.parents]
    for sign in ("pyproject.toml", ".git"):
        for folder in folders:
            if (folder / sign).exists():
                return folder
    return start


def project_policy(root: Path) -> Policy:
    """The ``[tool.peek]`` table of a project's ``pyproject.toml``. Raises PeekError when it is wrong."""
    return load_policy(root / "pyproject.toml")


def base_for(folder: Path, root: Path, policy: Policy) -> Path:
    """The snapshot folder for tests in ``folder``: beside them for a plain name, mirrored below the project for a path."""
    mirror = mirror_of(root, policy)
    if mirror is None:
        return folder / policy.dir
    try:
        inside = folder.resolve().relative_to(root.resolve())
    except ValueError:
        inside = Path()
    return mirror / inside


def mirror_of(root: Path, policy: Policy) -> Path | None:
    """The one folder of all snapshots, within it the folders are those of the tests; None where each is beside its tests."""
    return root / policy.dir if "/" in policy.dir else None


def bases_of(folders: Sequence[Path], root: Path, policy: Policy) -> list[Path]:
    """The snapshot folders below ``folders``, of tests below them, and around them."""
    mirror = mirror_of(root, policy)
    if mirror is None:
        return bases_below([_around(folder, root, policy.dir) for folder in folders], policy.dir)

    def is_asked_for(base: Path) -> bool:
        tests = root / base.relative_to(mirror)
        return any(
            folder.is_relative_to(base) or place.is_relative_to(folder)
            for folder in folders
            for place in (base, tests)
        )

    return [base for base in bases_mirrored(mirror) if is_asked_for(base)]


def _around(folder: Path, root: Path, name: str) -> Path:
    """The snapshot folder that a folder lies in; itself where it lies in none."""
    inside = (place for place in (folder, *folder.parents) if place.is_relative_to(root) and place != root)
    return next((place for place in inside if place.name == name), folder)
