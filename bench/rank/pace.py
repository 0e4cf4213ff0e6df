"""How many updates come next, in the warm-up and in the timed part: as fixed, or until a preset is met. No torch.

Asked only between segments, outside the clock. Every rank keeps a pace from its own times, but goes by that of rank 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import fmean

from bench.measure.update_times import UpdateTime, precision_of_updates, samples_of
from bench.statistics.lengths import LENGTHS
from bench.statistics.steady import SteadyState
from bench.statistics.stopping import MeanPrecision, StopReason, StopWatch
from bench.sweep.fields import MeasureSpec

LONG_UPDATE_S = 1.0
"""From here on an update is sampled by its micro-steps."""
FEWEST_MICRO_STEPS = 4
"""Micro-steps of a window that is sampled by them, and of a shortened one, at least: two lie between first and last."""
ROOM_FOR_WHOLE = 2.0
"""How often a whole window's expected time must fit into what is left of the launch's time limit."""
WHOLE_UPDATES = 3
"""Whole updates, at least, of a timed part that is sampled by micro-steps."""
SEGMENT_S_AT_LEAST = 0.25
"""Work between two edges: an edge of tens of microseconds then takes less than 0.05 % of it."""
SEGMENT_S_AT_MOST = 10.0
"""So that a slow part is noticed; the estimate of an update's time may be old."""


class Pace:
    """Follow one launch and say how many updates come next; 0 ends the warm-up, then the timed part.

    Args:
        measure: What was asked for.
        accumulation_steps: Micro-steps of a full window.
        update_s: Estimate of an update's time [s], the same on every rank.
    """

    def __init__(self, measure: MeasureSpec, accumulation_steps: int, update_s: float) -> None:
        self._fixed_warmup, self._fixed_timed = measure.warmup_updates or 0, measure.updates or 0
        self._preset = None if measure.preset is None else LENGTHS[measure.preset]
        self._steady = None if self._preset is None else SteadyState(self._preset.warmup)
        self._watch = None if self._preset is None else StopWatch(self._preset.stop)
        self.accumulation_steps = accumulation_steps
        """Micro-steps of a full window."""
        self._full_update_s = update_s
        self._update_s = update_s
        self.by_micro_steps = (
            self._preset is not None and update_s > LONG_UPDATE_S and accumulation_steps >= FEWEST_MICRO_STEPS
        )
        """Whether samples are micro-steps."""
        self.micro_steps = self._shortened(accumulation_steps)
        """Micro-steps of the windows to run: fewer than asked for where three whole updates would not fit."""
        self._update_s *= self.micro_steps / accumulation_steps
        self._times: list[UpdateTime] = []
        self._timed_s = 0.0

    @property
    def is_shortened(self) -> bool:
        """Tell whether windows are shorter than asked for, so that the time of a full one is extrapolated."""
        return self.micro_steps < self.accumulation_steps

    @property
    def confirming_micro_steps(self) -> int:
        """Count the micro-steps of the longer windows that the law must foretell, where windows are shortened."""
        return min(2 * self.micro_steps, self.accumulation_steps)

    @property
    def confirms_by_whole(self) -> bool:
        """Tell whether the longer windows that confirm the law are whole ones."""
        return self.confirming_micro_steps == self.accumulation_steps

    def has_room_for_whole(self, left_s: float) -> bool:
        """Tell whether a whole window surely fits into so many seconds; it may take longer than it did before."""
        return ROOM_FOR_WHOLE * self._full_update_s <= left_s

    @property
    def precision(self) -> MeanPrecision:
        """Say how well the mean time of a full update is known."""
        return precision_of_updates(self._times, self.accumulation_steps)

    @property
    def target_half_width(self) -> float | None:
        """Give the relative half-width aimed at; None with a fixed length."""
        return None if self._preset is None else self._preset.stop.half_width

    @property
    def stop_reason(self) -> StopReason | None:
        """Say why the timed part ended."""
        return "fixed" if self._watch is None else self._watch.reason

    @property
    def flags(self) -> tuple[str, ...]:
        """Name what the preset requires and did not get."""
        found = {
            "not_steady": self._steady is not None and self._steady.state == "not_steady",
            "precision_not_met": self.stop_reason == "cap",
        }
        return tuple(flag for flag, is_raised in found.items() if is_raised)

    def warmup_due(self) -> int:
        """Count the updates to run before the warm-up can be judged again; 0 when it is over."""
        if self._steady is None or self._preset is None:
            due, self._fixed_warmup = self._fixed_warmup, 0
            return due
        if self._steady.state != "warming":
            return 0
        if self.is_shortened and not self._steady.samples:
            return 1  # what a window of fewer micro-steps takes is not known yet
        rule, done_s = self._preset.warmup, self._steady.device_s
        sample_s = self._steady.expected_s() if self._steady.samples else self._update_s / self._samples_per_update
        samples = max(self._steady.samples_to_next_test(), (rule.device_s - done_s) / sample_s)
        updates = self._updates(min(samples, (rule.device_s_at_most - done_s) / sample_s))
        return min(updates, max(1, math.floor(SEGMENT_S_AT_MOST / self._update_s)))

    def warmed(self, times: Sequence[UpdateTime], before: Hashable, after: Hashable) -> None:
        """Note warm-up updates, and the allocator's counters before and after them."""
        if self._steady is None:
            return
        for time in times:
            for place, seconds in enumerate(time.samples, start=1):
                # Where in between the allocator worked is not known; the end is the cautious guess.
                is_last = time is times[-1] and place == len(time.samples)
                # An update's whole time counts, also what lies outside its inner micro-steps.
                self._steady.add(seconds, after if is_last else before, time.seconds / len(time.samples))
        self._update_s = fmean(time.seconds for time in times)

    def timed_due(self) -> int:
        """Count the updates of the next segment; 0 when the timed part is over."""
        if self._watch is None:
            due, self._fixed_timed = self._fixed_timed, 0
            return due
        if self._watch.reason is not None:
            return 0
        samples = len(samples_of(self._times))
        sample_s = self._update_s / self._samples_per_update
        updates = self._updates(self._watch.samples_to_next_look(samples, self._timed_s, sample_s))
        updates = min(updates, math.floor(SEGMENT_S_AT_MOST / self._update_s))
        whole = WHOLE_UPDATES - len(self._times) if self.by_micro_steps else 1
        return max(updates, math.ceil(SEGMENT_S_AT_LEAST / self._update_s), whole)

    def timed(self, times: Sequence[UpdateTime], host_s: float) -> None:
        """Note one segment and its length on the host's clock [s]."""
        self._times += times
        self._timed_s += host_s
        self._update_s = self._timed_s / len(self._times)
        if self._watch is not None:
            self._watch.look(len(samples_of(self._times)), self.precision.half_width, self._timed_s)

    @property
    def _samples_per_update(self) -> int:
        return self.micro_steps - 2 if self.by_micro_steps else 1

    def _updates(self, samples: float) -> int:
        return max(1, math.ceil(samples / self._samples_per_update))

    def _shortened(self, accumulation_steps: int) -> int:
        """Shorten windows where three whole updates, and as much warm-up, would take longer than the preset allows."""
        if self._preset is None or not self.by_micro_steps:
            return accumulation_steps
        affordable_s = self._preset.whole_updates_s / (2 * WHOLE_UPDATES)
        if self._update_s <= affordable_s:
            return accumulation_steps
        return max(FEWEST_MICRO_STEPS, math.floor(accumulation_steps * affordable_s / self._update_s))
