"""One figure, the goal it is held against, and what became of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.stats import binomtest

from bench.statistics.intervals import CONFIDENCE, Interval
from bench.units import format_seconds

Unit = Literal["share", "ratio", "s", "count", "error"]
Verdict = Literal["met", "not met", "not shown", "failed", ""]

SURE_OF_MEDIAN = 6
"""From so many samples on, the least and the most of them hold the median with 97 % confidence (1 - 2 / 2**6)."""


@dataclass(frozen=True)
class Figure:
    """State one figure reached, and the goal where there is one.

    A goal is *met* when the figure and, where asked for, the lower end of its interval keep it; *not met* when even the
    better end of the interval misses it, or there is no interval; *not shown* in between, or when nothing was measured.
    """

    number: str
    """Number of the goal, such as M1; empty where it has none."""
    what: str
    reached: float | None
    """None where it could not be measured; `note` says why."""
    at_least: float | None = None
    at_most: float | None = None
    low_at_least: float | None = None
    """Least lower end of the interval."""
    low: float | None = None
    """Ends of the figure's interval."""
    high: float | None = None
    unit: Unit = "share"
    note: str = ""
    has_failed: bool = False
    """Whether the measurement itself broke."""

    @property
    def has_goal(self) -> bool:
        """Tell whether there is anything to keep."""
        return (self.at_least, self.at_most, self.low_at_least) != (None, None, None)

    @property
    def verdict(self) -> Verdict:
        """Hold the figure against its goal."""
        if self.has_failed:
            return "failed"
        if not self.has_goal:
            return ""
        if self.reached is None:
            return "not shown"
        low = self.reached if self.low is None else self.low
        high = self.reached if self.high is None else self.high
        if self._keeps(self.reached) and (self.low_at_least is None or low >= self.low_at_least):
            return "met"
        at_best = [end for end in (low, self.reached, high) if self._keeps(end)]
        within_reach = self.low_at_least is None or high >= self.low_at_least
        return "not shown" if at_best and within_reach and (self.low, self.high) != (None, None) else "not met"

    @property
    def goal(self) -> str:
        """Write the goal as text; empty without one."""
        if self.at_least is not None and self.at_least == self.at_most:
            return f"= {self.text(self.at_least)}"
        if self.at_least is not None and self.at_most is not None:
            return f"{self.text(self.at_least)} to {self.text(self.at_most)}"
        limits = [f">= {self.text(self.at_least)}" if self.at_least is not None else ""]
        limits += [f"<= {self.text(self.at_most)}" if self.at_most is not None else ""]
        limits += [f"lower end >= {self.text(self.low_at_least)}" if self.low_at_least is not None else ""]
        return ", ".join(limit for limit in limits if limit)

    @property
    def interval(self) -> str:
        """Write the ends of the interval; empty without one."""
        return "" if self.low is None or self.high is None else f"{self.text(self.low)} to {self.text(self.high)}"

    def text(self, value: float | None) -> str:
        """Write a value in the figure's unit; '-' for none."""
        if value is None:
            return "-"
        if self.unit == "s":
            return format_seconds(value)
        return {"share": f"{value:.2%}", "ratio": f"{value:.3f}", "count": f"{value:,.0f}"}.get(
            self.unit, f"{value:.1e}"
        )

    def line(self) -> str:
        """Write the figure as one line of text."""
        goal = f"goal {self.goal}: {self.verdict}" if self.has_goal else ""
        parts = [self.number, self.what, self.text(self.reached), self.interval, goal, self.note]
        return "  ".join(part for part in parts if part)

    def _keeps(self, value: float) -> bool:
        high_enough = self.at_least is None or value >= self.at_least
        return high_enough and (self.at_most is None or value <= self.at_most)


def ratio_figure(
    what: str, interval: Interval, at_least: float | None, low_at_least: float | None, note: str = ""
) -> Figure:
    """Make the figure of a ratio from the interval of its log ratios."""
    return Figure(
        "",
        what,
        interval.ratio,
        at_least=at_least,
        low_at_least=low_at_least,
        low=interval.ratio_low,
        high=interval.ratio_high,
        unit="ratio",
        note=note,
    )


def share_figure(
    number: str, what: str, share: float, count: int, at_least: float | None = None, at_most: float | None = None
) -> Figure:
    """Make the figure of a share of so many independent cases, with Wilson's 95 % interval of a proportion."""
    interval = binomtest(round(share * count), count).proportion_ci(CONFIDENCE, method="wilson")
    return Figure(number, what, share, at_least, at_most, low=float(interval.low), high=float(interval.high))


def median_figure(what: str, samples: Sequence[float], at_most: float | None = None, number: str = "") -> Figure:
    """Make the figure of a duration: the median, between the least and the most of the samples [s]."""
    sure = len(samples) >= SURE_OF_MEDIAN
    return Figure(
        number,
        what,
        statistics.median(samples),
        at_most=at_most,
        low=min(samples) if sure else None,
        high=max(samples) if sure else None,
        unit="s",
        note=f"median of {len(samples)}",
    )
