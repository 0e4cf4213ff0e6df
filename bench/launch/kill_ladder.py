"""How the driver ends ranks: SIGINT, SIGTERM, SIGKILL, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

from bench.launch.process_table import is_dead

LADDER = ((signal.SIGINT, 2.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
"""Signals in order, each with the time before the next [s]."""

_POLL_S = 0.1


def end_ranks(processes: Mapping[int, BaseProcess], hurry: Callable[[], bool] = lambda: False) -> None:
    """End what still runs, each rank with its whole process group, and reap it.

    Args:
        processes: rank to process.
        hurry: asked several times a second; once it says yes, only SIGKILL is left.
    """
    alive = [process for process in processes.values() if is_running(process)]
    for number, patience_s in LADDER:
        if not alive or (hurry() and number != signal.SIGKILL):
            continue
        for process in alive:
            signal_group(process, number)
            if number != signal.SIGKILL:
                # A stopped process cannot end by itself; only SIGKILL works without SIGCONT.
                signal_group(process, signal.SIGCONT)
        deadline = time.monotonic() + patience_s
        while alive and time.monotonic() < deadline:
            wait([process.sentinel for process in alive], timeout=_POLL_S)
            alive = [process for process in alive if is_running(process)]
            if hurry() and number != signal.SIGKILL:
                break


def is_running(process: BaseProcess) -> bool:
    """Tell whether a rank still runs; the kernel's word counts where its fork server does not report its end."""
    return process.is_alive() and (process.pid is None or not is_dead(process.pid))


def signal_group(process: BaseProcess, number: int) -> None:
    """Send a signal to a living rank and to what it started; to the rank alone before it leads a group."""
    if process.pid is None or not process.is_alive():
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            os.kill(process.pid, number)


def dump_stacks(processes: Mapping[int, BaseProcess], patience_s: float = 1.0) -> None:
    """Ask living ranks to write where each of their threads is, and give them a moment for it."""
    alive = [process for process in processes.values() if process.is_alive() and process.pid is not None]
    for process in alive:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid or 0, signal.SIGUSR1)
            os.kill(process.pid or 0, signal.SIGCONT)
    if alive:
        wait([process.sentinel for process in alive], timeout=patience_s)
