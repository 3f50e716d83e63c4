"""No text can be taken for a format's own syntax, and what is shown is the text."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tabulate import tabulate, tabulate_formats

from peek_backend.render.escape import (
    cell_escape,
    cut,
    cut_middle,
    html_text,
    latex,
    markdown,
    markdown_code,
    mermaid,
    osc8,
    rst,
    visible,
    width,
)
from tests.builders import HOSTILE

texts = st.text(max_size=40) | st.sampled_from(list(HOSTILE.values())[:-1])


@given(texts)
def test_visible_text_moves_no_terminal(text):
    """What is printed holds no control, direction or separator character, so it stays on its line."""
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    assert all(unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") for c in shown)
    assert not set(shown) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u200e\u200f")


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=40))
def test_plain_text_is_untouched(text):
    """Letters, digits and signs of any script, emoji too, are shown as they are."""
    assert visible(text) == text


def test_control_characters_are_spelled():
    """A control character reads as Python spells it."""
    assert visible("a\nb\x1b[0m\u202e\ud800") == r"a\nb\x1b[0m\u202e\ud800"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("table_format", tabulate_formats)
def test_every_format_keeps_its_rows(table_format, text):
    """In every table format a row with hostile cells is one row: as many lines and cells as with plain ones."""
    escape = cell_escape(table_format)

    def lines(cell):
        rows = [["a", escape(cell), "b"], ["c", "d", "e"]]
        return tabulate(rows, ["x", "y", "z"], tablefmt=table_format, disable_numparse=True).splitlines()

    assert len(lines(text)) == len(lines("plain"))


@given(texts)
def test_markdown_cells_hold_no_bare_mark(text):
    """Every pipe, backtick, star and bracket that Markdown would read is escaped, and HTML cannot open."""
    shown = markdown(text)
    bare = re.sub(r"\\.", "", shown)
    assert not set(bare) & set("|`*<>~$")
    assert "](" not in bare


def test_markdown_leaves_readable_text_alone():
    """Names and shapes are written without a backslash."""
    for text in ("l_x__1", "[s0, 16]", "F.linear(x, w)", "model.py:12", "a - b + c", "x #1"):
        assert markdown(text) == text


def test_markdown_escapes_what_would_be_emphasis():
    """A name that starts with underscores, and products, stay as they are."""
    assert markdown("__init__ s0*s1*s2") == r"\_\_init__ s0\*s1\*s2"


@given(texts.filter(bool))
def test_code_spans_end_where_they_should(text):
    """The fence of a code span is a run of backticks that the text does not hold."""
    span = markdown_code(text)
    fence = re.match("`+", span)[0]
    inside = span[len(fence) : -len(fence)]
    assert span.endswith(fence)
    assert fence not in re.findall("`+", inside)


@given(texts)
def test_html_reads_back(text):
    """HTML holds no bare bracket or quote and unescapes to the visible text."""
    assert not set(html_text(text)) & set("<>\"'")
    assert html.unescape(html_text(text)) == visible(text)


@given(texts)
def test_mermaid_labels_read_back(text):
    """A Mermaid label holds no quote, bracket or semicolon but in entities, and these lead back to the text."""
    label = mermaid(text)
    assert not set(re.sub(r"#\d+;", "", label)) & set('"<>{}|`;#&%\\\n')
    assert re.sub(r"#(\d+);", lambda m: chr(int(m[1])), label) == visible(text)


def test_latex_and_rst_marks():
    """LaTeX's special characters become commands, reStructuredText's marks get a backslash."""
    assert latex("50%_{x}\\") == r"50\%\_\{x\}\textbackslash{}"
    assert rst("*a* `b` c_ d_e") == r"\*a\* \`b\` c\_ d_e"


def test_a_link_cannot_be_left_by_its_address():
    """Control characters in the address of a terminal link are percent-encoded."""
    link = osc8("file:///a\x1b\\b c", "text")
    assert link == "\x1b]8;;file:///a%1B\\b%20c\x1b\\text\x1b]8;;\x1b\\"


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("漢字", 4), ("🔥", 2), ("e\u0301", 1), ("👩\u200d💻", 4), ("", 0)]
)
def test_width(text, columns):
    """Wide characters take two columns, combining ones none."""
    assert width(text) == columns


@given(st.text(st.sampled_from("abc漢🔥é\u0301"), max_size=30), st.integers(1, 20))
def test_cut_text_fits(text, limit):
    """Cut text takes at most the limit, keeps its start, and is whole when it fits."""
    for short in (cut(text, limit), cut_middle(text, limit), cut_middle(text, limit, 2 / 3)):
        assert width(short) <= limit
        assert (short == text) == (width(text) <= limit)
    assert text.startswith(cut(text, limit).removesuffix("…"))


def test_the_middle_goes():
    """A long path keeps its ends, the last one as much as asked for."""
    assert cut_middle("layers.0.self_attn.q_proj.weight", 17) == "layers.0…j.weight"
    assert cut_middle("layers.0.self_attn.q_proj.weight", 17, 2 / 3) == "layers…roj.weight"
