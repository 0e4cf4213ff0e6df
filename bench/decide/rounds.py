"""Estimate speeds from rounds in which not every configuration was measured.

A launch's speed is that of its configuration, times what its round does to all (a machine slows down and recovers),
times noise. Both are fitted at once by least squares on logarithms:

    ln(speed of configuration c in round k) = a_c + b_k + noise

Where every configuration was measured in every round, a_c - a_d is the mean of the paired differences. Where some are
missing it is the same difference with the rounds taken off, so that whoever was measured in fast rounds gains nothing,
and whoever was measured less often gets a wider interval. The estimates are one number per configuration, so ranks and
differences never contradict each other, which differences over each pair's shared rounds can.

Source: analysis of an incomplete block design without recovery of inter-block information, as in Cochran and Cox,
"Experimental Designs", chapter 9.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.report.configurations import Speeds

if TYPE_CHECKING:
    from bench.statistics.intervals import Interval

Floats = NDArray[np.float64]
LEAST_ROUNDS = 2
"""With fewer rounds in common there is no spread, so no interval."""


@dataclass(frozen=True)
class Missed:
    """Hold what a configuration would have had in the rounds in which only others were measured."""

    values: tuple[float, ...]
    """The expected value in each of those rounds, in the unit of the fit."""
    relative_error: float | None
    """Standard error of its mean over all rounds, relative to the mean; null where it was measured once, or nothing
    tells how far launches spread."""
    df: float
    """Degrees of freedom of that error."""


class RoundFit:
    """Fit speeds, or any other positive value, of configurations over rounds."""

    def __init__(self, speeds: Sequence[Speeds]) -> None:
        """Fit; every configuration needs at least one speed."""
        self._speeds = speeds
        places: dict[Any, int] = {}
        for one in speeds:
            for block in one:
                places.setdefault(block, len(places))
        self._rounds = len(places)
        self._is_complete = all(len(one) == len(places) for one in speeds)
        config = np.repeat(np.arange(len(speeds)), [len(one) for one in speeds])
        at = np.array([places[name] for one in speeds for name in one], dtype=np.int64)
        logs = np.log(np.array([speed for one in speeds for speed in one.values()], dtype=np.float64))
        self._counts = np.bincount(config, minlength=len(speeds)).astype(np.float64)
        means: Floats = np.bincount(config, logs, minlength=len(speeds)) / self._counts
        self._shares = np.zeros((len(speeds), len(places)))
        """Share of a configuration's launches that lies in each round, (C, K)."""
        self._shares[config, at] = 1 / self._counts[config]
        if self._is_complete:
            self.log_speeds = means
            return
        self._inverse = _pseudo_inverse(self._shares, self._counts)
        within = np.bincount(at, logs - means[config], minlength=len(places))
        effects = self._inverse @ within
        self._effects: Floats = effects
        self.log_speeds = means - self._shares @ effects
        """ln(speed) of each configuration in an average round, (C,); comparable where rounds connect them."""
        residuals = logs - self.log_speeds[config] - effects[at]
        groups = int(np.linalg.matrix_rank(self._inverse))
        self._df = len(logs) - len(speeds) - groups
        self._sd = math.sqrt(float((residuals**2).sum()) / self._df) if self._df > 0 else None
        self._residuals = [residuals[config == index] for index in range(len(speeds))] if self._df > 0 else []

    def intervals(self, baseline: int) -> list[Interval | None]:
        """Make the interval of every configuration against one, in order; null without two rounds in common."""
        if not self._is_complete:
            places = range(len(self._speeds))
            return [None if other == baseline else self._interval(baseline, other) for other in places]
        if self._rounds < LEAST_ROUNDS or len(self._speeds) < 2:
            return [None] * len(self._speeds)
        made = self._complete([(baseline, other) for other in range(len(self._speeds)) if other != baseline])
        return [*made[:baseline], None, *made[baseline:]]

    def interval(self, baseline: int, other: int) -> Interval | None:
        """Make the interval of one configuration against another; null without two rounds in common."""
        if not self._is_complete:
            return self._interval(baseline, other)
        return None if self._rounds < LEAST_ROUNDS else self._complete([(baseline, other)])[0]

    def log_ratio(self, baseline: int, other: int) -> float:
        """Give ln(other / baseline) without the rounds; where no rounds connect the two, of their plain means."""
        return float(self.log_speeds[other] - self.log_speeds[baseline])

    def missed(self, place: int) -> Missed | None:
        """Estimate a configuration in the rounds that it was not measured in; null where it was measured in all.

        Rounds are those that other configurations connect with its own. The error of its mean over all of them has two
        parts: how far rounds differ, as in a mean over them, and how well the launches tell its part; t with the fewer
        degrees of freedom.
        """
        if self._is_complete:
            return None
        reach = self._connected(place)
        rounds, measured = int(reach.sum()), int(self._counts[place])
        if measured >= rounds:
            return None
        share = self._shares[place]
        noise = 0.0 if self._sd is None else self._sd**2
        # What is expected is the mean of a lognormal, not its median.
        logs = self.log_speeds[place] + self._effects[reach & (share == 0)] + noise / 2
        values = tuple(float(value) for value in np.exp(logs))
        if self._sd is None or measured < LEAST_ROUNDS:
            return Missed(values, None, 0)
        own = noise * (1 / measured + float(share @ self._inverse @ share))
        error = math.sqrt(float(np.var(self._effects[reach], ddof=1)) / rounds + own)
        return Missed(values, error, min(rounds - 1, self._df))

    def _connected(self, place: int) -> NDArray[np.bool_]:
        """Mark the rounds that can be reached from a configuration's own over configurations measured in both, (K,)."""
        measured = self._shares > 0
        reach = measured[place]
        while (wider := np.any(measured[np.any(measured[:, reach], axis=1)], axis=0)).sum() > reach.sum():
            reach = wider
        return np.asarray(reach, dtype=np.bool_)

    def _complete(self, pairs: Sequence[tuple[int, int]]) -> list[Interval]:
        from bench.statistics.intervals import layout_intervals

        layout = [[math.log(one[block]) for block in self._speeds[0]] for one in self._speeds]
        return layout_intervals(layout, pairs)

    def _interval(self, baseline: int, other: int) -> Interval | None:
        from bench.statistics.intervals import BOOTSTRAP_BLOCKS, Interval, log_ratios, pair_interval, student_t

        one, two = self._speeds[baseline], self._speeds[other]
        common = [block for block in one if block in two]
        if len(common) < LEAST_ROUNDS:
            return None
        paired = pair_interval(log_ratios([one[block] for block in common], [two[block] for block in common]))
        is_same = len(common) == len(one) == len(two)
        if is_same and len(common) >= BOOTSTRAP_BLOCKS:
            return paired
        apart = self._shares[other] - self._shares[baseline]
        factor = 1 / self._counts[baseline] + 1 / self._counts[other] + float(apart @ self._inverse @ apart)
        ratio = self.log_ratio(baseline, other)
        if self._sd is None or self._spreads_differ:
            # Launches of the two alone tell how far they spread; one of a pair has 1 / sqrt(2) of its difference.
            sd, df = paired.standard_error * math.sqrt(len(common) / 2), len(common) - 1
        else:
            sd, df = self._sd, self._df
        error = sd * math.sqrt(factor)
        reach = student_t(0.975, df) * error
        return Interval(ratio, ratio - reach, ratio + reach, error, df, len(common), "pooled_t")

    @functools.cached_property
    def _spreads_differ(self) -> bool:
        from bench.statistics.intervals import LEVENE_LEVEL

        groups = [one for one in self._residuals if len(one) > 2]
        if len(groups) < 2 or not any(np.ptp(one) > 0 for one in groups):
            return False
        from scipy import stats

        return bool(stats.levene(*groups, center="median").pvalue < LEVENE_LEVEL)


def _pseudo_inverse(shares: Floats, counts: Floats) -> Floats:
    """Invert the normal equations of the rounds, those of the configurations taken off; (K, K), singular."""
    incidence = shares * counts[:, None]
    normal = np.diag(incidence.sum(axis=0)) - incidence.T @ shares
    return np.asarray(np.linalg.pinv(normal, hermitian=True, rcond=1e-10), dtype=np.float64)
