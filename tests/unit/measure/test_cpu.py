"""The CPU as a device: its clock, and nulls where a GPU has counters."""

from __future__ import annotations

import torch

from bench.measure.cpu import CpuDevice
from bench.measure.device import Residents


def test_differences_of_marks_are_seconds() -> None:
    """Marks are nanoseconds of the monotonic clock, which never goes back."""
    device = CpuDevice()
    assert device.seconds_between(1_000_000_000, 3_500_000_000) == 2.5
    assert device.mark() <= device.mark()


def test_what_a_cpu_cannot_tell_is_null() -> None:
    """There is no caching allocator, and so no zero either."""
    device = CpuDevice()
    device.reset_peaks()
    assert device.peaks().allocated_bytes is None
    assert device.peaks().reserved_bytes is None
    assert device.allocator_counts().retries is None
    assert device.properties().uuid is None
    assert (device.properties().capacity_bytes or 0) > 0


def test_witness_counts_live_storages() -> None:
    """On a CPU the memory pass is where bytes come from."""
    with CpuDevice().witness(Residents, []) as witness:
        kept = torch.empty(1000, dtype=torch.uint8)
    assert witness.result().live_peak_bytes == 1000
    del kept


def test_host_block_is_empty_at_first() -> None:
    """A value never written is told from a zero."""
    block = CpuDevice().host_block(2, 3)
    assert block.shape == (2, 3)
    assert block.dtype == torch.float64
    assert bool(block.isnan().all())
