"""The backend by its name: options, output, files, errors."""

from __future__ import annotations

import contextlib
import io
import json

import pytest
import torch

import peek_backend
from peek_backend.backend import peek


def run(fn=lambda x: x.sin() + 1, *args, **options):
    options.setdefault("file", io.StringIO())
    compiled = torch.compile(fn, backend="peek", options=options)
    result = compiled(*(args or (torch.ones(3),)))
    return result, options["file"].getvalue()


def test_registered_by_entry_point():
    """torch knows the name without an import of ours."""
    assert "peek" in torch._dynamo.list_backends()
    assert torch._dynamo.lookup_backend("peek") is peek


def test_prints_one_table_a_graph_to_stderr(capfd):
    """Each captured graph is one table on stderr; stdout belongs to the program."""

    def fn(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    torch.compile(fn, backend="peek")(torch.ones(3))
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("placeholder") == 2
    assert err.index("0/0") < err.index("1/0")


def test_format_and_columns():
    """format and columns choose the table; numbers stay as written."""
    _, text = run(format="github", columns="name,shape,bytes")
    header = next(line for line in text.splitlines() if line.startswith("|"))
    assert [c.strip() for c in header.strip("|").split("|")] == ["name", "shape", "bytes"]


def test_quiet_and_save(tmp_path):
    """quiet prints nothing; save writes what the suffix says, and a folder gets capture, table and picture."""
    _, text = run(quiet=True, save=str(tmp_path / "graph.json"))
    assert text == ""
    saved = json.loads((tmp_path / "graph.json").read_text())
    assert saved["graphs"][0]["compile_id"] == "0/0"
    torch._dynamo.reset()
    run(quiet=True, save=str(tmp_path / "all") + "/")
    names = {p.name for p in (tmp_path / "all").iterdir()}
    assert {"capture.json", "0_0.txt"} <= names
    assert "0_0.svg" in names or "0_0.dot" in names


@pytest.mark.parametrize("suffix", ["dot", "gv", "txt", "md", "json"])
def test_several_graphs_in_save(tmp_path, suffix):
    """Several graphs of one run all end up in the file, or beside it where a file holds one."""

    def fn(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    run(fn, quiet=True, save=str(tmp_path / f"g.{suffix}"))
    texts = {p.name: p.read_text() for p in tmp_path.iterdir()}
    if suffix in ("dot", "gv"):
        assert set(texts) == {f"g.{suffix}", f"g-1_0.{suffix}"}
        assert all("digraph" in t for t in texts.values())
    else:
        assert set(texts) == {f"g.{suffix}"}
        assert "sin" in texts[f"g.{suffix}"] and "cos" in texts[f"g.{suffix}"]


def test_environment_variables(monkeypatch, tmp_path):
    """PEEK_ variables set options, a given option wins, and a bad variable is told while the default holds."""
    monkeypatch.setenv("PEEK_FORMAT", "github")
    monkeypatch.setenv("PEEK_COLUMNS", "nmae")
    _, text = run()
    assert "|" in text and "PEEK_COLUMNS" in text and "placeholder" in text
    torch._dynamo.reset()
    _, text = run(format="plain")
    assert "| " not in text.splitlines()[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fromat": "github"}, ["fromat", "format"]),
        ({"format": "gitub"}, ["gitub", "github"]),
        ({"columns": "shap"}, ["shap", "shape"]),
        ({"save": "graph.svgg"}, ["svg"]),
        ({"quiet": "maybe"}, ["maybe", "quiet"]),
        ({"inner": "inductr"}, ["inductr", "inductor"]),
        ({"inner": "peek"}, ["itself"]),
    ],
)
def test_bad_options_name_the_right_one(options, words):
    """An unknown option or value is refused at the first call, before the inner backend, naming the nearest right one."""
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as error:
        run(**options)
    assert all(word in str(error.value) for word in words)
    assert isinstance(error.value.inner_exception, peek_backend.PeekError)


def test_inner_backend_runs():
    """inner names any registered backend or is a callable, which gets the graph and the inputs."""
    called = []

    def inner(gm, example_inputs):
        called.append(len(example_inputs))
        return gm.forward

    run(inner=inner)
    torch._dynamo.reset()
    result, text = run(inner="aot_eager")
    assert called == [1]
    assert torch.allclose(result, torch.ones(3).sin() + 1)
    assert "sin" in text


def test_mode_reaches_inductor():
    """mode is for the inner backend: Inductor gets it as config, as it would by name."""
    from torch._inductor import config as inductor

    seen = []

    def spy(gm, example_inputs, **kwargs):
        seen.append(kwargs)
        return gm.forward

    from peek_backend.capture.inner import hand_on

    hand_on(torch.fx.symbolic_trace(lambda x: x), [], spy, mode="max-autotune", inner_options={"a": 1})
    assert seen == [{"mode": "max-autotune", "options": {"a": 1}}]
    assert not inductor.max_autotune


@pytest.mark.parametrize(
    "error", [ValueError("mine"), torch._dynamo.exc.SkipFrame("steer"), KeyboardInterrupt()]
)
def test_inner_exceptions_pass_unchanged(error):
    """What the inner backend raises is what a caller of peek sees: the same object, errors that steer Dynamo too."""

    def inner(gm, example_inputs):
        raise error

    gm = torch.fx.symbolic_trace(lambda x: x.sin())
    with pytest.raises(type(error)) as caught:
        peek(gm, [torch.ones(1)], options={"quiet": True, "inner": inner})
    assert caught.value is error


def test_unwritable_place_is_told_and_the_program_runs():
    """A file that cannot be written is one message; the result is right."""
    result, text = run(quiet=True, save="/dev/null/graph.json")
    assert torch.allclose(result, torch.ones(3).sin() + 1)
    assert "/dev/null/graph.json" in text


def test_full_disk_is_told():
    """A full disk loses nothing that was there before and stops nothing."""
    result, _ = run(quiet=True, save="/dev/full")
    assert result.shape == (3,)
    torch._dynamo.reset()
    full = open("/dev/full", "w")  # noqa: SIM115 - closing it raises
    result = torch.compile(lambda x: x.sin(), backend="peek", options={"file": full})(torch.ones(3))
    assert result.shape == (3,)
    with contextlib.suppress(OSError):
        full.close()


def test_closed_stream_does_not_stop_the_program():
    """A stream that is closed while the program runs ends no compile."""
    stream = io.StringIO()
    compiled = torch.compile(lambda x: x.sin(), backend="peek", options={"file": stream})
    compiled(torch.ones(3))
    stream.close()
    from peek_backend.backend import _look
    from peek_backend.options import Options

    _look(torch.fx.symbolic_trace(lambda x: x), [], Options(file=stream), ())


def test_strict_raises_on_what_cannot_be_read(monkeypatch):
    """With strict a Problem is an error that names the node; without, it is shown and the program runs."""
    from peek_backend.capture.values import ValueReader

    monkeypatch.setattr(ValueReader, "read", lambda self, value: 1 / 0)
    result, text = run()
    assert result.shape == (3,) and "ZeroDivisionError" in text
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="ZeroDivisionError"):
        run(strict=True)


def test_bad_inner_variable_is_told_and_the_default_holds(monkeypatch):
    """PEEK_INNER that torch does not know is one message; the graph runs as captured."""
    monkeypatch.setenv("PEEK_INNER", "inducter")
    result, text = run()
    assert torch.allclose(result, torch.ones(3).sin() + 1)
    assert "PEEK_INNER" in text and "inductor" in text


def test_notes_of_pictures_are_no_problems(tmp_path):
    """What a saved picture folds is told with a command that exists, and not at all when quiet."""
    net = torch.nn.Sequential(
        *[torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()) for _ in range(40)]
    )
    args = (net, torch.ones(1, 4))
    _, text = run(*args, save=str(tmp_path / "a.dot"))
    assert "folded" in text and "expand=" not in text
    torch._dynamo.reset()
    _, text = run(*args, save=str(tmp_path / "b.dot"), quiet=True)
    assert text == ""
