"""How fast one machine is against another, measured at different times: nothing can be paired. No torch.

Source: Welch, "The generalization of 'Student's' problem when several different population variances are involved",
Biometrika 34 (1947), with Satterthwaite's degrees of freedom. scipy.stats.ttest_ind, against which the tests hold it,
takes 30 times longer and warns where the rounds of one machine are equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bench.statistics.intervals import CONFIDENCE, student_t


@dataclass(frozen=True)
class UnpairedInterval:
    """State the ratio of two geometric means with its interval."""

    ratio: float
    """Second / first."""
    low: float
    """Lower end of the 95 % interval of the ratio."""
    high: float
    """Upper end of the 95 % interval of the ratio."""
    df: float
    """Degrees of freedom of the interval."""


def unpaired_interval(one: ArrayLike, other: ArrayLike) -> UnpairedInterval:
    """Compare two sets of rounds that were not measured side by side, so that the spread of both counts in full.

    Args:
        one: ln(rate) of each round of the first (rounds,).
        other: ln(rate) of each round of the second (rounds,); the two may differ in number.

    Raises:
        ValueError: Fewer than two rounds of either: a single one has no spread.
    """
    first, second = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if min(first.size, second.size) < 2:
        raise ValueError(f"{first.size} and {second.size} round(s) have no spread: at least 2 of each are needed")
    difference = float(second.mean() - first.mean())
    shares = [float(values.var(ddof=1)) / values.size for values in (first, second)]
    error = math.sqrt(sum(shares))
    if error == 0:
        return UnpairedInterval(math.exp(difference), math.exp(difference), math.exp(difference), math.inf)
    terms = [share**2 / (values.size - 1) for share, values in zip(shares, (first, second), strict=True)]
    df = error**4 / sum(terms)
    reach = student_t(0.5 + CONFIDENCE / 2, df) * error
    return UnpairedInterval(math.exp(difference), math.exp(difference - reach), math.exp(difference + reach), df)
