"""What every test gets: a fresh Dynamo, no ``PEEK_`` variable of the caller, and ``require`` for what may be missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is: beside other workers one may wait for the CPU beyond any limit, and
# hypothesis would call the test slow, or flaky when it runs the example again.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# Before torch is loaded: dims that an earlier run saw change must not make this run's graphs dynamic, and the workers of
# pytest-xdist share the cores already.
os.environ["TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO"] = "0"
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What a person's shell, or pytest-xdist, says of the terminal; and settings of peek.
_TERMINAL = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
for _variable in [v for v in os.environ if v.startswith("PEEK_") or v in _TERMINAL]:
    del os.environ[_variable]

_GET = {
    "dot": "apt-get install graphviz",
    "chromium": "apt-get install chromium",
    "playwright": "pip install -r tests/requirements.txt",
    "transformers": "pip install -r tests/requirements.txt",
}


def require(name: str) -> None:
    """Skip this test when the program or module ``name`` is missing; fail it under CI, where a skip would hide it."""
    if shutil.which(name) or importlib.util.find_spec(name.replace("-", "_")):
        return
    message = f"{name} is not installed; to get it: {_GET.get(name, f'pip install {name}')}"
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    """No compiled code, counter or guard of one test reaches the next; torch is not loaded for tests that do without."""
    _reset()
    yield
    _reset()


def _reset() -> None:
    if (dynamo := sys.modules.get("torch._dynamo")) is not None:
        dynamo.reset()
