"""Rank the configurations that are in the running, and choose one of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.decide.rounds import LEAST_ROUNDS, RoundFit
from bench.decide.verdicts import SpeedVerdict, judge_against
from bench.report.configurations import Configuration
from bench.units import between, counted, format_bytes, percent

TIE_RANGE = 0.02
"""Configurations that cannot be told apart and lie within this are ties; a larger gap that is unclear stays open."""
OPEN_RANGE = 0.10
"""Without an interval, what lies within this of the fastest may be as fast: launches differ by several percent."""
MOST_JUDGED = 200
"""The fastest so many are judged with an interval; where there are more, the rest is far behind."""

Standing = Literal["tie", "open", "slower", "out"]


@dataclass(frozen=True)
class Other:
    """Hold a configuration that was not chosen."""

    configuration: Configuration
    """The configuration."""
    standing: Standing
    """tie: as fast as the choice; open: may be; slower; out: not in the running."""
    verdict: SpeedVerdict | None
    """Its speed against the choice's; null when it is out, or too far behind to be judged."""
    why: str
    """Why it was not chosen, in one line."""


def rank(running: Sequence[Configuration]) -> tuple[Configuration, list[Other]]:
    """Choose, and judge the others against the choice: ties, open ones and slower ones, the fastest of each first."""
    by_speed = sorted(running, key=lambda one: -(one.speed or 0.0))
    contenders, behind = by_speed[: MOST_JUDGED + 1], by_speed[MOST_JUDGED + 1 :]
    speeds = [one.speeds for one in contenders]
    fit = RoundFit(speeds)
    order = sorted(range(len(contenders)), key=lambda place: -fit.log_speeds[place])
    chosen = _choose(contenders, fit, order)
    choice, verdicts = contenders[chosen], judge_against(fit, speeds, chosen)
    others = []
    for place in (place for place in order if place != chosen):
        one, verdict = contenders[place], verdicts[place]
        others.append(Other(one, _standing(verdict), verdict, _why_not(choice, one, verdict)))
    standings: tuple[Standing, ...] = ("tie", "open", "slower")
    others.sort(key=lambda other: standings.index(other.standing))
    others += [Other(one, "slower", None, _far_behind(choice, one, len(contenders) - 1)) for one in behind]
    return choice, others


def _choose(contenders: Sequence[Configuration], fit: RoundFit, order: Sequence[int]) -> int:
    """Of the fastest and its ties take the one with the least memory; unknown memory never wins by it.

    What was measured in one round only does not win by a little against what was measured in more. Nothing that is
    surely faster than the choice remains: of ties, those are passed over that another one beats by its own interval.
    """
    speeds = [one.speeds for one in contenders]
    fastest = order[0]
    if len(speeds[fastest]) < LEAST_ROUNDS:
        least = -math.log(1 + OPEN_RANGE)
        sure = [place for place in order if len(speeds[place]) >= LEAST_ROUNDS]
        fastest = next((place for place in sure if fit.log_ratio(fastest, place) >= least), fastest)
    if contenders[fastest].memory_bytes is None:
        return fastest
    verdicts = judge_against(fit, speeds, fastest)
    rounds = min(len(speeds[fastest]), LEAST_ROUNDS)
    ties = [
        place
        for place in order
        if place == fastest
        or (len(speeds[place]) >= rounds and contenders[place].memory_bytes and _standing(verdicts[place]) == "tie")
    ]
    by_memory = sorted(ties, key=lambda place: contenders[place].memory_bytes or 0)
    return next(place for place in by_memory if place == fastest or not _is_beaten(fit, place, order))


def _is_beaten(fit: RoundFit, place: int, order: Sequence[int]) -> bool:
    """Whether another one is faster than this one by its own interval, however many are judged together."""
    from bench.statistics.verdict import CLEAR

    rivals = [other for other in order if fit.log_ratio(place, other) > CLEAR]
    return any((interval := fit.interval(place, other)) is not None and interval.low > CLEAR for other in rivals)


def _standing(verdict: SpeedVerdict) -> Standing:
    """Class a verdict against the choice."""
    if verdict.word == "slower":
        return "slower"
    if abs(verdict.ratio - 1) <= TIE_RANGE and verdict.rounds:
        return "tie"
    return "open" if verdict.ratio_low is not None or verdict.ratio >= 1 - OPEN_RANGE else "slower"


def _far_behind(choice: Configuration, one: Configuration, faster: int) -> str:
    ratio = (one.geometric_speed or 0.0) / (choice.geometric_speed or 1.0)
    change = f"{percent(ratio)} speed; " if ratio < 1 else ""
    return f"{change}{faster} others are faster"


def _why_not(choice: Configuration, one: Configuration, verdict: SpeedVerdict) -> str:
    from bench.statistics.verdict import CLEAR

    memory = ""
    if one.memory_bytes is not None and choice.memory_bytes is not None and one.memory_bytes != choice.memory_bytes:
        change = one.memory_bytes - choice.memory_bytes
        memory = f", {format_bytes(abs(change))} {'more' if change > 0 else 'less'} memory"
    if verdict.ratio_low is not None and verdict.ratio_high is not None:
        sure = f" ({between(verdict.ratio_low, verdict.ratio_high)})"
        if verdict.word == "unclear" and verdict.ratio_high < 1 / math.exp(CLEAR):
            sure = f" ({between(verdict.ratio_low, verdict.ratio_high)}, not significant among this many candidates)"
    else:
        sure = " (one round, no interval)" if verdict.rounds == 1 else f" ({verdict.note})"
    rounds = len(one.speeds)
    other_rounds = f", measured in {counted(rounds, 'round')}" if rounds != len(choice.speeds) else ""
    return f"{percent(verdict.ratio)} speed{sure}{memory}{other_rounds}"
