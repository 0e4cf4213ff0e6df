"""What the fork server runs in a fresh process: one rank. Imports torch only there."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from pathlib import Path

from bench.run.paths import LaunchPaths
from bench.run.process import die_with_parent, send_output_to


def run(folder: str, rank: int) -> None:
    """Run one rank of the launch in this folder and end the process; never returns."""
    preload = sys.modules.get("bench.run.preload")
    parent = multiprocessing.parent_process()
    server = getattr(preload, "SERVER_PID", parent.pid if parent else None)
    die_with_parent(expected_parent=server)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the driver, which ends its ranks itself
    paths = LaunchPaths(Path(folder))
    send_output_to(paths.rank_log(rank))
    code = 1
    try:
        from bench.run.worker import run_rank

        code = 0 if run_rank(paths, rank) == "ok" else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    # A process that has torch._dynamo takes 0.7 s to exit the usual way, and its result is safe.
    os._exit(code)
