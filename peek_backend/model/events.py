"""What happened around the graphs: frames, breaks, recompiles, guards, and what peek itself could not do."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

_BACKSLASH = "\\"  # of a capture that was made on Windows


class StackFrame(Struct, frozen=True, gc=False, omit_defaults=True):
    """One line of a Python stack: where, in which function, and the text of the line."""

    file: str
    line: int
    function: str = ""
    code: str = ""

    @property
    def place(self) -> str:
        """``model.py:31``: the file's own name, and the line."""
        return f"{self.file.replace(_BACKSLASH, '/').rpartition('/')[2]}:{self.line}"


class Problem(Struct, frozen=True, gc=False, omit_defaults=True):
    """Something that peek could not read; the program ran on. ``where`` is a compile id, node or option."""

    where: str
    what: str
    why: str = ""
    fix: str = ""


class GuardInfo(Struct, frozen=True, gc=False, omit_defaults=True):
    """One guard: ``source`` as a person writes it, ``text`` the condition, ``type`` torch's name of the kind.

    ``ambient`` marks state of the process rather than of an argument (grad mode, default device).
    """

    type: str
    text: str
    source: str = ""
    user: StackFrame | None = None
    ambient: bool = False


class FailedGuard(Struct, frozen=True, gc=False, omit_defaults=True):
    """A guard that did not hold, in words, with what it expected and what it got where that is known.

    ``variant`` is the compile id of the variant whose guard failed. ``holder`` says what holds a guarded attribute, where that
    is known: ``module`` (a torch.nn.Module, whose numbers Dynamo takes as constants), ``parameter`` (the guard is on one, whose
    sizes Dynamo takes as constants) or ``global``.
    """

    text: str
    source: str = ""
    expected: str | None = None
    got: str | None = None
    user: StackFrame | None = None
    variant: str | None = None
    holder: str = ""


class BreakInfo(Struct, frozen=True, gc=False, omit_defaults=True):
    """One break event, whether it split a frame or made Dynamo skip it.

    ``intent`` says who asked for it: ``user`` (``torch.compiler.disable``, ``graph_break()``), ``skiplist`` (torch: its own
    list of code it never traces, or a ``graph_break()`` in a library's code), ``unsupported``. ``compile_id`` is the graph that
    it ended, None when there is none. ``split`` is False when the whole frame was left in eager; ``block`` then says what it is
    inside of, where that is why: ``loop``, ``try`` or ``with``. ``resumes`` is False where the frame is compiled up to the break,
    and all that follows in it runs in eager. ``library`` is whose code breaks (``torch``, ``transformers``), empty for the
    program's own and for Python's; ``user`` is the line of the program that leads there, where it is another. ``id`` is torch's
    own (``GB0059``).
    """

    reason: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    id: str | None = None
    link: str | None = None
    context: str = ""
    stack: tuple[StackFrame, ...] = ()
    intent: Literal["user", "skiplist", "unsupported"] = "unsupported"
    compile_id: str | None = None
    frame: int | None = None
    split: bool = True
    block: str = ""
    resumes: bool = True
    library: str = ""
    user: StackFrame | None = None


class RecompileInfo(Struct, frozen=True, gc=False, omit_defaults=True):
    """Why a code object was compiled again. ``variant`` counts from 1, so a recompile's is 2 or more.

    ``failed`` has one guard of every cached variant, the one that explains most first. ``refused`` marks the attempt that
    the recompile limit turned down: no compile, the frame runs in eager since. ``user`` is the line that made the call, ``call``
    its ordinal among the calls of the code object where calls are counted.
    """

    compile_id: str
    frame: int | None = None
    variant: int = 0
    failed: tuple[FailedGuard, ...] = ()
    changed: tuple[str, ...] = ()
    advice: str = ""
    refused: bool = False
    resume: bool = False
    user: StackFrame | None = None
    call: int | None = None


class Phase(Struct, frozen=True, gc=False, omit_defaults=True):
    """Seconds that one compile spent in one phase (``dynamo``, ``aot``, ``inductor``, ``codegen``, ``total``)."""

    name: str
    seconds: float


class FrameRecord(Struct, frozen=True, gc=False, omit_defaults=True):
    """A code object that Dynamo looked at.

    ``outcome``: ``compiled``, ``broken`` (went on in resume frames), ``skipped`` (left in eager by a break or by torch's
    list), ``limit`` (refused by the recompile limit, eager since), ``failed`` (after capture, or with an error), ``empty`` (no
    tensor op to compile). ``resume_of`` is the index of the frame that this one continues, ``resume`` its
    ordinal there; ``name`` reads ``f ▸ resume#1``. ``fix`` mends a failure (it may be several lines of code), ``user`` is
    the line that failed. ``callers`` led to the frame when it was first compiled, outermost first. ``resets`` counts how often
    its compiled code was dropped (``torch._dynamo.reset()``) and made anew, which is no recompile. ``eager_calls`` were run in
    eager because a stance let nothing new be compiled; ``eager_why`` says which stance, and which guard failed. ``outer`` is
    the index of the function that the program called, where a break of that one, at ``cut``, made this frame one of its own.
    """

    name: str
    file: str = ""
    line: int = 0
    outcome: str = "compiled"
    reason: str = ""
    compile_ids: tuple[str, ...] = ()
    resume_of: int | None = None
    resume: int = 0
    phases: dict[str, tuple[Phase, ...]] = {}
    calls: dict[str, int] = {}
    fix: str = ""
    user: StackFrame | None = None
    callers: tuple[StackFrame, ...] = ()
    resets: int = 0
    eager_calls: int = 0
    eager_why: str = ""
    outer: int | None = None
    cut: StackFrame | None = None

    @property
    def function(self) -> str:
        """The function's own name, as a stack has it; that of the function that a resume frame continues."""
        return own_name(self.name)


def own_name(frame: str) -> str:
    """``forward`` of a frame's name: ``Model.forward ▸ resume#1``."""
    return frame.partition(" ▸ ")[0].rpartition(".")[2]


class EarlierFrame(Struct, frozen=True, gc=False, omit_defaults=True):
    """A function that was compiled before the capture began. Its graphs and breaks are gone; its guards can still be read.

    ``variants`` maps the compile id of each to its guards, as a person writes them; the first of many.
    """

    name: str
    file: str = ""
    line: int = 0
    variants: dict[str, tuple[str, ...]] = {}
