"""How far a further launch may lie off a fitted line: by its own noise, and by what its round does to all.

Launches of one round share what the machine did to it, so that three rounds of four launches are not twelve
independent ones. The residuals' mean square between rounds holds both variances, that within rounds only a launch's
own; a launch in a further round has both. Source: the approximate interval for a sum of mean squares, Satterthwaite,
"An approximate distribution of estimates of variance components", Biometrics Bulletin 2 (1946).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Spread:
    """Hold the relative spread of launches around a line of two parameters."""

    between: float
    """Mean square between rounds."""
    within: float
    """Mean square within rounds."""
    rounds: int
    """Rounds, at least two."""
    launches: int
    """Launches."""

    def reach(self, leverage: float) -> float:
        """Give half of the 95 % interval of a launch in a further round, relative to the prediction.

        Args:
            leverage: Variance of the line where it predicts, in units of a launch's variance.
        """
        from bench.statistics.intervals import student_t

        within_df, between_df = self.launches - self.rounds - 1, self.rounds - 1
        if self.between <= self.within:  # rounds differ by no more than launches do, which all tell how far that is
            df: float = within_df + between_df
            variance = (within_df * self.within + between_df * self.between) / df * (1 + leverage)
        else:
            of_rounds = (1 + 1 / self.rounds) / (self.launches / self.rounds)
            parts = (of_rounds * self.between, max(0.0, 1 + leverage - of_rounds) * self.within)
            variance = sum(parts)
            df = variance**2 / (parts[0] ** 2 / between_df + parts[1] ** 2 / within_df)
        return student_t(0.5 + CONFIDENCE / 2, df) * math.sqrt(variance)


def spread_of(residuals: NDArray[np.float64], rounds: Sequence[Hashable]) -> Spread | None:
    """Part the residuals of a line of two parameters by round; None where a mean square has no degree of freedom."""
    groups: dict[Hashable, list[float]] = {}
    for name, residual in zip(rounds, residuals.tolist(), strict=True):
        groups.setdefault(name, []).append(residual)
    between_df, within_df = len(groups) - 1, len(residuals) - len(groups) - 1
    if between_df < 1 or within_df < 1:
        return None
    means = {name: sum(group) / len(group) for name, group in groups.items()}
    between = sum(len(group) * means[name] ** 2 for name, group in groups.items()) / between_df
    within = sum((value - means[name]) ** 2 for name, group in groups.items() for value in group) / within_df
    return Spread(between, within, len(groups), len(residuals))
