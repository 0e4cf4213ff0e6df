"""Who used the cores of this process: itself and what it started, others, the hypervisor; and what it waited for.

The kernel's counters, read at the edges of a part, outside the clock. No torch. Sources: proc(5) for /proc/stat and
/proc/PID/stat; Documentation/scheduler/sched-stats.rst for /proc/PID/schedstat; Documentation/admin-guide/cgroup-v2.rst
for cpu.stat. What a kernel does not tell is None.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")
_BUSY = (0, 1, 2, 5, 6)
"""Places of user, nice, system, irq and softirq in a line of /proc/stat; user holds what guests took."""
_STEAL = 7
_TIMES_OF_A_PROCESS = slice(11, 15)
"""Places of utime, stime, cutime and cstime in /proc/PID/stat, counted from the state on."""


@dataclass(frozen=True)
class CpuCounters:
    """Hold what the kernel has counted so far; see `CpuUse` for the words."""

    cores_s: float | None = None
    steal_s: float | None = None
    own_s: float | None = None
    threads: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Thread -> (time it ran, time it waited for a core) [s]."""
    throttled_s: float | None = None


@dataclass(frozen=True)
class CpuUse:
    """State what happened on the cores that this process may use between two readings; None where unknown."""

    cores_s: float | None = None
    """CPU time that anybody took on them [s]."""
    steal_s: float | None = None
    """Time in which the hypervisor ran somebody else on them, although there was work [s]."""
    own_s: float | None = None
    """CPU time of this process and its descendants [s]."""
    ran_s: float | None = None
    """Time that the threads of this process ran [s]."""
    waited_s: float | None = None
    """Time that its threads were ready to run, and waited for a core [s]."""
    throttled_s: float | None = None
    """Time in which a limit on its control group's CPU time held it back [s]."""


UNKNOWN_USE = CpuUse()
"""Where the kernel tells nothing."""


def read_cpu_counters() -> CpuCounters:
    """Read the kernel's counters for the cores that this process may use."""
    stat = _text(_PROC / "stat")
    cores = os.sched_getaffinity(0) if stat and hasattr(os, "sched_getaffinity") else set()
    lines = [line.split() for line in stat.splitlines() if line.startswith("cpu")]
    ours = [
        [int(value) for value in values] for name, *values in lines if name[3:].isdigit() and int(name[3:]) in cores
    ]
    if not ours:
        return CpuCounters()
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    return CpuCounters(
        cores_s=sum(values[place] for values in ours for place in _BUSY) / ticks_per_s,
        steal_s=sum(values[_STEAL] for values in ours if len(values) > _STEAL) / ticks_per_s,
        own_s=time.process_time() + _of_descendants(ticks_per_s),
        threads=dict(_threads()),
        throttled_s=_throttled(),
    )


def cpu_use(before: CpuCounters, after: CpuCounters) -> CpuUse:
    """Give what happened between two readings of one process; threads that ended meanwhile are left out."""
    both = [(after.threads[one], before.threads.get(one, (0.0, 0.0))) for one in after.threads]
    return CpuUse(
        cores_s=_difference(before.cores_s, after.cores_s),
        steal_s=_difference(before.steal_s, after.steal_s),
        own_s=_difference(before.own_s, after.own_s),
        ran_s=math.fsum(later[0] - earlier[0] for later, earlier in both) if both else None,
        waited_s=math.fsum(later[1] - earlier[1] for later, earlier in both) if both else None,
        throttled_s=_difference(before.throttled_s, after.throttled_s),
    )


def sum_of_uses(uses: Iterable[CpuUse]) -> CpuUse:
    """Add the uses of several parts; None where one of them is not known."""
    listed = list(uses)

    def total(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return math.fsum(known) if known and len(known) == len(values) else None

    return CpuUse(**{name: total([getattr(use, name) for use in listed]) for name in CpuUse.__dataclass_fields__})


def _difference(before: float | None, after: float | None) -> float | None:
    """Subtract; a counter that ran backwards, as some do by a tick, stood still."""
    return None if before is None or after is None else max(0.0, after - before)


def _of_descendants(ticks_per_s: int) -> float:
    """Sum the CPU time of children that ended, and of all that live, below this process [s]."""
    own = _fields(os.getpid())[_TIMES_OF_A_PROCESS]
    ticks = sum(int(value) for value in own[2:])
    waiting = _children(os.getpid())
    while waiting:
        pid = waiting.pop()
        ticks += sum(int(value) for value in _fields(pid)[_TIMES_OF_A_PROCESS])
        waiting += _children(pid)
    return ticks / ticks_per_s


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            found += [int(child) for child in _text(task / "children").split()]
    return found


def _fields(pid: int) -> list[str]:
    """Read the fields of /proc/PID/stat from the state on; the name before it may hold spaces."""
    return _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()


def _threads() -> Iterator[tuple[int, tuple[float, float]]]:
    """List the threads of this process with the time they ran and waited [s]."""
    with contextlib.suppress(OSError):
        for task in (_PROC / "self/task").iterdir():
            ran, waited, *_ = [*_text(task / "schedstat").split(), "", ""]
            if ran.isdecimal() and waited.isdecimal():
                yield int(task.name), (int(ran) / 1e9, int(waited) / 1e9)


def _throttled() -> float | None:
    """Sum the time that CPU limits held this process's control groups back, its own and those above [s]."""
    found = []
    for line in _text(_PROC / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = _CGROUP / controllers if controllers else _CGROUP
        # In a container the path may be the host's, and the group that counts is mounted at the root.
        for folder in {root, *(root / part for part in (Path(path.lstrip("/")), *Path(path.lstrip("/")).parents))}:
            for name, value in (pair.split() for pair in _text(folder / "cpu.stat").splitlines()):
                if name in ("throttled_usec", "throttled_time"):
                    found.append(int(value) / (1e6 if name == "throttled_usec" else 1e9))
    return math.fsum(found) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
