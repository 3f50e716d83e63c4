"""A small language model whose graphs are pinned down."""

from .network import TinyLM

__all__ = ["TinyLM"]
