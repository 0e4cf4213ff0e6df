"""Make-believe launches with a known truth: times that follow each other, launches that differ, a machine that heats.

A launch has its own speed (normal, `launch_sd`), the machine slows down while it heats up, and within a launch the
noise of update times is a first-order autoregression. What the statistics say is then held against the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Floats = NDArray[np.float64]


def correlated_noise(generator: np.random.Generator, shape: tuple[int, ...], lag1: float) -> Floats:
    """Make stationary AR(1) noise of unit variance along the last axis; shape as asked."""
    shocks = generator.standard_normal(shape)
    shocks[..., 1:] *= np.sqrt(1 - lag1**2)
    noise: Floats = lfilter([1.0], [1.0, -lag1], shocks, axis=-1)
    return noise


def update_times(
    generator: np.random.Generator,
    shape: tuple[int, ...],
    noise: float,
    lag1: float,
    shape_of_time: Floats | float = 1.0,
) -> Floats:
    """Make update times around 1 s: (1 + noise x AR(1)) x a transient or drift along the last axis [s]."""
    return np.asarray((1 + noise * correlated_noise(generator, shape, lag1)) * shape_of_time)


@dataclass(frozen=True)
class Machine:
    """State how launches of one machine differ."""

    launch_sd: float = 0.006
    """Standard deviation of a launch's own speed [ratio]."""
    drift: float = 0.0
    """How much slower the machine is once hot [ratio]; it heats with a time constant of a third of the experiment."""
    noise: float = 0.005
    """Standard deviation of an update time within a launch [ratio]."""
    lag1: float = 0.6
    """Correlation of neighbouring update times."""
    updates: int = 100
    """Updates of each launch."""

    def rates(self, generator: np.random.Generator, experiments: int, true_log_rates: Floats) -> Floats:
        """Run launches in the order given; return their rates [updates/s] (experiments, launches).

        Args:
            generator: Source of chance.
            experiments: Times the whole is done.
            true_log_rates: ln of the true rate of each launch (launches,) or (experiments, launches).
        """
        launches = true_log_rates.shape[-1]
        own = self.launch_sd * generator.standard_normal((experiments, launches))
        place = np.arange(launches) / max(1, launches - 1)
        heating = 1 + self.drift * (1 - np.exp(-3 * place))
        times = update_times(generator, (experiments, launches, self.updates), self.noise, self.lag1).mean(axis=-1)
        return np.asarray(np.exp(true_log_rates + own) / (heating * times))


def paired(machine: Machine, generator: np.random.Generator, experiments: int, blocks: int, effect: float) -> Floats:
    """Run blocks AB, BA, AB, ... of a baseline A and a B that is `effect` faster; ln(B / A) (experiments, blocks)."""
    is_b = np.array([launch for block in range(blocks) for launch in ((0, 1), (1, 0))[block % 2]])
    rates = np.log(machine.rates(generator, experiments, np.log1p(effect) * is_b))
    pairs = rates.reshape(experiments, blocks, 2)
    second_is_b = np.arange(blocks) % 2 == 0
    return np.where(second_is_b, pairs[..., 1] - pairs[..., 0], pairs[..., 0] - pairs[..., 1])


def layout(
    machine: Machine,
    generator: np.random.Generator,
    configurations: int,
    rounds: int,
    spread_ratio: float = 1.0,
    effect: float = 0.0,
) -> Floats:
    """Run a sweep of configurations in shuffled rounds; ln(rate) (configurations, rounds).

    `spread_ratio` is how many times more the noisiest configuration differs between launches than the quietest. All
    are equally fast but the first, than which every other one is `effect` faster.
    """
    place = np.concatenate([generator.permutation(configurations) for _ in range(rounds)])
    spread = np.geomspace(spread_ratio**-0.5, spread_ratio**0.5, configurations)
    own = machine.launch_sd * spread[place] * generator.standard_normal(len(place)) + np.log1p(effect) * (place > 0)
    rates = np.log(replace(machine, launch_sd=0.0).rates(generator, 1, own)[0])
    result = np.empty((configurations, rounds))
    result[place, np.repeat(np.arange(rounds), configurations)] = rates
    return result


TRANSIENTS = ("first 3 updates +200 %", "decay 30 %, tau 4", "decay 5 %, tau 15", "2 % step at 25")
"""What update times may do at first."""


def transient(name: str, updates: int) -> Floats:
    """Give how many times longer than in the steady state each update takes (updates,)."""
    update = np.arange(updates)
    shapes = {
        "first 3 updates +200 %": np.where(update < 3, 3.0, 1.0),
        "decay 30 %, tau 4": 1 + 0.30 * np.exp(-update / 4),
        "decay 5 %, tau 15": 1 + 0.05 * np.exp(-update / 15),
        "2 % step at 25": np.where(update < 25, 1.02, 1.0),
        "heating 1.5 %, tau 60": 1 - 0.015 * np.exp(-update / 60),
    }
    return np.asarray(shapes[name], dtype=np.float64)
