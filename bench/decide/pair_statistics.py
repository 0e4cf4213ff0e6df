"""What else the rounds of one pair tell: how likely chance is, what would have been found, what more rounds give."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.report.configurations import Block

if TYPE_CHECKING:
    from bench.statistics.intervals import Interval

LEAST_SIGN_FLIP_ROUNDS = 6
"""With fewer rounds the exact sign-flip test cannot reach 5 %: its smallest p is 2 / 2^rounds."""
HALF_WIDTHS = (0.005, 0.01, 0.02)
"""Half-widths of an interval, relative, for which the rounds they need are told."""


@dataclass(frozen=True)
class PairStatistics:
    """Hold what the interval alone does not say."""

    sign_flip_p: float
    """Two-sided p of "neither is faster" by flipping signs, exact up to 20 rounds; of this pair alone (no Holm)."""
    detectable_change: float
    """Relative gain of speed that so many rounds would call faster in 4 of 5 comparisons, among as many candidates."""
    rounds_for: Mapping[float, int | None]
    """Half-width of the interval, relative, to the rounds that should reach it; null beyond reach."""


def pair_statistics(
    baseline: Mapping[Block, float], candidate: Mapping[Block, float], interval: Interval, comparisons: int = 1
) -> PairStatistics:
    """Give the statistics of one pair.

    Args:
        baseline: valid_tokens_per_s by block.
        candidate: The same of the candidate; at least two blocks in common.
        interval: Of the two, which may share its error with other pairs.
        comparisons: Candidates judged together.
    """
    from bench.statistics.intervals import blocks_needed, log_ratios, minimum_detectable_effect, sign_flip_p
    from bench.statistics.verdict import CLEAR

    common = [block for block in baseline if block in candidate]
    logs = log_ratios([baseline[block] for block in common], [candidate[block] for block in common])
    block_sd = interval.standard_error * math.sqrt(interval.blocks)
    return PairStatistics(
        sign_flip_p=sign_flip_p(logs),
        # What is inside 0.5 % is called neither, however sure it is.
        detectable_change=math.expm1(minimum_detectable_effect(interval, CLEAR, comparisons=comparisons)),
        rounds_for={width: blocks_needed(block_sd, math.log1p(width)) for width in HALF_WIDTHS},
    )
