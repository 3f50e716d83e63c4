"""What a project lets pass: the ``[tool.peek]`` table."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from msgspec import Struct

from ..errors import PeekError, unknown_name
from .edits import FAIL, INFO, WARN, Edit

LEVELS = ("ops", "stats")
_KEYS = ("dir", "fail_on", "allow", "tolerance", "level")
_ALLOW_KEYS = ("path", "kind", "target", "graph", "text")
_TOLERANCE_KEYS = ("ops", "float")
# A header or a dotted key that gives peek a table; read only where nothing reads TOML.
_HAS_TABLE = re.compile(
    r"^[ \t]*(?:\[+[ \t]*)?[\"']?tool[\"']?[ \t]*\.[ \t]*[\"']?peek[\"']?[ \t]*[\].=]", re.MULTILINE
)
_PERCENT = re.compile(r"\+?\s*([0-9]+(?:\.[0-9]+)?)\s*%")

DEFAULT_DIR = "__graphs__"
DEFAULT_FLOAT = 1e-6


class Allowance(Struct, frozen=True):
    """Edits that may happen: every field that is given must fit. All are globs; a path covers what lies below it."""

    path: str = "*"
    kind: str = "*"
    target: str = "*"
    graph: str = "*"
    text: str = "*"

    def covers(self, edit: Edit) -> bool:
        """Whether ``edit`` is allowed."""
        return (
            fnmatchcase(edit.kind, self.kind)
            and (fnmatchcase(edit.module, self.path) or fnmatchcase(edit.module, f"{self.path}.*"))
            and (fnmatchcase(edit.target, self.target) or fnmatchcase(edit.target, f"{self.target}.*"))
            and fnmatchcase(edit.graph, self.graph)
            and fnmatchcase(edit.text, self.text)
        )

    def __str__(self) -> str:
        given = {name: getattr(self, name) for name in _ALLOW_KEYS if getattr(self, name) != "*"}
        return ", ".join(f"{name}={value}" for name, value in given.items()) or "everything"


class Policy(Struct, frozen=True):
    """How a diff is judged.

    ``fail_on``: the kinds that fail, None for the default of every kind in ``edits.FAIL``. ``ops_growth`` is the share by
    which the number of ops may grow (0.02 for ``"+2%"``), ``float_tolerance`` the relative change of a constant that only
    warns. ``level`` is ``ops``, or ``stats`` to look only at counts, breaks, graphs, recompiles and sizes.
    """

    dir: str = DEFAULT_DIR
    fail_on: tuple[str, ...] | None = None
    allow: tuple[Allowance, ...] = ()
    ops_growth: float = 0.0
    float_tolerance: float = DEFAULT_FLOAT
    level: str = "ops"

    def fails(self, kind: str) -> bool:
        """Whether an edit of ``kind`` fails where no environment differs."""
        return kind in FAIL if self.fail_on is None else any(fnmatchcase(kind, glob) for glob in self.fail_on)

    def allowance(self, edit: Edit) -> Allowance | None:
        """The first entry of ``allow`` that covers an edit."""
        return next((entry for entry in self.allow if entry.covers(edit)), None)


def read_policy(table: Mapping[str, object], where: str = "[tool.peek]") -> Policy:
    """The policy that a ``[tool.peek]`` table gives.

    Raises PeekError for an unknown key, kind or value, with the nearest right one.
    """
    _known(table, _KEYS, "setting", where)
    level = _text(table, "level", "ops", where)
    if level not in LEVELS:
        raise unknown_name("level", level, LEVELS, where)
    tolerance = _table(
        table.get("tolerance", {}), f"tolerance in {where}", 'tolerance = {ops = "+0%", float = 1e-6}'
    )
    _known(tolerance, _TOLERANCE_KEYS, "tolerance", where)
    return Policy(
        dir=_folder(_text(table, "dir", DEFAULT_DIR, where), where),
        fail_on=None if "fail_on" not in table else tuple(_kinds(table["fail_on"], f"fail_on in {where}")),
        allow=tuple(_allowances(table.get("allow", []), where)),
        ops_growth=_growth(tolerance.get("ops", "+0%"), where),
        float_tolerance=_positive(tolerance.get("float", DEFAULT_FLOAT), f"tolerance.float in {where}"),
        level=level,
    )


def load_policy(pyproject: Path | str) -> Policy:
    """The policy of a ``pyproject.toml``; the default where the file or its table is missing.

    Raises PeekError when it cannot be read.
    """
    path = Path(pyproject)
    if not path.is_file():
        return Policy()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PeekError(f"cannot read {path}", str(error), "mend the file") from None
    reader = _toml()
    if reader is None:
        if _HAS_TABLE.search(text):
            why = "it has a [tool.peek] table, and Python 3.10 has no TOML reader of its own"
            raise PeekError(f"cannot read {path}", why, "pip install tomli, or use Python 3.11 or later")
        return Policy()
    try:
        document = reader.loads(text)
    except reader.TOMLDecodeError as error:
        raise PeekError(f"cannot read {path}", str(error), "mend the file") from None
    table = document.get("tool", {}).get("peek", {}) if isinstance(document.get("tool", {}), dict) else {}
    return read_policy(_table(table, "[tool.peek]", 'level = "ops"'), f"[tool.peek] of {path}")


def _toml() -> Any:
    """The TOML reader: the standard library's from Python 3.11 on, else tomli; None without either."""
    for name in ("tomllib", "tomli"):
        with suppress(ImportError):
            return import_module(name)
    return None


def _known(table: Mapping, keys: Iterable[str], kind: str, where: str) -> None:
    for key in table:
        if key not in keys:
            raise unknown_name(kind, str(key), keys, where)


def _table(value: object, what: str, example: str) -> Mapping:
    if not isinstance(value, Mapping):
        raise PeekError(f"{what} is no table", f"it is {value!r}", f"write {example}")
    return value


def _text(table: Mapping, key: str, default: str, where: str) -> str:
    value = table.get(key, default)
    if not isinstance(value, str) or not value:
        raise PeekError(f"{key} in {where} is no text", f"it is {value!r}", f'write {key} = "{default}"')
    return value


def _folder(name: str, where: str) -> str:
    """A folder's name, or a path below the project's top with slashes. Raises PeekError for one that leads out of it."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or PureWindowsPath(name).drive or ".." in path.parts or not path.parts:
        why = f"{name!r} is no folder below the project"
        fix = f'write dir = "{DEFAULT_DIR}", beside each module of tests, or "path/of/all", one folder for the project'
        raise PeekError(f"dir in {where} leads out of the project", why, fix)
    return name.replace("\\", "/").rstrip("/")


def _kinds(value: object, what: str) -> Iterable[str]:
    """Names or globs of kinds; each must fit at least one kind."""
    if not isinstance(value, list | tuple):
        raise PeekError(
            f"{what} is no list", f"it is {value!r}", f'write {what.split(maxsplit=1)[0]} = ["op:added"]'
        )
    for kind in value:
        if isinstance(kind, str) and kind in INFO:
            why = f"{kind} is told for information and never fails"
            raise PeekError(f"{kind!r} in {what} has no effect", why, "take it out of the list")
        if not isinstance(kind, str) or not any(fnmatchcase(known, kind) for known in (*FAIL, *WARN)):
            raise _unknown_kind(what, kind)
        yield kind


def _unknown_kind(what: str, kind: object) -> PeekError:
    # Nearer than names in general: kinds are short, and half of "note" is in "nonsense".
    close = difflib.get_close_matches(str(kind).lower(), [*FAIL, *WARN], n=1, cutoff=0.7)
    fix = f"did you mean {close[0]!r}? " if close else ""
    return PeekError(
        f"unknown kind {kind!r} in {what}", "", f"{fix}known: {', '.join(sorted([*FAIL, *WARN]))}"
    )


def _allowances(value: object, where: str) -> Iterable[Allowance]:
    example = 'allow = [{path = "layers.*.attn", kind = "op:added", target = "aten.to"}]'
    if not isinstance(value, list | tuple):
        raise PeekError(f"allow in {where} is no list", f"it is {value!r}", f"write {example}")
    for entry in value:
        table = _table(entry, f"an entry of allow in {where}", example)
        _known(table, _ALLOW_KEYS, "key", f"an allow entry of {where}")
        for key, text in table.items():
            if not isinstance(text, str):
                raise PeekError(
                    f"{key} in an allow entry of {where} is no text", f"it is {text!r}", f"write {example}"
                )
        if not table:
            raise PeekError(
                f"an empty allow entry in {where}", "it would allow everything", f"write {example}"
            )
        if "kind" in table:
            list(_kinds([table["kind"]], f"an allow entry of {where}"))
        yield Allowance(**table)


def _growth(value: object, where: str) -> float:
    """``"+2%"`` as 0.02."""
    found = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise PeekError(
            f"tolerance.ops in {where} is no growth", f"it is {value!r}", 'write tolerance = {ops = "+2%"}'
        )
    return float(found[1]) / 100


def _positive(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise PeekError(f"{what} is no number of 0 or more", f"it is {value!r}", "write 1e-6")
    return float(value)
