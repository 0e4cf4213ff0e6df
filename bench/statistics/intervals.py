"""How much faster one configuration is than another, and how sure that is. No torch.

The unit is the launch, not the update: launches of one configuration differ by more than updates within one. Rates are
compared as logarithms of ratios, pair by pair within a round, so that what drifts with time drops out.

Sources: Student's t on paired differences; bootstrap-t (Efron and Tibshirani, "An Introduction to the Bootstrap",
section 12.5), since a percentile bootstrap of few blocks covers far too little; Levene's test in the form of Brown and
Forsythe; the sign-flip (Fisher randomisation) test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

CONFIDENCE = 0.95
BOOTSTRAP_BLOCKS = 15
"""From so many blocks on the interval is a bootstrap-t, and no normal distribution is assumed."""
BOOTSTRAP_DRAWS = 9_999
EXACT_BLOCKS = 20
"""Up to so many blocks every flip of signs is tried; beyond, a seeded draw of them."""
LEVENE_LEVEL = 0.01

Method = Literal["t", "pooled_t", "bootstrap_t", "unpaired_t"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """State the mean log ratio of a candidate to its baseline, and its interval."""

    log_ratio: float
    """Mean of ln(candidate / baseline) over the blocks."""
    low: float
    """Lower end of the 95 % interval of the log ratio."""
    high: float
    """Upper end of the 95 % interval of the log ratio."""
    standard_error: float
    """Of the mean log ratio."""
    df: float
    """Degrees of freedom of the standard error."""
    blocks: int
    """Pairs of launches, one per round; unpaired, the rounds of the side that has fewer."""
    method: Method
    """t: from this pair alone; pooled_t: error from all configurations of the sweep; bootstrap_t: resampled;
    unpaired_t: rounds of the two measured at different times (Welch)."""
    statistics: tuple[float, ...] = ()
    """Sorted t values of the bootstrap; empty for the others."""

    @property
    def ratio(self) -> float:
        """Give candidate / baseline, the geometric mean over the blocks."""
        return math.exp(self.log_ratio)

    @property
    def ratio_low(self) -> float:
        """Give the lower end of the 95 % interval of the ratio."""
        return math.exp(self.low)

    @property
    def ratio_high(self) -> float:
        """Give the upper end of the 95 % interval of the ratio."""
        return math.exp(self.high)

    @property
    def half_width(self) -> float:
        """Give half of the interval of the log ratio."""
        return (self.high - self.low) / 2

    def p_beyond(self, margin: float) -> float:
        """Give the two-sided p value of "the log ratio is within +-margin"; below 0.05 the interval clears it."""
        distance = abs(self.log_ratio) - margin
        if self.standard_error == 0:
            return 0.0 if distance > 0 else 1.0
        t = distance / self.standard_error
        if self.method != "bootstrap_t":
            return min(1.0, 2 * (1 - float(special.stdtr(self.df, t))))
        values = np.array(self.statistics)
        # The end nearest to zero of a bootstrap-t interval comes from the tail on the side of the estimate.
        tail = values >= t if self.log_ratio > 0 else values <= -t
        return min(1.0, 2 * (float(tail.sum()) + 1) / (len(values) + 1))


def log_ratios(baseline: ArrayLike, candidate: ArrayLike) -> Floats:
    """Pair rates of two configurations by round: ln(candidate / baseline), shape (blocks,).

    Raises:
        ValueError: the two differ in length, or hold a rate that is not positive and finite.
    """
    one, other = np.asarray(baseline, dtype=np.float64), np.asarray(candidate, dtype=np.float64)
    if one.shape != other.shape or one.ndim != 1:
        raise ValueError(f"rates of {one.shape} and {other.shape} launches cannot be paired by round")
    if not all(np.isfinite(rates).all() and (rates > 0).all() for rates in (one, other)):
        raise ValueError("a rate is not positive and finite, so it has no logarithm")
    return np.log(other) - np.log(one)


def pair_interval(differences: ArrayLike, seed: int = 0) -> Interval:
    """Make the interval of one pair from its own blocks: t below 15 blocks, bootstrap-t from there on.

    Raises:
        ValueError: fewer than two blocks.
    """
    values = _blocks(differences)
    blocks, mean = len(values), float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(blocks)
    if blocks >= BOOTSTRAP_BLOCKS and error > 0:
        t_values = _bootstrap_t(values, seed)
        tail = (1 - CONFIDENCE) / 2
        lower, upper = np.quantile(t_values, [tail, 1 - tail])
        return Interval(
            mean,
            mean - float(upper) * error,
            mean - float(lower) * error,
            error,
            blocks - 1,
            blocks,
            "bootstrap_t",
            tuple(float(value) for value in t_values),
        )
    return _t_interval(mean, error, blocks - 1, blocks, "t")


def _bootstrap_t(values: Floats, seed: int) -> Floats:
    blocks = len(values)
    drawn = values[np.random.default_rng(seed).integers(0, blocks, size=(BOOTSTRAP_DRAWS, blocks))]
    errors = drawn.std(axis=1, ddof=1) / math.sqrt(blocks)
    usable = errors > 0  # a draw of one value over and over has no spread
    return np.sort((drawn.mean(axis=1)[usable] - values.mean()) / errors[usable])


def layout_intervals(log_rates: ArrayLike, pairs: Sequence[tuple[int, int]], seed: int = 0) -> list[Interval]:
    """Make the intervals of pairs (baseline, candidate) of a complete sweep, sharing what all its launches tell.

    In a complete layout of C configurations x K rounds, taking off every configuration's mean and every round's mean
    leaves a residual with (C - 1) (K - 1) degrees of freedom, so few rounds give a narrow interval. Where a Levene test
    at 1 % says that configurations differ in spread, or the layout has only two, each pair stands alone.

    Args:
        log_rates: ln(rate) (C, K): configurations by rounds, all present.
        pairs: Rows of the layout to compare.
        seed: Of the bootstrap, used from 15 rounds on.

    Raises:
        ValueError: fewer than two configurations or rounds, or a value is missing.
    """
    layout = np.asarray(log_rates, dtype=np.float64)
    if layout.ndim != 2 or min(layout.shape) < 2:
        raise ValueError(f"a layout of shape {layout.shape} has no residual: it needs 2 configurations and 2 rounds")
    if not np.isfinite(layout).all():
        raise ValueError("the layout is not complete: every configuration needs a rate in every round")
    configurations, rounds = layout.shape
    if rounds >= BOOTSTRAP_BLOCKS or configurations < 3 or spreads_differ(layout):
        return [pair_interval(layout[candidate] - layout[baseline], seed) for baseline, candidate in pairs]
    df = (configurations - 1) * (rounds - 1)
    error = residual_sd(layout) * math.sqrt(2 / rounds)
    means = layout.mean(axis=1)
    return [
        _t_interval(float(means[candidate] - means[baseline]), error, df, rounds, "pooled_t")
        for baseline, candidate in pairs
    ]


def residual_sd(log_rates: ArrayLike) -> float:
    """Give the residual standard deviation of a complete two-way layout (C, K), with (C - 1) (K - 1) df."""
    residuals = _residuals(np.asarray(log_rates, dtype=np.float64))
    configurations, rounds = residuals.shape
    return math.sqrt(float((residuals**2).sum()) / ((configurations - 1) * (rounds - 1)))


def spreads_differ(log_rates: ArrayLike) -> bool:
    """Tell whether Levene's test at 1 % rejects that all configurations of a layout (C, K) have equal spread."""
    residuals = _residuals(np.asarray(log_rates, dtype=np.float64))
    if residuals.shape[1] < 3 or not (np.ptp(residuals, axis=1) > 0).any():
        return False  # two rounds leave one deviation per configuration, twice
    from scipy import stats  # takes longer to import than all else here, and most comparisons do without

    return bool(stats.levene(*residuals, center="median").pvalue < LEVENE_LEVEL)


def _residuals(layout: Floats) -> Floats:
    residuals: Floats = layout - layout.mean(axis=1, keepdims=True) - layout.mean(axis=0) + layout.mean()
    return residuals


def sign_flip_p(differences: ArrayLike, seed: int = 0) -> float:
    """Give the two-sided p value of "the sign of each block's difference is chance": exact up to 20 blocks.

    The smallest it can be is 2 / 2^blocks: below six blocks it cannot reach 5 %.
    """
    values = _blocks(differences)
    observed = abs(float(values.sum()))
    near = observed - 1e-12 * float(np.abs(values).sum())  # sums of the same numbers in another order
    if len(values) <= EXACT_BLOCKS:
        sums = np.zeros(1)
        for value in values:
            sums = np.concatenate([sums + value, sums - value])
        return float((np.abs(sums) >= near).mean())
    draws = 99_999
    generator = np.random.default_rng(seed)
    hits = sum(
        int((np.abs(generator.choice([-1.0, 1.0], size=(draws // 3, len(values))) @ values) >= near).sum())
        for _ in range(3)
    )
    return (hits + 1) / (draws + 1)


def minimum_detectable_effect(
    interval: Interval, margin: float = 0.0, power: float = 0.8, comparisons: int = 1
) -> float:
    """Give the true |log ratio| that such blocks would tell apart from +-margin with the probability `power`.

    From the noncentral t distribution, at the level that Holm asks of the surest of so many comparisons.

    Args:
        interval: Of one comparison.
        margin: What it must clear, in log ratio.
        power: Probability.
        comparisons: Candidates judged together.
    """
    if interval.standard_error == 0:
        return margin
    df = interval.df
    reach = float(special.nctdtrinc(df, 1 - power, student_t(1 - (1 - CONFIDENCE) / 2 / comparisons, df)))
    # A standard deviation of few values is too small on average (c4 of control charts).
    unbiased = math.sqrt(df / 2) * math.exp(special.gammaln(df / 2) - special.gammaln((df + 1) / 2))
    return margin + reach * unbiased * interval.standard_error


def blocks_needed(block_sd: float, half_width: float, at_most: int = 10_000) -> int | None:
    """Count the blocks, at least 3, that bring a t interval of one pair to a half-width; null beyond `at_most`.

    Args:
        block_sd: Standard deviation of one block's log ratio; sqrt(2) times that of one launch.
        half_width: Half-width to reach, in log ratio.
        at_most: Where to give up.
    """
    if half_width <= 0:
        return None
    guess = max(3, math.floor((1.96 * block_sd / half_width) ** 2))  # t is wider than normal, so never fewer
    for blocks in range(min(guess, at_most), at_most + 1):
        if student_t(0.5 + CONFIDENCE / 2, blocks - 1) * block_sd / math.sqrt(blocks) <= half_width:
            return blocks
    return None


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values for their number (Holm, Scandinavian Journal of Statistics 1979); same order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def student_t(probability: float, df: float) -> float:
    """Give the quantile of Student's t; scipy.special, since scipy.stats takes a hundred times longer."""
    return float(special.stdtrit(df, probability))


def _blocks(differences: ArrayLike) -> Floats:
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"{values.size} block(s) have no spread: at least 2 are needed")
    return values


def _t_interval(mean: float, error: float, df: float, blocks: int, method: Method) -> Interval:
    reach = student_t(0.5 + CONFIDENCE / 2, df) * error
    return Interval(mean, mean - reach, mean + reach, error, df, blocks, method)
