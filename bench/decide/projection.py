"""Project a long run from measured costs per token: hours, GPU-hours, updates, price, energy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.decide.per_token import Amount, MeanCost, joules_of, mean_cost, seconds_of
from bench.report.configurations import Configuration
from bench.report.work_rate import per_update, unit_of


@dataclass(frozen=True)
class Projection:
    """State what a run of so many valid tokens, or units, takes at the measured cost of one, and how sure that is.

    Left out: start-up, checkpoints, evaluation, failures and idle GPUs.
    """

    run_tokens: int
    """Valid tokens to train on, all ranks."""
    seconds: MeanCost
    """Seconds per valid token, all ranks together: mean over rounds."""
    valid_tokens_per_s_geometric_mean: float
    """Geometric mean of the measured rounds' rates, which ratios are made of [tokens/s, all ranks]."""
    unit: str
    """What a token stands for here: token, example or weight."""
    hours: Amount
    """Wall time of the updates [hours]."""
    gpu_hours: Amount | None
    """Hours times ranks [GPU-hours; rank-hours on a CPU]; null when the number of ranks is unknown."""
    updates: int | None
    """Optimizer updates; null when tokens per update are unknown or next to nothing."""
    price: Amount | None
    """GPU-hours times the price of one; null without a price or a number of ranks."""
    joules: Amount | None
    """Tokens times mean joules per valid token over rounds, all GPUs; null when energy was not measured."""

    @property
    def rounds(self) -> int:
        """Count the rounds in which the configuration was measured."""
        return self.seconds.rounds

    @property
    def rounds_missing(self) -> int:
        """Count the rounds in which only others were measured."""
        return self.seconds.rounds_missing

    @property
    def valid_tokens_per_s(self) -> float:
        """Give tokens / seconds over all rounds, the harmonic mean of their rates [tokens/s, all ranks]."""
        return 1 / self.seconds.mean

    @property
    def valid_tokens_per_s_low(self) -> float | None:
        """Give the lower end of its 95 % interval; null with one round."""
        return None if self.seconds.high is None else 1 / self.seconds.high

    @property
    def valid_tokens_per_s_high(self) -> float | None:
        """Give the upper end of its 95 % interval; null with one round, or where nothing bounds it."""
        return 1 / self.seconds.low if self.seconds.low else None

    def fields(self) -> dict[str, Any]:
        """Give all figures by name, for JSON; an amount has its interval beside it."""
        of_tokens = {
            "valid_tokens_per_s": self.valid_tokens_per_s,
            "valid_tokens_per_s_low": self.valid_tokens_per_s_low,
            "valid_tokens_per_s_high": self.valid_tokens_per_s_high,
            "valid_tokens_per_s_geometric_mean": self.valid_tokens_per_s_geometric_mean,
            "seconds_per_valid_token": self.seconds.mean,
            "seconds_per_valid_token_low": self.seconds.low,
            "seconds_per_valid_token_high": self.seconds.high,
        }
        told: dict[str, Any] = {
            "run_tokens": self.run_tokens,
            "unit": self.unit,
            "units_per_s": self.valid_tokens_per_s,
            "units_per_s_low": self.valid_tokens_per_s_low,
            "units_per_s_high": self.valid_tokens_per_s_high,
            **{name: value if self.unit == "token" else None for name, value in of_tokens.items()},
            "rounds": self.rounds,
            "rounds_missing": self.rounds_missing,
            "updates": self.updates,
        }
        for name in ("hours", "gpu_hours", "price", "joules"):
            found: Amount | None = getattr(self, name)
            ends = (None, None, None) if found is None else (found.amount, found.low, found.high)
            told |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
        return told


def project(
    configuration: Configuration,
    run_tokens: int,
    price_per_gpu_hour: float | None,
    beside: Sequence[Configuration] = (),
) -> Projection:
    """Project a run of `run_tokens` valid tokens; the configuration must have a speed.

    Args:
        configuration: What is run.
        run_tokens: Valid tokens, all ranks.
        price_per_gpu_hour: Price of one GPU for an hour; null for none.
        beside: Other configurations of the same problem on the same machine, which tell what each round did.
    """
    geometric = configuration.geometric_speed
    assert geometric is not None, "only what has a speed is projected"
    seconds = mean_cost(seconds_of(configuration), [seconds_of(one) for one in beside])
    spent = joules_of(configuration)
    joules = mean_cost(spent, [found for one in beside if (found := joules_of(one))]) if spent else None
    ranks = configuration.row.get("world_size")
    per_update = _mean(configuration)
    hours = run_tokens / 3600
    price = None if price_per_gpu_hour is None or ranks is None else seconds.of(hours * ranks * price_per_gpu_hour)
    return Projection(
        run_tokens=run_tokens,
        unit=unit_of(configuration.row),
        seconds=seconds,
        valid_tokens_per_s_geometric_mean=geometric,
        hours=seconds.of(hours),
        gpu_hours=None if ranks is None else seconds.of(hours * ranks),
        updates=None if not per_update else _ceil(run_tokens / per_update),
        price=price,
        joules=None if joules is None else joules.of(run_tokens),
    )


def _ceil(value: float) -> int | None:
    return math.ceil(value) if math.isfinite(value) else None


def _mean(configuration: Configuration) -> float | None:
    values = [found for launch in configuration.launches if (found := per_update(launch)) is not None]
    values = [value for value in values if math.isfinite(value) and value > 0]
    return sum(values) / len(values) if values else None
