"""Stands for a rank that is ended just after its start: it does not begin before SIGINT has come."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from bench.launch import rank_process

HERE = "here"
"""File in the launch's folder that says that the rank stands there."""


def run(folder: str, rank: int, parent: int, work: str) -> None:
    """Wait for the signal, then do as every rank does."""
    (Path(folder) / HERE).touch()
    while signal.SIGINT not in signal.sigpending():
        time.sleep(0.01)
    rank_process.run(folder, rank, parent, work)
