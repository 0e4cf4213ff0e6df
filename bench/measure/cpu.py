"""The CPU as a device: host clock, live tensor storages, resident memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

import psutil
import torch

from bench.measure.allocator_settings import DEFAULT
from bench.measure.device import AllocatorCounts, DeviceProperties, MemoryPeaks, Residents
from bench.measure.host import cgroup_memory_bytes, cpu_model
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
        """Do nothing: peaks are witnessed, in updates of their own."""

    def peaks(self) -> MemoryPeaks:
        """Give nulls: the CPU has no allocator counters; the witness tells."""
        return MemoryPeaks(None, None, None)

    def allocator_counts(self) -> AllocatorCounts:
        """Give nulls: there is no caching allocator."""
        return AllocatorCounts(None, None)

    def allocator_settings(self) -> str:
        """Give the word default: a CPU's allocator has no settings."""
        return DEFAULT

    def properties(self) -> DeviceProperties:
        """Name the processor; capacity is the host's memory, or what a container may use of it."""
        total = int(psutil.virtual_memory().total)
        return DeviceProperties(cpu_model(), None, min(total, cgroup_memory_bytes() or total))

    def host_block(self, rows: int, columns: int) -> torch.Tensor:
        """Make a plain tensor: host and device are one."""
        return torch.full((rows, columns), float("nan"), dtype=torch.float64)

    def aside(self) -> AbstractContextManager[None]:
        """Do nothing: there is no caching allocator."""
        return nullcontext()

    def outside_allocator_bytes(self) -> None:
        """Give null: there is no caching allocator."""

    def witness(self, residents: Callable[[], Residents], kept_on_host: Iterable[torch.Tensor]) -> DispatchWitness:
        """Witness live storages and reads into Python."""
        return DispatchWitness(residents, kept_on_host)
