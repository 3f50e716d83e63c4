"""A ``.graph`` file's text as a snapshot. Total: whatever the text, the answer is a snapshot or a PeekError with line and column.

One pass over the lines. A graph has thousands of node lines and few different types, targets and constants, so each
of those is read once and looked up afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NoReturn

from ..errors import PeekError, nearest
from ..model.snapshot import (
    INPUT_KINDS,
    SKIPPED_STATES,
    SLOT,
    Body,
    Break,
    Call,
    Entry,
    Graph,
    Input,
    Node,
    Place,
    Skipped,
    Snapshot,
    Symbol,
    Type,
)
from .graphfile_header import LINES, check_stats, read_cost, read_env
from .graphfile_print import ARROW, FORMAT
from .graphfile_symbols import first_use, symbols_used
from .graphfile_text import (
    LABEL,
    OPERAND,
    PATH,
    QUOTED,
    TARGET,
    Malformed,
    label_name,
    operand_name,
    operand_text,
    read_field,
    read_template,
    unquote,
)
from .graphfile_types import read_type

_CONFLICT = re.compile(r"^(<{7}|\|{7}|={7}|>{7})(?: .*)?$", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_LITERAL = re.compile(r"(?:\w+=)?[\w.+-]+")
_STATE = re.compile(rf"({QUOTED.pattern}|[^`].*?) ({'|'.join(SKIPPED_STATES)}): (.*)")
_TITLE = re.compile(rf" *(?:(?:stage )?{QUOTED.pattern}|[^` ▸][^▸]*)")
_SUFFIX = re.compile(r"(resume|variant|call)#([1-9][0-9]{0,8})|stage (.+)")
_NAME = re.compile(r"[^\W\d]\w*")
_WORDS = rf"({LABEL.pattern}|{QUOTED.pattern})"
_SYM = re.compile(rf"  sym  {_WORDS} = (.*) in \[(\S+), (\S+)\](?: {_WORDS})?")
_BOUND = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")
_REWRITE = "write the file again from a capture: pytest … --peek-update"


def parse_graph(text: str, where: str = "<graph>") -> Snapshot:
    """The snapshot that ``text`` holds; ``where`` names it in errors. Raises PeekError with line and column."""
    return _Parser(text, where).snapshot()


class _Parser:
    def __init__(self, text: str, where: str):
        self.text, self.where = text, where
        self.lines = text.split("\n")
        self.at = 0  # index of the line being read
        self.types: dict[str, Type] = {"": None}
        self.targets: dict[str, str] = {}
        self.templates: dict[str, str] = {"": ""}
        self.literals: set[str] = set()
        self.graphs: set[tuple] = set()  # frame, resume, variant, stage, call
        self.compiles: set[tuple] = set()  # frame, resume, variant

    # Errors

    def fail(self, problem: str, column: int = 1, why: str = "", fix: str = _REWRITE) -> NoReturn:
        raise PeekError(f"{self.where}:{self.at + 1}:{column}: {problem}", why, fix)

    def fail_at(self, offset: int, problem: str, why: str = "", fix: str = _REWRITE) -> NoReturn:
        """The error for one character of the whole text."""
        self.at = self.text.count("\n", 0, offset)
        self.fail(problem, offset - self.text.rfind("\n", 0, offset), why, fix)

    def column(self, piece: str) -> int:
        """Where ``piece`` starts in the line being read."""
        return max(self.lines[self.at].find(piece), 0) + 1

    def read(self, read: Callable, piece: str, what: str):
        """``read(piece)``, its Malformed turned into the error of this line."""
        try:
            return read(piece)
        except Malformed as error:
            self.fail(f"{what} cannot be read", self.column(piece) + error.at, error.why)

    # The file

    def snapshot(self) -> Snapshot:
        self.refuse_damage()
        version = self.lines[0].removeprefix("peek-graph ")
        if version != str(FORMAT):
            self.refuse_version(version)
        self.at = 1
        name = self.header("name   ", lambda text: self.read(read_field, text, "the name"))
        env = self.header("env    ", lambda text: self.read(read_env, text, "the environment"))
        stats_at, stats = self.at, self.header("stats  ", str)
        cost = ()
        if self.line.startswith("cost"):
            cost = self.header("cost   ", lambda text: self.read(read_cost, text, "the cost"))
        notes = self.many("note   ", lambda line: self.field(line[7:]), "note")
        found = Snapshot(name, env, notes, self.entries(), cost)
        self.at = stats_at
        self.read(lambda text: check_stats(text, found.stats), stats, "the line of counts")
        return found

    @property
    def line(self) -> str:
        """The line being read; empty behind the end."""
        return self.lines[self.at] if self.at < len(self.lines) else ""

    def refuse_damage(self) -> None:
        """Refuses what an editor or git does to a file, each by its name."""
        text = self.text
        if text.startswith("\ufeff"):
            self.fail("the file starts with a byte order mark", fix="save it as UTF-8 without BOM")
        if not text:
            self.fail("the file is empty")
        conflict = _CONFLICT.search(text)
        if conflict:
            fix = "take either side (git checkout --ours FILE), then run pytest … --peek-update"
            self.fail_at(
                conflict.start(), "conflict marker of an unfinished merge", f"line reads {conflict[1]}", fix
            )
        carriage = text.find("\r")
        if carriage >= 0:
            fix = "convert it with dos2unix, and add '*.graph text eol=lf' to .gitattributes"
            self.fail_at(
                carriage,
                "the file has CRLF line ends (a carriage return)",
                "snapshots end lines with LF",
                fix,
            )
        control = _CONTROL.search(text)
        if control:
            self.fail_at(control.start(), f"control character {control[0]!r}", "snapshots escape them")
        if not text.endswith("\n"):
            self.fail_at(len(text), "the last line does not end", "the file is cut")
        self.lines.pop()  # after the last newline there is nothing

    def refuse_version(self, version: str) -> NoReturn:
        if not self.lines[0].startswith("peek-graph "):
            self.fail("this is no snapshot", why="its first line is not 'peek-graph 1'")
        if version.isascii() and version.isdigit() and len(version) < 10 and int(version) > FORMAT:
            why = f"the file has format {version}; this peek reads up to {FORMAT}"
            self.fail("a newer version of peek wrote this file", 12, why, "pip install -U peek-backend")
        self.fail(f"unknown format version {version[:20]!r}", 12)

    def header(self, head: str, read: Callable):
        """What ``read`` makes of the rest of a header line; goes on to the next line."""
        if not self.line.startswith(head):
            word = self.line.partition(" ")[0]
            why = "the file is cut or out of order"
            if word and word not in LINES and nearest(word, LINES) == head.strip():
                why = f"the line starts with {word!r}: did you mean {head.strip()!r}?"
            self.fail(f"expected a line that starts with {head.strip()!r}", why=why)
        found = read(self.line[len(head) :])
        self.at += 1
        return found

    def entries(self) -> tuple[Entry, ...]:
        found: list[Entry] = []
        while self.at < len(self.lines):
            read = _ENTRIES.get(self.line.partition(" ")[0])
            if self.line == "":
                self.at += 1
            elif read is None:
                self.fail("expected a line that starts with graph, break or frame")
            else:
                found.append(read(self, self.line))
        return tuple(found)

    def break_(self, line: str) -> Break:
        columns = line[6:].split("   ", 1)
        fields = columns[0].split("  ")
        if len(fields) != 3 or len(columns) != 2:
            self.fail(
                "expected a break's id, place, code and reason",
                why="two spaces separate them, three the reason",
            )
        place = self.place(fields[1], fields[2])
        found = Break(self.field(fields[0]), place, self.field(columns[1]))
        self.at += 1
        return found

    def skipped(self, line: str) -> Skipped:
        found = _STATE.fullmatch(line[6:])
        if found is None:
            self.fail(f"expected a frame's name and its state: {', '.join(SKIPPED_STATES)}", 7)
        reason, *rest = found[3].split("   ")
        place = None
        if rest:
            if not rest[0].startswith("at ") or len(rest) > 2:
                self.fail("expected 'at file:function' after the reason", self.column(rest[0]))
            place = self.place(rest[0][3:], rest[1] if len(rest) == 2 else "-")
        skipped = Skipped(self.field(found[1]), found[2], self.field(reason), place)
        self.at += 1
        return skipped

    def field(self, text: str) -> str:
        return self.read(read_field, text, "this column")

    def place(self, text: str, code: str) -> Place:
        """``file:function`` and the line's text."""
        if text[:1] == "`":
            quoted = QUOTED.match(text)
            if quoted is None or text[quoted.end() : quoted.end() + 1] != ":":
                self.fail("expected `file`:`function`", self.column(text))
            file, function = (self.read(unquote, t, "a place") for t in (quoted[0], text[quoted.end() + 1 :]))
        else:
            file, colon, function = text.rpartition(":")
            if not colon or "`" in text:
                self.fail("expected file:function", self.column(text))
        return Place(file, function, self.field(code))

    # Graphs

    def graph(self, line: str) -> Graph:
        title, gap, because = line[6:].partition("   ")
        if gap and not because.startswith("because "):
            self.fail("expected 'because' after the graph's name", self.column(because))
        frame, *suffixes = self.title(title)
        found: dict = {"frame": self.field(frame), "because": self.field(because[8:]) if gap else ""}
        for suffix in suffixes:
            self.suffix(suffix, found)
        start = self.at
        self.at += 1
        found["symbols"] = self.many("  sym  ", self.symbol, "symbol")
        found["guards"] = self.many("  guard ", lambda line: self.field(line[8:]), "guard")
        names = self.body_names()
        inputs, nodes, output = self.section(names)
        graph = Graph(inputs=inputs, nodes=nodes, output=output, bodies=self.bodies(names), **found)
        self.check_graph(graph, start)
        return graph

    def check_graph(self, graph: Graph, start: int) -> None:
        """Refuses a graph that is there twice, that follows none, or that speaks of symbols that it does not declare."""
        key = (graph.frame, graph.resume, graph.variant, graph.stage, graph.call)
        title = " ".join(graph.title.split())
        if key in self.graphs:
            self.at = start
            self.fail(f"the graph {title} is there twice", 7)
        if graph.variant > 1 and (graph.frame, graph.resume, graph.variant - 1) not in self.compiles:
            self.at = start
            self.fail(
                f"{title} follows no variant#{graph.variant - 1}",
                7,
                "a recompile stands behind what it replaced",
            )
        self.graphs.add(key)
        self.compiles.add(key[:3])
        unknown = symbols_used(graph) - {symbol.name for symbol in graph.symbols}
        if unknown:
            lines = self.lines[start : self.at]
            at, column, symbol = first_use(lines, unknown) or (0, 1, min(unknown))
            self.at = start + at
            self.fail(
                f"unknown symbol {symbol}", column, f"no line 'sym  {symbol} = …' of this graph declares it"
            )
        self.check_guards(graph, start)
        self.check_bodies(graph, start)

    def check_guards(self, graph: Graph, start: int) -> None:
        """Refuses a guard that speaks of no symbol: nothing would compare it."""
        known = {symbol.name for symbol in graph.symbols}
        for at, guard in enumerate(graph.guards, start + 1 + len(graph.symbols)):
            if known.isdisjoint(_NAME.findall(guard)):
                self.at = at
                self.fail("the guard names no symbol of this graph", 9)

    def check_bodies(self, graph: Graph, start: int) -> None:
        """Refuses bodies that call themselves, straight or through others."""
        calls = {
            k: {-1 - o for call in (*body.nodes, body.output) for o in call.operands if o < 0}
            for k, body in enumerate(graph.bodies)
        }
        try:
            TopologicalSorter(calls).prepare()
        except CycleError as error:
            index = min(error.args[1])
            heads = [at for at in range(start, self.at) if self.lines[at].startswith("body ")]
            self.at = heads[index]
            self.fail(f"the body {graph.bodies[index].name} calls itself", 6)

    def title(self, text: str) -> list[str]:
        """The parts between arrows; an arrow in backticks is part of a name."""
        parts = [part[0].strip(" ") for part in _TITLE.finditer(text)]
        if not parts or ARROW.join(parts) != text:
            self.fail("expected a frame's name, and ▸ between its parts", 7)
        return parts

    def suffix(self, text: str, found: dict) -> None:
        match = _SUFFIX.fullmatch(text)
        key = match and (match[1] or "stage")
        if match is None or key in found or (key == "variant" and match[2] == "1") or match[3] == "dynamo":
            self.fail(
                f"unexpected {text!r} in a graph's name",
                self.column(text),
                "known: resume#1, variant#2, call#1, stage",
            )
        found[key] = int(match[2]) if match[2] else self.field(match[3])

    def many(self, head: str, read: Callable, what: str) -> tuple:
        """Lines that start alike, each read once; two that declare the same are an error."""
        found: dict = {}
        while self.line.startswith(head):
            entry = read(self.line)
            key = entry.name if isinstance(entry, Symbol) else entry
            if key in found:
                self.fail(f"the {what} {key} is there twice", len(head) + 1)
            found[key] = entry
            self.at += 1
        return tuple(found.values())

    def symbol(self, line: str) -> Symbol:
        found = _SYM.fullmatch(line)
        if found is None:
            self.fail("expected a symbol: sym  s0 = x.shape[0] in [2, ∞]", 3)
        sources = () if found[2] == "-" else tuple(self.read(_sources, found[2], "the sources"))
        lower, upper = (self.bound(found[i], infinite) for i, infinite in ((3, "-∞"), (4, "∞")))
        if lower is not None and upper is not None and lower > upper:
            self.fail(f"no number is in [{lower}, {upper}]", self.column(f"[{found[3]}"))
        return Symbol(_word(found[1]), sources, lower, upper, _word(found[5]) if found[5] else "int")

    def bound(self, text: str, infinite: str) -> int | float | None:
        if text == infinite:
            return None
        if not _BOUND.fullmatch(text):
            self.fail(f"expected a number or {infinite}, not {text[:20]!r}", self.column(text))
        return int(text) if text.lstrip("-").isdigit() else float(text)

    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies that follow the graph, which its nodes may refer to."""
        names = []
        for at in range(self.at, len(self.lines)):
            line = self.lines[at]
            if line.startswith("body "):
                names.append(line[5:])
            elif line and line[0] != " ":
                break
        return tuple(names)

    def bodies(self, names: Sequence[str]) -> tuple[Body, ...]:
        found = []
        while self.line.startswith("body "):
            name = self.read(_bare, self.line[5:], "the body's name")
            self.at += 1
            found.append(Body(name, *self.section(names)))
        return tuple(found)

    def section(self, bodies: Sequence[str]) -> tuple[tuple[Input, ...], tuple[Node, ...], Call]:
        """Inputs, nodes and output of a graph or body."""
        refs: dict[str, int] = {}
        for index, name in enumerate(bodies):
            if refs.setdefault(f"@{name}", -1 - index) != -1 - index:
                self.fail(f"two bodies are named {name}")
        inputs: list[Input] = []
        while self.line.startswith("  in   "):
            inputs.append(self.input(self.line[7:], refs, len(inputs)))
            self.at += 1
        nodes = self.nodes(refs, len(inputs))
        if not (self.line.startswith("  out  ") or self.line == "  out"):
            self.fail(
                "expected a node (  %label = …) or the output (  out  …)",
                why="the graph is cut or out of order",
            )
        output = Call(*self.call(self.line[7:], refs))
        self.at += 1
        return tuple(inputs), nodes, output

    def input(self, text: str, refs: dict[str, int], index: int) -> Input:
        found = QUOTED.match(text) or PATH.match(text)
        if found is None or text[found.end() : found.end() + 1] != ":":
            self.fail("expected an input: in   name: type", 8)
        name = self.read(unquote, found[0], "the name") if found[0][0] == "`" else found[0]
        written = operand_name(name)
        if found[0][0] != "`" and written != name:
            self.fail(f"an input named {name} needs backticks", 8)
        if refs.setdefault(written, index) != index:
            self.fail(f"two inputs are named {name}", 8)
        rest = text[found.end() + 1 :].strip(" ")
        for kind in INPUT_KINDS:
            if f" {rest}".endswith(f" ({kind})"):
                return Input(name, self.type(rest.removesuffix(f"({kind})").rstrip(" ")), kind)
        return Input(name, self.type(rest))

    def type(self, text: str) -> Type:
        if text not in self.types:
            self.types[text] = self.read(read_type, text, "the type")
        return self.types[text]

    # Nodes: the part that must be fast

    def nodes(self, refs: dict[str, int], index: int) -> tuple[Node, ...]:
        """The node lines and the comments between them; ``index`` is the first node's operand number."""
        found: list[Node] = []
        types, targets, place, comment = self.types, self.targets, None, None
        for at in range(self.at, len(self.lines)):
            line = self.lines[at]
            if line[:3] != "  %":
                if line[:3] != "  #":
                    break
                self.at = at
                comment, place = self.comment(line)
                continue
            label, target, args, written = _split(line) or self.bad_node(at)
            if (
                label in refs
                or target not in targets
                or written not in types
                or comment is not None
                or "`" in label
            ):
                self.at = at
                label = self.check(label, target, written, comment, refs)
                comment = None
            template, operands = _fast_call(args, refs, self.literals) or self.slow_call(at, args, refs)
            refs[label] = index
            index += 1
            name = label[1:] if label[1] != "`" else unquote(label[1:])
            found.append(Node(name, targets[target], template, operands, types[written], place))
        else:
            at = len(self.lines)
        self.at = at
        return tuple(found)

    def bad_node(self, at: int) -> NoReturn:
        self.at = at
        self.fail("expected a node: %label = target(arguments)  type", 3)

    def comment(self, line: str) -> tuple[str, Place | None]:
        """The module and place that a comment line names."""
        if line == "  #":
            return "", None
        columns = line[4:].split("   ")
        if line[3] != " " or not 2 <= len(columns) <= 3:
            self.fail("expected a comment: # module   file:function   code", 3)
        module = self.field(columns[0]) if columns[0] else ""
        return module, self.place(columns[1], columns[2] if len(columns) == 3 else "-")

    def check(self, label: str, target: str, written: str, comment: str | None, refs: dict[str, int]) -> str:
        """Checks those words of a node line that were not met before; gives the label in canonical spelling."""
        name = self.read(_bare, label[1:], "the label")
        label = "%" + label_name(name)
        if label in refs:
            self.fail(f"two nodes are named {label}", 3)
        if comment and comment != name.rpartition(".")[0]:
            self.fail(f"the comment above names module {comment!r}, this label another", 3)
        if target not in self.targets:
            self.targets[target] = self.read(_target, target, "the target")
        self.type(written)
        return label

    def call(self, args: str, refs: dict[str, int]) -> tuple[str, tuple[int, ...]]:
        return _fast_call(args, refs, self.literals) or self.slow_call(self.at, args, refs)

    def slow_call(self, at: int, args: str, refs: dict[str, int]) -> tuple[str, tuple[int, ...]]:
        """Template and operands of any written arguments; a new template is checked as a whole."""
        operands: list[int] = []

        def take(match: re.Match) -> str:
            index = _operand(match, refs)
            if index is None:
                return match[0]
            operands.append(index)
            return SLOT

        try:
            template = OPERAND.sub(take, args)
            if template not in self.templates:
                read_template(template)
                self.templates[template] = template
                self.literals.update(p for p in template.split(", ") if _LITERAL.fullmatch(p))
        except Malformed as error:
            self.at = at
            self.fail_call(args, refs, error)
        return self.templates[template], tuple(operands)

    def fail_call(self, args: str, refs: dict[str, int], error: Malformed) -> NoReturn:
        """The error for arguments, at the column of the operand or word that is wrong."""
        start = self.column(args)
        for match in OPERAND.finditer(args):
            word = match[0]
            if word[0] in "%@" and _operand(match, refs) is None:
                kind = "node" if word[0] == "%" else "body"
                self.fail(f"unknown {kind} {word}", start + match.start(), "no line above defines it")
        shift, template_end = 0, 0
        for match in OPERAND.finditer(args):
            if _operand(match, refs) is None:
                continue
            template_end = match.start() - shift
            if template_end >= error.at:
                break
            shift += len(match[0]) - 1
        self.fail("the arguments cannot be read", start + error.at + shift, error.why)


def _operand(match: re.Match, refs: dict[str, int]) -> int | None:
    """The operand that a word of written arguments refers to; None for a string, a keyword or a constant."""
    word = match[0]
    if word[0] == '"':
        return None
    if "`" not in word:
        return refs.get(word)
    is_keyword = word[0] == "`" and match.string[match.end() : match.end() + 1] == "="
    return None if is_keyword else refs.get(operand_text(word))


def _split(line: str) -> tuple[str, str, str, str] | None:
    """Label with its ``%``, target, arguments and type of a node line, as written; None when it is none."""
    if line[3:4] == "`":
        quoted = QUOTED.match(line, 3)
        label, equals, rest = (
            (line[2 : quoted.end()], *_equals(line[quoted.end() :])) if quoted else ("", "", "")
        )
    else:
        label, equals, rest = line[2:].partition(" = ")
        label = label.rstrip(" ")
    call, gap, written = rest.rpartition("  ")
    if gap:
        call = call.rstrip(" ")
    else:
        call, written = written, ""
    if call[:1] == "`":
        quoted = QUOTED.match(call)
        target, args = (quoted[0], call[quoted.end() :]) if quoted else ("", "")
        paren, args = args[:1], args[1:]
    else:
        target, paren, args = call.partition("(")
    if not equals or paren != "(" or args[-1:] != ")":
        return None
    return label, target, args[:-1], written


def _equals(rest: str) -> tuple[str, str]:
    rest = rest.lstrip(" ")
    return ("=", rest[2:]) if rest.startswith("= ") else ("", "")


def _fast_call(args: str, refs: dict[str, int], literals: set[str]) -> tuple[str, tuple[int, ...]] | None:
    """Template and operands when every argument is an operand or a constant met before; None for all else."""
    operands, pieces = [], []
    for piece in args.split(", "):
        index = refs.get(piece)
        if index is not None:
            operands.append(index)
            pieces.append(SLOT)
        elif piece in literals:
            pieces.append(piece)
        else:
            return None
    return ", ".join(pieces), tuple(operands)


def _bare(text: str) -> str:
    """A label or body name: bare words and dots, or quoted."""
    if text[:1] == "`":
        return unquote(text)
    if not LABEL.fullmatch(text):
        raise Malformed("expected letters, digits, underscores and dots, or backticks")
    return text


def _target(text: str) -> str:
    if text[:1] == "`":
        return unquote(text)
    if not TARGET.fullmatch(text):
        raise Malformed("expected a qualified name, or backticks")
    return text


def _word(text: str) -> str:
    return unquote(text) if text[:1] == "`" else text


def _sources(text: str) -> list[str]:
    """Names separated by commas."""
    names, at = [], 0
    while True:
        found = QUOTED.match(text, at) or PATH.match(text, at)
        if found is None:
            raise Malformed("expected an input's name", at)
        names.append(unquote(found[0]) if found[0][0] == "`" else found[0])
        at = found.end()
        if at == len(text):
            return names
        if not text.startswith(", ", at):
            raise Malformed("expected a comma and one space", at)
        at += 2


_ENTRIES: dict[str, Callable[[_Parser, str], Entry]] = {
    "graph": _Parser.graph,
    "break": _Parser.break_,
    "frame": _Parser.skipped,
}
