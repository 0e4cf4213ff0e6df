"""The CPU as a device: host clock, live tensor storages, resident memory."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import psutil
import torch

from bench.measure.device import AllocatorCounts, DeviceProperties, MemoryPeaks
from bench.measure.witness import DispatchWitness


class CpuDevice:
    """Measure on the CPU, where work is done when the call returns."""

    kind = "cpu"
    time_method = "host_clock"
    memory_method = "live_storages"

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")

    def mark(self) -> int:
        """Read the monotonic clock [ns]."""
        return time.perf_counter_ns()

    def wait(self, mark: int) -> None:
        """Return at once: what was called is done."""

    def seconds_between(self, earlier: int, later: int) -> float:
        """Give the time between two readings [s]."""
        return (later - earlier) / 1e9

    def synchronise(self) -> None:
        """Return at once: nothing is queued."""

    def reset_peaks(self) -> None:
        """Do nothing: peaks are witnessed in the memory pass alone."""

    def peaks(self) -> MemoryPeaks:
        """Give nulls: the CPU has no allocator counters; the memory pass tells."""
        return MemoryPeaks(None, None, None)

    def allocator_counts(self) -> AllocatorCounts:
        """Give nulls: there is no caching allocator."""
        return AllocatorCounts(None, None)

    def properties(self) -> DeviceProperties:
        """Name the processor; capacity is the host's memory."""
        return DeviceProperties(cpu_model(), None, psutil.virtual_memory().total)

    def witness(self, alive: Iterable[torch.Tensor], kept_on_host: Iterable[torch.Tensor]) -> DispatchWitness:
        """Witness live storages and reads into Python."""
        return DispatchWitness(alive, kept_on_host)


def cpu_model() -> str:
    """Read the processor's name as the kernel gives it."""
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def host_peak_rss_bytes() -> int | None:
    """Read the most resident memory this process had (VmHWM) [bytes]; None without /proc."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
