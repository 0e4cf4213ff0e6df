"""Goals M1 to M4 in short: the statistics against simulated launches whose truth is known. Seeded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from benchmarks.simulate import Machine, correlated_noise, layout, paired, transient
from benchmarks.statistics_goals import Figure, coverage, drift, false_alarms, power, warm_up, within_launch


def missed(figures: Iterator[Figure], slack: float = 0.0) -> list[str]:
    """List figures outside their goals by more than what few repetitions leave to chance."""
    return [
        figure.line()
        for figure in figures
        if (figure.at_least is not None and figure.reached < figure.at_least - slack)
        or (figure.at_most is not None and figure.reached > figure.at_most + slack)
    ]


@pytest.mark.parametrize(
    ("simulate", "repetitions", "slack"),
    [
        pytest.param(false_alarms, 300, 0.0, marks=pytest.mark.slow, id="M1 false alarms"),
        pytest.param(power, 300, 0.0, id="M2 power"),
        pytest.param(coverage, 1000, 0.0, marks=pytest.mark.slow, id="M3 coverage"),
        pytest.param(within_launch, 300, 0.01, marks=pytest.mark.slow, id="M3 within a launch"),
        pytest.param(warm_up, 40, 0.0, id="M4 warm-up"),
        pytest.param(drift, 100, 0.0, id="M4 drift"),
    ],
)
def test_a_goal_is_met(simulate: Callable[[int], Iterator[Figure]], repetitions: int, slack: float) -> None:
    """Every figure with a goal keeps it."""
    assert missed(simulate(repetitions), slack) == []


def test_planted_noise_has_unit_spread_and_the_correlation_asked_for() -> None:
    """The simulation is what it says."""
    noise = correlated_noise(np.random.default_rng(1), (400, 500), 0.6)
    assert noise.std() == pytest.approx(1.0, abs=0.02)
    assert np.mean(noise[:, 1:] * noise[:, :-1]) == pytest.approx(0.6, abs=0.02)


def test_planted_pairs_hold_the_effect_whatever_runs_first() -> None:
    """A machine without noise gives the effect in every block, and drift with alternating sign."""
    still = Machine(launch_sd=0.0, noise=0.0, updates=2)
    assert paired(still, np.random.default_rng(1), 3, 4, 0.02) == pytest.approx(np.log(1.02))
    heating = Machine(launch_sd=0.0, drift=0.01, noise=0.0, updates=2)
    signs = np.sign(paired(heating, np.random.default_rng(1), 1, 4, 0.0)[0])
    assert signs.tolist() == [-1, 1, -1, 1]


def test_a_planted_sweep_puts_every_launch_in_its_place() -> None:
    """Configurations by rounds, without holes."""
    rates = layout(Machine(), np.random.default_rng(1), 5, 4)
    assert rates.shape == (5, 4)
    assert np.isfinite(rates).all()
    assert rates.std() == pytest.approx(0.006, rel=0.5)


def test_a_transient_fades() -> None:
    """After 150 updates the steady state is reached."""
    assert transient("decay 30 %, tau 4", 200)[[0, 199]].tolist() == pytest.approx([1.3, 1.0])
