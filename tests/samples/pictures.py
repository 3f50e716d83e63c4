"""``make pictures``: draws what README.md shows, into samples/images/: the demo's Llama as SVG, and its page in a browser."""

from __future__ import annotations

import runpy
import shutil
import sys
import tempfile
from pathlib import Path

import torch

import peek_backend

from . import gallery

IMAGES = gallery.SAMPLES / "images"


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    sys.argv = ["samples/demo.py"]  # the page tells the command that it was captured with
    record = llama()
    record.save(IMAGES / "llama.svg")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "llama.html"
        record.html(page)
        screenshot(page, IMAGES / "page.png")
    for file in sorted(IMAGES.iterdir()):
        print(f"{file.relative_to(gallery.ROOT)}: {file.stat().st_size:,} bytes")


def llama() -> peek_backend.Record:
    """The demo's model, captured as the demo does it."""
    model = runpy.run_path(str(gallery.SAMPLES / "demo.py"))["small_llama"]()
    with torch.no_grad():
        return peek_backend.inspect(model, input_ids=torch.zeros(2, 16, dtype=torch.int64))


def screenshot(page: Path, target: Path) -> None:
    """The page as a reader with a small screen first sees it. Needs Debian's chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1200, "height": 760})
        tab.goto(page.as_uri() + "#v=graph&d=light")
        tab.wait_for_timeout(1500)
        tab.screenshot(path=target)
        browser.close()


if __name__ == "__main__":
    main()
