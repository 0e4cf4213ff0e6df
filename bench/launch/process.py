"""What a process of ours does first: tie its life to its parent, lead a session, send its output to a log."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

DRIVER_VARIABLE = "BENCH_DRIVER_PID"
"""Environment variable by which a process knows the driver, which it must not outlive."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(expected_parent: int | None = None) -> None:
    """Ask the kernel to kill this process when its parent dies (Linux, prctl(2)); not inherited over fork.

    The parent may have died before the request: then the process has another parent already and leaves at once.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if expected_parent is not None and os.getppid() != expected_parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies (Linux, prctl(2)), so that it can be found.

    Not inherited over fork. For processes that start ranks or are one, never for the driver: a program that uses this
    library must not be given children that it did not start.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def is_child_of_driver() -> bool:
    """Tell whether the driver itself started this process, and no fork server of it."""
    return os.environ.get(DRIVER_VARIABLE) == str(os.getppid())


def lead_session() -> None:
    """Lead a session and process group of its own: Ctrl-C in the terminal reaches the driver alone."""
    if os.getsid(0) != os.getpid():
        os.setsid()


def send_output_to(log: Path) -> None:
    """Append everything this process and its children print to a log; standard input is empty."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    os.close(empty)


def _prctl(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
