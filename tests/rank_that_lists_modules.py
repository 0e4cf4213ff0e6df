"""A rank that says what it had to import after it was forked."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def run(folder: str, rank: int, parent: int, work: str) -> None:
    """Do what every rank does, and list the modules that are new."""
    before = set(sys.modules)
    from bench.launch import rank_process

    def end(code: int) -> None:
        listed = json.dumps(sorted(set(sys.modules) - before))
        (Path(folder) / f"imported-{rank}.json").write_text(listed)
        usual(code)

    usual, rank_process.end = rank_process.end, end
    rank_process.run(folder, rank, parent, work)
