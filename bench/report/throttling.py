"""Tell whether two configurations were held back by their GPUs' power limits unalike: then it is no fair race."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from bench.report.points import Row

_DIFFERENCE = 0.10


def power_cap_warning(base: Sequence[Row], other: Sequence[Row]) -> str | None:
    """Say that the mean shares of the software power cap differ by more than 10 points; None where they do not.

    Args:
        base: Launches of the baseline.
        other: Launches of the candidate.
    """
    shares = [
        [share for row in rows if row["outcome"] == "ok" and (share := row.get("sw_power_cap_share")) is not None]
        for rows in (other, base)
    ]
    if not all(shares):
        return None
    mean, mean_base = (statistics.fmean(of_one) for of_one in shares)
    if abs(mean - mean_base) <= _DIFFERENCE:
        return None
    return f"held back by the power limit for {mean:.0%} of the timed part, and the baseline for {mean_base:.0%}"
