"""When a launch has taken too long: at its start, without progress, or as a whole. Judged by heartbeats alone.

Output proves nothing: a rank that prints but never finishes a micro-step hangs. All limits are on the monotonic clock.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from bench.launch.heartbeat import Beat

_SLOWER_THAN_USUAL = 20
"""Times the median micro-step that a rank may be silent, where that is longer than the stall limit."""
_MEDIAN_OVER = 101
"""Latest micro-steps that the median is taken over."""


@dataclass(frozen=True)
class LaunchLimits:
    """Bound a launch."""

    start_s: float
    """To the end of every rank's first micro-step [s]."""
    total_s: float
    """To the exit of the last rank [s]."""
    stall_s: float = 60.0
    """Without a sign of life after the start [s]; or 20 times the median micro-step, where that is longer."""
    sweep_s: float | None = None
    """What is left of the time limit of the whole sweep [s]; None without one."""


@dataclass(frozen=True)
class Stopped:
    """Say why the driver ended a launch itself."""

    outcome: str
    reason: str
    rank: int | None = None
    """The rank to blame; None to blame the one that got least far."""


class Watchdog:
    """Look at the ranks now and then and say when to stop the launch."""

    def __init__(self, limits: LaunchLimits, started_s: float) -> None:
        self._limits = limits
        self._started_s = started_s
        self._excused_until_s = started_s
        self._excused_s = 0.0
        self._start_from_s = 0.0
        self._has_started = False
        self._seen: dict[int, Beat] = {}
        self._micro_steps_s: list[float] = []

    def excuse(self, seconds: float, now_s: float) -> None:
        """Leave out a time in which the launch or its driver was stopped."""
        self._excused_s += seconds
        self._excused_until_s = now_s

    def start_again(self, now_s: float) -> None:
        """Count the start limit from now on, and the others as before: the ranks are started once more."""
        self._start_from_s = now_s - self._started_s - self._excused_s

    def look(self, beats: Mapping[int, Beat | None], now_s: float) -> Stopped | None:
        """Judge by the latest sign of life of each rank; None lets the launch go on."""
        limits = self._limits
        self._note(beats)
        elapsed_s = now_s - self._started_s - self._excused_s
        if elapsed_s > limits.total_s:
            return Stopped("timeout", f"the launch took longer than its limit of {limits.total_s:g} s")
        if limits.sweep_s is not None and elapsed_s > limits.sweep_s:
            return Stopped("interrupted", "the time limit of the sweep was reached")
        if not self._has_started:
            if elapsed_s - self._start_from_s > limits.start_s:
                return Stopped("timeout", f"no micro-step finished within the start limit of {limits.start_s:g} s")
            return None
        return self._stalled(beats, now_s)

    @property
    def stall_limit_s(self) -> float:
        """How long a rank may show no sign of life [s]."""
        usual_s = statistics.median(self._micro_steps_s) if self._micro_steps_s else 0.0
        return max(self._limits.stall_s, _SLOWER_THAN_USUAL * usual_s)

    def _note(self, beats: Mapping[int, Beat | None]) -> None:
        for rank, beat in beats.items():
            before = self._seen.get(rank)
            if beat is None or beat.update < 0:
                continue  # what comes before the first window is in no micro-step
            if before is not None and beat.micro_steps > before.micro_steps:
                per_micro_step_s = (beat.monotonic_s - before.monotonic_s) / (beat.micro_steps - before.micro_steps)
                self._micro_steps_s = [*self._micro_steps_s, per_micro_step_s][-_MEDIAN_OVER:]
            if before is None or beat.micro_steps > before.micro_steps:
                self._seen[rank] = beat
        self._has_started = self._has_started or all(map(_has_run, beats.values()))

    def _stalled(self, beats: Mapping[int, Beat | None], now_s: float) -> Stopped | None:
        limit_s = self.stall_limit_s
        silent = {
            rank: beat
            for rank, beat in beats.items()
            if beat is not None and now_s - max(beat.monotonic_s, self._excused_until_s) > limit_s
        }
        if not silent:
            return None
        rank = min(silent, key=lambda each: progress(silent[each]))
        return Stopped("hang", f"rank {rank} made no progress for {limit_s:g} s", rank)


def _has_run(beat: Beat | None) -> bool:
    """Tell whether a rank finished a micro-step; one without data in its first windows finishes updates alone."""
    return beat is not None and (beat.micro_steps >= 1 or beat.update >= 1)


def progress(beat: Beat | None) -> tuple[float, ...]:
    """Say how far a rank got, for comparing ranks; of equally far ones the earlier is behind."""
    if beat is None:
        return (-2.0,)
    return (beat.beats, beat.monotonic_s)
