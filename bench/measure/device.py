"""The one interface through which the benchmark sees a device; the loop itself knows only tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch


@dataclass(frozen=True)
class MemoryPeaks:
    """Most bytes since the last reset [one device]; null where the device cannot tell."""

    allocated_bytes: int | None
    """In live tensors."""
    active_bytes: int | None
    """In live tensors and in freed blocks that a stream still holds."""
    reserved_bytes: int | None
    """Held from the driver by the caching allocator, free blocks included."""
    inactive_split_bytes: int | None = None
    """Free parts of blocks in use, which cannot go back to the driver."""
    requested_bytes: int | None = None
    """Asked for by what lives: allocated bytes without the allocator's rounding, so the same whatever came before."""


@dataclass(frozen=True)
class AllocatorCounts:
    """Events of the caching allocator since the process started [one device]; null without one."""

    retries: int | None
    """Times it had to free cached blocks and ask the driver again: the peak was at the wall."""
    ooms: int | None
    segments: int | None = None
    """Blocks it took from the driver; it is quiet while this stands still."""


@dataclass(frozen=True)
class DeviceProperties:
    """State what the device is; null where the device has no such thing."""

    name: str
    uuid: str | None
    capacity_bytes: int | None


@dataclass(frozen=True)
class Residents:
    """Hold what lives across updates, so that the witness can tell what a storage is for [one rank]."""

    model: Sequence[torch.Tensor] = ()
    """Parameters and buffers."""
    gradients: Sequence[torch.Tensor] = ()
    optimizer_state: Sequence[torch.Tensor] = ()
    ddp_buckets: Sequence[torch.UntypedStorage] = ()
    """Into which DistributedDataParallel gathers gradients, as far as they are known."""


@dataclass(frozen=True)
class PeakParts:
    """Divide the most bytes that lived in tensor storages, at the moment they did [one rank]."""

    phase: str
    """What the loop was at: forward, backward or update."""
    model_bytes: int
    """Parameters and buffers."""
    gradient_bytes: int
    """In `.grad`, or on its way there."""
    optimizer_state_bytes: int
    activation_bytes: int
    """Kept for the backward, the parameters apart."""
    ddp_bucket_bytes: int
    temporary_bytes: int
    """All the rest."""

    @property
    def total_bytes(self) -> int:
        """Give the whole peak [bytes]."""
        kept = self.model_bytes + self.gradient_bytes + self.optimizer_state_bytes
        return kept + self.activation_bytes + self.ddp_bucket_bytes + self.temporary_bytes


@dataclass(frozen=True)
class Witnessed:
    """What is witnessed of one update; read after it."""

    live_peak_bytes: int | None
    """Most bytes in live tensor storages of the device; null when they were not followed."""
    host_reads: int
    """Times the host waited for a value of the device: a number read into Python, or a copy not left to itself."""
    parts: PeakParts | None = None
    """What `live_peak_bytes` consisted of; null when storages were not followed."""
    attention_backends: tuple[str, ...] = ()
    """Kernels of attention that ran: flash, memory_efficient, cudnn, math."""


class Witness(Protocol):
    """Watch one update from within."""

    def phase_begin(self, phase: str) -> None:
        """Note that forward, backward or the update starts."""

    def result(self) -> Witnessed:
        """Give what was witnessed so far."""


class Device(Protocol):
    """Mark time, wait, and read memory on one device.

    A mark is a point in the device's own order of work: a host clock reading on the CPU, an event on CUDA.
    """

    kind: str
    torch_device: torch.device
    time_method: str
    memory_method: str

    def mark(self) -> Any:
        """Mark the boundary between what is queued and what comes next; never waits."""

    def wait(self, mark: Any) -> None:
        """Wait until the device reached a mark."""

    def seconds_between(self, earlier: Any, later: Any) -> float:
        """Give the device's time between two marks it has reached [s]."""

    def synchronise(self) -> None:
        """Wait until the device did all that is queued."""

    def reset_peaks(self) -> None:
        """Start peaks anew from what is live now."""

    def peaks(self) -> MemoryPeaks:
        """Read the peaks since the last reset."""

    def allocator_counts(self) -> AllocatorCounts:
        """Read the allocator's counts of trouble."""

    def allocator_settings(self) -> str:
        """Say which settings the allocator goes by; the word default without any."""

    def properties(self) -> DeviceProperties:
        """Say what device this is."""

    def host_block(self, rows: int, columns: int) -> torch.Tensor:
        """Make (rows, columns) float64 of NaN in host memory, to which the device can copy while nobody waits.

        It takes no memory of the device, so what is kept in it never shows in a peak.
        """

    def aside(self) -> AbstractContextManager[None]:
        """Give a context whose work leaves no trace in the device's allocator, whatever memory it takes; it waits."""

    def outside_allocator_bytes(self) -> int | None:
        """Read how much of the device is in use beside what this process's allocator holds; null if it cannot tell.

        Memory of other processes is in it.
        """

    def witness(
        self, residents: Callable[[], Residents], kept_on_host: Iterable[torch.Tensor]
    ) -> AbstractContextManager[Witness]:
        """Give a context that witnesses an update; it slows what it watches, and changes what autograd allocates.

        `residents` is asked at both ends: what lives before the update, and what lives after it. Reads from
        `kept_on_host` (an optimizer's own step counts) wait for no device and are not counted.
        """
