"""Ranks without torch that do what their work says, for tests of servers and ranks that stall: milliseconds each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.launch import rank_process
from bench.launch.heartbeat import Heartbeat
from bench.launch.process_table import TOKEN_VARIABLE
from bench.record.paths import LaunchPaths
from tests.patience import PATIENCE_S

ORPHAN = "orphan.pid"
"""File in the folder of a launch that names the process its rank left."""
GO_ON = "go-on"
"""File in the folder of a launch that a waiting rank waits for."""


def run_rank(folder: str, rank: int, parent: int, work: str) -> None:
    """Be one rank: do the work of this name, then answer as a rank that is content."""
    rank_process.begin(folder, rank, parent)
    paths = LaunchPaths(Path(folder))
    Heartbeat(paths.heartbeat(rank)).beat("build")
    WORKS[work](paths)
    answer = {"rank": rank, "outcome": "ok", "time": time.monotonic(), "columns": {}, "updates": []}
    paths.rank_file(rank).write_text(json.dumps(answer))
    rank_process.end(0)


def nothing(paths: LaunchPaths) -> None:
    """End at once."""


def wait(paths: LaunchPaths) -> None:
    """Wait until the test says so."""
    while not (paths.folder / GO_ON).exists():
        time.sleep(0.01)


def sleep(paths: LaunchPaths) -> None:
    """Never end."""
    time.sleep(10 * PATIENCE_S)


def leave_orphan(paths: LaunchPaths) -> None:
    """Start a process that has nothing of ours: session, group, environment and parent are others."""
    told = paths.folder / ORPHAN
    leave = (
        "import os, subprocess, sys\n"
        "os.setsid()\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(36000)'], env={}, cwd='/')\n"
        f"open({str(told.with_suffix('.part'))!r}, 'w').write(str(child.pid))\n"
    )
    subprocess.run([sys.executable, "-c", leave], check=True, stdout=subprocess.DEVNULL)
    assert (
        os.environ[TOKEN_VARIABLE].encode()
        not in Path(f"/proc/{told.with_suffix('.part').read_text()}/environ").read_bytes()
    )
    told.with_suffix(".part").rename(told)


def leave_orphan_and_sleep(paths: LaunchPaths) -> None:
    """Leave it, and never end."""
    leave_orphan(paths)
    sleep(paths)


WORKS: dict[str, Callable[[LaunchPaths], None]] = {
    work.__name__: work for work in (nothing, wait, sleep, leave_orphan, leave_orphan_and_sleep)
}
"""Work by its name, as the launcher is given it."""
