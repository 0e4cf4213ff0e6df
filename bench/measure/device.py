"""The one interface through which the benchmark sees a device; the loop itself knows only tensors."""

from __future__ import annotations

from collections.abc import Iterable
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
class MemoryPass:
    """What is witnessed while a memory pass runs; read after it."""

    live_peak_bytes: int | None
    """Most bytes in live tensor storages on the CPU; null on a device with its own counters."""
    host_reads: int
    """Times the host waited for a value of the device: a number read into Python, or a copy not left to itself."""


class Witness(Protocol):
    """Watch a memory pass."""

    def result(self) -> MemoryPass:
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

    def properties(self) -> DeviceProperties:
        """Say what device this is."""

    def host_block(self, rows: int, columns: int) -> torch.Tensor:
        """Make (rows, columns) float64 of NaN in host memory, to which the device can copy while nobody waits.

        It takes no memory of the device, so what is kept in it never shows in a peak.
        """

    def witness(
        self, alive: Iterable[torch.Tensor], kept_on_host: Iterable[torch.Tensor]
    ) -> AbstractContextManager[Witness]:
        """Give a context that witnesses a memory pass; it slows what it watches.

        `alive` are the tensors that live before it: parameters, gradients, optimizer state. Reads from `kept_on_host`
        (an optimizer's own step counts) wait for no device and are not counted.
        """
