"""Joins the page's ES modules into one script, so that nobody needs Node.

The modules keep to a small part of the syntax, checked here: ``import { a, b } from "./x.js"`` at the start of a line and
``export`` before ``function``, ``async function``, ``class`` or a ``const`` of one name. Each becomes a function scope that
returns its exports; a module comes after all that it imports, and a cycle is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";$', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) )", re.M)
_NAME = re.compile(r"^export (?:async function|function|class|const) ([\w$]+)", re.M)
_COMMENT = re.compile(r"^[ \t]*//[^\n]*\n|^[ \t]*/\*\*(?s:.*?)\*/[ \t]*\n", re.M)


def modules() -> dict[str, str]:
    """The text of every module beside this file, by file name."""
    return {path.name: path.read_text("utf-8") for path in sorted(Path(__file__).parent.glob("*.js"))}


def bundle(sources: Mapping[str, str], entry: str = "main.js") -> str:
    """One script that runs ``entry``. ValueError names a module that is missing, in a cycle, or beyond the syntax."""
    order: list[str] = []
    _visit(entry, sources, order, ())
    return '"use strict";\n' + "".join(_scope(name, sources[name]) for name in order)


def _visit(name: str, sources: Mapping[str, str], order: list[str], path: tuple[str, ...]) -> None:
    if name in path:
        raise ValueError(f"modules import each other: {' → '.join((*path, name))}")
    if name in order:
        return
    if name not in sources:
        raise ValueError(f"{path[-1] if path else 'the page'} imports {name}, which does not exist")
    for match in _IMPORT.finditer(sources[name]):
        _visit(match[2], sources, order, (*path, name))
    order.append(name)


def _scope(name: str, text: str) -> str:
    """A module as ``const m_x = (() => { …; return { exports }; })();``."""
    body = _EXPORT.sub(
        "", _IMPORT.sub(lambda m: f"const {{{m[1].replace(' as ', ': ')}}} = {_variable(m[2])};", text)
    )
    for keyword in ("import", "export"):
        stray = re.search(rf"^{keyword}\b.*", body, re.M)
        if stray:
            raise ValueError(f"{name}: the bundler does not know {stray[0]!r}")
    return f"const {_variable(name)} = (() => {{\n{_COMMENT.sub('', body)}\nreturn {{ {', '.join(exports(text))} }};\n}})();\n"


def exports(text: str) -> list[str]:
    """Names that a module exports, in order."""
    return _NAME.findall(text)


def _variable(name: str) -> str:
    return "m_" + re.sub(r"\W", "_", name.removesuffix(".js"))
