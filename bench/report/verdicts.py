"""Judge the speeds of candidates against one baseline, pairing launches of the same round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.report.configurations import Block

if TYPE_CHECKING:
    from bench.measure.intervals import Interval
    from bench.measure.verdict import Word

LEAST_ROUNDS = 2
"""With fewer rounds in common there is no spread, so no interval."""
USUAL_ROUNDS = 3
"""Rounds to ask for where nothing tells how many would do."""

Speeds = Mapping[Block, float]


@dataclass(frozen=True)
class SpeedVerdict:
    """State how much faster a candidate is than the baseline, and how sure that is."""

    word: Word
    """faster, slower, same or unclear."""
    ratio: float
    """Candidate / baseline: geometric mean over the rounds in common, else over what each has."""
    ratio_low: float | None
    """Lower end of its 95 % interval; null with fewer than two rounds in common."""
    ratio_high: float | None
    """Upper end of its 95 % interval; null with fewer than two rounds in common."""
    p_value: float | None
    """Of "within +-0.5 %", adjusted for the number of candidates; null without an interval."""
    rounds: int
    """Rounds in which both were measured."""
    rounds_needed: int | None
    """Rounds, those done included, after which an unclear verdict should be settled; null when settled or unknown."""
    note: str
    """Why there is no interval; empty when there is one."""


def judge_speeds(baseline: Speeds, candidates: Sequence[Speeds]) -> list[SpeedVerdict]:
    """Judge every candidate; faster and slower hold for all of them at once (Holm).

    Candidates measured in every round of the baseline share one estimate of the error (bench.measure.intervals), the
    others stand alone. Launches of different rounds are never paired: the machine may have changed in between.

    Args:
        baseline: valid_tokens_per_s by block, at least one.
        candidates: The same of each candidate, at least one each.
    """
    from bench.measure.verdict import judge

    intervals = _intervals(baseline, candidates)
    verdicts = iter(judge([interval for interval in intervals if interval is not None]))
    judged = []
    for speeds, interval in zip(candidates, intervals, strict=True):
        if interval is None:
            judged.append(_without_interval(baseline, speeds))
            continue
        verdict = next(verdicts)
        low, high = interval.ratio_low, interval.ratio_high
        judged.append(
            SpeedVerdict(
                verdict.word, interval.ratio, low, high, verdict.p_value, interval.blocks, verdict.blocks_needed, ""
            )
        )
    return judged


def _intervals(baseline: Speeds, candidates: Sequence[Speeds]) -> list[Interval | None]:
    from bench.measure.intervals import layout_intervals, log_ratios, pair_interval

    blocks = list(baseline)
    complete = [index for index, speeds in enumerate(candidates) if speeds.keys() >= baseline.keys()]
    pooled: dict[int, Interval] = {}
    if len(blocks) >= LEAST_ROUNDS and complete:
        layout = [[math.log(speeds[block]) for block in blocks] for speeds in (baseline, *_at(candidates, complete))]
        pairs = [(0, place + 1) for place in range(len(complete))]
        pooled = dict(zip(complete, layout_intervals(layout, pairs), strict=True))
    intervals: list[Interval | None] = []
    for index, speeds in enumerate(candidates):
        common = [block for block in blocks if block in speeds]
        if index in pooled:
            intervals.append(pooled[index])
        elif len(common) >= LEAST_ROUNDS:
            pair = log_ratios([baseline[block] for block in common], [speeds[block] for block in common])
            intervals.append(pair_interval(pair))
        else:
            intervals.append(None)
    return intervals


def _at(items: Sequence[Speeds], indices: Sequence[int]) -> list[Speeds]:
    return [items[index] for index in indices]


def _without_interval(baseline: Speeds, speeds: Speeds) -> SpeedVerdict:
    common = [block for block in baseline if block in speeds]
    logs = [math.log(speeds[block] / baseline[block]) for block in common] or [_mean_log(speeds) - _mean_log(baseline)]
    if common:
        note = "too few rounds"
    elif len(baseline) == len(speeds) == 1 and next(iter(baseline))[:-1] == next(iter(speeds))[:-1]:
        note = "too few rounds: none in common"
    else:
        note = "no round in common: not measured side by side"
    return SpeedVerdict("unclear", math.exp(sum(logs) / len(logs)), None, None, None, len(common), USUAL_ROUNDS, note)


def _mean_log(speeds: Speeds) -> float:
    return sum(map(math.log, speeds.values())) / len(speeds)
