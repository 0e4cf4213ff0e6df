"""What an interval allows us to claim: faster, slower, same, unclear. No torch.

A bare difference is never a win: the whole interval must clear +-0.5 %, which A/A runs of one configuration do in less
than one case of a hundred. `same` is a claim too: the whole interval must lie inside +-1 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.statistics.intervals import CONFIDENCE, Interval, blocks_needed, holm

CLEAR = math.log(1.005)
"""Log ratio that a whole interval must clear to be called faster or slower."""
EQUAL = math.log(1.01)
"""Log ratio that a whole interval must stay inside of to be called the same."""

Word = Literal["faster", "slower", "same", "unclear"]


@dataclass(frozen=True)
class Verdict:
    """State what may be said of one candidate against its baseline."""

    word: Word
    interval: Interval
    p_value: float
    """Holm-adjusted p value of "within +-0.5 %", over all candidates judged together."""
    blocks_needed: int | None
    """Blocks after which an unclear verdict should be settled; null when it is settled, or beyond reach."""


def judge(intervals: Sequence[Interval]) -> list[Verdict]:
    """Judge candidates against one baseline together: with many, faster and slower must hold for all at once.

    The rates are those of work done per second: a ratio above 1 is faster.
    """
    p_values = holm([interval.p_beyond(CLEAR) for interval in intervals])
    return [_judge(interval, p_value) for interval, p_value in zip(intervals, p_values, strict=True)]


def _judge(interval: Interval, p_value: float) -> Verdict:
    is_clear = p_value < 1 - CONFIDENCE
    if is_clear and interval.low > CLEAR:
        return Verdict("faster", interval, p_value, None)
    if is_clear and interval.high < -CLEAR:
        return Verdict("slower", interval, p_value, None)
    if interval.low > -EQUAL and interval.high < EQUAL:
        return Verdict("same", interval, p_value, None)
    return Verdict("unclear", interval, p_value, _needed(interval))


def _needed(interval: Interval) -> int | None:
    """Find the blocks after which the interval around the present estimate would clear +-0.5 % or fit into +-1 %."""
    distance = abs(interval.log_ratio)
    reach = max(distance - CLEAR, EQUAL - distance)
    block_sd = interval.standard_error * math.sqrt(interval.blocks)
    needed = blocks_needed(block_sd, reach)
    # What is unclear now for another reason (many candidates, a skewed spread) needs more than it has.
    return None if needed is None else max(needed, interval.blocks + 1)
