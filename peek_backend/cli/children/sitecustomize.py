"""Python imports this at the start of every process that a ``peek run`` started.

It must never disturb that process, whichever Python it is: without peek in reach it does nothing. The user's or
the system's own ``sitecustomize``, which this one hides, is run as well.
"""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder


def _observe():
    try:
        from peek_backend.cli.hook import after_import
    except ImportError:
        return
    after_import("torch._dynamo", _start)


def _start():
    """Runs inside the process's import of torch, whose environment may lack what peek needs."""
    try:
        from peek_backend.cli.recorder import observe_child

        observe_child()
    except Exception:
        return


def _run_hidden():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != here]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_observe()
_run_hidden()
