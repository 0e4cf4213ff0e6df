"""The parts of a launch, in order: first update, memory pass, on to the quality update, warm-up, timed part.

What decides anything is in these parts, and nothing of ours stands between torch and the device in them; updates that
are witnessed come after all others (`bench.rank.witnessed`).

All are real updates of one trajectory, numbered from 0 at the initial weights; they differ in what is observed. The
validation loss is taken at the parameters that update `quality_updates` starts from, as the training loss of that
update is, and between two parts. Where that update would fall inside the warm-up or the timed part, or may, since
their length is not known, the updates up to it run before the warm-up, which then runs whole: nothing is evaluated
inside the timed part or shortly before it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.errors import BenchError
from bench.measure.peak_phase import PeakPhase
from bench.measure.profiler import Part, PartName, UpdateSample
from bench.measure.update_times import UpdateTime
from bench.rank.ddp_warmup import waiting_updates
from bench.rank.pace import WHOLE_UPDATES, Pace
from bench.rank.quality import validation_loss
from bench.rank.workbench import Workbench
from bench.workload.facts import names_without_gradient

MEMORY_UPDATES = 3
"""Updates of the memory pass; the optimizer's state exists from its start, and the second has only full rows."""
UNSHORTENED: tuple[PartName, ...] = ("first", "memory")
"""Parts whose windows always have the micro-steps asked for."""
FULL_ROWS = 1
"""Which of them has only full rows, from 0: the largest window there can be."""

_FIRST_UPDATES_AT_MOST = 20
"""The gradient scaler may skip first updates until its scale fits; each skip halves it, and 2**16 / 2**20 < 1."""


@dataclass(frozen=True)
class Observations:
    """State what one rank observed in a launch."""

    parts: tuple[Part, ...]
    peak_phase: tuple[str, int] | None
    """Phase in which the update of full rows peaked, and its requested bytes; None on a device without counters."""
    data_wait_s: float
    """Host time the timed part waited for its windows [s]."""
    without_gradient: tuple[str, ...]
    """Trainable parameters that had no gradient at the end of any update of the first parts, sorted."""
    graphs: Mapping[PartName, int] | None
    """Graphs that torch.compile compiled in the parts of each name, 0 left out; None where nothing is compiled."""
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
        self._peak_phase: tuple[str, int] | None = None
        self._validation_loss: float | None = None
        self._without_gradient: set[str] | None = None
        self._graphs: Counter[PartName] = Counter()
        self._quality_update = bench.trial.measure.quality_updates or None

    def run(self) -> Observations:
        bench = self._bench
        self._run_first()
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
            self._peak_phase,
            data_wait_s,
            tuple(sorted(self._without_gradient or ())),
            self._graphs if bench.compile_watch is not None else None,
            self._validation_loss,
            pace,
        )

    def _make_pace(self) -> Pace:
        """Choose the pace from the fastest update of the memory pass: the same on all ranks."""
        bench = self._bench
        fastest_s = min(part.samples[0].seconds for part in self._parts if part.name == "memory")
        accumulation_steps = bench.trial.config.accumulation_steps
        assert accumulation_steps is not None, "the trial is resolved"
        pace = Pace(bench.trial.measure, accumulation_steps, bench.ranks.from_rank0(fastest_s))
        if pace.is_shortened:
            bench.feed.shorten(pace.micro_steps)
            if self._quality_update is not None and self._quality_update > bench.feed.next_update:
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
        """Run so many windows as a part of the launch."""
        self._validate_when_due()
        watch = self._bench.compile_watch
        before = 0 if watch is None else watch.graphs
        self._parts.append(run_part(self._bench, name, updates, by_micro_steps))
        self._graphs[name] += 0 if watch is None else watch.graphs - before
        if name in UNSHORTENED:
            self._look_for_gradients(self._parts[-1])
        return self._parts[-1]

    def _look_for_gradients(self, part: Part) -> None:
        """Note which parameters are still without a gradient: those of the last update stay until the next.

        Where none has one, who stepped freed them, and nothing can be told: without any there is no update.
        """
        if part.samples[-1].result != "empty":
            missing = names_without_gradient(self._bench.model)
            if len(missing) == sum(one.requires_grad for one in self._bench.model.parameters()):
                return
            known = self._without_gradient
            self._without_gradient = missing if known is None else known & missing

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
        """Run the memory pass: what it takes, and for how long, is as in the timed part.

        In the update of full rows the counters are read at each phase too. That costs the host a moment, so the pace is
        that of the others where they are faster.
        """
        bench = self._bench
        for number in range(MEMORY_UPDATES):
            if number != FULL_ROWS:
                self._run("memory", 1, by_micro_steps=True)  # for `rank_spread`: a mark costs next to nothing
                continue
            bench.feed.want_full_rows()
            phases = PeakPhase(bench.device)
            bench.profiler.on_phase = phases.phase_begin
            self._run("memory", 1, by_micro_steps=True)
            bench.profiler.on_phase = None
            self._peak_phase = phases.result()

    def _validate_when_due(self) -> None:
        if self._bench.feed.next_update == self._quality_update and self._validation_loss is None:
            self._validation_loss = validation_loss(self._bench)


def run_part(bench: Workbench, name: PartName, updates: int, by_micro_steps: bool = False) -> Part:
    """Run so many windows between two waits for the device, started together on all ranks."""
    bench.ranks.barrier()
    bench.profiler.begin(name, updates, by_micro_steps)
    for _ in range(updates):
        bench.loop.run_window(bench.feed.next_window())
    return bench.profiler.end()
