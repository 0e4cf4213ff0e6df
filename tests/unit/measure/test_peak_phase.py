"""The phase of the device's own peak, told by its counters alone."""

from __future__ import annotations

import pytest

from bench.measure.cpu import CpuDevice
from bench.measure.peak_phase import PeakPhase
from tests.fakes import FakeDevice


@pytest.mark.parametrize(
    ("taken", "phase"),
    [
        ((0, 0, 0, 0), "update"),
        ((0, 500, 300, 0), "forward"),
        ((0, 300, 500, 500), "backward"),
        ((0, 300, 500, 501), "update"),
        ((600, 300, 500, 501), "update"),
    ],
)
def test_phase_is_the_first_in_which_most_was_requested(taken: tuple[int, ...], phase: str) -> None:
    """Bytes taken for a moment before the first forward, then in each phase; rounding plays no part."""
    device = FakeDevice()
    device.allocator.allocate(1000)
    device.reset_peaks()
    phases = PeakPhase(device)
    for name, count in zip((None, "forward", "backward", "update"), taken, strict=True):
        if name is not None:
            phases.phase_begin(name)
        device.allocator.allocate(count, rounding=600 - count)
        device.allocator.free(count, rounding=600 - count)
    assert phases.result() == (phase, 1000 + max(taken))


def test_cpu_counts_nothing_so_it_has_none() -> None:
    """Its peak is the witness's."""
    phases = PeakPhase(CpuDevice())
    phases.phase_begin("forward")
    assert phases.result() is None
