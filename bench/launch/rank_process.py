"""What a fresh process does for one rank: make sure that it is fit and can leave nothing behind, then work.

The work is a function named by the launch; what it imports, torch among it, is imported here alone.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from bench.launch.process import adopt_orphans, die_with_parent, is_child_of_driver, lead_session, send_output_to
from bench.launch.process_table import kill_descendants, open_files, thread_count
from bench.record.paths import LaunchPaths

UNFIT = 87
"""Exit code of a rank that was forked from a server which no rank should be forked from."""

_GPU_FILE = re.compile(r"/dev/nvidia\d+$")


def run(folder: str, rank: int, parent: int, work: str) -> None:
    """Do one rank's work on the launch in this folder and end the process; never returns.

    Args:
        folder: Of the launch.
        rank: Number of this rank.
        parent: Process id of who started it.
        work: `module:function`, called with the launch's files and the rank; gives "ok" or another outcome.
    """
    begin(folder, rank, parent)
    code = 1
    try:
        module, _, function = work.partition(":")
        run_rank = getattr(importlib.import_module(module), function)
        code = 0 if run_rank(LaunchPaths(Path(folder)), rank) == "ok" else 1
    except BaseException:
        traceback.print_exc()
    end(code)


def begin(folder: str, rank: int, parent: int) -> None:
    """Tie this process to its parent, give it a session, a log and a place for its stacks, and check its origin."""
    die_with_parent(expected_parent=parent)
    lead_session()
    if is_child_of_driver():
        adopt_orphans()  # as the fork server does for the ranks that it has
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the driver was started in the background
    paths = LaunchPaths(Path(folder))
    send_output_to(paths.rank_log(rank))
    # Kept open by its descriptor alone: the driver asks for a dump when this rank hangs, whatever it is doing then.
    stacks = os.open(paths.rank_stacks(rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    faulthandler.enable(stacks)
    faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # it waited since the start, see `servers`
    reason = unfit_reason(parent)
    if reason is not None:
        print(reason, file=sys.stderr)  # noqa: T201 - into the rank's log
        end(UNFIT)


def end(code: int) -> None:
    """End the process at once.

    A process that has torch._dynamo takes 0.7 s to exit the usual way, and its result is safe.
    """
    if is_child_of_driver():
        kill_descendants([os.getpid()])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # the log cannot take more; the result file is what counts
    os._exit(code)


def unfit_reason(
    parent: int,
    threads: Callable[[int], int | None] = thread_count,
    files: Callable[[int], list[str]] = open_files,
) -> str | None:
    """Say why a process must not have been forked from this parent: it runs threads, or holds a GPU."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None  # a fresh interpreter, or a server without torch
    # `is_initialized` is false in such a child, as CUDA does not work there; torch tells by another name.
    if torch.cuda._is_in_bad_fork() or any(_GPU_FILE.match(file) for file in files(os.getpid())):
        return "the fork server has touched a GPU: a forked CUDA context does not work"
    number = threads(parent)
    if number is not None and number > 1:
        return f"the fork server runs {number} threads: only one of them survives a fork"
    return None
