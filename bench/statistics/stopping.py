"""How long the timed part lasts, and how well its mean is known. No torch.

Update times of one launch are correlated: a slow one often follows a slow one, so the naive standard error is too
small, and so is an interval built on it. Two estimates are made and the wider one counts: Student's t on ten
batch means (Law and Kelton, "Simulation Modeling and Analysis", batch means), and t on the effective number of samples
of a first-order autoregression. The interval holds within one launch; only rounds compare configurations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.statistics.intervals import CONFIDENCE, student_t

BATCHES = 10
LOOK_FACTOR = 1.5
"""Growth of the samples from one look to the next: many looks would find a lucky one [ratio]."""

StopReason = Literal["precision", "cap", "fixed"]


@dataclass(frozen=True)
class StopRule:
    """State when a launch may stop. A sample is an update, or a micro-step where updates are long."""

    half_width: float
    """Relative half-width of the mean's 95 % interval to reach [ratio]."""
    samples_at_least: int
    """Samples before the first look."""
    seconds_at_least: float
    """Time before the first look [s]."""
    seconds_at_most: float
    """Cap on the timed part [s]."""
    samples_at_most: int
    """Cap, once `seconds_at_least` is reached."""


@dataclass(frozen=True)
class MeanPrecision:
    """State how well the mean of a launch's samples is known [within one launch]."""

    mean_s: float
    """Mean duration [s]."""
    half_width: float | None
    """Half of the mean's 95 % interval / the mean [ratio]; null below three samples."""
    lag1: float | None
    """Bias-corrected correlation of neighbouring samples, cut to 0 .. 0.95; null below three samples."""
    spread: float | None
    """Standard deviation of a sample / the mean [ratio]; null below two samples."""


def precision_of(seconds: Sequence[float]) -> MeanPrecision:
    """Give the mean of one launch's samples and its relative half-width at 95 % confidence.

    half-width = max(t(9 df) x s(batch means) / sqrt(10), t(n' - 1 df) x s / sqrt(n')), where n' = n (1 - r) / (1 + r).
    Below 20 samples there are no ten batches of two, and the second part counts alone.
    """
    samples = np.asarray(seconds, dtype=np.float64)
    n, mean = len(samples), float(np.mean(samples))
    if n < 2:
        return MeanPrecision(mean, None, None, None)
    sd = float(np.std(samples, ddof=1))
    if n < 3:
        return MeanPrecision(mean, None, None, sd / mean)
    lag1 = _lag1(samples)
    effective = max(2.0, n * (1 - lag1) / (1 + lag1))
    widths = [_t(effective - 1) * sd / math.sqrt(effective)]
    if n >= 2 * BATCHES:
        size = n // BATCHES
        means = samples[n - BATCHES * size :].reshape(BATCHES, size).mean(axis=1)
        widths.append(_t(BATCHES - 1) * float(np.std(means, ddof=1)) / math.sqrt(BATCHES))
    return MeanPrecision(mean, max(widths) / mean, lag1, sd / mean)


def _lag1(samples: NDArray[np.float64]) -> float:
    """Estimate the lag-1 correlation, its bias of -(1 + 4 r) / n taken off (Marriott and Pope, Biometrika 1954)."""
    centred = samples - samples.mean()
    total = float(centred @ centred)
    if total == 0:
        return 0.0
    raw = float(centred[1:] @ centred[:-1]) / total
    n = len(samples)
    corrected = raw + (1 + 4 * raw) / n
    return min(max(corrected, 0.0), 0.95)


def _t(df: float) -> float:
    return student_t(0.5 + CONFIDENCE / 2, df)


class StopWatch:
    """Say at the edges of segments whether to go on, and for how many samples [rank 0].

    Args:
        rule: When to stop.
    """

    def __init__(self, rule: StopRule) -> None:
        self._rule = rule
        self._next_look = rule.samples_at_least
        self.reason: StopReason | None = None
        """Why the timed part ends; null while it goes on."""

    def look(self, samples: int, half_width: float | None, elapsed_s: float) -> None:
        """Look at what so many samples in so many seconds gave; sets `reason` to stop.

        Never stops because the spread settled: at the cap the figure is kept, and its half-width says what it is.
        """
        rule = self._rule
        if samples >= self._next_look and elapsed_s >= rule.seconds_at_least:
            if half_width is not None and half_width <= rule.half_width:
                self.reason = "precision"
                return
            if samples >= rule.samples_at_most:
                self.reason = "cap"
                return
            self._next_look = min(math.ceil(LOOK_FACTOR * samples), max(rule.samples_at_most, samples + 1))
        if elapsed_s >= rule.seconds_at_most:
            self.reason = "cap"

    def samples_to_next_look(self, samples: int, elapsed_s: float, sample_s: float) -> int:
        """Count the samples to the next look, should each take `sample_s`, or to the cap; at least 1."""
        rule = self._rule
        for_time = (rule.seconds_at_least - elapsed_s) / sample_s
        to_cap = (rule.seconds_at_most - elapsed_s) / sample_s
        return max(1, math.ceil(min(max(self._next_look - samples, for_time), to_cap)))
