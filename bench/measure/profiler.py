"""An observer of the loop that times whole updates and keeps what they did.

One mark per update boundary: N updates have N + 1 marks, neighbouring differences add up to the whole, and nothing
falls between. Nothing waits inside an update; what the loop leaves on the device stays there until the part ends.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

from bench.measure.cpu_use import UNKNOWN_USE, CpuCounters, CpuUse, cpu_use, read_cpu_counters
from bench.measure.device import Device, MemoryPeaks

if TYPE_CHECKING:  # the loop and what watches it meet only in the worker
    from bench.loop.observer import Phase, UpdateResult
    from bench.loop.plan import WindowCounts, WindowPlan

PartName = Literal["first", "memory", "warmup", "timed", "confirm", "whole", "quality", "witness"]

_RUN_AHEAD_UPDATES = 2
"""Before the host queues update i it waits for the end of update i-2: a bounded queue, and no bubble on the device."""


@dataclass(frozen=True)
class UpdateSample:
    """State one update as this rank saw it."""

    update: int
    part: PartName
    seconds: float
    """From the end of the update before (or the start of the part) to its own end, on the device's clock [s]."""
    plan: WindowPlan
    result: Literal["applied", "skipped", "empty"]
    loss_sum: float
    """Loss summed over this rank's units [nats]."""
    micro_steps_run: int
    """Forward and backward passes counted, to be held against the plan."""
    grad_norm: float | None
    lr: float
    loss_scale: float | None
    micro_step_seconds: tuple[float, ...] = ()
    """From the end of the micro-step before (or of the update before) to each one's own end [s]; empty unless asked."""

    @property
    def counts(self) -> WindowCounts:
        """Give what this rank fed."""
        return self.plan.this_rank


@dataclass(frozen=True)
class Part:
    """State one stretch of updates between two waits for the device [one rank]."""

    name: PartName
    samples: tuple[UpdateSample, ...]
    host_seconds: float
    """Monotonic host time from edge to edge, both after a wait for the device [s]."""
    peaks: MemoryPeaks
    """Peaks within the part."""
    cpu_seconds: float = 0.0
    """CPU time that all threads of the process took meanwhile [s]."""
    cpu: CpuUse = UNKNOWN_USE
    """Who used the cores meanwhile, and what this process waited for them; of the timed part alone."""
    begin_s: float = 0.0
    """First edge on the host's monotonic clock, which all processes of a machine share [s]."""


@dataclass(frozen=True)
class _Kept:
    """Keep an update until its part ends, without its tensors: they would stay in the memory that is measured."""

    plan: WindowPlan
    result: Literal["applied", "skipped", "empty"]
    has_grad_norm: bool
    micro_steps_run: int
    lr: float
    loss_scale: float | None
    micro_step_marks: list[Any]
    """Empty unless micro-steps are marked too."""


class Profiler:
    """Watch the loop through a device; `begin` and `end` bracket only and all work of a part.

    Args:
        device: what marks time and tells memory.
        clock: the host's monotonic clock [ns].
        cpu_counters: reads what the kernel counted of the cores, at both edges of the timed parts, outside their clock.
    """

    def __init__(
        self,
        device: Device,
        clock: Callable[[], int] = time.perf_counter_ns,
        cpu_counters: Callable[[], CpuCounters] = read_cpu_counters,
    ) -> None:
        self._device = device
        self._clock = clock
        self._cpu_counters = cpu_counters
        self._start_cpu = CpuCounters()
        self._name: PartName = "first"
        self._kept: list[_Kept] = []
        self._marks: list[Any] = []
        self._by_micro_steps = False
        self._micro_step_marks: list[Any] = []
        self._micro_steps = 0
        self._start_ns = 0
        self._start_cpu_ns = 0
        self._values = torch.empty(0)
        self.on_phase: Callable[[str], None] | None = None
        """Told of each phase; set for single updates only, none of them timed."""

    def begin(self, name: PartName, updates: int, by_micro_steps: bool = False) -> None:
        """Start a part of at most so many updates: wait for the device, reset peaks, start the clock.

        `by_micro_steps` marks the end of every micro-step too, for updates so long that few of them can be had.
        """
        self._name = name
        self._by_micro_steps = by_micro_steps
        self._kept = []
        # Losses and norms go to the host as they appear: kept on the device, one tensor an update would grow the very
        # memory that is measured.
        self._values = self._device.host_block(updates, 2)
        self._device.synchronise()
        self._device.reset_peaks()
        self._start_cpu = self._cpu_counters() if name == "timed" else CpuCounters()
        self._start_cpu_ns = time.process_time_ns()
        self._marks = [self._device.mark()]
        self._start_ns = self._clock()

    def window_begin(self, plan: WindowPlan) -> None:
        """Count from 0; the mark before the window is the end of the one before."""
        self._micro_steps = 0
        self._micro_step_marks = []

    def phase_begin(self, phase: Phase) -> None:
        """Tell who wants to know, if anybody does."""
        if self.on_phase is not None:
            self.on_phase(phase)

    def micro_step_end(self) -> None:
        """Count, and mark where asked to."""
        self._micro_steps += 1
        if self._by_micro_steps:
            self._micro_step_marks.append(self._device.mark())

    def update_end(self, result: UpdateResult) -> None:
        """Send to the host what the update left on the device, mark its end, and wait only for one well behind."""
        row = self._values[len(self._kept)]
        row[0].copy_(result.loss_sum, non_blocking=True)
        if result.grad_norm is not None:
            row[1].copy_(result.grad_norm, non_blocking=True)
        has_grad_norm = result.grad_norm is not None
        self._kept.append(
            _Kept(
                result.plan,
                result.result,
                has_grad_norm,
                self._micro_steps,
                result.lr,
                result.loss_scale,
                self._micro_step_marks,
            )
        )
        self._marks.append(self._device.mark())
        if len(self._marks) > _RUN_AHEAD_UPDATES:
            self._device.wait(self._marks[-_RUN_AHEAD_UPDATES])

    def end(self) -> Part:
        """Wait for the device, stop the clock, then read what was sent."""
        self._device.synchronise()
        host_seconds = (self._clock() - self._start_ns) / 1e9
        cpu_seconds = (time.process_time_ns() - self._start_cpu_ns) / 1e9
        cpu = cpu_use(self._start_cpu, self._cpu_counters()) if self._name == "timed" else UNKNOWN_USE
        peaks = self._device.peaks()
        values = self._values.tolist()
        samples = tuple(
            UpdateSample(
                update=kept.plan.update,
                part=self._name,
                seconds=self._device.seconds_between(self._marks[index], self._marks[index + 1]),
                plan=kept.plan,
                result=kept.result,
                loss_sum=values[index][0],
                micro_steps_run=kept.micro_steps_run,
                grad_norm=values[index][1] if kept.has_grad_norm else None,
                lr=kept.lr,
                loss_scale=kept.loss_scale,
                micro_step_seconds=self._between([self._marks[index], *kept.micro_step_marks]),
            )
            for index, kept in enumerate(self._kept)
        )
        self._kept, self._marks = [], []
        return Part(self._name, samples, host_seconds, peaks, cpu_seconds, cpu, self._start_ns / 1e9)

    def _between(self, marks: list[Any]) -> tuple[float, ...]:
        return tuple(self._device.seconds_between(earlier, later) for earlier, later in itertools.pairwise(marks))
