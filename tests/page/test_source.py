"""The user's code: whole and indented where the files are there and unchanged, else what was recorded, with the reason."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from peek_backend.export import source_texts, whole_text
from peek_backend.notebook import bundle
from tests.page.synthetic import capture

TEXT = "\n".join(
    [
        "import torch", *["# a line"] * 12, "", "class Net:", "    def other(self):", "        pass", *["# a line"] * 12,
        "    def forward(self, x):", "        if x.ndim:", "            y = x * 2", "        return y", "",
    ]
)  # fmt: skip
LINE = TEXT.splitlines().index("            y = x * 2") + 1


def capture_of(path):
    """A capture of which every node was made by one line of ``path``."""
    record = capture(20)
    graph = record.graphs[0]
    nodes = [
        n
        if n.source is None
        else replace(n, source=replace(n.source, file=str(path), line=LINE, code="y = x * 2"))
        for n in graph.nodes
    ]
    return replace(record, graphs=(replace(graph, nodes=tuple(nodes)),))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(TEXT)
    return path


def test_a_written_page_has_the_source(open_page, file):
    """Code keeps its indentation, the definitions around it show, what made nothing is folded and unfolds."""
    opened = open_page(html=whole_text(capture_of(file), "html"), hash_="#v=source")
    made = opened.tab.locator(f'.line[data-line="{LINE}"] code')
    assert made.evaluate("(e) => e.textContent") == "            y = x * 2"
    assert made.evaluate("(e) => getComputedStyle(e).whiteSpace").startswith("pre")
    shown = opened.tab.inner_text(".code")
    assert "class Net:" in shown
    assert "def forward(self, x):" in shown
    assert "def other" not in shown
    opened.tab.click(".gap .link >> nth=-1")
    assert "def other" in opened.tab.inner_text(".code")


def test_a_changed_file_is_not_shown_as_the_code_of_the_capture(open_page, file):
    """Where a recorded line reads otherwise now, only what was recorded shows, and why."""
    file.write_text(TEXT.replace("y = x * 2", "y = x * 3"))
    opened = open_page(html=whole_text(capture_of(file), "html"), hash_="#v=source")
    text = opened.tab.inner_text(".code")
    assert "has changed since the capture" in text
    assert "y = x * 2" in text
    assert "x * 3" not in text


def test_a_form_feed_is_no_line(open_page, file):
    """A file with form feeds between its parts is the one that was captured, and its lines keep their numbers."""
    file.write_text(TEXT.replace("import torch", "import torch  # \f", 1))
    opened = open_page(html=whole_text(capture_of(file), "html"), hash_="#v=source")
    made = opened.tab.locator(f'.line[data-line="{LINE}"] code')
    assert made.evaluate("(e) => e.textContent") == "            y = x * 2"
    assert "has changed" not in opened.tab.inner_text(".code")


def test_a_missing_file_is_told(open_page, tmp_path):
    """Without the file the recorded lines show, and why only those."""
    opened = open_page(html=whole_text(capture_of(tmp_path / "gone.py"), "html"), hash_="#v=source")
    assert "was not there when this page was written" in opened.tab.inner_text(".code")


def test_what_is_no_source_is_left_out(tmp_path):
    """A folder, a file that is no text, one that is too long, and no file: none of them is an error."""
    (tmp_path / "a.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "b.py").write_text("x = 1\n" * 200_000)
    for path in (tmp_path, tmp_path / "a.py", tmp_path / "b.py", "<string>", "a\x00b"):
        assert source_texts(capture_of(path)) == {}


def test_a_notebook_has_the_source_too(file):
    """The page in a cell carries the files as a written page does."""
    with_source = len(bundle(capture_of(file))["text/html"])
    file.unlink()
    assert with_source > len(bundle(capture_of(file))["text/html"])
