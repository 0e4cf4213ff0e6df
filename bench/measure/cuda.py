"""A CUDA GPU as a device: events, the caching allocator's counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from bench.measure.allocator_settings import allocator_settings
from bench.measure.device import AllocatorCounts, DeviceProperties, MemoryPeaks, Residents
from bench.measure.witness import DispatchWitness
from bench.standin import is_standin


class CudaDevice:
    """Measure on one CUDA GPU through events and `torch.cuda.memory_stats`.

    The index counts the GPUs that CUDA_VISIBLE_DEVICES leaves, in CUDA's order, which need not be the driver's.
    Sources: torch documentation, "CUDA semantics" (asynchronous execution, memory management).
    """

    kind = "cuda"
    time_method = "cuda_events"

    def __init__(self, index: int) -> None:
        self.torch_device = torch.device("cuda", index)
        torch.cuda.set_device(self.torch_device)
        self.memory_method = "standin" if is_standin() else "caching_allocator"

    def mark(self) -> torch.cuda.Event:
        """Record a timing event on the current stream."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def wait(self, mark: torch.cuda.Event) -> None:
        """Wait for one event; what was queued after it goes on.

        The host spins, as it does in any loop that fills the GPU's queue: a thread that sleeps wakes up tens of
        microseconds late, which is time to queue the next update in.
        """
        mark.synchronize()

    def seconds_between(self, earlier: torch.cuda.Event, later: torch.cuda.Event) -> float:
        """Give the time between two events [s]."""
        return float(earlier.elapsed_time(later)) / 1e3

    def synchronise(self) -> None:
        """Wait for all streams of the device."""
        torch.cuda.synchronize(self.torch_device)

    def reset_peaks(self) -> None:
        """Reset all of the allocator's peaks together, so that allocated <= active <= reserved holds."""
        torch.cuda.reset_peak_memory_stats(self.torch_device)

    def peaks(self) -> MemoryPeaks:
        """Read the allocator's peaks."""
        stats = torch.cuda.memory_stats(self.torch_device)
        return MemoryPeaks(
            allocated_bytes=stats["allocated_bytes.all.peak"],
            active_bytes=stats["active_bytes.all.peak"],
            reserved_bytes=stats["reserved_bytes.all.peak"],
            inactive_split_bytes=stats.get("inactive_split_bytes.all.peak"),
            requested_bytes=stats.get("requested_bytes.all.peak"),
        )

    def allocator_counts(self) -> AllocatorCounts:
        """Read the allocator's retries, out-of-memory events and blocks taken from the driver."""
        stats = torch.cuda.memory_stats(self.torch_device)
        return AllocatorCounts(stats["num_alloc_retries"], stats["num_ooms"], stats.get("segment.all.allocated"))

    def allocator_settings(self) -> str:
        """Ask torch what it read of the variables that set its allocator."""
        return allocator_settings()

    def properties(self) -> DeviceProperties:
        """Read name, UUID and total memory."""
        properties: Any = torch.cuda.get_device_properties(self.torch_device)
        uuid = getattr(properties, "uuid", None)
        return DeviceProperties(properties.name, f"GPU-{uuid}" if uuid else None, properties.total_memory)

    def host_block(self, rows: int, columns: int) -> torch.Tensor:
        """Make page-locked memory, the only kind to which a copy from the GPU runs without the host waiting."""
        return torch.full((rows, columns), float("nan"), dtype=torch.float64, pin_memory=True)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take memory from a pool of its own, which goes back to the driver, and cuBLAS's workspace with it.

        A workspace left in the common pool would lie elsewhere than the one that the first update makes.
        """
        if torch.cuda.get_allocator_backend() != "native":  # CUDA's own allocator has no such pools
            yield
            return
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool, self.torch_device):
            yield
        self.synchronise()
        torch._C._cuda_clearCublasWorkspaces()
        del pool

    def outside_allocator_bytes(self) -> int:
        """Ask the driver what is free; what is neither free nor the allocator's is outside it."""
        free, total = torch.cuda.mem_get_info(self.torch_device)
        return max(0, total - free - torch.cuda.memory_reserved(self.torch_device))

    def witness(self, residents: Callable[[], Residents], kept_on_host: Iterable[torch.Tensor]) -> DispatchWitness:
        """Witness storages on the GPU and reads into Python; the peak itself is the allocator's."""
        return DispatchWitness(residents, kept_on_host, device_type="cuda")
