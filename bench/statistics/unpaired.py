"""How fast one side is against another that was measured at another time: nothing can be paired. No torch.

Source: Welch, "The generalization of 'Student's' problem when several different population variances are involved",
Biometrika 34 (1947), with Satterthwaite's degrees of freedom. scipy.stats.ttest_ind, against which the tests hold it,
takes 30 times longer and warns where the rounds of one side are equal.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from bench.statistics.intervals import CONFIDENCE, Interval, student_t


def unpaired_interval(one: ArrayLike, other: ArrayLike) -> Interval:
    """Compare two sets of rounds that were not measured side by side, so that the spread of both counts in full.

    The ratio is second / first; `blocks` of the interval are the rounds of the side that has fewer.

    Args:
        one: ln(rate) of each round of the first (rounds,).
        other: ln(rate) of each round of the second (rounds,); the two may differ in number.

    Raises:
        ValueError: Fewer than two rounds of either: a single one has no spread.
    """
    first, second = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    rounds = min(first.size, second.size)
    if rounds < 2:
        raise ValueError(f"{first.size} and {second.size} round(s) have no spread: at least 2 of each are needed")
    difference = float(second.mean() - first.mean())
    shares = [float(values.var(ddof=1)) / values.size for values in (first, second)]
    error = math.sqrt(sum(shares))
    if error == 0:
        return Interval(difference, difference, difference, 0.0, math.inf, rounds, "unpaired_t")
    terms = [share**2 / (values.size - 1) for share, values in zip(shares, (first, second), strict=True)]
    df = error**4 / sum(terms)
    reach = student_t(0.5 + CONFIDENCE / 2, df) * error
    return Interval(difference, difference - reach, difference + reach, error, df, rounds, "unpaired_t")
