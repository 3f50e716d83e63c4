"""The bundler joins modules in the right order and refuses what it does not know."""

from __future__ import annotations

import pytest

from peek_backend.render.html.bundler import bundle, exports, modules


def test_a_module_comes_after_what_it_imports():
    """Imports are defined before the modules that use them, each once."""
    text = bundle({
        "main.js": 'import { b } from "./b.js";\nimport { c } from "./c.js";\nb(c);\n',
        "b.js": 'import { c } from "./c.js";\nexport const b = (x) => x + c;\n',
        "c.js": "export const c = 1;\n",
    })  # fmt: skip
    assert text.index("m_c =") < text.index("m_b =") < text.index("m_main =")
    assert text.count("m_c =") == 1


def test_exports_of_every_kind_are_found():
    """Functions, async functions, classes and constants are exported, inner ones not."""
    text = "export function a() {}\nexport async function b() {}\nexport class C {}\nexport const d = 1;\nconst e = 2;\n"
    assert exports(text) == ["a", "b", "C", "d"]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (
            {"main.js": 'import { a } from "./a.js";\n', "a.js": 'import { b } from "./main.js";\n'},
            "import each other",
        ),
        ({"main.js": 'import { a } from "./gone.js";\n'}, "does not exist"),
        ({"main.js": "export default 1;\n"}, "does not know"),
        ({"main.js": 'import a from "./a.js";\n', "a.js": ""}, "does not know"),
    ],
)
def test_what_the_bundler_cannot_join_is_an_error(sources, message):
    """A cycle, a missing module and unknown syntax are named, not guessed at."""
    with pytest.raises(ValueError, match=message):
        bundle(sources)


def test_every_name_that_the_page_imports_is_exported():
    """No import of the page's own modules is undefined."""
    import re

    sources = modules()
    for name, text in sources.items():
        for names, module in re.findall(r'^import \{([^}]*)\} from "\./([\w.-]+)";$', text, re.M):
            missing = {n.strip() for n in names.split(",")} - set(exports(sources[module]))
            assert not missing, f"{name} imports {missing} from {module}"


def test_the_script_neither_evaluates_text_nor_sets_markup():
    """No eval, Function, innerHTML, document.write, fetch or network object is in the page's own code."""
    text = bundle(modules())
    for word in (
        "eval(",
        "new Function",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
        "import(",
    ):
        assert word not in text, word
