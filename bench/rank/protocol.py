"""The parts of a launch, in order: first update, memory pass, on to the quality update, warm-up, timed part.

All are real updates of one trajectory, numbered from 0 at the initial weights; they differ in what is observed. The
validation loss is taken at the parameters that update `quality_updates` starts from, as the training loss of that
update is, and between two parts. Where that update would fall inside the warm-up or the timed part, or may, since
their length is not known, the updates up to it run before the warm-up, which then runs whole: nothing is evaluated
inside the timed part or shortly before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch

from bench.errors import BenchError
from bench.measure.device import MemoryPass, Residents, Witness
from bench.measure.profiler import Part, PartName, UpdateSample
from bench.measure.reductions import Reductions
from bench.measure.update_times import UpdateTime
from bench.rank.ddp_warmup import waiting_updates
from bench.rank.pace import WHOLE_UPDATES, Pace
from bench.rank.quality import validation_loss
from bench.rank.workbench import Workbench
from bench.workload.facts import live_gradients, optimizer_tensors

MEMORY_UPDATES = 3
"""Updates of the memory pass; the optimizer's state exists from its start, and one window has only full rows."""

_FIRST_UPDATES_AT_MOST = 20
"""The gradient scaler may skip first updates until its scale fits; each skip halves it, and 2**16 / 2**20 < 1."""


@dataclass(frozen=True)
class Observations:
    """State what one rank observed in a launch."""

    parts: tuple[Part, ...]
    memory_passes: tuple[MemoryPass, ...]
    """One per update of the memory pass."""
    reductions: Reductions
    """Gradient reductions of the memory pass."""
    data_wait_s: float
    """Host time the timed part waited for its windows [s]."""
    validation_loss: float | None
    """Held-out loss per valid token over all ranks before update `quality_updates` [nats/token]; None without."""
    pace: Pace
    """What decided the length of warm-up and timed part."""

    def part(self, name: PartName) -> Iterator[Part]:
        """Give the parts of this name; those named timed are its segments."""
        return (part for part in self.parts if part.name == name)

    def whole_windows(self) -> list[UpdateTime]:
        """Give how long the windows of all micro-steps took that confirm shortened ones; none where none were run."""
        return self.times("confirm") if self.pace.confirms_by_whole else self.times("whole")

    def samples(self, name: PartName) -> list[UpdateSample]:
        """Give the updates of all parts of this name."""
        return [sample for part in self.part(name) for sample in part.samples]

    def times(self, name: PartName) -> list[UpdateTime]:
        """Give how long the updates of all parts of this name took."""
        return update_times(self.samples(name))


def update_times(samples: Sequence[UpdateSample]) -> list[UpdateTime]:
    """Take the durations out of samples."""
    return [UpdateTime(sample.seconds, sample.micro_step_seconds) for sample in samples]


def run_protocol(bench: Workbench) -> Observations:
    """Run a launch of fixed length, or for as long as its preset needs, and observe it [one rank].

    Raises:
        BenchError: no update was applied, so there is nothing to measure.
    """
    return _Launch(bench).run()


class _Launch:
    """Run the parts one after the other."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._parts: list[Part] = []
        self._memory_passes: list[MemoryPass] = []
        self._validation_loss: float | None = None
        self._quality_update = bench.trial.measure.quality_updates or None

    def run(self) -> Observations:
        bench = self._bench
        self._run_first()
        bench.feed.want_full_rows()
        for _ in range(MEMORY_UPDATES):
            self._run_memory()
        pace = self._make_pace()
        if self._quality_update is not None and self._quality_update < self._surely_done(pace):
            self._run_to_quality(self._quality_update)
        self._warm_up(pace)
        bench.feed.wait_s = 0.0
        self._time(pace)
        data_wait_s = bench.feed.wait_s
        if pace.is_shortened:
            bench.feed.shorten(pace.confirming_micro_steps)
            self._run("confirm", WHOLE_UPDATES)
            self._run_whole(pace)
        if self._quality_update is not None and self._quality_update >= bench.feed.next_update:
            self._run_to_quality(self._quality_update)
            self._run("quality", 1)
        return Observations(
            tuple(self._parts),
            tuple(self._memory_passes),
            bench.reductions,
            data_wait_s,
            self._validation_loss,
            pace,
        )

    def _make_pace(self) -> Pace:
        """Choose the pace from the fastest update of the memory pass, whose witness slows it: the same on all ranks."""
        bench = self._bench
        fastest_s = min(part.samples[0].seconds for part in self._parts if part.name == "memory")
        accumulation_steps = bench.trial.config.accumulation_steps
        assert accumulation_steps is not None, "the trial is resolved"
        pace = Pace(bench.trial.measure, accumulation_steps, bench.ranks.from_rank0(fastest_s))
        if pace.is_shortened:
            bench.feed.shorten(pace.micro_steps)
            self._quality_update = None  # the trajectory is no longer that of full windows
        return pace

    def _surely_done(self, pace: Pace) -> float:
        """Give the number of the first update after the timed part; no update is surely after one of open length."""
        measure = self._bench.trial.measure
        if pace.target_half_width is not None or measure.updates is None:
            return float("inf")
        return self._bench.feed.next_update + (measure.warmup_updates or 0) + measure.updates

    def _warm_up(self, pace: Pace) -> None:
        device = self._bench.device
        while (updates := self._as_rank0(pace.warmup_due())) > 0:
            before = device.allocator_counts()
            part = self._run("warmup", updates, pace.by_micro_steps)
            pace.warmed(update_times(part.samples), before, device.allocator_counts())
        waiting = waiting_updates(self._bench.trial.config, device.kind) - self._bench.feed.next_update
        if waiting > 0 and pace.target_half_width is not None and not pace.by_micro_steps:
            self._run("warmup", waiting)

    def _time(self, pace: Pace) -> None:
        """Run segments until rank 0 has enough; its decision is shared between them, outside the clock."""
        while (updates := self._as_rank0(pace.timed_due())) > 0:
            part = self._run("timed", updates, pace.by_micro_steps)
            pace.timed(update_times(part.samples), part.host_seconds)

    def _run_whole(self, pace: Pace) -> None:
        """Run a window of all micro-steps where the time limit leaves room: what shortened ones tell ends with them."""
        bench = self._bench
        left_s = bench.trial.measure.timeout_s - math.fsum(part.host_seconds for part in self._parts)
        if not pace.confirms_by_whole and self._as_rank0(pace.has_room_for_whole(left_s)):
            assert bench.trial.config.accumulation_steps is not None, "the trial is resolved"
            bench.feed.shorten(bench.trial.config.accumulation_steps)
            self._run("whole", 1)

    def _as_rank0(self, updates: int) -> int:
        return int(self._bench.ranks.from_rank0(updates))

    def _run(self, name: PartName, updates: int, by_micro_steps: bool = False) -> Part:
        """Run so many windows between two waits for the device, started together on all ranks."""
        bench = self._bench
        self._validate_when_due()
        bench.ranks.barrier()
        bench.profiler.begin(name, updates, by_micro_steps)
        for _ in range(updates):
            bench.loop.run_window(bench.feed.next_window())
        self._parts.append(bench.profiler.end())
        return self._parts[-1]

    def _run_to_quality(self, quality_update: int) -> None:
        """Run the updates before the quality update, if any are left."""
        due = quality_update - self._bench.feed.next_update
        if due > 0:
            self._run("quality", due)

    def _run_first(self) -> None:
        """Run single updates until one was applied: before that the optimizer has no state to measure."""
        for _ in range(_FIRST_UPDATES_AT_MOST):
            if self._run("first", 1).samples[0].result == "applied":
                return
        raise BenchError(f"none of the first {_FIRST_UPDATES_AT_MOST} updates was applied: there is nothing to measure")

    def _run_memory(self) -> None:
        """Run one update under the witness, which slows it; its time is kept but never used."""
        self._validate_when_due()
        bench = self._bench
        with _witness(bench) as witness, bench.reductions:
            bench.profiler.witness = witness
            self._run("memory", 1, by_micro_steps=True)  # for `rank_spread`: a mark costs next to nothing
            bench.profiler.witness = None
        self._memory_passes.append(witness.result())

    def _validate_when_due(self) -> None:
        if self._bench.feed.next_update == self._quality_update and self._validation_loss is None:
            self._validation_loss = validation_loss(self._bench)


def _witness(bench: Workbench) -> AbstractContextManager[Witness]:
    """Make the witness of one update."""

    def residents() -> Residents:
        return Residents(
            model=[*bench.model.parameters(), *bench.model.buffers()],
            gradients=live_gradients(bench.model),
            optimizer_state=optimizer_tensors(bench.optimizer),
            ddp_buckets=bench.reductions.buckets(),
        )

    kept_on_host = [state["step"] for state in bench.optimizer.state.values() if torch.is_tensor(state.get("step"))]
    return bench.device.witness(residents, kept_on_host)
