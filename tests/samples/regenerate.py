"""``make readme``: runs the gallery again and writes its output to tests/samples/expected/, then mends README.md."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from . import gallery, readme


def main(names: list[str]) -> None:
    """Write the expected files of all samples, or of those whose names start with one of ``names``; then README.md."""
    os.environ["TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO"] = "0"
    chosen = [s for s in gallery.NUMBERED if not names or s.stem.startswith(tuple(names))]
    with tempfile.TemporaryDirectory() as folder:
        for sample in chosen:
            text = gallery.run(sample, Path(folder))
            file = gallery.expected(sample)
            before = file.read_text() if file.exists() else ""
            if gallery.normalise(before) != gallery.normalise(text):
                file.write_text(text)
                print(f"wrote {file.relative_to(gallery.ROOT)}")
    if readme.write():
        print("wrote README.md")


if __name__ == "__main__":
    main(sys.argv[1:])
