"""A clock that counts, and a device whose time and memory are scripted: expected numbers are exact, nothing waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from bench.loop import UpdateResult, WindowCounts, WindowPlan
from bench.measure.device import AllocatorCounts, DeviceProperties, MemoryPeaks, Residents, Witnessed


class CountingClock:
    """Advance by one tick at each reading, so that a difference is the number of readings in between."""

    def __init__(self, tick: int = 1) -> None:
        self.now = 0
        self.tick = tick

    def __call__(self) -> int:
        self.now += self.tick
        return self.now


@dataclass
class FakeMark:
    """Hold a point in the device's order of work."""

    number: int
    """How many marks came before it."""
    second: float
    """When the device reaches it, by the script [s]."""


class FakeAllocator:
    """Follow live bytes as a caching allocator does: it keeps what is freed, and peaks are reset together."""

    def __init__(self, capacity_bytes: int = 1 << 40) -> None:
        self.capacity_bytes = capacity_bytes
        self.requested = self.allocated = self.active = self.reserved = 0
        self.retries = self.ooms = 0
        self.reset_peaks()

    def reset_peaks(self) -> None:
        """Start all peaks anew from what is held now."""
        self.peaks = MemoryPeaks(self.allocated, self.active, self.reserved, requested_bytes=self.requested)

    def allocate(self, count: int, rounding: int = 0) -> None:
        """Take bytes, and so many more than were asked for, from what was freed before or from the device."""
        self.requested += count
        count += rounding
        if self.active + count > self.capacity_bytes:
            self.ooms += 1
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {count} bytes. (a fake)")
        self.allocated += count
        self.active += count
        self.reserved = max(self.reserved, self.active)
        self.peaks = MemoryPeaks(
            max(self.peaks.allocated_bytes or 0, self.allocated),
            max(self.peaks.active_bytes or 0, self.active),
            max(self.peaks.reserved_bytes or 0, self.reserved),
            requested_bytes=max(self.peaks.requested_bytes or 0, self.requested),
        )

    def free(self, count: int, held_by_stream: bool = False, rounding: int = 0) -> None:
        """Give bytes back; a stream may still hold them as active."""
        self.requested -= count
        count += rounding
        self.allocated -= count
        self.active -= 0 if held_by_stream else count


class FakeDevice:
    """Reach one mark after another as scripted, and write down every call.

    Args:
        seconds: the device's time between neighbouring marks of a part, in order; the last one repeats [s].
    """

    kind = "cuda"
    time_method = "cuda_events"
    memory_method = "caching_allocator"

    def __init__(self, seconds: Sequence[float] = (1.0,)) -> None:
        self.torch_device = torch.device("cpu")
        self.allocator = FakeAllocator()
        self.calls: list[str] = []
        self.host_blocks: list[torch.Tensor] = []
        self._seconds = list(seconds)
        self._marks = 0
        self._second = 0.0

    def mark(self) -> FakeMark:
        """Mark; the clock of the script moves on."""
        self.calls.append(f"mark {self._marks}")
        mark = FakeMark(self._marks, self._second)
        self._second += self._seconds[min(self._marks, len(self._seconds) - 1)]
        self._marks += 1
        return mark

    def wait(self, mark: FakeMark) -> None:
        """Write down which mark is waited for."""
        self.calls.append(f"wait {mark.number}")

    def seconds_between(self, earlier: FakeMark, later: FakeMark) -> float:
        """Give the scripted time."""
        return later.second - earlier.second

    def synchronise(self) -> None:
        """Write it down."""
        self.calls.append("synchronise")

    def reset_peaks(self) -> None:
        """Reset those of the allocator."""
        self.calls.append("reset_peaks")
        self.allocator.reset_peaks()

    def peaks(self) -> MemoryPeaks:
        """Give those of the allocator."""
        self.calls.append("peaks")
        return self.allocator.peaks

    def allocator_counts(self) -> AllocatorCounts:
        """Give those of the allocator."""
        return AllocatorCounts(self.allocator.retries, self.allocator.ooms)

    def allocator_settings(self) -> str:
        """Have none."""
        return "default"

    def properties(self) -> DeviceProperties:
        """Name a GPU that is not there."""
        return DeviceProperties("Fake GPU", "GPU-fake", self.allocator.capacity_bytes)

    def host_block(self, rows: int, columns: int) -> torch.Tensor:
        """Make a block and remember it."""
        self.calls.append("host_block")
        self.host_blocks.append(torch.full((rows, columns), float("nan"), dtype=torch.float64))
        return self.host_blocks[-1]

    def outside_allocator_bytes(self) -> int:
        """Give nothing: the fake GPU is this process's alone."""
        return 0

    @contextmanager
    def witness(self, residents: Callable[[], Residents], kept_on_host: Iterable[torch.Tensor]) -> Iterator[Any]:
        """Witness nothing."""
        del residents, kept_on_host

        class Nothing:
            def phase_begin(self, phase: str) -> None:
                del phase

            def result(self) -> Witnessed:
                return Witnessed(None, 0)

        yield Nothing()


def full_plan(update: int, micro_steps: int = 2) -> WindowPlan:
    """Plan a window of one rank with one sequence of 4 valid tokens in each micro-batch."""
    counts = WindowCounts(micro_steps, micro_steps, 4 * micro_steps, 4 * micro_steps, 4.0 * micro_steps)
    return WindowPlan(update, micro_steps, counts, counts)


def applied(
    plan: WindowPlan, loss_sum: float = 1.0, grad_norm: float | None = 0.5, loss_scale: float | None = None
) -> UpdateResult:
    """Make the result of an applied update whose tensors hold these values."""
    norm = None if grad_norm is None else torch.tensor(grad_norm)
    return UpdateResult(plan, "applied", torch.tensor(loss_sum, dtype=torch.float64), norm, 3e-4, loss_scale)
