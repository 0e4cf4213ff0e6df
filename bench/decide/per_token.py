"""What one valid token costs, in seconds or joules: the mean over rounds, and how sure it is.

A long run meets what every round met, so it takes T times the *mean cost per token*: tokens over seconds, where each
round does an equal share of the tokens. The mean of rates is larger: rounds of 100k and 33.3k tokens/s do 50.0k
together, not 57.7k (their geometric mean) nor 66.7k. Ratios of configurations stay on logarithms, where what a round
does to all of them drops out (bench.decide.rounds).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from bench.decide.rounds import LEAST_ROUNDS, RoundFit
from bench.report.configurations import BLOCK, Configuration, Speeds

_UNLIKELY = 0.9
"""Share of cases in which what rounds do is less than its bound."""

Costs = Speeds
"""Cost of one valid token by block, such as seconds, all ranks."""


@dataclass(frozen=True)
class MeanCost:
    """Hold the mean cost of a valid token over rounds."""

    mean: float
    """Mean over rounds, missed ones estimated."""
    low: float | None
    """Lower end of its 95 % interval, 0 where nothing bounds it; null where it was measured once."""
    high: float | None
    """Upper end of its 95 % interval; null where it was measured once."""
    rounds: int
    """Rounds in which the configuration was measured."""
    rounds_missing: int
    """Rounds in which only others were measured; what it would have cost in them is estimated from those."""

    def of(self, count: float) -> Amount:
        """Give what so many tokens cost."""
        return Amount(
            self.mean * count,
            None if self.low is None else self.low * count,
            None if self.high is None else self.high * count,
        )


@dataclass(frozen=True)
class Amount:
    """Hold what a run takes, such as hours, a price or joules, with the ends of its 95 % interval."""

    amount: float
    low: float | None
    """Null where the cost has no interval."""
    high: float | None
    """Null where the cost has no interval."""


def seconds_of(one: Configuration) -> Costs:
    """Give the seconds per valid token of every round [seconds/token, all ranks together]."""
    return {block: 1 / speed for block, speed in one.speeds.items()}


def joules_of(one: Configuration) -> Costs:
    """Give the joules per valid token of every round that measured them [joules/token, all GPUs]."""
    known = {
        tuple(launch.get(name) for name in BLOCK): launch.get("joules_per_valid_token")
        for launch in one.launches
        if launch["outcome"] == "ok"
    }
    return {block: joules for block, joules in known.items() if joules is not None and 0 < joules < math.inf}


def mean_cost(costs: Costs, others: Sequence[Costs] = ()) -> MeanCost:
    """Give the mean cost of a configuration over rounds, and its 95 % t interval.

    With few rounds the relative spread is pooled over the configurations that were measured in the same rounds (delta
    method: a relative error of the mean is an error of its logarithm), unless Levene's test says that spreads differ.
    They share what each round did, which has as many degrees of freedom as rounds less one, and differ by their own
    noise: Satterthwaite's degrees of freedom for the sum of the two, on the safe side. Rounds that only others were
    measured in are estimated from those.

    Args:
        costs: Of the configuration, at least one round.
        others: Of configurations that the same sweep measured.
    """
    from bench.statistics.intervals import student_t

    rounds, values = len(costs), list(costs.values())
    missed = RoundFit([costs, *others]).missed(0) if any(one.keys() - costs.keys() for one in others) else None
    if missed is not None:
        mean = statistics.fmean([*values, *missed.values])
        error, df = missed.relative_error, missed.df
    else:
        mean = statistics.fmean(values)
        error, df = _relative_error(costs, others, mean)
    gone = 0 if missed is None else len(missed.values)
    if error is None:
        return MeanCost(mean, None, None, rounds, gone)
    reach = mean * error * student_t(0.975, df) if error > 0 else 0.0
    return MeanCost(mean, max(0.0, mean - reach), mean + reach, rounds, gone)


def _relative_error(costs: Costs, others: Sequence[Costs], mean: float) -> tuple[float | None, float]:
    """Give the standard error of the mean relative to it, null for one round, and its degrees of freedom."""
    rounds = len(costs)
    if rounds < LEAST_ROUNDS:
        return None, 0.0
    beside = [one for one in others if one.keys() == costs.keys()]
    pooled = _pooled([[math.log(one[block]) for block in costs] for one in (costs, *beside)])
    if pooled is None:
        return statistics.stdev(costs.values()) / mean / math.sqrt(rounds), rounds - 1
    variance, df = pooled
    return math.sqrt(variance / rounds), df


def _pooled(layout: Sequence[Sequence[float]]) -> tuple[float, float] | None:
    """Pool the variance over rounds of configurations' logarithms (C, K); null where each must tell its own."""
    from bench.statistics.intervals import BOOTSTRAP_BLOCKS, residual_sd, spreads_differ

    logs = np.asarray(layout, dtype=np.float64)
    count, rounds = logs.shape
    if count < 3 or rounds >= BOOTSTRAP_BLOCKS or spreads_differ(logs):
        return None
    # Mean squares of a two-way layout: what rounds do to all, and the noise of a launch.
    of_rounds = float(logs.mean(axis=0).var(ddof=1))
    of_noise = residual_sd(logs) ** 2 * (count - 1) / count
    # Few rounds that are alike by chance would lend their part the many degrees of freedom of the noise, and intervals
    # would hold the truth too seldom: for the degrees of freedom it counts as large as it may well be.
    most = of_rounds * (rounds - 1) / float(special.chdtri(rounds - 1, _UNLIKELY))
    terms = most**2 / (rounds - 1) + of_noise**2 / ((count - 1) * (rounds - 1))
    return of_rounds + of_noise, (most + of_noise) ** 2 / terms if terms > 0 else math.inf
