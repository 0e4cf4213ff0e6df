"""How long updates take, sampled whole or by micro-steps, and how well that is known. No torch.

An update of A micro-steps takes t_update + A x t_micro. Where updates are long, few whole ones can be had, but many
micro-steps; the first one (it also starts the window), the last one (it also synchronises) and the optimizer step stand
apart, and the micro-steps in between are the samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from bench.statistics.stopping import MeanPrecision, precision_of

LAW_TOLERANCE = 0.01
"""Relative difference between whole updates and the law that is still agreement."""


@dataclass(frozen=True)
class UpdateTime:
    """State how long one update took [one rank]."""

    seconds: float
    """From the end of the update before to its own end [s]."""
    micro_steps: tuple[float, ...] = ()
    """Of which each micro-step took [s]; empty when only whole updates were marked."""

    @property
    def inner(self) -> tuple[float, ...]:
        """Give the micro-steps between the first and the last [s]."""
        return self.micro_steps[1:-1]

    @property
    def rest(self) -> float:
        """Give what the inner micro-steps leave: first and last micro-step, and the optimizer step [s]."""
        return self.seconds - math.fsum(self.inner)

    @property
    def samples(self) -> tuple[float, ...]:
        """Give what counts as samples: inner micro-steps where they were marked, else the whole update [s]."""
        return self.inner or (self.seconds,)


@dataclass(frozen=True)
class UpdateLaw:
    """State the two numbers that give the time of an update of any number of micro-steps."""

    update_s: float
    """Part of an update's time that does not depend on the number of micro-steps [s]."""
    micro_step_s: float
    """Time of one micro-step between the first and the last [s]."""

    def seconds(self, accumulation_steps: int) -> float:
        """Give the time of an update of so many micro-steps [s]."""
        return self.update_s + accumulation_steps * self.micro_step_s


def samples_of(times: Sequence[UpdateTime]) -> list[float]:
    """Give all samples in order [s]."""
    return [sample for time in times for sample in time.samples]


def law_of(times: Sequence[UpdateTime], *, of_medians: bool = False) -> UpdateLaw | None:
    """Fit the law to updates marked by micro-steps; None where there are none between first and last.

    `of_medians` leaves out the weight of rare slow samples, so that the law can be held against whole updates.
    """
    inner = [sample for time in times for sample in time.inner]
    if not inner:
        return None
    middle = median if of_medians else fmean
    micro_step_s = middle(inner)
    return UpdateLaw(middle([time.rest for time in times]) - 2 * micro_step_s, micro_step_s)


def is_law_met(law: UpdateLaw, updates: Sequence[UpdateTime], accumulation_steps: int) -> bool:
    """Tell whether whole updates of so many micro-steps take on average what the law says, within 1 %."""
    measured = fmean(time.seconds for time in updates)
    return abs(law.seconds(accumulation_steps) - measured) <= LAW_TOLERANCE * measured


def precision_of_updates(times: Sequence[UpdateTime], accumulation_steps: int) -> MeanPrecision:
    """Give the mean time of an update of so many micro-steps, and its relative half-width at 95 % confidence.

    Sampled by micro-steps, the half-widths of (A - 2) inner micro-steps and of the rest add up as squares; lag1 and
    spread are then those of micro-steps. The half-width is null while either part has fewer than three samples.
    """
    law = law_of(times)
    samples = precision_of(samples_of(times))
    if law is None:
        return samples
    rest = precision_of([time.rest for time in times])
    mean_s = law.seconds(accumulation_steps)
    half_width = None
    if samples.half_width is not None and rest.half_width is not None:
        inner_s = (accumulation_steps - 2) * law.micro_step_s
        half_width = math.hypot(samples.half_width * inner_s, rest.half_width * rest.mean_s) / mean_s
    return MeanPrecision(mean_s, half_width, samples.lag1, samples.spread)
