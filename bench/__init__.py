"""Benchmark of memory and throughput for training with gradient accumulation in PyTorch."""

from __future__ import annotations


def __getattr__(name: str) -> str:
    """Look up `bench.__version__` when it is asked for: reading metadata would take a tenth of a command's start."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("accumbench")
    except PackageNotFoundError:  # a source tree that was never installed
        return "0+unknown"
