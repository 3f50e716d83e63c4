"""``peek diff``: what changed between two captures or snapshots, or two folders of them."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import PeekError, unknown_name
from ..options import resolve, wants_color
from ..pinned import project_policy, project_root, without_unused
from ..snapshot.atomic import write_bytes
from ..snapshot.store import SUFFIX
from .operands import Missing, Side, sides
from .output import tell, write_stdout
from .places import Read, located, revision, working_tree

if TYPE_CHECKING:
    from ..diff import Diff, Policy, Verdict

FORMATS = ("text", "json", "github", "markdown", "html", "dot", "svg", "png", "pdf")
SUFFIXES = {
    ".txt": "text", ".json": "json", ".md": "markdown", ".html": "html",
    ".dot": "dot", ".gv": "dot", ".svg": "svg", ".png": "png", ".pdf": "pdf",
}  # fmt: skip
PICTURES = ("dot", "svg", "png", "pdf")

SAME, FAILED, UNUSABLE, MISSING, OBSOLETE, NOTHING = range(6)
"""Exit codes: same or only information, a failing difference, unreadable, snapshot missing, obsolete, nothing captured."""


@click.command()
@click.argument("old", metavar="A")
@click.argument("new", metavar="[B]", required=False)
@click.option("--format", "format_", metavar="NAME", help=f"One of {', '.join(FORMATS)}.")
@click.option("--strict", is_flag=True, help="Warnings fail: improvements must be accepted too.")
@click.option("--color", metavar="WHEN", help="auto, always or never.")
@click.option("-o", "--output", metavar="FILE", help="Write there; the suffix picks the format.")
def diff(
    old: str, new: str | None, format_: str | None, strict: bool, color: str | None, output: str | None
) -> int:
    """Compare A with B: snapshots (.graph), captures (.json, .peek.jsonl, .pt2) or folders of snapshots.

    Each may be git:REV or git:REV:PATH. Without B, a revision is compared with the working tree, and a path with its last commit.
    svg, png, pdf and dot draw both graphs as one, with what changed marked. [tool.peek] of pyproject.toml says what fails.

    Exit code: 0 same or only information, 1 a failing difference, 2 unreadable, 3 a snapshot is missing, 5 nothing was captured.
    """
    chosen = _format(format_, output)
    _check_target(output, [side for side in (old, new) if side])
    try:
        left, right = sides(old, new)
    except Missing as error:
        tell(str(error))
        return MISSING
    root = project_root(Path.cwd())
    _check_overlap(left, right, old, new)
    pairs = list(_pairs(left, right, project_policy(root), strict, _sources(right, root)))
    options, _ = resolve({"color": color} if color is not None else {})
    color_ = wants_color(options.color, sys.stdout) and output is None
    whole = (left.capture, right.capture) if left.capture and right.capture else None
    show = Show(chosen, root, color_, _width(), output, captures=whole)
    show.write(pairs)
    return exit_code(pairs)


def _check_target(output: str | None, sides: list[str]) -> None:
    """PeekError for an output that is one of the files compared: a diff takes no capture's place."""
    if output is None or not Path(output).is_file():
        return
    for side in sides:
        if Path(side).is_file() and Path(side).samefile(output):
            raise PeekError(
                f"{output} is one of the two sides",
                "the diff would be written over it",
                "name another file after -o",
            )


def _format(name: str | None, output: str | None) -> str:
    if name is not None:
        if name.lower() not in FORMATS:
            raise unknown_name("format", name, FORMATS)
        return name.lower()
    if output is None:
        return "text"
    suffix = Path(output).suffix.lower()
    if suffix not in SUFFIXES:
        raise PeekError(
            f"cannot tell what to write to {output!r}",
            "",
            f"end it in one of {' '.join(SUFFIXES)}, or add --format",
        )
    return SUFFIXES[suffix]


def _width() -> int:
    return min(max(shutil.get_terminal_size().columns, 40), 160) if sys.stdout.isatty() else 80


@dataclass(frozen=True)
class Pair:
    """One snapshot on both sides. ``path`` is empty for two single files; ``only`` says on which side it is when not on both.

    ``file`` is the snapshot's own, None where two captures are compared.
    """

    path: str
    verdict: Verdict | None = None
    diff: Diff | None = None
    only: str = ""
    nothing: bool = False
    file: Path | None = None


def _sources(new: Side, root: Path) -> Read:
    """Where the lines of the new side are looked up: in its revision, or in the working tree."""
    return revision(new.revision, root) if new.revision else working_tree(root)


def _pairs(left: Side, right: Side, policy: Policy, strict: bool, read: Read) -> Iterator[Pair]:
    from ..diff import compare, verdict

    for path in sorted({*left.files, *right.files}):
        if path not in left.files or path not in right.files:
            yield Pair(path, only="old" if path in left.files else "new")
            continue
        new = right.files[path]()
        found = compare(left.files[path](), new)
        nothing = any(entry.state == "NOTHING" for entry in new.skipped)
        judged = located(verdict(found, policy, strict=strict), read)
        judged = without_unused(judged) if path else judged
        files = (side.at / path for side in (right, left))
        file = next((file for file in files if file.suffix == SUFFIX), None)
        yield Pair(path, judged, found, nothing=nothing, file=file)


def _check_overlap(left: Side, right: Side, old: str, new: str | None) -> None:
    """Two folders that share no path compare nothing, which must not read as success."""
    if left.files and right.files and not left.files.keys() & right.files.keys():
        raise PeekError(
            f"no snapshot is on both sides of {old}" + (f" and {new}" if new else ""),
            f"one has {min(left.files)!r}, the other {min(right.files)!r}",
            "name the same folder on both sides: git:REV:FOLDER FOLDER",
        )


def exit_code(pairs: Sequence[Pair]) -> int:
    """A capture of nothing, else a failing difference, else a snapshot that the new side lacks, else 0."""
    if any(pair.nothing for pair in pairs):
        return NOTHING
    if any(pair.verdict is not None and pair.verdict.failed for pair in pairs):
        return FAILED
    return MISSING if any(pair.only == "old" for pair in pairs) else SAME


@dataclass(frozen=True)
class Show:
    """Writes comparisons in one format, to stdout or a file. ``tally`` adds to the text of a folder how many are equal.

    ``captures`` are the files of both sides where each is one whole capture, the old one first.
    """

    format: str
    root: Path
    color: bool = False
    width: int = 80
    output: str | None = None
    tally: bool = True
    captures: tuple[Path, Path] | None = None

    def write(self, pairs: Sequence[Pair]) -> None:
        data = (
            getattr(self, f"as_{self.format}")(pairs)
            if self.format not in PICTURES
            else self.as_picture(pairs)
        )
        if self.output is not None:
            write_bytes(
                self.output, data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace")
            )
        elif isinstance(data, bytes):
            if sys.stdout.isatty():
                raise PeekError("an image is no text for a terminal", "", "add -o diff.png, or pipe it on")
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
        else:
            write_stdout(data)

    def as_text(self, pairs: Sequence[Pair]) -> str:
        """Each difference; of a folder one line for all that are equal."""
        from ..render.diff_text import render_text

        single = len(pairs) == 1 and not pairs[0].path
        told = [
            p for p in pairs if p.verdict is not None and (single or p.verdict.level not in ("same", "info"))
        ]
        texts = [
            render_text(p.verdict, width=self.width, color=self.color, where_is=p.path, hints=())
            for p in told
        ]
        lines = [f"{'removed' if p.only == 'old' else 'new'}: {p.path}" for p in pairs if p.only]
        if not single and self.tally:
            equal = sum(p.verdict is not None for p in pairs) - len(told)
            lines.append(
                f"{equal} of {len(pairs)} snapshots are the same" if pairs else "no snapshots on either side"
            )
        return "\n".join([*texts, *lines]).rstrip("\n") + "\n"

    def as_json(self, pairs: Sequence[Pair]) -> str:
        """One document for two files; for folders a list of them, with the paths that are on one side only."""
        from ..render.diff_json import VERSION, diff_data, render_json

        if len(pairs) == 1 and not pairs[0].path:
            return render_json(pairs[0].verdict, pairs[0].diff)
        data = {
            "format": "peek-diffs",
            "version": VERSION,
            "diffs": [
                {"path": p.path, **diff_data(p.verdict, p.diff)} for p in pairs if p.verdict is not None
            ],
            "added": [p.path for p in pairs if p.only == "new"],
            "removed": [p.path for p in pairs if p.only == "old"],
        }
        return json.dumps(data, indent=1) + "\n"

    def as_markdown(self, pairs: Sequence[Pair]) -> str:
        from ..render.diff_markdown import render_summary

        return render_summary(self.markdown_texts(pairs))

    def markdown_texts(self, pairs: Sequence[Pair]) -> list[str]:
        """One text for each difference, and one for each path on one side."""
        from ..render.diff_markdown import render_markdown
        from ..render.escape import markdown_code

        told = [p for p in pairs if p.verdict is not None and (not p.path or p.verdict.level != "same")]
        texts = [render_markdown(p.verdict, where_is=p.path) for p in told]
        texts += [
            f"- {'removed' if p.only == 'old' else 'new'}: {markdown_code(p.path)}" for p in pairs if p.only
        ]
        return texts or ["No graph changed."]

    def as_github(self, pairs: Sequence[Pair]) -> str:
        """The commands; the whole Markdown goes to the job's summary where GitHub gives a file for it."""
        from ..github import github_path, github_source, summarise_on_github
        from ..render.diff_github import render_github

        summarise_on_github(self.markdown_texts(pairs))
        verdicts = [
            (p.verdict, github_path(p.file, self.root) if p.file is not None else "")
            for p in pairs
            if p.verdict is not None
        ]
        return render_github(verdicts, path_of=lambda file: github_source(file, self.root))

    def as_html(self, pairs: Sequence[Pair]) -> str:
        """Of two whole captures their page, with a view of what changed; of snapshots the differences alone."""
        if self.captures is not None and pairs[0].verdict is not None and pairs[0].diff is not None:
            from ..export import comparison_page
            from .show import load

            old, new = (load(str(path)) for path in self.captures)
            files = str(self.captures[0]), str(self.captures[1])
            return comparison_page(pairs[0].verdict, pairs[0].diff, new, old, files)
        from ..render.diff_html import render_html

        found = [(p.verdict, p.diff, p.path) for p in pairs if p.verdict is not None]
        return render_html(found, only=[(p.path, p.only) for p in pairs if p.only])

    def as_picture(self, pairs: Sequence[Pair]) -> str | bytes:
        from ..render.diff_picture import diff_dot
        from ..render.image import render_image

        found = [p.diff for p in pairs if p.diff is not None]
        if not found:
            raise PeekError("there is nothing to draw", "no snapshot is on both sides", "name two snapshots")
        text = diff_dot(found)
        return text if self.format == "dot" else render_image(text, self.format)
