"""The folder that ``peek run`` puts on PYTHONPATH, so that Python programs it starts are observed too.

It holds only ``sitecustomize``, which Python imports at start.
"""
