"""Project a long run from a measured rate: hours, GPU-hours, updates, price, energy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.decide.rounds import Rate
from bench.report.configurations import Configuration


@dataclass(frozen=True)
class Projection:
    """State what a run of so many valid tokens takes at the measured rate, and how sure the rate is.

    Left out: start-up, checkpoints, evaluation, failures and idle GPUs.
    """

    run_tokens: int
    """Valid tokens to train on, all ranks."""
    valid_tokens_per_s: float
    """Geometric mean over rounds; where the configuration missed some, its fitted part of it [tokens/s, all ranks]."""
    valid_tokens_per_s_low: float | None
    """Lower end of its 95 % interval over rounds; null with one round."""
    valid_tokens_per_s_high: float | None
    """Upper end of its 95 % interval over rounds; null with one round."""
    rounds: int
    """Rounds in which the configuration was measured."""
    rounds_missing: int
    """Rounds in which only others were measured; what the machine did in them is fitted from those others."""
    hours: float
    """Wall time of the updates [hours]."""
    gpu_hours: float | None
    """Hours times ranks [GPU-hours; rank-hours on a CPU]; null when the number of ranks is unknown."""
    updates: int | None
    """Optimizer updates; null when tokens per update are unknown or next to nothing."""
    price: float | None
    """GPU-hours times the price of one; null without a price or a number of ranks."""
    joules: float | None
    """Tokens times measured joules per valid token, all GPUs; null when energy was not measured."""

    @property
    def hours_low(self) -> float | None:
        """Give the hours at the upper end of the rate."""
        high = self.valid_tokens_per_s_high
        return None if high is None else self.run_tokens / high / 3600

    @property
    def hours_high(self) -> float | None:
        """Give the hours at the lower end of the rate."""
        low = self.valid_tokens_per_s_low
        return None if low is None else self.run_tokens / low / 3600

    def fields(self) -> dict[str, Any]:
        """Give all figures by name, for JSON."""
        return {**vars(self), "hours_low": self.hours_low, "hours_high": self.hours_high}


def project(
    configuration: Configuration, run_tokens: int, price_per_gpu_hour: float | None, fitted: Rate | None = None
) -> Projection:
    """Project a run of `run_tokens` valid tokens; the configuration must have a speed.

    Args:
        configuration: What is run.
        run_tokens: Valid tokens, all ranks.
        price_per_gpu_hour: Price of one GPU for an hour; null for none.
        fitted: Its rate in an average round, where it was not measured in all of them; it takes the mean's place.
    """
    speed = configuration.speed
    assert speed is not None, "only what has a speed is projected"
    low, high = rate_interval(configuration.speeds)
    if fitted is not None:
        speed, low, high = fitted.tokens_per_s, fitted.low, fitted.high
    hours = run_tokens / speed / 3600
    ranks = configuration.row.get("world_size")
    gpu_hours = None if ranks is None else hours * ranks
    per_update = _mean(configuration, "valid_tokens_per_update")
    per_token = _mean(configuration, "joules_per_valid_token")
    return Projection(
        run_tokens=run_tokens,
        valid_tokens_per_s=speed,
        valid_tokens_per_s_low=low,
        valid_tokens_per_s_high=high,
        rounds=len(configuration.speeds),
        rounds_missing=0 if fitted is None else fitted.rounds_missing,
        hours=hours,
        gpu_hours=gpu_hours,
        updates=None if not per_update else _ceil(run_tokens / per_update),
        price=None if price_per_gpu_hour is None or gpu_hours is None else gpu_hours * price_per_gpu_hour,
        joules=None if per_token is None else per_token * run_tokens,
    )


def rate_interval(speeds: Mapping[Any, float]) -> tuple[float | None, float | None]:
    """Give the 95 % interval of the mean rate over rounds [tokens/s]: t on logarithms; nulls for one round."""
    if len(speeds) < 2:
        return None, None
    from bench.statistics.intervals import pair_interval

    interval = pair_interval([math.log(speed) for speed in speeds.values()])
    return interval.ratio_low, interval.ratio_high


def _ceil(value: float) -> int | None:
    return math.ceil(value) if math.isfinite(value) else None


def _mean(configuration: Configuration, column: str) -> float | None:
    values = [launch[column] for launch in configuration.launches if launch.get(column) is not None]
    values = [value for value in values if math.isfinite(value) and value > 0]
    return sum(values) / len(values) if values else None
