"""A rank that says what it had to import after it was forked."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def run(folder: str, rank: int, parent: int) -> None:
    """Do what every rank does, and list the modules that are new."""
    before = set(sys.modules)
    from bench.launch import rank_process
    from bench.record.paths import LaunchPaths

    rank_process.begin(folder, rank, parent)
    paths = LaunchPaths(Path(folder))
    if paths.proof_file.exists():
        from bench.rank.proof_rank import prove_rank as run_rank
    else:
        from bench.rank.worker import run_rank
    outcome = run_rank(paths, rank)
    (paths.folder / f"imported-{rank}.json").write_text(json.dumps(sorted(set(sys.modules) - before)))
    rank_process.end(0 if outcome == "ok" else 1)
