"""Judge speeds: of candidates against one baseline, side by side, or of one result against an earlier one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.decide.rounds import LEAST_ROUNDS, RoundFit
from bench.report.configurations import Speeds

if TYPE_CHECKING:
    from bench.statistics.intervals import Interval
    from bench.statistics.verdict import Verdict, Word

USUAL_ROUNDS = 3
"""Rounds to ask for where nothing tells how many would do."""


@dataclass(frozen=True)
class SpeedVerdict:
    """State how much faster a candidate is than the baseline, and how sure that is."""

    word: Word
    """faster, slower, same or unclear."""
    ratio: float
    """Candidate / baseline, rounds taken off: the mean of the paired ratios where both were measured in all rounds; of
    two results, the ratio of the geometric means."""
    ratio_low: float | None
    """Lower end of its 95 % interval; null with fewer than two rounds in common."""
    ratio_high: float | None
    """Upper end of its 95 % interval; null with fewer than two rounds in common."""
    p_value: float | None
    """Of "within +-0.5 %", adjusted for the number of candidates; null without an interval."""
    rounds: int
    """Rounds in which both were measured; of two results, those of the side that has fewer."""
    rounds_needed: int | None
    """Rounds, those done included, after which an unclear verdict should be settled; null when settled or unknown."""
    note: str
    """Why there is no interval; empty when there is one."""
    interval: Interval | None = None
    """The interval itself, for what else is to be said of it; null without one."""


def judge_speeds(baseline: Speeds, candidates: Sequence[Speeds]) -> list[SpeedVerdict]:
    """Judge every candidate; faster and slower hold for all of them at once (Holm).

    All of them share one estimate of the error and of what each round did (bench.decide.rounds). Without two rounds in
    common with the baseline there is no interval: the machine may have changed in between.

    Args:
        baseline: valid_tokens_per_s by block, at least one.
        candidates: The same of each candidate, at least one each.
    """
    speeds = [baseline, *candidates]
    return judge_against(RoundFit(speeds), speeds, 0)[1:]


def judge_unpaired(pairs: Sequence[tuple[Speeds, Speeds]]) -> list[SpeedVerdict]:
    """Judge configurations that were measured before and after: rounds of two results are no pairs (Welch).

    Faster and slower hold for all of them at once (Holm). Without two rounds on both sides there is no interval.

    Args:
        pairs: valid_tokens_per_s by block before and after, at least one each, of every configuration.
    """
    from bench.statistics.unpaired import unpaired_interval
    from bench.statistics.verdict import judge

    logs = [tuple([math.log(speed) for speed in side.values()] for side in pair) for pair in pairs]
    intervals = [unpaired_interval(*sides) if min(map(len, sides)) >= LEAST_ROUNDS else None for sides in logs]
    verdicts = iter(judge([interval for interval in intervals if interval is not None]))
    judged = []
    for (before, after), interval in zip(logs, intervals, strict=True):
        if interval is None:
            ratio = math.exp(sum(after) / len(after) - sum(before) / len(before))
            rounds = min(len(before), len(after))
            judged.append(SpeedVerdict("unclear", ratio, None, None, None, rounds, USUAL_ROUNDS, "too few rounds"))
        else:
            judged.append(_with_interval(interval, next(verdicts)))
    return judged


def judge_against(fit: RoundFit, speeds: Sequence[Speeds], baseline: int) -> list[SpeedVerdict]:
    """Judge every configuration of a fit against one of them, in order; the baseline's own place says it is equal."""
    from bench.statistics.verdict import judge

    intervals = fit.intervals(baseline)
    verdicts = iter(judge([interval for interval in intervals if interval is not None]))
    judged = []
    for place, interval in enumerate(intervals):
        if interval is None:
            ratio = math.exp(fit.log_ratio(baseline, place))
            judged.append(_without_interval(speeds[baseline], speeds[place], ratio))
            continue
        judged.append(_with_interval(interval, next(verdicts)))
    return judged


def _with_interval(interval: Interval, verdict: Verdict) -> SpeedVerdict:
    return SpeedVerdict(
        word=verdict.word,
        ratio=interval.ratio,
        ratio_low=interval.ratio_low,
        ratio_high=interval.ratio_high,
        p_value=verdict.p_value,
        rounds=interval.blocks,
        rounds_needed=verdict.blocks_needed,
        note="",
        interval=interval,
    )


def _without_interval(baseline: Speeds, speeds: Speeds, ratio: float) -> SpeedVerdict:
    common = sum(block in speeds for block in baseline)
    if common:
        note = "too few rounds"
    elif len(baseline) == len(speeds) == 1 and next(iter(baseline))[:-1] == next(iter(speeds))[:-1]:
        note = "too few rounds, none in common"
    else:
        note = "no round in common: not measured side by side"
    return SpeedVerdict("unclear", ratio, None, None, None, common, USUAL_ROUNDS, note)
