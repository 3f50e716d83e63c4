"""The version, read by pyproject.toml and by ``peek --version`` without importing anything else."""

__version__ = "0.1.0"
