"""Faults on purpose, for the tests: `BENCH_FAULTS` names a file of faults, one a line, such as `forward:3:oom`.

A line is `[trial_id/]point[@rank]:nth:action[=value]`: at the nth visit of a point, from 1, the rank misbehaves.
Points are the phases of a launch; `capacity:1:bytes=N` plants a memory of N bytes. A file, since the fork server's
environment is fixed at its start. Without the variable nothing here runs.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

VARIABLE = "BENCH_FAULTS"


def _raise_oom() -> None:
    import torch

    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. (a fault on purpose)")


def _raise_error() -> None:
    raise RuntimeError("a fault on purpose")


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _print_much() -> None:
    sys.stdout.write("chatter of a model\n" * 100_000)
    os.write(1, b"\xff\xfe not text\n")


def _limit_address_space() -> None:
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used, resource.RLIM_INFINITY))


def _exit_early() -> None:
    os._exit(0)


def _exit_politely() -> None:
    sys.exit(0)


def _sleep() -> None:
    time.sleep(3600)


def _diverge() -> None:
    """Change one weight of this rank alone, wherever the model is."""
    import gc

    import torch

    weight = next(thing for thing in gc.get_objects() if isinstance(thing, torch.nn.Parameter))
    weight.data.view(-1)[0] += 1.0


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _chatter() -> None:
    """Print without end and get nowhere."""
    while True:
        os.write(1, b"still busy\n")
        time.sleep(0.01)


def _deaf_sleep() -> None:
    """Hang, deaf to everything that can be ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    deadline = time.monotonic() + 3600
    while time.monotonic() < deadline:
        time.sleep(1)


def _block_in_collective() -> None:
    """Wait inside the process group, in C++, for a message that no rank sends."""
    import torch

    other = (torch.distributed.get_rank() + 1) % torch.distributed.get_world_size()
    torch.distributed.recv(torch.zeros(1), src=other)


def _leave_a_child() -> None:
    """Start a process in a session of its own, as a data loader that outlives its rank."""
    import subprocess

    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)


_held: list[Any] = []


def _hold_memory() -> None:
    """Hold 300 MiB from here on; their pages are never touched."""
    import torch

    _held.append(torch.empty(300 << 20, dtype=torch.uint8))


ACTIONS: dict[str, Callable[[], None]] = {
    "oom": _raise_oom,
    "raise": _raise_error,
    "kill": _kill,
    "print": _print_much,
    "limit_memory": _limit_address_space,
    "exit": _exit_early,
    "sys_exit": _exit_politely,
    "sleep": _sleep,
    "diverge": _diverge,
    "stop": _stop,
    "chatter": _chatter,
    "deaf": _deaf_sleep,
    "block": _block_in_collective,
    "leave_child": _leave_a_child,
    "hold_memory": _hold_memory,
}


class Faults:
    """Carry out the faults asked for by the environment; an observer of the loop."""

    def __init__(self, trial_id: str, rank: int, micro_batch_size: int = 1) -> None:
        self._micro_batch_size = micro_batch_size
        self._capacity_bytes: int | None = None
        self._seen: Counter[str] = Counter()
        self._planned: dict[tuple[str, int], Callable[[], None]] = {}
        file = os.environ.get(VARIABLE)
        for fault in Path(file).read_text().split() if file else []:
            where, nth, action = fault.split(":")
            point, _, only_rank = where.partition("@")
            only_trial, _, point = point.rpartition("/")
            if only_trial in ("", trial_id) and only_rank in ("", str(rank)):
                self._plan(point, int(nth), *action.partition("=")[::2])

    def _plan(self, point: str, nth: int, action: str, value: str) -> None:
        if point == "capacity":
            self._capacity_bytes = int(value)
        elif action != "oom_above":
            self._planned[point, nth] = ACTIONS[action]
        elif self._micro_batch_size > int(value):
            self._planned[point, nth] = _raise_oom

    @property
    def are_planned(self) -> bool:
        """Tell whether this rank has any to carry out."""
        return bool(self._planned)

    def fill_capacity(self, columns: dict[str, Any]) -> None:
        """Behave as if the device had the planted capacity: say so, and run out of memory where it is exceeded.

        Nothing but tensors is in it, whatever else the process has in the host's memory.
        """
        if self._capacity_bytes is not None:
            columns["device_capacity_bytes"] = self._capacity_bytes
            columns["host_peak_rss_bytes"] = columns["peak_allocated_bytes"]
            if (columns["peak_allocated_bytes"] or 0) > self._capacity_bytes:
                _raise_oom()

    def reach(self, point: str) -> None:
        """Do what is planned for this visit of the point, counted from 1."""
        self._seen[point] += 1
        action = self._planned.get((point, self._seen[point]))
        if action is not None:
            action()

    def window_begin(self, plan: Any) -> None:
        """Do nothing."""

    def phase_begin(self, phase: str) -> None:
        """Reach the point of this name."""
        self.reach(phase)

    def micro_step_end(self) -> None:
        """Do nothing."""

    def update_end(self, result: Any) -> None:
        """Do nothing."""
