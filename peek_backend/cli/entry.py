"""The group of verbs, loaded when named, and the one place that turns errors into messages and exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from .._version import __version__
from ..errors import PeekError, unknown_name
from ..snapshot.atomic import os_error
from .output import tell

T = TypeVar("T")

VERBS = {
    "run": "Run a script or module and report everything that torch.compile did in it.",
    "inspect": "Compile one function or module on made-up inputs and show its graphs.",
    "dryrun": "Graph, FLOPs, bytes and memory of a model on any device, without device, memory or data.",
    "check-fake": "Compare the fake kernels of custom ops with the real ones.",
    "show": "Show a saved capture or a .pt2 file as a table, a tree or a picture.",
    "open": "Write the page of a capture, one offline file, and open it in the browser.",
    "trace": "Say what a node or a line came from and what became of it, over all stages.",
    "explain": "Say why: graph breaks, recompiles, guards, static sizes and compile times of a capture.",
    "snapshot": "Run a program and pin down what it compiled.",
    "diff": "Compare two captures, snapshots or folders of snapshots, also those of a git revision.",
    "review": "Accept or reject the changes of snapshots that wait.",
    "check": "Check that the snapshots of a project hold; for CI and pre-commit.",
    "prune": "Delete snapshots whose test or program is gone.",
    "doctor": "Say what is installed, what is missing and the command that brings it.",
}
"""The verbs, each a module of this package with a command of its name, and their help line."""

_MODULES = {
    "check-fake": "checkfake",
    "inspect": "inspecting",
    "open": "opening",
    "trace": "tracing",
}  # no file hides a module of the standard library

EPILOG = """Completion: eval "$(_PEEK_COMPLETE=bash_source peek)" in bash, zsh_source in zsh,
_PEEK_COMPLETE=fish_source peek | source in fish."""


class Verbs(click.Group):
    """A group that imports a verb's module when the verb is used, not to list it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        module = _MODULES.get(name, name)
        found = importlib.import_module(f".{module}", __package__)
        command = name.replace("-", "_")
        return getattr(found, command, None) or getattr(found, f"{command}_")

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        if not args[0].startswith("-") and args[0] not in VERBS:
            raise unknown_name("command", args[0], VERBS)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=Verbs, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", prog_name="peek", message="%(prog)s %(version)s")
def peek() -> None:
    """See what torch.compile did with your model."""


def run(args: Sequence[str]) -> int:
    """Run ``peek`` and return its exit code; every message about a mistake is written here.

    A verb that runs the user's program returns a callable. It is called last, outside of click's context and
    of every handler here: that program may use click, and its exceptions and exit codes are its own.
    """
    result = _reporting(lambda: _dispatch(list(args)))
    return result() if callable(result) else result


def _dispatch(args: list[str]) -> int | Callable[[], int]:
    """Parse the command line and call its verb."""
    if os.environ.get("_PEEK_COMPLETE"):
        peek.main(args, prog_name="peek")
    try:
        with peek.make_context("peek", args) as context:
            result = peek.invoke(context)
    except click.exceptions.Exit as done:
        result = done.exit_code
    sys.stdout.flush()
    return 0 if result is None else result


def _reporting(action: Callable[[], T]) -> T | int:
    """What ``action`` returns; a user's mistake or a refusal of the system becomes a message and a code."""
    try:
        return action()
    except PeekError as error:
        return _say(str(error), 2)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _say("interrupted", 130)
    except BrokenPipeError:
        return _pipe_closed()
    except OSError as error:
        return _say(str(os_error("write", "the output", error)), 2)


def _say(message: str, code: int) -> int:
    tell(message)
    return code


def _pipe_closed() -> int:
    """The reader of our output is gone (``peek show … | head``): end in silence, as after SIGPIPE."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = None
    return 128 + 13
