"""Benchmark of memory and throughput for training with gradient accumulation in PyTorch."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("accumbench")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
