"""Where a GitHub workflow shows what was found: paths from the checkout, and the job's summary."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from .render.diff_markdown import render_summary


def github_source(file: str, root: Path) -> str:
    """A source file's path from the top of the checkout; empty where the project has none, as of an installed package's file."""
    path = root / file
    return github_path(path, root) if os.path.isfile(path) else ""


def github_path(path: Path, root: Path) -> str:
    """``path`` from the top of the checkout, or of the project where no workflow says; empty for what lies outside."""
    top = Path(os.environ.get("GITHUB_WORKSPACE") or root)
    with contextlib.suppress(ValueError, OSError):
        return path.resolve().relative_to(top.resolve()).as_posix()
    return ""


def summarise_on_github(texts: list[str], environ: Mapping[str, str] | None = None) -> None:
    """Append Markdown to the job's summary, if GitHub gave a file for it. A refusal of the system changes no result."""
    path = (os.environ if environ is None else environ).get("GITHUB_STEP_SUMMARY")
    if not path or not texts:
        return
    with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as summary:
        summary.write(render_summary(texts, 1_000_000 - min(summary.tell(), 999_000)))
