"""What the kernel says of other processes: who they are, and which carry our token. Elsewhere than Linux: nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

TOKEN_VARIABLE = "BENCH_SWEEP_TOKEN"  # noqa: S105 - a name, not a secret
"""Environment variable that every process of one sweep's ranks carries."""

_PROC = Path("/proc")


@dataclass(frozen=True)
class ProcessId:
    """Identify one process for good: its number alone is reused after its end, and after a reboot."""

    pid: int
    start_ticks: int | None
    """When it started, in clock ticks since boot; None where the kernel does not tell."""
    boot_id: str | None
    """Which boot of the machine."""


def identify(pid: int) -> ProcessId:
    """Identify a process for good."""
    fields = _stat(pid)
    return ProcessId(pid, int(fields[19]) if fields else None, boot_id())


def is_alive(process: ProcessId) -> bool:
    """Tell whether exactly this process still runs; a zombie does not."""
    fields = _stat(process.pid)
    if process.boot_id != boot_id() or not fields:
        return False
    return fields[0] != "Z" and process.start_ticks in (None, int(fields[19]))


def boot_id() -> str | None:
    """Name this boot of the machine."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def is_dead(pid: int) -> bool:
    """Tell whether a process has ended, reaped or not; False where the kernel does not tell."""
    state = _stat(pid)[:1]
    return state in (["Z"], ["X"]) or (state == [] and sys.platform.startswith("linux"))


def exit_code_of_dead(pid: int) -> int | None:
    """Read how a process ended that nobody has reaped: negative for a signal; None where the kernel does not tell."""
    fields = _stat(pid)
    # Field 52 of proc(5), in the form of waitpid.
    return os.waitstatus_to_exitcode(int(fields[49])) if fields[:1] == ["Z"] and len(fields) > 49 else None


def is_stopped(pid: int) -> bool:
    """Tell whether a process is stopped, as by SIGSTOP or a debugger."""
    return _stat(pid)[:1] in (["T"], ["t"])


def thread_count(pid: int) -> int | None:
    """Count a process's threads; None when it is gone."""
    try:
        return len(list((_PROC / str(pid) / "task").iterdir()))
    except OSError:
        return None


def open_files(pid: int) -> list[str]:
    """List what a process has open."""
    found = []
    with contextlib.suppress(OSError):
        for link in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(str(link.readlink()))
    return found


def everyone() -> list[int]:
    """List all processes."""
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def descendants(pid: int) -> list[int]:
    """List the children of a process, theirs, and so on."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def with_token(token: str, among: Iterable[int] | None = None) -> list[int]:
    """List the living processes that were started with this token, in any session and under any parent."""
    wanted = f"{TOKEN_VARIABLE}={token}".encode()
    return [pid for pid in (everyone() if among is None else among) if wanted in _environment(pid)]


def kill_with_token(token: str, spared: Collection[int] = (), among: Iterable[int] | None = None) -> list[int]:
    """Kill the processes that carry this token, of all or of those given; return their numbers.

    Only the token decides, never a name. A number may be given to another process between the look and the kill, so
    the look is repeated on a handle that stays with the process.
    """
    wanted = f"{TOKEN_VARIABLE}={token}".encode()
    ours = [pid for pid in with_token(token, among) if pid not in spared and pid != os.getpid()]
    return [pid for pid in ours if _kill(pid, lambda pid: wanted in _environment(pid))]


def kill_descendants(of: Collection[int], patience_s: float = 5.0) -> None:
    """Kill all that these processes and their children started, and wait until it is gone; they themselves go on.

    Complete where each of them is a subreaper (`process.adopt_orphans`): then whatever session, group or environment a
    process gave itself, and whoever of its parents has ended, it is below one of them.

    Args:
        of: Process ids.
        patience_s: Longest wait [s]; what cannot be ended, as in the middle of a broken disk's answer, is left.
    """
    deadline_s = time.monotonic() + patience_s
    while alive := [pid for parent in of for pid in descendants(parent) if not is_dead(pid)]:
        for pid in alive:
            _kill(pid, lambda pid: any(pid in descendants(parent) for parent in of))
        if time.monotonic() > deadline_s:
            return
        time.sleep(0.01)


def kill_tree(pid: int) -> None:
    """Kill a child of this process and all below it; stopped first, it starts nothing meanwhile.

    What it had just forked has not asked the kernel yet to be ended with it.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        kill_descendants([pid])
        os.kill(pid, signal.SIGKILL)


def kill_processes(processes: Iterable[ProcessId]) -> None:
    """Kill exactly these processes."""
    for process in processes:
        _kill(process.pid, lambda pid, process=process: is_alive(process))  # type: ignore[misc]


def _kill(pid: int, is_meant: Callable[[int], bool]) -> bool:
    """Kill a process unless its number was given to another one meanwhile; tell whether it was killed."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if is_meant(pid):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        finally:
            os.close(handle)
    return False


def _children(pid: int) -> list[int]:
    """List the children of every thread of a process."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _stat(pid: int) -> list[str]:
    """Read the fields of /proc/PID/stat from the third on, the state first; the second may hold spaces."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
