"""Who used the cores is read from the kernel's counters: planted ones here, and those of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.measure import cpu_use as module
from bench.measure.cpu_use import CpuCounters, CpuUse, cpu_use, read_cpu_counters, sum_of_uses
from tests.patience import PATIENCE_S, wait_until

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Plant a kernel of four cores, of which this process may use 1 and 3; it has one child and two threads."""
    proc, pid = tmp_path / "proc", os.getpid()
    monkeypatch.setattr(module, "_PROC", proc)
    monkeypatch.setattr(module, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: {1, 3})
    monkeypatch.setattr(module.time, "process_time", lambda: 2.0)
    for number, children in ((pid, "77 "), (77, "")):
        (proc / str(number) / "task" / str(number)).mkdir(parents=True)
        (proc / str(number) / "task" / str(number) / "children").write_text(children)
    (proc / "self").symlink_to(proc / str(pid))
    (proc / str(pid) / "task" / "5").mkdir()
    write(proc / "stat", "cpu 0 0 0 0", *(f"cpu{core} 10 20 30 400 50 6 7 8 9 9" for core in (0, 1, 2, 3)), "intr 1")
    write(proc / str(pid) / "stat", f"{pid} (a name) with) S {' '.join(['0'] * 10)} 900 900 3 4 20 0")
    write(proc / "77" / "stat", f"77 (child) S {' '.join(['0'] * 10)} 10 20 30 40 20 0")
    write(proc / str(pid) / "task" / str(pid) / "schedstat", "4000000000 1000000000 77")
    write(proc / str(pid) / "task" / "5" / "schedstat", "500000000 250000000 3")
    write(proc / "self" / "cgroup", "0::/box/inner")
    (tmp_path / "cgroup" / "box" / "inner").mkdir(parents=True)
    write(tmp_path / "cgroup" / "box" / "inner" / "cpu.stat", "usage_usec 9", "throttled_usec 500000")
    write(tmp_path / "cgroup" / "box" / "cpu.stat", "nr_throttled 3", "throttled_usec 250000")
    return tmp_path


def write(path: Path, *lines: str) -> None:
    """Write a file of these lines."""
    path.write_text("\n".join(lines) + "\n")


def test_counters_of_our_cores_alone_are_read(kernel: Path) -> None:
    """Idle, waiting for disks and steal are no use; a guest's time is in the user's already."""
    counters = read_cpu_counters()
    assert counters.cores_s == pytest.approx(2 * (10 + 20 + 30 + 6 + 7) * TICK_S)
    assert counters.steal_s == pytest.approx(2 * 8 * TICK_S)
    assert counters.threads == {os.getpid(): (4.0, 1.0), 5: (0.5, 0.25)}


def test_children_that_live_and_that_ended_are_our_own(kernel: Path) -> None:
    """This process by its own clock, 3 + 4 ticks of children that ended, and all of the child's."""
    assert read_cpu_counters().own_s == pytest.approx(2.0 + (3 + 4 + 10 + 20 + 30 + 40) * TICK_S)


def test_limits_of_every_group_above_are_added(kernel: Path) -> None:
    """Of both generations of control groups."""
    assert read_cpu_counters().throttled_s == pytest.approx(0.75)
    write(kernel / "proc" / "self" / "cgroup", "7:pids:/box", "4:cpu,cpuacct:/old")
    (kernel / "cgroup" / "cpu,cpuacct" / "old").mkdir(parents=True)
    write(kernel / "cgroup" / "cpu,cpuacct" / "old" / "cpu.stat", "nr_periods 9", "throttled_time 3000000000")
    assert read_cpu_counters().throttled_s == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("missing", "null"),
    [
        ("proc/stat", {"cores_s", "steal_s", "own_s", "ran_s", "waited_s", "throttled_s"}),
        ("proc/self/task/5/schedstat", set()),
        ("proc/self/cgroup", {"throttled_s"}),
    ],
)
def test_what_the_kernel_does_not_tell_is_null(kernel: Path, missing: str, null: set[str]) -> None:
    """Never 0."""
    (kernel / missing).unlink()
    counters = read_cpu_counters()
    use = cpu_use(counters, counters)
    assert {name for name, value in vars(use).items() if value is None} == null


def test_threads_that_began_count_and_those_that_ended_do_not() -> None:
    """A worker that is gone took its counters with it."""
    before = CpuCounters(threads={1: (1.0, 1.0), 2: (5.0, 5.0)})
    after = CpuCounters(threads={1: (3.0, 1.5), 3: (0.5, 0.25)})
    use = cpu_use(before, after)
    assert (use.ran_s, use.waited_s) == (2.5, 0.75)


def test_counter_that_runs_backwards_stood_still() -> None:
    """As some do by a tick."""
    assert cpu_use(CpuCounters(steal_s=1.0), CpuCounters(steal_s=0.99)).steal_s == 0.0


USES = st.builds(CpuUse, *[st.none() | st.floats(0, 100)] * 6)


@given(st.lists(USES, min_size=1, max_size=5))
def test_parts_add_up_and_one_unknown_makes_the_sum_unknown(uses: list[CpuUse]) -> None:
    """Of each figure on its own."""
    total = sum_of_uses(uses)
    for name in vars(total):
        values = [getattr(use, name) for use in uses]
        assert getattr(total, name) == (None if None in values else pytest.approx(sum(values)))


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="this kernel has no /proc/stat")
def test_work_of_this_process_and_of_its_child_is_its_own() -> None:
    """On this machine: what both burn is counted as ours, and as use of the cores, to within ticks."""
    before = read_cpu_counters()
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert before.own_s is not None
        burnt_s = time.process_time()
        while time.process_time() < burnt_s + 0.2:
            pass
        wait_until(lambda: own_since(before) > 0.5, PATIENCE_S)
    finally:
        child.kill()
        child.wait()
    use = cpu_use(before, read_cpu_counters())
    assert use.own_s is not None
    assert use.cores_s is not None
    assert use.own_s >= 0.5
    assert use.cores_s >= 0.5 * use.own_s, "the kernel samples, by ticks, what runs"


def own_since(before: CpuCounters) -> float:
    """Give our own CPU time since a reading [s]."""
    return cpu_use(before, read_cpu_counters()).own_s or 0.0
