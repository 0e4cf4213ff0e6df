"""The profiler brackets only and all work of a part, and keeps nothing on the device."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from bench.measure.cpu_use import CpuCounters
from bench.measure.profiler import Part, PartName, Profiler
from tests.fakes import CountingClock, FakeDevice, applied, full_plan


def run_part(
    device: FakeDevice, updates: int, clock: CountingClock | None = None, micro_steps: int = 2, **result: Any
) -> Part:
    """Let a profiler watch so many updates as the loop would."""
    profiler = Profiler(device, clock or CountingClock())
    profiler.begin("timed", updates)
    for update in range(updates):
        plan = full_plan(update, micro_steps)
        device.calls.append(f"window {update}")
        profiler.window_begin(plan)
        for _ in range(micro_steps):
            profiler.phase_begin("forward")
            profiler.phase_begin("backward")
            profiler.micro_step_end()
        profiler.phase_begin("update")
        profiler.update_end(applied(plan, loss_sum=float(update), **result))
    return profiler.end()


def test_timed_part_holds_all_windows_and_one_mark_per_boundary() -> None:
    """N updates have N + 1 marks; what waits for the device or touches its memory lies outside."""
    device = FakeDevice()
    run_part(device, 2)
    assert device.calls == [
        *["host_block", "synchronise", "reset_peaks", "mark 0"],
        *["window 0", "mark 1", "window 1", "mark 2", "wait 1"],
        *["synchronise", "peaks"],
    ]


def test_clock_is_read_twice_after_waiting_for_the_device() -> None:
    """The host's seconds run from edge to edge, so the clock is read nowhere in between."""
    clock = CountingClock(tick=1_000_000_000)
    assert run_part(FakeDevice(), 5, clock).host_seconds == 1.0
    assert clock.now == 2_000_000_000


@pytest.mark.parametrize("updates", [1, 2, 3, 6])
def test_host_waits_for_the_update_before_the_last_and_no_other(updates: int) -> None:
    """Before update i is queued the end of update i - 2 is waited for: mark i - 1."""
    device = FakeDevice()
    run_part(device, updates)
    waits = [call for call in device.calls if call.startswith("wait")]
    assert waits == [f"wait {update}" for update in range(1, updates)]
    for update in range(2, updates):
        assert device.calls.index(f"wait {update - 1}") < device.calls.index(f"window {update}")


def test_seconds_of_updates_are_the_devices_and_add_up() -> None:
    """Neighbouring marks give each update its time; nothing falls between."""
    part = run_part(FakeDevice([0.5, 0.25, 0.125]), 3)
    assert [sample.seconds for sample in part.samples] == [0.5, 0.25, 0.125]


def test_losses_and_norms_come_back_exactly() -> None:
    """Each update keeps its own value, and one without clipping has no norm."""
    samples = run_part(FakeDevice(), 3).samples
    assert [sample.loss_sum for sample in samples] == [0.0, 1.0, 2.0]
    assert [sample.grad_norm for sample in samples] == [0.5] * 3
    assert [sample.grad_norm for sample in run_part(FakeDevice(), 2, grad_norm=None).samples] == [None, None]


def test_micro_steps_are_counted_per_update() -> None:
    """What ran is counted, to be held against the plan."""
    assert [sample.micro_steps_run for sample in run_part(FakeDevice(), 3, micro_steps=4).samples] == [4, 4, 4]


def test_no_tensor_of_an_update_outlives_it() -> None:
    """A loss kept per update would grow the memory that is measured."""
    profiler = Profiler(FakeDevice(), CountingClock())
    profiler.begin("timed", 3)
    tensors = []
    for update in range(3):
        result = applied(full_plan(update))
        tensors += [weakref.ref(result.loss_sum), weakref.ref(result.grad_norm)]
        profiler.window_begin(result.plan)
        profiler.update_end(result)
        del result
    gc.collect()
    assert [tensor() for tensor in tensors] == [None] * 6


def test_values_are_kept_in_one_block_made_before_the_peaks_are_reset() -> None:
    """The block is as large as the part from the start, and lives on the host."""
    device = FakeDevice()
    run_part(device, 7)
    assert [tuple(block.shape) for block in device.host_blocks] == [(7, 2)]
    assert device.calls.index("host_block") < device.calls.index("reset_peaks")


def test_copies_to_the_block_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that waits would drain the device's queue at every update."""
    waits: list[bool] = []
    copy = torch.Tensor.copy_

    def spy(self: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        waits.append(not non_blocking)
        return copy(self, source, non_blocking)

    monkeypatch.setattr(torch.Tensor, "copy_", spy)
    run_part(FakeDevice(), 2)
    assert waits == [False] * 4


def test_peaks_are_those_of_the_part() -> None:
    """What was freed before the part does not count; what lives on does."""
    device = FakeDevice()
    device.allocator.allocate(1000)
    device.allocator.free(400)
    profiler = Profiler(device, CountingClock())
    profiler.begin("memory", 1)
    device.allocator.allocate(50)
    device.allocator.free(50)
    peaks = profiler.end().peaks
    assert (peaks.allocated_bytes, peaks.active_bytes, peaks.reserved_bytes) == (650, 650, 1000)


def test_second_part_starts_from_nothing() -> None:
    """Samples of one part never reach the next."""
    device = FakeDevice()
    profiler = Profiler(device, CountingClock())
    for name in ("warmup", "timed"):
        profiler.begin(name, 1)  # type: ignore[arg-type]
        profiler.window_begin(full_plan(0))
        profiler.update_end(applied(full_plan(0)))
        part = profiler.end()
        assert (part.name, len(part.samples)) == (name, 1)


def test_micro_steps_are_marked_only_where_asked() -> None:
    """Long updates: one mark per micro-step and one per update, still without a wait inside."""
    device = FakeDevice([0.5, 0.25, 0.125, 1.0, 0.5, 0.25])
    profiler = Profiler(device, CountingClock())
    profiler.begin("timed", 2, by_micro_steps=True)
    for update in range(2):
        profiler.window_begin(full_plan(update))
        profiler.micro_step_end()
        profiler.micro_step_end()
        profiler.update_end(applied(full_plan(update)))
    assert "synchronise" not in device.calls[4:]
    part = profiler.end()
    assert [sample.micro_step_seconds for sample in part.samples] == [(0.5, 0.25), (1.0, 0.5)]
    assert [sample.seconds for sample in part.samples] == [0.875, 1.75]
    assert [sample.micro_step_seconds for sample in run_part(FakeDevice(), 2).samples] == [(), ()]


def test_processor_time_is_read_at_the_edges_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once before the first mark and once after the last wait, so that it is that of the part."""
    clock = CountingClock(tick=1_000_000_000)
    monkeypatch.setattr("bench.measure.profiler.time.process_time_ns", clock)
    assert run_part(FakeDevice(), 5).cpu_seconds == 1.0
    assert clock.now == 2_000_000_000


@pytest.mark.parametrize(("name", "reads"), [("timed", 2), ("warmup", 0), ("memory", 0)])
def test_cores_are_looked_at_outside_the_clock_of_the_timed_part_alone(name: PartName, reads: int) -> None:
    """Once before the clock starts and once after it stops: the clock sees the same with and without."""
    lengths = []
    for ticks in (0, 1000):
        clock, looks = CountingClock(), Looks(ticks)
        looks.clock = clock
        profiler = Profiler(FakeDevice(), clock, looks)
        profiler.begin(name, 1)
        part = profiler.end()
        assert looks.count == reads
        assert part.cpu.cores_s == (1.0 if reads else None)
        lengths.append(part.host_seconds)
    assert lengths[0] == lengths[1]


class Looks:
    """Count looks at the cores, each of which takes so many ticks of the clock."""

    clock: CountingClock

    def __init__(self, ticks: int) -> None:
        self.ticks, self.count = ticks, 0

    def __call__(self) -> CpuCounters:
        """Look once."""
        self.count += 1
        self.clock.now += self.ticks
        return CpuCounters(cores_s=float(self.count))
