"""Record to facts: sizes, counts, users, what happened in a capture.

Comes in: records. Goes out: plain numbers and small records. Imports ``model`` and ``passes`` alone.
"""
