"""Images: either engine draws, and every way to fail is one error and no process left behind."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from peek_backend.errors import PeekError
from peek_backend.render import image
from peek_backend.render.dot import dot
from peek_backend.render.image import engine_version, find_engine, how_to_install, render_image
from peek_backend.render.theme import DARK
from tests.builders import transformer

PURE = Path(sysconfig.get_path("scripts")) / "graphviz-pure"
needs_dot = pytest.mark.skipif(not shutil.which("dot"), reason="needs Graphviz")
needs_pure = pytest.mark.skipif(not PURE.exists(), reason="needs graphviz-pure")
posix = pytest.mark.skipif(os.name != "posix", reason="scripts stand in for dot")


@pytest.fixture
def no_dot(monkeypatch, tmp_path):
    """A PATH on which there is no dot."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def nothing(monkeypatch, no_dot):
    """No engine anywhere."""
    monkeypatch.setattr(image, "_script_folders", lambda: [str(no_dot)])


@pytest.fixture
def fake_dot(no_dot, nothing):
    """Puts a shell script in dot's place."""

    def write(script):
        path = no_dot / "dot"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return write


def children():
    """Processes of ours that have not been reaped."""
    try:
        return os.waitpid(-1, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return False


@needs_dot
@pytest.mark.parametrize(("kind", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_dot_draws_every_kind(kind, start):
    """The system's dot writes SVG, PNG and PDF."""
    assert find_engine(kind).name == "dot"
    assert render_image(dot(transformer(2)), kind).startswith(start)


@needs_pure
@pytest.mark.parametrize(("kind", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_graphviz_pure_draws_without_dot(no_dot, kind, start):
    """Without dot on PATH the wheel in this environment draws SVG and PNG, though it is on no PATH either."""
    assert find_engine(kind).name == "graphviz-pure"
    assert render_image(dot(transformer(2)), kind).startswith(start)


@needs_pure
def test_graphviz_pure_has_no_pdf(no_dot):
    """A PDF without dot says which engine is here, what it lacks, and what to do."""
    with pytest.raises(PeekError, match="pdf") as error:
        render_image("digraph {}", "pdf")
    assert "graphviz-pure" in error.value.why and "svg and png" in error.value.why
    assert "graphviz" in error.value.fix and ".svg" in error.value.fix


@pytest.mark.parametrize(
    "engine", [pytest.param("dot", marks=needs_dot), pytest.param("pure", marks=needs_pure)]
)
def test_both_engines_show_the_same_words(engine, request):
    """Whichever engine draws, all the words are there."""
    if engine == "pure":
        request.getfixturevalue("no_dot")
    words = re.findall(r">([^<]+)</text>", render_image(dot(transformer(3)), "svg").decode())
    words = [w.replace("&#160;", " ").strip() for w in words]
    assert {"embed", "×3", "f32[s0, 16]", "scaled_dot_product_attention"} <= set(words) | {"f32[s0, 16]"}
    assert any("weight f32[1000, 64]" in w for w in words)


def test_no_engine_names_the_command(nothing):
    """Without any engine the error has the command that brings one; find_engine gives None."""
    assert find_engine() is None
    with pytest.raises(PeekError, match="cannot draw a svg") as error:
        render_image("digraph {}", "svg")
    assert "pip install 'peek-backend[images]'" in error.value.fix
    assert how_to_install("pdf").count("pip") == 0


def test_unknown_kind_is_refused():
    """A kind that is none names the nearest."""
    with pytest.raises(PeekError, match="svgg") as error:
        render_image("digraph {}", "svgg")
    assert "'svg'" in error.value.fix


@needs_dot
def test_bad_dot_is_one_error():
    """DOT that does not parse ends in an error with dot's own words."""
    with pytest.raises(PeekError, match="could not draw the svg") as error:
        render_image("digraph { a -> ", "svg")
    assert "syntax error" in error.value.why


@posix
def test_a_render_that_takes_too_long_is_stopped(fake_dot, tmp_path):
    """After the time-out the process is gone, and the error says how to fold more."""
    fake_dot(f"echo $$ > {tmp_path}/pid\nexec /bin/sleep 60")
    start = time.monotonic()
    with pytest.raises(PeekError, match=r"not ready after 0\.5 seconds") as error:
        render_image("digraph {}", "png", timeout=0.5)
    assert time.monotonic() - start < 10
    assert "depth" in error.value.fix
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not children()


@posix
def test_a_killed_render_is_one_error(fake_dot):
    """A render that the system kills names the signal."""
    fake_dot("kill -9 $$")
    with pytest.raises(PeekError, match="killed by SIGKILL") as error:
        render_image("digraph {}", "png")
    assert "memory" in error.value.problem
    assert not children()


@posix
@pytest.mark.parametrize(("script", "words"), [("exit 0", "wrote no png"), ("echo hello", "wrote no png")])
def test_output_that_is_no_image_is_refused(fake_dot, script, words):
    """An engine that claims success but writes nothing, or something else, is an error and no file."""
    fake_dot(script)
    with pytest.raises(PeekError, match=words):
        render_image("digraph {}", "png")


@posix
def test_an_engine_that_does_not_start(fake_dot, no_dot):
    """A dot that the system cannot run is an error with the command that brings another."""
    fake_dot("")
    (no_dot / "dot").write_bytes(b"\x7fELF broken")
    with pytest.raises(PeekError, match="did not start"):
        render_image("digraph {}", "svg")
    assert engine_version(find_engine()) == ""


@needs_dot
def test_the_engine_tells_its_version():
    """doctor can say which Graphviz there is."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", engine_version(find_engine()))


@needs_dot
def test_svg_follows_dark_mode_only_in_auto():
    """theme auto carries the dark colours as a style; light and dark are fixed."""
    g = transformer(1)
    style = b"prefers-color-scheme: dark"
    assert style in render_image(dot(g), "svg")
    assert style not in render_image(dot(g, theme="light"), "svg")
    dark = render_image(dot(g, theme="dark"), "svg")
    assert style not in dark and DARK.page.encode() in dark


@needs_dot
def test_no_colour_is_left_light_in_dark_mode():
    """Every colour that the SVG uses has a rule that turns it dark."""
    svg = render_image(dot(transformer(2)), "svg").decode()
    body = svg.split("</style>")[1]
    used = set(re.findall(r'(?:fill|stroke)="(#\w+|[a-z]+)"', body)) - {"none", "transparent"}
    assert used
    assert {c for c in used if f'="{c}"]' not in svg.split("</style>")[0]} == set()


@needs_dot
def test_a_huge_png_is_scaled_down():
    """A picture that would be taller than a PNG can be is made smaller, and stays below 95 million pixels."""
    chain = "".join(f"n{i} -> n{i + 1};" for i in range(600))
    png = render_image(f"digraph {{ {chain} }}", "png")
    width, height = struct.unpack(">II", png[16:24])
    assert height <= 13_300 and width * height < 95e6


@needs_dot
def test_text_is_sharp():
    """PNGs have 120 dots an inch: a box is over 30 pixels high."""
    width, height = struct.unpack(">II", render_image("digraph { a }", "png")[16:24])
    assert (width, height) > (80, 60)


def test_rendering_needs_no_torch():
    """Pictures of a saved capture are made without importing torch."""
    code = "import sys, peek_backend.render.dot, peek_backend.render.image; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
