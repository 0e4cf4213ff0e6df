"""How unequal the ranks are before they wait for each other: an all-reduce makes whole updates equally long on all."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.rank.protocol import Observations
from bench.rank.workbench import Workbench
from bench.statistics.stopping import precision_of


@dataclass(frozen=True)
class RankSpread:
    """State how long a micro-step without an exchange takes on the slowest and on the fastest rank."""

    excess: float
    """Mean of the slowest rank / mean of the fastest - 1 [ratio]."""
    slowest_at_least_s: float
    """Lower end of the 95 % interval of the slowest rank's mean [s]; 0 below three micro-steps."""
    fastest_at_most_s: float
    """Upper end of that of the fastest rank's mean [s]; infinite below three micro-steps."""


def rank_spread(bench: Workbench, observed: Observations) -> RankSpread | None:
    """Compare the inner micro-steps of all ranks, which call it together; None where there are none to compare.

    Inner ones lie between a window's first, which starts it, and its last, which synchronises. Where updates are long,
    those of the timed part were marked; else those of the memory pass are, which is not timed.
    """
    if bench.ranks.world_size == 1 or bench.trial.config.gradient_sync == "every":
        return None
    times = observed.times("timed" if observed.pace.by_micro_steps else "memory")
    inner = [sample for time in times for sample in time.inner]
    known = precision_of(inner) if inner else None
    mean_s = math.nan if known is None else known.mean_s
    half_width = math.inf if known is None or known.half_width is None else known.half_width
    lower_s = 0.0 if half_width >= 1 else mean_s * (1 - half_width)
    is_unknown, longest_s, shortest_s, slowest_at_least_s, fastest_at_most_s = bench.ranks.max(
        [float(known is None), mean_s, -mean_s, lower_s, -mean_s * (1 + half_width)]
    )
    if is_unknown:
        return None
    return RankSpread(longest_s / -shortest_s - 1, slowest_at_least_s, -fastest_at_most_s)
