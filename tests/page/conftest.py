"""A real Chromium for the page's tests; without one they are skipped, in CI they fail."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from peek_backend.model import CaptureRecord
from peek_backend.render.html import page as page_html
from tests.conftest import require
from tests.page.synthetic import capture

ARGUMENTS = (
    "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests; without it they are skipped, in CI they fail."""
    require("chromium")
    require("playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        yield browser
        browser.close()


PROBES = Path(__file__).parent / "probes.js"


class Opened:
    """A page in the browser, with what it logged and asked for."""

    def __init__(self, tab: Any, url: str):
        self.tab, self.url = tab, url
        self.errors: list[str] = []
        self.requests: list[str] = []
        tab.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        tab.on("pageerror", lambda e: self.errors.append(str(e)))
        self.refused: list[str] = []
        tab.on("requestfailed", lambda r: self.refused.append(r.url) if r.failure == "csp" else None)
        tab.on("request", lambda r: self.requests.append(r.url))

    def go(self, hash_: str = "") -> Opened:
        """Load the page with this hash and wait until it shows."""
        self.tab.goto("about:blank")
        self.requests.clear()
        self.tab.goto(self.url + hash_)
        self.tab.wait_for_selector("html[data-ready]", timeout=10_000)
        if self.tab.evaluate("'peek' in window"):
            self.tab.evaluate(PROBES.read_text("utf-8"))
        return self

    def js(self, text: str) -> Any:
        """The value of a JavaScript expression; ``app`` is the page's application, ``probe`` what probes.js defines."""
        return self.tab.evaluate(
            f"(() => {{ const {{ app }} = window.peek, {{ probe }} = window; return {text}; }})()"
        )

    def until(self, text: str, seconds: float = 10) -> None:
        """Wait until a JavaScript expression is true (Playwright's own waiting evaluates text, which the page refuses)."""
        end = time.monotonic() + seconds
        while not self.js(text):
            assert time.monotonic() < end, f"never came true: {text}"
            self.tab.wait_for_timeout(20)

    def outside(self) -> list[str]:
        """Requests for anything but the file itself."""
        return [r for r in self.requests if not r.startswith((self.url, "blob:", "data:"))]


OpenPage = Callable[..., Opened]


@pytest.fixture
def open_page(chromium: Any, tmp_path: Path) -> Iterator[OpenPage]:
    """``open_page(record, hash)`` writes the page, opens it from ``file://``, and checks at the end that it was quiet."""
    opened: list[Opened] = []

    def start(record: CaptureRecord | None = None, hash_: str = "", *, width: int = 1280, height: int = 800,
              theme: str = "light", html: str | None = None, **options: Any) -> Opened:  # fmt: skip
        path = tmp_path / f"page{len(opened)}.html"
        path.write_text(html or page_html(record or capture(800), **options), encoding="utf-8")
        tab = chromium.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
        opened.append(Opened(tab, path.as_uri()))
        return opened[-1].go(hash_)

    yield start
    for one in opened:
        one.tab.close()
    for one in opened:
        assert one.errors == [], "the page logged errors"
        assert one.outside() == [], "the page asked for something outside its file"
