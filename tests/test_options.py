"""Options: given values, PEEK_ variables, and what is said about a bad one."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import tabulate

from peek_backend.errors import PeekError
from peek_backend.options import (
    COLUMNS,
    OPTIONS,
    TABLE_FORMATS,
    Options,
    SaveTarget,
    resolve,
    variable_of,
    wants_color,
)
from peek_backend.render.view import COLUMNS as RENDERED_COLUMNS


def given(**values):
    options, problems = resolve(values, {})
    assert problems == ()
    return options


def test_nothing_given_is_the_defaults():
    """Without options and variables the defaults hold and nothing is said."""
    assert resolve({}, {}) == (Options(), ())


def test_table_formats_are_tabulates():
    """The formats spelled out are those of the tabulate that is installed."""
    assert sorted(TABLE_FORMATS) == sorted(tabulate.tabulate_formats)


@pytest.mark.parametrize("name", OPTIONS)
def test_none_means_not_given(name):
    """None leaves an option to its variable, and to its default after that."""
    assert getattr(given(**{name: None}), name) == getattr(Options(), name)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("inner", " inductor ", "inductor"),
        ("inner", print, print),
        ("format", "GitHub", "github"),
        ("format", "tree", "tree"),
        ("columns", "index, op,target,op", ("index", "op", "target")),
        ("columns", ["shape", "Name"], ("shape", "name")),
        ("quiet", "YES", True),
        ("quiet", "off", False),
        ("strict", 1, True),
        ("strict", False, False),
        ("color", True, "always"),
        ("color", "Never", "never"),
    ],
)
def test_good_values(name, value, expected):
    """Each spelling that a person would expect is understood."""
    assert getattr(given(**{name: value}), name) == expected


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("g.dot", "dot"),
        ("g.gv", "dot"),
        ("g.SVG", "svg"),
        ("a/b.png", "png"),
        ("g.json", "json"),
        ("graphs", "folder"),
        ("graphs.svg/", "folder"),
        ("v1.2/", "folder"),
        (".hidden", "folder"),
    ],
)
def test_save_kind_by_suffix(path, kind):
    """The suffix picks what is saved; no suffix or a slash at the end means a folder."""
    assert given(save=path).save == SaveTarget(Path(path), kind)


def test_save_existing_folder_with_a_suffix(tmp_path):
    """A folder that exists is one even when its name ends like a file's."""
    folder = tmp_path / "runs.v2"
    folder.mkdir()
    assert given(save=folder).save == SaveTarget(folder, "folder")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("format", "gihub", "did you mean 'github'?"),
        ("format", 3, "3 is no format"),
        ("columns", "index,shap", "did you mean 'shape'?"),
        ("columns", ",", "no column is named"),
        ("columns", 7, "7 is no list of columns"),
        ("columns", ["op", 1], "no list of columns"),
        ("save", "g.jsn", "did you mean '.json'?"),
        ("save", "g.sgv", "end the path with / to mean a folder"),
        ("save", "", "is no path"),
        ("save", b"x.svg", "is no path"),
        ("save", "a\0b.svg", "is no path"),
        ("quiet", "maybe", "neither yes nor no"),
        ("quiet", 2, "neither yes nor no"),
        ("quiet", [], "neither yes nor no"),
        ("color", "allways", "did you mean 'always'?"),
        ("inner", 5, "neither a backend's name nor a callable"),
        ("inner", " ", "neither a backend's name nor a callable"),
        ("file", "out.txt", "save="),
        ("file", io.BytesIO(), "takes no text"),
        ("file", io.BufferedWriter(io.BytesIO()), "takes no text"),
        ("file", object(), "takes no text"),
    ],
)
def test_bad_value_is_refused(name, value, says):
    """A bad value given in a call is one error that names the option and how to mend it."""
    with pytest.raises(PeekError) as caught:
        resolve({name: value}, {})
    assert f"option {name!r}" in str(caught.value)
    assert says in str(caught.value)


def test_closed_stream_is_refused():
    """A closed stream is refused before the program runs into it."""
    stream = io.StringIO()
    stream.close()
    with pytest.raises(PeekError, match="closed"):
        resolve({"file": stream}, {})


def test_unknown_option_names_the_nearest():
    """An unknown option is refused, with the nearest right one."""
    with pytest.raises(PeekError) as caught:
        resolve({"formt": "github"}, {})
    assert "did you mean 'format'?" in str(caught.value)


def test_given_wins_over_variable():
    """An option beats its variable, which beats the default."""
    environ = {"PEEK_FORMAT": "github", "PEEK_QUIET": "1", "PEEK_COLUMNS": "op"}
    options, problems = resolve({"format": "tsv", "quiet": None}, environ)
    assert (options.format, options.quiet, options.columns, problems) == ("tsv", True, ("op",), ())


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("PEEK_FORMAT", "gihub", "did you mean 'github'?"),
        ("PEEK_FORMT", "github", "did you mean PEEK_FORMAT?"),
        ("PEEK_format", "github", "did you mean PEEK_FORMAT?"),
        ("PEEK_FILE", "out.txt", "pass file= from Python"),
        ("PEEK_SAVE", "x.jsn", "did you mean '.json'?"),
        ("PEEK_QUIET", "maybe", "write one of 1"),
    ],
)
def test_bad_variable_is_a_problem(variable, value, says):
    """A bad variable never raises: it is named in a Problem, and the default holds."""
    options, problems = resolve({}, {variable: value})
    assert options == Options()
    assert [p.where for p in problems] == [variable]
    assert says in problems[0].fix


def test_empty_and_foreign_variables_are_nothing():
    """An empty variable is unset, and names without our prefix are not looked at."""
    assert resolve({}, {"PEEK_FORMAT": " ", "PEEKABOO": "1", "_PEEK_RUN": "x"}) == (Options(), ())


def test_every_variable_is_read():
    """Each option that a text can say has a variable that works."""
    texts = {"inner": "eager", "format": "tsv", "columns": "op", "save": "out.json", "color": "never"}
    texts |= {"stages": "joint", "stages_from": "log"}
    environ = {variable_of(n): texts.get(n, "1") for n, o in OPTIONS.items() if o.variable}
    options, problems = resolve({}, environ)
    assert problems == ()
    unread = {n for n in OPTIONS if getattr(options, n) == getattr(Options(), n)}
    assert unread == {n for n, o in OPTIONS.items() if not o.variable}


def test_columns_are_the_renderers():
    """The columns that an option can name are those that a table can show."""
    assert sorted(COLUMNS) == sorted(RENDERED_COLUMNS)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("color", "stream", "environ", "expected"),
    [
        ("auto", Terminal(), {}, True),
        ("auto", io.StringIO(), {}, False),
        ("auto", Terminal(), {"NO_COLOR": "1"}, False),
        ("auto", Terminal(), {"TERM": "dumb"}, False),
        ("auto", io.StringIO(), {"FORCE_COLOR": "1"}, True),
        ("always", io.StringIO(), {"NO_COLOR": "1"}, True),
        ("never", Terminal(), {"FORCE_COLOR": "1"}, False),
        ("auto", object(), {}, False),
    ],
)
def test_color(color, stream, environ, expected):
    """Colour goes to terminals, unless the user or the environment says otherwise."""
    assert wants_color(color, stream, environ) is expected
