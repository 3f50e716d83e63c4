"""Tests of peek; builders.py makes records by hand."""
