"""When the warm-up is over: a rule fed update by update, which says why it ended. No torch.

Source: METHOD of this project (warm-up rule); windows of medians as pyperf and nvbench use them, with the allocator
as a second witness. Slow heating is not visible in update times; flags and shuffled rounds handle it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

import numpy as np

FEWEST_IN_A_WINDOW = 3
"""Samples of a window that still has a middle one."""

State = Literal["warming", "steady", "not_steady"]


@dataclass(frozen=True)
class WarmupRule:
    """State what counts as steady. A sample is an update, or a micro-step if updates are long."""

    window: int
    """Samples in each of the two windows compared."""
    tolerance: float
    """Relative difference of the windows' medians that is still steady [ratio]."""
    device_s: float
    """Least work before the timed part [s]."""
    dropped: int = 5
    """First samples that never enter a window."""
    spike_ratio: float = 1.5
    """No sample of the two windows may be longer than so many medians."""
    test_every: int = 5
    """Samples between two tests."""
    samples_at_most: int = 200
    """Cap, once `device_s` is reached: a fast model needs more samples to heat the device."""
    device_s_at_most: float = 30.0
    """Cap on the whole warm-up [s]."""

    @property
    def samples_at_least(self) -> int:
        """Count the samples before the first test."""
        return self.dropped + 2 * self.window


class SteadyState:
    """Follow the warm-up of one launch; `state` is tested at the edges of its parts [one rank].

    Args:
        rule: What counts as steady.
    """

    def __init__(self, rule: WarmupRule) -> None:
        self._rule = rule
        self._seconds: list[float] = []
        self._allocator: list[Hashable] = []
        self.device_s = 0.0
        """Work so far, dropped samples and what lies between samples included [s]."""
        self.state: State = "warming"
        """warming until the rule holds (steady) or a cap is reached (not_steady)."""

    @property
    def samples(self) -> int:
        """Count what was fed."""
        return len(self._seconds)

    def add(self, seconds: float, allocator: Hashable = None, whole_s: float | None = None) -> None:
        """Feed one sample: its duration [s], and the allocator's counters after it, equal while it is quiet.

        `allocator` may be any value that changes when the allocator did something; None where there is none. `whole_s`
        is what passed since the sample before, where work between samples, such as the optimizer's step beside
        micro-steps, is in none of them [s]; it counts towards the least and the most time.
        """
        self._seconds.append(seconds)
        self._allocator.append(allocator)
        self.device_s += seconds if whole_s is None else whole_s
        if self.state == "warming" and self._is_test_due():
            if self._is_steady():
                self.state = "steady"
            elif self._is_at_cap():
                self.state = "not_steady"

    def samples_to_next_test(self) -> int:
        """Count the samples until `state` can change next."""
        rule = self._rule
        if self.samples < rule.samples_at_least:
            return rule.samples_at_least - self.samples
        return rule.test_every - (self.samples - rule.samples_at_least) % rule.test_every

    def expected_s(self) -> float:
        """Give what a further sample takes: the median of the last window, and its share of what lies between [s]."""
        return float(np.median(self._seconds[-self._rule.window :])) * self.device_s / math.fsum(self._seconds)

    def _is_test_due(self) -> bool:
        """Test at fixed counts, and at once where the whole warm-up ran out of time."""
        beyond = self.samples - self._rule.samples_at_least
        return (beyond >= 0 and beyond % self._rule.test_every == 0) or self.device_s >= self._rule.device_s_at_most

    def _is_steady(self) -> bool:
        rule = self._rule
        # Where the time is up before two whole windows, what there is of them must do.
        window = min(rule.window, (self.samples - rule.dropped) // 2)
        if window < min(rule.window, FEWEST_IN_A_WINDOW) or self.device_s < rule.device_s:
            return False
        both = np.array(self._seconds[-2 * window :])
        earlier, later = np.median(both[:window]), np.median(both[window:])
        # The counters before the first of both windows must still hold after the last.
        quiet = len(set(self._allocator[-2 * window - 1 :])) == 1
        is_level = abs(later - earlier) < rule.tolerance * earlier
        has_no_spike = both.max() <= rule.spike_ratio * np.median(both)
        return bool(is_level and has_no_spike and quiet)

    def _is_at_cap(self) -> bool:
        rule = self._rule
        enough = self.samples >= rule.samples_at_most and self.device_s >= rule.device_s
        return enough or self.device_s >= rule.device_s_at_most
