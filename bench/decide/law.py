"""The two-point law: what an update takes at accumulation counts that were not measured.

    update time (A) = t_update + A * t_micro        peak memory (A >= 2) = peak memory (A = 2)

A micro-step costs the same whatever the count, and the optimizer step, and the exchange of gradients, come once. With
A = 1 no gradients live beside the largest activations, so its peak is another one. Everything this file returns is a
prediction and is to be shown as one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.record.columns import COLUMNS
from bench.record.derive import full_update_s
from bench.report.configurations import BLOCK
from bench.report.machines import machine_key
from bench.report.points import Row
from bench.units import format_bytes, format_seconds

TIME_TOLERANCE = 0.01
"""A misfit of the time law below this is no failure, however sure it is."""
MEMORY_TOLERANCE = 0.01
"""Peaks of A >= 2 that differ by more than this break the memory law."""
_CONFIDENCE = 0.95
_LEVEL = 0.01
"""Level of the lack-of-fit test."""
_NOT_OF_THE_GROUP = ("accumulation_steps", "global_batch_size", "config_json")


@dataclass(frozen=True)
class Prediction:
    """Hold what is predicted for one accumulation count; nothing in it was measured."""

    accumulation_steps: int
    """Micro-batches per update on each rank."""
    update_s: float
    """Duration of an update, slowest rank [seconds]."""
    update_s_low: float | None
    """Lower end of the 95 % interval of a launch in a further round; null with one round [seconds]."""
    update_s_high: float | None
    """Upper end of that interval [seconds]."""
    peak_bytes: int | None
    """Peak allocated bytes, worst rank; null when no launch with A >= 2 (or with A = 1, for that) was measured."""
    is_extrapolated: bool
    """Whether the count lies outside the measured ones."""


@dataclass(frozen=True)
class Spread:
    """Hold the relative spread of launches around a line of two parameters: their own noise, and what rounds do to all.

    Launches of one round share what the machine did to it, so that three rounds of four launches are not twelve
    independent ones. The mean square between rounds holds both variances, that within rounds only a launch's own; a
    launch in a further round has both. Source: the approximate interval for a sum of mean squares, Satterthwaite, "An
    approximate distribution of estimates of variance components", Biometrics Bulletin 2 (1946).
    """

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
        return student_t(0.5 + _CONFIDENCE / 2, df) * math.sqrt(variance)


@dataclass(frozen=True)
class TwoPointLaw:
    """Hold the law fitted to launches that differ in nothing but the accumulation count."""

    row: Row
    """One row of the group, for its settings."""
    steps: tuple[int, ...]
    """Accumulation counts measured, rising."""
    update_s: float
    """t_update: what every update costs besides its micro-steps [seconds]."""
    micro_s: float
    """t_micro: what every micro-step adds [seconds]."""
    covariance: tuple[tuple[float, float], tuple[float, float]]
    """Covariance of the two, in units of the relative variance of a launch."""
    spread: Spread | None
    """How far launches lie off the line; null where too few were measured to tell, as with one round."""
    peak_first_bytes: int | None
    """Peak allocated bytes at A = 1; null when not measured."""
    peak_bytes: int | None
    """Peak allocated bytes at A >= 2, the largest measured; null when not measured."""
    failures: tuple[str, ...]
    """Where the law fails, in words; empty when it holds as far as the launches can tell."""

    def predict(self, accumulation_steps: int) -> Prediction:
        """Predict one accumulation count, with the 95 % interval of a launch in a further round."""
        a = accumulation_steps
        seconds = self.update_s + a * self.micro_s
        low = high = None
        if self.spread is not None:
            (uu, um), (_, mm) = self.covariance
            half = seconds * self.spread.reach((uu + 2 * a * um + a * a * mm) / seconds**2)
            low, high = max(0.0, seconds - half), seconds + half
        peak = self.peak_first_bytes if a == 1 else self.peak_bytes
        return Prediction(a, seconds, low, high, peak, not self.steps[0] <= a <= self.steps[-1])

    def sentence(self) -> str:
        """Say the law in one line."""
        peak = f"; peak {format_bytes(self.peak_bytes)} for A >= 2" if self.peak_bytes is not None else ""
        return f"update = {format_seconds(self.update_s)} + A x {format_seconds(self.micro_s)}{peak}"


def fit_laws(rows: Sequence[Row]) -> list[TwoPointLaw]:
    """Fit one law to each group of rows that differ only in accumulation count and so in global batch.

    Groups with fewer than two counts have none. Rows that are not ok, or lack a duration, are left out.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        seconds = mean_update_s(row)
        if row["outcome"] == "ok" and seconds is not None and row.get("accumulation_steps"):
            groups.setdefault(_group(row), []).append(row)
    return [_fit(group) for group in groups.values() if len({row["accumulation_steps"] for row in group}) > 1]


def mean_update_s(row: Row) -> float | None:
    """Give the mean duration of an update of a full window [seconds]; null when it was not measured.

    timed_s / updates_attempted; where the launch shortened its windows, what it measured of them says of a full one.
    """
    if row.get("time_method") == "extrapolated":
        return full_update_s(row)
    seconds, updates = row.get("timed_s"), row.get("updates_attempted")
    if seconds is None or not updates or not math.isfinite(seconds) or seconds <= 0:
        return None
    return float(seconds / updates)


def _group(row: Row) -> tuple[Any, ...]:
    names = [column.name for column in COLUMNS if column.rule == "config" and column.name not in _NOT_OF_THE_GROUP]
    return (*(row.get(name) for name in (*names, "folder", "threads_per_rank")), machine_key(row))


def _fit(group: Sequence[Row]) -> TwoPointLaw:
    """Fit by weighted least squares: launches spread in proportion to their duration, so weights are 1 / t^2."""
    counts = np.array([row["accumulation_steps"] for row in group], dtype=np.float64)
    seconds = np.array([mean_update_s(row) for row in group], dtype=np.float64)
    weights = 1 / seconds
    design = np.column_stack([weights, weights * counts])
    solution, *_ = np.linalg.lstsq(design, np.ones(len(group)), rcond=None)
    covariance = np.linalg.inv(design.T @ design)
    residuals = 1 - design @ solution
    first = [row["peak_allocated_bytes"] for row in group if row["accumulation_steps"] == 1]
    later = [row["peak_allocated_bytes"] for row in group if row["accumulation_steps"] >= 2]
    first, later = [p for p in first if p is not None], [p for p in later if p is not None]
    failures = [*_time_failures(counts, residuals, solution), *_memory_failures(later)]
    return TwoPointLaw(
        row=group[0],
        steps=tuple(sorted({int(count) for count in counts})),
        update_s=float(solution[0]),
        micro_s=float(solution[1]),
        covariance=(
            (float(covariance[0, 0]), float(covariance[0, 1])),
            (float(covariance[1, 0]), float(covariance[1, 1])),
        ),
        spread=_spread_of(residuals, [tuple(row.get(name) for name in BLOCK) for row in group]),
        peak_first_bytes=max(first, default=None),
        peak_bytes=max(later, default=None),
        failures=tuple(failures),
    )


def _spread_of(residuals: NDArray[np.float64], rounds: Sequence[Hashable]) -> Spread | None:
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


def _time_failures(counts: Any, residuals: Any, solution: Any) -> list[str]:
    """Test for lack of fit: the counts' mean misfits against the spread of launches of one count."""
    failures = []
    if solution[1] <= 0:
        failures.append(f"a micro-step would take {solution[1]:.3g} s: time does not grow with accumulation")
    levels = np.unique(counts)
    means = {level: float(residuals[counts == level].mean()) for level in levels}
    worst = max(levels, key=lambda level: abs(means[level]))
    if len(levels) < 3 or abs(means[worst]) <= TIME_TOLERANCE:
        return failures
    pure = sum(float(((residuals[counts == level] - means[level]) ** 2).sum()) for level in levels)
    pure_df = len(counts) - len(levels)
    lack = sum(float((counts == level).sum()) * means[level] ** 2 for level in levels) / (len(levels) - 2)
    if pure_df == 0:
        sure = ", which with one launch each may be noise"
    elif pure == 0 or _f_tail(lack / (pure / pure_df), len(levels) - 2, pure_df) < _LEVEL:
        sure = ""
    else:
        return failures
    failures.append(f"update time at A = {int(worst)} is off the line by {100 * means[worst]:+.1f} %{sure}")
    return failures


def _f_tail(f: float, df_above: int, df_below: int) -> float:
    from scipy import special

    return float(special.fdtrc(df_above, df_below, f))


def _memory_failures(peaks: Sequence[int]) -> list[str]:
    if not peaks or max(peaks) <= (1 + MEMORY_TOLERANCE) * min(peaks):
        return []
    return [f"peaks at A >= 2 range from {format_bytes(min(peaks))} to {format_bytes(max(peaks))}"]
