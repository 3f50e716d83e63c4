"""peek open: the page of a capture, written and opened; nothing is served."""

from __future__ import annotations

import sys
import webbrowser

import pytest

from peek_backend import snapshot
from peek_backend.api import as_record
from peek_backend.cli.entry import run
from peek_backend.cli.opening import page_path
from peek_backend.errors import PeekError
from peek_backend.snapshot import jsonfile
from tests.builders import capture, transformer


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "train.peek.json"
    jsonfile.write(path, capture(transformer(2)))
    return path


def test_page_is_written_beside_the_capture_and_opened(saved, monkeypatch, capsys):
    """The page goes beside the file, the browser gets its file: address, and the message says where it is."""
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    assert run(["open", str(saved)]) == 0
    (url,) = opened
    assert url.startswith("file:///") and url.endswith(".html")
    assert (saved.parent / "train.peek.html").read_text().startswith("<!DOCTYPE html>")
    assert ".html" in capsys.readouterr().err


def test_without_a_browser_the_message_says_where(saved, monkeypatch, capsys):
    """Where no browser can be opened the page is there all the same."""
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    target = saved.parent / "elsewhere.html"
    assert run(["open", str(saved), "-o", str(target)]) == 0
    assert target.read_text().startswith("<!DOCTYPE html>")
    assert "no browser" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["train.peek.json", "page.txt", "-", "page"])
def test_a_page_is_written_to_a_page_alone(saved, monkeypatch, capsys, name):
    """A target that no browser would open is refused before anything is written: it may be the capture itself."""
    monkeypatch.chdir(saved.parent)
    before = saved.read_bytes()
    assert run(["open", str(saved), "-o", name]) == 2
    assert ".html" in capsys.readouterr().err
    assert saved.read_bytes() == before and [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_a_diff_is_not_written_over_a_side(saved, tmp_path, capsys):
    """-o with a file that is compared, by whatever name, is refused, and the file stays."""
    other, before = tmp_path / "new.json", saved.read_bytes()
    jsonfile.write(other, capture(transformer(3)))
    (tmp_path / "link.json").symlink_to(saved)
    for target in (saved, tmp_path / "link.json"):
        assert run(["diff", str(saved), str(other), "-o", str(target)]) == 2
        assert "one of the two sides" in capsys.readouterr().err
    assert saved.read_bytes() == before


def test_what_is_no_capture_is_refused(tmp_path, capsys):
    """A file that holds no capture is one message and exit code 2."""
    bad = tmp_path / "x.json"
    bad.write_text("{")
    assert run(["open", str(bad)]) == 2
    assert "x.json" in capsys.readouterr().err


def test_notebook_shows_a_page_a_picture_and_a_tree(saved, monkeypatch, tmp_path):
    """A notebook gets a framed page, a picture where one can be drawn, and text; a missing engine costs the picture alone."""
    monkeypatch.chdir(tmp_path)
    record = as_record(snapshot.read(saved))
    assert {"text/plain", "text/html"} <= set(record._repr_mimebundle_())
    monkeypatch.setattr("peek_backend.notebook.draw", _no_engine)
    assert "image/svg+xml" not in record._repr_mimebundle_()


def test_page_path_of_a_journal(tmp_path):
    """A journal's page loses both of its suffixes."""
    assert page_path(tmp_path / "train.peek.jsonl") == tmp_path / "train.html"


def test_big_page_of_a_notebook_is_a_link_to_a_file(saved, monkeypatch, tmp_path):
    """A page too big for a cell is written to peek-out, which git passes over, and linked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["peek_backend.render.html.page"], "MAX_INLINE", 1000)
    html = as_record(snapshot.read(saved))._repr_mimebundle_()["text/html"]
    (written,) = (tmp_path / "peek-out").glob("record-*.html")
    assert f'href="peek-out/{written.name}"' in html
    assert (tmp_path / "peek-out/.gitignore").read_text() == "*\n"


def _no_engine(*args):
    raise PeekError("no engine")


def relu_became_gelu(saved, tmp_path):
    """A second capture, in which another op stands where the first has ReLUs or SiLUs."""
    other = tmp_path / "new.peek.json"
    text = saved.read_text()
    assert "silu" in text
    other.write_text(text.replace("silu", "gelu"))
    return other


def test_against_an_older_capture_the_page_has_a_diff(saved, tmp_path, monkeypatch):
    """peek open --against writes the page with what changed, as the first view."""
    monkeypatch.chdir(tmp_path)
    new = relu_became_gelu(saved, tmp_path)
    assert run(["open", str(new), "--against", str(saved), "-o", "page.html", "--no-browser"]) == 0
    text = (tmp_path / "page.html").read_text()
    assert "op changed" in text
    assert 'id="capture"' in text


def test_a_diff_of_two_captures_as_html_is_their_page(saved, tmp_path, monkeypatch):
    """peek diff A B -o x.html of whole captures has the graphs to look at; of snapshots it has the differences."""
    monkeypatch.chdir(tmp_path)
    new = relu_became_gelu(saved, tmp_path)
    assert run(["diff", str(saved), str(new), "-o", "page.html"]) == 1
    text = (tmp_path / "page.html").read_text()
    assert "op changed" in text
    assert 'id="capture"' in text


def test_format_html_in_a_file_is_the_page(saved, tmp_path, capsys):
    """peek show FILE --format html -o page.html writes the page; printed, html is a table to paste."""
    target = tmp_path / "page.html"
    assert run(["show", str(saved), "--format", "html", "-o", str(target)]) == 0
    assert target.read_text().startswith("<!DOCTYPE html>")
    assert run(["show", str(saved), "--format", "html"]) == 0
    assert "<table" in capsys.readouterr().out
